//! Nodes that fail: their pods aren't ready any more; pods of a node that is gone or out of service are gone.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::json::{deleting, holds, list, text, time};
use crate::resource::Key;
use crate::store::{DeleteOptions, Manner, Store};

/// A person's word that nothing runs on the node.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(super) fn run(store: &mut Store) {
    let nodes = |store: &Store, wanted: &dyn Fn(&Value) -> bool| -> BTreeSet<String> {
        store.list("nodes", None).filter(|(_, node)| wanted(node)).map(|(key, _)| key.name.clone()).collect()
    };
    let known = nodes(store, &|_| true);
    let silent = nodes(store, &|node| !holds(node, "Ready"));
    let out = nodes(store, &|node| list(node, "/spec/taints").iter().any(|taint| taint["key"] == OUT_OF_SERVICE));
    let pods: Vec<(Key, _)> = store.list("pods", None).map(|(key, pod)| (key.clone(), pod.clone())).collect();
    for (key, pod) in pods {
        let node = text(&pod, "/spec/nodeName");
        if node.is_empty() {
            continue;
        }
        if !known.contains(node) || (out.contains(node) && (deleting(&pod) || !holds(&pod, "Ready"))) {
            let _ = store.delete(&key, &DeleteOptions::force(text(&pod, "/metadata/uid")));
        } else if silent.contains(node) && holds(&pod, "Ready") {
            let now = time(store.now_ms);
            let _ = store.change(&key, Manner::status_by("kube-controller-manager"), |pod| {
                for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
                    if condition["type"] == "Ready" {
                        condition["status"] = json!("False");
                        condition["lastTransitionTime"] = json!(now);
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, make_ready, mk_set, mk_store};
    use super::*;

    /// What becomes of a ready pod, and of one that is being deleted, after something happened to their node.
    fn after(happens: impl Fn(&mut Store, &Key)) -> (Option<bool>, Option<bool>) {
        let state = |deleted: bool| {
            let mut store = mk_store();
            create(&mut store, "statefulsets.apps", mk_set(1));
            make_ready(&mut store, "s-0", "127.0.1.1");
            let pod = Key::new("pods", "n", "s-0");
            let before = store.get(&pod).unwrap().clone();
            if deleted {
                store.delete(&pod, &DeleteOptions::default()).unwrap();
            }
            happens(&mut store, &Key::new("nodes", "", text(&before, "/spec/nodeName")));
            super::super::run(&mut store);
            let found = store.get(&pod).filter(|found| found["metadata"]["uid"] == before["metadata"]["uid"]);
            found.map(|found| holds(found, "Ready"))
        };
        (state(false), state(true))
    }

    #[test]
    fn pods_of_failed_nodes_by_table() {
        let silent = |store: &mut Store, node: &Key| {
            let status = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
            store.merge(node, &status, Manner::status_by("t")).unwrap();
        };
        let taint = |store: &mut Store, node: &Key| {
            let taints = json!({"spec": {"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]}});
            store.merge(node, &taints, Manner::by("t")).unwrap();
        };
        assert_eq!(after(|_, _| {}), (Some(true), Some(true)));
        assert_eq!(after(silent), (Some(false), Some(false)), "silent is not gone");
        assert_eq!(after(taint).1, None, "out of service, nothing can be waited for");
        assert_eq!(after(|store, node| drop(store.delete(node, &DeleteOptions::default()))), (None, None));
    }
}
