//! What is kept of an object: 600 pods as they come are some 50 MB, pruned some 15.
//!
//! | kind | kept |
//! | --- | --- |
//! | Pod, Node | what the core reads, listed below. Never sent back: `replace` refuses these kinds |
//! | what we apply (StatefulSet, Service, ConfigMap, Secret, PodDisruptionBudget, the topology kinds) | all, with our own entries of managedFields: they tell which fields were ours and aren't rendered any more |
//! | others | all but managedFields |
//!
//! Annotations of the others stay, `last-applied-configuration` too: Valkey and the topology kinds are sent back whole
//! (finalizers, status), and what is missing in a PUT is gone. managedFields are taken out before anything is sent; the server
//! then keeps its own.

use serde_json::{Map, Value};
use vko_api::names;
use vko_core::object::Kind;

/// Annotations of pods that are kept.
const OUR_ANNOTATIONS: &str = "valkey.buf.red/";

const POD_METADATA: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];
const POD_SPEC: &[&str] = &["nodeName", "containers"];
const POD_CONTAINER: &[&str] = &["name", "image"];
const POD_STATUS: &[&str] =
    &["phase", "reason", "podIP", "podIPs", "startTime", "conditions", "containerStatuses", "initContainerStatuses"];
const NODE_METADATA: &[&str] = &["name", "uid", "labels", "resourceVersion", "creationTimestamp", "deletionTimestamp"];
const NODE_LABELS: &[&str] = &["topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"];
const NODE_SPEC: &[&str] = &["taints", "unschedulable"];
/// Not the heartbeat: it changes every five minutes and says nothing.
const NODE_CONDITION: &[&str] = &["type", "status", "reason", "lastTransitionTime"];

/// Whether the cache holds a part of this kind only, so that it must never be sent back whole.
pub fn is_partial(kind: Kind) -> bool {
    matches!(kind, Kind::Pod | Kind::Node)
}

/// Drops what the core doesn't read, and writes `apiVersion` and `kind`, which items of a list lack.
pub fn prune(kind: Kind, mut object: Value) -> Value {
    let Some(fields) = object.as_object_mut() else { return object };
    match kind {
        Kind::Pod => pod(fields),
        Kind::Node => node(fields),
        _ => managed_fields(kind, fields),
    }
    fields.insert("apiVersion".to_owned(), kind.api_version().into());
    fields.insert("kind".to_owned(), kind.name().into());
    object
}

/// Whether two pruned objects are the same to the core. The resourceVersion alone doesn't count: it also moves with what was
/// pruned.
pub fn same(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    a.len() == b.len()
        && a.iter().all(|(key, value)| match (key.as_str(), value.as_object(), b.get(key).and_then(Value::as_object)) {
            ("metadata", Some(x), Some(y)) => {
                x.len() == y.len() && x.iter().all(|(key, value)| key == "resourceVersion" || y.get(key) == Some(value))
            }
            _ => b.get(key) == Some(value),
        })
}

fn pod(fields: &mut Map<String, Value>) {
    keep(fields, &["metadata", "spec", "status"]);
    within(fields, "metadata", |metadata| {
        keep(metadata, POD_METADATA);
        within(metadata, "annotations", |annotations| annotations.retain(|key, _| key.starts_with(OUR_ANNOTATIONS)));
        metadata.retain(|key, value| key != "annotations" || value.as_object().is_some_and(|map| !map.is_empty()));
    });
    within(fields, "spec", |spec| {
        keep(spec, POD_SPEC);
        each(spec, "containers", |container| keep(container, POD_CONTAINER));
    });
    within(fields, "status", |status| {
        keep(status, POD_STATUS);
        each(status, "conditions", |condition| condition.retain(|key, _| key != "lastProbeTime"));
    });
}

fn node(fields: &mut Map<String, Value>) {
    keep(fields, &["metadata", "spec", "status"]);
    within(fields, "metadata", |metadata| {
        keep(metadata, NODE_METADATA);
        within(metadata, "labels", |labels| keep(labels, NODE_LABELS));
    });
    within(fields, "spec", |spec| keep(spec, NODE_SPEC));
    within(fields, "status", |status| {
        keep(status, &["conditions"]);
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.retain(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"));
        }
        each(status, "conditions", |condition| keep(condition, NODE_CONDITION));
    });
}

/// Keeps our entries where the core compares by them, without their time, which says when and not what.
fn managed_fields(kind: Kind, fields: &mut Map<String, Value>) {
    let applied = matches!(kind, Kind::StatefulSet | Kind::Service | Kind::ConfigMap | Kind::Secret | Kind::PodDisruptionBudget);
    let compared = applied || kind.is_topology();
    within(fields, "metadata", |metadata| {
        if !compared {
            metadata.remove("managedFields");
            return;
        }
        if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
            entries.retain(|entry| entry.get("manager").and_then(Value::as_str) == Some(names::OPERATOR));
        }
        each(metadata, "managedFields", |entry| entry.retain(|key, _| key != "time"));
        metadata.retain(|key, value| key != "managedFields" || value.as_array().is_some_and(|list| !list.is_empty()));
    });
}

fn keep(fields: &mut Map<String, Value>, keys: &[&str]) {
    fields.retain(|key, _| keys.contains(&key.as_str()));
}

fn within(fields: &mut Map<String, Value>, key: &str, act: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(inner) = fields.get_mut(key).and_then(Value::as_object_mut) {
        act(inner);
    }
}

fn each(fields: &mut Map<String, Value>, key: &str, mut act: impl FnMut(&mut Map<String, Value>)) {
    if let Some(items) = fields.get_mut(key).and_then(Value::as_array_mut) {
        items.iter_mut().filter_map(Value::as_object_mut).for_each(&mut act);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_keeps_what_the_core_reads() {
        let pod = json!({
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}, "generateName": "p-",
                "annotations": {"valkey.buf.red/spec-hash": "1", "cni/address": "2"}, "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {"nodeName": "x", "tolerations": [], "containers": [{"name": "valkey", "image": "i", "env": []}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}]},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"},
                "annotations": {"valkey.buf.red/spec-hash": "1"}},
            "spec": {"nodeName": "x", "containers": [{"name": "valkey", "image": "i"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(prune(Kind::Pod, pod), expected);
    }

    #[test]
    fn a_nodes_heartbeat_changes_nothing() {
        let node = |version: &str, beat: &str, ready: &str| {
            let node = json!({
                "metadata": {"name": "n", "uid": "u", "resourceVersion": version, "annotations": {"cni/x": beat},
                    "labels": {"topology.kubernetes.io/zone": "a", "kubernetes.io/os": "linux"}},
                "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule"}]},
                "status": {"images": [beat], "conditions": [
                    {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": beat},
                    {"type": "Ready", "status": ready, "lastHeartbeatTime": beat, "message": beat}]},
            });
            prune(Kind::Node, node)
        };
        assert!(same(&node("1", "t1", "True"), &node("2", "t2", "True")));
        assert!(!same(&node("1", "t1", "True"), &node("2", "t2", "False")), "but its state does");
        let pruned = node("1", "t1", "True");
        assert_eq!(pruned["metadata"]["labels"], json!({"topology.kubernetes.io/zone": "a"}));
        assert_eq!(pruned["spec"], json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}));
        assert_eq!(pruned["status"]["conditions"], json!([{"type": "Ready", "status": "True"}]));
    }

    #[test]
    fn managed_fields_by_table() {
        let ours = json!({"manager": "valkey-operator", "operation": "Apply", "time": "t", "fieldsV1": {"f:spec": {}}});
        let kept = json!([{"manager": "valkey-operator", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
        let other = json!({"manager": "kubectl"});
        for (name, kind, fields, expected) in [
            ("ours among others", Kind::StatefulSet, json!([other, ours]), kept.clone()),
            ("only others'", Kind::Secret, json!([other]), Value::Null),
            ("a kind that isn't compared", Kind::Valkey, json!([ours]), Value::Null),
            ("claims aren't, either", Kind::PersistentVolumeClaim, json!([ours]), Value::Null),
            ("topology objects are", Kind::Failover, json!([ours, other]), kept),
        ] {
            let pruned = prune(kind, json!({"metadata": {"name": "x", "managedFields": fields}}));
            assert_eq!(pruned["metadata"].get("managedFields").cloned().unwrap_or_default(), expected, "{name}");
        }
    }

    #[test]
    fn annotations_of_what_is_sent_back_stay() {
        let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"});
        let pruned = prune(Kind::Valkey, json!({"metadata": {"annotations": annotations}}));
        assert_eq!(pruned["metadata"]["annotations"], annotations);
        assert!(!is_partial(Kind::Valkey) && is_partial(Kind::Pod));
    }

    #[test]
    fn same_by_table() {
        let base = json!({"metadata": {"name": "x", "resourceVersion": "1"}, "data": {"a": "1"}});
        for (name, other, expected) in [
            ("another version alone", json!({"metadata": {"name": "x", "resourceVersion": "2"}, "data": {"a": "1"}}), true),
            ("other content", json!({"metadata": {"name": "x", "resourceVersion": "1"}, "data": {"a": "2"}}), false),
            ("a field less", json!({"metadata": {"name": "x", "resourceVersion": "1"}}), false),
            ("a label more", json!({"metadata": {"name": "x", "resourceVersion": "1", "labels": {}}, "data": {"a": "1"}}), false),
            ("no object", json!([]), false),
        ] {
            assert_eq!(same(&base, &other), expected, "{name}");
            assert_eq!(same(&other, &base), expected, "{name}, the other way round");
        }
    }

    #[test]
    fn what_is_no_object_passes() {
        assert_eq!(prune(Kind::Pod, json!("x")), json!("x"));
        assert_eq!(prune(Kind::Node, json!({"metadata": 5, "spec": []}))["metadata"], json!(5));
    }
}
