//! Builders for the tests of this module.

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::{Budget, Desired, Purpose, Service, ServiceKind, StartMode, Workload};

use super::{Inputs, Live, Topology, render};
use crate::settings::Settings;

/// An instance `demo` with claims, on IPv4.
pub(super) fn mk_topology() -> Topology {
    Topology {
        namespace: "shop".into(),
        name: "demo".into(),
        uid: "11111111-0000-0000-0000-000000000001".into(),
        valkey_uid: "22222222-0000-0000-0000-000000000002".into(),
        spec: json!({
            "image": "valkey/valkey:9.1",
            "imagePullPolicy": "IfNotPresent",
            "imagePullSecrets": [{ "name": "pull" }],
            "version": "9.1",
            "replicas": 3,
            "resources": { "requests": { "cpu": "100m", "memory": "1Gi" }, "limits": { "cpu": "1", "memory": "1Gi" } },
            "storage": { "storageClassName": "local", "capacity": "2Gi", "retainAfterDeleted": false },
            "access": { "ipFamilyPrefer": "IPv4", "openDefaultUser": false },
        }),
    }
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
    Inputs { conf: "appendonly yes\n", users_acl: "user probe off\n", start: StartMode::Named, ending: false }
}

/// Everything that a policy wants of an instance.
pub(crate) fn desired(instance: &str, members: u32) -> Vec<Desired> {
    let workload = names::data_workload(instance);
    let service = |name: String, kind| Desired::Service(Service { name, kind, workload: workload.clone() });
    vec![
        Desired::Workload(Workload {
            name: workload.clone(),
            purpose: Purpose::Data,
            shard: 0,
            members,
            start: StartMode::Named,
            settings: vec![],
            labels: vec![],
        }),
        service(workload.clone(), ServiceKind::Governing),
        service(names::writer_service(instance), ServiceKind::Writer),
        service(names::reader_service(instance), ServiceKind::Readers),
        Desired::Budget(Budget { workload: workload.clone(), max_unavailable: 1 }),
    ]
}

/// All objects of an instance.
pub(super) fn render_all(topology: &Topology, members: u32) -> Vec<Value> {
    render(topology, &desired(&topology.name, members), &mk_inputs(), &mk_settings(), Live::default()).unwrap()
}

/// One of them.
pub(super) fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name).unwrap()
}

/// The StatefulSet of an instance.
pub(super) fn stateful_set_of(topology: &Topology, members: u32) -> Value {
    named(&render_all(topology, members), "StatefulSet", &names::data_workload(&topology.name)).clone()
}

/// The pod template of an instance.
pub(super) fn template_of(topology: &Topology, members: u32) -> Value {
    stateful_set_of(topology, members)["spec"]["template"].clone()
}
