//! What the ledger learns from what is observed, without any act of ours: a primary that a hook handed over to, that Sentinels or
//! a cluster chose, a sole member that started by itself, members that agree although the ledger was lost.
//!
//! # Guarantees
//! 1. The ledger learns only from servers that answer now, and only what no other answer contradicts.
//! 2. Nothing here names a primary that isn't one already.
//! 3. A primary that comes back after another one took over is never taken for its successor: only one that was promoted out of
//!    the newest history is, or one whom everybody follows, or the former one while its appointed successor never took the role.
//! 4. Against the primary that the ledger names speaks only what was said after it was named, and only while nobody is being
//!    promoted: what was heard before is the very state that the promotion ended. (The ledger may be news: for a while two
//!    operators may lead, and the other one appoints.)
//!
//! # Flow
//! Asked at each look, before the policy: [`lesson`] names what the ledger should learn; `None` is the rule. Clusters have a rule
//! of their own ([`cluster`]).

mod cluster;

use std::collections::BTreeMap;

use vko_wit::common::Architecture;
use vko_wit::facts;
use vko_wit::observation::{ContainerState, LastPrimary, NodeState, Observed, Pod, Reach, Role, Sentinel, ServerFacts, Upstream};

use crate::ledger::{Ledger, Member};
use crate::object::Kind;
use crate::workloads::is_data;
use crate::world::UnixMs;

/// What the ledger should learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lesson {
    /// This pod's server is the primary, with this replication history and offset.
    Primary(Member, String, u64),
    /// The accepted primary has a replication history that the ledger lacks (it restarted, or got a replica after having none).
    Lineage(String, u64),
    /// Nothing was ever formed: all members answer and are empty.
    Unformed,
    /// Formed, all members answer with one history and nobody has the role.
    Formed(String, u64),
    /// A member holds keys, for the first time.
    Held,
    /// Slots have owners; these members are the primaries of their shards.
    Shards(Vec<Member>),
}

impl Lesson {
    /// Writes it down.
    pub fn learn(&self, ledger: &mut Ledger, now: UnixMs) {
        match self {
            Self::Primary(member, replid, offset) => {
                ledger.formed = Some(true);
                ledger.set_last_primary(member.clone());
                ledger.note_lineage(replid, *offset, now);
            }
            Self::Lineage(replid, offset) => ledger.note_lineage(replid, *offset, now),
            Self::Unformed => (ledger.formed, ledger.held) = (Some(false), Some(false)),
            Self::Held => ledger.held = Some(true),
            Self::Formed(replid, offset) => {
                ledger.formed = Some(true);
                ledger.note_lineage(replid, *offset, now);
            }
            Self::Shards(primaries) => {
                ledger.formed = Some(true);
                primaries.iter().for_each(|primary| ledger.set_last_primary(primary.clone()));
            }
        }
    }
}

/// What the host knows beside the observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// How many members each StatefulSet has, by its name.
    pub members: BTreeMap<String, u32>,
    /// The sole member starts as a primary by itself.
    pub alone: bool,
    /// Nobody is being promoted: no track runs, and no other operator has just named somebody.
    pub at_rest: bool,
    /// All that answer were asked since this operator has known whom the ledger names.
    pub asked_since: bool,
}

/// What the ledger should learn from an observation.
pub fn lesson(observed: &Observed, setting: &Setting) -> Option<Lesson> {
    let leads = match observed.instance.architecture {
        Architecture::Cluster => cluster::lesson(observed, setting),
        _ => who_leads(observed, setting),
    };
    leads.or_else(|| held(observed))
}

/// The first key that was seen.
fn held(observed: &Observed) -> Option<Lesson> {
    let filled = || answering(observed).iter().any(|(_, facts)| facts.keys > 0);
    (facts::held(observed) != Some(true) && filled()).then_some(Lesson::Held)
}

fn who_leads(observed: &Observed, setting: &Setting) -> Option<Lesson> {
    if observed.instance.kind == Kind::Sentinel.name() {
        // Sentinels that stand alone hold no data: there is nothing to be careful with.
        return observed.ledger.formed.is_none().then_some(Lesson::Unformed);
    }
    let answering = answering(observed);
    let primaries: Vec<_> = answering.iter().filter(|(_, facts)| facts.role == Role::Primary).collect();
    let alone = setting.alone && setting.data(observed) == 1;
    match (observed.ledger.formed, primaries.as_slice()) {
        (None, _) => recovered(observed, &answering, setting.data(observed)),
        (Some(false), [(pod, facts)]) if alone => Some(primary(observed, pod, facts)),
        (Some(true), [(pod, facts)]) if setting.asked_since => {
            known_primary(observed, &answering, (*pod, *facts), alone, setting)
        }
        _ => None,
    }
}

impl Setting {
    /// How many members hold the data set, where there is one.
    fn data(&self, observed: &Observed) -> u32 {
        self.members.iter().filter(|(name, _)| is_data(&observed.instance, name)).map(|(_, members)| members).sum()
    }
}

type Answer<'a> = (&'a Pod, &'a ServerFacts);

fn answering(observed: &Observed) -> Vec<Answer<'_>> {
    let servers = observed.servers.iter().filter(|server| server.reach == Reach::Answered);
    servers.filter_map(|s| Some((observed.pods.iter().find(|pod| pod.uid == s.pod)?, s.facts.as_ref()?))).collect()
}

fn primary(observed: &Observed, pod: &Pod, facts: &ServerFacts) -> Lesson {
    Lesson::Primary(Member::of(observed, pod), facts.replid.clone(), facts.offset)
}

/// The one server that answers as a primary: the accepted one, one that a hook handed over to, or the former one.
fn known_primary(
    observed: &Observed,
    answering: &[Answer<'_>],
    new: Answer<'_>,
    alone: bool,
    setting: &Setting,
) -> Option<Lesson> {
    let (pod, facts) = new;
    let last = match &observed.ledger.last_primary {
        LastPrimary::Members(members) => members.iter().find(|m| m.workload == pod.workload),
        LastPrimary::None => None,
    };
    let is_last = last.is_some_and(|last| last.ordinal == pod.ordinal);
    if is_last && last.is_some_and(|last| last.pod == pod.uid) {
        let knows = observed.ledger.lineages.iter().any(|lineage| lineage.replid == facts.replid);
        return (!knows && !facts.replid.is_empty()).then(|| Lesson::Lineage(facts.replid.clone(), facts.offset));
    }
    if is_last && alone {
        // Its successor in the same place, with whatever the claim kept.
        return Some(primary(observed, pod, facts));
    }
    let old = last.and_then(|last| observed.pods.iter().find(|p| p.workload == last.workload && p.ordinal == last.ordinal));
    let newest = observed.ledger.lineages.first().map(|lineage| lineage.replid.as_str()).unwrap_or_default();
    let promoted_from_it = !newest.is_empty() && facts.second_replid == newest;
    let gave_way = match old {
        None => true,
        Some(old) => follows(answering, old, pod) || has_ended(old, last.map(|l| l.pod.as_str()).unwrap_or_default()),
    };
    let accepted = (promoted_from_it && gave_way)
        || everybody_follows(observed, answering, pod, setting.data(observed))
        || nobody_else_could(observed, answering, new, setting.data(observed))
        || sentinels_chose(observed, pod)
        || old.is_some_and(|old| never_took_the_role(answering, old, facts));
    (setting.at_rest && accepted).then(|| primary(observed, pod, facts))
}

/// All answer, the others as replicas that carry no history the ledger knows: they were restarted since, and wait to be told whom
/// to follow. (Hooks handed the role on twice while nobody looked, or its history got another name, as it does after an hour
/// without replicas.) Whoever still carries a known history may know better, and is for a person to compare.
fn nobody_else_could(observed: &Observed, answering: &[Answer<'_>], new: Answer<'_>, members: u32) -> bool {
    let known = |facts: &ServerFacts| observed.ledger.lineages.iter().any(|lineage| lineage.replid == facts.replid);
    let yields = |facts: &ServerFacts| matches!(facts.role, Role::Replica(_)) && !(known(facts) && facts.offset > 0);
    let others = answering.iter().all(|(pod, facts)| pod.uid == new.0.uid || yields(facts));
    new.1.keys > 0 && others && all_answer(observed, answering, members)
}

/// The one whom the ledger names answers as a replica in the very history of the one who leads. A promotion gives a history a new
/// name, so it never was a primary since, and holds nothing that the other lacks.
fn never_took_the_role(answering: &[Answer<'_>], appointed: &Pod, leading: &ServerFacts) -> bool {
    answering.iter().any(|(pod, facts)| {
        let same = !facts.replid.is_empty() && facts.replid == leading.replid && facts.offset <= leading.offset;
        pod.uid == appointed.uid && matches!(facts.role, Role::Replica(_)) && same
    })
}

/// More than half of all Sentinels that watch the data set say so. Those that are silent may hold an older or a newer opinion:
/// they count against it.
fn sentinels_chose(observed: &Observed, new: &Pod) -> bool {
    let names = |sentinel: &Sentinel| {
        let known = sentinel.reach == Reach::Answered && !sentinel.tilt;
        known && sentinel.monitors.iter().any(|monitor| monitor.primary == Upstream::Pod(new.uid.clone()))
    };
    observed.sentinels.iter().filter(|sentinel| names(sentinel)).count() * 2 > observed.sentinels.len()
}

fn follows(answering: &[Answer<'_>], old: &Pod, new: &Pod) -> bool {
    answering.iter().any(|(pod, facts)| {
        pod.uid == old.uid && matches!(&facts.role, Role::Replica(link) if link.primary == Upstream::Pod(new.uid.clone()))
    })
}

/// The process that had the role is gone: another pod fills the place, or the container or node is dead.
fn has_ended(old: &Pod, known_uid: &str) -> bool {
    old.uid != known_uid
        || old.container == ContainerState::Terminated
        || matches!(old.node_state, NodeState::Gone | NodeState::OutOfService)
}

/// Whether every member that a StatefulSet or a claim names answers, and every pod.
fn all_answer(observed: &Observed, answering: &[Answer<'_>], members: u32) -> bool {
    let named = |ordinal: u32| answering.iter().any(|(pod, _)| pod.ordinal == ordinal);
    let data = observed.pods.iter().filter(|pod| is_data(&observed.instance, &pod.workload));
    let pods = data.into_iter().all(|pod| answering.iter().any(|(p, _)| p.uid == pod.uid));
    members > 0 && pods && (0..members).all(named) && observed.claims.iter().all(|claim| named(claim.ordinal))
}

/// Whether all answer, and all others have their link up to this one.
fn everybody_follows(observed: &Observed, answering: &[Answer<'_>], primary: &Pod, members: u32) -> bool {
    let follow = |facts: &ServerFacts| matches!(&facts.role, Role::Replica(link) if link.up && link.primary == Upstream::Pod(primary.uid.clone()));
    all_answer(observed, answering, members) && answering.iter().all(|(pod, facts)| pod.uid == primary.uid || follow(facts))
}

/// A lost ledger: every member that a StatefulSet or a claim names must answer, and they must agree.
fn recovered(observed: &Observed, answering: &[Answer<'_>], members: u32) -> Option<Lesson> {
    if !all_answer(observed, answering, members) {
        return None;
    }
    let primaries: Vec<_> = answering.iter().filter(|(_, facts)| facts.role == Role::Primary).collect();
    if let [(pod, facts)] = primaries.as_slice() {
        return everybody_follows(observed, answering, pod, members).then(|| primary(observed, pod, facts));
    }
    let (_, first) = answering.first()?;
    if !primaries.is_empty() {
        return None;
    }
    if answering.iter().all(|(_, facts)| facts.keys == 0 && facts.offset == 0) {
        return Some(Lesson::Unformed);
    }
    let agree = !first.replid.is_empty() && answering.iter().all(|(_, facts)| facts.replid == first.replid && facts.offset > 0);
    let best = answering.iter().map(|(_, facts)| facts.offset).max().unwrap_or(0);
    agree.then(|| Lesson::Formed(first.replid.clone(), best))
}

#[cfg(test)]
mod tests;
