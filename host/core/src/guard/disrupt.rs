//! Rule 4: at most one member of a data set is disturbed at a time, and in one cluster no more primaries at once than leaves a
//! majority. Replacing a member that isn't ready is no second disruption. What a roll may do beside that: [`roll`].

use vko_wit::observation::Pod;
use vko_wit::planning::{Operation, Step};

use super::{View, cluster, roll};

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    let uid = match &step.operation {
        Operation::Evict(pod) => pod,
        Operation::HandOver(order) => &order.primary,
        _ => return Ok(()),
    };
    let Some(pod) = view.pod(uid) else { return Ok(()) };
    if let Some(other) = view.disturbed().iter().find(|other| *other != uid && view.same_workload(other, uid)) {
        return Err(format!("{} is disturbed by this plan already", view.name(other)));
    }
    if cluster::is_cluster(view) {
        check_majority(pod, view)?;
    }
    let other = view.others(uid).find(|other| !other.ready || other.terminating_for > 0);
    match other {
        Some(other) if pod.ready => Err(format!("{} is not ready: a second member would be out of service", other.name)),
        _ => match &step.operation {
            Operation::HandOver(order) => roll::check_hand_over(order, view),
            _ => roll::check_evict(pod, view),
        },
    }
}

/// Elections need more than half of the primaries: those that are disturbed and those that don't answer must stay fewer than the
/// rest.
fn check_majority(pod: &Pod, view: &View<'_>) -> Result<(), String> {
    if !view.owns_slots(&pod.uid) {
        return Ok(());
    }
    let disturbed = |uid: &str| uid == pod.uid || view.disturbed().iter().any(|other| other == uid);
    let (left, all) = view.owners_left(disturbed);
    if left * 2 > all {
        return Ok(());
    }
    Err(format!("{left} of {all} primaries would be left: no majority"))
}
