//! Rule 7, second half: a workload shrinks by ordinals only that are not primary, own no slots, and without which a synced copy
//! remains. Sentinels don't leave: those that stay would count on their votes for ever.

use vko_wit::planning::{Purpose, Workload};

use super::View;

pub(super) fn check(workload: &Workload, view: &View<'_>) -> Result<(), String> {
    let allowed = members_allowed(workload, view);
    if allowed == workload.members {
        return Ok(());
    }
    let what = if workload.purpose == Purpose::Sentinel { "Sentinels count on each other, which" } else { "members hold what" };
    Err(format!("{allowed} {what} {} would lose", workload.members))
}

/// As many members as the workload is given now: nobody leaves by a plan that may be too old, or isn't ours to carry out
/// (rule 10). The second word: whether that held somebody back, so that another look is due soon.
pub fn members_now(workload: &Workload, view: &View<'_>) -> (u32, bool) {
    let allowed = members_allowed(workload, view);
    let there = places(view.observed.pods.iter().filter(|pod| pod.workload == workload.name).map(|pod| pod.ordinal));
    if view.circumstances.is_calm() || there <= allowed { (allowed, false) } else { (there, true) }
}

/// As many members as the workload may have: its own wish, or as many as there are while the wish would drop data, slots or
/// votes.
fn members_allowed(workload: &Workload, view: &View<'_>) -> u32 {
    if workload.purpose == Purpose::Sentinel {
        let live = places(view.observed.pods.iter().filter(|pod| pod.workload == workload.name).map(|pod| pod.ordinal));
        return live.max(workload.members);
    }
    if view.observed.ledger.formed == Some(false) {
        return workload.members;
    }
    let last = view.last_primary(&workload.name);
    let members = || view.members().filter(|pod| pod.workload == workload.name);
    let live = places(members().map(|pod| pod.ordinal).chain(last.map(|last| last.ordinal)));
    if live <= workload.members {
        return workload.members;
    }
    let primary_stays = last
        .is_some_and(|last| last.ordinal < workload.members && view.pod_of(last).is_some_and(|pod| view.is_primary(&pod.uid)));
    let owner_goes = members().any(|pod| pod.ordinal >= workload.members && view.owns_slots(&pod.uid));
    if primary_stays && !owner_goes { workload.members } else { live }
}

/// Places up to the highest of these ordinals.
fn places(ordinals: impl Iterator<Item = u32>) -> u32 {
    ordinals.map(|ordinal| ordinal.saturating_add(1)).max().unwrap_or(0)
}
