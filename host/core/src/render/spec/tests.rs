//! Which field changes which pods, and nothing else does.

use serde_json::{Value, json};
use vko_api::names;

use super::super::testing::{mk_cluster, mk_failover, mk_referring, mk_sentinel, mk_topology, template_of};
use super::super::{Part, RenderError, Topology};
use super::PodSpec;

/// A field of the spec (a JSON pointer), another value for it, whether data servers and whether Sentinels are made of it.
type Change = (&'static str, Value, bool, bool);

/// Of every topology object.
fn common() -> Vec<Change> {
    vec![
        ("/image", json!("valkey/valkey:8.1"), true, true),
        ("/imagePullPolicy", json!("Always"), true, true),
        ("/imagePullSecrets", json!([{ "name": "other" }]), true, true),
        ("/version", json!("8.1"), false, false),
    ]
}

/// Of those with data.
fn with_data() -> Vec<Change> {
    vec![
        ("/resources", json!({ "limits": { "memory": "2Gi" } }), true, false),
        ("/tolerations", json!([{ "operator": "Exists" }]), true, false),
        ("/tolerations", Value::Null, false, false),
        ("/nodeSelector", json!({ "disk": "ssd" }), true, false),
        ("/nodeSelector", json!({}), false, false),
        ("/securityContext", json!({ "fsGroup": 2000 }), true, false),
        ("/storage", Value::Null, true, false),
        ("/storage", json!({ "capacity": "9Gi", "storageClassName": "x", "retainAfterDeleted": true }), false, false),
        ("/access/openDefaultUser", json!(true), false, false),
    ]
}

fn of_failover() -> Vec<Change> {
    vec![
        ("/podAnnotations", json!({ "example.org/a": "b" }), true, false),
        ("/affinity", json!({ "nodeAffinity": {} }), true, false),
        ("/replicas", json!(5), false, false),
    ]
}

fn of_cluster() -> Vec<Change> {
    vec![
        ("/annotations", json!({ "example.org/a": "b" }), true, false),
        ("/affinityPolicy", json!("AntiAffinity"), true, false),
        ("/affinityPolicy", json!("SoftAntiAffinity"), false, false),
        ("/CustomAffinity", json!({ "nodeAffinity": {} }), false, false),
        ("/replicas", json!({ "shards": 9, "replicasOfShard": 5, "shardsConfig": [] }), false, false),
        ("/access/ipFamilyPrefer", json!("IPv6"), true, false),
    ]
}

/// Of Sentinels, below their section.
fn of_sentinels() -> Vec<(&'static str, Value, bool)> {
    vec![
        ("resources", json!({ "limits": { "memory": "2Gi" } }), true),
        ("podAnnotations", json!({ "example.org/a": "b" }), true),
        ("affinity", json!({ "nodeAffinity": {} }), true),
        ("tolerations", json!([{ "operator": "Exists" }]), true),
        ("nodeSelector", json!({ "disk": "ssd" }), true),
        ("securityContext", json!({ "fsGroup": 2000 }), true),
        ("access", json!({ "ipFamilyPrefer": "IPv6" }), true),
        ("access", json!({ "ipFamilyPrefer": "IPv4", "defaultPasswordSecret": "clients" }), false),
        ("replicas", json!(5), false),
        ("quorum", json!(3), false),
        ("monitorConfig", json!({ "parallel-syncs": "3" }), false),
    ]
}

/// The template, without the stamp that would differ whenever the hash does.
fn without_hash(topology: &Topology, part: Part) -> Value {
    let mut template = template_of(topology, part);
    template["metadata"]["annotations"].as_object_mut().unwrap().remove(names::SPEC_HASH).unwrap();
    template
}

/// Sets a field, and makes what is above it.
fn set(spec: &mut Value, pointer: &str, value: Value) {
    let mut at = spec;
    for key in pointer.split('/').skip(1) {
        at = &mut at[key];
    }
    *at = value;
}

fn assert_changes(before: &Topology, pointer: &str, value: &Value, parts: &[(Part, bool)]) {
    let mut after = before.clone();
    set(&mut after.spec, pointer, value.clone());
    for &(part, expected) in parts {
        let hash_changed = PodSpec::new(before, part).hash() != PodSpec::new(&after, part).hash();
        let template_changed = without_hash(before, part) != without_hash(&after, part);
        assert_eq!((hash_changed, template_changed), (expected, expected), "{:?} {part:?} {pointer}: {value}", before.kind);
    }
}

#[test]
fn the_hash_changes_exactly_with_the_template() {
    for (pointer, value, data, sentinels) in common().into_iter().chain(with_data()).chain(of_failover()) {
        assert_changes(&mk_topology(), pointer, &value, &[(Part::Data, data)]);
        assert_changes(&mk_referring(), pointer, &value, &[(Part::Data, data)]);
        assert_changes(&mk_failover(), pointer, &value, &[(Part::Data, data), (Part::Sentinels, sentinels)]);
    }
    for (pointer, value, data, _) in common().into_iter().chain(with_data()).chain(of_cluster()) {
        assert_changes(&mk_cluster(), pointer, &value, &[(Part::Shard(0), data), (Part::Shard(2), data)]);
    }
    for (pointer, value, _, sentinels) in common() {
        assert_changes(&mk_sentinel(), pointer, &value, &[(Part::Sentinels, sentinels)]);
    }
    for (field, value, sentinels) in of_sentinels() {
        let parts = [(Part::Data, false), (Part::Sentinels, sentinels)];
        assert_changes(&mk_failover(), &format!("/sentinel/{field}"), &value, &parts);
        assert_changes(&mk_sentinel(), &format!("/{field}"), &value, &[(Part::Sentinels, sentinels)]);
    }
}

#[test]
fn sentinels_change_the_hook_of_data_servers_and_their_number_or_place_does_not() {
    assert_changes(&mk_topology(), "/sentinel", &mk_failover().spec["sentinel"], &[(Part::Data, true)]);
    assert_changes(&mk_failover(), "/sentinel", &mk_referring().spec["sentinel"], &[(Part::Data, false)]);
    let mut reference = json!({ "nodes": [{ "ip": "10.0.0.9", "port": 1 }] });
    assert_changes(&mk_referring(), "/sentinel/sentinelReference", &reference, &[(Part::Data, false)]);
    // What logs in there is mounted.
    reference["auth"] = json!({ "username": "u", "passwordSecret": "s" });
    assert_changes(&mk_referring(), "/sentinel/sentinelReference", &reference, &[(Part::Data, true)]);
}

#[test]
fn a_custom_affinity_changes_pods_only_where_it_is_asked_for() {
    let mut topology = mk_cluster();
    topology.spec["affinityPolicy"] = json!("CustomAffinity");
    assert_changes(&topology, "/CustomAffinity", &json!({ "nodeAffinity": {} }), &[(Part::Shard(0), true)]);
}

#[test]
fn sentinels_live_where_the_data_does_unless_they_say_otherwise() {
    let mut topology = mk_failover();
    topology.spec["sentinel"]["access"] = Value::Null;
    let both = [(Part::Data, true), (Part::Sentinels, true)];
    assert_changes(&topology, "/access/ipFamilyPrefer", &json!("IPv6"), &both);
}

#[test]
fn an_empty_field_hashes_like_an_absent_one() {
    let hash = |topology: &Topology| PodSpec::new(topology, Part::Data).hash();
    for empty in [json!(null), json!({}), json!([]), json!("")] {
        let mut with = mk_topology();
        with.spec["affinity"] = empty.clone();
        assert_eq!(hash(&with), hash(&mk_topology()), "{empty}");
    }
}

#[test]
fn a_missing_image_is_named() {
    for (mut topology, part, kind) in [
        (mk_topology(), Part::Data, "Failover"),
        (mk_failover(), Part::Sentinels, "Failover"),
        (mk_cluster(), Part::Shard(0), "Cluster"),
        (mk_sentinel(), Part::Sentinels, "Sentinel"),
    ] {
        topology.spec["image"] = Value::Null;
        let refused = PodSpec::new(&topology, part).image().map(str::to_owned).unwrap_err();
        assert_eq!(refused, RenderError::SpecFieldMissing { kind, field: "image" });
    }
}
