//! What the host holds of operations by their kind, for outcomes, metrics, capabilities and the journal.

use vko_wit::planning::Operation;

pub use vko_wit::operation_name as operation;

/// Whether a step of that kind is dangerous: it is not started near the end of the Lease, nor while the operator is cut off.
pub fn is_dangerous(operation: &Operation) -> bool {
    !matches!(operation, Operation::Save(_) | Operation::SyncUsers(_) | Operation::CancelJob(_))
}
