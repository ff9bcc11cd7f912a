//! The fields that the API server records as ours against the rendered object.
//!
//! `fieldsV1` is a tree of keys: `f:` a field, `k:` an element of a list by its merge keys, `v:` an element of a set by its
//! value, `.` the thing itself. A key that we don't know says nothing.

use serde_json::{Map, Value};

use super::{Trail, merge_keys, same_element};
use crate::object::Object;

/// The first path that is recorded as applied by us and is not in the rendered object. An object without records has none.
pub(super) fn no_longer_rendered(rendered: &Value, live: &Object, manager: &str) -> Option<String> {
    let ours = |entry: &&Value| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].as_str().is_none_or(str::is_empty)
    };
    let entries = live.list("/metadata/managedFields").iter().filter(ours);
    entries.filter_map(|entry| entry["fieldsV1"].as_object()).find_map(|fields| missing(&Trail::root(), fields, rendered))
}

fn missing(trail: &Trail<'_>, fields: &Map<String, Value>, rendered: &Value) -> Option<String> {
    fields.iter().find_map(|(key, inside)| {
        let label;
        let (below, found) = if let Some(name) = key.strip_prefix("f:") {
            (trail.below(name), rendered.get(name).filter(|value| !value.is_null()))
        } else if let Some(keys) = key.strip_prefix("k:") {
            label = format!("[{keys}]");
            (trail.below(&label), element(trail.name, keys, rendered))
        } else if let Some(value) = key.strip_prefix("v:") {
            label = format!("[{value}]");
            (trail.below(&label), member(value, rendered))
        } else {
            return None;
        };
        match (found, inside.as_object()) {
            (None, _) => Some(below.path()),
            (Some(found), Some(inside)) => missing(&below, inside, found),
            (Some(_), None) => None,
        }
    })
}

/// The rendered element with these merge keys.
fn element<'a>(list: &str, keys: &str, rendered: &'a Value) -> Option<&'a Value> {
    let wanted: Value = serde_json::from_str(keys).ok()?;
    let names = merge_keys(list, &wanted);
    rendered.as_array()?.iter().find(|element| same_element(names, element, &wanted))
}

/// The rendered member of a set with this value.
fn member<'a>(value: &str, rendered: &'a Value) -> Option<&'a Value> {
    let wanted: Value = serde_json::from_str(value).ok()?;
    rendered.as_array()?.iter().find(|member| **member == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered() -> Value {
        json!({
            "metadata": { "labels": { "a": "b" }, "finalizers": ["x"], "ownerReferences": [{ "uid": "u" }] },
            "spec": {
                "containers": [{ "name": "valkey", "image": "i", "ports": [{ "containerPort": 1 }], "command": ["c"] }],
                "nothing": null,
            },
        })
    }

    /// A case: name, the fields that are ours, the path that we no longer render.
    type Case = (&'static str, Value, Option<&'static str>);

    fn cases() -> Vec<Case> {
        let container = |inside: Value| json!({ "f:spec": { "f:containers": { "k:{\"name\":\"valkey\"}": inside } } });
        vec![
            ("all of it", container(json!({ ".": {}, "f:image": {}, "f:name": {}, "f:command": {} })), None),
            ("a label", json!({ "f:metadata": { "f:labels": { "f:a": {} } } }), None),
            ("a label is gone", json!({ "f:metadata": { "f:labels": { "f:a": {}, "f:old": {} } } }), Some("metadata.labels.old")),
            ("a section is gone", json!({ "f:spec": { "f:affinity": { "f:x": {} } } }), Some("spec.affinity")),
            ("rendered as null", json!({ "f:spec": { "f:nothing": {} } }), Some("spec.nothing")),
            (
                "a field of an element is gone",
                container(json!({ "f:args": {} })),
                Some("spec.containers[{\"name\":\"valkey\"}].args"),
            ),
            (
                "an element is gone",
                json!({ "f:spec": { "f:containers": { "k:{\"name\":\"exporter\"}": {} } } }),
                Some("spec.containers[{\"name\":\"exporter\"}]"),
            ),
            (
                "a port, protocol by default",
                container(json!({ "f:ports": { "k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {} } })),
                None,
            ),
            ("an owner", json!({ "f:metadata": { "f:ownerReferences": { "k:{\"uid\":\"u\"}": {} } } }), None),
            (
                "an owner is gone",
                json!({ "f:metadata": { "f:ownerReferences": { "k:{\"uid\":\"v\"}": {} } } }),
                Some("metadata.ownerReferences[{\"uid\":\"v\"}]"),
            ),
            ("a finalizer", json!({ "f:metadata": { "f:finalizers": { ".": {}, "v:\"x\"": {} } } }), None),
            (
                "a finalizer is gone",
                json!({ "f:metadata": { "f:finalizers": { "v:\"y\"": {} } } }),
                Some("metadata.finalizers[\"y\"]"),
            ),
            ("a key of another form", json!({ "f:spec": { "f:containers": { "i:3": {} } } }), None),
        ]
    }

    fn mk_live(manager: &str, operation: &str, subresource: &str, fields: &Value) -> Object {
        Object::new(json!({ "metadata": { "managedFields": [
            { "manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields },
        ] } }))
    }

    #[test]
    fn what_is_ours_and_no_longer_rendered() {
        for (name, fields, expected) in cases() {
            let live = mk_live("us", "Apply", "", &fields);
            assert_eq!(no_longer_rendered(&rendered(), &live, "us").as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn what_others_own_is_theirs() {
        let fields = json!({ "f:spec": { "f:affinity": {} } });
        for (manager, operation, subresource) in [("them", "Apply", ""), ("us", "Update", ""), ("us", "Apply", "status")] {
            let live = mk_live(manager, operation, subresource, &fields);
            assert_eq!(no_longer_rendered(&rendered(), &live, "us"), None, "{manager} {operation} {subresource}");
        }
        assert_eq!(no_longer_rendered(&rendered(), &Object::new(json!({})), "us"), None);
    }
}
