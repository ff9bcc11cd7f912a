//! Tables of named cases.

use serde_json::{Value, json};

use crate::images::Images;
use crate::sentinel::Sentinel;
use crate::translate::{read, read_sentinel};
use crate::valkey::Valkey;

mod crd;
mod topologies;
mod translate;
mod validate;
mod validate_topologies;

fn images() -> Images {
    let lines = ["7.2", "8.1", "9.1"].map(|line| (line.to_owned(), format!("valkey/valkey:{line}.1")));
    Images {
        lines: lines.into(),
        pull_policy: Some("IfNotPresent".into()),
        pull_secrets: vec!["pull".into()],
        ..Images::default()
    }
}

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

/// A merge patch that makes a cluster of the least.
fn cluster(patch: Value) -> Value {
    let mut spec = json!({"arch": "cluster", "replicas": {"shards": 3, "replicasOfShard": 2}});
    merge(&mut spec, patch);
    spec
}

/// A merge patch that makes the least one of the failover architecture, with something said of its Sentinels.
fn failover(sentinel: Value) -> Value {
    json!({"arch": "failover", "sentinel": sentinel})
}

/// Sentinels that stand alone.
fn alone(spec: Value) -> Sentinel {
    let meta = json!({"name": "watch", "namespace": "shop"});
    read_sentinel(&json!({"apiVersion": "valkey.buf.red/v1alpha1", "kind": "Sentinel", "metadata": meta, "spec": spec})).unwrap()
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
