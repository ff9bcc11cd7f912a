//! Rendered objects as snapshots: what a change of the code changes in a cluster shows in review.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test --workspace --test render` writes them anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vko_core::object::Object;
use vko_core::render::{Inputs, Live, Part, Texts, Topology, TopologyKind, render};
use vko_core::settings::Settings;
use vko_wit::planning::{Budget, Desired, Purpose, Service, ServiceKind, StartMode, Workload};

/// An instance: name of the folder of its snapshots, members of each data set, kind, spec.
type Case = (&'static str, u32, TopologyKind, Value);

fn instances() -> Vec<Case> {
    [replicas(), with_sentinels(), clusters()].concat()
}

fn resources() -> Value {
    json!({ "requests": { "cpu": "100m", "memory": "256Mi" }, "limits": { "cpu": "1", "memory": "256Mi" } })
}

fn replicas() -> Vec<Case> {
    let resources = resources();
    let claim = json!({ "storageClassName": "local", "capacity": "1Gi", "retainAfterDeleted": true });
    let spread = json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "buf.red/name": "x" } } },
    }] } });
    vec![
        (
            "one-memory-ipv4",
            1,
            TopologyKind::Failover,
            json!({ "image": "valkey/valkey:9.1", "resources": resources, "storage": null }),
        ),
        (
            "one-claim-ipv6",
            1,
            TopologyKind::Failover,
            json!({ "image": "valkey/valkey:8.1", "resources": resources, "storage": { "capacity": "1Gi" },
                "access": { "ipFamilyPrefer": "IPv6" } }),
        ),
        (
            "three-claims-ipv4",
            3,
            TopologyKind::Failover,
            json!({ "image": "valkey/valkey:9.1", "imagePullPolicy": "IfNotPresent", "imagePullSecrets": [{ "name": "pull" }],
                "resources": resources, "storage": claim, "access": { "ipFamilyPrefer": "IPv4" }, "affinity": spread,
                "podAnnotations": { "example.org/scrape": "no" }, "nodeSelector": { "kubernetes.io/os": "linux" },
                "tolerations": [{ "key": "dedicated", "operator": "Equal", "value": "valkey", "effect": "NoSchedule" }],
                "securityContext": { "fsGroup": 2000, "supplementalGroups": [3000] } }),
        ),
        (
            "three-memory-ipv6",
            3,
            TopologyKind::Failover,
            json!({ "image": "valkey/valkey:7.2", "resources": resources, "access": { "ipFamilyPrefer": "IPv6" } }),
        ),
    ]
}

fn with_sentinels() -> Vec<Case> {
    let sentinels = json!({ "replicas": 3, "resources": { "limits": { "memory": "128Mi" } }, "quorum": 2,
        "access": { "serviceType": "ClusterIP", "ipFamilyPrefer": "IPv4" }, "tolerations": [{ "operator": "Exists" }] });
    let mut alone = sentinels.clone();
    alone["image"] = json!("valkey/valkey:8.1");
    let nodes = [1, 2, 3].map(|last| json!({ "ip": format!("10.0.0.{last}"), "port": 26379 }));
    vec![
        (
            "failover-own",
            2,
            TopologyKind::Failover,
            json!({ "image": "valkey/valkey:9.1", "resources": resources(), "storage": { "capacity": "1Gi" }, "sentinel": sentinels }),
        ),
        (
            "failover-referring",
            2,
            TopologyKind::Failover,
            json!({ "image": "valkey/valkey:9.1", "resources": resources(), "sentinel": { "sentinelReference": { "nodes": nodes } } }),
        ),
        ("sentinels-alone", 3, TopologyKind::Sentinel, alone),
    ]
}

fn clusters() -> Vec<Case> {
    vec![(
        "cluster-claims",
        2,
        TopologyKind::Cluster,
        json!({ "image": "valkey/valkey:9.1", "resources": resources(), "storage": { "storageClassName": "local", "capacity": "1Gi" },
            "replicas": { "shards": 3, "replicasOfShard": 2 }, "access": { "ipFamilyPrefer": "IPv4" },
            "annotations": { "example.org/scrape": "no" }, "affinityPolicy": "AntiAffinityInShard" }),
    )]
}

fn topology(name: &str, kind: TopologyKind, spec: Value) -> Topology {
    Topology {
        kind,
        namespace: "shop".into(),
        name: name.into(),
        uid: "11111111-0000-0000-0000-000000000001".into(),
        valkey_uid: "22222222-0000-0000-0000-000000000002".into(),
        spec,
    }
}

/// A workload, its governing Service and its budget.
fn part(instance: &str, part: Part, members: u32) -> Vec<Desired> {
    let name = part.workload(instance);
    let (purpose, shard) = match part {
        Part::Data => (Purpose::Data, 0),
        Part::Shard(shard) => (Purpose::Data, shard),
        Part::Sentinels => (Purpose::Sentinel, 0),
    };
    vec![
        Desired::Workload(Workload {
            name: name.clone(),
            purpose,
            shard,
            members,
            start: start(members),
            settings: vec![],
            labels: vec![],
        }),
        Desired::Service(Service { name: part.governing(instance), kind: ServiceKind::Governing, workload: name.clone() }),
        Desired::Budget(Budget { workload: name, max_unavailable: 1 }),
    ]
}

fn start(members: u32) -> StartMode {
    if members == 1 { StartMode::Alone } else { StartMode::Named }
}

fn desired(topology: &Topology, members: u32) -> Vec<Desired> {
    let instance = topology.name.as_str();
    let service = |name: String, kind, workload: &str| Desired::Service(Service { name, kind, workload: workload.into() });
    let data = Part::Data.workload(instance);
    let mut all = match topology.kind {
        TopologyKind::Cluster => (0..3).flat_map(|shard| part(instance, Part::Shard(shard), members)).collect(),
        TopologyKind::Failover => part(instance, Part::Data, members),
        TopologyKind::Sentinel => Vec::new(),
    };
    match topology.kind {
        TopologyKind::Cluster => all.push(service(instance.into(), ServiceKind::Instance, "")),
        TopologyKind::Failover => {
            all.push(service(format!("{data}-readwrite"), ServiceKind::Writer, &data));
            all.push(service(format!("{data}-readonly"), ServiceKind::Readers, &data));
        }
        TopologyKind::Sentinel => {}
    }
    if topology.own_sentinels().is_some() {
        all.extend(part(instance, Part::Sentinels, 3));
    }
    all
}

fn objects(case: &Case, members: u32, version: &str, live: Live<'_>) -> Vec<Value> {
    let (name, _, kind, spec) = case;
    let topology = topology(name, *kind, spec.clone());
    let settings = Settings {
        operator_version: version.into(),
        agent_image: format!("example.org/valkey-operator:{version}"),
        cluster_domain: "cluster.local".into(),
        operator_namespace: "valkey-system".into(),
        identity: "valkey-operator-0".into(),
        probe_interval: vko_core::probe::QUIET,
    };
    let inputs = Inputs {
        data: Texts { conf: "appendonly yes\n", users_acl: "user probe off\n" },
        sentinels: Texts { conf: "sentinel resolve-hostnames no\n", users_acl: "user sentinel off\n" },
        start: start(members),
        ending: false,
    };
    render(&topology, &desired(&topology, members), &inputs, &settings, live).unwrap()
}

/// Nothing is there yet.
fn nothing() -> Live<'static> {
    Live { stateful_set: &|_| None, roll_out: false }
}

fn stateful_sets(objects: Vec<Value>) -> Vec<Value> {
    objects.into_iter().filter(|object| object["kind"] == "StatefulSet").collect()
}

/// Looks StatefulSets up as the cache does.
fn find(live: &[Value]) -> impl Fn(&str) -> Option<Object> {
    |name: &str| live.iter().find(|set| set["metadata"]["name"] == name).cloned().map(Object::new)
}

fn snapshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

/// Compares with the checked-in text, or writes it when asked to.
fn assert_snapshot(path: &Path, object: &Value) {
    let text = format!("{}\n", serde_json::to_string_pretty(object).unwrap());
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &text).unwrap();
    }
    let expected =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}; run with UPDATE_SNAPSHOTS=1", path.display()));
    assert_eq!(text, expected, "{} differs; if that is wanted, run with UPDATE_SNAPSHOTS=1 and review", path.display());
}

#[test]
fn rendered_objects_are_as_reviewed() {
    let mut expected = BTreeSet::new();
    for case in instances() {
        for object in objects(&case, case.1, "0.1.0", nothing()) {
            let file = format!("{}-{}.json", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            let path = snapshots().join(case.0).join(file);
            assert_snapshot(&path, &object);
            assert!(expected.insert(path), "two objects with one name");
        }
    }
    let found: BTreeSet<_> = fs::read_dir(snapshots())
        .unwrap()
        .flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(found, expected, "a snapshot of something that is no longer rendered");
}

#[test]
fn a_new_operator_version_leaves_the_stateful_sets_as_they_are() {
    for case in instances() {
        let before = stateful_sets(objects(&case, case.1, "0.1.0", nothing()));
        let kept = Live { stateful_set: &find(&before), roll_out: false };
        assert_eq!(stateful_sets(objects(&case, case.1, "0.2.0", kept)), before, "{}", case.0);
        for rolled in stateful_sets(objects(&case, case.1, "0.2.0", Live { roll_out: true, ..kept })) {
            let image = &rolled["spec"]["template"]["spec"]["initContainers"][0]["image"];
            assert_eq!(image, "example.org/valkey-operator:0.2.0", "{}", case.0);
        }
    }
}

#[test]
fn scaling_changes_the_number_and_nothing_else() {
    for case in instances().into_iter().filter(|case| case.2 != TopologyKind::Sentinel) {
        let before = stateful_sets(objects(&case, case.1, "0.1.0", nothing()));
        let live = Live { stateful_set: &find(&before), roll_out: false };
        let mut after = stateful_sets(objects(&case, 5, "0.2.0", live));
        for set in &mut after {
            if set["metadata"]["labels"]["buf.red/type"] != "sentinel" {
                assert_eq!(set["spec"]["replicas"], 5, "{}", case.0);
                set["spec"]["replicas"] = json!(case.1);
            }
        }
        assert_eq!(after, before, "{}", case.0);
    }
}
