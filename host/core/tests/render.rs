//! Rendered objects as snapshots: what a change of the code changes in a cluster shows in review.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p vko-core --test render` writes them anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vko_core::object::Object;
use vko_core::render::{Inputs, Live, Topology, render};
use vko_core::settings::Settings;
use vko_wit::planning::{Budget, Desired, Purpose, Service, ServiceKind, StartMode, Workload};

/// An instance: name of the folder of its snapshots, members, spec.
fn instances() -> Vec<(&'static str, u32, Value)> {
    let resources = json!({ "requests": { "cpu": "100m", "memory": "256Mi" }, "limits": { "cpu": "1", "memory": "256Mi" } });
    let claim = json!({ "storageClassName": "local", "capacity": "1Gi", "retainAfterDeleted": true });
    let spread = json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "buf.red/name": "x" } } },
    }] } });
    vec![
        ("one-memory-ipv4", 1, json!({ "image": "valkey/valkey:9.1", "resources": resources, "storage": null })),
        (
            "one-claim-ipv6",
            1,
            json!({ "image": "valkey/valkey:8.1", "resources": resources, "storage": { "capacity": "1Gi" },
                "access": { "ipFamilyPrefer": "IPv6" } }),
        ),
        (
            "three-claims-ipv4",
            3,
            json!({ "image": "valkey/valkey:9.1", "imagePullPolicy": "IfNotPresent", "imagePullSecrets": [{ "name": "pull" }],
                "resources": resources, "storage": claim, "access": { "ipFamilyPrefer": "IPv4" }, "affinity": spread,
                "podAnnotations": { "example.org/scrape": "no" }, "nodeSelector": { "kubernetes.io/os": "linux" },
                "tolerations": [{ "key": "dedicated", "operator": "Equal", "value": "valkey", "effect": "NoSchedule" }],
                "securityContext": { "fsGroup": 2000, "supplementalGroups": [3000] } }),
        ),
        (
            "three-memory-ipv6",
            3,
            json!({ "image": "valkey/valkey:7.2", "resources": resources, "access": { "ipFamilyPrefer": "IPv6" } }),
        ),
    ]
}

fn objects(name: &str, members: u32, spec: Value, version: &str, live: Live<'_>) -> Vec<Value> {
    let topology = Topology {
        namespace: "shop".into(),
        name: name.into(),
        uid: "11111111-0000-0000-0000-000000000001".into(),
        valkey_uid: "22222222-0000-0000-0000-000000000002".into(),
        spec,
    };
    let workload = format!("rfr-{name}");
    let service =
        |suffix: &str, kind| Desired::Service(Service { name: format!("{workload}{suffix}"), kind, workload: workload.clone() });
    let start = if members == 1 { StartMode::Alone } else { StartMode::Named };
    let desired = [
        Desired::Workload(Workload {
            name: workload.clone(),
            purpose: Purpose::Data,
            shard: 0,
            members,
            start,
            settings: vec![],
            labels: vec![],
        }),
        service("", ServiceKind::Governing),
        service("-readwrite", ServiceKind::Writer),
        service("-readonly", ServiceKind::Readers),
        Desired::Budget(Budget { workload: workload.clone(), max_unavailable: 1 }),
    ];
    let settings = Settings {
        operator_version: version.into(),
        agent_image: format!("example.org/valkey-operator:{version}"),
        cluster_domain: "cluster.local".into(),
        operator_namespace: "valkey-system".into(),
        identity: "valkey-operator-0".into(),
        probe_interval: vko_core::probe::QUIET,
    };
    let inputs = Inputs { conf: "appendonly yes\n", users_acl: "user probe off\n", start, ending: false };
    render(&topology, &desired, &inputs, &settings, live).unwrap()
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
    for (name, members, spec) in instances() {
        for object in objects(name, members, spec, "0.1.0", Live::default()) {
            let file = format!("{}-{}.json", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            let path = snapshots().join(name).join(file);
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
fn a_new_operator_version_leaves_the_stateful_set_as_it_is() {
    for (name, members, spec) in instances() {
        let stateful_set = objects(name, members, spec.clone(), "0.1.0", Live::default()).pop().unwrap();
        let live = Object::new(stateful_set.clone());
        let kept = Live { stateful_set: Some(&live), roll_out: false };
        assert_eq!(objects(name, members, spec.clone(), "0.2.0", kept).pop().unwrap(), stateful_set, "{name}");
        let rolled = objects(name, members, spec, "0.2.0", Live { roll_out: true, ..kept }).pop().unwrap();
        assert_eq!(
            rolled["spec"]["template"]["spec"]["initContainers"][0]["image"], "example.org/valkey-operator:0.2.0",
            "{name}"
        );
    }
}

#[test]
fn scaling_changes_the_number_and_nothing_else() {
    for (name, members, spec) in instances() {
        let before = Object::new(objects(name, members, spec.clone(), "0.1.0", Live::default()).pop().unwrap());
        let live = Live { stateful_set: Some(&before), roll_out: false };
        let mut after = objects(name, 5, spec, "0.2.0", live).pop().unwrap();
        assert_eq!(after["spec"]["replicas"], 5, "{name}");
        after["spec"]["replicas"] = json!(members);
        assert_eq!(after, *before.0, "{name}");
    }
}
