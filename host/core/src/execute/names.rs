//! Names of operations: as in the WIT, for outcomes, metrics, capabilities and the journal.

use vko_wit::planning::Operation;

/// The case's name in `policy.wit`.
pub fn operation(operation: &Operation) -> &'static str {
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

/// Whether a step of that name is dangerous: it is not started near the end of the Lease, nor while the operator is cut off.
pub fn is_dangerous(operation: &Operation) -> bool {
    !matches!(operation, Operation::Save(_) | Operation::SyncUsers(_) | Operation::CancelJob(_))
}
