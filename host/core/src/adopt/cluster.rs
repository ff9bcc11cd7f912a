//! What the ledger learns of a cluster: that slots have owners, and which member of each shard is the primary. Servers elect among themselves
//! at any time; the ledger follows what they agree on.
//!
//! # Guarantees
//! 1. A primary is learnt if it answers as one and, in the agreed view, its node owns slots; no other of its shard does both.
//! 2. A lost ledger is found again only if every member that a StatefulSet or claim names answers.

use vko_wit::observation::{LastPrimary, Observed, Peer, Pod, Role, ServerFacts, Upstream};

use super::{Answer, Lesson, Setting, answering};
use crate::ledger::Member;
use crate::workloads::is_data;

/// What the ledger should learn from an observation of a cluster.
pub(super) fn lesson(observed: &Observed, setting: &Setting) -> Option<Lesson> {
    let answering = answering(observed);
    let primaries = primaries(observed, &answering);
    match observed.ledger.formed {
        None if !all_answer(observed, &answering, setting) => None,
        None if primaries.is_empty() => nothing_held(observed, &answering).then_some(Lesson::Unformed),
        // Slots without a formed cluster: given by somebody else, or by us just before the ledger was restored from a backup.
        None | Some(false) => (!primaries.is_empty()).then_some(Lesson::Shards(primaries)),
        Some(true) => {
            let news: Vec<Member> = primaries.into_iter().filter(|primary| !is_known(observed, primary)).collect();
            (!news.is_empty()).then_some(Lesson::Shards(news))
        }
    }
}

/// The primary of each shard, where there is exactly one.
fn primaries(observed: &Observed, answering: &[Answer<'_>]) -> Vec<Member> {
    let leads = |(pod, facts): &Answer<'_>| facts.role == Role::Primary && peer(observed, pod, facts).is_some_and(owns);
    let leading: Vec<&Pod> = answering.iter().filter(|answer| leads(answer)).map(|(pod, _)| *pod).collect();
    let alone = |pod: &&&Pod| leading.iter().filter(|other| other.workload == pod.workload).count() == 1;
    leading.iter().filter(alone).map(|pod| Member::of(observed, pod)).collect()
}

/// A pod's node in the agreed view, by the id that its server calls its own.
fn peer<'a>(observed: &'a Observed, pod: &Pod, facts: &ServerFacts) -> Option<&'a Peer> {
    let id = &facts.cluster.first()?.id;
    observed.agreed_view.iter().find(|peer| &peer.id == id && peer.pod == Upstream::Pod(pod.uid.clone()))
}

fn owns(peer: &Peer) -> bool {
    !peer.slots.is_empty() && peer.replica_of.is_empty()
}

fn is_known(observed: &Observed, primary: &Member) -> bool {
    let LastPrimary::Members(known) = &observed.ledger.last_primary else { return false };
    known.iter().any(|last| {
        last.workload == primary.workload
            && last.ordinal == primary.ordinal
            && last.pod == primary.pod
            && last.node_id == primary.node_id
    })
}

/// Whether every member that a StatefulSet or a claim names answers, and every pod.
fn all_answer(observed: &Observed, answering: &[Answer<'_>], setting: &Setting) -> bool {
    let there =
        |workload: &str, ordinal: u32| answering.iter().any(|(pod, _)| pod.workload == workload && pod.ordinal == ordinal);
    let shards = setting.members.iter().filter(|(name, _)| is_data(&observed.instance, name));
    let named = shards.clone().all(|(name, members)| (0..*members).all(|ordinal| there(name, ordinal)));
    shards.count() > 0
        && named
        && observed.claims.iter().all(|claim| there(&claim.workload, claim.ordinal))
        && observed.pods.iter().all(|pod| there(&pod.workload, pod.ordinal))
}

/// No server holds a key, and in nobody's view a slot has an owner.
fn nothing_held(observed: &Observed, answering: &[Answer<'_>]) -> bool {
    let empty =
        |facts: &ServerFacts| facts.keys == 0 && facts.cluster.iter().all(|own| own.differs.iter().all(|b| b.slots.is_empty()));
    observed.agreed_view.iter().all(|peer| peer.slots.is_empty()) && answering.iter().all(|(_, facts)| empty(facts))
}
