//! Services and the disruption budget.

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::{Budget, Service, ServiceKind};

use super::metadata::{object, selector};
use super::{RenderError, Topology, expect_name, is_ipv6, unsupported};
use crate::object::Kind;

/// Renders a Service.
///
/// - governing: headless, gives pods their names; publishes pods that aren't ready, because servers must find each other
///   before they are.
/// - writer: the pod that carries the primary's label, ready or not: the label alone decides, so that a slow probe of the only
///   primary doesn't take writes away.
/// - readers: pods that carry the reader's label and are ready.
///
/// # Errors
/// A Service that this instance doesn't have.
pub(super) fn service(topology: &Topology, wanted: &Service) -> Result<Value, RenderError> {
    let instance = &topology.name;
    expect_name("workload behind a Service", &wanted.workload, names::data_workload(instance))?;
    let mut selected = selector(instance);
    let mut select = |key: &str, value: &str| selected.insert(key.to_owned(), value.to_owned());
    let (name, publish_not_ready, headless) = match wanted.kind {
        ServiceKind::Governing => (names::data_workload(instance), true, true),
        ServiceKind::Writer => {
            select(names::ROLE, names::ROLE_PRIMARY);
            (names::writer_service(instance), true, false)
        }
        ServiceKind::Readers => {
            select(names::READER, "true");
            (names::reader_service(instance), false, false)
        }
        ServiceKind::Instance => return Err(unsupported("a Service of the whole instance".to_owned())),
        ServiceKind::Pod(ordinal) => return Err(unsupported(format!("a Service of pod {ordinal}"))),
        ServiceKind::Metrics => return Err(unsupported("a Service of metrics".to_owned())),
    };
    expect_name("Service", &wanted.name, name)?;

    let mut service = object(topology, Kind::Service, &wanted.name);
    service["spec"] = json!({
        "type": "ClusterIP",
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": [if is_ipv6(&topology.spec) { "IPv6" } else { "IPv4" }],
        "publishNotReadyAddresses": publish_not_ready,
        "selector": selected,
        "ports": [{ "name": "server", "port": names::PORT, "targetPort": "server", "protocol": "TCP" }],
    });
    if headless {
        service["spec"]["clusterIP"] = json!("None");
    }
    Ok(service)
}

/// Renders the disruption budget of a data set: one at a time, also for a sole member (a drain may take it), and pods that aren't
/// ready never block a drain.
///
/// # Errors
/// Another budget than 1, or one for a workload that this instance doesn't have.
pub(super) fn budget(topology: &Topology, wanted: &Budget) -> Result<Value, RenderError> {
    expect_name("workload behind a budget", &wanted.workload, names::data_workload(&topology.name))?;
    if wanted.max_unavailable != 1 {
        return Err(RenderError::BudgetUnsafe { max_unavailable: wanted.max_unavailable });
    }
    let mut budget = object(topology, Kind::PodDisruptionBudget, &wanted.workload);
    budget["spec"] = json!({
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": { "matchLabels": selector(&topology.name) },
    });
    Ok(budget)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_topology, named, render_all};
    use super::*;

    #[test]
    fn each_service_selects_its_pods() {
        let objects = render_all(&mk_topology(), 3);
        for (name, label, publishes_not_ready, headless) in [
            ("rfr-demo", None, true, true),
            ("rfr-demo-readwrite", Some((names::ROLE, "master")), true, false),
            ("rfr-demo-readonly", Some((names::READER, "true")), false, false),
        ] {
            let spec = &named(&objects, "Service", name)["spec"];
            let mut expected = selector("demo");
            expected.extend(label.map(|(key, value)| (key.to_owned(), value.to_owned())));
            assert_eq!(spec["selector"], json!(expected), "{name}");
            assert_eq!(spec["publishNotReadyAddresses"], publishes_not_ready, "{name}");
            assert_eq!(spec["clusterIP"] == "None", headless, "{name}");
            assert_eq!(spec["ports"][0]["port"], 6379, "{name}");
        }
    }

    #[test]
    fn services_are_of_one_family() {
        for (wanted, family) in [(json!(null), "IPv4"), (json!("IPv4"), "IPv4"), (json!("IPv6"), "IPv6")] {
            let mut topology = mk_topology();
            topology.spec["access"] = json!({ "ipFamilyPrefer": wanted });
            for object in render_all(&topology, 1).iter().filter(|object| object["kind"] == "Service") {
                assert_eq!(object["spec"]["ipFamilies"], json!([family]));
                assert_eq!(object["spec"]["ipFamilyPolicy"], "SingleStack");
            }
        }
    }

    #[test]
    fn a_budget_lets_one_go_and_broken_pods_at_any_time() {
        let objects = render_all(&mk_topology(), 1);
        let spec = &named(&objects, "PodDisruptionBudget", "rfr-demo")["spec"];
        assert_eq!((&spec["maxUnavailable"], &spec["unhealthyPodEvictionPolicy"]), (&json!(1), &json!("AlwaysAllow")));
        assert_eq!(spec["selector"]["matchLabels"], json!(selector("demo")));
    }
}
