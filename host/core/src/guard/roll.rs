//! Evidence about members that are replaced one after the other, in the replica architecture: what may be disturbed and in which
//! direction, when a lone member may be restarted, when a member's volume may be emptied.
//!
//! # Guarantees
//! 1. A ready member goes only while every other wanted member is there and in sync with the accepted primary.
//! 2. While server lines are mixed, only towards the template in force: who goes isn't of it, who gets the role is.
//! 3. A lone primary goes only if its volume has all that it acknowledged, and nothing but its own start is needed to serve that.
//! 4. A volume is emptied only of a replica that may have saved what the wanted line can't read, in an upgrade that is taken
//!    back, one at a time, while the accepted primary answers.
//!
//! # Assumptions
//! The ledger notes a line before anybody is started with it (`ledger.tried-line`). An append-only file is complete after a stop
//! by SIGTERM.

use vko_model::version::{Line, Version};
use vko_wit::common::Architecture;
use vko_wit::facts;
use vko_wit::observation::{Claim, ContainerState, Pod, Role, ServerFacts, TemplateState};
use vko_wit::planning::HandOver;

use super::View;
use super::data::is_online;

/// Rule 4 for a member that is to be replaced.
pub(super) fn check_evict(pod: &Pod, view: &View<'_>) -> Result<(), String> {
    // What isn't ready is out of service already.
    if !is_replica_architecture(view) || !pod.ready || !view.members().any(|member| member.uid == pod.uid) {
        return Ok(());
    }
    check_others(pod, view)?;
    if is_mixed(view) && pod.template != TemplateState::SpecChanged {
        return Err(format!("server lines are mixed, and {} is of the template in force: others go first", pod.name));
    }
    Ok(())
}

/// Rule 4 for the role.
pub(super) fn check_hand_over(order: &HandOver, view: &View<'_>) -> Result<(), String> {
    match view.pod(&order.replica) {
        Some(heir) if is_replica_architecture(view) && is_mixed(view) && heir.template == TemplateState::SpecChanged => {
            Err(format!("server lines are mixed, and {} isn't of the template in force: it is replaced itself", heir.name))
        }
        _ => Ok(()),
    }
}

/// Every other wanted member is there and in sync.
fn check_others(pod: &Pod, view: &View<'_>) -> Result<(), String> {
    let others = || view.others(&pod.uid);
    let primary = others().find(|other| view.is_accepted_primary(other)).and_then(|other| view.answers(&other.uid));
    let places = places(pod, view);
    if let Some(missing) = (0..places).find(|place| *place != pod.ordinal && !others().any(|other| other.ordinal == *place)) {
        return Err(format!("{}-{missing} is missing", pod.workload));
    }
    let in_sync = |other: &Pod| {
        let own = view.answers(&other.uid);
        let streams = primary.zip(own).is_some_and(|(primary, own)| is_online(primary, own, &other.uid));
        view.is_accepted_primary(other) || streams
    };
    match others().find(|other| other.ordinal < places && !in_sync(other)) {
        Some(other) => Err(format!("{} is not in sync: a second copy would be missing", other.name)),
        None => Ok(()),
    }
}

/// Places that must be filled: as many as are wanted, and no more than the workload has by now.
fn places(pod: &Pod, view: &View<'_>) -> u32 {
    let sets = view.observed.objects.iter().filter(|object| object.kind == "StatefulSet" && object.name == pod.workload);
    let made = sets.filter_map(|set| set.members).max();
    let wanted = u32::try_from(view.wanted_members()).ok();
    match (wanted, made) {
        (Some(wanted), Some(made)) => wanted.min(made),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => 0,
    }
    .min(crate::render::MEMBERS_MAX)
}

/// Whether the only member that there is and shall be serves all again after a restart: it appends each write to its volume.
pub(super) fn restarts_whole(pod: &Pod, view: &View<'_>) -> bool {
    let alone = view.wanted_members() == 1 && view.others(&pod.uid).next().is_none();
    let whole =
        |facts: &ServerFacts| facts.role == Role::Primary && facts::appends(facts) == Some(true) && facts.cannot_write.is_none();
    let bound = claim_of(pod, view).is_some_and(|claim| claim.phase == "Bound");
    is_replica_architecture(view) && alone && bound && view.answers(&pod.uid).is_some_and(whole)
}

/// Whether nothing that a pod holds ends with it: no server runs in it, and what there is lies on a claim, or it never ran.
pub(super) fn holds_nothing_itself(pod: &Pod, view: &View<'_>) -> bool {
    if !is_replica_architecture(view) || pod.ready {
        return false;
    }
    let never_ran = pod.container == ContainerState::Starting && view.facts(&pod.uid).is_none();
    match pod.container {
        ContainerState::Terminated => claim_of(pod, view).is_some(),
        ContainerState::Starting => never_ran && (pod.restarts == 0 || claim_of(pod, view).is_some()),
        ContainerState::Running | ContainerState::Unknown => false,
    }
}

/// Whether the volume of a member may be emptied though its pod is there: in an upgrade that is taken back, of a replica that may
/// have saved what the wanted line can't read.
pub(super) fn check_emptied(pod: &Pod, view: &View<'_>) -> Result<(), String> {
    let in_use = || format!("{} uses it", pod.name);
    let wanted = wanted_line(view).ok_or_else(in_use)?;
    let tried = facts::tried_line(view.observed).and_then(|line| line.parse::<Line>().ok()).ok_or_else(in_use)?;
    if !is_replica_architecture(view) || tried <= wanted {
        return Err(in_use());
    }
    if view.is_primary(&pod.uid) || view.is_last_primary(pod) {
        return Err(format!("{} is the primary", pod.name));
    }
    let known = view.facts(&pod.uid).map(line_of);
    if pod.ready && known.is_none() || known.is_some_and(|line| line.is_none_or(|line| line <= wanted)) {
        return Err(format!("{} can read it: it is no newer than {}", pod.name, wanted.as_str()));
    }
    if let Some(other) = view.disturbed().iter().find(|other| *other != &pod.uid && view.same_workload(other, &pod.uid)) {
        return Err(format!("{} is disturbed by this plan already", view.name(other)));
    }
    if pod.ready { check_others(pod, view) } else { Ok(()) }
}

/// Whether servers of different lines answer, or did when they were last heard.
fn is_mixed(view: &View<'_>) -> bool {
    let mut lines = view.members().filter_map(|pod| view.facts(&pod.uid)).filter_map(line_of);
    let first = lines.next();
    lines.any(|line| Some(line) != first)
}

fn line_of(facts: &ServerFacts) -> Option<Line> {
    let version = facts.version;
    Line::of(&Version::new(version.major, version.minor, version.patch)).ok()
}

fn wanted_line(view: &View<'_>) -> Option<Line> {
    let spec: serde_json::Value = serde_json::from_str(&view.observed.instance.spec).ok()?;
    spec.get("version")?.as_str()?.parse().ok()
}

fn claim_of<'a>(pod: &Pod, view: &View<'a>) -> Option<&'a Claim> {
    let here = |claim: &&Claim| claim.workload == pod.workload && claim.ordinal == pod.ordinal;
    view.observed.claims.iter().find(here).filter(|claim| claim.node_exists != Some(false) && claim.phase != "Lost")
}

fn is_replica_architecture(view: &View<'_>) -> bool {
    view.observed.instance.architecture == Architecture::Replica
}
