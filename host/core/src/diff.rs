//! Decides whether a rendered object has to be applied.
//!
//! # Guarantees
//! 1. An edit of anything that we render is seen, also where the stamp of a hash would still be right.
//! 2. A field that we rendered once and no longer do is seen, as long as the API server records it as ours.
//! 3. What the API server adds (defaults, addresses, status) and what others add beside us is no difference; nor is another
//!    spelling of the same quantity, or an empty list, map or null where the server keeps nothing.
//! 4. The answer names a path, never a value: objects may be Secrets.
//!
//! # Assumptions
//! 1. The object was applied by server-side apply, forced, under one field manager and without conflicts of ours with ourselves.
//! 2. Rendering names no field that the API server does not know: such a field would differ for ever. Applying an object
//!    that stands already changes nothing and wakes nobody, so even then nothing runs in circles.
//!
//! # Flow
//! 1. [`differs`] walks the rendered object and looks each field up in the live one. Lists go by the keys that server-side
//!    apply merges them by; lists without keys, and selectors, are compared as a whole.
//! 2. It then walks the fields that the API server records as ours (`metadata.managedFields`) and looks each up in the
//!    rendered object.

mod compare;
mod managed;
pub mod quantity;

use serde_json::Value;

use crate::object::Object;

/// The first path at which the live object has to change; `None` if it is as rendered. `manager` is our field manager.
pub fn differs(rendered: &Value, live: &Object, manager: &str) -> Option<String> {
    let root = Trail::root();
    compare::unequal(&root, rendered, &live.0).or_else(|| managed::no_longer_rendered(rendered, live, manager))
}

/// A path on the stack: written out only when something differs.
struct Trail<'a> {
    above: Option<&'a Trail<'a>>,
    name: &'a str,
}

impl<'a> Trail<'a> {
    const fn root() -> Self {
        Self { above: None, name: "" }
    }

    fn below(&'a self, name: &'a str) -> Trail<'a> {
        Trail { above: Some(self), name }
    }

    /// Name of the field that this one is in.
    fn parent(&self) -> &str {
        self.above.map_or("", |above| above.name)
    }

    fn path(&self) -> String {
        let above = self.above.map(Trail::path).unwrap_or_default();
        let dot = if above.is_empty() || self.name.starts_with('[') { "" } else { "." };
        format!("{above}{dot}{}", self.name)
    }
}

/// The fields that tell the elements of a list apart, by the list's field and one element of it, as server-side apply merges
/// them. Empty: the list is compared as a whole.
fn merge_keys(list: &str, element: &Value) -> &'static [&'static str] {
    match list {
        "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets" => &["name"],
        "volumeMounts" => &["mountPath"],
        "ports" if element.get("containerPort").is_some() => &["containerPort", "protocol"],
        "ports" => &["port", "protocol"],
        "topologySpreadConstraints" => &["topologyKey", "whenUnsatisfiable"],
        "ownerReferences" => &["uid"],
        _ => &[],
    }
}

/// Whether a list is a set of plain values, to which others may add theirs.
fn is_set(list: &str) -> bool {
    list == "finalizers"
}

/// Value of a merge key; the one key that has a default is a port's protocol.
fn merge_key<'a>(element: &'a Value, key: &str) -> Option<&'a str> {
    match element.get(key) {
        None if key == "protocol" => Some("TCP"),
        found => found.and_then(Value::as_str),
    }
}

/// Whether two elements of a list are the same one by these keys.
fn same_element(keys: &[&str], one: &Value, other: &Value) -> bool {
    keys.iter().all(|key| match (merge_key(one, key), merge_key(other, key)) {
        (Some(one), Some(other)) => one == other,
        _ => one.get(key).is_some() && one.get(key) == other.get(key),
    })
}

/// Null, `{}` and `[]`: the API server keeps none of them in most fields.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
