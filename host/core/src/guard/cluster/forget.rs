//! Rule 1: a node is forgotten, and a server loses its identity, only when neither can take data or slots with it.

use vko_wit::observation::{Claim, Role, Upstream};

use crate::guard::View;
use crate::guard::evidence::is_syncing;

/// Forgetting takes a node's slots and its place away for good: it must be gone, own nothing, and not be able to come back.
pub(super) fn check_forget(node: &str, view: &View<'_>) -> Result<(), String> {
    if let Some(pod) = view.pod_of_node(node) {
        return Err(format!("it is {}, whose pod is there: a node that still runs comes back by itself", pod.name));
    }
    if let Some(peer) = view.peer(node) {
        if !peer.slots.is_empty() {
            return Err(format!("the node {node} owns slots"));
        }
        if let Upstream::Pod(uid) = &peer.pod
            && view.pod(uid).is_some()
            && view.node_of(uid).is_none()
        {
            return Err(format!("it may be {}, which has not said its id yet", view.name(uid)));
        }
        if peer.linked_by > 0 && !peer.failed {
            return Err(format!("the node {node} is alive"));
        }
    }
    if let Some(pod) = view.unidentified().next() {
        return Err(format!("{} has not said its id yet and may be that node", pod.name));
    }
    match returning(node, view) {
        None => Ok(()),
        Some(claim) => Err(format!("the claim {} may bring that node back with its data", claim.name)),
    }
}

/// A claim whose next pod may find that node's identity in it: the node's own by the ledger, or any that no server speaks for.
fn returning<'a>(node: &str, view: &View<'a>) -> Option<&'a Claim> {
    let observed = view.observed;
    let member = observed.ledger.members.iter().find(|member| member.node_id == node);
    let spoken_for = |claim: &Claim| {
        view.members().any(|pod| {
            pod.workload == claim.workload && pod.ordinal == claim.ordinal && view.node_of(&pod.uid).is_some_and(|id| id != node)
        })
    };
    let there = |claim: &&Claim| claim.node_exists != Some(false) && claim.phase != "Lost" && !spoken_for(claim);
    let own = |claim: &&Claim| {
        member.is_none_or(|member| {
            claim.uid == member.claim || (claim.workload == member.workload && claim.ordinal == member.ordinal)
        })
    };
    observed.claims.iter().filter(there).find(own)
}

/// A reset wipes a replica, and a primary's place: only a server that says now that it is empty, owns nothing, and is nobody's
/// primary.
pub(super) fn check_reset(uid: &str, view: &View<'_>) -> Result<(), String> {
    let name = view.name(uid);
    let (Some(facts), Some(cluster)) = (view.answers(uid), view.cluster(uid)) else {
        return Err(format!("{name} does not answer now"));
    };
    if facts.keys > 0 {
        return Err(format!("{name} holds {} keys", facts.keys));
    }
    if view.owns_slots(uid) || !cluster.importing.is_empty() || !cluster.migrating.is_empty() {
        return Err(format!("{name} owns slots, or is about to"));
    }
    if is_syncing(facts) {
        return Err(format!("{name} is in the middle of a sync"));
    }
    if let Role::Replica(link) = &facts.role
        && link.up
    {
        return Err(format!("{name} is a replica in service"));
    }
    let follows = view.observed.agreed_view.iter().find(|peer| peer.replica_of == cluster.id && !peer.failed);
    match follows {
        None => Ok(()),
        Some(replica) => Err(format!("{} follows {name}", view.node_name(&replica.id))),
    }
}
