//! Rule 3: nobody is promoted while another member may acknowledge writes. Silent is not dead.
//!
//! # Guarantees
//! 1. A member that may be a primary and doesn't answer must have ended, or be fenced for certain.
//! 2. A fence counts only when it is the ledger's, binds this run, and has had its time since the last replica left.
//!
//! # Flow
//! 1. [`suspicion`]: why a member that doesn't answer may be a primary.
//! 2. [`is_fenced`]: what is missing before it surely isn't any more.

use vko_wit::common::{Architecture, StartMode};
use vko_wit::observation::{ContainerState, FenceRecord, Pod, Role, Upstream};

use super::View;

/// Beyond a fence's max-lag: measured, a fenced primary has acknowledged its last write by then.
const FENCE_MARGIN_MS: u64 = 2_000;

/// Whether nobody but the target may acknowledge writes.
pub(super) fn check(target: &Pod, view: &View<'_>) -> Result<(), String> {
    for pod in view.others(&target.uid) {
        if let Some(why) = suspicion(pod, view) {
            is_fenced(pod, view).map_err(|missing| format!("{} {why}: {missing}", pod.name))?;
        }
    }
    Ok(())
}

/// Why a member may be a primary although it doesn't answer as one; `None` if it can't be.
fn suspicion(pod: &Pod, view: &View<'_>) -> Option<&'static str> {
    if pod.container == ContainerState::Terminated && starts_alone(pod) && !super::evidence::node_is_lost(pod) {
        return Some("starts again as a primary by itself");
    }
    // Without an address it never ran, or runs no more.
    if view.is_dead(pod) || pod.addresses.is_empty() || view.is_replica(&pod.uid) {
        return None;
    }
    let facts = view.facts(&pod.uid);
    // The kubelet says that its first process is still to come, and nobody ever heard one.
    if pod.container == ContainerState::Starting && facts.is_none() {
        return None;
    }
    // The very pod: its successor in the same place never had the role.
    if view
        .last_primary(&pod.workload)
        .is_some_and(|last| last.ordinal == pod.ordinal && (last.pod == pod.uid || last.pod.is_empty()))
    {
        return Some("was the last primary and does not answer, which is not dead");
    }
    if facts.is_some_and(|facts| facts.role == Role::Primary) {
        return Some("last said that it is a primary, and does not answer now");
    }
    if facts.is_none() && pod.ready {
        return Some("is ready and was never heard");
    }
    if view.followers(&pod.uid).next().is_some() {
        return Some("is followed by others and does not answer");
    }
    if view.observed.instance.architecture == Architecture::Failover {
        match view.named_by_majority() {
            Some(Upstream::Pod(named)) if *named == pod.uid => {
                return Some("is the primary by the word of most Sentinels and does not answer, which is not dead");
            }
            Some(_) => {}
            None => return Some("does not answer, and no majority of the Sentinels says whom they made the primary"),
        }
    }
    if handed_over_unseen(pod, view) {
        return Some("may have been handed the role when the last primary's pod ended, and does not answer");
    }
    view.moved_on().then_some("does not answer, and somebody was made a primary unseen")
}

/// Whether it streamed from the last primary when it was last heard, and that one's pod has been ended since: the hook of an
/// ending pod hands the role over. (The end of a container or of a machine runs no hook.) Once its successor's server runs, a
/// later word counts.
fn handed_over_unseen(pod: &Pod, view: &View<'_>) -> bool {
    let Some(last) = view.last_primary(&pod.workload) else { return false };
    let Some(Role::Replica(link)) = view.facts(&pod.uid).map(|facts| &facts.role) else { return false };
    let in_place = view.pod_of(last);
    let ended = in_place.is_none_or(|now| now.uid != last.pod || now.terminating_for > 0);
    let from_it = match &link.primary {
        Upstream::Nobody => false,
        Upstream::Pod(upstream) => *upstream == last.pod,
        Upstream::Other(_) => view.pod(&last.pod).is_none(),
    };
    let successor =
        in_place.filter(|now| now.uid != last.pod).and_then(|now| Some((view.answers(&now.uid)?, view.age(&now.uid))));
    let heard_since = successor.is_some_and(|(facts, age)| view.age(&pod.uid) < facts.uptime.saturating_add(age));
    ended && link.up && from_it && !heard_since
}

/// Whether a restart of its container would come up as a primary, as far as is known.
fn starts_alone(pod: &Pod) -> bool {
    pod.mounted_start == Some(StartMode::Alone)
}

/// Whether a silent primary's fence has taken effect; the error says what is missing.
fn is_fenced(pod: &Pod, view: &View<'_>) -> Result<(), String> {
    let run = view.facts(&pod.uid).map(|facts| facts.run_id.as_str());
    let binds = |fence: &&FenceRecord| {
        // A run that was never heard is the fence's, or a later one, which began as a replica of nobody.
        fence.pod == pod.uid && fence.min_replicas > 0 && !fence.run_id.is_empty() && run.is_none_or(|run| run == fence.run_id)
    };
    let Some(fence) = view.observed.ledger.fences.iter().find(binds) else {
        return Err("the ledger knows no fence of this run".into());
    };
    if let Some(replica) = view.followers(&pod.uid).next() {
        return Err(format!("{} still follows it", replica.name));
    }
    if fence.detached_at == 0 {
        return Err("its replicas are not known to be detached".into());
    }
    let effective = fence.detached_at.saturating_add(fence.max_lag).saturating_add(FENCE_MARGIN_MS);
    if view.observed.now < effective {
        return Err(format!("its fence takes effect in {} ms", effective - view.observed.now));
    }
    few_unheard(pod, fence, view)
}

/// Members that we can't ask may still follow it; fewer of them than the fence's height can't keep it writing.
fn few_unheard(primary: &Pod, fence: &FenceRecord, view: &View<'_>) -> Result<(), String> {
    let unheard = |pod: &&Pod| !view.is_dead(pod) && !pod.addresses.is_empty() && !view.is_replica(&pod.uid);
    let mut unheard: Vec<&str> = view.others(&primary.uid).filter(unheard).map(|pod| pod.name.as_str()).collect();
    // A fence counts whoever is attached, members or not.
    let attached = view.facts(&primary.uid).map(|facts| facts.replicas.as_slice()).unwrap_or_default();
    unheard.extend(
        attached.iter().filter(|r| r.online && !matches!(r.pod, Upstream::Pod(_))).map(|_| "a replica that is no member"),
    );
    if unheard.len() < usize::try_from(fence.min_replicas).unwrap_or(usize::MAX) {
        return Ok(());
    }
    Err(format!("{} may still follow it", unheard.join(", ")))
}
