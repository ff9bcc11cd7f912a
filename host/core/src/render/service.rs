//! Services and the disruption budgets.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::{Budget, Service, ServiceKind};

use super::metadata::{object, pod_selector, selector};
use super::{Part, RenderError, Topology, TopologyKind, expect_name, is_ipv6};
use crate::object::Kind;

/// What a Service is, apart from its name.
struct Shape {
    name: String,
    part: Option<Part>,
    selected: BTreeMap<String, String>,
    publish_not_ready: bool,
    headless: bool,
}

/// Renders a Service.
///
/// - governing: headless, gives pods their names; publishes pods that aren't ready, because servers must find each other
///   before they are.
/// - writer: the pod that carries the primary's label, ready or not: the label alone decides, so that a slow probe of the only
///   primary doesn't take writes away.
/// - readers: pods that carry the reader's label and are ready.
/// - instance: ready members of all shards; a client learns from any of them where the slots are.
///
/// # Errors
/// A Service that this instance doesn't have.
pub(super) fn service(topology: &Topology, wanted: &Service) -> Result<Value, RenderError> {
    let shape = shape(topology, wanted)?;
    expect_name("Service", &wanted.name, shape.name)?;
    let mut service = object(topology, shape.part, Kind::Service, &wanted.name);
    service["spec"] = json!({
        "type": "ClusterIP",
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": [if is_ipv6(topology, shape.part) { "IPv6" } else { "IPv4" }],
        "publishNotReadyAddresses": shape.publish_not_ready,
        "selector": shape.selected,
        "ports": ports(shape.part, shape.headless),
    });
    if shape.headless {
        service["spec"]["clusterIP"] = json!("None");
    }
    Ok(service)
}

fn shape(topology: &Topology, wanted: &Service) -> Result<Shape, RenderError> {
    let instance = &topology.name;
    let part = Part::named(topology, &wanted.workload);
    let labelled = |name: String, key: &str, value: &str, publish_not_ready| {
        let part = part.filter(|part| *part == Part::Data).ok_or_else(|| no_workload("Service", topology, &wanted.workload))?;
        let mut selected = selector(part, instance);
        selected.insert(key.to_owned(), value.to_owned());
        Ok(Shape { name, part: Some(part), selected, publish_not_ready, headless: false })
    };
    match wanted.kind {
        ServiceKind::Governing => {
            let part = part.ok_or_else(|| no_workload("Service", topology, &wanted.workload))?;
            let (name, selected) = (part.governing(instance), selector(part, instance));
            Ok(Shape { name, part: Some(part), selected, publish_not_ready: true, headless: true })
        }
        ServiceKind::Writer => labelled(names::writer_service(instance), names::ROLE, names::ROLE_PRIMARY, true),
        ServiceKind::Readers => labelled(names::reader_service(instance), names::READER, "true", false),
        ServiceKind::Instance if topology.kind == TopologyKind::Cluster => {
            expect_name("workload behind a Service of the whole instance", &wanted.workload, String::new())?;
            let (name, selected) = (names::instance_service(instance), pod_selector(topology.kind, instance));
            Ok(Shape { name, part: None, selected, publish_not_ready: false, headless: false })
        }
        ServiceKind::Instance => Err(topology.unsupported("a Service of the whole instance")),
        ServiceKind::Pod(ordinal) => Err(topology.unsupported(format!("a Service of pod {ordinal}"))),
        ServiceKind::Metrics => Err(topology.unsupported("a Service of metrics")),
    }
}

/// A cluster's ports have names of their own, which people's monitors select by; `part` is absent for all shards together.
fn ports(part: Option<Part>, headless: bool) -> Value {
    let port =
        |name: &str, port: u16, target: &str| json!({ "name": name, "port": port, "targetPort": target, "protocol": "TCP" });
    match part {
        Some(Part::Data) => json!([port("server", names::PORT, "server")]),
        Some(Part::Sentinels) => json!([port("sentinel", names::SENTINEL_PORT, "sentinel")]),
        Some(Part::Shard(_)) | None if headless => {
            json!([port("client", names::PORT, "server"), port("gossip", names::CLUSTER_PORT, "gossip")])
        }
        Some(Part::Shard(_)) | None => json!([port("client", names::PORT, "server")]),
    }
}

/// Renders the disruption budget of a workload: one at a time, also for a sole member (a drain may take it), and pods that aren't
/// ready never block a drain.
///
/// # Errors
/// Another budget than 1, or one for a workload that this instance doesn't have.
pub(super) fn budget(topology: &Topology, wanted: &Budget) -> Result<Value, RenderError> {
    let part = Part::named(topology, &wanted.workload).ok_or_else(|| no_workload("budget", topology, &wanted.workload))?;
    if wanted.max_unavailable != 1 {
        return Err(RenderError::BudgetUnsafe { max_unavailable: wanted.max_unavailable });
    }
    let mut budget = object(topology, Some(part), Kind::PodDisruptionBudget, &wanted.workload);
    budget["spec"] = json!({
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": { "matchLabels": selector(part, &topology.name) },
    });
    Ok(budget)
}

fn no_workload(kind: &'static str, topology: &Topology, workload: &str) -> RenderError {
    RenderError::DesiredNameUnknown { kind, name: workload.to_owned(), expected: format!("of {}", Part::list(topology)) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_cluster, mk_failover, mk_sentinel, mk_topology, named, render_all};
    use super::*;

    /// Instance, Service, what it selects beyond the instance's labels, ports, whether it publishes pods that aren't ready,
    /// whether it is headless.
    type Case = (Topology, &'static str, Value, Value, bool, bool);

    fn cases() -> Vec<Case> {
        let server = json!({ "server": 6379 });
        let sentinel = json!({ "sentinel": 26379 });
        let bus = json!({ "client": 6379, "gossip": 16379 });
        let failover = json!({ "buf.red/type": "failover" });
        let sentinels = json!({ "buf.red/type": "sentinel" });
        let writer = json!({ "buf.red/type": "failover", names::ROLE: "master" });
        let reader = json!({ "buf.red/type": "failover", names::READER: "true" });
        vec![
            (mk_topology(), "rfr-demo", failover.clone(), server.clone(), true, true),
            (mk_topology(), "rfr-demo-readwrite", writer.clone(), server.clone(), true, false),
            (mk_topology(), "rfr-demo-readonly", reader.clone(), server.clone(), false, false),
            (mk_failover(), "rfr-demo", failover, server.clone(), true, true),
            (mk_failover(), "rfr-demo-readwrite", writer, server.clone(), true, false),
            (mk_failover(), "rfr-demo-readonly", reader, server, false, false),
            (mk_failover(), "rfs-demo", sentinels.clone(), sentinel.clone(), true, true),
            (mk_sentinel(), "rfs-demo", sentinels, sentinel, true, true),
            (
                mk_cluster(),
                "demo-1",
                json!({ "buf.red/type": "cluster", names::COMPONENT: "cluster", "statefulset": "drc-demo-1" }),
                bus,
                true,
                true,
            ),
            (
                mk_cluster(),
                "demo",
                json!({ "buf.red/type": "cluster", names::COMPONENT: "cluster" }),
                json!({ "client": 6379 }),
                false,
                false,
            ),
        ]
    }

    #[test]
    fn each_service_selects_its_pods() {
        for (topology, name, selects, ports, publishes_not_ready, headless) in cases() {
            let objects = render_all(&topology, 3);
            let spec = &named(&objects, "Service", name)["spec"];
            let mut expected = json!({
                names::MANAGED_BY: "valkey-operator", names::COMPONENT: "failover", names::APP_NAME: "valkey", names::INSTANCE: "demo",
            });
            for (key, value) in selects.as_object().unwrap() {
                expected[key] = value.clone();
            }
            assert_eq!(spec["selector"], expected, "{name}");
            assert_eq!(spec["publishNotReadyAddresses"], publishes_not_ready, "{name}");
            assert_eq!(spec["clusterIP"] == "None", headless, "{name}");
            let found: serde_json::Map<_, _> = spec["ports"]
                .as_array()
                .unwrap()
                .iter()
                .map(|port| (port["name"].as_str().unwrap().to_owned(), port["port"].clone()))
                .collect();
            assert_eq!(Value::Object(found), ports, "{name}");
        }
    }

    #[test]
    fn every_service_reaches_a_port_that_its_pods_have() {
        for (topology, name, ..) in cases() {
            let objects = render_all(&topology, 3);
            let service = &named(&objects, "Service", name)["spec"];
            let selector = service["selector"].as_object().unwrap();
            let selected = |set: &&Value| {
                let labels = &set["spec"]["template"]["metadata"]["labels"];
                // The labels of roles are on pods, never in a template.
                let routed = |key: &str| key == names::ROLE || key == names::READER;
                selector.iter().all(|(key, value)| routed(key) || labels[key] == *value)
            };
            let sets: Vec<_> = objects.iter().filter(|object| object["kind"] == "StatefulSet").filter(selected).collect();
            assert_eq!(sets.len(), if name == "demo" { 3 } else { 1 }, "{name}");
            for set in sets {
                let container = &set["spec"]["template"]["spec"]["containers"][0]["ports"];
                for port in service["ports"].as_array().unwrap() {
                    let target = container.as_array().unwrap().iter().find(|p| p["name"] == port["targetPort"]).unwrap();
                    assert_eq!(target["containerPort"], port["port"], "{name}");
                }
            }
        }
    }

    #[test]
    fn services_are_of_one_family() {
        for topology in [mk_topology(), mk_failover(), mk_sentinel(), mk_cluster()] {
            for (wanted, family) in [(json!(null), "IPv4"), (json!("IPv4"), "IPv4"), (json!("IPv6"), "IPv6")] {
                let mut topology = topology.clone();
                topology.spec["access"] = json!({ "ipFamilyPrefer": wanted });
                if topology.spec["sentinel"].is_object() {
                    topology.spec["sentinel"]["access"] = json!({ "ipFamilyPrefer": wanted });
                }
                for object in render_all(&topology, 3).iter().filter(|object| object["kind"] == "Service") {
                    assert_eq!(object["spec"]["ipFamilies"], json!([family]));
                    assert_eq!(object["spec"]["ipFamilyPolicy"], "SingleStack");
                }
            }
        }
    }

    #[test]
    fn a_budget_lets_one_go_of_each_workload_and_broken_pods_at_any_time() {
        for (topology, workloads) in [
            (mk_topology(), vec!["rfr-demo"]),
            (mk_failover(), vec!["rfr-demo", "rfs-demo"]),
            (mk_sentinel(), vec!["rfs-demo"]),
            (mk_cluster(), vec!["drc-demo-0", "drc-demo-1", "drc-demo-2"]),
        ] {
            let objects = render_all(&topology, 3);
            for workload in &workloads {
                let spec = &named(&objects, "PodDisruptionBudget", workload)["spec"];
                assert_eq!((&spec["maxUnavailable"], &spec["unhealthyPodEvictionPolicy"]), (&json!(1), &json!("AlwaysAllow")));
                let pods = &named(&objects, "StatefulSet", workload)["spec"]["selector"];
                assert_eq!(&spec["selector"], pods, "{workload}");
            }
            assert_eq!(objects.iter().filter(|object| object["kind"] == "PodDisruptionBudget").count(), workloads.len());
        }
    }
}
