//! Why something waits in this architecture.

use std::fmt;

use vko_replica::decision::Cause as DataCause;

/// Why something waits. The variant (of the data set's causes the inner one) is the condition's reason.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// What the data set alone waits for.
    Data(DataCause),
    /// Sentinels move the primary's role; that has one owner.
    FailoverUnderWay,
    /// The primary is silent: Sentinels agree on whether it is down.
    SentinelsDecide,
    /// The primary is silent, and fewer Sentinels watch it than must agree that it is down.
    QuorumOutOfReach,
    /// Sentinels that may live give no answer: they may move the role unseen.
    SentinelsSilent,
    /// Too few Sentinels run, but enough are starting again with what they knew.
    SentinelsComing,
    /// Sentinels call another one the primary, and nothing proves them wrong.
    SentinelsDisagree,
    /// A Sentinel watches another server, and too few others answer to take its monitor away.
    SentinelsTooFew,
}

impl From<DataCause> for Cause {
    fn from(cause: DataCause) -> Self {
        Self::Data(cause)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(cause) => cause.fmt(f),
            Self::FailoverUnderWay => f.write_str("FailoverUnderWay"),
            Self::SentinelsDecide => f.write_str("SentinelsDecide"),
            Self::QuorumOutOfReach => f.write_str("QuorumOutOfReach"),
            Self::SentinelsSilent => f.write_str("SentinelsSilent"),
            Self::SentinelsComing => f.write_str("SentinelsComing"),
            Self::SentinelsDisagree => f.write_str("SentinelsDisagree"),
            Self::SentinelsTooFew => f.write_str("SentinelsTooFew"),
        }
    }
}

/// A block of this policy.
pub type Block = vko_replica::decision::Block<Cause>;
/// A decision of this policy.
pub type Decision = vko_replica::decision::Decision<Cause>;
