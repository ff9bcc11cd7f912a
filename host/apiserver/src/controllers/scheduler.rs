//! Puts pods on nodes: where their claims are, else where the node is fit and fewest of their like are in its zone and on it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::claims::NODE;
use crate::json::{deleting, holds, list, text, time};
use crate::resource::Key;
use crate::selector::Selector;
use crate::store::{Manner, Store};

const ZONE: &str = "/metadata/labels/topology.kubernetes.io~1zone";

pub(super) fn run(store: &mut Store) {
    let waiting: Vec<(Key, Arc<Value>)> = store
        .list("pods", None)
        .filter(|(_, pod)| text(pod, "/spec/nodeName").is_empty() && !deleting(pod))
        .map(|(key, pod)| (key.clone(), pod.clone()))
        .collect();
    for (key, pod) in waiting {
        let node = choose(store, &pod);
        let now = time(store.now_ms);
        let status = if node.is_some() { "True" } else { "False" };
        if let Some(node) = node {
            let _ = store.change(&key, Manner::by("kube-scheduler"), |pod| pod["spec"]["nodeName"] = json!(node));
        }
        let known =
            list(&pod, "/status/conditions").iter().any(|known| known["type"] == "PodScheduled" && known["status"] == status);
        if !known {
            let mut condition = json!({"type": "PodScheduled", "status": status, "lastTransitionTime": now});
            if status == "False" {
                condition["reason"] = json!("Unschedulable");
                condition["message"] = json!("no node is fit for this pod");
            }
            let _ =
                store.change(&key, Manner::status_by("kube-scheduler"), |pod| pod["status"]["conditions"] = json!([condition]));
        }
    }
}

fn choose(store: &Store, pod: &Value) -> Option<String> {
    let namespace = text(pod, "/metadata/namespace");
    let others: Vec<Arc<Value>> = store.list("pods", Some(namespace)).map(|(_, pod)| pod.clone()).collect();
    let nodes: Vec<Arc<Value>> = store.list("nodes", None).map(|(_, node)| node.clone()).collect();
    let bound: Vec<String> = claims(pod).filter_map(|claim| node_of(store, namespace, &claim)).collect();
    let fit = nodes.iter().filter(|node| {
        bound.iter().all(|bound| bound == text(node, "/metadata/name"))
            && is_fit(pod, node)
            && is_apart(pod, node, &nodes, &others)
    });
    let alike = like(pod, &others);
    let load = |node: &&Arc<Value>| {
        let name = text(node, "/metadata/name");
        let zone = |pod: &&&Value| zone_of(text(pod, "/spec/nodeName"), &nodes) == text(node, ZONE);
        let on = alike.iter().filter(|other| text(other, "/spec/nodeName") == name).count();
        (
            alike.iter().filter(zone).count(),
            on,
            others.iter().filter(|other| text(other, "/spec/nodeName") == name).count(),
            name.to_owned(),
        )
    };
    fit.min_by_key(load).map(|node| text(node, "/metadata/name").to_owned())
}

fn claims(pod: &Value) -> impl Iterator<Item = String> {
    let volumes = list(pod, "/spec/volumes").iter();
    volumes.map(|volume| text(volume, "/persistentVolumeClaim/claimName").to_owned()).filter(|claim| !claim.is_empty())
}

fn node_of(store: &Store, namespace: &str, claim: &str) -> Option<String> {
    let claim = store.get(&Key::new("persistentvolumeclaims", namespace, claim))?;
    claim.pointer("/metadata/annotations")?.get(NODE)?.as_str().map(str::to_owned)
}

fn zone_of<'a>(node: &str, nodes: &'a [Arc<Value>]) -> &'a str {
    nodes.iter().find(|found| text(found, "/metadata/name") == node).map_or("", |found| text(found, ZONE))
}

fn is_fit(pod: &Value, node: &Value) -> bool {
    let labels = node.pointer("/metadata/labels");
    let wanted = pod.pointer("/spec/nodeSelector").and_then(Value::as_object).into_iter().flatten();
    let tolerated = |taint: &Value| {
        list(pod, "/spec/tolerations").iter().any(|toleration| {
            let key = text(toleration, "/key");
            (key.is_empty() || key == text(taint, "/key"))
                && (text(toleration, "/operator") == "Exists" || text(toleration, "/value") == text(taint, "/value"))
        })
    };
    let keeps_off = |taint: &&Value| ["NoSchedule", "NoExecute"].contains(&text(taint, "/effect"));
    holds(node, "Ready")
        && !deleting(node)
        && node.pointer("/spec/unschedulable") != Some(&json!(true))
        && wanted.into_iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        && list(node, "/spec/taints").iter().filter(keeps_off).all(tolerated)
}

/// Whether the required anti-affinity, by host or zone, lets the pod onto the node.
fn is_apart(pod: &Value, node: &Value, nodes: &[Arc<Value>], others: &[Arc<Value>]) -> bool {
    let terms = list(pod, "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    terms.iter().all(|term| {
        let Some(selector) = Selector::of(&term["labelSelector"]) else { return true };
        let near = |other: &Arc<Value>| {
            let on = text(other, "/spec/nodeName");
            let by_zone = text(term, "/topologyKey").ends_with("/zone");
            if by_zone { !on.is_empty() && zone_of(on, nodes) == text(node, ZONE) } else { on == text(node, "/metadata/name") }
        };
        !others.iter().any(|other| selector.matches(other) && near(other) && other["metadata"]["name"] != pod["metadata"]["name"])
    })
}

/// Pods that the pod wants to be spread with.
fn like<'a>(pod: &Value, others: &'a [Arc<Value>]) -> Vec<&'a Value> {
    let selector = list(pod, "/spec/topologySpreadConstraints").first().and_then(|spread| Selector::of(&spread["labelSelector"]));
    let alike = |other: &&Value| selector.as_ref().is_none_or(|selector| selector.matches(other));
    others.iter().map(|other| &**other).filter(alike).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, mk_node, mk_set, mk_store};
    use super::*;
    use crate::store::DeleteOptions;

    fn on(store: &Store, pod: &str) -> String {
        text(store.get(&Key::new("pods", "n", pod)).unwrap(), "/spec/nodeName").to_owned()
    }

    #[test]
    fn members_are_spread_over_zones_first() {
        let mut store = mk_store();
        mk_node(&mut store, "node0", "a");
        create(&mut store, "statefulsets.apps", mk_set(3));
        let mut zones: Vec<String> = (0..3).map(|pod| on(&store, &format!("s-{pod}"))).collect();
        zones.sort();
        assert_eq!(zones, ["node0", "node2", "node3"]);
    }

    #[test]
    fn a_pod_goes_where_its_volume_is_or_waits() {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(1));
        let (pod, node) = (Key::new("pods", "n", "s-0"), on(&store, "s-0"));
        let cordon = json!({"spec": {"unschedulable": true}});
        store.merge(&Key::new("nodes", "", &node), &cordon, Manner::by("t")).unwrap();
        let uid = text(store.get(&pod).unwrap(), "/metadata/uid").to_owned();
        store.delete(&pod, &DeleteOptions::force(&uid)).unwrap();
        super::super::run(&mut store);
        let waiting = store.get(&pod).unwrap();
        assert_eq!((text(waiting, "/spec/nodeName"), text(waiting, "/status/conditions/0/reason")), ("", "Unschedulable"));
        let open = json!({"spec": {"unschedulable": null}});
        store.merge(&Key::new("nodes", "", &node), &open, Manner::by("t")).unwrap();
        super::super::run(&mut store);
        assert_eq!(on(&store, "s-0"), node);
    }

    #[test]
    fn fitness_by_table() {
        let node = json!({"metadata": {"name": "a", "labels": {"disk": "fast"}}, "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let tolerates = json!([{"key": "k", "operator": "Exists"}]);
        for (name, spec, expected) in [
            ("a taint", json!({}), false),
            ("tolerated", json!({"tolerations": tolerates}), true),
            ("tolerated by value", json!({"tolerations": [{"key": "k", "value": "v"}]}), true),
            ("another value", json!({"tolerations": [{"key": "k", "value": "w"}]}), false),
            ("a label that it has", json!({"tolerations": tolerates, "nodeSelector": {"disk": "fast"}}), true),
            ("a label that it lacks", json!({"tolerations": tolerates, "nodeSelector": {"disk": "slow"}}), false),
        ] {
            assert_eq!(is_fit(&json!({"spec": spec}), &node), expected, "{name}");
        }
    }
}
