//! Rule 4: at most one member of a data set is disturbed at a time. Replacing a member that isn't ready is no second disruption.

use vko_wit::planning::{Operation, Step};

use super::View;

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    let uid = match &step.operation {
        Operation::Evict(pod) => pod,
        Operation::HandOver(order) => &order.primary,
        _ => return Ok(()),
    };
    let Some(pod) = view.pod(uid) else { return Ok(()) };
    if let Some(other) = view.disturbed().iter().find(|other| *other != uid) {
        return Err(format!("{} is disturbed by this plan already", view.name(other)));
    }
    let other = view.members().find(|p| p.uid != pod.uid && p.workload == pod.workload && (!p.ready || p.terminating_for > 0));
    match other {
        Some(other) if pod.ready => Err(format!("{} is not ready: a second member would be out of service", other.name)),
        _ => Ok(()),
    }
}
