//! The diff against objects as a real API server (Kubernetes 1.35) returned them, `managedFields` included.
//!
//! How they came about: the snapshots were applied by server-side apply as `valkey-operator`, then edited with kubectl,
//! applied again, applied with a label, a variable and a key more, and applied without them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vko_api::names;
use vko_core::diff::differs;
use vko_core::object::Object;

/// The edited instance.
const INSTANCE: &str = "three-claims-ipv4";

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Kind and name.
type Key = (String, String);

fn key(object: &Value) -> Key {
    (object["kind"].as_str().unwrap().to_owned(), object["metadata"]["name"].as_str().unwrap().to_owned())
}

fn live(state: &str) -> BTreeMap<Key, Value> {
    let text = fs::read_to_string(tests().join("fixtures/live").join(state).with_extension("json")).unwrap();
    serde_json::from_str::<Vec<Value>>(&text).unwrap().into_iter().map(|object| (key(&object), object)).collect()
}

fn rendered(instance: &str) -> BTreeMap<Key, Value> {
    fs::read_dir(tests().join("snapshots").join(instance))
        .unwrap()
        .map(|file| serde_json::from_str(&fs::read_to_string(file.unwrap().path()).unwrap()).unwrap())
        .map(|object| (key(&object), object))
        .collect()
}

/// The first difference of each object of an instance, by kind and what its name adds to the instance's.
fn differences(instance: &str, state: &str) -> BTreeMap<String, Option<String>> {
    let live = live(state);
    rendered(instance)
        .into_iter()
        .map(|(key, rendered)| {
            let label = format!("{}{}", key.0, key.1.split(instance).nth(1).unwrap());
            (label, differs(&rendered, &Object::new(live[&key].clone()), names::OPERATOR))
        })
        .collect()
}

#[test]
fn what_was_just_applied_does_not_differ() {
    for (instance, state) in
        [(INSTANCE, "applied"), ("one-memory-ipv4", "applied"), (INSTANCE, "restored"), (INSTANCE, "one-field-less")]
    {
        let found = differences(instance, state);
        assert_eq!(found.len(), 7, "{instance} {state}");
        assert!(found.values().all(Option::is_none), "{instance} {state}: {found:?}");
    }
}

fn assert_differs(state: &str, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(label, path)| ((*label).to_owned(), Some((*path).to_owned()))).collect();
    assert_eq!(differences(INSTANCE, state), expected);
}

#[test]
fn each_edit_is_seen() {
    assert_differs(
        "edited",
        &[
            ("ConfigMap", "data.start"),
            ("PodDisruptionBudget", "spec.maxUnavailable"),
            ("Secret", "data.users.acl"),
            ("Service", "metadata.labels.buf.red/name"),
            ("Service-readonly", "spec.publishNotReadyAddresses"),
            ("Service-readwrite", "spec.selector.valkey.buf.red/role"),
            ("StatefulSet", "spec.replicas"),
        ],
    );
}

#[test]
fn what_is_no_longer_rendered_is_seen() {
    let label = "metadata.labels.example.org/former";
    assert_differs(
        "one-field-more",
        &[
            ("ConfigMap", "data.former"),
            ("PodDisruptionBudget", label),
            ("Secret", label),
            ("Service", label),
            ("Service-readonly", label),
            ("Service-readwrite", label),
            ("StatefulSet", label),
        ],
    );
}

#[test]
fn a_removed_false_is_seen() {
    let found = differences(INSTANCE, "edited-lists");
    assert_eq!(found["StatefulSet"].as_deref(), Some("spec.template.spec.automountServiceAccountToken"));
}

/// Edits of the live StatefulSet: where, the new value (null: gone), the path that is seen, or nothing where others may add.
fn edits() -> Vec<(&'static str, Value, Option<&'static str>)> {
    vec![
        ("/spec/updateStrategy/type", json!("RollingUpdate"), Some("spec.updateStrategy.type")),
        ("/spec/template/spec/containers/0/image", json!("x"), Some("spec.template.spec.containers[valkey].image")),
        ("/spec/template/spec/containers/0/command/0", json!("sh"), Some("spec.template.spec.containers[valkey].command[0]")),
        ("/spec/template/spec/containers/0/env", json!([]), Some("spec.template.spec.containers[valkey].env[POD_IP]")),
        (
            "/spec/template/spec/containers/0/resources/limits/memory",
            json!("512Mi"),
            Some("spec.template.spec.containers[valkey].resources.limits.memory"),
        ),
        ("/spec/template/spec/containers/0/resources/limits/memory", json!("268435456"), None),
        (
            "/spec/template/spec/tolerations/0/tolerationSeconds",
            json!(5),
            Some("spec.template.spec.tolerations[0].tolerationSeconds"),
        ),
        (
            "/spec/template/spec/volumes/2/projected/sources/1",
            Value::Null,
            Some("spec.template.spec.volumes[accounts].projected.sources[1]"),
        ),
        (
            "/spec/template/spec/securityContext/runAsNonRoot",
            json!(false),
            Some("spec.template.spec.securityContext.runAsNonRoot"),
        ),
        ("/spec/template/spec/nodeSelector/zone", json!("a"), Some("spec.template.spec.nodeSelector.zone")),
        ("/metadata/annotations/valkey.buf.red~1template", json!("{}"), Some("metadata.annotations.valkey.buf.red/template")),
        ("/metadata/annotations/example.org~1note", json!("x"), None),
        ("/metadata/finalizers", json!(["foregroundDeletion"]), None),
        ("/status/replicas", json!(0), None),
    ]
}

/// Sets the value at a pointer whose last part may be new.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (above, name) = pointer.rsplit_once('/').unwrap();
    let above = object.pointer_mut(above).unwrap();
    match name.parse::<usize>() {
        Ok(index) => above[index] = value,
        Err(_) => above[name.replace("~1", "/")] = value,
    }
}

#[test]
fn edits_of_the_template_are_seen_and_additions_of_others_left() {
    let of_set = ("StatefulSet".to_owned(), format!("rfr-{INSTANCE}"));
    let rendered = &rendered(INSTANCE)[&of_set];
    for (pointer, value, expected) in edits() {
        let mut edited = live("applied")[&of_set].clone();
        set(&mut edited, pointer, value.clone());
        assert_eq!(differs(rendered, &Object::new(edited), names::OPERATOR).as_deref(), expected, "{pointer}: {value}");
    }
}
