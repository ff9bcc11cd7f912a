//! EXECUTE: desired objects, labels, and tracks of steps.
//!
//! # Guarantees
//! 1. Only objects that differ are written; a quiet instance writes nothing.
//! 2. Steps of a track are in order; a failed one ends its own track and no other.
//! 3. What a step expects is read again on the same connection just before its command is sent.
//! 4. Labels follow observed roles; the old writer's label goes first.
//! 5. Being killed between any two effects leaves a legal state to start from.

pub mod desired;
pub mod expect;
pub mod labels;
pub mod names;
pub mod step;
pub mod tracks;

/// Why a step or an object was not done. The variant is the metric label and the event reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The API server said no, or nothing.
    #[error("{0}")]
    ApiRefused(#[from] crate::world::ApiError),
    /// A server said no, or nothing.
    #[error("{pod}: {error}")]
    ServerRefused {
        /// Pod.
        pod: String,
        /// What it said.
        error: crate::world::ServerError,
    },
    /// The ledger couldn't be written, so the act was not done.
    #[error("{0}")]
    LedgerNotWritten(#[from] crate::store::StoreError),
    /// What the step expected doesn't hold any more.
    #[error("expected {0}")]
    ExpectationFailed(String),
    /// The Lease doesn't last longer than the command's deadline.
    #[error("the Lease doesn't outlast the command; another operator may be taking over")]
    LeaseTooShort,
    /// The operator seems to be cut off from the servers.
    #[error("the operator seems to be cut off from the servers: it does nothing dangerous until they answer")]
    OperatorCutOff,
    /// The pod, claim or object isn't there any more.
    #[error("{0} is not there any more")]
    TargetGone(String),
    /// The effect can't be seen on the server in time.
    #[error("{0}")]
    NotVerified(String),
    /// The host doesn't carry out this operation.
    #[error("this host doesn't carry out '{0}'")]
    OperationUnknown(String),
}

impl ExecuteError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ApiRefused(_) => "ApiRefused",
            Self::ServerRefused { .. } => "ServerRefused",
            Self::LedgerNotWritten(_) => "LedgerNotWritten",
            Self::ExpectationFailed(_) => "ExpectationFailed",
            Self::LeaseTooShort => "LeaseTooShort",
            Self::OperatorCutOff => "OperatorCutOff",
            Self::TargetGone(_) => "TargetGone",
            Self::NotVerified(_) => "NotVerified",
            Self::OperationUnknown(_) => "OperationUnknown",
        }
    }

    /// Whether the step was dropped because the world moved on: nobody's fault, a new plan will come.
    pub fn is_dropped(&self) -> bool {
        match self {
            Self::ExpectationFailed(_) | Self::LeaseTooShort | Self::OperatorCutOff | Self::TargetGone(_) => true,
            Self::LedgerNotWritten(error) => error.is_moved_on(),
            _ => false,
        }
    }
}
