//! Rules 2 and 3 for a shard: a replica takes over without its primary's help only when that one is dead or held back, and only
//! the best one.
//!
//! # Flow
//! 1. The replica itself: answers, has been in sync, stays, knows the slots that it would take over.
//! 2. Its primary: doesn't answer as one, and more than silence says that it won't.
//! 3. The way: by votes while most primaries answer, without them only while they don't, one shard at a time.
//! 4. The copy: of the primary's history, and nobody has more of it.

use vko_wit::observation::{Peer, Pod, Role, ServerFacts, Upstream};
use vko_wit::planning::{ClusterTakeover, Step, Takeover};

use crate::guard::View;
use crate::guard::evidence::{Consent, is_syncing, node_is_lost};

pub(super) fn check(step: &Step, order: &ClusterTakeover, view: &View<'_>) -> Result<(), String> {
    let Some(pod) = view.pod(&order.replica) else { return Ok(()) };
    let facts = check_replica(pod, view)?;
    if let Some(other) = view.other_heir(&pod.uid) {
        return Err(format!("{} is made the primary of this shard already", view.name(other)));
    }
    let owner = owner_of(pod, facts, view)?;
    if view.leads(&owner.id) {
        return Err(format!("{} answers as a primary: only a hand-over may take its role", view.node_name(&owner.id)));
    }
    if !view.is_node_dead(&owner.id, Some(&pod.workload)) {
        return Err(format!("{} is not proven dead: silent is not dead", view.node_name(&owner.id)));
    }
    if view.lacks_slots_of(&pod.uid, owner) {
        return Err(format!("{} has not learned all slots of {} yet", pod.name, view.node_name(&owner.id)));
    }
    check_votes(order, view)?;
    if view.consented(step, Consent::Promote, &pod.name) {
        return Ok(());
    }
    check_copy(pod, facts, owner, view)
}

fn check_replica<'a>(pod: &Pod, view: &View<'a>) -> Result<&'a ServerFacts, String> {
    if pod.terminating_for > 0 {
        return Err(format!("{} is terminating", pod.name));
    }
    if node_is_lost(pod) {
        return Err(format!("the node of {} is lost", pod.name));
    }
    let Some(facts) = view.answers(&pod.uid) else { return Err(format!("{} does not answer now", pod.name)) };
    match &facts.role {
        Role::Primary => Err(format!("{} is a primary already", pod.name)),
        Role::Replica(_) if is_syncing(facts) => Err(format!("{} is in the middle of a sync", pod.name)),
        Role::Replica(_) => Ok(facts),
    }
}

/// The owner of the slots that the replica would take over.
fn owner_of<'a>(pod: &Pod, facts: &ServerFacts, view: &View<'a>) -> Result<&'a Peer, String> {
    let own = facts.cluster.first().and_then(|cluster| view.peer(&cluster.id));
    let owner = own.and_then(|own| view.peer(&own.replica_of)).filter(|owner| !owner.slots.is_empty());
    owner.ok_or_else(|| format!("most servers do not see {} as the replica of an owner of slots", pod.name))
}

fn check_votes(order: &ClusterTakeover, view: &View<'_>) -> Result<(), String> {
    let (answering, all) = view.owners_answering();
    let majority = view.majority_answers();
    match order.mode {
        Takeover::Force if !majority => Err(format!("{answering} of {all} primaries answer: there are no votes for it")),
        Takeover::Takeover if majority => {
            Err(format!("{answering} of {all} primaries answer: they must be asked, or two may be elected"))
        }
        Takeover::Takeover if view.takes_over_unvoted() => {
            Err("another shard is taken over without votes: the next one only if it is still needed then".into())
        }
        _ => Ok(()),
    }
}

fn check_copy(pod: &Pod, facts: &ServerFacts, owner: &Peer, view: &View<'_>) -> Result<(), String> {
    if facts.offset == 0 {
        return Err(format!("{} was never in sync", pod.name));
    }
    let lost = view.pod_of_node(&owner.id).and_then(|pod| view.facts(&pod.uid)).filter(|facts| facts.role == Role::Primary);
    let descends = |lost: &ServerFacts| facts.replid == lost.replid || facts.second_replid == lost.replid;
    if !view.is_held_node(&owner.id) && lost.is_some_and(|lost| !descends(lost)) {
        return Err(format!("{} is not of the history of {}", pod.name, view.node_name(&owner.id)));
    }
    if let Some(better) = view.better_copy(pod, facts) {
        return Err(format!("{} has more of the same history", better.name));
    }
    let fuller = |other: &&Pod| facts.keys == 0 && view.is_answering_replica(&other.uid);
    match view.copies(&pod.uid).find(fuller) {
        None => Ok(()),
        Some(other) => Err(format!("{} is empty and {} holds data", pod.name, other.name)),
    }
}

impl View<'_> {
    fn is_held_node(&self, node: &str) -> bool {
        self.pod_of_node(node).is_some_and(|pod| self.is_held(&pod.uid))
    }

    /// Whether a node is certain not to serve: its pod is dead or gone, runs under another id, or our agent holds the server
    /// back. While a member (of that workload, if one is named) hasn't said its id, it may be the one.
    pub(super) fn is_node_dead(&self, node: &str, workload: Option<&str>) -> bool {
        if let Some(pod) = self.pod_of_node(node) {
            return self.is_dead(pod) || self.is_held(&pod.uid);
        }
        let by_address = self.peer(node).and_then(|peer| match &peer.pod {
            Upstream::Pod(uid) => self.pod(uid),
            _ => None,
        });
        let may_be = |pod: &Pod| workload.is_none_or(|workload| pod.workload == workload) && !self.is_held(&pod.uid);
        let unidentified = self.unidentified().any(may_be);
        let there = by_address.is_some_and(|pod| self.node_of(&pod.uid).is_none() && may_be(pod) && !self.is_dead(pod));
        !unidentified && !there
    }
}
