//! Labels, selectors and owners: the same on everything that an instance owns.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vko_api::names;

use super::{Part, Topology, TopologyKind};
use crate::object::Kind;

/// What selects the pods of a part. It is immutable in a StatefulSet, so it holds what never changes in the instance's life.
pub fn selector(part: Part, instance: &str) -> BTreeMap<String, String> {
    let (component, kind) = match part {
        Part::Data => (names::component::FAILOVER, names::component::FAILOVER),
        Part::Shard(_) => (names::component::CLUSTER, names::component::CLUSTER),
        Part::Sentinels => (names::component::FAILOVER, names::TYPE_SENTINEL),
    };
    let mut selector = common(component, kind, instance);
    if let Part::Shard(_) = part {
        selector.insert(names::STATEFUL_SET.to_owned(), part.workload(instance));
    }
    selector
}

/// What selects the pods that the topology object is about: of all shards, of the data set, or Sentinels that stand alone. Labels
/// of what belongs to no part.
pub fn pod_selector(kind: TopologyKind, instance: &str) -> BTreeMap<String, String> {
    common(kind.component(), kind.type_label(), instance)
}

fn common(component: &str, kind: &str, instance: &str) -> BTreeMap<String, String> {
    [
        (names::MANAGED_BY, names::OPERATOR),
        (names::COMPONENT, component),
        (names::APP_NAME, "valkey"),
        (names::TYPE, kind),
        (names::INSTANCE, instance),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// Labels of what belongs to a part (of what all parts share, without one): what selects it, and the UID by which a successor
/// of the topology object adopts it.
pub fn labels(topology: &Topology, part: Option<Part>) -> BTreeMap<String, String> {
    let mut labels = part.map_or_else(|| pod_selector(topology.kind, &topology.name), |part| selector(part, &topology.name));
    labels.insert(names::VALKEY_UID.to_owned(), topology.valkey_uid.clone());
    labels
}

/// `apiVersion`, `kind`, name, labels and the owner that garbage collection and ownership checks go by; the rest is the caller's.
pub(super) fn object(topology: &Topology, part: Option<Part>, kind: Kind, name: &str) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {
            "name": name,
            "namespace": topology.namespace,
            "labels": labels(topology, part),
            "ownerReferences": [{
                "apiVersion": topology.kind.kind().api_version(),
                "kind": topology.kind.kind().name(),
                "name": topology.name,
                "uid": topology.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
    })
}

/// Whether a label's key belongs to the host or to Kubernetes, so that no policy may set it.
pub(super) fn is_reserved(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    within("buf.red") || within("kubernetes.io") || within("k8s.io") || key == "controller-revision-hash"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_labels() {
        for (key, reserved) in [
            ("buf.red/name", true),
            ("valkey.buf.red/role", true),
            ("app.kubernetes.io/name", true),
            ("kubernetes.io/x", true),
            ("node.k8s.io/x", true),
            ("controller-revision-hash", true),
            ("notbuf.red/name", false),
            ("example.org/team", false),
            ("team", false),
        ] {
            assert_eq!(is_reserved(key), reserved, "{key}");
        }
    }
}
