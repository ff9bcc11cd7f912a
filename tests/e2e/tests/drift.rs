//! Generated objects are edited and deleted: they come back as they were, and no pod notices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::{Result, kubectl, operator, space};

const BACK: Duration = Duration::from_secs(60);

/// Everything that the operator makes for an instance named x, the accounts' Secrets aside.
const OBJECTS: [&str; 8] = [
    "configmap/rfr-x",
    "failover/x",
    "poddisruptionbudget/rfr-x",
    "secret/rfr-acl-x",
    "service/rfr-x",
    "service/rfr-x-readonly",
    "service/rfr-x-readwrite",
    "statefulset/rfr-x",
];
/// Those Secrets: made once, kept by a finalizer.
const ACCOUNTS: [&str; 5] = ["default", "hook", "operator", "probe", "replication"];

/// What somebody does to an object, and the field that must be as before.
fn edits() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("configmap/rfr-x", json!({"data": {"valkey.conf": "maxmemory 1\n"}}), "/data/valkey.conf"),
        ("configmap/rfr-x", json!({"data": {"start": null}}), "/data/start"),
        ("failover/x", json!({"spec": {"replicas": 1}}), "/spec/replicas"),
        ("failover/x", json!({"metadata": {"finalizers": null}}), "/metadata/finalizers"),
        ("poddisruptionbudget/rfr-x", json!({"spec": {"maxUnavailable": 3}}), "/spec/maxUnavailable"),
        ("secret/rfr-acl-x", json!({"data": {"users.acl": "dXNlcg=="}}), "/data/users.acl"),
        (
            "secret/failover-acl-x-default-secret",
            json!({"metadata": {"labels": {"buf.red/name": null}}}),
            "/metadata/labels/buf.red~1name",
        ),
        ("secret/failover-acl-x-operator-secret", json!({"metadata": {"finalizers": null}}), "/metadata/finalizers"),
        ("secret/failover-acl-x-replication-secret", json!({"metadata": {"ownerReferences": null}}), "/metadata/ownerReferences"),
        ("service/rfr-x", json!({"spec": {"publishNotReadyAddresses": false}}), "/spec/publishNotReadyAddresses"),
        ("service/rfr-x-readonly", json!({"metadata": {"labels": {"buf.red/name": "y"}}}), "/metadata/labels/buf.red~1name"),
        ("service/rfr-x-readwrite", json!({"spec": {"selector": {"valkey.buf.red/role": "nobody"}}}), "/spec/selector"),
        ("service/rfr-x-readwrite", json!({"metadata": {"ownerReferences": null}}), "/metadata/ownerReferences"),
        ("statefulset/rfr-x", json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}), "/spec/updateStrategy/type"),
        (
            "statefulset/rfr-x",
            json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}),
            "/spec/template/spec/terminationGracePeriodSeconds",
        ),
    ]
}

#[test]
fn what_is_edited_or_deleted_comes_back_and_no_pod_is_replaced() -> Result {
    let _operator = operator::shared()?;
    space::with("drift", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted { members: 2, ..Wanted::default() })?;
        assert_eq!(instance.writer()?.ask::<String>(&["SET", "kept", "yes"])?, "OK");
        let (lives, primary) = (instance.lives()?, instance.primary()?);
        the_list_is_complete(&instance)?;
        for (target, patch, pointer) in edits() {
            edited(&instance, target, &patch, pointer)?;
        }
        for pod in instance.pods()? {
            labels_follow_roles(&instance, &pod.name, &pod.role)?;
        }
        for target in OBJECTS {
            deleted(&instance, target)?;
        }
        accounts_are_kept(&instance)?;
        instance.wait_settled(2)?;
        assert_eq!((instance.lives()?, instance.primary()?.uid), (lives, primary.uid));
        assert_eq!(instance.writer()?.ask::<String>(&["GET", "kept"])?, "yes");
        Ok(())
    })
}

/// A kind of object that is added is added here as well.
fn the_list_is_complete(instance: &Instance) -> Result {
    let kinds = "configmaps,failovers,poddisruptionbudgets,secrets,services,statefulsets";
    let made = kubectl::list(&instance.namespace, kinds, "buf.red/name=x")?;
    let made: BTreeSet<String> =
        made.iter().map(|o| format!("{}/{}", o["kind"].as_str().unwrap_or_default().to_lowercase(), operator::name(o))).collect();
    let accounts = ACCOUNTS.map(|account| format!("secret/failover-acl-x-{account}-secret"));
    let expected: BTreeSet<String> = OBJECTS.into_iter().map(str::to_owned).chain(accounts).collect();
    // The topology object may or may not carry the label; it is looked at by its name.
    let made: BTreeSet<String> = made.into_iter().chain(["failover/x".to_owned()]).collect();
    assert_eq!(made, expected);
    Ok(())
}

fn watched<'a>(instance: &'a Instance, target: &'a str, fields: &'a mut String) -> kubectl::Watched<'a> {
    let (kind, name) = target.split_once('/').expect("kind/name");
    *fields = format!("metadata.name={name}");
    kubectl::named(&instance.namespace, kind, fields)
}

fn edited(instance: &Instance, target: &str, patch: &Value, pointer: &str) -> Result {
    let before = kubectl::must_get(&instance.namespace, target)?.pointer(pointer).cloned();
    assert!(before.is_some(), "{target} has no {pointer}");
    kubectl::patch(&instance.namespace, target, patch)?;
    let mut fields = String::new();
    let what = format!("{pointer} of {target} to be as before");
    kubectl::watch_until(&what, watched(instance, target, &mut fields), BACK, |_, object| {
        object.pointer(pointer) == before.as_ref()
    })?;
    Ok(())
}

fn labels_follow_roles(instance: &Instance, pod: &str, role: &str) -> Result {
    let wrong = if role == "master" { "replica" } else { "master" };
    kubectl::patch(&instance.namespace, &format!("pod/{pod}"), &json!({"metadata": {"labels": {"valkey.buf.red/role": wrong}}}))?;
    let (target, mut fields) = (format!("pod/{pod}"), String::new());
    kubectl::watch_until("the role label to follow the role", watched(instance, &target, &mut fields), BACK, |_, object| {
        object["metadata"]["labels"]["valkey.buf.red/role"] == role
    })?;
    Ok(())
}

/// Deleted, a StatefulSet with its pods left behind; a successor is there, and has pods and claims of the former.
fn deleted(instance: &Instance, target: &str) -> Result {
    let former = kubectl::must_get(&instance.namespace, target)?["metadata"]["uid"].clone();
    let cascade = if target.starts_with("statefulset") { "--cascade=orphan" } else { "--cascade=background" };
    kubectl::run(&["delete", target, "--namespace", &instance.namespace, "--wait=false", cascade])?;
    let mut fields = String::new();
    let what = format!("a successor of {target}");
    kubectl::watch_until(&what, watched(instance, target, &mut fields), BACK, |kind, object| {
        kind != "DELETED" && object["metadata"]["uid"] != former && object["metadata"]["deletionTimestamp"].is_null()
    })?;
    Ok(())
}

fn accounts_are_kept(instance: &Instance) -> Result {
    for account in ACCOUNTS {
        let target = format!("secret/failover-acl-x-{account}-secret");
        let before = kubectl::must_get(&instance.namespace, &target)?;
        kubectl::run(&["delete", &target, "--namespace", &instance.namespace, "--wait=false"])?;
        let after = kubectl::must_get(&instance.namespace, &target)?;
        assert_eq!((&after["metadata"]["uid"], &after["data"]), (&before["metadata"]["uid"], &before["data"]), "{target}");
    }
    Ok(())
}
