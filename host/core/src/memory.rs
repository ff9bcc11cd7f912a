//! What the host remembers of each server between looks: the last answer and its age, since when it is silent, and whether it was
//! synced in this run. In memory only; what must survive a restart is in the ledger.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use vko_model::address::Address;
use vko_model::info::{AttachedReplica, Info, ReplicaState, Role};

use crate::world::ServerError;

/// One server's past, by the UID of its pod.
#[derive(Debug, Clone, Default)]
pub struct ServerMemory {
    /// The last answer to a light probe.
    pub info: Option<Info>,
    /// When it arrived (monotonic).
    pub answered_at: Option<Duration>,
    /// When the present series of failures began; `None` while it answers.
    pub failing_since: Option<Duration>,
    /// The newest failure.
    pub error: Option<ServerError>,
    /// Run id under which a replica's link was seen up with no sync in progress.
    pub synced_run: Option<String>,
}

/// All servers of an instance.
#[derive(Debug, Default)]
pub struct Memory(Mutex<BTreeMap<String, ServerMemory>>);

impl Memory {
    /// A copy of everything.
    pub fn snapshot(&self) -> BTreeMap<String, ServerMemory> {
        self.lock().clone()
    }

    /// Forgets servers whose pods are gone.
    pub fn keep_only(&self, pods: &[String]) {
        self.lock().retain(|pod, _| pods.contains(pod));
    }

    /// Takes a probe's outcome in. Returns whether anything that a decision could depend on has changed; offsets alone don't count.
    pub fn note(&self, pod: &str, now: Duration, outcome: Result<Info, ServerError>) -> bool {
        let mut all = self.lock();
        let server = all.entry(pod.to_owned()).or_default();
        match outcome {
            Ok(info) => server.note_answer(now, info),
            Err(error) => server.note_failure(now, error),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ServerMemory>> {
        // A panic elsewhere while holding the lock can't leave a map half-written that matters: entries are replaced whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerMemory {
    fn note_answer(&mut self, now: Duration, info: Info) -> bool {
        let changed = self.failing_since.is_some() || self.info.as_ref().map(Shape::of) != Some(Shape::of(&info));
        if info.role == Some(Role::Replica) && info.link_up == Some(true) && info.sync_in_progress == Some(false) {
            self.synced_run.clone_from(&info.run_id);
        }
        self.info = Some(info);
        self.answered_at = Some(now);
        self.failing_since = None;
        self.error = None;
        changed
    }

    fn note_failure(&mut self, now: Duration, error: ServerError) -> bool {
        let changed = self.failing_since.is_none()
            || std::mem::discriminant(&error)
                != self.error.as_ref().map_or(std::mem::discriminant(&error), std::mem::discriminant);
        self.failing_since.get_or_insert(now);
        self.error = Some(error);
        changed
    }
}

/// The part of an answer that decisions depend on. Offsets and counters move all the time and would wake the loop for nothing.
#[derive(PartialEq)]
struct Shape<'a> {
    run_id: Option<&'a str>,
    role: Option<Role>,
    primary: Option<Address>,
    link: (Option<bool>, Option<bool>),
    loading: Option<bool>,
    replid: Option<&'a str>,
    failover: Option<&'a str>,
    replicas: Vec<(&'a str, u16, ReplicaState, bool)>,
    good_replicas: Option<u32>,
    never_synced: bool,
}

impl<'a> Shape<'a> {
    fn of(info: &'a Info) -> Self {
        let attached = |replica: &'a AttachedReplica| {
            (replica.ip.as_str(), replica.port, replica.state, replica.offset.is_some_and(|o| o > 0))
        };
        Self {
            run_id: info.run_id.as_deref(),
            role: info.role,
            primary: info.primary(),
            link: (info.link_up, info.sync_in_progress),
            loading: info.loading,
            replid: info.replid.as_deref(),
            failover: info.failover_state.as_deref(),
            replicas: info.replicas.iter().map(attached).collect(),
            good_replicas: info.good_replicas,
            never_synced: info.replica_offset.is_none_or(|o| o == 0),
        }
    }
}
