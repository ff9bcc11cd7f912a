//! Rules 5 and 6: only this instance's pods, claims and monitors, only operations that this host carries out in this
//! architecture.

use vko_wit::common::{Architecture, Pair};
use vko_wit::planning::{Operation, Step};

use super::View;
use crate::execute::names;
use crate::observe::CAPABILITIES;

/// What may be set of a monitor. Not among them: scripts that a Sentinel would run, and credentials, which are named apart.
const MONITOR_OPTIONS: [&str; 5] =
    ["quorum", "down-after-milliseconds", "failover-timeout", "parallel-syncs", "master-reboot-down-after-period"];

/// Rule 6.
pub(super) fn check_listed(step: &Step, view: &View<'_>) -> Result<(), String> {
    let name = names::operation(&step.operation);
    if !CAPABILITIES.contains(&name) {
        return Err(format!("this host does not carry out '{name}'"));
    }
    let architecture = view.observed.instance.architecture;
    if !is_of(&step.operation, architecture) {
        return Err(format!("'{name}' is no operation of the {} architecture", name_of(architecture)));
    }
    match &step.operation {
        Operation::Monitor(monitor) => check_options(&monitor.options),
        Operation::SetMonitor(options) => check_options(&options.options),
        _ => Ok(()),
    }
}

/// In a cluster roles follow from slots and elections, elsewhere there are none.
fn is_of(operation: &Operation, architecture: Architecture) -> bool {
    match operation {
        Operation::Follow(_) | Operation::Detach(_) | Operation::Promote(_) | Operation::Fence(_) => {
            architecture != Architecture::Cluster
        }
        Operation::Meet(_)
        | Operation::Forget(_)
        | Operation::Replicate(_)
        | Operation::OwnSlots(_)
        | Operation::TakeOver(_)
        | Operation::BumpEpoch(_)
        | Operation::SettleSlots(_)
        | Operation::ResetEmpty(_) => architecture == Architecture::Cluster,
        Operation::Monitor(_)
        | Operation::Unmonitor(_)
        | Operation::SetMonitor(_)
        | Operation::SentinelFailover(_)
        | Operation::ResetMonitor(_) => architecture == Architecture::Failover,
        _ => true,
    }
}

fn name_of(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Cluster => "cluster",
        Architecture::Failover => "failover",
        Architecture::Replica => "replica",
    }
}

fn check_options(options: &[Pair]) -> Result<(), String> {
    match options.iter().find(|pair| !MONITOR_OPTIONS.contains(&pair.key.as_str())) {
        None => Ok(()),
        Some(pair) => Err(format!("'{}' is no option of a monitor that a policy may set", pair.key)),
    }
}

/// Rule 5: the observation holds this instance's pods and claims and no others.
pub(super) fn check_owned(step: &Step, view: &View<'_>) -> Result<(), String> {
    if let Operation::DeleteClaim(claim) = &step.operation {
        let known = view.observed.claims.iter().any(|c| &c.uid == claim);
        return if known { Ok(()) } else { Err(format!("no claim of this instance has the UID {claim}")) };
    }
    if let Some((sentinel, name)) = monitor(&step.operation) {
        check_monitor(sentinel, name, view)?;
    }
    let any_pod = |uid: &str| view.pod(uid).is_some();
    let data_pod = |uid: &str| view.members().any(|pod| pod.uid == uid);
    let either = matches!(step.operation, Operation::Evict(_) | Operation::ForceDelete(_));
    match pods(&step.operation).into_iter().find(|uid| !if either { any_pod(uid) } else { data_pod(uid) }) {
        None => Ok(()),
        Some(uid) if any_pod(uid) => Err(format!("{} runs a Sentinel and no data server", view.name(uid))),
        Some(uid) => Err(format!("no pod of this instance has the UID {uid}")),
    }
}

/// A referenced Sentinel may watch others' data sets: only the monitor that is named after this instance is its own.
fn check_monitor(id: &str, name: &str, view: &View<'_>) -> Result<(), String> {
    let Some(sentinel) = view.observed.sentinels.iter().find(|sentinel| sentinel.id == id && !id.is_empty()) else {
        return Err(format!("no Sentinel of this instance has the id {id}"));
    };
    let own = view.monitor_name(sentinel);
    if name == own { Ok(()) } else { Err(format!("the monitor {name} is not this instance's, which is {own}")) }
}

fn monitor(operation: &Operation) -> Option<(&str, &str)> {
    match operation {
        Operation::Monitor(monitor) => Some((&monitor.sentinel, &monitor.name)),
        Operation::SetMonitor(options) => Some((&options.sentinel, &options.name)),
        Operation::Unmonitor(name) | Operation::SentinelFailover(name) | Operation::ResetMonitor(name) => {
            Some((&name.sentinel, &name.name))
        }
        _ => None,
    }
}

fn pods(operation: &Operation) -> Vec<&str> {
    match operation {
        Operation::Evict(pod)
        | Operation::ForceDelete(pod)
        | Operation::Detach(pod)
        | Operation::Promote(pod)
        | Operation::DropClients(pod)
        | Operation::Save(pod)
        | Operation::BumpEpoch(pod)
        | Operation::ResetEmpty(pod) => vec![pod],
        Operation::Follow(follow) => vec![&follow.pod, &follow.primary],
        Operation::HandOver(order) => vec![&order.primary, &order.replica],
        Operation::Fence(setting) => vec![&setting.pod],
        Operation::Meet(pair) => vec![&pair.pod, &pair.peer],
        Operation::Replicate(order) => vec![&order.pod],
        Operation::OwnSlots(assignment) => vec![&assignment.pod],
        Operation::TakeOver(order) => vec![&order.replica],
        Operation::SettleSlots(settlement) => vec![&settlement.pod],
        Operation::Monitor(monitor) => vec![&monitor.primary],
        _ => Vec::new(),
    }
}
