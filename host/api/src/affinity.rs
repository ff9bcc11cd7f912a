//! How pods spread over nodes, as the policies of the API say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::names;

/// Policy where none is said.
pub(crate) const DEFAULT: &str = "SoftAntiAffinity";

/// Highest weight that a preference can have: spreading a data set over nodes is the first thing to ask of a soft rule.
const WEIGHT_SHARD: i32 = 100;
/// That the shards of an instance are apart from each other comes second: losing a node then costs fewer primaries.
const WEIGHT_INSTANCE: i32 = 50;

/// Labels that select the pods of one type (`cluster`, `failover`, `sentinel`) of an instance.
pub fn pod_labels(kind: &str, instance: &str) -> BTreeMap<String, String> {
    [(names::MANAGED_BY, names::OPERATOR), (names::TYPE, kind), (names::INSTANCE, instance)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Affinity of the pods of one shard of a cluster, by a policy other than `CustomAffinity`.
///
/// `workload` is the StatefulSet of the shard, which its pods carry as a label.
pub fn of_shard(policy: &str, instance: &str, workload: &str) -> Affinity {
    let all = pod_labels("cluster", instance);
    let shard: BTreeMap<_, _> = all.clone().into_iter().chain([(names::STATEFUL_SET.to_owned(), workload.to_owned())]).collect();
    match policy {
        "AntiAffinityInShard" => apart(vec![shard], vec![(WEIGHT_INSTANCE, all)]),
        "AntiAffinity" => apart(vec![all], Vec::new()),
        _ => apart(Vec::new(), vec![(WEIGHT_SHARD, shard), (WEIGHT_INSTANCE, all)]),
    }
}

/// Affinity of pods that are one group: a data set, or Sentinels. In-shard and instance-wide are the same for them.
pub(crate) fn of_group(policy: Option<&str>, labels: BTreeMap<String, String>) -> Affinity {
    match policy {
        Some("AntiAffinity" | "AntiAffinityInShard") => apart(vec![labels], Vec::new()),
        _ => apart(Vec::new(), vec![(WEIGHT_SHARD, labels)]),
    }
}

fn apart(required: Vec<BTreeMap<String, String>>, preferred: Vec<(i32, BTreeMap<String, String>)>) -> Affinity {
    let required: Vec<_> = required.into_iter().map(term).collect();
    let preferred: Vec<_> = preferred
        .into_iter()
        .map(|(weight, labels)| WeightedPodAffinityTerm { weight, pod_affinity_term: term(labels) })
        .collect();
    let away = PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(required).filter(|terms| !terms.is_empty()),
        preferred_during_scheduling_ignored_during_execution: Some(preferred).filter(|terms| !terms.is_empty()),
    };
    Affinity { pod_anti_affinity: Some(away), ..Affinity::default() }
}

fn term(labels: BTreeMap<String, String>) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: names::HOSTNAME.into(),
        label_selector: Some(LabelSelector { match_labels: Some(labels), match_expressions: None }),
        ..PodAffinityTerm::default()
    }
}
