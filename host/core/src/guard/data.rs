//! Rule 1: no server is deleted or re-parented that holds the only synced copy.

use vko_wit::observation::{Pod, Role, ServerFacts};
use vko_wit::planning::{Follow, HandOver, Operation, Step};

use super::View;

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    match &step.operation {
        Operation::Follow(follow) => check_follow(step, follow, view),
        Operation::Evict(pod) => check_evict(step, pod, view),
        Operation::ForceDelete(pod) => check_force_delete(pod, view),
        Operation::HandOver(order) => check_hand_over(order, view),
        Operation::Detach(pod) => check_detach(pod, view),
        Operation::Fence(setting) => check_fence(&setting.pod, view),
        _ => Ok(()),
    }
}

/// Following throws away what the primary lacks. So only the accepted primary may be followed: the one that the ledger names, that answers
/// as a primary, with this data set's history.
fn check_follow(step: &Step, follow: &Follow, view: &View<'_>) -> Result<(), String> {
    let (pod, primary) = both(view, &follow.pod, &follow.primary)?;
    if pod.uid == primary.uid {
        return Err(format!("{} can't follow itself", pod.name));
    }
    if view.becomes_primary(&primary.uid) {
        return Ok(());
    }
    if !view.is_last_primary(primary) {
        return Err(format!("{} is not the primary that the ledger names", primary.name));
    }
    let Some(upstream) = view.answers(&primary.uid).filter(|facts| facts.role == Role::Primary) else {
        return Err(format!("{} does not answer as a primary now", primary.name));
    };
    let keeps = view.answers(&pod.uid).map_or(1, |facts| facts.keys);
    if keeps > 0 && !view.in_lineage(upstream) && !view.consented(step, &pod.name) {
        return Err(format!("{} may hold data that {} lacks: its replication history is unknown", pod.name, primary.name));
    }
    Ok(())
}

fn check_evict(step: &Step, uid: &str, view: &View<'_>) -> Result<(), String> {
    let Some(pod) = view.pod(uid) else { return Ok(()) };
    if view.is_primary(uid) || (view.is_last_primary(pod) && !view.is_dead(pod)) {
        return allow_or(view.consented(step, &pod.name), format!("{} is the primary: hand its role over first", pod.name));
    }
    let primary_answers = view.members().any(|other| other.uid != uid && view.is_primary(&other.uid));
    allow_or(primary_answers || view.consented(step, &pod.name), format!("no primary answers; {} may hold the only copy", pod.name))
}

fn check_force_delete(uid: &str, view: &View<'_>) -> Result<(), String> {
    let Some(pod) = view.pod(uid) else { return Ok(()) };
    allow_or(view.is_dead(pod), format!("{} is not proven dead: a silent node may still run it", pod.name))
}

/// The replica must have everything but the last moments: the server doesn't check it.
fn check_hand_over(order: &HandOver, view: &View<'_>) -> Result<(), String> {
    let (primary, replica) = both(view, &order.primary, &order.replica)?;
    let Some(facts) = view.answers(&primary.uid).filter(|facts| facts.role == Role::Primary) else {
        return Err(format!("{} does not answer as a primary now", primary.name));
    };
    if replica.terminating_for > 0 {
        return Err(format!("{} is terminating", replica.name));
    }
    let Some(own) = view.answers(&replica.uid) else { return Err(format!("{} does not answer now", replica.name)) };
    allow_or(is_online(facts, own, &replica.uid), format!("{} is not in sync with {}", replica.name, primary.name))
}

fn is_online(primary: &ServerFacts, replica: &ServerFacts, uid: &str) -> bool {
    let link = matches!(&replica.role, Role::Replica(link) if link.up && !link.syncing);
    let listed = primary.replicas.iter().any(|r| r.pod == vko_wit::observation::Upstream::Pod(uid.into()) && r.online && r.offset > 0 && r.lag <= 2_000);
    link && listed && replica.offset > 0
}

/// Detaching is the fence's second half: only from a primary that is silent, or from none at all.
fn check_detach(uid: &str, view: &View<'_>) -> Result<(), String> {
    let Some(facts) = view.answers(uid) else { return Err(format!("{} does not answer now", view.name(uid))) };
    match &facts.role {
        Role::Primary => Err(format!("{} is a primary", view.name(uid))),
        Role::Replica(link) => match &link.primary {
            vko_wit::observation::Upstream::Pod(primary) if view.is_primary(primary) => {
                Err(format!("{} follows {}, which answers", view.name(uid), view.name(primary)))
            }
            _ => Ok(()),
        },
    }
}

fn check_fence(uid: &str, view: &View<'_>) -> Result<(), String> {
    allow_or(view.is_primary(uid), format!("{} does not answer as a primary now", view.name(uid)))
}

fn both<'a>(view: &View<'a>, one: &str, other: &str) -> Result<(&'a Pod, &'a Pod), String> {
    let find = |uid: &str| view.pod(uid).ok_or_else(|| format!("no pod of this instance has the UID {uid}"));
    Ok((find(one)?, find(other)?))
}

fn allow_or(allowed: bool, why: String) -> Result<(), String> {
    if allowed { Ok(()) } else { Err(why) }
}
