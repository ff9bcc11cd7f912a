//! Metrics of the operator. Labels come from closed lists: names of variants, of operations, of kinds.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// One reason from a closed list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// Name of the variant.
    pub reason: &'static str,
}

/// An operation and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StepEnd {
    /// Operation.
    pub operation: &'static str,
    /// `done`, or the reason.
    pub outcome: &'static str,
}

/// All of them.
#[derive(Debug, Default, Clone)]
pub struct Metrics {
    /// Instances that this process looks after.
    pub instances: Gauge,
    /// 1 while this process holds the Lease.
    pub leader: Gauge,
    /// Plans made.
    pub decisions: Counter,
    /// Steps by operation and outcome.
    pub steps: Family<StepEnd, Counter>,
    /// Steps that the guard refused, by rule.
    pub refusals: Family<Reason, Counter>,
    /// Modules that were not admitted or given up, by reason.
    pub policies_rejected: Family<Reason, Counter>,
    /// Swaps of policies.
    pub policy_swaps: Counter,
    /// Looks that found the operator cut off from the servers.
    pub cut_off: Counter,
}

impl Metrics {
    /// Registers all of them under the prefix `valkey_operator`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("valkey_operator");
        registry.register("instances", "Instances that this process looks after", self.instances.clone());
        registry.register("leader", "1 while this process holds the Lease", self.leader.clone());
        registry.register("decisions", "Plans made", self.decisions.clone());
        registry.register("steps", "Steps by operation and outcome", self.steps.clone());
        registry.register("guard_refusals", "Steps that the guard refused, by rule", self.refusals.clone());
        registry.register("policies_rejected", "Modules not admitted or given up, by reason", self.policies_rejected.clone());
        registry.register("policy_swaps", "Swaps of policies", self.policy_swaps.clone());
        registry.register("cut_off", "Looks that found the operator cut off from the servers", self.cut_off.clone());
    }
}
