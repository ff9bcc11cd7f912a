//! What the host remembers of each server between looks: the last answer and its age, since when it is silent, and whether it was
//! synced in this run. In memory only; what must survive a restart is in the ledger.
//!
//! # Guarantees
//! 1. A failure never wipes the last answer: it grows old, and its age is told.
//! 2. The loop is woken by what decisions depend on ([`Shape`]) and by nothing that moves on its own.
//! 3. What servers of a cluster believe is kept once for all that believe the same.
//! 4. Of two answers the one that was asked for later counts, whichever arrives first: a step reads back what it has done, and a
//!    probe that was under way since before must not undo that.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use vko_model::address::Address;
use vko_model::cluster::{ClusterInfo, ClusterNodes};
use vko_model::info::{AttachedReplica, DiskFile, Info, ReplicaState, Role};
use vko_model::sentinel::{KnownReplica, Monitored, Peer, SentinelInfo};

use crate::beliefs::{Pool, View, share};
use crate::probe::Again;
use crate::world::ServerError;

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Of a data server.
    Data(Box<Info>),
    /// Of one in cluster mode; what it believes only where that was asked for.
    Cluster(Box<Info>, ClusterInfo, u64, Option<ClusterNodes>),
    /// Of a Sentinel; what it monitors only where that was asked for.
    Sentinel(SentinelAnswer, Option<Vec<MonitorAnswer>>),
}

impl From<Info> for Answer {
    fn from(info: Info) -> Self {
        Self::Data(Box::new(info))
    }
}

/// The light part of what a Sentinel said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelAnswer {
    /// Its own id.
    pub id: String,
    /// Of this process.
    pub run_id: String,
    /// INFO sentinel.
    pub info: SentinelInfo,
}

/// A data set that a Sentinel watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorAnswer {
    /// The primary.
    pub monitored: Monitored,
    /// Whether enough Sentinels are there for quorum and majority; `None`: not asked, or no clear answer.
    pub quorum_reached: Option<bool>,
    /// Replicas that it knows, without their offsets, which move.
    pub replicas: Vec<KnownReplica>,
    /// Other Sentinels that it knows.
    pub peers: Vec<Peer>,
}

/// What a server in cluster mode said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMemory {
    /// CLUSTER INFO.
    pub info: ClusterInfo,
    /// Digest of CLUSTER SLOTS.
    pub slots_digest: u64,
    /// What it believes; `None` until it was asked once.
    pub view: Option<View>,
}

/// What a Sentinel said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelMemory {
    /// The light part.
    pub light: SentinelAnswer,
    /// What it monitors; `None` until it was asked once.
    pub monitors: Option<Vec<MonitorAnswer>>,
}

impl SentinelMemory {
    /// Its process, and whom it calls primaries in which epochs. Health and counters are no part of it.
    fn word(&self) -> (&str, Vec<&Address>, Vec<Option<u64>>) {
        let monitors = self.monitors.iter().flatten();
        let named = self.light.info.monitored.iter().map(|line| &line.address);
        (&self.light.run_id, named.collect(), monitors.map(|m| m.monitored.config_epoch).collect())
    }
}

/// One server's past, by the UID of its pod.
#[derive(Debug, Clone, Default)]
pub struct ServerMemory {
    /// The last answer to a light probe; of data servers.
    pub info: Option<Info>,
    /// The same, of servers in cluster mode.
    pub cluster: Option<ClusterMemory>,
    /// The same, of Sentinels.
    pub sentinel: Option<SentinelMemory>,
    /// How old it is at most (monotonic): when a data server was asked, when a Sentinel's word arrived. So a data server that is
    /// younger than a Sentinel's word was asked after that was said.
    pub answered_at: Option<Duration>,
    /// Since when (monotonic, when the first such answer arrived) a Sentinel calls the same servers primaries in the same
    /// epochs, without another process in between.
    pub same_word_since: Option<Duration>,
    /// When the question was asked (monotonic) whose outcome is the newest, be it a failure.
    pub asked_at: Option<Duration>,
    /// When the present series of failures began; `None` while it answers.
    pub failing_since: Option<Duration>,
    /// The newest failure.
    pub error: Option<ServerError>,
    /// Run id under which a replica's link was seen up with no sync in progress.
    pub synced_run: Option<String>,
}

/// All servers of an instance.
#[derive(Debug, Default)]
pub struct Memory {
    all: Mutex<All>,
    /// Has servers asked out of turn by those who keep this up to date.
    pub again: Again,
}

#[derive(Debug, Default)]
struct All {
    servers: BTreeMap<String, ServerMemory>,
    /// Where nodes of the cluster were last seen, by id.
    places: BTreeMap<String, Address>,
    beliefs: Pool,
}

impl Memory {
    /// A copy of everything.
    pub fn snapshot(&self) -> BTreeMap<String, ServerMemory> {
        self.lock().servers.clone()
    }

    /// Where a cluster's nodes were last seen, by whichever server, by id. Only for telling who is a stranger: it is no identity.
    pub fn places(&self) -> BTreeMap<String, Address> {
        self.lock().places.clone()
    }

    /// Forgets servers whose pods are gone.
    pub fn keep_only(&self, pods: &[String]) {
        self.lock().servers.retain(|pod, _| pods.contains(pod));
        self.again.keep_only(pods);
    }

    /// Takes the outcome of a question in that was asked at `asked`. Returns whether anything that a decision could depend on has
    /// changed; offsets alone don't count.
    pub fn note(&self, pod: &str, asked: Duration, now: Duration, outcome: Result<Answer, ServerError>) -> bool {
        let mut all = self.lock();
        if all.servers.get(pod).is_some_and(|server| server.asked_at.is_some_and(|newest| asked < newest)) {
            return false;
        }
        let outcome = outcome.map(|answer| all.digest(answer));
        let server = all.servers.entry(pod.to_owned()).or_default();
        server.asked_at = Some(asked);
        match outcome {
            Ok(heard) => server.note_answer(asked, now, heard),
            Err(error) => server.note_failure(now, error),
        }
    }

    /// Everybody who was ever asked, and when last; a failure is an outcome, too.
    pub fn asked(&self) -> Vec<(String, Duration)> {
        let all = self.lock();
        all.servers.iter().filter_map(|(pod, server)| Some((pod.clone(), server.asked_at?))).collect()
    }

    /// Those that answer, and said it before that time.
    pub fn answered_before(&self, then: Duration) -> Vec<String> {
        let all = self.lock();
        let before = |server: &ServerMemory| server.failing_since.is_none() && server.answered_at.is_some_and(|at| at < then);
        all.servers.iter().filter(|(_, server)| before(server)).map(|(pod, _)| pod.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, All> {
        // A panic elsewhere while holding the lock can't leave a map half-written that matters: entries are replaced whole.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer in the form in which it is kept.
enum Heard {
    Data(Box<Info>),
    Cluster(Box<Info>, ClusterMemory),
    Sentinel(SentinelMemory),
}

impl All {
    fn digest(&mut self, answer: Answer) -> Heard {
        match answer {
            Answer::Data(info) => Heard::Data(info),
            Answer::Sentinel(light, monitors) => Heard::Sentinel(SentinelMemory { light, monitors }),
            Answer::Cluster(info, cluster, slots_digest, nodes) => {
                let view = nodes.as_ref().and_then(View::new).map(|(view, places)| {
                    self.places.extend(places);
                    let views = self.servers.values().filter_map(|server| server.cluster.as_ref()?.view.as_ref());
                    let mut view = share(view, views);
                    self.beliefs.intern(&mut view);
                    view
                });
                if let Some(view) = &view {
                    self.drop_places(view.beliefs.nodes.len());
                }
                Heard::Cluster(info, ClusterMemory { info: cluster, slots_digest, view })
            }
        }
    }

    /// Ids of nodes that were only ever being met come and go: those that nobody believes in go once they are many.
    fn drop_places(&mut self, nodes: usize) {
        if self.places.len() <= 2 * nodes + 64 {
            return;
        }
        let Self { servers, places, .. } = self;
        let mut views: Vec<_> = servers.values().filter_map(|s| Some(&s.cluster.as_ref()?.view.as_ref()?.beliefs)).collect();
        views.sort_by_key(|beliefs| std::sync::Arc::as_ptr(beliefs));
        views.dedup_by_key(|beliefs| std::sync::Arc::as_ptr(beliefs));
        places.retain(|id, _| views.iter().any(|beliefs| beliefs.get(id).is_some()));
    }
}

impl ServerMemory {
    fn note_answer(&mut self, asked: Duration, now: Duration, heard: Heard) -> bool {
        self.answered_at = Some(if matches!(heard, Heard::Sentinel(_)) { now } else { asked });
        let changed = match heard {
            Heard::Data(info) => self.note_info(*info),
            Heard::Cluster(info, mut cluster) => {
                let view = self.cluster.as_mut().and_then(|known| known.view.take());
                cluster.view = cluster.view.or_else(|| view.clone());
                let before = self.cluster.replace(cluster).map(|known| ClusterMemory { view, ..known });
                let changed = before != self.cluster;
                self.note_info(*info) || changed
            }
            Heard::Sentinel(mut sentinel) => {
                let known = self.sentinel.take();
                // Another process knows nothing of what the one before monitored.
                let same_run = known.as_ref().filter(|known| known.light.run_id == sentinel.light.run_id);
                sentinel.monitors = sentinel.monitors.or_else(|| same_run.and_then(|known| known.monitors.clone()));
                let changed = known.as_ref() != Some(&sentinel);
                if known.as_ref().map(SentinelMemory::word) != Some(sentinel.word()) {
                    self.same_word_since = Some(now);
                }
                self.sentinel = Some(sentinel);
                changed
            }
        };
        self.error = None;
        self.failing_since.take().is_some() || changed
    }

    fn note_info(&mut self, info: Info) -> bool {
        let changed = self.info.as_ref().map(Shape::of) != Some(Shape::of(&info));
        if info.role == Some(Role::Replica) && info.link_up == Some(true) && info.sync_in_progress == Some(false) {
            self.synced_run.clone_from(&info.run_id);
        }
        self.info = Some(info);
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
    cannot_write: Option<DiskFile>,
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
            cannot_write: info.cannot_write(),
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
        assert!(memory.note("p", Duration::ZERO, Duration::ZERO, Ok(Info::parse(before).into())), "the first answer is news");
        memory.note("p", Duration::from_secs(1), Duration::from_secs(1), Ok(Info::parse(after).into()))
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
            ("its disk is full", format!("{PRIMARY}aof_enabled:1\r\naof_last_write_status:err\r\n"), true),
            ("a replica acknowledged nothing yet", PRIMARY.replace("offset=7", "offset=0"), true),
        ];
        for (case, after, expected) in table {
            assert_eq!(wakes(PRIMARY, &after), expected, "{case}");
        }
    }

    /// A Sentinel of this process that calls this server the primary, in this epoch; `ok`: what it thinks of its health.
    fn word(run_id: &str, host: &str, epoch: u64, ok: bool) -> Answer {
        let status = if ok { "ok" } else { "sdown" };
        let info = format!("sentinel_masters:1\r\nmaster0:name=m,status={status},address={host}:6379,slaves=2,sentinels=3\r\n");
        let facts = [("name", "m"), ("ip", host), ("port", "6379"), ("config-epoch", &epoch.to_string())];
        let facts = facts.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let monitored = Monitored::read(&facts).unwrap();
        let monitor = MonitorAnswer { monitored, quorum_reached: None, replicas: Vec::new(), peers: Vec::new() };
        let light = SentinelAnswer { id: "s".into(), run_id: run_id.into(), info: SentinelInfo::parse(&info) };
        Answer::Sentinel(light, Some(vec![monitor]))
    }

    #[test]
    fn a_word_that_is_repeated_grows_old() {
        let table = [
            ("the same", word("r", "10.0.0.1", 1, true), 1),
            ("the same of a server that it holds for down", word("r", "10.0.0.1", 1, false), 1),
            ("another server", word("r", "10.0.0.2", 1, true), 9),
            ("the same server in another epoch", word("r", "10.0.0.1", 2, true), 9),
            ("another process", word("q", "10.0.0.1", 1, true), 9),
        ];
        for (case, answer, since) in table {
            let memory = Memory::default();
            for (seconds, answer) in [(1, word("r", "10.0.0.1", 1, true)), (9, answer)] {
                memory.note("s", Duration::from_secs(seconds), Duration::from_secs(seconds), Ok(answer));
            }
            assert_eq!(memory.snapshot()["s"].same_word_since, Some(Duration::from_secs(since)), "{case}");
        }
    }

    #[test]
    fn a_failure_is_news_once_and_keeps_the_last_word() {
        let memory = Memory::default();
        memory.note("p", Duration::ZERO, Duration::ZERO, Ok(Info::parse(PRIMARY).into()));
        let silent = || Err(ServerError::Silent(Duration::from_secs(2)));
        assert!(memory.note("p", Duration::from_secs(1), Duration::from_secs(1), silent()));
        assert!(!memory.note("p", Duration::from_secs(2), Duration::from_secs(2), silent()));
        assert!(
            memory.note("p", Duration::from_secs(3), Duration::from_secs(3), Err(ServerError::Loading)),
            "another kind of failure"
        );
        let server = memory.snapshot().remove("p").unwrap();
        assert_eq!((server.failing_since, server.answered_at), (Some(Duration::from_secs(1)), Some(Duration::ZERO)));
        assert_eq!(server.info.unwrap().run_id.as_deref(), Some("r"));
        assert!(memory.note("p", Duration::from_secs(4), Duration::from_secs(4), Ok(Info::parse(PRIMARY).into())), "it is back");
    }

    #[test]
    fn what_was_asked_later_counts() {
        let (memory, second) = (Memory::default(), Duration::from_secs);
        let replica = PRIMARY.replace("role:master", "role:slave");
        let role = |memory: &Memory| memory.snapshot()["p"].info.as_ref().unwrap().role;
        memory.note("p", second(2), second(3), Ok(Info::parse(PRIMARY).into()));
        assert!(!memory.note("p", second(1), second(4), Ok(Info::parse(&replica).into())), "asked before, arrived after");
        assert!(!memory.note("p", second(1), second(4), Err(ServerError::Silent(second(2)))), "a failure likewise");
        let server = memory.snapshot().remove("p").unwrap();
        assert_eq!((role(&memory), server.answered_at, server.failing_since), (Some(Role::Primary), Some(second(2)), None));
        assert!(memory.note("p", second(3), second(5), Ok(Info::parse(&replica).into())));
        assert_eq!(role(&memory), Some(Role::Replica));
    }

    #[test]
    fn silence_is_an_outcome_too() {
        let (memory, second) = (Memory::default(), Duration::from_secs);
        assert_eq!(memory.asked(), []);
        for pod in ["p", "q"] {
            memory.note(pod, second(1), second(1), Ok(Info::parse(PRIMARY).into()));
        }
        memory.note("q", second(9), second(11), Err(ServerError::Silent(second(2))));
        assert_eq!(memory.asked(), [("p".into(), second(1)), ("q".into(), second(9))]);
        assert_eq!(memory.answered_before(second(1)), Vec::<String>::new());
        assert_eq!(memory.answered_before(second(20)), ["p"], "who gives no answer now is not among them");
    }

    #[test]
    fn synced_is_said_of_one_run() {
        let memory = Memory::default();
        let replica = "run_id:r\r\nrole:slave\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\n";
        let synced = |text: &str| {
            memory.note("p", Duration::ZERO, Duration::ZERO, Ok(Info::parse(text).into()));
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
