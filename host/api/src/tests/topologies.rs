//! What clusters and Sentinels become.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{alone, cluster, failover, images, least, merge, with};
use crate::affinity::of_shard;
use crate::crd::{crds, spec_fields};
use crate::topology::TopologySpec;
use crate::translate::{read, refused_changes, resolve_sentinel, sentinel_beside, translate};

fn of(patch: Value) -> TopologySpec {
    translate(&with(patch), &images()).unwrap()
}

fn json_of(patch: Value) -> Value {
    serde_json::to_value(of(patch)).unwrap()
}

fn referenced() -> Value {
    let nodes: Vec<Value> = (1..=5).map(|n| json!({"ip": format!("10.0.0.{n}"), "port": 26379, "flags": ""})).collect();
    json!({"nodes": nodes, "auth": {"username": "ops", "passwordSecret": "p", "tlsSecret": ""}})
}

#[test]
fn a_cluster_is_written_in_the_words_that_people_know() {
    let spec = json_of(cluster(json!({
        "podAnnotations": {"a": "b"}, "affinityPolicy": "CustomAffinity", "customAffinity": {"nodeAffinity": {}},
    })));
    assert_eq!(
        spec,
        json!({
            "image": "valkey/valkey:9.1.1",
            "imagePullPolicy": "IfNotPresent",
            "imagePullSecrets": [{"name": "pull"}],
            "version": "9.1",
            "replicas": {"shards": 3, "replicasOfShard": 2},
            "resources": {"limits": {"memory": "256Mi"}},
            "access": {"serviceType": "ClusterIP", "ipFamilyPrefer": "IPv4", "openDefaultUser": false},
            "annotations": {"a": "b"},
            "affinityPolicy": "CustomAffinity",
            "CustomAffinity": {"nodeAffinity": {}},
        })
    );
    assert_eq!(json_of(cluster(json!({})))["affinityPolicy"], "SoftAntiAffinity");
    assert_eq!(of(cluster(json!({}))).kind(), "Cluster");
}

#[test]
fn a_shards_affinity_means_what_the_policy_says() {
    let selectors = |policy: &str| {
        let away = serde_json::to_value(of_shard(policy, "cache", "drc-cache-1")).unwrap()["podAntiAffinity"].clone();
        let shard = |term: &Value| term["labelSelector"]["matchLabels"]["statefulset"].as_str().map(str::to_owned);
        let list = |field: &str| away[field].as_array().cloned().unwrap_or_default();
        let required: Vec<_> = list("requiredDuringSchedulingIgnoredDuringExecution").iter().map(shard).collect();
        let preferred = list("preferredDuringSchedulingIgnoredDuringExecution");
        let preferred: Vec<_> = preferred.iter().map(|t| (t["weight"].clone(), shard(&t["podAffinityTerm"]))).collect();
        (required, preferred)
    };
    let own = || Some("drc-cache-1".to_owned());
    assert_eq!(selectors("AntiAffinityInShard"), (vec![own()], vec![(json!(50), None)]));
    assert_eq!(selectors("AntiAffinity"), (vec![None], vec![]));
    assert_eq!(selectors("SoftAntiAffinity"), (vec![], vec![(json!(100), own()), (json!(50), None)]));
}

#[test]
fn sentinels_are_resolved_from_the_instance() {
    let spec = json_of(json!({"arch": "failover", "nodeSelector": {"disk": "fast"}, "access": {"ipFamilyPrefer": "IPv6"}}));
    let sentinel = &spec["sentinel"];
    assert_eq!((&sentinel["replicas"], &sentinel["quorum"]), (&json!(3), &json!(2)));
    assert_eq!(sentinel["access"], json!({"serviceType": "ClusterIP", "ipFamilyPrefer": "IPv6"}));
    assert_eq!(sentinel["nodeSelector"], json!({"disk": "fast"}));
    let judged = json!({"down-after-milliseconds": "5000", "failover-timeout": "60000", "parallel-syncs": "1"});
    assert_eq!(sentinel["monitorConfig"], judged);
    let term = &sentinel["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(term["podAffinityTerm"]["labelSelector"]["matchLabels"]["buf.red/type"], "sentinel");
    assert_eq!(json_of(json!({}))["sentinel"], Value::Null, "the replica architecture has none");
    assert_eq!(json_of(failover(json!({"replicas": 5})))["sentinel"]["quorum"], 3);
}

#[test]
fn referenced_sentinels_are_all_that_is_said() {
    let settings = json_of(failover(json!({"replicas": 3, "sentinelReference": referenced()})))["sentinel"].clone();
    assert_eq!((&settings["replicas"], &settings["quorum"]), (&Value::Null, &json!(3)));
    assert_eq!(settings["sentinelReference"]["nodes"][4], json!({"ip": "10.0.0.5", "port": 26379}));
    assert_eq!(settings["sentinelReference"]["auth"], json!({"username": "ops", "passwordSecret": "p"}));
}

#[test]
fn the_sentinel_beside_is_made_of_the_failover() {
    let beside = |patch| match of(patch) {
        TopologySpec::Failover(spec) => sentinel_beside(&spec).map(|spec| serde_json::to_value(spec).unwrap()),
        TopologySpec::Cluster(_) => None,
    };
    let spec = beside(failover(json!({"replicas": 5}))).unwrap();
    assert_eq!((&spec["image"], &spec["version"], &spec["replicas"]), (&json!("valkey/valkey:9.1.1"), &json!("9.1"), &json!(5)));
    assert_eq!(beside(json!({})), None);
    assert_eq!(beside(failover(json!({"sentinelReference": referenced()}))), None);
}

#[test]
fn sentinels_that_stand_alone_are_resolved_alike() {
    let spec = serde_json::to_value(resolve_sentinel(&alone(json!({})), &images()).unwrap()).unwrap();
    assert_eq!((&spec["image"], &spec["version"], &spec["replicas"]), (&json!("valkey/valkey:9.1.1"), &json!("9.1"), &json!(3)));
    let own = json!({"version": "8.1", "image": "a:1", "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "s"}]});
    let spec = serde_json::to_value(resolve_sentinel(&alone(own.clone()), &images()).unwrap()).unwrap();
    for (field, value) in own.as_object().unwrap() {
        assert_eq!(&spec[field], value, "{field}");
    }
    assert_eq!(resolve_sentinel(&alone(json!({"replicas": 2})), &images()).unwrap_err().reason(), "SpecInvalid");
}

#[test]
fn changes_of_shards_and_sentinels_that_must_not_arrive() {
    for (case, live, wanted, field) in [
        ("another architecture", cluster(json!({})), json!({}), "spec.arch"),
        ("Sentinels added", json!({}), failover(json!({})), "spec.arch"),
        ("shards", cluster(json!({})), cluster(json!({"replicas": {"shards": 4}})), "spec.replicas.shards"),
        ("members", cluster(json!({})), cluster(json!({"replicas": {"replicasOfShard": 3}})), "spec.replicas.replicasOfShard"),
        ("Sentinels", failover(json!({})), failover(json!({"replicas": 5})), "spec.sentinel.replicas"),
        ("reference", failover(json!({})), failover(json!({"sentinelReference": referenced()})), "spec.sentinel.replicas"),
        ("the default in words", failover(json!({})), failover(json!({"replicas": 3})), ""),
        ("judgement", failover(json!({})), failover(json!({"quorum": 3, "monitorConfig": {"parallel-syncs": "2"}})), ""),
        ("members", failover(json!({})), json!({"arch": "failover", "replicas": {"replicasOfShard": 5}}), ""),
    ] {
        let found = refused_changes(&of(live), &of(wanted));
        assert_eq!(found.first().map_or("", |violation| violation.field.as_str()), field, "{case}: {found:?}");
    }
}

/// A field of a Valkey and a value that says something about it, with what must stand beside it.
fn telling() -> Vec<(&'static str, Value)> {
    let nodes = |first: Value| json!([first, {"ip": "10.0.0.1", "port": 1}, {"ip": "10.0.0.2", "port": 1}]);
    let slots = json!([{"slots": "0-1"}, {"slots": "2-3"}, {"slots": "4-16383"}]);
    let reference = |patch: Value| {
        let mut reference = json!({"nodes": nodes(json!({"ip": "10.0.0.3", "port": 1}))});
        merge(&mut reference, patch);
        failover(json!({"sentinelReference": reference}))
    };
    let mut rows = vec![
        ("version", json!({"version": "8.1"})),
        ("arch", cluster(json!({}))),
        ("replicas.shards", cluster(json!({"replicas": {"shards": 5}}))),
        ("replicas.replicasOfShard", json!({"replicas": {"replicasOfShard": 5}})),
        ("replicas.shardsConfig.slots", cluster(json!({"replicas": {"shardsConfig": slots}}))),
        ("resources", json!({"resources": {"requests": {"cpu": "1"}}})),
        ("storage.storageClassName", json!({"storage": {"storageClassName": "x"}})),
        ("storage.capacity", json!({"storage": {"capacity": "9Gi"}})),
        ("storage.accessMode", json!({"storage": {"accessMode": "x"}})),
        ("storage.retainAfterDeleted", json!({"storage": {"retainAfterDeleted": true}})),
        ("storage.annotations", json!({"storage": {"annotations": {"a": "b"}}})),
        ("access.openDefaultUser", json!({"access": {"openDefaultUser": true}})),
        ("affinityPolicy", json!({"affinityPolicy": "AntiAffinity"})),
        ("customAffinity", json!({"affinityPolicy": "CustomAffinity", "customAffinity": {"podAffinity": {}}})),
        ("modules", json!({"modules": [{"path": "x"}]})),
        ("sentinel.replicas", failover(json!({"replicas": 5}))),
        ("sentinel.quorum", failover(json!({"quorum": 1}))),
        ("sentinel.monitorConfig", failover(json!({"monitorConfig": {"parallel-syncs": "2"}}))),
        ("sentinel.affinity", failover(json!({"affinity": {"podAffinity": {}}}))),
        ("sentinel.version", failover(json!({"version": "9.1"}))),
        ("sentinel.image", failover(json!({"image": "a:1"}))),
        ("sentinel.imagePullPolicy", failover(json!({"imagePullPolicy": "Always"}))),
        ("sentinel.imagePullSecrets", failover(json!({"imagePullSecrets": [{"name": "x"}]}))),
        ("sentinel.access.defaultPasswordSecret", failover(json!({"access": {"defaultPasswordSecret": "x"}}))),
        ("sentinel.access.externalTLSSecret", failover(json!({"access": {"externalTLSSecret": "x"}}))),
        ("sentinel.sentinelReference.nodes.ip", reference(json!({}))),
        ("sentinel.sentinelReference.nodes.port", reference(json!({"nodes": nodes(json!({"ip": "10.0.0.3", "port": 2}))}))),
        (
            "sentinel.sentinelReference.nodes.flags",
            reference(json!({"nodes": nodes(json!({"ip": "10.0.0.3", "port": 1, "flags": "x"}))})),
        ),
        ("sentinel.sentinelReference.auth.username", reference(json!({"auth": {"username": "x", "passwordSecret": "y"}}))),
        ("sentinel.sentinelReference.auth.passwordSecret", reference(json!({"auth": {"passwordSecret": "y"}}))),
        ("sentinel.sentinelReference.auth.tlsSecret", reference(json!({"auth": {"tlsSecret": "x"}}))),
    ];
    for (both, own, patch) in [
        ("access.serviceType", "sentinel.access.serviceType", json!({"access": {"serviceType": "NodePort"}})),
        ("access.ipFamilyPrefer", "sentinel.access.ipFamilyPrefer", json!({"access": {"ipFamilyPrefer": "IPv6"}})),
        ("access.annotations", "sentinel.access.annotations", json!({"access": {"annotations": {"a": "b"}}})),
        ("access.ports", "sentinel.access.ports", json!({"access": {"ports": "1:1"}})),
        ("access.enableTLS", "sentinel.access.enableTLS", json!({"access": {"enableTLS": true}})),
        ("access.certIssuer", "sentinel.access.certIssuer", json!({"access": {"certIssuer": "x"}})),
        ("access.certIssuerType", "sentinel.access.certIssuerType", json!({"access": {"certIssuerType": "Issuer"}})),
        ("podAnnotations", "sentinel.podAnnotations", json!({"podAnnotations": {"a": "b"}})),
        ("nodeSelector", "sentinel.nodeSelector", json!({"nodeSelector": {"a": "b"}})),
        ("tolerations", "sentinel.tolerations", json!({"tolerations": [{"operator": "Exists"}]})),
        ("securityContext", "sentinel.securityContext", json!({"securityContext": {"runAsUser": 7}})),
        ("customConfigs", "sentinel.customConfigs", json!({"customConfigs": {"a": "b"}})),
        ("exporter", "sentinel.exporter", json!({"exporter": {"image": "x"}})),
    ] {
        rows.push((both, patch.clone()));
        rows.push((own, failover(patch)));
    }
    rows.push(("sentinel.resources", failover(json!({"resources": {"limits": {"memory": "64Mi"}}}))));
    rows
}

#[test]
fn every_field_changes_the_topology_object_or_is_refused() {
    let fields = spec_fields(&crds().into_iter().find(|crd| crd.spec.names.kind == "Valkey").unwrap());
    let rows = telling();
    let told: BTreeSet<String> = rows.iter().map(|(field, _)| (*field).to_owned()).collect();
    assert_eq!(told, fields, "a field without a case, or a case without a field");
    for (field, patch) in rows {
        // The same manifest without the field, as far as it can be one.
        let mut without = patch.clone();
        *field.split('.').fold(&mut without, |value, name| {
            let value = &mut value[name];
            if value.is_array() && !field.ends_with(name) { &mut value[0] } else { value }
        }) = Value::Null;
        let mut object = least();
        merge(&mut object["spec"], without);
        // Without a field that must be there: the least there is to write.
        let before = read(&object).ok().and_then(|valkey| translate(&valkey, &images()).ok()).unwrap_or_else(|| of(json!({})));
        match translate(&with(patch), &images()) {
            Ok(after) => assert_ne!(before, after, "{field} changes nothing"),
            Err(error) => assert!(error.to_string().contains("spec."), "{field}: {error}"),
        }
    }
}
