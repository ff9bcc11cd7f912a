//! Rules 2 and 3: a promotion needs evidence that nobody else can acknowledge writes any more, and that no better copy exists.

use serde_json::Value;
use vko_wit::observation::{Claim, ContainerState, Pod, ServerFacts};
use vko_wit::planning::{Operation, Step};

use super::evidence::{Consent, is_syncing, node_is_lost};
use super::{View, cluster, writers};

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    let Operation::Promote(uid) = &step.operation else { return cluster::check_promotion(step, view) };
    let Some(pod) = view.pod(uid) else { return Ok(()) };
    let facts = check_target(pod, view)?;
    if let Some(other) = view.other_heir(uid) {
        return Err(format!("{} is made the primary already", view.name(other)));
    }
    check_other_primaries(pod, view)?;
    check_sentinels(view)?;
    writers::check(pod, view)?;
    check_copies(step, pod, facts, view)
}

fn check_target<'a>(pod: &Pod, view: &View<'a>) -> Result<&'a ServerFacts, String> {
    if pod.terminating_for > 0 {
        return Err(format!("{} is terminating", pod.name));
    }
    if node_is_lost(pod) {
        return Err(format!("the node of {} is lost", pod.name));
    }
    let Some(facts) = view.answers(&pod.uid) else { return Err(format!("{} does not answer now", pod.name)) };
    if is_syncing(facts) { Err(format!("{} is in the middle of a sync", pod.name)) } else { Ok(facts) }
}

/// Rule 2: no second primary beside one that answers.
fn check_other_primaries(target: &Pod, view: &View<'_>) -> Result<(), String> {
    match view.others(&target.uid).find(|pod| view.is_primary(&pod.uid)) {
        None => Ok(()),
        Some(primary) => Err(format!("{} answers as a primary: only a hand-over may take its role", primary.name)),
    }
}

/// Whom the Sentinels are about to promote has the role in a moment.
fn check_sentinels(view: &View<'_>) -> Result<(), String> {
    if view.sentinels_choose() {
        return Err("the Sentinels choose a primary already".into());
    }
    match view.failover_under_way() {
        None => Ok(()),
        Some(sentinel) => Err(format!("the Sentinel {} is in the middle of a failover", sentinel.id)),
    }
}

/// Rule 2: never an unsynced or empty one while a synced one exists or may come back.
fn check_copies(step: &Step, target: &Pod, facts: &ServerFacts, view: &View<'_>) -> Result<(), String> {
    if view.consented(step, Consent::Promote, &target.name) {
        return Ok(());
    }
    if let Some(better) = view.better_copy(target, facts) {
        return Err(format!("{} has more of the same history", better.name));
    }
    match view.observed.ledger.formed {
        None => Err("it is unknown whether this instance was ever formed, and so what its members hold".into()),
        Some(false) => check_creation(target, facts, view),
        Some(true) if view.is_complete(target, facts) => Ok(()),
        Some(true) => check_unsynced(target, facts, view),
    }
}

/// Creation: an empty one only while all are empty; one with data only while no other has data of another history; and nobody
/// before the claims that are older than the instance have been asked.
fn check_creation(target: &Pod, facts: &ServerFacts, view: &View<'_>) -> Result<(), String> {
    let comparable = |other: &ServerFacts| {
        facts.keys > 0 && facts.offset > 0 && other.offset > 0 && !facts.replid.is_empty() && facts.replid == other.replid
    };
    let apart = |pod: &&Pod| view.facts(&pod.uid).is_some_and(|other| other.keys > 0 && !comparable(other));
    if let Some(other) = view.others(&target.uid).find(apart) {
        return Err(format!("{} holds data: which copy counts is for a person to say", other.name));
    }
    match older_claim(target, view) {
        None => Ok(()),
        Some(claim) => {
            Err(format!("the claim {} is older than this instance and may hold data; its member does not answer", claim.name))
        }
    }
}

/// A claim that is older than the instance, may hold data of an earlier one, and whose member can't be asked.
pub(super) fn older_claim<'a>(target: &Pod, view: &View<'a>) -> Option<&'a Claim> {
    unasked_claims(target, view).find(|claim| claim.before_instance && claim.phase != "Pending")
}

/// Formed, and the target isn't known to be complete (an append-only file names no history): the last primary's data wins unless
/// a synced copy exists; any other copy only when nothing is left that can't be asked and may hold data; an empty one only beside
/// empty ones.
fn check_unsynced(target: &Pod, facts: &ServerFacts, view: &View<'_>) -> Result<(), String> {
    let others = || view.others(&target.uid);
    if let Some(other) = others().find(|pod| view.answers(&pod.uid).is_some_and(|facts| view.is_complete(pod, facts))) {
        return Err(format!("{} has a synced copy", other.name));
    }
    // No history was ever seen: the naming of the first primary was cut short, and it is the one that was appointed.
    let never_led = view.observed.ledger.lineages.is_empty();
    let empty = |pod: &Pod| view.answers(&pod.uid).is_none_or(|other| other.keys == 0);
    if view.is_last_primary(target) && (facts.keys > 0 || (never_led && others().all(empty))) {
        return Ok(());
    }
    let fuller = |pod: &&Pod| facts.keys == 0 && view.answers(&pod.uid).is_some_and(|other| other.keys > 0);
    if let Some(other) = others().find(fuller) {
        return Err(format!("{} is empty and {} holds data", target.name, other.name));
    }
    let unheard = |pod: &&Pod| view.answers(&pod.uid).is_none() && !pod.addresses.is_empty() && !is_lost(pod, view);
    if let Some(other) = others().find(unheard) {
        return Err(format!("{} does not answer and may hold data", other.name));
    }
    match unasked_claims(target, view).find(|claim| u64::from(claim.ordinal) < places(target, view)) {
        None => Ok(()),
        Some(claim) => Err(format!("the claim {} may hold data", claim.name)),
    }
}

/// Whether what a pod held went with it: its process or node has ended for good, and no claim keeps anything.
pub(super) fn is_lost(pod: &Pod, view: &View<'_>) -> bool {
    let over = matches!(pod.phase.as_str(), "Failed" | "Succeeded");
    let ended = over || (pod.terminating_for > 0 && pod.container == ContainerState::Terminated);
    let claimed = view.observed.claims.iter().any(|claim| claim.workload == pod.workload && claim.ordinal == pod.ordinal);
    !claimed && (node_is_lost(pod) || ended)
}

/// Claims of other members that exist somewhere and that no answering server speaks for.
pub(super) fn unasked_claims<'a>(target: &Pod, view: &View<'a>) -> impl Iterator<Item = &'a Claim> {
    let answered = |claim: &Claim| {
        view.members()
            .any(|pod| pod.workload == claim.workload && pod.ordinal == claim.ordinal && view.answers(&pod.uid).is_some())
    };
    let there = |claim: &&Claim| claim.node_exists != Some(false) && claim.phase != "Lost";
    let others = |claim: &&Claim| claim.workload == target.workload && claim.ordinal != target.ordinal;
    view.observed.claims.iter().filter(others).filter(there).filter(move |claim| !answered(claim)).collect::<Vec<_>>().into_iter()
}

/// How many places the workload has or shall have. A claim beyond them is left over from a member that was removed while the data
/// set was whole.
fn places(target: &Pod, view: &View<'_>) -> u64 {
    let observed = view.observed;
    let pods = view.members().filter(|pod| pod.workload == target.workload).map(|pod| u64::from(pod.ordinal) + 1).max();
    let last = view.last_primary(&target.workload).map(|last| u64::from(last.ordinal) + 1);
    let sets = observed.objects.iter().filter(|object| object.kind == "StatefulSet" && object.name == target.workload);
    let live = sets.filter_map(|set| serde_json::from_str::<Value>(&set.status).ok()?.get("replicas")?.as_u64()).max();
    [Some(view.wanted_members()), pods, last, live].into_iter().flatten().max().unwrap_or(u64::MAX)
}
