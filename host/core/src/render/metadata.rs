//! Labels, selectors and owners: the same on everything that an instance owns.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vko_api::names;

use super::Topology;
use crate::object::Kind;

/// What selects the instance's data pods. It is immutable in a StatefulSet, so it holds what never changes in the instance's
/// life.
pub fn selector(instance: &str) -> BTreeMap<String, String> {
    [
        (names::MANAGED_BY, names::OPERATOR),
        (names::COMPONENT, "failover"),
        (names::APP_NAME, "valkey"),
        (names::TYPE, "failover"),
        (names::INSTANCE, instance),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// Labels of everything that the instance owns: the selector, and the UID by which a successor of the topology object adopts it.
pub fn labels(topology: &Topology) -> BTreeMap<String, String> {
    let mut labels = selector(&topology.name);
    labels.insert(names::VALKEY_UID.to_owned(), topology.valkey_uid.clone());
    labels
}

/// Name, namespace, labels and the owner that garbage collection and ownership checks go by.
pub(super) fn metadata(topology: &Topology, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": topology.namespace,
        "labels": labels(topology),
        "ownerReferences": [{
            "apiVersion": Kind::Failover.api_version(),
            "kind": Kind::Failover.name(),
            "name": topology.name,
            "uid": topology.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    })
}

/// `apiVersion`, `kind` and metadata of an object; the rest is the caller's.
pub(super) fn object(topology: &Topology, kind: Kind, name: &str) -> Value {
    json!({ "apiVersion": kind.api_version(), "kind": kind.name(), "metadata": metadata(topology, name) })
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
