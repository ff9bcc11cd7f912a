//! Tables of named cases.

use serde_json::{Value, json};

use crate::translate::read;
use crate::valkey::Valkey;

mod crd;
mod translate;
mod validate;

/// The least there is to write.
fn least() -> Value {
    json!({
        "apiVersion": "rds.valkey.buf.red/v1alpha1",
        "kind": "Valkey",
        "metadata": {"name": "cache", "namespace": "shop"},
        "spec": {
            "version": "9.1",
            "arch": "replica",
            "replicas": {"replicasOfShard": 3},
            "resources": {"limits": {"memory": "256Mi"}},
        },
    })
}

/// The least, with a merge patch on its spec.
fn with(patch: Value) -> Valkey {
    let mut object = least();
    merge(&mut object["spec"], patch);
    read(&object).unwrap()
}

/// JSON merge patch.
fn merge(into: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !into.is_object() {
                *into = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    into.as_object_mut().unwrap().remove(&key);
                } else {
                    merge(&mut into[key], value);
                }
            }
        }
        other => *into = other,
    }
}
