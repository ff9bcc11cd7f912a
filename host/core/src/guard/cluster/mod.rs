//! The rules of a cluster: its servers own slots and elect among themselves, so what may be lost is not only a copy but a claim
//! to slots.
//!
//! # Guarantees
//! 1. A server that owns slots, by the view that most share or by its own, is never given another role, reset or forgotten.
//! 2. Slots are never given to a second owner while the first may come back with what they held.
//! 3. Two clusters never merge: a view that names servers of others is not acquainted with ours.
//!
//! # Assumptions
//! A server is known by its node id, out of its own mouth; an address proves nothing. The agreed view is what most servers that
//! answer believe, by the highest epochs, and names every node that anybody knows.
//!
//! # Flow
//! 1. [`evidence`]: who is who, who owns what, who is alive.
//! 2. One file per kind of step.

mod evidence;
mod forget;
mod meet;
mod replicate;
mod slots;
mod take_over;

use vko_wit::common::Architecture;
use vko_wit::planning::{Operation, Step};

use super::View;

/// Rule 1, for steps of clusters.
pub(super) fn check_data(step: &Step, view: &View<'_>) -> Result<(), String> {
    match &step.operation {
        Operation::Meet(pair) => meet::check(pair, view),
        Operation::Forget(node) => forget::check_forget(node, view),
        Operation::ResetEmpty(pod) => forget::check_reset(pod, view),
        Operation::Replicate(order) => replicate::check(step, order, view),
        Operation::OwnSlots(assignment) => slots::check_own(step, assignment, view),
        Operation::SettleSlots(settlement) => slots::check_settle(settlement, view),
        Operation::BumpEpoch(pod) => slots::check_bump(pod, view),
        _ => Ok(()),
    }
}

/// Rules 2 and 3: a replica takes its shard over without its primary's help.
pub(super) fn check_promotion(step: &Step, view: &View<'_>) -> Result<(), String> {
    match &step.operation {
        Operation::TakeOver(order) => take_over::check(step, order, view),
        _ => Ok(()),
    }
}

/// Whether the instance is a cluster.
pub(super) fn is_cluster(view: &View<'_>) -> bool {
    view.observed.instance.architecture == Architecture::Cluster
}
