//! How instances end: the objects that the operator made, without what differs by life (UIDs, times, secrets, who leads).
//! However they got to their specs, they must be the same.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vko_api::names;

use crate::outcome::{Oracle, Violation};
use crate::{VALKEYS, View};

/// Kinds that are rendered from the spec, whole.
const RENDERED: [&str; 4] = ["statefulsets.apps", "services", "configmaps", "poddisruptionbudgets.policy"];
/// Kinds that have a life of their own; that they are there is what counts. Claims outlive what they were made for.
const NAMED: [&str; 2] = ["pods", "secrets"];

/// All kinds that count, as resources.
pub fn resources() -> impl Iterator<Item = &'static str> {
    RENDERED.into_iter().chain(NAMED)
}

/// The instances as their manifests would ask for them: what people wrote, as it is now.
pub fn declared(view: &dyn View) -> Vec<Value> {
    let plain = |object: &Value| {
        let name = &object["metadata"]["name"];
        json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": name}, "spec": object["spec"]})
    };
    view.all(VALKEYS).into_iter().map(plain).collect()
}

/// The objects that an instance's spec leads to, by resource and name.
pub fn ending(view: &dyn View) -> BTreeMap<String, Value> {
    let name = |resource: &str, object: &Value| format!("{resource}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
    let of = |resource: &'static str| view.all(resource).into_iter().map(move |object| (name(resource, object), object));
    let rendered = RENDERED.into_iter().flat_map(of).map(|(name, object)| (name, stripped(object)));
    let named = NAMED.into_iter().flat_map(of).map(|(name, _)| (name, json!("there")));
    rendered.chain(named).collect()
}

fn stripped(object: &Value) -> Value {
    let mut spec = json!({"spec": object["spec"], "data": object["data"], "labels": object["metadata"]["labels"]});
    // The authorised template is spec.template, and the owner's UID is another in each life.
    for pointer in
        ["/labels", "/spec/template/metadata/labels", "/spec/template/metadata/annotations", "/spec/selector/matchLabels"]
    {
        if let Some(fields) = spec.pointer_mut(pointer).and_then(Value::as_object_mut) {
            fields.remove(names::VALKEY_UID);
        }
    }
    if let Some(fields) = spec["spec"].as_object_mut() {
        ["clusterIP", "clusterIPs", "volumeClaimTemplates"].iter().for_each(|name| drop(fields.remove(*name)));
    }
    spec
}

/// Where two endings differ.
pub fn alike(this: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) -> Vec<Violation> {
    let names: std::collections::BTreeSet<&String> = this.keys().chain(other.keys()).collect();
    let differing = names.into_iter().filter(|name| this.get(*name) != other.get(*name));
    let seen = |name: &String| match (this.get(name), other.get(name)) {
        (Some(this), Some(other)) => format!("{name} ended differently: {}", difference("", this, other)),
        (Some(_), None) => format!("{name} is there, and is not when the last spec is created at once"),
        _ => format!("{name} is missing; it is there when the last spec is created at once"),
    };
    differing.map(|name| Violation::new(Oracle::Ending, seen(name))).collect()
}

/// The first place where two values differ.
fn difference(path: &str, this: &Value, other: &Value) -> String {
    if let (Some(these), Some(others)) = (this.as_object(), other.as_object()) {
        let names = these.keys().chain(others.keys());
        let differing = names.into_iter().find(|name| these.get(*name) != others.get(*name));
        if let Some(name) = differing {
            return difference(&format!("{path}/{name}"), &this[name], &other[name]);
        }
    }
    format!("{path}: {this}, not {other}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_by_table() {
        let ending = |text: &str| -> BTreeMap<String, Value> {
            let object = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), json!({"spec": {"v": value}})));
            text.split_whitespace().filter_map(object).collect()
        };
        for (case, other, expected) in [
            ("the same", "a=1 b=2", None),
            ("another value", "a=1 b=3", Some("b ended differently: /spec/v: \"2\", not \"3\"")),
            ("one too many", "a=1", Some("b is there, and is not")),
            ("one missing", "a=1 b=2 c=3", Some("c is missing")),
        ] {
            let found = alike(&ending("a=1 b=2"), &ending(other));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{case}");
            assert!(expected.is_none_or(|says| found[0].seen.contains(says)), "{case}: {found:?}");
        }
    }
}
