//! Names of operations: the host writes them into outcomes and capabilities, policies look their own steps up by them.

use crate::planning::Operation;

/// The case's name in `policy.wit`, as `recent` and `capabilities` of an observation have it.
pub fn operation_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Evict(_) => "evict",
        Operation::ForceDelete(_) => "force-delete",
        Operation::DeleteObject(_) => "delete-object",
        Operation::ResizeClaim(_) => "resize-claim",
        Operation::DeleteClaim(_) => "delete-claim",
        Operation::Follow(_) => "follow",
        Operation::Detach(_) => "detach",
        Operation::Promote(_) => "promote",
        Operation::HandOver(_) => "hand-over",
        Operation::Fence(_) => "fence",
        Operation::DropClients(_) => "drop-clients",
        Operation::Save(_) => "save",
        Operation::Meet(_) => "meet",
        Operation::Forget(_) => "forget",
        Operation::Replicate(_) => "replicate",
        Operation::OwnSlots(_) => "own-slots",
        Operation::TakeOver(_) => "take-over",
        Operation::BumpEpoch(_) => "bump-epoch",
        Operation::MoveSlots(_) => "move-slots",
        Operation::CancelJob(_) => "cancel-job",
        Operation::SettleSlots(_) => "settle-slots",
        Operation::ResetEmpty(_) => "reset-empty",
        Operation::Monitor(_) => "monitor",
        Operation::Unmonitor(_) => "unmonitor",
        Operation::SetMonitor(_) => "set-monitor",
        Operation::SentinelFailover(_) => "sentinel-failover",
        Operation::ResetMonitor(_) => "reset-monitor",
        Operation::Configure(_) => "configure",
        Operation::SyncUsers(_) => "sync-users",
        Operation::RotateCredential(_) => "rotate-credential",
        Operation::ReloadCertificates(_) => "reload-certificates",
        Operation::Extension(_) => "extension",
    }
}

#[cfg(test)]
mod tests {
    use super::operation_name;
    use crate::planning::{ExtensionOperation, FenceSetting, Follow, HandOver, Operation, SentinelName};

    #[test]
    fn names_are_those_of_the_file() {
        let uid = String::new;
        let sentinel = || SentinelName { sentinel: uid(), name: uid() };
        for operation in [
            Operation::Evict(uid()),
            Operation::ForceDelete(uid()),
            Operation::DeleteClaim(uid()),
            Operation::Follow(Follow { pod: uid(), primary: uid() }),
            Operation::Detach(uid()),
            Operation::Promote(uid()),
            Operation::HandOver(HandOver { primary: uid(), replica: uid(), monitor: uid(), timeout: 0 }),
            Operation::Fence(FenceSetting { pod: uid(), min_replicas: 0 }),
            Operation::DropClients(uid()),
            Operation::Save(uid()),
            Operation::Forget(uid()),
            Operation::BumpEpoch(uid()),
            Operation::CancelJob(uid()),
            Operation::ResetEmpty(uid()),
            Operation::Unmonitor(sentinel()),
            Operation::SentinelFailover(sentinel()),
            Operation::ResetMonitor(sentinel()),
            Operation::SyncUsers(uid()),
            Operation::ReloadCertificates(uid()),
            Operation::Extension(ExtensionOperation { name: uid(), pod: uid(), arguments: uid() }),
        ] {
            let name = operation_name(&operation);
            assert!(include_str!("../policy.wit").contains(&format!("\n    {name}(")), "{name}");
            let case = format!("{operation:?}");
            let case = case.split('(').next().unwrap_or_default();
            assert_eq!(case.rsplit("::").next().unwrap_or_default().to_lowercase(), name.replace('-', ""));
        }
    }
}
