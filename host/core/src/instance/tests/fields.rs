//! Each field of a topology object's spec has a reader: another value changes what is rendered, what servers are told, how they
//! are logged in to, what goes with the instance, or what the built-in policy decides. What nothing reads is refused where people
//! write it.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};
use vko_api::crd::{crds, spec_fields};
use vko_api::{Images, translate};
use vko_wit::common::{Address, Architecture, Pair};
use vko_wit::observation::{Observed, Upstream};
use vko_wit::planning::{Plan, PolicyError, StartMode};

use super::super::ending::claims_go;
use super::super::gather::mounted;
use crate::accounts::Accounts;
use crate::guard::testing::Scene;
use crate::object::{Kind, Object};
use crate::observe::{architecture, referenced};
use crate::render::{Inputs, Live, Texts, Topology, TopologyKind, render};
use crate::testing::{FakeWorld, mk_settings};

/// A spec, a field of it, another value.
struct Case {
    kind: TopologyKind,
    base: fn() -> Value,
    field: &'static str,
    value: Value,
}

fn data() -> Value {
    json!({
        "image": "valkey/valkey:9.1.1",
        "version": "9.1",
        "replicas": 3,
        "resources": {"limits": {"memory": "256Mi"}},
        "storage": {"capacity": "1Gi", "accessMode": "ReadWriteOnce"},
        "access": {"serviceType": "ClusterIP", "ipFamilyPrefer": "IPv4", "openDefaultUser": false},
    })
}

fn watched() -> Value {
    let mut spec = data();
    let judged = json!({"down-after-milliseconds": "5000", "failover-timeout": "60000", "parallel-syncs": "1"});
    spec["sentinel"] = json!({"replicas": 3, "quorum": 2, "monitorConfig": judged});
    spec
}

fn nodes(first: &str, port: u16) -> Value {
    json!([{"ip": first, "port": port}, {"ip": "10.1.0.2", "port": 26379}, {"ip": "10.1.0.3", "port": 26379}])
}

fn referring() -> Value {
    let mut spec = data();
    let auth = json!({"username": "ops", "passwordSecret": "one"});
    spec["sentinel"] = json!({"sentinelReference": {"nodes": nodes("10.1.0.1", 26379), "auth": auth}});
    spec
}

fn sharded() -> Value {
    let mut spec = data();
    spec["replicas"] = json!({"shards": 3, "replicasOfShard": 2});
    spec["affinityPolicy"] = json!("SoftAntiAffinity");
    spec
}

fn custom() -> Value {
    let mut spec = sharded();
    spec["affinityPolicy"] = json!("CustomAffinity");
    spec
}

fn alone() -> Value {
    json!({"image": "valkey/valkey:9.1.1", "version": "9.1", "replicas": 3})
}

/// What pods are made of, of data and of Sentinels alike.
fn of_pods() -> Vec<(&'static str, Value)> {
    vec![
        ("resources", json!({"limits": {"memory": "512Mi"}})),
        ("tolerations", json!([{"operator": "Exists"}])),
        ("nodeSelector", json!({"disk": "fast"})),
        ("securityContext", json!({"fsGroup": 7})),
        ("access.ipFamilyPrefer", json!("IPv6")),
    ]
}

/// Which image; of Sentinels only where they stand alone.
fn of_images() -> Vec<(&'static str, Value)> {
    vec![
        ("version", json!("7.2")),
        ("image", json!("a:1")),
        ("imagePullPolicy", json!("Always")),
        ("imagePullSecrets", json!([{"name": "pull"}])),
    ]
}

/// Of data alone.
fn of_data() -> Vec<(&'static str, Value)> {
    vec![
        ("storage.storageClassName", json!("fast")),
        ("storage.capacity", json!("2Gi")),
        ("storage.retainAfterDeleted", json!(false)),
        ("access.openDefaultUser", json!(true)),
    ]
}

/// Of pods whose affinity is given as it is.
fn of_plain_pods() -> Vec<(&'static str, Value)> {
    vec![("podAnnotations", json!({"a": "b"})), ("affinity", json!({"nodeAffinity": {}}))]
}

/// Not served yet, and so refused, of Sentinels.
fn unserved() -> Vec<(&'static str, Value)> {
    vec![
        ("access.serviceType", json!("NodePort")),
        ("access.annotations", json!({"a": "b"})),
        ("access.ports", json!("1:1")),
        ("access.enableTLS", json!(true)),
        ("access.certIssuer", json!("x")),
        ("access.certIssuerType", json!("Issuer")),
        ("access.externalTLSSecret", json!("x")),
        ("customConfigs", json!({"a": "b"})),
        ("exporter", json!({"image": "x"})),
    ]
}

fn rows(kind: TopologyKind, base: fn() -> Value, fields: Vec<(&'static str, Value)>) -> Vec<Case> {
    fields.into_iter().map(|(field, value)| Case { kind, base, field, value }).collect()
}

/// The same of Sentinels beside a data set.
fn below(fields: Vec<(&'static str, Value)>) -> Vec<Case> {
    let named = fields.into_iter().map(|(field, value)| (&*format!("sentinel.{field}").leak(), value));
    rows(TopologyKind::Failover, watched, named.collect())
}

fn read() -> Vec<Case> {
    use TopologyKind::{Cluster, Failover, Sentinel};
    let slots = json!([{"slots": "0-1"}, {"slots": "2-3"}, {"slots": "4-16383"}]);
    [
        rows(Failover, data, [of_images(), of_pods(), of_plain_pods(), of_data(), vec![("replicas", json!(5))]].concat()),
        below([of_pods(), of_plain_pods()].concat()),
        below(vec![
            ("access.defaultPasswordSecret", json!("one")),
            ("replicas", json!(5)),
            ("quorum", json!(1)),
            ("monitorConfig", json!({"parallel-syncs": "2"})),
        ]),
        rows(
            Failover,
            referring,
            vec![
                ("sentinel.sentinelReference.nodes.ip", nodes("10.1.0.9", 26379)),
                ("sentinel.sentinelReference.nodes.port", nodes("10.1.0.1", 5000)),
                ("sentinel.sentinelReference.auth.username", json!("other")),
                ("sentinel.sentinelReference.auth.passwordSecret", json!("two")),
            ],
        ),
        rows(Cluster, sharded, [of_images(), of_pods(), of_data()].concat()),
        rows(Cluster, custom, vec![("CustomAffinity", json!({"nodeAffinity": {}}))]),
        rows(
            Cluster,
            sharded,
            vec![
                ("annotations", json!({"a": "b"})),
                ("affinityPolicy", json!("AntiAffinity")),
                ("replicas.shards", json!(5)),
                ("replicas.replicasOfShard", json!(3)),
                ("replicas.shardsConfig.slots", slots),
            ],
        ),
        rows(Sentinel, alone, [of_images(), of_pods(), of_plain_pods()].concat()),
        rows(Sentinel, alone, vec![("access.defaultPasswordSecret", json!("one")), ("replicas", json!(5))]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn refused() -> Vec<Case> {
    use TopologyKind::{Cluster, Failover, Sentinel};
    let constant = || vec![("access.serviceType", json!("NodePort")), ("storage.accessMode", json!("ReadWriteMany"))];
    let reference = vec![
        ("sentinel.sentinelReference.nodes.flags", json!([{"ip": "10.1.0.1", "port": 26379, "flags": "x"}])),
        ("sentinel.sentinelReference.auth.tlsSecret", json!("x")),
    ];
    [
        rows(Failover, data, constant()),
        below([of_images(), unserved()].concat()),
        rows(Failover, referring, reference),
        rows(Cluster, sharded, constant()),
        rows(Sentinel, alone, unserved()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Where a field's value stands; lists stand as a whole.
fn pointer(field: &str) -> String {
    let place = ["shardsConfig", "nodes"].into_iter().find_map(|list| Some(&field[..field.find(list)? + list.len()]));
    format!("/{}", place.unwrap_or(field).replace('.', "/"))
}

fn set(into: &mut Value, field: &str, value: Value) {
    *pointer(field).split('/').skip(1).fold(into, |at, name| &mut at[name]) = value;
}

/// Observations in which each field that decides has something to decide.
fn scenes(kind: TopologyKind, spec: &Value) -> Vec<Observed> {
    let mut scenes = match kind {
        TopologyKind::Cluster => vec![Scene::cluster(), Scene::unformed_cluster()],
        TopologyKind::Failover if spec["sentinel"].is_object() => vec![Scene::watched()],
        TopologyKind::Failover => vec![Scene::healthy(3)],
        TopologyKind::Sentinel => vec![Scene::watched()],
    };
    for Scene(observed) in &mut scenes {
        observed.instance.kind = kind.kind().name().to_owned();
        observed.instance.architecture = architecture(kind.kind(), spec);
        observed.instance.spec = spec.to_string();
        let judged = spec.pointer("/sentinel/monitorConfig").is_some();
        let elsewhere = spec.pointer("/sentinel/sentinelReference").is_some();
        for (number, sentinel) in (1..).zip(&mut observed.sentinels) {
            for monitor in sentinel.monitors.iter_mut().filter(|_| judged) {
                let told = [("down-after-milliseconds", "5000"), ("failover-timeout", "60000"), ("parallel-syncs", "1")];
                monitor.options = told.map(|(key, value)| Pair { key: key.into(), value: value.into() }).to_vec();
            }
            if elsewhere {
                sentinel.pod = Upstream::Other(Address { host: format!("10.1.0.{number}"), port: 26379 });
            }
        }
        observed.pods.retain(|pod| !(elsewhere && pod.workload == "rfs-x"));
    }
    scenes.into_iter().map(|scene| scene.0).collect()
}

fn decide(observed: &Observed) -> Result<Plan, PolicyError> {
    match observed.instance.architecture {
        Architecture::Replica => vko_replica::decide(observed),
        Architecture::Failover => vko_failover::decide_with(observed, &vko_replica::Preferences::default()),
        Architecture::Cluster => vko_cluster::decide(observed),
    }
}

/// All that comes of a spec.
async fn outcome(kind: TopologyKind, spec: &Value) -> String {
    let world = FakeWorld::default();
    for (name, password) in [("one", "MQ=="), ("two", "Mg==")] {
        let metadata = json!({"name": name, "namespace": "shop"});
        world.state().put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": password}}));
    }
    let topology = Topology {
        kind,
        namespace: "shop".into(),
        name: "x".into(),
        uid: "topology".into(),
        valkey_uid: "valkey".into(),
        spec: spec.clone(),
    };
    let accounts = Accounts::ensure(&world, &topology).await.unwrap();
    let mut all = String::new();
    for role in topology.roles() {
        let told = mounted(&topology, role, &[], &accounts).unwrap();
        let Texts { conf, users_acl } = told.texts();
        writeln!(all, "{role:?}: {conf}{users_acl}").unwrap();
    }
    let elsewhere = accounts.elsewhere().unwrap().map(|login| (login.user, login.password.acl_hash()));
    let targets: Vec<_> = referenced(spec).into_iter().map(|one| (one.ip, one.port)).collect();
    writeln!(all, "{elsewhere:?} at {targets:?}").unwrap();
    writeln!(all, "claims go: {}", claims_go(None, &Object::new(json!({"kind": Kind::Failover.name(), "spec": spec})))).unwrap();
    for observed in scenes(kind, spec) {
        let plan = decide(&observed).unwrap();
        let none = Texts { conf: "", users_acl: "" };
        let inputs = Inputs { data: none, sentinels: none, start: StartMode::Named, ending: false };
        let live = Live { stateful_set: &|_| None, roll_out: false };
        let objects = render(&topology, &plan.desired, &inputs, &mk_settings(), live).unwrap();
        writeln!(all, "{:?} {objects:?}", plan.tracks).unwrap();
    }
    all
}

#[tokio::test]
async fn every_field_of_a_topology_object_changes_something_or_is_refused() {
    let (read, refused) = (read(), refused());
    for kind in [TopologyKind::Cluster, TopologyKind::Failover, TopologyKind::Sentinel] {
        let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind.kind().name()).unwrap();
        let fields: Vec<&str> = read.iter().chain(&refused).filter(|case| case.kind == kind).map(|case| case.field).collect();
        let distinct: BTreeSet<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        assert_eq!(distinct, spec_fields(&crd), "{kind:?}: a field without a case, or a case without a field");
        assert_eq!(distinct.len(), fields.len(), "{kind:?}: a field that is read and refused");
    }
    for Case { kind, base, field, value } in read {
        let (before, mut after) = (base(), base());
        set(&mut after, field, value);
        assert!(outcome(kind, &before).await != outcome(kind, &after).await, "{kind:?} {field}: nothing reads it");
    }
}

/// Where the Valkey's field has the name of the topology object's, as all have that are refused.
#[test]
fn what_nothing_reads_is_refused_where_people_write_it() {
    let images = Images { lines: [("9.1".to_owned(), "valkey/valkey:9.1.1".to_owned())].into(), ..Images::default() };
    for Case { kind, base, field, value } in refused() {
        let write = |changed: bool| {
            let mut spec = base();
            if changed {
                set(&mut spec, field, value.clone());
            }
            if kind == TopologyKind::Sentinel {
                let object = json!({"metadata": {"name": "x", "namespace": "shop"}, "spec": spec});
                let read = translate::read_sentinel(&object);
                return read.and_then(|sentinel| translate::resolve_sentinel(&sentinel, &images)).map(|_| ());
            }
            spec.as_object_mut().unwrap().remove("image");
            spec["arch"] = json!(match kind {
                TopologyKind::Cluster => "cluster",
                _ if spec["sentinel"].is_object() => "failover",
                _ => "replica",
            });
            if kind == TopologyKind::Failover {
                spec["replicas"] = json!({"replicasOfShard": 3});
            }
            let read = translate::read(&json!({"metadata": {"name": "x", "namespace": "shop"}, "spec": spec}));
            read.and_then(|valkey| translate::translate(&valkey, &images)).map(|_| ())
        };
        assert_eq!(write(false), Ok(()), "{kind:?} {field}: refused for something else");
        let error = write(true).expect_err(field).to_string();
        assert!(error.contains(field.rsplit('.').next().unwrap()), "{kind:?} {field}: {error}");
    }
}
