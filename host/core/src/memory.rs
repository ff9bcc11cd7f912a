//! What the host remembers of each server between looks: the last answer and its age, since when it is silent, and whether it was
//! synced in this run. In memory only; what must survive a restart is in the ledger.
//!
//! # Guarantees
//! 1. A failure never wipes the last answer: it grows old, and its age is told.
//! 2. The loop is woken by what decisions depend on ([`Shape`]) and by nothing that moves on its own.

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

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "run_id:r\r\nrole:master\r\nmaster_replid:h\r\nmaster_repl_offset:7\r\nloading:0\r\n\
        slave0:ip=10.0.0.2,port=6379,state=online,offset=7,lag=0\r\n";

    /// Whether the loop is woken by an answer after another one.
    fn wakes(before: &str, after: &str) -> bool {
        let memory = Memory::default();
        assert!(memory.note("p", Duration::ZERO, Ok(Info::parse(before))), "the first answer is news");
        memory.note("p", Duration::from_secs(1), Ok(Info::parse(after)))
    }

    #[test]
    fn only_what_decisions_depend_on_wakes_the_loop() {
        let table = [
            ("the same", PRIMARY.to_owned(), false),
            ("offsets grow", PRIMARY.replace(":7", ":9").replace("offset=7", "offset=9"), false),
            ("lag", PRIMARY.replace("lag=0", "lag=1"), false),
            ("another run", PRIMARY.replace("run_id:r", "run_id:s"), true),
            ("another role", PRIMARY.replace("role:master", "role:slave"), true),
            ("another history", PRIMARY.replace("replid:h", "replid:i"), true),
            ("loading", PRIMARY.replace("loading:0", "loading:1"), true),
            ("a replica left", PRIMARY.split("slave0").next().unwrap_or_default().to_owned(), true),
            ("a replica syncs", PRIMARY.replace("online", "wait_bgsave"), true),
            ("a replica acknowledged nothing yet", PRIMARY.replace("offset=7", "offset=0"), true),
        ];
        for (case, after, expected) in table {
            assert_eq!(wakes(PRIMARY, &after), expected, "{case}");
        }
    }

    #[test]
    fn a_failure_is_news_once_and_keeps_the_last_word() {
        let memory = Memory::default();
        memory.note("p", Duration::ZERO, Ok(Info::parse(PRIMARY)));
        let silent = || Err(ServerError::Silent(Duration::from_secs(2)));
        assert!(memory.note("p", Duration::from_secs(1), silent()));
        assert!(!memory.note("p", Duration::from_secs(2), silent()));
        assert!(memory.note("p", Duration::from_secs(3), Err(ServerError::Loading)), "another kind of failure");
        let server = memory.snapshot().remove("p").unwrap();
        assert_eq!((server.failing_since, server.answered_at), (Some(Duration::from_secs(1)), Some(Duration::ZERO)));
        assert_eq!(server.info.unwrap().run_id.as_deref(), Some("r"));
        assert!(memory.note("p", Duration::from_secs(4), Ok(Info::parse(PRIMARY))), "it is back");
    }

    #[test]
    fn synced_is_said_of_one_run() {
        let memory = Memory::default();
        let replica = "run_id:r\r\nrole:slave\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\n";
        let synced = |text: &str| {
            memory.note("p", Duration::ZERO, Ok(Info::parse(text)));
            memory.snapshot().remove("p").unwrap().synced_run
        };
        assert_eq!(synced(&replica.replace("progress:0", "progress:1")), None);
        assert_eq!(synced(&replica.replace("_sync_in_progress:0", "_other:0")), None, "not said is not no");
        assert_eq!(synced(replica).as_deref(), Some("r"));
        assert_eq!(
            synced(&replica.replace("status:up", "status:down").replace("id:r", "id:s")).as_deref(),
            Some("r"),
            "of the run before"
        );
        memory.keep_only(&[]);
        assert!(memory.snapshot().is_empty());
    }
}
