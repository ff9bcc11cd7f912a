//! Schemas: what an object of a kind may look like.
//!
//! Kubernetes' own kinds are read into their types: what doesn't fit is invalid, what gets lost by it is unknown. Custom kinds
//! bring a structural schema: types, bounds, enumerations, required fields, defaults and unknown fields are judged by it. CEL
//! rules aren't.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::resource::Resource;

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A value that the field can't have: path and why.
    Invalid(String),
    /// A field that the kind doesn't have.
    Unknown(String),
}

/// Judges an object, fills in the schema's defaults and takes out what is unknown.
pub fn admit(resource: &Resource, object: &mut Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    match &resource.schema {
        Some(schema) => {
            let status = object.get("status").cloned();
            structural(schema, object, "", &mut faults);
            if resource.status && status.is_none() {
                // A status that isn't there gets no defaults: it has its own writer.
                object.as_object_mut().map(|fields| fields.remove("status"));
            }
        }
        None => faults.extend(built_in(&resource.kind, object)),
    }
    faults
}

fn built_in(kind: &str, object: &mut Value) -> Vec<Fault> {
    match kind {
        "Namespace" => typed::<Namespace>(object),
        "Node" => typed::<Node>(object),
        "Pod" => typed::<Pod>(object),
        "Service" => typed::<Service>(object),
        "ConfigMap" => typed::<ConfigMap>(object),
        "Secret" => typed::<Secret>(object),
        "ServiceAccount" => typed::<ServiceAccount>(object),
        "PersistentVolumeClaim" => typed::<PersistentVolumeClaim>(object),
        "PersistentVolume" => typed::<PersistentVolume>(object),
        "StatefulSet" => typed::<StatefulSet>(object),
        "PodDisruptionBudget" => typed::<PodDisruptionBudget>(object),
        "Lease" => typed::<Lease>(object),
        "EndpointSlice" => typed::<EndpointSlice>(object),
        "Event" => typed::<Event>(object),
        // Definitions hold schemas of any form.
        _ => Vec::new(),
    }
}

fn typed<T: DeserializeOwned + Serialize>(object: &mut Value) -> Vec<Fault> {
    let read: T = match serde_json::from_value(object.clone()) {
        Ok(read) => read,
        Err(error) => return vec![Fault::Invalid(error.to_string())],
    };
    let Ok(kept) = serde_json::to_value(read) else { return Vec::new() };
    let mut faults = Vec::new();
    lost(object, &kept, "", &mut faults);
    faults
}

/// Takes out, and names, what was lost between what was sent and what was kept.
fn lost(sent: &mut Value, kept: &Value, path: &str, faults: &mut Vec<Fault>) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            sent.retain(|name, value| {
                let there = kept.contains_key(name) || is_empty(value);
                if !there {
                    faults.push(Fault::Unknown(format!("{path}.{name}")));
                }
                there
            });
            for (name, value) in sent {
                if let Some(kept) = kept.get(name) {
                    lost(value, kept, &format!("{path}.{name}"), faults);
                }
            }
        }
        (Value::Array(sent), Value::Array(kept)) => {
            for (index, (sent, kept)) in sent.iter_mut().zip(kept).enumerate() {
                lost(sent, kept, &format!("{path}[{index}]"), faults);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn structural(schema: &Value, value: &mut Value, path: &str, faults: &mut Vec<Fault>) {
    let mut invalid = |why: String| faults.push(Fault::Invalid(format!("{}: {why}", path.trim_start_matches('.'))));
    if !is_of_type(schema, value) {
        invalid(format!("must be of type {}, not {value}", schema["type"].as_str().unwrap_or_default()));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        invalid(format!("unsupported value {value}: supported are {}", Value::from(allowed.clone())));
    }
    for (bound, broken) in bounds(schema, value) {
        if broken {
            invalid(format!("{value} breaks {bound} {}", schema[bound]));
        }
    }
    match value {
        Value::Object(_) => fields(schema, value, path, faults),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                structural(&schema["items"], item, &format!("{path}[{index}]"), faults);
            }
        }
        _ => {}
    }
}

fn is_of_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => true,
    }
}

fn bounds(schema: &Value, value: &Value) -> Vec<(&'static str, bool)> {
    let size = match value {
        Value::String(text) => Some(("minLength", "maxLength", text.chars().count() as f64)),
        Value::Array(items) => Some(("minItems", "maxItems", items.len() as f64)),
        Value::Object(fields) => Some(("minProperties", "maxProperties", fields.len() as f64)),
        Value::Number(number) => number.as_f64().map(|number| ("minimum", "maximum", number)),
        _ => None,
    };
    let Some((least, most, size)) = size else { return Vec::new() };
    let bound = |name: &str| schema[name].as_f64();
    vec![(least, bound(least).is_some_and(|least| size < least)), (most, bound(most).is_some_and(|most| size > most))]
}

fn fields(schema: &Value, value: &mut Value, path: &str, faults: &mut Vec<Fault>) {
    let Value::Object(found) = value else { return };
    let known = schema["properties"].as_object();
    for (name, schema) in known.into_iter().flatten() {
        if let (None, Some(default)) = (found.get(name), schema.get("default")) {
            found.insert(name.clone(), default.clone());
        }
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if found.get(required).is_none_or(Value::is_null) {
            faults.push(Fault::Invalid(format!("{}.{required}: Required value", path.trim_start_matches('.'))));
        }
    }
    let open =
        schema["x-kubernetes-preserve-unknown-fields"] == true || (known.is_none() && schema["additionalProperties"].is_null());
    let top = path.is_empty();
    found.retain(|name, _| {
        let is_known = open
            || known.is_some_and(|known| known.contains_key(name))
            || schema.get("additionalProperties").is_some_and(|more| *more != json!(false))
            || (top && ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
        if !is_known {
            faults.push(Fault::Unknown(format!("{path}.{name}")));
        }
        is_known
    });
    for (name, value) in found.iter_mut().filter(|(name, _)| !(top && *name == "metadata")) {
        let below = known.and_then(|known| known.get(name)).or_else(|| schema.get("additionalProperties"));
        if let Some(below) = below.filter(|below| below.is_object()) {
            structural(below, value, &format!("{path}.{name}"), faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> (Vec<Fault>, Value) {
        let resource = Resource::built_in().into_iter().find(|resource| resource.kind == "Service").unwrap();
        let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec});
        (admit(&resource, &mut object), object["spec"].clone())
    }

    #[test]
    fn kubernetes_own_kinds_know_their_fields() {
        let good = json!({"ports": [{"port": 1, "name": "x", "targetPort": "x"}], "selector": {"a": "b"}, "publishNotReadyAddresses": true});
        assert_eq!(service(good.clone()), (vec![], good));
        let (faults, left) = service(json!({"selectr": {"a": "b"}, "ports": [{"port": 1, "prt": 2}]}));
        assert_eq!(faults, [Fault::Unknown(".spec.selectr".into()), Fault::Unknown(".spec.ports[0].prt".into())]);
        assert_eq!(left, json!({"ports": [{"port": 1}]}));
        let (faults, _) = service(json!({"ports": [{"port": "one"}]}));
        assert!(matches!(&faults[..], [Fault::Invalid(why)] if why.contains("one")), "{faults:?}");
    }

    fn custom(spec: Value) -> (Vec<Fault>, Value) {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "required": ["members"],
        "properties": {
            "members": {"type": "integer", "minimum": 1, "maximum": 5},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "words": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 3}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "size": {"x-kubernetes-int-or-string": true},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }}}});
        let mut resource = Resource::built_in().remove(0);
        resource.schema = Some(schema);
        let mut object =
            json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a", "labels": {"l": "m"}}, "spec": spec});
        (admit(&resource, &mut object), object["spec"].clone())
    }

    #[test]
    fn custom_kinds_by_table() {
        for (spec, expected) in [
            (json!({"members": 1}), ""),
            (json!({}), "spec.members: Required"),
            (json!({"members": 6}), "maximum"),
            (json!({"members": 0}), "minimum"),
            (json!({"members": "1"}), "type integer"),
            (json!({"members": 1, "mode": "c"}), "unsupported value"),
            (json!({"members": 1, "words": ["a", "b", "c"]}), "maxItems"),
            (json!({"members": 1, "words": ["long"]}), "maxLength"),
            (json!({"members": 1, "any": {"x": [1]}}), ""),
            (json!({"members": 1, "size": "1Gi"}), ""),
            (json!({"members": 1, "size": 1.5}), "type"),
            (json!({"members": 1, "map": {"a": "b"}}), ""),
            (json!({"members": 1, "map": {"a": 1}}), "type string"),
            (json!({"members": 1, "other": 1}), "Unknown(\".spec.other\")"),
        ] {
            let (faults, _) = custom(spec.clone());
            let told = format!("{faults:?}");
            assert_eq!(faults.is_empty(), expected.is_empty(), "{spec}: {told}");
            assert!(told.contains(expected), "{spec}: {told}");
        }
        let (_, filled) = custom(json!({"members": 1, "other": 1}));
        assert_eq!(filled, json!({"members": 1, "mode": "a"}), "defaults come, the unknown goes");
    }
}
