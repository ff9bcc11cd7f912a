//! Rule 1: slots are given to nobody while another owner may hold, or bring back, what is in them.

use vko_wit::common::SlotRange;
use vko_wit::observation::{ClusterFacts, OpenSlots, Pod, Role};
use vko_wit::planning::{Settled, SlotAssignment, SlotSettlement, Step};

use super::evidence::{covers, overlap};
use crate::guard::View;
use crate::guard::evidence::Consent;
use crate::guard::promote::{is_lost, older_claim, unasked_claims};
use crate::procedure::cluster::slot_set;

pub(super) fn check_own(step: &Step, assignment: &SlotAssignment, view: &View<'_>) -> Result<(), String> {
    check_ranges(&assignment.slots)?;
    let Some(pod) = view.pod(&assignment.pod) else { return Ok(()) };
    let (Some(facts), Some(cluster)) = (view.answers(&pod.uid), view.cluster(&pod.uid)) else {
        return Err(format!("{} does not answer now", pod.name));
    };
    if facts.role != Role::Primary {
        return Err(format!("{} is a replica", pod.name));
    }
    if pod.terminating_for > 0 {
        return Err(format!("{} is terminating", pod.name));
    }
    if let Some(stranger) = view.foreigner(&pod.uid) {
        return Err(format!("{} may know the node {}, which is no pod of this instance", pod.name, stranger.id));
    }
    if let Some(other) = view.other_heir(&pod.uid) {
        return Err(format!("{} is made the primary of this shard already", view.name(other)));
    }
    check_claimed(&assignment.slots, &cluster.id, view)?;
    if view.consented(step, Consent::Slots, &pod.name) {
        return check_owners_dead(&assignment.slots, cluster, view);
    }
    if let Some(owner) = view.owners().find(|peer| peer.id != cluster.id && overlap(&peer.slots, &assignment.slots)) {
        return Err(format!("{} owns some of the slots", view.node_name(&owner.id)));
    }
    check_lost_data(pod, view)
}

/// Whoever says of itself that it owns one of them, beside what most believe: its own node is the first of its differences, so it
/// isn't cut off.
fn check_claimed(slots: &[SlotRange], own: &str, view: &View<'_>) -> Result<(), String> {
    for pod in view.members() {
        let Some(cluster) = view.cluster(&pod.uid) else { continue };
        let other =
            cluster.differs.iter().find(|belief| belief.id != own && belief.id == cluster.id && overlap(&belief.slots, slots));
        if other.is_some() {
            return Err(format!("{} claims some of the slots", pod.name));
        }
    }
    Ok(())
}

/// A person gives the data up: still no second owner beside one that may serve.
fn check_owners_dead(slots: &[SlotRange], own: &ClusterFacts, view: &View<'_>) -> Result<(), String> {
    for owner in view.owners().filter(|peer| peer.id != own.id && overlap(&peer.slots, slots)) {
        // Raised above what it has heard of, its epoch would still be the lower one, and its claim would fall back to the dead.
        if own.epoch < owner.config_epoch {
            return Err(format!("it has not heard of the epoch of {} yet", view.node_name(&owner.id)));
        }
        if !view.is_node_dead(&owner.id, None) {
            return Err(format!("{} owns some of the slots and is not proven dead", view.node_name(&owner.id)));
        }
    }
    Ok(())
}

/// Whether what the shard's slots held may be with another member: none that answers with data, can't be asked, or has left a
/// claim.
fn check_lost_data(pod: &Pod, view: &View<'_>) -> Result<(), String> {
    if let Some(other) = view.copies(&pod.uid).next() {
        return Err(format!("{} holds data of this shard: which copy counts is for a person to say", other.name));
    }
    let never_led = view.last_primary(&pod.workload).is_none();
    match view.observed.ledger.formed {
        None => Err("it is unknown whether this instance was ever formed, and so what its members hold".into()),
        Some(formed) if !formed || never_led => match older_claim(pod, view) {
            None => Ok(()),
            Some(claim) => {
                Err(format!("the claim {} is older than this instance and may hold data; its member does not answer", claim.name))
            }
        },
        Some(_) => {
            let unheard =
                |other: &&Pod| view.answers(&other.uid).is_none() && !other.addresses.is_empty() && !is_lost(other, view);
            if let Some(other) = view.others(&pod.uid).find(unheard) {
                return Err(format!("{} does not answer and may hold data", other.name));
            }
            match unasked_claims(pod, view).next() {
                None => Ok(()),
                Some(claim) => Err(format!("the claim {} may hold data", claim.name)),
            }
        }
    }
}

/// An open slot is closed the way that most see it, while both ends answer: what was half moved must be where the owner is.
pub(super) fn check_settle(settlement: &SlotSettlement, view: &View<'_>) -> Result<(), String> {
    check_ranges(&settlement.slots)?;
    let name = view.name(&settlement.pod);
    let (Some(facts), Some(cluster)) = (view.answers(&settlement.pod), view.cluster(&settlement.pod)) else {
        return Err(format!("{name} does not answer now"));
    };
    if facts.role != Role::Primary {
        return Err(format!("{name} is a replica"));
    }
    let open = |marks: &&OpenSlots| overlap(&marks.slots, &settlement.slots);
    for marks in cluster.importing.iter().chain(&cluster.migrating).filter(open) {
        if !view.leads(&marks.peer) {
            return Err(format!("{}, the other end, does not answer as a primary now", view.node_name(&marks.peer)));
        }
    }
    let Settled::Node(node) = &settlement.owner else { return Ok(()) };
    if !view.leads(node) {
        return Err(format!("{} does not answer as a primary now", view.node_name(node)));
    }
    if view.peer(node).is_some_and(|peer| covers(&peer.slots, &settlement.slots)) {
        return Ok(());
    }
    Err(format!("most servers do not see {} as the owner", view.node_name(node)))
}

/// A raised epoch makes a claim win: only of one that nobody else has, or that this track has just made.
pub(super) fn check_bump(uid: &str, view: &View<'_>) -> Result<(), String> {
    let name = view.name(uid);
    if !view.is_primary(uid) {
        return Err(format!("{name} does not answer as a primary now"));
    }
    if view.becomes_primary(uid) || view.agrees_on_itself(uid) {
        return Ok(());
    }
    Err(format!("{name} sees itself otherwise than most do: its claim must not win"))
}

fn check_ranges(slots: &[SlotRange]) -> Result<(), String> {
    if slots.is_empty() {
        return Err("it names no slots".into());
    }
    if let Err(bad) = slot_set(slots) {
        return Err(format!("{} to {} is no range of slots", bad.first, bad.last));
    }
    let twice = slots.iter().enumerate().any(|(at, range)| overlap(std::slice::from_ref(range), &slots[at + 1..]));
    if twice { Err("it names slots twice".into()) } else { Ok(()) }
}
