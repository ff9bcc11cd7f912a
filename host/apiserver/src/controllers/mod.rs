//! What Kubernetes does by itself, as far as an operator lives with it. Each controller looks at the objects and writes what
//! follows; all of them run until nothing follows any more.
//!
//! Kubelets aren't here: whoever owns the store starts and ends what pods stand for.

mod budgets;
mod claims;
mod endpoints;
mod garbage;
mod nodes;
mod scheduler;
mod stateful_sets;

use crate::store::Store;

/// More rounds than any chain of consequences has: deleting an owner takes three.
const ROUNDS: usize = 50;

/// Runs all controllers until nothing changes.
pub fn run(store: &mut Store) {
    for _ in 0..ROUNDS {
        let before = store.version();
        stateful_sets::run(store);
        claims::run(store);
        scheduler::run(store);
        nodes::run(store);
        garbage::run(store);
        budgets::run(store);
        endpoints::run(store);
        if store.version() == before {
            return;
        }
    }
    tracing::error!("controllers don't come to rest; two of them undo each other's work");
}

#[cfg(test)]
pub(crate) mod testing {
    use serde_json::{Value, json};

    use crate::resource::Key;
    use crate::store::{Manner, Store};

    /// Three nodes in three zones.
    pub(crate) fn mk_store() -> Store {
        let mut store = Store::default();
        for (index, zone) in ["a", "b", "c"].into_iter().enumerate() {
            mk_node(&mut store, &format!("node{}", index + 1), zone);
        }
        store
    }

    pub(crate) fn mk_node(store: &mut Store, name: &str, zone: &str) {
        let labels = json!({"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        store.create("nodes", node, Manner::by("t")).unwrap();
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        store.merge(&Key::new("nodes", "", name), &status, Manner::status_by("t")).unwrap();
    }

    /// A StatefulSet as ours are, with a claim for each member.
    pub(crate) fn mk_set(replicas: u32) -> Value {
        let template = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
        let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "n"}, "spec": {
            "replicas": replicas, "serviceName": "s", "selector": {"matchLabels": {"x": "y"}}, "template": template,
            "podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"}, "volumeClaimTemplates": [claim]}})
    }

    pub(crate) fn create(store: &mut Store, resource: &str, object: Value) {
        store.create(resource, object, Manner::by("t")).unwrap();
        super::run(store);
    }

    pub(crate) fn names(store: &Store, resource: &str) -> Vec<String> {
        store.list(resource, None).map(|(key, _)| key.name.clone()).collect()
    }

    /// What a kubelet says of a pod that is ready.
    pub(crate) fn make_ready(store: &mut Store, pod: &str, ip: &str) {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions}});
        store.merge(&Key::new("pods", "n", pod), &status, Manner::status_by("kubelet")).unwrap();
        super::run(store);
    }
}
