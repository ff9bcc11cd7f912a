//! What of a world lasts, from one process that owns it to the next.
//!
//! # Guarantees
//! 1. An instance that has claims comes back whole: its ledger, its accounts, its claims. Its pods are new, and what was reported
//!    of the old ones isn't said of them: until the operator has looked, nothing is ready.
//! 2. One that has none comes back as people wrote it, and nothing else of it: it begins anew, as its data does. A consent to
//!    lose data was given for data that is gone.
//! 3. Data whose claim is gone goes, too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use vko_api::names;
use vko_apiserver::disk::Saved;
use vko_apiserver::store::Manner;
use vko_apiserver::{Key, Refusal, Store};

use crate::kubelet::{list, text};

/// The file of objects.
pub(crate) const OBJECTS: &str = "objects";
/// Kinds of which people make instances.
const WRITTEN: [&str; 2] = ["valkeys.rds.valkey.buf.red", "sentinels.valkey.buf.red"];
const CLAIMS: &str = "persistentvolumeclaims";

/// An instance: namespace and name.
type Instance = (String, String);

/// What is there again, and what is to be made anew.
pub(crate) fn sorted_out(mut saved: Saved) -> (Saved, Vec<Value>) {
    let lasting: BTreeSet<Instance> =
        saved.objects.iter().filter(|(key, _)| key.resource == CLAIMS).filter_map(|(key, claim)| instance(key, claim)).collect();
    let mut anew = Vec::new();
    saved.objects.retain(|key, object| {
        let Some(instance) = instance(key, object) else { return true };
        if lasting.contains(&instance) {
            if is_written(key, object) {
                *object = Arc::new(unreported(object));
            }
            return true;
        }
        if is_written(key, object) && object.pointer("/metadata/deletionTimestamp").is_none() {
            anew.push(as_written(object));
        }
        false
    });
    (saved, anew)
}

/// The instance that an object is of.
fn instance(key: &Key, object: &Value) -> Option<Instance> {
    let label = object["metadata"]["labels"][names::INSTANCE].as_str();
    let name = if is_written(key, object) { Some(key.name.as_str()) } else { label };
    name.map(|name| (key.namespace.clone(), name.to_owned()))
}

/// Whether people made it, and not the operator beside something else.
fn is_written(key: &Key, object: &Value) -> bool {
    WRITTEN.contains(&key.resource.as_str()) && list(object, "/metadata/ownerReferences").is_empty()
}

fn unreported(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, _| !["conditions", "nodes", "phase", "message", "observedGeneration"].contains(&field.as_str()));
    }
    object
}

fn as_written(object: &Value) -> Value {
    let mut metadata = json!({"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]});
    for part in ["labels", "annotations"] {
        let mut kept = object["metadata"][part].as_object().cloned().unwrap_or_default();
        kept.remove(names::CONSENT);
        if !kept.is_empty() {
            metadata[part] = kept.into();
        }
    }
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": object["spec"]})
}

/// Makes the folder what it is before anything runs: no pods, and claims' data only where there is a claim.
pub(crate) fn tidy(folder: &Path, saved: &Saved) -> io::Result<()> {
    absent(fs::remove_dir_all(folder.join("pods")))?;
    let claims = saved.objects.iter().filter(|(key, _)| key.resource == CLAIMS);
    let known: BTreeSet<&str> = claims.map(|(_, claim)| text(claim, "/metadata/uid")).collect();
    let entries = match fs::read_dir(folder.join("claims")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !known.contains(&*entry.file_name().to_string_lossy()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn absent(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Lets no pod onto a node any more, and says in every configuration that the instance ends, so that no hook hands a role over
/// to a server that ends as well. Returns the pods.
pub(crate) fn cordon(store: &mut Store) -> Result<Vec<Key>, Refusal> {
    const BY: Manner<'static> = Manner::by("kubectl");
    let keys = |store: &Store, resource: &str| store.list(resource, None).map(|(key, _)| key.clone()).collect::<Vec<_>>();
    for node in keys(store, "nodes") {
        store.merge(&node, &json!({"spec": {"unschedulable": true}}), BY)?;
    }
    for map in keys(store, "configmaps") {
        if store.get(&map).is_some_and(|map| text(map, "/data/ending") == "no") {
            store.merge(&map, &json!({"data": {"ending": "yes"}}), BY)?;
        }
    }
    Ok(keys(store, "pods"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn object(resource: &str, name: &str, more: Value) -> (Key, Arc<Value>) {
        let mut object = json!({"kind": "K", "apiVersion": "v1", "metadata": {"name": name, "namespace": "n", "uid": name}});
        for (at, value) in more.as_object().into_iter().flatten() {
            match at.as_str() {
                "instance" => object["metadata"]["labels"] = json!({names::INSTANCE: value}),
                "spec" | "status" => object[at] = value.clone(),
                at => object["metadata"][at] = value.clone(),
            }
        }
        (Key::new(resource, "n", name), Arc::new(object))
    }

    fn names_of(saved: &Saved) -> Vec<&str> {
        saved.objects.keys().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn instances_with_claims_come_back_whole_and_others_as_they_were_written() {
        let annotations = json!({names::CONSENT: "discard-writes:x", "mine": "1"});
        let objects = BTreeMap::from([
            object(
                "valkeys.rds.valkey.buf.red",
                "kept",
                json!({"status": {"phase": "Ready", "conditions": [1], "lastVersion": "9.1"}}),
            ),
            object(CLAIMS, "claim", json!({"instance": "kept"})),
            object("secrets", "kept-account", json!({"instance": "kept"})),
            object(
                "valkeys.rds.valkey.buf.red",
                "bare",
                json!({"annotations": annotations, "spec": {"a": 1}, "status": {"b": 2}}),
            ),
            object("failovers.valkey.buf.red", "bare", json!({"instance": "bare"})),
            object("sentinels.valkey.buf.red", "bare", json!({"instance": "bare", "ownerReferences": [{"uid": "x"}]})),
            object("sentinels.valkey.buf.red", "shared", json!({"spec": {"c": 3}})),
            object("valkeys.rds.valkey.buf.red", "leaving", json!({"deletionTimestamp": "t"})),
            object("secrets", "mine", json!({})),
        ]);
        let (saved, anew) = sorted_out(Saved { objects, version: 9, made: 9 });
        assert_eq!((names_of(&saved), saved.version), (vec!["claim", "kept-account", "mine", "kept"], 9));
        let kept = &saved.objects[&Key::new("valkeys.rds.valkey.buf.red", "n", "kept")];
        assert_eq!(kept["status"], json!({"lastVersion": "9.1"}), "nothing is said of pods that are gone");
        let mut anew: Vec<_> = anew
            .into_iter()
            .map(|object| (object["metadata"].clone(), object["spec"].clone(), object.get("status").cloned()))
            .collect();
        anew.sort_by_key(|(metadata, ..)| metadata["name"].to_string());
        let bare = json!({"name": "bare", "namespace": "n", "annotations": {"mine": "1"}});
        assert_eq!(anew, [(bare, json!({"a": 1}), None), (json!({"name": "shared", "namespace": "n"}), json!({"c": 3}), None)]);
    }

    #[test]
    fn data_without_a_claim_goes_and_so_do_pods() {
        let folder = std::env::temp_dir().join(format!("vko-lasting-{}", std::process::id()));
        for inside in ["pods/p.1/data", "claims/claim", "claims/other"] {
            fs::create_dir_all(folder.join(inside)).unwrap();
        }
        let saved = Saved { objects: BTreeMap::from([object(CLAIMS, "claim", json!({}))]), ..Saved::default() };
        tidy(&folder, &saved).unwrap();
        let there = |inside: &str| folder.join(inside).exists();
        assert_eq!([there("pods"), there("claims/claim"), there("claims/other")], [false, true, false]);
        fs::remove_dir_all(&folder).unwrap();
        tidy(&folder, &saved).unwrap();
    }
}
