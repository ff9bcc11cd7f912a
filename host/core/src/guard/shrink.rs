//! Rule 7, second half: a workload shrinks by ordinals only that are not primary and without which a synced copy remains.

use vko_wit::planning::{Purpose, Workload};

use super::View;

pub(super) fn check(workload: &Workload, view: &View<'_>) -> Result<(), String> {
    let allowed = members_allowed(workload, view);
    if allowed == workload.members {
        Ok(())
    } else {
        Err(format!("{} members hold what {} would lose", allowed, workload.members))
    }
}

/// As many members as the workload may have: its own wish, or as many as there are while the wish would drop data.
pub fn members_allowed(workload: &Workload, view: &View<'_>) -> u32 {
    if workload.purpose != Purpose::Data || view.observed.ledger.formed == Some(false) {
        return workload.members;
    }
    let last = view.last_primary(&workload.name);
    let places =
        view.members().filter(|pod| pod.workload == workload.name).map(|pod| pod.ordinal).chain(last.map(|last| last.ordinal));
    let live = places.map(|ordinal| ordinal.saturating_add(1)).max().unwrap_or(0);
    if live <= workload.members {
        return workload.members;
    }
    let primary_stays = last
        .is_some_and(|last| last.ordinal < workload.members && view.pod_of(last).is_some_and(|pod| view.is_primary(&pod.uid)));
    if primary_stays { workload.members } else { live }
}
