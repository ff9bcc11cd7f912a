//! Evictions, and the disruption budgets that they ask.

use serde_json::{Value, json};

use crate::json::{holds, text, time};
use crate::refusal::Refusal;
use crate::resource::Key;
use crate::selector::Selector;
use crate::store::{DeleteOptions, Manner, Store};

impl Store {
    /// Evicts a pod.
    ///
    /// # Errors
    /// It isn't there, a precondition failed, its budget says no (429), or it is in two budgets.
    pub fn evict(&mut self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<(), Refusal> {
        let key = Key::new("pods", namespace, name);
        let Some(pod) = self.get(&key).cloned() else { return Err(Refusal::not_found("pods", name)) };
        if let Some(wanted) = options.preconditions.as_ref().and_then(|wanted| wanted.uid.as_deref())
            && wanted != text(&pod, "/metadata/uid")
        {
            return Err(Refusal::conflict("pods", name, "Precondition failed: UID in precondition is another one's"));
        }
        if needs_a_budget(&pod) {
            self.take_from_budget(namespace, &pod)?;
        }
        self.delete(&key, options).map(drop)
    }

    fn take_from_budget(&mut self, namespace: &str, pod: &Value) -> Result<(), Refusal> {
        let covers = |budget: &Value| Selector::of(&budget["spec"]["selector"]).is_some_and(|selector| selector.matches(pod));
        let budgets = self.list("poddisruptionbudgets.policy", Some(namespace)).filter(|(_, budget)| covers(budget));
        let budgets: Vec<_> = budgets.map(|(key, budget)| (key.clone(), budget.clone())).collect();
        let (key, budget) = match &budgets[..] {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(Refusal::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let number = |pointer: &str| budget.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        if number("/status/observedGeneration") < number("/metadata/generation") {
            return Err(Refusal::too_many_requests(format!(
                "The disruption budget {} is still being processed by the server.",
                key.name
            )));
        }
        if !holds(pod, "Ready") && text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" {
            return Ok(());
        }
        let allowed = number("/status/disruptionsAllowed");
        if allowed <= 0 {
            let (desired, current) = (number("/status/desiredHealthy"), number("/status/currentHealthy"));
            return Err(Refusal::too_many_requests(format!(
                "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget {} needs {desired} healthy pods \
                 and has {current} currently",
                key.name
            )));
        }
        let (name, now) = (text(pod, "/metadata/name").to_owned(), time(self.now_ms));
        self.change(key, Manner::status_by("kube-apiserver"), |budget| {
            budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
            budget["status"]["disruptedPods"][&name] = json!(now);
        })
        .map(drop)
    }
}

/// A pod that has ended, or never began, disturbs nobody by going.
fn needs_a_budget(pod: &Value) -> bool {
    !["Succeeded", "Failed", "Pending"].contains(&text(pod, "/status/phase"))
        && pod.pointer("/metadata/deletionTimestamp").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers;

    fn store(budgets: &[Value], ready: bool) -> Store {
        let mut store = controllers::testing::mk_store();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}},
            "spec": {"nodeName": "node1", "containers": [{"name": "c"}]}});
        store.create("pods", pod, Manner::by("t")).unwrap();
        let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
        let status = json!({"status": {"phase": "Running", "conditions": conditions}});
        store.merge(&Key::new("pods", "n", "a"), &status, Manner::status_by("t")).unwrap();
        for (index, spec) in budgets.iter().enumerate() {
            let mut spec = spec.clone();
            spec["selector"] = json!({"matchLabels": {"x": "y"}});
            let metadata = json!({"name": format!("b{index}"), "namespace": "n"});
            let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec});
            store.create("poddisruptionbudgets.policy", budget, Manner::by("t")).unwrap();
        }
        store
    }

    #[test]
    fn evictions_by_table() {
        let (none, one) = (json!({"minAvailable": 1}), json!({"minAvailable": 0}));
        let lenient = json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
        for (name, budgets, ready, expected) in [
            ("no budget", vec![], true, 200),
            ("the budget allows it", vec![one.clone()], true, 200),
            ("the budget doesn't", vec![none.clone()], true, 429),
            ("nor for one that isn't ready", vec![none.clone()], false, 429),
            ("unless it is always allowed then", vec![lenient.clone()], false, 200),
            ("ready it is bound", vec![lenient], true, 429),
            ("two budgets", vec![none, one], true, 500),
        ] {
            let mut store = store(&budgets, ready);
            controllers::run(&mut store);
            let refused = store.evict("n", "a", &DeleteOptions::default()).err();
            assert_eq!(refused.as_ref().map_or(200, |refused| refused.code), expected, "{name}: {refused:?}");
        }
    }

    #[test]
    fn a_budget_that_was_not_looked_at_yet_allows_nothing() {
        let mut store = store(&[json!({"minAvailable": 0})], true);
        assert_eq!(store.evict("n", "a", &DeleteOptions::default()).unwrap_err().code, 429);
    }

    #[test]
    fn an_eviction_is_bound_to_the_pod_that_was_seen() {
        let mut store = store(&[], true);
        assert_eq!(store.evict("n", "a", &DeleteOptions::of("another")).unwrap_err().code, 409);
        assert_eq!(store.evict("n", "b", &DeleteOptions::default()).unwrap_err().code, 404);
    }
}
