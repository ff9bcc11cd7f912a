//! The loop of one instance: one task, woken by changes, by servers, by tracks that end, by policies that come and go, and by the
//! time that a plan asked for.
//!
//! # Guarantees
//! 1. One look at a time; a look has no blocking wait but the deadlines of its requests.
//! 2. A panic or an error in one instance's look ends that look and no other instance's.
//! 3. A quiet instance costs no API request; it is looked at again every ten minutes. A busy one rests as long as it works
//!    ([`rest`]).
//! 4. When the Lease is lost the task is dropped, with its probes and tracks, in the middle of whatever it did.
//!
//! # Flow of a look
//! 1. Whose instance it is ([`topology`]); ending, if something is being deleted ([`ending`]).
//! 2. Valkey → topology object ([`translation`]); or, of Sentinels that stand alone, what their object leaves out ([`standing`]).
//! 3. Accounts and probes ([`setup`]); who wasn't asked for long is asked now.
//! 4. OBSERVE, and what the ledger learns from it ([`learn`]).
//! 5. PLAN and GUARD ([`decide`], [`crate::governor`]).
//! 6. EXECUTE: labels first (nothing else may keep a Service on the wrong pod), objects, what running pods have mounted, tracks
//!    ([`act`]).
//! 7. REPORT: the topology object, a Sentinel beside it ([`view`]), then the Valkey ([`finish`], [`crate::report`]).

mod act;
mod decide;
pub(crate) mod ending;
mod finish;
mod gather;
mod learn;
mod leaving;
mod look;
mod rest;
mod setup;
mod standing;
#[cfg(test)]
mod tests;
mod told;
mod topology;
mod translation;
mod view;
mod volumes;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use vko_api::images::Images;

use crate::allowance::Allowance;
use crate::detached::Detached;
use crate::execute::tracks::Tracks;
use crate::former::Former;
use crate::governor::Governor;
use crate::journal::Journal;
use crate::lease::LeaseState;
use crate::ledger::Ledger;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::orphan::Orphans;
use crate::probe::Probes;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::site::Site;
use crate::world::World;

use self::rest::{LOOKS, rest, worked};
use self::volumes::Volumes;

/// Between looks at a quiet instance, whatever happens.
const LOOK_ANYWAY: Duration = Duration::from_secs(600);
/// After a look that failed (the API server didn't answer, say).
const LOOK_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// What all instances share.
pub struct Shared<W> {
    /// The world.
    pub world: Arc<W>,
    /// Settings of the process.
    pub settings: Arc<Settings>,
    /// Images of the server lines.
    pub images: Arc<Images>,
    /// Whether we may act.
    pub lease: LeaseState,
    /// The policies.
    pub registry: Arc<Registry>,
    /// Metrics.
    pub metrics: Metrics,
}

/// Names an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace.
    pub namespace: String,
    /// Name of the Valkey and of its topology object.
    pub name: String,
}

/// One instance, between looks.
pub struct Instance<W> {
    shared: Arc<Shared<W>>,
    key: Key,
    wake: Arc<Notify>,
    journal: Arc<Journal>,
    started: Duration,
    probes: Probes<W>,
    memory: Arc<Memory>,
    detached: Detached,
    orphans: Orphans,
    former: Former,
    volumes: Volumes,
    tracks: Tracks,
    governor: Option<Governor>,
    site: Option<Arc<Site<W>>>,
    /// Ledger of a topology object that was deleted while its Valkey lives: its successor gets it.
    rescued: Option<Ledger>,
    /// When, by the monotonic clock, an ending instance was first seen without StatefulSets.
    sets_gone: Option<Duration>,
    /// JSON of the last plan, for the journal.
    last_plan: String,
    /// What the policy and the guard took of this look, on another thread.
    deciding: Duration,
    /// Why the Sentinel object beside the topology object isn't as it should be, as people were told; empty if it is.
    unseen: String,
}

/// What comes after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Look again after this time, or when woken.
    After(Duration),
    /// There is nothing left to look at.
    Gone,
}

impl<W: World> Instance<W> {
    /// A new one. `cut_sessions`: the former leader ended without a word.
    pub fn new(shared: Arc<Shared<W>>, key: Key, wake: Arc<Notify>, journal: Arc<Journal>, cut_sessions: bool) -> Self {
        let memory = Arc::new(Memory::default());
        Self {
            started: shared.world.monotonic(),
            probes: Probes::new(shared.world.clone(), memory.clone(), wake.clone(), cut_sessions),
            shared,
            key,
            wake,
            journal,
            memory,
            detached: Detached::default(),
            orphans: Orphans::default(),
            former: Former::default(),
            volumes: Volumes::default(),
            tracks: Tracks::default(),
            governor: None,
            site: None,
            rescued: None,
            sets_gone: None,
            last_plan: String::new(),
            deciding: Duration::ZERO,
            unseen: String::new(),
        }
    }

    /// Looks until there is nothing left to look at, and says so in `ended`. Whoever wakes an instance holds that lock meanwhile,
    /// so a wake is either met by another look or finds the end.
    pub async fn run(mut self, ended: Arc<Mutex<bool>>) {
        let mut policies = self.shared.registry.subscribe();
        let mut looks = Allowance::new(LOOKS);
        loop {
            looks.spend(self.shared.world.monotonic());
            // What a panic leaves half-done is what any early end leaves: the next look starts from what is observed.
            let world = self.shared.world.clone();
            let (looked, work) = worked(AssertUnwindSafe(self.look()).catch_unwind(), || world.monotonic()).await;
            let (rest, rested_from) = (rest(work + std::mem::take(&mut self.deciding)), world.monotonic());
            let next = match looked {
                Ok(Ok(next)) => next,
                Ok(Err(error)) => {
                    tracing::warn!(namespace = self.key.namespace, instance = self.key.name, %error, "this look ended early");
                    Next::After(LOOK_AFTER_FAILURE)
                }
                Err(_) => {
                    tracing::error!(
                        namespace = self.key.namespace,
                        instance = self.key.name,
                        "this look panicked; please report it"
                    );
                    Next::After(LOOK_AFTER_FAILURE)
                }
            };
            let Next::After(time) = next else {
                let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                if self.wake.notified().now_or_never().is_some() {
                    continue;
                }
                *ended = true;
                return;
            };
            tokio::select! {
                () = self.wake.notified() => {}
                _ = policies.changed() => {}
                () = world.sleep(time.min(LOOK_ANYWAY)) => {}
            }
            let now = world.monotonic();
            let left = rest.saturating_sub(now.saturating_sub(rested_from)).max(looks.wait(now));
            if !left.is_zero() {
                world.sleep(left).await;
            }
        }
    }
}
