//! How the pods of a shard spread over nodes. What other pods get is in their topology object.

use serde_json::{Value, json};
use vko_api::affinity;

use super::{Part, Topology};

/// Affinity of a shard's pods, by `affinityPolicy`:
/// - `CustomAffinity`: as the instance says.
/// - `AntiAffinityInShard`: members of a shard on different nodes or not at all; shards apart if possible.
/// - `AntiAffinity`: all members of the instance on different nodes or not at all.
/// - `SoftAntiAffinity`, or nothing said: apart if possible.
pub(super) fn of_shard(topology: &Topology, part: Part) -> Option<Value> {
    let policy = topology.spec.get("affinityPolicy").and_then(Value::as_str).unwrap_or_default();
    if policy == "CustomAffinity" {
        return topology.spec.get("CustomAffinity").cloned();
    }
    Some(json!(affinity::of_shard(policy, &topology.name, &part.workload(&topology.name))))
}

#[cfg(test)]
mod tests {
    use super::super::testing::mk_cluster;
    use super::*;

    /// Weight (0: required) and whether the term is of the shard alone.
    fn terms(affinity: &Value) -> Vec<(u64, bool)> {
        let away = &affinity["podAntiAffinity"];
        let of_shard = |term: &Value| term["labelSelector"]["matchLabels"]["statefulset"] == "drc-demo-1";
        let of = |list: &str| away[list].as_array().cloned().unwrap_or_default();
        let required = of("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = of("preferredDuringSchedulingIgnoredDuringExecution");
        let required = required.iter().map(|term| (0, of_shard(term)));
        required.chain(preferred.iter().map(|p| (p["weight"].as_u64().unwrap(), of_shard(&p["podAffinityTerm"])))).collect()
    }

    #[test]
    fn policies_mean_what_they_say() {
        for (policy, expected) in [
            (json!("SoftAntiAffinity"), vec![(100, true), (50, false)]),
            (Value::Null, vec![(100, true), (50, false)]),
            (json!("AntiAffinityInShard"), vec![(0, true), (50, false)]),
            (json!("AntiAffinity"), vec![(0, false)]),
        ] {
            let mut topology = mk_cluster();
            topology.spec["affinityPolicy"] = policy.clone();
            assert_eq!(terms(&of_shard(&topology, Part::Shard(1)).unwrap()), expected, "{policy}");
        }
    }

    #[test]
    fn a_custom_affinity_is_taken_as_it_is() {
        let mut topology = mk_cluster();
        topology.spec["affinityPolicy"] = json!("CustomAffinity");
        assert_eq!(of_shard(&topology, Part::Shard(0)), None);
        topology.spec["CustomAffinity"] = json!({ "nodeAffinity": {} });
        assert_eq!(of_shard(&topology, Part::Shard(0)), Some(json!({ "nodeAffinity": {} })));
    }
}
