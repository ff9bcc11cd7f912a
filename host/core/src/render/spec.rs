//! Reads the Failover's spec: what influences the pod template goes through here, and nothing else does.

use serde_json::{Map, Value, json};

use super::RenderError;
use super::template::{canonical, short_digest};

/// The fields of the spec that pods are made of, without those that change no pod: member count, capacity, class, version (the
/// image says it) and the open default user (an account).
pub(super) struct PodSpec<'a> {
    spec: &'a Value,
}

/// Fields that are copied into the template, or select what is in it, as they are.
const COPIED: [&str; 9] = [
    "image",
    "imagePullPolicy",
    "imagePullSecrets",
    "resources",
    "podAnnotations",
    "affinity",
    "tolerations",
    "nodeSelector",
    "securityContext",
];

impl<'a> PodSpec<'a> {
    pub(super) fn new(spec: &'a Value) -> Self {
        Self { spec }
    }

    /// The server's image.
    pub(super) fn image(&self) -> Result<&'a str, RenderError> {
        self.field("image").and_then(Value::as_str).ok_or(RenderError::SpecFieldMissing { field: "image" })
    }

    /// A field out of [`COPIED`]; null, `{}`, `[]` and `""` count as absent, as they do for the API server.
    pub(super) fn field(&self, name: &str) -> Option<&'a Value> {
        debug_assert!(COPIED.contains(&name), "{name} is missing in COPIED, and so in the hash");
        self.spec.get(name).filter(|value| !is_empty(value))
    }

    /// Whether pods serve on IPv6.
    pub(super) fn is_ipv6(&self) -> bool {
        is_ipv6(self.spec)
    }

    /// Whether data is on a claim.
    pub(super) fn has_claim(&self) -> bool {
        storage(self.spec).is_some()
    }
}

/// Whether the instance lives on IPv6 (`access.ipFamilyPrefer`); everything else means IPv4.
pub fn is_ipv6(spec: &Value) -> bool {
    spec.pointer("/access/ipFamilyPrefer").and_then(Value::as_str) == Some("IPv6")
}

/// The storage section, if data is on claims. An empty section counts: it asks for a claim of the default class.
pub(super) fn storage(spec: &Value) -> Option<&Value> {
    spec.get("storage").filter(|storage| storage.is_object())
}

/// Hash of exactly the spec fields that influence the pod template: first 16 hexadecimal digits of SHA-256 over canonical
/// JSON. Pods are due for a restart when it changes, and only then.
pub fn spec_hash(spec: &Value) -> String {
    let pod = PodSpec::new(spec);
    let mut hashed: Map<String, Value> =
        COPIED.iter().filter_map(|name| pod.field(name).map(|value| ((*name).to_owned(), value.clone()))).collect();
    hashed.insert("claim".to_owned(), json!(pod.has_claim()));
    hashed.insert("ipv6".to_owned(), json!(pod.is_ipv6()));
    short_digest(&canonical(&Value::Object(hashed)))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Topology;
    use super::super::testing::{mk_topology, template_of};
    use super::*;
    use vko_api::names;

    /// A field of the spec, another value for it, and whether pods are made of it.
    fn changes() -> Vec<(&'static str, Value, bool)> {
        vec![
            ("image", json!("valkey/valkey:8.1"), true),
            ("imagePullPolicy", json!("Always"), true),
            ("imagePullSecrets", json!([{ "name": "other" }]), true),
            ("resources", json!({ "limits": { "memory": "2Gi" } }), true),
            ("podAnnotations", json!({ "example.org/a": "b" }), true),
            ("affinity", json!({ "nodeAffinity": {} }), true),
            ("tolerations", json!([{ "operator": "Exists" }]), true),
            ("nodeSelector", json!({ "disk": "ssd" }), true),
            ("securityContext", json!({ "fsGroup": 2000 }), true),
            ("storage", Value::Null, true),
            ("access", json!({ "ipFamilyPrefer": "IPv6" }), true),
            ("access", json!({ "ipFamilyPrefer": "IPv4", "openDefaultUser": true }), false),
            ("storage", json!({ "capacity": "9Gi", "storageClassName": "x", "retainAfterDeleted": true }), false),
            ("replicas", json!(5), false),
            ("version", json!("8.1"), false),
            ("nodeSelector", json!({}), false),
            ("tolerations", Value::Null, false),
        ]
    }

    /// The template, without the stamp that would differ whenever the hash does.
    fn without_hash(topology: &Topology) -> Value {
        let mut template = template_of(topology, 3);
        template["metadata"]["annotations"].as_object_mut().unwrap().remove(names::SPEC_HASH).unwrap();
        template
    }

    #[test]
    fn the_hash_changes_exactly_with_the_template() {
        let before = mk_topology();
        for (field, value, expected) in changes() {
            let mut after = before.clone();
            after.spec[field] = value.clone();
            let hash_changed = spec_hash(&before.spec) != spec_hash(&after.spec);
            let template_changed = without_hash(&before) != without_hash(&after);
            assert_eq!((hash_changed, template_changed), (expected, expected), "{field}: {value}");
        }
    }

    #[test]
    fn an_empty_field_hashes_like_an_absent_one() {
        let spec = json!({ "image": "i" });
        for empty in [json!(null), json!({}), json!([]), json!("")] {
            let mut with = spec.clone();
            with["affinity"] = empty.clone();
            assert_eq!(spec_hash(&with), spec_hash(&spec), "{empty}");
        }
    }

    #[test]
    fn a_missing_image_is_named() {
        let refused = PodSpec::new(&json!({})).image().unwrap_err();
        assert_eq!(refused, RenderError::SpecFieldMissing { field: "image" });
    }
}
