//! Tracks: steps in order, side by side with other tracks, while the loop goes on.
//!
//! # Guarantees
//! 1. A track whose subject is running already is ignored.
//! 2. A running track that a newer plan lacks stops at its next step boundary.
//! 3. Before a step counts as ended, the servers that it changed have been asked anew.
//! 4. One track's end, good or bad, touches no other; it wakes the loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use vko_wit::observation::{Observed, OutcomeKind};
use vko_wit::planning::{Operation, Track};

use super::{ExecuteError, names, step};
use crate::probe::Depth;
use crate::site::Site;
use crate::world::World;

/// A server that gives no answer for so long holds up its track no longer.
const ASKED_WITHIN: Duration = Duration::from_secs(1);

/// What a finished step left to be told.
pub type Told = Arc<dyn Fn(StepReport) + Send + Sync>;

/// A step's end, for events, metrics and the journal.
#[derive(Debug, Clone)]
pub struct StepReport {
    /// Track.
    pub subject: String,
    /// Operation.
    pub operation: &'static str,
    /// Why the policy wanted it.
    pub reason: String,
    /// How it ended.
    pub result: Result<(), ExecuteError>,
}

/// The running tracks of one instance.
#[derive(Default)]
pub struct Tracks(BTreeMap<String, Running>);

struct Running {
    track: Track,
    stop: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

impl Drop for Tracks {
    fn drop(&mut self) {
        // The Lease is lost or the instance is gone: nothing more may be sent.
        self.0.values().for_each(|running| running.handle.abort());
    }
}

impl Tracks {
    /// The tracks that run, as they were started.
    pub fn running(&mut self) -> Vec<Track> {
        self.0.retain(|_, running| !running.handle.is_finished());
        self.0.values().map(|running| running.track.clone()).collect()
    }

    /// Starts the plan's tracks, and stops those that it lacks at their next step.
    pub fn follow<W: World>(&mut self, site: &Arc<Site<W>>, observed: &Arc<Observed>, tracks: Vec<Track>, told: &Told) {
        self.running();
        for (subject, running) in &self.0 {
            let wanted = tracks.iter().any(|track| &track.subject == subject);
            running.stop.store(!wanted, Ordering::Relaxed);
        }
        for track in tracks {
            if track.steps.is_empty() || self.0.contains_key(&track.subject) {
                continue;
            }
            let stop = Arc::new(AtomicBool::new(false));
            let handle = tokio::spawn(run(site.clone(), observed.clone(), track.clone(), stop.clone(), told.clone()));
            self.0.insert(track.subject.clone(), Running { track, stop, handle });
        }
    }
}

async fn run<W: World>(site: Arc<Site<W>>, observed: Arc<Observed>, track: Track, stop: Arc<AtomicBool>, told: Told) {
    for wanted in &track.steps {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let operation = names::operation(&wanted.operation);
        let result = step::run(&*site, &observed, wanted).await;
        // Else the next look starts from what was before, and asks for the same once more.
        let servers = touched(&site, &wanted.operation);
        site.memory.again.ask(&*site.world, &servers, Depth::Wholly, ASKED_WITHIN).await;
        site.outcomes.note(site.world.monotonic(), operation, &track.subject, outcome(&result));
        let failed = result.is_err();
        told(StepReport { subject: track.subject.clone(), operation, reason: wanted.reason.clone(), result });
        if failed {
            break;
        }
    }
    site.wake.notify_one();
}

/// The servers that an operation changes. Steps at Sentinels read them back into the memory themselves.
fn touched<W: World>(site: &Site<W>, operation: &Operation) -> Vec<String> {
    match operation {
        Operation::Follow(order) => vec![order.pod.clone(), order.primary.clone()],
        Operation::HandOver(order) => vec![order.primary.clone(), order.replica.clone()],
        Operation::Meet(pair) => vec![pair.pod.clone(), pair.peer.clone()],
        Operation::Detach(pod)
        | Operation::Promote(pod)
        | Operation::DropClients(pod)
        | Operation::Save(pod)
        | Operation::BumpEpoch(pod)
        | Operation::ResetEmpty(pod) => vec![pod.clone()],
        Operation::Fence(setting) => vec![setting.pod.clone()],
        Operation::Replicate(order) => vec![order.pod.clone()],
        Operation::OwnSlots(order) => vec![order.pod.clone()],
        Operation::TakeOver(order) => vec![order.replica.clone()],
        Operation::SettleSlots(order) => vec![order.pod.clone()],
        Operation::Forget(_) => site.all_targets().into_iter().map(|(pod, ..)| pod).collect(),
        _ => Vec::new(),
    }
}

fn outcome(result: &Result<(), ExecuteError>) -> OutcomeKind {
    match result {
        Ok(()) => OutcomeKind::Done,
        Err(error) if error.is_dropped() => OutcomeKind::Dropped(error.to_string()),
        Err(error) => OutcomeKind::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
