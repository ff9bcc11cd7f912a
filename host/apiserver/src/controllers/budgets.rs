//! Disruption budgets: how many of the pods that they cover may go.

use serde_json::{Value, json};

use crate::json::{controller, deleting, holds, text};
use crate::resource::Key;
use crate::selector::Selector;
use crate::store::{Manner, Store};

pub(super) fn run(store: &mut Store) {
    let budgets: Vec<(Key, _)> =
        store.list("poddisruptionbudgets.policy", None).map(|(key, budget)| (key.clone(), budget.clone())).collect();
    for (key, budget) in budgets {
        let pods = match Selector::of(&budget["spec"]["selector"]) {
            Some(selector) => store.select("pods", &key.namespace, &selector),
            None => Vec::new(),
        };
        let expected = expected(store, &key.namespace, pods.iter().map(|pod| controller(pod)), pods.len());
        let going = budget.pointer("/status/disruptedPods").cloned().unwrap_or_default();
        let healthy = |pod: &&std::sync::Arc<Value>| {
            holds(pod, "Ready") && !deleting(pod) && going.get(text(pod, "/metadata/name")).is_none()
        };
        let healthy = pods.iter().filter(healthy).count();
        let desired = desired(&budget["spec"], expected);
        let allowed = if expected == 0 { 0 } else { healthy.saturating_sub(desired) };
        let _ = store.change(&key, Manner::status_by("kube-controller-manager"), |budget| {
            // A pod that was evicted is forgotten once it is seen to go.
            let still = |name: &String| pods.iter().any(|pod| text(pod, "/metadata/name") == name && !deleting(pod));
            let going = going.as_object().cloned().unwrap_or_default();
            let going: serde_json::Map<String, Value> = going.into_iter().filter(|(name, _)| still(name)).collect();
            budget["status"] = json!({
                "observedGeneration": budget["metadata"]["generation"], "expectedPods": expected, "desiredHealthy": desired,
                "currentHealthy": healthy, "disruptionsAllowed": allowed,
            });
            if !going.is_empty() {
                budget["status"]["disruptedPods"] = Value::Object(going);
            }
        });
    }
}

/// How many pods there should be, by the scale of those who made them.
fn expected<'a>(store: &Store, namespace: &str, controllers: impl Iterator<Item = &'a str>, found: usize) -> usize {
    let mut owners: Vec<&str> = controllers.collect();
    owners.sort_unstable();
    owners.dedup();
    let scale = |uid: &str| {
        let sets = store.list("statefulsets.apps", Some(namespace));
        let set = sets.into_iter().find(|(_, set)| text(set, "/metadata/uid") == uid)?;
        set.1.pointer("/spec/replicas").and_then(Value::as_u64).and_then(|replicas| usize::try_from(replicas).ok())
    };
    let scales: Option<Vec<usize>> = owners.into_iter().map(scale).collect();
    scales.filter(|scales| !scales.is_empty()).map_or(found, |scales| scales.into_iter().sum())
}

fn desired(spec: &Value, expected: usize) -> usize {
    let number = |name: &str, round_up: bool| match spec.get(name)? {
        Value::String(text) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            let product = percent * expected;
            Some(if round_up { product.div_ceil(100) } else { product / 100 })
        }
        other => other.as_u64().and_then(|number| usize::try_from(number).ok()),
    };
    match (number("minAvailable", true), number("maxUnavailable", true)) {
        (Some(least), _) => least,
        (None, Some(most)) => expected.saturating_sub(most),
        (None, None) => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, make_ready, mk_set, mk_store};
    use super::*;
    use crate::store::DeleteOptions;

    fn allowed(store: &Store) -> Value {
        store.get(&Key::new("poddisruptionbudgets.policy", "n", "b")).unwrap()["status"]["disruptionsAllowed"].clone()
    }

    fn store(budget: Value) -> Store {
        let mut store = mk_store();
        create(&mut store, "statefulsets.apps", mk_set(3));
        let mut spec = budget;
        spec["selector"] = json!({"matchLabels": {"x": "y"}});
        let metadata = json!({"name": "b", "namespace": "n"});
        create(
            &mut store,
            "poddisruptionbudgets.policy",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}),
        );
        store
    }

    #[test]
    fn budgets_by_table() {
        for (spec, by_ready_pods) in [
            (json!({"maxUnavailable": 1}), [0, 0, 0, 1]),
            (json!({"minAvailable": 1}), [0, 0, 1, 2]),
            (json!({"maxUnavailable": 0}), [0, 0, 0, 0]),
            (json!({"maxUnavailable": "50%"}), [0, 0, 1, 2]),
        ] {
            let mut store = store(spec.clone());
            for (ready, expected) in by_ready_pods.into_iter().enumerate() {
                if ready > 0 {
                    make_ready(&mut store, &format!("s-{}", ready - 1), "127.0.1.1");
                }
                assert_eq!(allowed(&store), expected, "{spec} with {ready} ready");
            }
        }
    }

    #[test]
    fn an_eviction_is_counted_until_the_pod_is_back() {
        let mut store = store(json!({"maxUnavailable": 1}));
        for pod in ["s-0", "s-1", "s-2"] {
            make_ready(&mut store, pod, "127.0.1.1");
        }
        store.evict("n", "s-1", &DeleteOptions::default()).unwrap();
        super::super::run(&mut store);
        assert_eq!(allowed(&store), 0);
        assert_eq!(store.evict("n", "s-0", &DeleteOptions::default()).unwrap_err().code, 429);
        let pod = Key::new("pods", "n", "s-1");
        let uid = text(store.get(&pod).unwrap(), "/metadata/uid").to_owned();
        store.delete(&pod, &DeleteOptions::force(&uid)).unwrap();
        super::super::run(&mut store);
        assert_eq!(allowed(&store), 0, "its successor isn't ready yet");
        make_ready(&mut store, "s-1", "127.0.1.2");
        assert_eq!(allowed(&store), 1);
    }
}
