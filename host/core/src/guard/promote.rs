//! Rules 2 and 3: a promotion needs evidence that the old primary can acknowledge nothing any more, and that no better copy exists.

use vko_wit::observation::{Pod, Role, ServerFacts};
use vko_wit::planning::{Operation, Step};

use super::View;

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    let Operation::Promote(uid) = &step.operation else { return Ok(()) };
    let Some(pod) = view.pod(uid) else { return Ok(()) };
    let facts = check_target(pod, view)?;
    if let Some(other) = view.other_promotion(uid) {
        return Err(format!("{} is promoted already", view.name(other)));
    }
    check_other_primaries(pod, view)?;
    check_last_primary(pod, view)?;
    check_copies(step, pod, facts, view)
}

fn check_target<'a>(pod: &Pod, view: &View<'a>) -> Result<&'a ServerFacts, String> {
    if pod.terminating_for > 0 {
        return Err(format!("{} is terminating", pod.name));
    }
    let Some(facts) = view.answers(&pod.uid) else { return Err(format!("{} does not answer now", pod.name)) };
    match &facts.role {
        Role::Replica(link) if link.syncing => Err(format!("{} is in the middle of a sync", pod.name)),
        _ => Ok(facts),
    }
}

/// Rule 2: no second primary beside one that answers.
fn check_other_primaries(target: &Pod, view: &View<'_>) -> Result<(), String> {
    match view.members().find(|pod| pod.uid != target.uid && view.is_primary(&pod.uid)) {
        None => Ok(()),
        Some(primary) => Err(format!("{} answers as a primary: only a hand-over may take its role", primary.name)),
    }
}

/// Rule 3: the last primary is dead, answers without the role, or is fenced. Silent is not dead.
fn check_last_primary(target: &Pod, view: &View<'_>) -> Result<(), String> {
    if view.is_last_primary(target) {
        return Ok(());
    }
    let Some(last) = view.last_primary(&target.workload) else { return Ok(()) };
    // The pod that the ledger knows is gone and nobody fills its place, or a new pod does, which never had the role.
    let Some(pod) = view.pod_of(last) else { return Ok(()) };
    if pod.uid != last.pod || view.is_dead(pod) || view.answers(&pod.uid).is_some() {
        return Ok(());
    }
    if pod.addresses.is_empty() {
        // Without an address it never ran, or runs no more.
        return Ok(());
    }
    if let Some(replica) = view.heard_by(&pod.uid) {
        return Err(format!("{} still hears {}: it is alive, only the operator can't reach it", replica.name, pod.name));
    }
    view.is_fenced(pod)
}

/// Rule 2: never an unsynced or empty one while a synced one exists or may come back.
fn check_copies(step: &Step, target: &Pod, facts: &ServerFacts, view: &View<'_>) -> Result<(), String> {
    if view.is_synced(facts) || view.consented(step, &target.name) {
        return Ok(());
    }
    match view.observed.ledger.formed {
        None => Err("it is unknown whether this instance was ever formed, and so what its members hold".into()),
        Some(false) => check_creation(target, facts, view),
        Some(true) => check_without_lineage(target, facts, view),
    }
}

/// Creation: an empty one only while all are empty, one with data only while no other has any.
fn check_creation(target: &Pod, facts: &ServerFacts, view: &View<'_>) -> Result<(), String> {
    let others = || view.members().filter(|pod| pod.uid != target.uid);
    if let Some(other) = others().find(|pod| view.facts(&pod.uid).is_some_and(|other| other.keys > 0)) {
        return Err(format!("{} holds data: which copy counts is for a person to say", other.name));
    }
    if facts.keys > 0 {
        return Ok(());
    }
    // An unanswering member is no obstacle unless its claim is older than this instance's first look at it.
    match unasked_claim(target, view) {
        None => Ok(()),
        Some(claim) => Err(format!("the claim {claim} existed before this instance and may hold data; its member does not answer yet")),
    }
}

/// A claim that no answering server speaks for and that is older than the topology object.
fn unasked_claim(target: &Pod, view: &View<'_>) -> Option<String> {
    let observed = view.observed;
    observed
        .claims
        .iter()
        .filter(|claim| claim.workload == target.workload && claim.ordinal != target.ordinal)
        .filter(|claim| !answered(view, &claim.workload, claim.ordinal))
        .find(|claim| observed.extensions.iter().any(|pair| pair.key == "claim-before-instance" && pair.value == claim.name))
        .map(|claim| claim.name.clone())
}

fn answered(view: &View<'_>, workload: &str, ordinal: u32) -> bool {
    view.members().any(|pod| pod.workload == workload && pod.ordinal == ordinal && view.answers(&pod.uid).is_some())
}

/// Formed, and the target's history is unknown (an AOF restart has none): the last primary's claim wins unless a synced copy exists; an
/// empty one only when nothing is left that may hold data.
fn check_without_lineage(target: &Pod, facts: &ServerFacts, view: &View<'_>) -> Result<(), String> {
    let synced = view.members().find(|pod| pod.uid != target.uid && view.answers(&pod.uid).is_some_and(|f| view.is_synced(f)));
    if let Some(other) = synced {
        return Err(format!("{} has a synced copy", other.name));
    }
    if view.is_last_primary(target) && facts.keys > 0 {
        return Ok(());
    }
    let may_hold = |pod: &&Pod| view.facts(&pod.uid).is_none_or(|f| f.keys > 0 || view.answers(&pod.uid).is_none());
    if let Some(other) = view.members().filter(|pod| pod.uid != target.uid && !pod.addresses.is_empty()).find(may_hold) {
        return Err(format!("{} may hold data", other.name));
    }
    let claims = &view.observed.claims;
    let claim = claims.iter().find(|c| c.ordinal != target.ordinal && c.node_exists != Some(false) && !answered(view, &c.workload, c.ordinal));
    match claim {
        None => Ok(()),
        Some(claim) => Err(format!("the claim {} may hold data", claim.name)),
    }
}
