//! The light probe: one round trip per server and interval on the server's lasting connection; more only where the answer is
//! news.
//!
//! # Guarantees
//! 1. A quiet server is asked once in 5 s, every second while something is wrong or in motion.
//! 2. One silent server delays nobody: each has a task of its own.
//! 3. The loop is woken only by changes that a decision could depend on.
//! 4. A word of any Sentinel makes all servers and Sentinels be asked at once, whatever the interval.
//! 5. Whatever the interval, nothing is decided on the answer to a question of long ago, nor on one from before the ledger came
//!    to name another primary ([`Probes::refresh`]).
//! 6. Of Sentinels that others share, only what concerns the instance is news.
//! 7. After each step the servers that it changed are asked wholly, before the next look. This, 4 and 5 are one thing
//!    ([`Again`]).
//!
//! # Flow
//! 1. The instance hands in its servers (`follow`); tasks start for new ones and end for those that are gone.
//! 2. Each task asks, notes the outcome in the memory, wakes the loop if it changed, and waits for the interval or a wish.
//! 3. Beside a Sentinel's, one more listens to what it publishes, and wishes that all be asked.

mod again;
mod ask;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use vko_model::info::Info;

use self::again::Turn;
pub use self::again::{Again, Depth};
use self::ask::Prober;
pub(crate) use self::ask::whole_sentinel;
use crate::command::{Command, Reply, SentinelEvent};
use crate::memory::Memory;
use crate::world::{ServerError, Target, World};

/// Between probes of a quiet server (target: at most one command per 5 s).
pub const QUIET: Duration = Duration::from_secs(5);
/// Between probes while something is wrong or in motion.
pub const ALERT: Duration = Duration::from_secs(1);
/// A server that doesn't answer INFO within this is silent. A fork or a slow disk takes hundreds of milliseconds.
pub const DEADLINE: Duration = Duration::from_secs(2);
/// Who was asked longer ago than this is asked again before a look: a quiet server with the shortest quiet interval never is, be
/// it silent at the next question.
const ASKED_AGE_MAX: Duration = Duration::from_millis(7_500);
/// Between two tries to listen to a Sentinel.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// What a server is, and so what it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A data server.
    Data,
    /// One in cluster mode.
    Cluster,
    /// A Sentinel, with the name under which it should watch this instance's data set; `None`: it stands alone, and what it
    /// watches is the business of others.
    Sentinel(Option<String>),
}

/// A server to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Where it is.
    pub target: Target,
    /// What it is.
    pub asked: Asked,
    /// Others use it, too, and may log in to it as we do.
    pub shared: bool,
}

/// The probes of one instance.
pub struct Probes<W> {
    world: Arc<W>,
    memory: Arc<Memory>,
    wake: Arc<Notify>,
    pace: watch::Sender<Duration>,
    tasks: BTreeMap<String, Task>,
    cut_sessions: bool,
}

struct Task {
    subject: Subject,
    handles: Vec<JoinHandle<()>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handles.iter().for_each(JoinHandle::abort);
    }
}

impl<W: World> Probes<W> {
    /// No probes yet. `cut_sessions`: a former leader may still hold connections (it ended without a word), so each server's
    /// other sessions of the operator's account are ended before anything else is sent there.
    pub fn new(world: Arc<W>, memory: Arc<Memory>, wake: Arc<Notify>, cut_sessions: bool) -> Self {
        Self { world, memory, wake, pace: watch::channel(ALERT).0, tasks: BTreeMap::new(), cut_sessions }
    }

    /// Probes exactly these servers.
    pub fn follow(&mut self, subjects: Vec<Subject>) {
        let wanted: BTreeMap<&str, &Subject> = subjects.iter().map(|subject| (subject.target.pod.as_str(), subject)).collect();
        let gone: Vec<String> = self.tasks.keys().filter(|pod| !wanted.contains_key(pod.as_str())).cloned().collect();
        self.tasks.retain(|pod, task| wanted.get(pod.as_str()).is_some_and(|subject| **subject == task.subject));
        self.memory.keep_only(&wanted.keys().map(|pod| (*pod).to_owned()).collect::<Vec<_>>());
        if !gone.is_empty() {
            self.world.forget(&gone);
        }
        for subject in subjects {
            if !self.tasks.contains_key(&subject.target.pod) {
                let task = self.start(subject);
                self.tasks.insert(task.subject.target.pod.clone(), task);
            }
        }
    }

    /// Sets the interval.
    pub fn set_pace(&self, interval: Duration) {
        self.pace.send_if_modified(|pace| std::mem::replace(pace, interval) != interval);
    }

    /// Asks all servers if some weren't asked for long, else those that answer and said it before `named`, when the ledger came
    /// to name whom it names; and waits for their outcomes, for as long as one question may take. Who was never asked is not
    /// waited for: a pod that starts has nothing to say.
    pub async fn refresh(&self, named: Duration) {
        let then = self.world.monotonic().saturating_sub(ASKED_AGE_MAX);
        let asked = self.memory.asked();
        let due = if asked.iter().any(|(_, at)| *at < then) {
            asked.into_iter().map(|(pod, _)| pod).collect()
        } else {
            self.memory.answered_before(named)
        };
        if !due.is_empty() {
            self.memory.again.ask(&*self.world, &due, Depth::Lightly, DEADLINE).await;
        }
    }

    fn start(&self, subject: Subject) -> Task {
        let prober = Prober::new(self.world.clone(), subject.clone(), self.cut_sessions);
        let probe = Probe {
            memory: self.memory.clone(),
            wake: self.wake.clone(),
            pace: self.pace.subscribe(),
            turn: self.memory.again.register(&subject.target.pod),
            prober,
        };
        let mut handles = vec![tokio::spawn(probe.run())];
        if let Asked::Sentinel(monitor) = &subject.asked {
            let (world, memory, target) = (self.world.clone(), self.memory.clone(), subject.target.clone());
            handles.push(tokio::spawn(Listener { world, memory, target, monitor: monitor.clone() }.run()));
        }
        Task { subject, handles }
    }
}

struct Probe<W> {
    memory: Arc<Memory>,
    wake: Arc<Notify>,
    pace: watch::Receiver<Duration>,
    turn: Turn,
    prober: Prober<W>,
}

impl<W: World> Probe<W> {
    async fn run(mut self) {
        loop {
            let interval = *self.pace.borrow_and_update();
            let asked = self.prober.world.monotonic();
            // A wish from here on has it asked once more: this answer may be from before.
            let wish = self.turn.wish();
            let alert = wish.depth.is_some() || interval <= ALERT;
            let outcome = self.prober.ask(alert, wish.depth == Some(Depth::Wholly)).await;
            let world = &self.prober.world;
            if self.memory.note(&self.prober.subject.target.pod, asked, world.monotonic(), outcome) {
                self.wake.notify_one();
            }
            self.turn.meet(wish);
            tokio::select! {
                () = self.turn.wished() => {}
                () = world.sleep(interval) => {}
                changed = self.pace.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Listens to one Sentinel. Events wake and prove nothing: what they say is asked of the servers.
struct Listener<W> {
    world: Arc<W>,
    memory: Arc<Memory>,
    target: Target,
    monitor: Option<String>,
}

impl<W: World> Listener<W> {
    async fn run(self) {
        loop {
            if let Ok(mut events) = self.world.subscribe(&self.target).await {
                // What was published before is missed.
                self.memory.again.ask_all();
                while let Some(event) = events.recv().await {
                    if concerns(self.monitor.as_deref(), &event) {
                        tracing::debug!(
                            pod = self.target.pod,
                            channel = event.channel,
                            message = event.message,
                            "a Sentinel says"
                        );
                        self.memory.again.ask_all();
                    }
                }
            }
            self.world.sleep(LISTEN_AGAIN).await;
        }
    }
}

/// Whether an event is about this data set or about the Sentinel itself, or stands for some that were missed. A Sentinel may
/// watch many others.
fn concerns(monitor: Option<&str>, event: &SentinelEvent) -> bool {
    let itself = event.channel.ends_with("tilt") || *event == SentinelEvent::missed();
    itself || monitor.is_some_and(|name| event.message.split_ascii_whitespace().any(|word| word == name))
}

/// One light probe of a data server, in whichever mode.
///
/// # Errors
/// The server's.
pub async fn light_probe<W: World>(world: &W, target: &Target) -> Result<Info, ServerError> {
    match world.call(target, Command::LightProbe, DEADLINE).await? {
        Reply::Text(text) => Ok(Info::parse(&text)),
        other => Err(ServerError::Unexpected(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_events_concern_an_instance() {
        let switch = "mymaster 10.0.0.1 6379 10.0.0.2 6379";
        let cases = [
            ("its own switch", Some("mymaster"), "+switch-master", switch, true),
            ("another one's switch", Some("shop.x"), "+switch-master", switch, false),
            ("a replica of its own", Some("shop.x"), "+sdown", "slave 10.0.0.2:6379 10.0.0.2 6379 @ shop.x 10.0.0.1 6379", true),
            ("a name that begins alike", Some("shop.x"), "+sdown", "master shop.xy 10.0.0.1 6379", false),
            ("the Sentinel stood still", Some("shop.x"), "+tilt", "#tilt mode entered", true),
            ("Sentinels that stand alone watch nothing of their own", None, "+switch-master", switch, false),
            ("but they stand still", None, "-tilt", "#tilt mode exited", true),
        ];
        for (case, monitor, channel, message, expected) in cases {
            let event = SentinelEvent { channel: channel.into(), message: message.into() };
            assert_eq!(concerns(monitor, &event), expected, "{case}");
        }
        assert!(concerns(Some("shop.x"), &SentinelEvent::missed()), "it may have been anything");
    }
}
