//! What one operator process is told when it starts, and keeps for its life.

use std::time::Duration;

/// Settings of the operator process. They never reach a policy, except the version, the cluster domain and what an observation's
/// `environment` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The operator's own semantic version. It is stamped on every pod template that this process renders.
    pub operator_version: String,
    /// Reference of the operator's own image, which holds `/agent` too: a pod's init container takes the agent from it.
    pub agent_image: String,
    /// DNS domain of the Kubernetes cluster, without a trailing dot (`cluster.local`).
    pub cluster_domain: String,
    /// Namespace that the operator runs in: its Lease and the policies' ConfigMaps are there.
    pub operator_namespace: String,
    /// What tells this process from its siblings (the pod's name): holder of the Lease.
    pub identity: String,
    /// Between two questions to a server while all is quiet and ready; see [`crate::probe::QUIET`]. With a longer interval a look
    /// asks first those that weren't asked for long, so nothing is decided on old answers; what no event tells of is found that
    /// much later.
    pub probe_interval: Duration,
}
