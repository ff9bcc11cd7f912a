//! The rendered object against the live one.

use serde_json::{Map, Value};

use super::quantity::nano;
use super::{Trail, is_empty, is_set, merge_keys, same_element};

/// Fields where an empty map says something that its absence does not.
const PRESENCE_MATTERS: [&str; 2] = ["emptyDir", "namespaceSelector"];

/// Fields that the API server leaves out when they are zero or false, because that is what their absence means.
const ZERO_IS_ABSENT: [&str; 2] = ["publishNotReadyAddresses", "minReadySeconds"];

/// Fields that hold quantities, by their own name or by that of the map that they are in.
const QUANTITIES: [&str; 4] = ["requests", "limits", "sizeLimit", "capacity"];

/// Maps that belong to one manager as a whole: a key that somebody adds changes what all of it means.
const WHOLE_MAPS: [&str; 4] = ["selector", "labelSelector", "namespaceSelector", "nodeSelector"];

/// A list that nobody can change and that the API server fills up with defaults: what we render of it is compared, no more.
const IMMUTABLE_LIST: &str = "volumeClaimTemplates";

/// How much of the live value counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// What is rendered: others may add.
    Rendered,
    /// All of it: inside of lists and maps that belong to one manager as a whole.
    All,
}

/// The first path at which something rendered is unequal in the live object.
pub(super) fn unequal(trail: &Trail<'_>, rendered: &Value, live: &Value) -> Option<String> {
    value(trail, rendered, Some(live), Scope::Rendered)
}

fn value(trail: &Trail<'_>, rendered: &Value, live: Option<&Value>, scope: Scope) -> Option<String> {
    let Some(live) = live.filter(|live| !live.is_null()) else {
        return (!may_be_absent(trail, rendered)).then(|| trail.path());
    };
    match (rendered, live) {
        (Value::Null, _) => None,
        (Value::Object(rendered), Value::Object(live)) => map(trail, rendered, live, scope),
        (Value::Array(rendered), Value::Array(live)) => list(trail, rendered, live, scope),
        _ => (!same_scalar(trail, rendered, live)).then(|| trail.path()),
    }
}

fn map(trail: &Trail<'_>, rendered: &Map<String, Value>, live: &Map<String, Value>, scope: Scope) -> Option<String> {
    let scope = if WHOLE_MAPS.contains(&trail.name) { Scope::All } else { scope };
    let added = || {
        let (name, _) = live.iter().find(|(name, value)| !rendered.contains_key(*name) && !is_empty(value))?;
        Some(trail.below(name).path())
    };
    rendered
        .iter()
        .find_map(|(name, wanted)| value(&trail.below(name), wanted, live.get(name), scope))
        .or_else(|| if scope == Scope::All { added() } else { None })
}

fn list(trail: &Trail<'_>, rendered: &[Value], live: &[Value], scope: Scope) -> Option<String> {
    if is_set(trail.name) {
        return rendered.iter().any(|wanted| !live.contains(wanted)).then(|| trail.path());
    }
    let keys = rendered.first().map_or(&[][..], |first| merge_keys(trail.name, first));
    if scope == Scope::Rendered && !keys.is_empty() {
        return rendered.iter().find_map(|wanted| {
            let label = element_label(keys, wanted);
            let found = live.iter().find(|element| same_element(keys, wanted, element));
            value(&trail.below(&label), wanted, found, scope)
        });
    }
    if rendered.len() != live.len() {
        return Some(trail.path());
    }
    let inside = if trail.name == IMMUTABLE_LIST { scope } else { Scope::All };
    rendered.iter().zip(live).enumerate().find_map(|(index, (wanted, found))| {
        let label = format!("[{index}]");
        value(&trail.below(&label), wanted, Some(found), inside)
    })
}

fn element_label(keys: &[&str], element: &Value) -> String {
    let key = keys.first().and_then(|key| element.get(key));
    match key {
        Some(Value::String(text)) => format!("[{text}]"),
        Some(other) => format!("[{other}]"),
        None => "[?]".to_owned(),
    }
}

fn may_be_absent(trail: &Trail<'_>, rendered: &Value) -> bool {
    let zero = *rendered == Value::Bool(false) || rendered.as_u64() == Some(0);
    rendered.is_null()
        || (is_empty(rendered) && !PRESENCE_MATTERS.contains(&trail.name))
        || (zero && ZERO_IS_ABSENT.contains(&trail.name))
}

fn same_scalar(trail: &Trail<'_>, rendered: &Value, live: &Value) -> bool {
    if rendered == live {
        return true;
    }
    let (Some(one), Some(other)) = (text(rendered), text(live)) else { return false };
    let in_quantities = QUANTITIES.contains(&trail.name) || QUANTITIES.contains(&trail.parent());
    if in_quantities && let (Some(one), Some(other)) = (nano(&one), nano(&other)) {
        return one == other;
    }
    one == other
}

/// Numbers and their texts are one and the same in fields that take both.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A case: name, rendered, live, the path that differs.
    type Case = (&'static str, Value, Value, Option<&'static str>);

    fn cases_of_values() -> Vec<Case> {
        vec![
            ("equal", json!({ "a": 1 }), json!({ "a": 1 }), None),
            ("another value", json!({ "a": { "b": "x" } }), json!({ "a": { "b": "y" } }), Some("a.b")),
            ("a field is gone", json!({ "a": { "b": "x" } }), json!({ "a": {} }), Some("a.b")),
            ("a field is null", json!({ "a": "x" }), json!({ "a": null }), Some("a")),
            ("others add fields", json!({ "a": 1 }), json!({ "a": 1, "status": {} }), None),
            ("another type", json!({ "a": "x" }), json!({ "a": ["x"] }), Some("a")),
            ("true is no text", json!({ "a": "true" }), json!({ "a": true }), Some("a")),
            ("a number as text", json!({ "maxUnavailable": 1 }), json!({ "maxUnavailable": "1" }), None),
            ("null, nothing there", json!({ "a": null }), json!({}), None),
            ("empty map, nothing there", json!({ "nodeSelector": {} }), json!({}), None),
            ("empty list, nothing there", json!({ "tolerations": [] }), json!({}), None),
            ("empty list, one there", json!({ "tolerations": [] }), json!({ "tolerations": [{}] }), Some("tolerations")),
            ("empty map, presence matters", json!({ "emptyDir": {} }), json!({ "hostPath": {} }), Some("emptyDir")),
            ("empty map, filled by others", json!({ "emptyDir": {} }), json!({ "emptyDir": { "sizeLimit": "1" } }), None),
            ("false kept as nothing", json!({ "publishNotReadyAddresses": false }), json!({}), None),
            (
                "false was made true",
                json!({ "publishNotReadyAddresses": false }),
                json!({ "publishNotReadyAddresses": true }),
                Some("publishNotReadyAddresses"),
            ),
            ("false is no default", json!({ "enableServiceLinks": false }), json!({}), Some("enableServiceLinks")),
            (
                "a selector with one key more",
                json!({ "selector": { "a": "b" } }),
                json!({ "selector": { "a": "b", "c": "d" } }),
                Some("selector.c"),
            ),
            ("zero kept as nothing", json!({ "minReadySeconds": 0 }), json!({}), None),
        ]
    }

    fn cases_of_quantities() -> Vec<Case> {
        vec![
            ("bytes", json!({ "limits": { "memory": 1_073_741_824 } }), json!({ "limits": { "memory": "1Gi" } }), None),
            ("cores", json!({ "requests": { "cpu": "0.5" } }), json!({ "requests": { "cpu": "500m" } }), None),
            ("less", json!({ "limits": { "cpu": "1" } }), json!({ "limits": { "cpu": "1m" } }), Some("limits.cpu")),
            ("size of a volume", json!({ "sizeLimit": "1024Ki" }), json!({ "sizeLimit": "1Mi" }), None),
            ("rubbish in both", json!({ "sizeLimit": "x" }), json!({ "sizeLimit": "x" }), None),
            ("a text that looks like one", json!({ "data": { "a": "1000m" } }), json!({ "data": { "a": "1" } }), Some("data.a")),
        ]
    }

    fn cases_of_lists() -> Vec<Case> {
        let port = |port: u16| json!({ "name": "server", "port": port, "protocol": "TCP" });
        vec![
            (
                "by name, in another order",
                json!({ "env": [{ "name": "a" }, { "name": "b" }] }),
                json!({ "env": [{ "name": "b" }, { "name": "a" }] }),
                None,
            ),
            (
                "by name, others add",
                json!({ "containers": [{ "name": "a" }] }),
                json!({ "containers": [{ "name": "sidecar" }, { "name": "a", "x": 1 }] }),
                None,
            ),
            (
                "by name, changed",
                json!({ "containers": [{ "name": "a", "image": "i" }] }),
                json!({ "containers": [{ "name": "a", "image": "j" }] }),
                Some("containers[a].image"),
            ),
            (
                "by name, gone",
                json!({ "containers": [{ "name": "a" }] }),
                json!({ "containers": [{ "name": "b" }] }),
                Some("containers[a]"),
            ),
            (
                "by mount path",
                json!({ "volumeMounts": [{ "mountPath": "/a", "name": "x" }] }),
                json!({ "volumeMounts": [{ "mountPath": "/a", "name": "y" }] }),
                Some("volumeMounts[/a].name"),
            ),
            (
                "by port, protocol by default",
                json!({ "ports": [{ "port": 1 }] }),
                json!({ "ports": [{ "port": 1, "protocol": "UDP" }, { "port": 1, "protocol": "TCP", "nodePort": 2 }] }),
                None,
            ),
            ("by port, another", json!({ "ports": [port(1)] }), json!({ "ports": [port(2)] }), Some("ports[1]")),
            (
                "by container port",
                json!({ "ports": [{ "containerPort": 1, "name": "a" }] }),
                json!({ "ports": [{ "containerPort": 1, "name": "b", "protocol": "TCP" }] }),
                Some("ports[1].name"),
            ),
            (
                "by uid",
                json!({ "ownerReferences": [{ "uid": "u", "controller": true }] }),
                json!({ "ownerReferences": [{ "uid": "v" }, { "uid": "u", "controller": false }] }),
                Some("ownerReferences[u].controller"),
            ),
            ("a set, others add", json!({ "finalizers": ["a"] }), json!({ "finalizers": ["b", "a"] }), None),
            ("a set, gone", json!({ "finalizers": ["a"] }), json!({ "finalizers": ["b"] }), Some("finalizers")),
            ("as a whole, longer", json!({ "command": ["a"] }), json!({ "command": ["a", "b"] }), Some("command")),
            ("as a whole, another order", json!({ "command": ["a", "b"] }), json!({ "command": ["b", "a"] }), Some("command[0]")),
            (
                "as a whole, a field was added",
                json!({ "tolerations": [{ "key": "a" }] }),
                json!({ "tolerations": [{ "key": "a", "effect": "NoExecute" }] }),
                Some("tolerations[0].effect"),
            ),
            (
                "as a whole, an empty field",
                json!({ "tolerations": [{ "key": "a" }] }),
                json!({ "tolerations": [{ "key": "a", "x": {} }] }),
                None,
            ),
            (
                "keys inside of a whole list",
                json!({ "terms": [{ "env": [{ "name": "a" }] }] }),
                json!({ "terms": [{ "env": [{ "name": "a" }, { "name": "b" }] }] }),
                Some("terms[0].env"),
            ),
            (
                "claim templates with defaults",
                json!({ "volumeClaimTemplates": [{ "spec": { "accessModes": ["a"] } }] }),
                json!({ "volumeClaimTemplates": [{ "spec": { "accessModes": ["a"], "volumeMode": "Filesystem" }, "status": {} }] }),
                None,
            ),
        ]
    }

    #[test]
    fn what_counts_as_a_difference() {
        for (name, rendered, live, expected) in cases_of_values().into_iter().chain(cases_of_quantities()).chain(cases_of_lists())
        {
            assert_eq!(unequal(&Trail::root(), &rendered, &live).as_deref(), expected, "{name}");
        }
    }
}
