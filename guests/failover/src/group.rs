//! The Sentinels as this policy reads them: seats, and what the group as a whole can do.
//!
//! # Guarantees
//! 1. Every Sentinel that should exist has a seat, whether it answers or not.
//! 2. A silent Sentinel may be alive and move the role; only one that has ended can't.
//! 3. Whom the group names is what a majority of the seats knows of; of differing words the one of the highest config epoch.
//!
//! # Assumptions
//! A Sentinel in a new pod knows nothing. One whose container starts again in the same pod knows what it knew. While a Sentinel
//! carries a failover out, it shows the old primary's address under the new epoch: its word doesn't count then.

use std::collections::BTreeSet;

use vko_sdk::observation::{ContainerState, Monitor, NodeState, Observed, Pod, Reach, Sentinel, Upstream};

use crate::spec::Settings;
use vko_replica::view::{FRESH_MS, Member, STALE_MS, Standing};

/// Name under which own Sentinels watch the data set.
pub const OWN_NAME: &str = "mymaster";

/// Pod conditions in which a container doesn't start by itself soon.
const STUCK: [&str; 6] =
    ["Unschedulable", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError"];

/// What a Sentinel can do now, as far as it can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It answers.
    Answers,
    /// It answers, but doesn't trust its clock and does nothing.
    Tilt,
    /// No answer; it may be alive.
    Silent,
    /// It has ended and starts again with what it knew.
    Coming,
    /// It has ended or was never there.
    Out,
    /// It answers with the id of one before it: the two are one to all others, and have one vote.
    Twin,
}

/// A Sentinel that should exist.
#[derive(Debug, Clone)]
pub struct Seat<'a> {
    /// Its pod's name; its address, if it is no pod of this instance.
    pub name: String,
    /// Its pod.
    pub pod: Option<&'a Pod>,
    /// What it says; the last known.
    pub sentinel: Option<&'a Sentinel>,
    /// What it can do.
    pub state: State,
    /// What it knows of this data set, if it answers.
    pub monitor: Option<&'a Monitor>,
    /// For how long (ms) it has said the same of who is the primary, at least; where the host doesn't tell, the age of its facts.
    pub word_age: u64,
}

/// Whether the Sentinels can move the role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Power {
    /// A majority answers and watches the data set.
    Majority,
    /// Not by those that answer; with those that are silent they may. Their names.
    Silent(String),
    /// They could, once those that start again are back. Their names.
    Coming(String),
    /// They can't, whatever the silent ones do.
    Lost,
}

/// All Sentinels of a data set.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// Their name for the data set.
    pub name: String,
    /// Workload of own ones.
    pub workload: String,
    /// In the order of their places.
    pub seats: Vec<Seat<'a>>,
    /// How many must hold the primary for dead.
    pub quorum: u32,
    /// What each shall be told, by option.
    pub options: Vec<(String, String)>,
    /// After how long (ms) without an answer they hold the primary for down.
    pub down_after_ms: u64,
}

impl<'a> Group<'a> {
    /// Sorts what was observed of the Sentinels.
    pub fn new(observed: &'a Observed, settings: &Settings) -> Self {
        let instance = &observed.instance;
        let workload = format!("rfs-{}", instance.name);
        let (name, seats) = match &settings.sentinel_reference {
            None => {
                let seats = (0..settings.count().min(u32::from(u8::MAX))).map(|ordinal| own(observed, &workload, ordinal));
                (OWN_NAME.to_owned(), seats.collect::<Vec<_>>())
            }
            Some(reference) => {
                let seats = reference.nodes.iter().map(|node| referenced(observed, &node.ip, node.port));
                (format!("{}.{}", instance.namespace, instance.name), seats.collect())
            }
        };
        let mut group = Self {
            name,
            workload,
            seats,
            quorum: settings.quorum(),
            options: settings.monitor_config.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            down_after_ms: settings.down_after_ms(),
        };
        let mut ids = BTreeSet::new();
        for seat in group.seats.iter_mut().filter(|s| s.answers()) {
            if seat.sentinel.is_some_and(|s| !s.id.is_empty() && !ids.insert(s.id.as_str())) {
                seat.state = State::Twin;
                continue;
            }
            seat.monitor = seat.sentinel.and_then(|s| s.monitors.iter().find(|m| m.name == group.name));
        }
        group
    }

    /// How many are more than half.
    pub fn majority(&self) -> usize {
        self.seats.len() / 2 + 1
    }

    /// UID of the pod that they call the primary.
    pub fn named(&self) -> Option<&'a str> {
        let words: Vec<&Monitor> = self.seats.iter().filter_map(|s| s.monitor).filter(|m| idle(&m.failover_state)).collect();
        let newest = words.iter().map(|m| m.config_epoch).max()?;
        let mut named = words.iter().filter(|m| m.config_epoch == newest).map(|m| &m.primary);
        let first = named.next()?;
        match first {
            Upstream::Pod(uid) if words.len() >= self.majority() && named.all(|other| other == first) => Some(uid),
            _ => None,
        }
    }

    /// Whether they can move the role.
    pub fn power(&self) -> Power {
        let names = |state: State| {
            let those = self.seats.iter().filter(|s| s.state == state).map(|s| s.name.as_str());
            those.collect::<Vec<_>>().join(", ")
        };
        let count = |state: State| self.seats.iter().filter(|s| s.state == state).count();
        let able = self.seats.iter().filter(|s| s.state == State::Answers && s.monitor.is_some()).count();
        // One that doesn't trust its clock now may do so in half a minute.
        let tilted = self.seats.iter().filter(|s| s.state == State::Tilt && s.monitor.is_some()).count();
        let with_silent = able + tilted + count(State::Silent);
        if able >= self.majority() {
            Power::Majority
        } else if with_silent >= self.majority() {
            Power::Silent(
                [names(State::Silent), names(State::Tilt)]
                    .iter()
                    .filter(|n| !n.is_empty())
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", "),
            )
        } else if with_silent + count(State::Coming) >= self.majority() {
            Power::Coming(names(State::Coming))
        } else {
            Power::Lost
        }
    }

    /// What the facts say of their word that this member is the primary. Each who says so must be proven wrong.
    pub fn judge(&self, member: &Member<'_>) -> Word {
        let says =
            |s: &&Seat<'_>| s.monitor.is_some_and(|m| matches!(&m.primary, Upstream::Pod(uid) if member.uid() == Some(uid)));
        judge(member, self.seats.iter().filter(says).map(|s| s.word_age).min().unwrap_or(0))
    }

    /// Whom more than half of all Sentinels name in one way, be it a pod or an address.
    pub fn agreed(&self) -> Option<&'a Upstream> {
        let words: Vec<&Upstream> = self.seats.iter().filter_map(|s| s.monitor).map(|m| &m.primary).collect();
        words.iter().copied().find(|word| words.iter().filter(|other| *other == word).count() >= self.majority())
    }

    /// A Sentinel whose failover isn't over, though the role may have moved.
    pub fn busy(&self) -> Option<&Seat<'a>> {
        self.seats.iter().find(|s| s.monitor.is_some_and(|m| !idle(&m.failover_state)))
    }

    /// Whether a majority answers on fresh facts, not counting that one.
    pub fn majority_without(&self, seat: Option<&Seat<'_>>) -> bool {
        let others = self.seats.iter().filter(|s| seat.is_none_or(|out| out.name != s.name));
        others.filter(|s| s.answers() && s.age() <= FRESH_MS).count() >= self.majority()
    }

    /// A Sentinel that is moving the role now.
    pub fn mover(&self) -> Option<&Seat<'a>> {
        self.seats.iter().find(|s| s.monitor.is_some_and(|m| moves_role(&m.failover_state)))
    }
}

impl<'a> Seat<'a> {
    /// Whether it answers, trusting its clock or not.
    pub fn answers(&self) -> bool {
        matches!(self.state, State::Answers | State::Tilt)
    }

    /// Its id, if it may be given a step: it answers on fresh facts and trusts its clock.
    pub fn steerable(&self) -> Option<&'a str> {
        let sentinel = self.sentinel.filter(|s| self.state == State::Answers && s.age <= FRESH_MS && !s.id.is_empty())?;
        Some(&sentinel.id)
    }

    /// Age (ms) of what it says.
    pub fn age(&self) -> u64 {
        self.sentinel.map_or(u64::MAX, |s| s.age)
    }
}

/// The word of Sentinels that somebody is the primary, against the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It has ended, or was asked after they said so and is none.
    Disproved,
    /// It was last asked before they said so.
    Unasked,
    /// It gives no answer that settles it, or is the primary.
    Open,
}

/// Holds the word, so old (ms), against what a member says. Sentinels name a pod only after they saw it as a primary: one that is
/// asked later and is none has lost the role again.
pub fn judge(member: &Member<'_>, word_age: u64) -> Word {
    match member.standing {
        Standing::Absent | Standing::Dead | Standing::Starting | Standing::Loading { unnamed: true } => Word::Disproved,
        Standing::Replica(..) if member.server.is_some_and(|s| s.age <= word_age) => Word::Disproved,
        Standing::Replica(..) => Word::Unasked,
        Standing::Primary(_) | Standing::Loading { unnamed: false } | Standing::Refusing(_) | Standing::Silent(_) => Word::Open,
    }
}

/// Whether no failover is under way, by the word for it.
pub fn idle(state: &str) -> bool {
    matches!(state, "" | "none" | "no-failover")
}

/// Whether the role itself is being moved. Afterwards (`reconf_slaves`, `update_config`) only the other replicas change over.
pub fn moves_role(state: &str) -> bool {
    !idle(state) && !matches!(state, "reconf_slaves" | "update_config")
}

fn own<'a>(observed: &'a Observed, workload: &str, ordinal: u32) -> Seat<'a> {
    let here = |p: &&Pod| p.workload == workload && p.ordinal == ordinal;
    let pod = observed.pods.iter().filter(here).min_by_key(|p| p.terminating_for);
    let of_pod = |s: &&Sentinel| pod.is_some_and(|p| matches!(&s.pod, Upstream::Pod(uid) if *uid == p.uid));
    let sentinel = observed.sentinels.iter().find(of_pod);
    let ended = pod.map_or(Some(State::Out), ended);
    let state = ended.unwrap_or_else(|| sentinel.map_or(State::Silent, heard));
    Seat { name: format!("{workload}-{ordinal}"), pod, sentinel, state, monitor: None, word_age: word_age(sentinel) }
}

fn referenced<'a>(observed: &'a Observed, ip: &str, port: u16) -> Seat<'a> {
    let there = |s: &&Sentinel| matches!(&s.pod, Upstream::Other(a) if a.host == ip && a.port == port);
    let sentinel = observed.sentinels.iter().find(there);
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    let (state, word_age) = (sentinel.map_or(State::Silent, heard), word_age(sentinel));
    Seat { name: format!("{host}:{port}"), pod: None, sentinel, state, monitor: None, word_age }
}

fn word_age(sentinel: Option<&Sentinel>) -> u64 {
    let Some(sentinel) = sentinel else { return u64::MAX };
    sentinel.word_age.map_or(sentinel.age, |told| told.max(sentinel.age))
}

fn heard(sentinel: &Sentinel) -> State {
    match &sentinel.reach {
        Reach::Answered if sentinel.age <= STALE_MS && sentinel.tilt => State::Tilt,
        Reach::Answered if sentinel.age <= STALE_MS => State::Answers,
        Reach::Answered | Reach::Loading(_) | Reach::Refused(_) | Reach::Silent(_) => State::Silent,
    }
}

/// What has become of a pod whose Sentinel is known not to run; nothing if it may run.
fn ended(pod: &Pod) -> Option<State> {
    let over = matches!(pod.phase.as_str(), "Failed" | "Succeeded")
        || pod.terminating_for > 0 && pod.container == ContainerState::Terminated;
    if over || matches!(pod.node_state, NodeState::Gone | NodeState::OutOfService) {
        return Some(State::Out);
    }
    let stuck = STUCK.contains(&pod.waiting.as_str());
    match pod.container {
        ContainerState::Terminated => Some(if stuck { State::Out } else { State::Coming }),
        ContainerState::Starting => Some(if stuck || pod.restarts == 0 { State::Out } else { State::Coming }),
        ContainerState::Running | ContainerState::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Watched;

    type Change = fn(&mut Watched) -> &mut Watched;

    #[test]
    fn what_a_group_can_do() {
        let table: &[(&str, Change, &str)] = &[
            ("all answer", |w| w, "Majority"),
            ("one is silent", |w| w.mute(2), "Majority"),
            ("two are silent: they may live", |w| w.mute(1).mute(2), "Silent(\"rfs-x-1, rfs-x-2\")"),
            ("two pods are gone", |w| w.drop_sentinel(1).drop_sentinel(2), "Lost"),
            ("one is gone, one is silent: two may act", |w| w.drop_sentinel(1).mute(2), "Silent(\"rfs-x-2\")"),
            ("two containers start again", |w| w.restart_sentinel(1).restart_sentinel(2), "Coming(\"rfs-x-1, rfs-x-2\")"),
            ("two crash in a loop", |w| w.restart_sentinel(1).restart_sentinel(2).stuck(1).stuck(2), "Lost"),
            ("all answer, none watches", |w| w.blank(0).blank(1).blank(2), "Lost"),
            ("two came back knowing nothing", |w| w.blank(1).blank(2), "Lost"),
            ("two in tilt", |w| w.tilt(1).tilt(2), "Silent(\"rfs-x-1, rfs-x-2\")"),
            ("two are one: the rest is no majority", |w| w.twin(1).mute(2), "Silent(\"rfs-x-2\")"),
            ("old words are none", |w| w.aged(1, 16_000).aged(2, 16_000), "Silent(\"rfs-x-1, rfs-x-2\")"),
        ];
        for (case, change, expected) in table {
            let mut watched = Watched::healthy("x", 3);
            change(&mut watched);
            assert_eq!(format!("{:?}", watched.group().power()), *expected, "{case}");
        }
    }

    #[test]
    fn whom_they_name() {
        let table: &[(&str, Change, Option<&str>)] = &[
            ("all agree", |w| w, Some("uid-x-0")),
            ("the newest word counts", |w| w.says(1, 1, 6), Some("uid-x-1")),
            ("an older word of another doesn't", |w| w.says(1, 1, 4), Some("uid-x-0")),
            ("two words of one epoch", |w| w.says(1, 1, 5), None),
            (
                "one that carries a failover out isn't heard",
                |w| w.says(1, 0, 6).failing_over(1, "reconf_slaves"),
                Some("uid-x-0"),
            ),
            ("too few answer", |w| w.mute(0).mute(1), None),
            ("a stranger", |w| w.says_stranger(0).says_stranger(1).says_stranger(2), None),
            ("too few watch", |w| w.blank(0).blank(1), None),
        ];
        for (case, change, expected) in table {
            let mut watched = Watched::healthy("x", 3);
            change(&mut watched);
            assert_eq!(watched.group().named(), *expected, "{case}");
        }
    }

    #[test]
    fn referenced_ones_are_found_by_address_and_watch_under_a_name_of_their_own() {
        let mut watched = Watched::healthy("x", 3);
        watched.refer();
        let group = watched.group();
        assert_eq!((group.name.as_str(), group.power()), ("ns.x", Power::Majority));
        assert_eq!(group.seats[1].name, "10.2.0.2:26379");
        assert!(matches!(watched.mute(0).mute(1).group().power(), Power::Silent(_)), "no pod says that they have ended");
    }

    #[test]
    fn after_the_role_has_moved_the_rest_is_no_obstacle() {
        for (state, moving) in
            [("", false), ("none", false), ("wait_start", true), ("wait_promotion", true), ("reconf_slaves", false)]
        {
            assert_eq!(moves_role(state), moving, "{state}");
        }
    }
}
