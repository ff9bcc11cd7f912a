//! What the ledger learns from what is observed, without any act of ours: a primary that a hook handed over to, a sole member that started
//! by itself, members that agree although the ledger was lost.
//!
//! # Guarantees
//! 1. The ledger learns only from servers that answer now, and only what no other answer contradicts.
//! 2. Nothing here names a primary that isn't one already.
//!
//! # Flow
//! Asked at each look, before the policy: [`lesson`] names what the ledger should learn; `None` is the rule.

use vko_wit::observation::{ContainerState, LastPrimary, NodeState, Observed, Pod, Reach, Role, ServerFacts, Upstream};

use crate::ledger::{Ledger, Member};
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
            Self::Unformed => ledger.formed = Some(false),
            Self::Formed(replid, offset) => {
                ledger.formed = Some(true);
                ledger.note_lineage(replid, *offset, now);
            }
        }
    }
}

/// What the ledger should learn from an observation. `members` is how many the StatefulSet has, `claims` the ordinals that claims name: those
/// who must answer before a lost ledger is written anew. `alone`: the sole member starts as a primary.
pub fn lesson(observed: &Observed, members: u32, alone: bool) -> Option<Lesson> {
    let answering = answering(observed);
    let primaries: Vec<_> = answering.iter().filter(|(_, facts)| facts.role == Role::Primary).collect();
    match observed.ledger.formed {
        None => recovered(observed, &answering, members),
        Some(false) => match primaries.as_slice() {
            [(pod, facts)] if alone && members == 1 => Some(primary(observed, pod, facts)),
            _ => None,
        },
        Some(true) => match primaries.as_slice() {
            [(pod, facts)] => known_primary(observed, &answering, pod, facts, alone && members == 1),
            _ => None,
        },
    }
}

type Answer<'a> = (&'a Pod, &'a ServerFacts);

fn answering(observed: &Observed) -> Vec<Answer<'_>> {
    let servers = observed.servers.iter().filter(|server| server.reach == Reach::Answered);
    servers.filter_map(|s| Some((observed.pods.iter().find(|pod| pod.uid == s.pod)?, s.facts.as_ref()?))).collect()
}

fn member(observed: &Observed, pod: &Pod) -> Member {
    let claim = observed.claims.iter().find(|claim| claim.workload == pod.workload && claim.ordinal == pod.ordinal);
    Member { workload: pod.workload.clone(), ordinal: pod.ordinal, pod: pod.uid.clone(), claim: claim.map(|c| c.uid.clone()).unwrap_or_default() }
}

fn primary(observed: &Observed, pod: &Pod, facts: &ServerFacts) -> Lesson {
    Lesson::Primary(member(observed, pod), facts.replid.clone(), facts.offset)
}

/// The one server that answers as a primary: the accepted one, or one that a hook handed over to.
fn known_primary(observed: &Observed, answering: &[Answer<'_>], pod: &Pod, facts: &ServerFacts, alone: bool) -> Option<Lesson> {
    let last = match &observed.ledger.last_primary {
        LastPrimary::Members(members) => members.iter().find(|m| m.workload == pod.workload),
        LastPrimary::None => None,
    };
    let knows = |replid: &str| observed.ledger.lineages.iter().any(|lineage| lineage.replid == replid);
    let is_last = last.is_some_and(|last| last.ordinal == pod.ordinal);
    if is_last && last.is_some_and(|last| last.pod == pod.uid) {
        return (!knows(&facts.replid)).then(|| Lesson::Lineage(facts.replid.clone(), facts.offset));
    }
    if is_last && alone {
        // Its successor in the same place, with whatever the claim kept.
        return Some(primary(observed, pod, facts));
    }
    let descends = knows(&facts.replid) || (!facts.second_replid.is_empty() && knows(&facts.second_replid));
    let old = last.and_then(|last| observed.pods.iter().find(|p| p.workload == last.workload && p.ordinal == last.ordinal));
    let gave_way = match old {
        None => true,
        Some(old) => follows(answering, old, pod) || has_ended(old, last.map(|l| l.pod.as_str()).unwrap_or_default()),
    };
    (descends && gave_way).then(|| primary(observed, pod, facts))
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

/// A lost ledger: every member that a StatefulSet or a claim names must answer, and they must agree.
fn recovered(observed: &Observed, answering: &[Answer<'_>], members: u32) -> Option<Lesson> {
    let named = |ordinal: u32| answering.iter().any(|(pod, _)| pod.ordinal == ordinal);
    let all = members > 0 && (0..members).all(named) && observed.claims.iter().all(|claim| named(claim.ordinal));
    if !all || observed.pods.iter().any(|pod| !answering.iter().any(|(p, _)| p.uid == pod.uid)) {
        return None;
    }
    let primaries: Vec<_> = answering.iter().filter(|(_, facts)| facts.role == Role::Primary).collect();
    if let [(pod, facts)] = primaries.as_slice() {
        let others_follow = answering.iter().filter(|(p, _)| p.uid != pod.uid).all(|(_, f)| {
            matches!(&f.role, Role::Replica(link) if link.up && link.primary == Upstream::Pod(pod.uid.clone()))
        });
        return others_follow.then(|| primary(observed, pod, facts));
    }
    let (_, first) = answering.first()?;
    if !primaries.is_empty() {
        return None;
    }
    if answering.iter().all(|(_, facts)| facts.keys == 0 && facts.offset == 0) {
        return Some(Lesson::Unformed);
    }
    let agree = answering.iter().all(|(_, facts)| facts.replid == first.replid && facts.offset > 0);
    let best = answering.iter().map(|(_, facts)| facts.offset).max().unwrap_or(0);
    agree.then(|| Lesson::Formed(first.replid.clone(), best))
}
