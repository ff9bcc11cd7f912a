//! StatefulSets, `Parallel` and `OnDelete`: a pod and its claims for each ordinal; those above go. A running pod is never
//! replaced.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::json::{controller, deleting, holds, list, map_in, text};
use crate::resource::Key;
use crate::selector::Selector;
use crate::store::{DeleteOptions, Manner, Store};

const BY: Manner<'static> = Manner::by("kube-controller-manager");

pub(super) fn run(store: &mut Store) {
    let sets: Vec<(Key, Arc<Value>)> =
        store.list("statefulsets.apps", None).map(|(key, set)| (key.clone(), set.clone())).collect();
    for (key, set) in sets {
        if !deleting(&set) {
            members(store, &key, &set);
        }
        status(store, &key, &set);
    }
}

fn members(store: &mut Store, key: &Key, set: &Value) {
    let replicas = set.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    for ordinal in 0..replicas {
        let name = format!("{}-{ordinal}", key.name);
        let pod_key = Key::new("pods", &key.namespace, &name);
        let pod = store.get(&pod_key).cloned();
        match pod {
            // A claim that is about to go is waited for, as the real controller does.
            None if claims(store, key, set, ordinal).any(|claim| deleting(&claim)) => {}
            None => {
                for template in list(set, "/spec/volumeClaimTemplates") {
                    make_claim(store, key, template, ordinal);
                }
                refused(&name, store.create("pods", mk_pod(set, &name, ordinal), BY).map(drop));
            }
            Some(pod) => keep(store, &pod_key, &pod, set),
        }
    }
    for (key, pod) in own_pods(store, key, set) {
        if ordinal(&key, set).is_none_or(|ordinal| ordinal >= replicas) && !deleting(&pod) {
            refused(&key.name, store.delete(&key, &DeleteOptions::of(text(&pod, "/metadata/uid"))).map(drop));
        }
    }
}

/// A pod that has ended is made anew; one without an owner, of the right name and labels, is adopted.
fn keep(store: &mut Store, key: &Key, pod: &Value, set: &Value) {
    let uid = text(pod, "/metadata/uid");
    if ["Failed", "Succeeded"].contains(&text(pod, "/status/phase")) && controller(pod) == text(set, "/metadata/uid") {
        refused(&key.name, store.delete(key, &DeleteOptions::force(uid)).map(drop));
    } else if controller(pod).is_empty()
        && !deleting(pod)
        && Selector::of(&set["spec"]["selector"]).is_some_and(|selector| selector.matches(pod))
    {
        let adopted = store.change(key, BY, |pod| {
            let owners = map_in(pod, "metadata").entry("ownerReferences").or_insert_with(|| json!([]));
            owners.as_array_mut().into_iter().for_each(|owners| owners.push(owner(set)));
        });
        refused(&key.name, adopted.map(drop));
    }
}

/// Claims of a place that exist.
fn claims(store: &Store, set: &Key, object: &Value, ordinal: u64) -> impl Iterator<Item = Arc<Value>> {
    let found = list(object, "/spec/volumeClaimTemplates").iter().filter_map(|template| {
        let name = format!("{}-{}-{ordinal}", text(template, "/metadata/name"), set.name);
        store.get(&Key::new("persistentvolumeclaims", &set.namespace, &name)).cloned()
    });
    found.collect::<Vec<_>>().into_iter()
}

fn make_claim(store: &mut Store, set: &Key, template: &Value, ordinal: u64) {
    let name = format!("{}-{}-{ordinal}", text(template, "/metadata/name"), set.name);
    if store.get(&Key::new("persistentvolumeclaims", &set.namespace, &name)).is_some() {
        return;
    }
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(set.namespace);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]});
    refused(&name, store.create("persistentvolumeclaims", claim, BY).map(drop));
}

fn mk_pod(set: &Value, name: &str, ordinal: u64) -> Value {
    let template = &set["spec"]["template"];
    let set_name = text(set, "/metadata/name");
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    metadata["name"] = json!(name);
    metadata["namespace"] = set["metadata"]["namespace"].clone();
    metadata["ownerReferences"] = json!([owner(set)]);
    let labels = map_in(&mut metadata, "labels");
    labels.insert("statefulset.kubernetes.io/pod-name".into(), json!(name));
    labels.insert("apps.kubernetes.io/pod-index".into(), json!(ordinal.to_string()));
    labels.insert("controller-revision-hash".into(), json!(revision(set)));
    let mut spec = template["spec"].clone();
    spec["hostname"] = json!(name);
    spec["subdomain"] = set["spec"]["serviceName"].clone();
    let claims = list(set, "/spec/volumeClaimTemplates").iter().map(|template| {
        let claim = text(template, "/metadata/name");
        json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{set_name}-{ordinal}")}})
    });
    let claimed: Vec<Value> = claims.collect();
    let others = list(&spec, "/volumes").iter().filter(|volume| !claimed.iter().any(|claim| claim["name"] == volume["name"]));
    spec["volumes"] = others.cloned().chain(claimed.clone()).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn owner(set: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set["metadata"]["name"], "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true})
}

/// Tells templates apart (FNV-1a).
fn revision(set: &Value) -> String {
    let text = set["spec"]["template"].to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{}-{hash:x}", crate::json::text(set, "/metadata/name"))
}

fn ordinal(pod: &Key, set: &Value) -> Option<u64> {
    pod.name.strip_prefix(text(set, "/metadata/name"))?.strip_prefix('-')?.parse().ok()
}

fn own_pods(store: &Store, set_key: &Key, set: &Value) -> Vec<(Key, Arc<Value>)> {
    let uid = text(set, "/metadata/uid");
    let pods = store.list("pods", Some(&set_key.namespace)).filter(|(_, pod)| controller(pod) == uid);
    pods.map(|(key, pod)| (key.clone(), pod.clone())).collect()
}

fn status(store: &mut Store, key: &Key, set: &Value) {
    let pods = own_pods(store, key, set);
    let revision = revision(set);
    let updated =
        pods.iter().filter(|(_, pod)| pod.pointer("/metadata/labels/controller-revision-hash") == Some(&json!(revision)));
    let ready = pods.iter().filter(|(_, pod)| holds(pod, "Ready") && !deleting(pod)).count();
    let status = json!({
        "observedGeneration": set["metadata"]["generation"],
        "replicas": pods.len(), "readyReplicas": ready, "availableReplicas": ready,
        "updatedReplicas": updated.count(), "updateRevision": revision,
    });
    let written = store.change(key, Manner::status_by("kube-controller-manager"), |set| {
        // Since when all are of one revision it is the current one.
        let all = status["updatedReplicas"] == status["replicas"];
        let current = if all { json!(revision) } else { set["status"]["currentRevision"].clone() };
        set["status"] = status;
        if !current.is_null() {
            set["status"]["currentRevision"] = current;
        }
    });
    refused(&key.name, written.map(drop));
}

fn refused(what: &str, result: Result<(), crate::refusal::Refusal>) {
    if let Err(refusal) = result {
        tracing::warn!(what, %refusal, "a controller was refused");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, make_ready, mk_set, mk_store, names};
    use super::*;

    #[test]
    fn each_ordinal_has_a_pod_and_its_claims() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(3));
        assert_eq!(names(&store, "pods"), ["s-0", "s-1", "s-2"], "all at once");
        assert_eq!(names(&store, "persistentvolumeclaims"), ["data-s-0", "data-s-1", "data-s-2"]);
        let pod = store.get(&Key::new("pods", "n", "s-1")).unwrap();
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}]));
        assert_eq!((text(pod, "/spec/hostname"), text(pod, "/metadata/labels/x")), ("s-1", "y"));
    }

    #[test]
    fn those_above_go_and_their_claims_stay() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(3));
        store.merge(&Key::new("statefulsets.apps", "n", "s"), &json!({"spec": {"replicas": 1}}), BY).unwrap();
        super::super::run(&mut store);
        let leaving: Vec<_> =
            store.list("pods", None).filter(|(_, pod)| deleting(pod)).map(|(key, _)| key.name.as_str()).collect();
        assert_eq!(leaving, ["s-1", "s-2"], "they have their grace");
        assert_eq!(names(&store, "persistentvolumeclaims").len(), 3);
    }

    #[test]
    fn a_claim_that_goes_is_waited_for() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(1));
        let (pod, claim) = (Key::new("pods", "n", "s-0"), Key::new("persistentvolumeclaims", "n", "data-s-0"));
        let uid = |store: &Store, key: &Key| store.get(key).map(|object| text(object, "/metadata/uid").to_owned());
        let (first, kept) = (uid(&store, &pod).unwrap(), uid(&store, &claim).unwrap());
        store.delete(&claim, &DeleteOptions::of(&kept)).unwrap();
        super::super::run(&mut store);
        assert_eq!(uid(&store, &claim), Some(kept.clone()), "its pod uses it");
        store.delete(&pod, &DeleteOptions::force(&first)).unwrap();
        for _ in 0..3 {
            super::super::run(&mut store);
            let used = uid(&store, &pod).is_some() && uid(&store, &claim).as_ref() == Some(&kept);
            assert!(!used, "no new pod on the claim that goes");
        }
        assert!(uid(&store, &pod).is_some() && uid(&store, &claim).is_some(), "both are made anew");
    }

    #[test]
    fn a_new_template_restarts_nobody_and_a_deleted_pod_gets_it() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(2));
        make_ready(&mut store, "s-0", "127.0.1.1");
        let patch = json!({"spec": {"template": {"metadata": {"labels": {"z": "1"}}}}});
        store.merge(&Key::new("statefulsets.apps", "n", "s"), &patch, BY).unwrap();
        super::super::run(&mut store);
        let pod = |store: &Store, name: &str| store.get(&Key::new("pods", "n", name)).unwrap().clone();
        let before = pod(&store, "s-0");
        assert_eq!(before.pointer("/metadata/labels/z"), None);
        let set = store.get(&Key::new("statefulsets.apps", "n", "s")).unwrap();
        assert_eq!((&set["status"]["readyReplicas"], &set["status"]["updatedReplicas"]), (&json!(1), &json!(0)));
        assert_ne!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
        store.delete(&Key::new("pods", "n", "s-0"), &DeleteOptions::force(text(&before, "/metadata/uid"))).unwrap();
        super::super::run(&mut store);
        let after = pod(&store, "s-0");
        assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after.pointer("/metadata/labels/z"), Some(&json!("1")));
    }

    #[test]
    fn a_successor_adopts_the_pods_that_were_left() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(1));
        let key = Key::new("statefulsets.apps", "n", "s");
        let orphan = DeleteOptions { propagation_policy: Some("Orphan".into()), ..DeleteOptions::default() };
        store.delete(&key, &orphan).unwrap();
        super::super::run(&mut store);
        assert_eq!((store.get(&key), names(&store, "pods")), (None, vec!["s-0".to_owned()]));
        create(&mut store, "statefulsets.apps", mk_set(1));
        let pod = store.get(&Key::new("pods", "n", "s-0")).unwrap();
        assert_eq!(controller(pod), text(store.get(&key).unwrap(), "/metadata/uid"));
    }
}
