//! Claims: bound to a volume of its own when a pod that uses them is on a node, grown when asked to, held while a pod uses them.
//! Volumes are local to their nodes and go with their claims.

use serde_json::{Value, json};

use crate::json::{deleting, list, text};
use crate::resource::Key;
use crate::store::{DeleteOptions, Manner, Store};

/// Holds a claim while a pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The node whose volume it is.
pub(crate) const NODE: &str = "volume.kubernetes.io/selected-node";

pub(super) fn run(store: &mut Store) {
    let claims: Vec<(Key, _)> =
        store.list("persistentvolumeclaims", None).map(|(key, claim)| (key.clone(), claim.clone())).collect();
    for (key, claim) in claims {
        let user = user(store, &key);
        if deleting(&claim) && user.is_none() {
            let _ = store.change(&key, Manner::by("kube-controller-manager"), |claim| {
                if let Some(finalizers) = claim["metadata"]["finalizers"].as_array_mut() {
                    finalizers.retain(|finalizer| finalizer != PROTECTION);
                }
            });
            continue;
        }
        let node = user.map(|pod| text(&pod, "/spec/nodeName").to_owned()).filter(|node| !node.is_empty());
        if let Some(node) = node.filter(|_| text(&claim, "/status/phase") != "Bound") {
            let _ = store.change(&key, Manner::by("kube-scheduler"), |claim| {
                claim["metadata"]["annotations"][NODE] = json!(node);
                claim["spec"]["volumeName"] = json!(format!("pvc-{}", text(claim, "/metadata/uid")));
            });
            make_volume(store, &key);
            bind(store, &key);
        } else if text(&claim, "/status/phase") == "Bound" {
            bind(store, &key);
        }
    }
    release_volumes(store);
}

fn release_volumes(store: &mut Store) {
    let claimed = |volume: &Value, store: &Store| {
        let claim =
            Key::new("persistentvolumeclaims", text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
        store.get(&claim).is_some_and(|claim| claim["metadata"]["uid"] == volume["spec"]["claimRef"]["uid"])
    };
    let volumes = store.list("persistentvolumes", None);
    let released: Vec<Key> = volumes.filter(|(_, volume)| !claimed(volume, store)).map(|(key, _)| key.clone()).collect();
    for key in released {
        let _ = store.delete(&key, &DeleteOptions::default());
    }
}

fn make_volume(store: &mut Store, key: &Key) {
    let Some(claim) = store.get(key).cloned() else { return };
    let name = text(&claim, "/spec/volumeName");
    let node = claim["metadata"]["annotations"][NODE].clone();
    let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "claimRef": {"namespace": key.namespace, "name": key.name, "uid": claim["metadata"]["uid"]},
            "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete", "local": {"path": format!("/volumes/{name}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
        },
    });
    let _ = store.create("persistentvolumes", volume, Manner::by("provisioner"));
}

/// A volume has at once what is asked for.
fn bind(store: &mut Store, key: &Key) {
    let _ = store.change(key, Manner::status_by("kube-controller-manager"), |claim| {
        let capacity = claim["spec"]["resources"]["requests"].clone();
        claim["status"] = json!({"phase": "Bound", "accessModes": claim["spec"]["accessModes"], "capacity": capacity});
    });
}

/// A pod that uses a claim.
fn user(store: &Store, claim: &Key) -> Option<Value> {
    let uses = |pod: &Value| {
        list(pod, "/spec/volumes").iter().any(|volume| text(volume, "/persistentVolumeClaim/claimName") == claim.name)
    };
    store.list("pods", Some(&claim.namespace)).find(|(_, pod)| uses(pod)).map(|(_, pod)| (**pod).clone())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, mk_set, mk_store};
    use super::*;

    #[test]
    fn a_claim_is_bound_to_its_pods_node_grows_and_is_held_while_used() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(1));
        let (key, pod) = (Key::new("persistentvolumeclaims", "n", "data-s-0"), Key::new("pods", "n", "s-0"));
        let bound = store.get(&key).unwrap().clone();
        assert_eq!((text(&bound, "/status/phase"), text(&bound, "/status/capacity/storage")), ("Bound", "1Gi"));
        let on = text(store.get(&pod).unwrap(), "/spec/nodeName").to_owned();
        assert_eq!(bound["metadata"]["annotations"][NODE], json!(on));
        let (_, volume) = store.list("persistentvolumes", None).next().unwrap();
        assert_eq!(text(volume, "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0"), on);
        let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        store.merge(&key, &more, Manner::by("t")).unwrap();
        super::super::run(&mut store);
        assert_eq!(text(store.get(&key).unwrap(), "/status/capacity/storage"), "2Gi");
        store.delete(&key, &DeleteOptions::default()).unwrap();
        super::super::run(&mut store);
        assert!(store.get(&key).is_some_and(|claim| deleting(claim)), "a pod uses it");
        let set = Key::new("statefulsets.apps", "n", "s");
        store.delete(&set, &DeleteOptions::default()).unwrap();
        super::super::run(&mut store);
        let uid = text(store.get(&pod).unwrap(), "/metadata/uid").to_owned();
        store.delete(&pod, &DeleteOptions::force(&uid)).unwrap();
        super::super::run(&mut store);
        assert!(store.get(&key).is_none());
        assert!(store.list("persistentvolumes", None).next().is_none(), "its volume goes with it");
    }
}
