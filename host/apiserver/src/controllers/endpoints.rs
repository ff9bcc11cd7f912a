//! Endpoints of Services, by labels and readiness: one EndpointSlice for each, named as the Service.

use serde_json::{Value, json};

use crate::json::{deleting, holds, text};
use crate::resource::Key;
use crate::selector::Selector;
use crate::store::{Manner, Store};

const BY: Manner<'static> = Manner::by("kube-controller-manager");

pub(super) fn run(store: &mut Store) {
    let services: Vec<(Key, _)> = store.list("services", None).map(|(key, service)| (key.clone(), service.clone())).collect();
    for (key, service) in services {
        let Some(selector) = Selector::of_map(&service["spec"]["selector"]) else { continue };
        let publish = service.pointer("/spec/publishNotReadyAddresses") == Some(&json!(true));
        let pods = store.select("pods", &key.namespace, &selector);
        let endpoints: Vec<Value> = pods.iter().filter_map(|pod| endpoint(pod, publish)).collect();
        let slice = Key::new("endpointslices.discovery.k8s.io", &key.namespace, &key.name);
        if store.get(&slice).is_none() {
            let owner = json!({"apiVersion": "v1", "kind": "Service", "name": key.name, "uid": service["metadata"]["uid"], "controller": true});
            let labels = json!({"kubernetes.io/service-name": key.name});
            let metadata = json!({"name": key.name, "namespace": key.namespace, "labels": labels, "ownerReferences": [owner]});
            let object = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4", "endpoints": endpoints});
            let _ = store.create(&slice.resource, object, BY);
        } else {
            let _ = store.change(&slice, BY, |slice| slice["endpoints"] = json!(endpoints));
        }
    }
}

fn endpoint(pod: &Value, publish: bool) -> Option<Value> {
    let ip = text(pod, "/status/podIP");
    if ip.is_empty() || ["Failed", "Succeeded"].contains(&text(pod, "/status/phase")) {
        return None;
    }
    let serving = holds(pod, "Ready");
    let conditions = json!({"ready": publish || (serving && !deleting(pod)), "serving": serving, "terminating": deleting(pod)});
    let target = json!({"kind": "Pod", "name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"], "uid": pod["metadata"]["uid"]});
    Some(json!({"addresses": [ip], "conditions": conditions, "targetRef": target, "nodeName": pod["spec"]["nodeName"]}))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, make_ready, mk_set, mk_store};
    use super::*;

    fn ready(store: &Store, service: &str) -> Vec<String> {
        let slice = store.get(&Key::new("endpointslices.discovery.k8s.io", "n", service)).unwrap();
        let ready = crate::json::list(slice, "/endpoints").iter().filter(|endpoint| endpoint["conditions"]["ready"] == true);
        ready.map(|endpoint| text(endpoint, "/addresses/0").to_owned()).collect()
    }

    #[test]
    fn a_service_has_the_pods_that_its_labels_and_their_readiness_say() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(2));
        for (name, publish) in [("readers", false), ("all", true)] {
            let spec = json!({"selector": {"x": "y"}, "ports": [{"port": 1}], "publishNotReadyAddresses": publish});
            create(
                &mut store,
                "services",
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "n"}, "spec": spec}),
            );
        }
        assert!(ready(&store, "all").is_empty(), "without an address there is none");
        let addressed = json!({"status": {"podIP": "127.0.1.2"}});
        store.merge(&Key::new("pods", "n", "s-1"), &addressed, Manner::status_by("kubelet")).unwrap();
        make_ready(&mut store, "s-0", "127.0.1.1");
        assert_eq!((ready(&store, "readers"), ready(&store, "all").len()), (vec!["127.0.1.1".to_owned()], 2));
        let other = json!({"metadata": {"labels": {"x": "z"}}});
        store.merge(&Key::new("pods", "n", "s-0"), &other, Manner::by("t")).unwrap();
        super::super::run(&mut store);
        assert!(ready(&store, "readers").is_empty());
    }
}
