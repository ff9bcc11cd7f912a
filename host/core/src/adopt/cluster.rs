//! What the ledger learns of a cluster: that slots have owners, and which member of each shard is the primary. Servers elect
//! among themselves at any time; the ledger follows what they agree on.
//!
//! # Guarantees
//! 1. A primary is learnt if it answers as one and, in the agreed view, its node owns slots; no other of its shard does both.
//! 2. Against a primary that the ledger names speak only answers from after it was named.
//! 3. A lost ledger is found again only if every member that a StatefulSet or claim names answers.

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
            (setting.asked_since && !news.is_empty()).then_some(Lesson::Shards(news))
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
#[cfg(test)]
mod tests {
    use vko_wit::common::SlotRange;
    use vko_wit::observation::LedgerMember;

    use super::*;
    use crate::observe::testing::{Cluster, mk_cluster};

    fn lesson_of(cluster: &Cluster) -> Option<Lesson> {
        lesson_if(cluster, true)
    }

    fn lesson_if(cluster: &Cluster, asked_since: bool) -> Option<Lesson> {
        let members = (0..3).map(|shard| (format!("drc-x-{shard}"), 2)).collect();
        lesson(&cluster.observed, &Setting { members, alone: false, at_rest: true, asked_since })
    }

    fn learnt(cluster: &Cluster) -> Vec<(String, u32)> {
        match lesson_of(cluster) {
            Some(Lesson::Shards(members)) => members.into_iter().map(|m| (m.workload, m.ordinal)).collect(),
            None => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// Three shards of two; member 0 of each is the primary, and the ledger says so.
    fn known() -> Cluster {
        let mut cluster = mk_cluster(3, 2);
        let Some(Lesson::Shards(members)) = lesson_of(&cluster) else { panic!("a cluster that serves is formed") };
        let known =
            |m: Member| LedgerMember { workload: m.workload, ordinal: m.ordinal, pod: m.pod, claim: m.claim, node_id: m.node_id };
        cluster.observed.ledger.formed = Some(true);
        cluster.observed.ledger.last_primary = LastPrimary::Members(members.into_iter().map(known).collect());
        cluster
    }

    #[test]
    fn a_cluster_that_serves_is_formed_and_known_after_that() {
        assert_eq!(learnt(&mk_cluster(3, 2)).len(), 3, "the ledger was lost");
        assert_eq!(lesson_of(&known()), None);
    }

    #[test]
    fn the_ledger_follows_an_election_that_is_agreed_on() {
        type Case = (&'static str, fn(&mut Cluster), &'static [(&'static str, u32)]);
        let cases: [Case; 5] = [
            ("another member has role and slots", |c| c.switch(1), &[("drc-x-1", 1)]),
            ("it has the role, the others don't agree yet", |c| c.facts(1, 1).role = Role::Primary, &[]),
            (
                "two of a shard lead: nobody is learnt",
                |c| {
                    c.facts(1, 1).role = Role::Primary;
                    c.peer(1, 1).replica_of.clear();
                    c.peer(1, 1).slots = vec![SlotRange { first: 0, last: 1 }];
                },
                &[],
            ),
            (
                "it doesn't answer",
                |c| {
                    c.switch(1);
                    c.silence(1, 1);
                },
                &[],
            ),
            ("another node fills the place", |c| c.rename(2, 0, "new"), &[("drc-x-2", 0)]),
        ];
        for (case, change, expected) in cases {
            let mut cluster = known();
            change(&mut cluster);
            let expected: Vec<(String, u32)> = expected.iter().map(|(name, ordinal)| ((*name).to_owned(), *ordinal)).collect();
            assert_eq!(learnt(&cluster), expected, "{case}");
            assert_eq!(lesson_if(&cluster, false), None, "{case}, said before the ledger's primaries were named");
        }
    }

    #[test]
    fn a_lost_ledger_is_found_when_all_answer() {
        let mut cluster = mk_cluster(3, 2);
        cluster.silence(2, 1);
        assert_eq!(lesson_of(&cluster), None, "one is silent");
        let mut cluster = mk_cluster(3, 2);
        cluster.no_slots();
        assert_eq!(lesson_of(&cluster), Some(Lesson::Unformed), "nobody holds anything");
        cluster.facts(0, 0).keys = 1;
        assert_eq!(lesson_of(&cluster), None, "keys without an owner of slots are for a person");
    }
}
