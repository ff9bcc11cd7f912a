//! What a Valkey becomes.

use serde_json::{Value, json};

use super::{images, least, with};
use crate::translate::{read, refused_changes, translate};

fn translated(patch: Value) -> Value {
    serde_json::to_value(translate(&with(patch), &images()).unwrap()).unwrap()
}

#[test]
fn the_least_becomes_everything_resolved() {
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {
            "app.kubernetes.io/managed-by": "valkey-operator",
            "buf.red/name": "cache",
            "buf.red/type": "failover",
        }},
    });
    let preferred = json!([{"weight": 100, "podAffinityTerm": term}]);
    assert_eq!(
        translated(json!({})),
        json!({
            "image": "valkey/valkey:9.1.1",
            "imagePullPolicy": "IfNotPresent",
            "imagePullSecrets": [{"name": "pull"}],
            "version": "9.1",
            "replicas": 3,
            "resources": {"limits": {"memory": "256Mi"}},
            "access": {"serviceType": "ClusterIP", "ipFamilyPrefer": "IPv4", "openDefaultUser": false},
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        })
    );
}

#[test]
fn what_is_written_arrives() {
    let rest = json!({
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "securityContext": {"fsGroup": 7, "runAsUser": 8},
    });
    let spec = translated(rest.clone());
    for (field, value) in rest.as_object().unwrap() {
        assert_eq!(&spec[field], value, "{field}");
    }
    let open = translated(json!({"version": "7.2", "access": {"openDefaultUser": true, "ipFamilyPrefer": "IPv6"}}));
    assert_eq!(open["access"], json!({"serviceType": "ClusterIP", "ipFamilyPrefer": "IPv6", "openDefaultUser": true}));
    assert_eq!(open["image"], "valkey/valkey:7.2.1");
}

#[test]
fn storage_without_a_size_is_twice_the_memory() {
    for (case, memory, storage, capacity) in [
        ("default", json!("256Mi"), json!({}), "512Mi"),
        ("default of an odd limit", json!("1.5Gi"), json!({}), "3Gi"),
        ("default of a plain number", json!(100_000_001), json!({}), "200000002"),
        ("as written", json!("256Mi"), json!({"capacity": "1.0Gi"}), "1.0Gi"),
    ] {
        let spec = translated(json!({"resources": {"limits": {"memory": memory}}, "storage": storage}));
        let expected = json!({"capacity": capacity, "accessMode": "ReadWriteOnce"});
        assert_eq!(spec["storage"], expected, "{case}");
    }
    let named = translated(json!({"storage": {"storageClassName": "fast", "retainAfterDeleted": true}}));
    assert_eq!(named["storage"]["storageClassName"], "fast");
    assert_eq!(named["storage"]["retainAfterDeleted"], true);
}

#[test]
fn affinity_policies_mean_what_they_say() {
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    for (policy, field, absent) in [
        ("SoftAntiAffinity", preferred, required),
        ("AntiAffinity", required, preferred),
        ("AntiAffinityInShard", required, preferred),
    ] {
        let spec = translated(json!({"affinityPolicy": policy}));
        let away = &spec["affinity"]["podAntiAffinity"];
        assert_eq!(away[field].as_array().map(Vec::len), Some(1), "{policy}");
        assert_eq!(away[absent], Value::Null, "{policy}");
    }
    let custom = json!({"podAffinity": {required: [{"topologyKey": "zone"}]}});
    let spec = translated(json!({"affinityPolicy": "CustomAffinity", "customAffinity": custom}));
    assert_eq!(spec["affinity"], custom);
}

#[test]
fn what_is_wrong_has_a_reason() {
    let mut unknown = images();
    unknown.lines.remove("9.1");
    let mut untagged = images();
    untagged.lines.insert("9.1".into(), "valkey/valkey".into());
    for (case, patch, images, reason, text) in [
        ("a broken rule", json!({"version": "8.0"}), images(), "SpecInvalid", "spec.version is 8.0; use"),
        ("two broken rules", json!({"version": "8.0", "arch": "x"}), images(), "SpecInvalid", ". spec.arch is x; use"),
        ("a line without image", json!({}), unknown, "ImageUnknown", "names no image for version 9.1 (it has: 7.2, 8.1)"),
        ("an image without tag", json!({}), untagged, "ImageReferenceInvalid", "has neither tag nor digest"),
    ] {
        let error = translate(&with(patch), &images).unwrap_err();
        assert_eq!(error.reason(), reason, "{case}");
        assert!(error.to_string().contains(text), "{case}: {error}");
    }
}

#[test]
fn an_object_of_another_form_is_an_error() {
    for (case, pointer, value) in [
        ("no spec", "/spec", Value::Null),
        ("text for a number", "/spec/replicas", json!({"replicasOfShard": "three"})),
        ("a list for a text", "/spec/version", json!([])),
        ("too large a number", "/spec/replicas", json!({"replicasOfShard": 1u64 << 40})),
    ] {
        let mut object = least();
        *object.pointer_mut(pointer).unwrap() = value;
        assert_eq!(read(&object).unwrap_err().reason(), "SpecUnreadable", "{case}");
    }
    assert_eq!(read(&json!([])).unwrap_err().reason(), "SpecUnreadable");
}

#[test]
fn a_status_that_we_do_not_know_does_not_matter() {
    let mut object = least();
    object["status"] = json!({"phase": "Levitating", "conditions": 7});
    assert_eq!(read(&object).unwrap().status, None);
}

#[test]
fn changes_that_must_not_reach_a_live_instance() {
    let claim = json!({"storage": {"capacity": "1Gi", "storageClassName": "fast"}});
    for (case, live, wanted, field) in [
        ("nothing", json!({}), json!({}), ""),
        ("members", json!({}), json!({"replicas": {"replicasOfShard": 5}}), ""),
        ("the default user", json!({}), json!({"access": {"openDefaultUser": true}}), "spec.access.openDefaultUser"),
        (
            "what happens to claims",
            claim.clone(),
            json!({"storage": {"retainAfterDeleted": true}}),
            "spec.storage.storageClassName",
        ),
        (
            "the same size in other words",
            claim.clone(),
            json!({"storage": {"capacity": "1024Mi", "storageClassName": "fast"}}),
            "",
        ),
        (
            "more storage",
            claim.clone(),
            json!({"storage": {"capacity": "2Gi", "storageClassName": "fast"}}),
            "spec.storage.capacity",
        ),
        (
            "another class",
            claim.clone(),
            json!({"storage": {"capacity": "1Gi", "storageClassName": "slow"}}),
            "spec.storage.storageClassName",
        ),
        ("storage removed", claim, json!({}), "spec.storage"),
        ("family", json!({}), json!({"access": {"ipFamilyPrefer": "IPv6"}}), "spec.access.ipFamilyPrefer"),
    ] {
        let of = |patch| translate(&with(patch), &images()).unwrap();
        let found = refused_changes(&of(live), &of(wanted));
        assert_eq!(found.first().map_or("", |violation| violation.field.as_str()), field, "{case}: {found:?}");
    }
}

#[test]
fn what_pods_are_made_of_changes_where_members_are_replaced_in_turn() {
    for (field, change) in [
        ("spec.version", json!({"version": "8.1"})),
        ("spec.resources", json!({"resources": {"limits": {"memory": "1Gi"}}})),
        ("spec.podAnnotations", json!({"podAnnotations": {"a": "b"}})),
        ("spec.affinityPolicy", json!({"affinityPolicy": "AntiAffinity"})),
        ("spec.nodeSelector", json!({"nodeSelector": {"a": "b"}})),
        ("spec.tolerations", json!({"tolerations": [{"operator": "Exists"}]})),
        ("spec.securityContext", json!({"securityContext": {"runAsUser": 9}})),
    ] {
        for (arch, refused) in [("replica", None), ("failover", Some(field))] {
            let mut wanted = change.clone();
            wanted["arch"] = json!(arch);
            let of = |patch| translate(&with(patch), &images()).unwrap();
            let found = refused_changes(&of(json!({"arch": arch})), &of(wanted));
            assert_eq!(found.first().map(|violation| violation.field.as_str()), refused, "{field}, {arch}: {found:?}");
        }
    }
}

#[test]
fn another_image_in_the_configuration_is_no_change_of_the_instance() {
    let live = translate(&with(json!({})), &images()).unwrap();
    let mut newer = images();
    newer.lines.insert("9.1".into(), "valkey/valkey:9.1.2".into());
    assert_eq!(refused_changes(&live, &translate(&with(json!({})), &newer).unwrap()), []);
}
