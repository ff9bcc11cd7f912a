//! Rules 5 and 6: only this instance's pods and claims, only operations that this host carries out.

use vko_wit::planning::{Operation, Step};

use super::View;
use crate::execute::names;
use crate::observe::CAPABILITIES;

/// Rule 6.
pub(super) fn check_listed(step: &Step, _: &View<'_>) -> Result<(), String> {
    let name = names::operation(&step.operation);
    if CAPABILITIES.contains(&name) { Ok(()) } else { Err(format!("this host does not carry out '{name}'")) }
}

/// Rule 5: the observation holds this instance's pods and claims and no others.
pub(super) fn check_owned(step: &Step, view: &View<'_>) -> Result<(), String> {
    if let Operation::DeleteClaim(claim) = &step.operation {
        let known = view.observed.claims.iter().any(|c| &c.uid == claim);
        return if known { Ok(()) } else { Err(format!("no claim of this instance has the UID {claim}")) };
    }
    match pods(&step.operation).into_iter().find(|uid| view.pod(uid).is_none()) {
        None => Ok(()),
        Some(uid) => Err(format!("no pod of this instance has the UID {uid}")),
    }
}

fn pods(operation: &Operation) -> Vec<&str> {
    match operation {
        Operation::Evict(pod)
        | Operation::ForceDelete(pod)
        | Operation::Detach(pod)
        | Operation::Promote(pod)
        | Operation::DropClients(pod)
        | Operation::Save(pod) => vec![pod],
        Operation::Follow(follow) => vec![&follow.pod, &follow.primary],
        Operation::HandOver(order) => vec![&order.primary, &order.replica],
        Operation::Fence(setting) => vec![&setting.pod],
        _ => Vec::new(),
    }
}
