//! Rule 1: no server is deleted or re-parented that holds the only synced copy.

use vko_wit::common::Architecture;
use vko_wit::observation::{AttachedReplica, DataOrigin, FenceRecord, Pod, Role, ServerFacts, Upstream};
use vko_wit::planning::{Follow, HandOver, Operation, Step};

use super::evidence::{Consent, was_loaded};
use super::{View, cluster, roll};

/// Lag (ms) up to which an attached replica counts as streaming: it acknowledges once a second.
const LAG_MAX_MS: u64 = 2_000;

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    match &step.operation {
        Operation::Follow(follow) => check_follow(step, follow, view),
        Operation::Evict(pod) => check_evict(step, pod, view),
        Operation::ForceDelete(pod) => check_force_delete(pod, view),
        Operation::HandOver(order) => check_hand_over(order, view),
        Operation::Detach(pod) => check_detach(pod, view),
        Operation::Fence(setting) => check_fence(&setting.pod, view),
        _ => cluster::check_data(step, view),
    }
}

/// Following throws away what the primary lacks. So only the accepted primary may be followed: the one that the ledger names,
/// that answers as a primary, with this data set's history.
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
    match discarded(pod, upstream, view) {
        Some(why) if !view.consented(step, Consent::Discard, &pod.name) => Err(why),
        _ => Ok(()),
    }
}

/// What would be lost if the pod followed that primary; `None` if nothing is.
fn discarded(pod: &Pod, upstream: &ServerFacts, view: &View<'_>) -> Option<String> {
    let Some(own) = view.answers(&pod.uid) else {
        return (!view.in_lineage(upstream))
            .then(|| format!("{} does not answer and may hold data that the primary lacks", pod.name));
    };
    if own.keys == 0 || lacks_nothing_of(upstream, own) {
        return None;
    }
    if own.role == Role::Primary {
        let superseded = |fence: &FenceRecord| {
            fence.pod == pod.uid && fence.run_id == own.run_id && fence.min_replicas > 0 && fence.detached_at > 0
        };
        let fenced = view.observed.ledger.fences.iter().any(superseded);
        return (!fenced).then(|| format!("{} answers as a primary and holds writes that the accepted one lacks", pod.name));
    }
    if !view.in_lineage(upstream) {
        return Some(format!("{} holds data, and the primary's replication history is unknown", pod.name));
    }
    let empties = upstream.keys == 0 && upstream.origin == DataOrigin::Empty && was_loaded(own) && own.replid != upstream.replid;
    (empties && own.replid != upstream.second_replid)
        .then(|| format!("{} came back with data, and the primary began empty", pod.name))
}

/// Whether everything that `loser` holds is in `winner` too. Offsets mean something within one replication history only.
pub(super) fn lacks_nothing_of(winner: &ServerFacts, loser: &ServerFacts) -> bool {
    let same = !loser.replid.is_empty() && loser.replid == winner.replid && loser.offset <= winner.offset;
    // The winner was promoted out of the loser's history, after all that the loser wrote.
    let ancestor = !loser.replid.is_empty() && winner.second_replid == loser.replid && loser.offset < winner.second_offset;
    // The loser was promoted out of the winner's history and has written nothing since.
    let branched = !winner.replid.is_empty() && loser.second_replid == winner.replid;
    let idle = branched && loser.offset < loser.second_offset && loser.offset <= winner.offset;
    same || ancestor || idle
}

fn check_evict(step: &Step, uid: &str, view: &View<'_>) -> Result<(), String> {
    // Sentinels hold no data.
    let Some(pod) = view.members().find(|pod| pod.uid == uid) else { return Ok(()) };
    if cluster::is_cluster(view) {
        return check_evict_of_cluster(step, pod, view);
    }
    let consented = view.consented(step, Consent::Restart, &pod.name);
    if roll::restarts_whole(pod, view) || roll::holds_nothing_itself(pod, view) {
        return Ok(());
    }
    if view.is_primary(uid) || (view.is_last_primary(pod) && !view.is_dead(pod)) {
        return allow_or(consented, format!("{} is the primary: hand its role over first", pod.name));
    }
    let safe = view.others(uid).any(|other| view.is_accepted_primary(other));
    allow_or(safe || consented, format!("the primary does not answer; {} may hold the only copy", pod.name))
}

/// In a cluster whoever owns the slots leads: elections need no ledger. A member that owns none may go while its shard's owner
/// answers.
fn check_evict_of_cluster(step: &Step, pod: &Pod, view: &View<'_>) -> Result<(), String> {
    let consented = view.consented(step, Consent::Restart, &pod.name);
    if view.owns_slots(&pod.uid) {
        return allow_or(consented, format!("{} owns slots: hand its role over first", pod.name));
    }
    let led = view.others(&pod.uid).any(|other| view.is_primary(&other.uid) && view.owns_slots(&other.uid));
    let empty = view.answers(&pod.uid).is_some_and(|facts| facts.keys == 0);
    allow_or(led || empty || consented, format!("no owner of its shard's slots answers; {} may hold the only copy", pod.name))
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
    check_way(order, primary, view)?;
    if let Some(other) = view.other_heir(&replica.uid) {
        return Err(format!("{} is made the primary already", view.name(other)));
    }
    let Some(own) = view.answers(&replica.uid) else { return Err(format!("{} does not answer now", replica.name)) };
    allow_or(is_online(facts, own, &replica.uid), format!("{} is not in sync with {}", replica.name, primary.name))
}

/// What the architecture's way of handing over needs beside the two: votes of the other primaries, or Sentinels with nothing else
/// under way.
fn check_way(order: &HandOver, primary: &Pod, view: &View<'_>) -> Result<(), String> {
    match view.observed.instance.architecture {
        Architecture::Replica => allow_or(order.monitor.is_empty(), "the replica architecture has no Sentinels".into()),
        Architecture::Cluster => {
            allow_or(view.owns_slots(&primary.uid), format!("{} owns no slots", primary.name))?;
            allow_or(view.majority_answers(), "fewer than a majority of primaries answer: there are no votes for it".into())
        }
        Architecture::Failover => {
            allow_or(!order.monitor.is_empty(), "without the Sentinels' name for the data set they would take it back".into())?;
            allow_or(!view.sentinels_choose(), "the Sentinels choose a primary already".into())?;
            allow_or(view.failover_under_way().is_none(), "the Sentinels are in the middle of a failover".into())?;
            let named = view.named_by_majority() == Some(&Upstream::Pod(primary.uid.clone()));
            allow_or(named, format!("no majority of the Sentinels names {} as the primary", primary.name))
        }
    }
}

/// Whether a replica is in step, by its own word and its primary's.
pub(super) fn is_online(primary: &ServerFacts, replica: &ServerFacts, uid: &str) -> bool {
    let link = matches!(&replica.role, Role::Replica(link) if link.up && !link.syncing);
    let streams = |r: &AttachedReplica| r.pod == Upstream::Pod(uid.into()) && r.online && r.offset > 0 && r.lag <= LAG_MAX_MS;
    let listed = primary.replicas.iter().any(streams);
    link && listed && replica.offset > 0
}

/// Detaching is the fence's second half: only from a primary that is silent, or from none at all.
fn check_detach(uid: &str, view: &View<'_>) -> Result<(), String> {
    let Some(facts) = view.answers(uid) else { return Err(format!("{} does not answer now", view.name(uid))) };
    match &facts.role {
        Role::Primary => Err(format!("{} is a primary", view.name(uid))),
        Role::Replica(link) => match &link.primary {
            Upstream::Pod(primary) if view.is_primary(primary) => {
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
