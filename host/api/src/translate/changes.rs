//! Changes that must not reach a live topology object. The CRD refuses them on a Valkey; here is what got past an older CRD, or
//! past the deletion and re-creation of a Valkey whose topology object stayed.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;
use serde_json::Value;

use crate::quantity;
use crate::topology::TopologySpec;
use crate::validate::Violation;

/// A field that can't change once servers exist: pointer into the topology object's spec, the field that people write, and why.
type Fixed = (&'static str, &'static str, &'static str);

const NEEDS_PODS: &str = "it needs pods to be replaced, which is not supported yet in this architecture";
const NOT_YET: &str = "it is not supported yet";

/// Of all topology objects.
const COMMON: [Fixed; 2] = [
    ("/access/ipFamilyPrefer", "spec.access.ipFamilyPrefer", "Services keep their family"),
    ("/access/openDefaultUser", "spec.access.openDefaultUser", "running servers would keep the account as it was"),
];

/// Of those whose members are not replaced in turn: what pods are made of.
const TEMPLATE: [Fixed; 5] = [
    ("/version", "spec.version", "rolling upgrades are not supported yet in this architecture"),
    ("/resources", "spec.resources", NEEDS_PODS),
    ("/nodeSelector", "spec.nodeSelector", NEEDS_PODS),
    ("/tolerations", "spec.tolerations", NEEDS_PODS),
    ("/securityContext", "spec.securityContext", NEEDS_PODS),
];

const STORAGE: [Fixed; 2] = [
    ("/storage/storageClassName", "spec.storage.storageClassName", "volumes keep their class"),
    ("/storage/capacity", "spec.storage.capacity", "growing volumes is not supported yet, and they can't shrink"),
];

const CLUSTER: [Fixed; 6] = [
    ("/replicas/shards", "spec.replicas.shards", NOT_YET),
    ("/replicas/shardsConfig", "spec.replicas.shardsConfig", NOT_YET),
    ("/replicas/replicasOfShard", "spec.replicas.replicasOfShard", NOT_YET),
    ("/annotations", "spec.podAnnotations", NEEDS_PODS),
    ("/affinityPolicy", "spec.affinityPolicy", NEEDS_PODS),
    ("/CustomAffinity", "spec.customAffinity", NEEDS_PODS),
];

const FAILOVER: [Fixed; 11] = [
    ("/podAnnotations", "spec.podAnnotations", NEEDS_PODS),
    ("/affinity", "spec.affinityPolicy", NEEDS_PODS),
    ("/sentinel/replicas", "spec.sentinel.replicas", NOT_YET),
    ("/sentinel/resources", "spec.sentinel.resources", NEEDS_PODS),
    ("/sentinel/affinity", "spec.sentinel.affinity", NEEDS_PODS),
    ("/sentinel/tolerations", "spec.sentinel.tolerations", NEEDS_PODS),
    ("/sentinel/nodeSelector", "spec.sentinel.nodeSelector", NEEDS_PODS),
    ("/sentinel/securityContext", "spec.sentinel.securityContext", NEEDS_PODS),
    ("/sentinel/podAnnotations", "spec.sentinel.podAnnotations", NEEDS_PODS),
    ("/sentinel/access/defaultPasswordSecret", "spec.sentinel.access.defaultPasswordSecret", NOT_YET),
    ("/sentinel/sentinelReference", "spec.sentinel.sentinelReference", NOT_YET),
];

/// Changes of a topology object that are refused, by the fields of the Valkey.
pub fn refused_changes(live: &TopologySpec, wanted: &TopologySpec) -> Vec<Violation> {
    let rolls = matches!(wanted, TopologySpec::Failover(wanted) if wanted.sentinel.is_none());
    let template: &[Fixed] = if rolls { &[] } else { &TEMPLATE };
    let (storage, own): (bool, &[Fixed]) = match (live, wanted) {
        (TopologySpec::Cluster(live), TopologySpec::Cluster(wanted)) => {
            (live.storage.is_some() == wanted.storage.is_some(), &CLUSTER)
        }
        (TopologySpec::Failover(live), TopologySpec::Failover(wanted)) => {
            if live.sentinel.is_some() != wanted.sentinel.is_some() {
                return vec![refusal("spec.arch", "the architecture can't be changed")];
            }
            (live.storage.is_some() == wanted.storage.is_some(), if rolls { &[] } else { &FAILOVER })
        }
        _ => return vec![refusal("spec.arch", "the architecture can't be changed")],
    };
    if !storage {
        return vec![refusal("spec.storage", "volumes can't be added or removed")];
    }
    changed(live, wanted, COMMON.iter().chain(&STORAGE).chain(template).chain(own))
}

fn changed<'a>(live: &impl Serialize, wanted: &impl Serialize, fixed: impl Iterator<Item = &'a Fixed>) -> Vec<Violation> {
    let (Ok(live), Ok(wanted)) = (serde_json::to_value(live), serde_json::to_value(wanted)) else { return Vec::new() };
    fixed
        .filter(|(pointer, ..)| !same(live.pointer(pointer), wanted.pointer(pointer)))
        .map(|(_, field, why)| refusal(field, why))
        .collect()
}

fn refusal(field: &str, why: &str) -> Violation {
    Violation { field: field.into(), value: String::new(), remedy: format!("was changed, which is refused: {why}; set it back") }
}

/// Equal, or equal as quantities.
fn same(live: Option<&Value>, wanted: Option<&Value>) -> bool {
    let amount = |value: Option<&Value>| {
        let text = value?.as_str()?;
        quantity::nano(&Quantity(text.into()))
    };
    live == wanted || amount(live).is_some_and(|live| Some(live) == amount(wanted))
}
