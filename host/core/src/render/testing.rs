//! Builders for the tests of this module.

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::{Budget, Desired, Purpose, Service, ServiceKind, StartMode, Workload};

use super::{Inputs, Live, Part, Texts, Topology, TopologyKind, render};
use crate::settings::Settings;

fn mk(kind: TopologyKind, spec: Value) -> Topology {
    Topology {
        kind,
        namespace: "shop".into(),
        name: "demo".into(),
        uid: "11111111-0000-0000-0000-000000000001".into(),
        valkey_uid: "22222222-0000-0000-0000-000000000002".into(),
        spec,
    }
}

/// A spec with claims, on IPv4, and what is beyond it.
fn spec(beyond: &Value) -> Value {
    let mut spec = json!({
        "image": "valkey/valkey:9.1",
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": [{ "name": "pull" }],
        "version": "9.1",
        "resources": { "requests": { "cpu": "100m", "memory": "1Gi" }, "limits": { "cpu": "1", "memory": "1Gi" } },
        "storage": { "storageClassName": "local", "capacity": "2Gi", "retainAfterDeleted": false },
        "access": { "ipFamilyPrefer": "IPv4", "openDefaultUser": false },
    });
    for (key, value) in beyond.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

/// An instance `demo` of the replica architecture.
pub(super) fn mk_topology() -> Topology {
    mk(TopologyKind::Failover, spec(&json!({ "replicas": 3 })))
}

fn sentinels() -> Value {
    json!({
        "replicas": 3,
        "resources": { "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "memory": "128Mi" } },
        "access": { "serviceType": "ClusterIP", "ipFamilyPrefer": "IPv4" },
        "quorum": 2,
    })
}

/// With Sentinels of its own.
pub(super) fn mk_failover() -> Topology {
    mk(TopologyKind::Failover, spec(&json!({ "replicas": 3, "sentinel": sentinels() })))
}

/// With Sentinels that exist elsewhere.
pub(super) fn mk_referring() -> Topology {
    let node = |ip: &str, port: u16| json!({ "ip": ip, "port": port });
    let nodes = [node("10.0.0.1", 26379), node("10.0.0.2", 26380), node("fd00::3", 26379)];
    mk(TopologyKind::Failover, spec(&json!({ "replicas": 3, "sentinel": { "sentinelReference": { "nodes": nodes } } })))
}

/// Three shards.
pub(super) fn mk_cluster() -> Topology {
    let replicas = json!({ "shards": 3, "replicasOfShard": 3 });
    mk(TopologyKind::Cluster, spec(&json!({ "replicas": replicas, "affinityPolicy": "SoftAntiAffinity" })))
}

/// Sentinels that stand alone.
pub(super) fn mk_sentinel() -> Topology {
    let mut spec = sentinels();
    for (key, value) in [("image", "valkey/valkey:9.1"), ("imagePullPolicy", "IfNotPresent"), ("version", "9.1")] {
        spec[key] = json!(value);
    }
    mk(TopologyKind::Sentinel, spec)
}

/// Every part of every kind of instance.
pub(super) fn every_part() -> Vec<(Topology, Part)> {
    vec![
        (mk_topology(), Part::Data),
        (mk_failover(), Part::Data),
        (mk_failover(), Part::Sentinels),
        (mk_referring(), Part::Data),
        (mk_sentinel(), Part::Sentinels),
        (mk_cluster(), Part::Shard(0)),
        (mk_cluster(), Part::Shard(2)),
    ]
}

/// An operator of version 0.1.0.
pub(super) fn mk_settings() -> Settings {
    Settings {
        operator_version: "0.1.0".into(),
        agent_image: "example.org/valkey-operator:0.1.0".into(),
        cluster_domain: "cluster.local".into(),
        operator_namespace: "valkey-system".into(),
        identity: "valkey-operator-0".into(),
        probe_interval: crate::probe::QUIET,
    }
}

/// Texts that stand for what is rendered elsewhere.
pub(super) fn mk_inputs() -> Inputs<'static> {
    Inputs {
        data: Texts { conf: "appendonly yes\n", users_acl: "user probe off\n" },
        sentinels: Texts { conf: "sentinel resolve-hostnames no\n", users_acl: "user sentinel off\n" },
        start: StartMode::Named,
        ending: false,
    }
}

/// Nothing is there yet.
pub(super) fn nothing_live() -> Live<'static> {
    Live { stateful_set: &|_| None, roll_out: false }
}

/// A workload as a policy wants it.
pub(super) fn mk_workload(part: Part, instance: &str, members: u32) -> Workload {
    let (purpose, shard) = match part {
        Part::Data => (Purpose::Data, 0),
        Part::Shard(shard) => (Purpose::Data, shard),
        Part::Sentinels => (Purpose::Sentinel, 0),
    };
    let name = part.workload(instance);
    Workload { name, purpose, shard, members, start: StartMode::Named, settings: vec![], labels: vec![] }
}

/// The workload of a part, its governing Service and its budget.
fn part(part: Part, instance: &str, members: u32) -> [Desired; 3] {
    let workload = part.workload(instance);
    [
        Desired::Workload(mk_workload(part, instance, members)),
        Desired::Service(Service { name: part.governing(instance), kind: ServiceKind::Governing, workload: workload.clone() }),
        Desired::Budget(Budget { workload, max_unavailable: 1 }),
    ]
}

/// Everything that a policy wants of an instance of the replica architecture.
pub(crate) fn desired(instance: &str, members: u32) -> Vec<Desired> {
    let workload = names::data_workload(instance);
    let service = |name: String, kind| Desired::Service(Service { name, kind, workload: workload.clone() });
    let [workload, governing, budget] = part(Part::Data, instance, members);
    let writer = service(names::writer_service(instance), ServiceKind::Writer);
    vec![workload, governing, writer, service(names::reader_service(instance), ServiceKind::Readers), budget]
}

/// Everything that a policy wants of an instance, whatever it is.
pub(super) fn desired_of(topology: &Topology, members: u32) -> Vec<Desired> {
    let instance = &topology.name;
    let mut all = match topology.kind {
        TopologyKind::Cluster => (0..3).flat_map(|shard| part(Part::Shard(shard), instance, members)).collect(),
        TopologyKind::Failover => desired(instance, members),
        TopologyKind::Sentinel => vec![],
    };
    if topology.kind == TopologyKind::Cluster {
        let name = names::instance_service(instance);
        all.push(Desired::Service(Service { name, kind: ServiceKind::Instance, workload: String::new() }));
    }
    if topology.own_sentinels().is_some() {
        all.extend(part(Part::Sentinels, instance, 3));
    }
    all
}

/// All objects of an instance.
pub(super) fn render_all(topology: &Topology, members: u32) -> Vec<Value> {
    render(topology, &desired_of(topology, members), &mk_inputs(), &mk_settings(), nothing_live()).unwrap()
}

/// One of them.
pub(super) fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name).unwrap()
}

/// The StatefulSet of a part.
pub(super) fn stateful_set_with_members(topology: &Topology, part: Part, members: u32) -> Value {
    let desired = [Desired::Workload(mk_workload(part, &topology.name, members))];
    let objects = render(topology, &desired, &mk_inputs(), &mk_settings(), nothing_live()).unwrap();
    named(&objects, "StatefulSet", &part.workload(&topology.name)).clone()
}

/// The StatefulSet of a part of three.
pub(super) fn stateful_set_of(topology: &Topology, part: Part) -> Value {
    stateful_set_with_members(topology, part, 3)
}

/// The pod template of a part.
pub(super) fn template_with_members(topology: &Topology, part: Part, members: u32) -> Value {
    stateful_set_with_members(topology, part, members)["spec"]["template"].clone()
}

/// The pod template of a part of three.
pub(super) fn template_of(topology: &Topology, part: Part) -> Value {
    template_with_members(topology, part, 3)
}
