//! What the world promises, against an API server: the one in memory, or a real one (see [`bed`]).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;

use std::sync::Arc;
use std::time::Duration;

use bed::{Bed, apply_raw, bounded, create_raw, get_raw};
use kube::core::Request;
use serde_json::{Value, json};
use vko_core::composite::Composite;
use vko_core::lease::{Elector, LeaseOptions, Transition};
use vko_core::object::{Kind, Object, ObjectId};
use vko_core::world::{ApiError, Delete, EventNote, Kube};
use vko_kube::SystemClock;

fn delete(uid: &str) -> Delete {
    Delete { uid: uid.to_owned(), grace_seconds: None, orphan: false }
}

#[tokio::test]
async fn applying_twice_leaves_the_version_as_it_is() {
    let bed = Bed::new("apply-twice").await;
    let object = bed.object(Kind::ConfigMap, "a", json!({"data": {"x": "1"}}));
    let first = bed.world.apply(&object).await.unwrap();
    let second = bed.world.apply(&object).await.unwrap();
    assert_eq!(first.resource_version(), second.resource_version());
    assert_eq!(first, second, "and the answer looks the same: nothing of it depends on when it was asked");
    assert_eq!(first.text("/metadata/managedFields/0/manager"), "valkey-operator");
}

#[tokio::test]
async fn a_field_that_the_server_does_not_know_is_refused() {
    let bed = Bed::new("strict").await;
    let object = bed.object(Kind::Service, "a", json!({"spec": {"ports": [{"port": 1, "name": "x"}], "selectr": {"a": "b"}}}));
    let refused = bed.world.apply(&object).await.unwrap_err();
    assert!(matches!(&refused, ApiError::Invalid(text) if text.contains("selectr")), "{refused}");
}

#[tokio::test]
async fn a_refused_secret_is_not_quoted() {
    let bed = Bed::new("secret-quote").await;
    let object = bed.object(Kind::Secret, "a", json!({"data": {"password": ["hunter2"]}}));
    let refused = bed.world.apply(&object).await.unwrap_err();
    assert!(matches!(&refused, ApiError::Invalid(text) if !text.contains("hunter2")), "{refused}");
}

#[tokio::test]
async fn own_writes_are_read_at_once_and_others_changes_arrive() {
    let bed = Bed::new("own-writes").await;
    let id = bed.id(Kind::ConfigMap, "a");
    let written = bed.world.apply(&bed.object(Kind::ConfigMap, "a", json!({"data": {"x": "1"}}))).await.unwrap();
    assert_eq!(bed.world.cached(&id), Some(written.clone()), "without waiting for the watch");
    assert_eq!(bed.world.cached_of(Kind::ConfigMap, &bed.namespace, "one"), [written]);
    let others = bed.patch(&bed.path("api/v1", "configmaps"), "a", &json!({"data": {"x": "2"}})).await;
    bed.until("somebody else's change", |world| {
        world.cached(&id).filter(|seen| seen.resource_version() == others.resource_version() && seen.text("/data/x") == "2")
    })
    .await;
    bed.patch(&bed.path("api/v1", "configmaps"), "a", &json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}))
        .await;
    bed.until("that it isn't ours any more", |world| world.cached(&id).is_none().then_some(())).await;
    assert!(bed.world.get(&id).await.unwrap().is_some(), "past the cache it is there");
    assert!(bed.world.cache_age(Kind::ConfigMap).unwrap() < vko_kube::CACHE_AGE_MAX);
}

#[tokio::test]
async fn creating_never_overwrites() {
    let bed = Bed::new("create").await;
    let object = bed.object(Kind::Secret, "a", json!({"stringData": {"password": "p"}}));
    bed.world.create(&object).await.unwrap();
    assert!(matches!(bed.world.create(&object).await, Err(ApiError::AlreadyExists(_))));
}

#[tokio::test]
async fn a_delete_is_bound_to_the_object_that_was_seen() {
    let bed = Bed::new("delete").await;
    let id = bed.id(Kind::ConfigMap, "a");
    let object = bed.world.apply(&bed.object(Kind::ConfigMap, "a", json!({}))).await.unwrap();
    let wrong = bed.world.delete(&id, delete("11111111-2222-3333-4444-555555555555")).await;
    assert!(matches!(wrong, Err(ApiError::Conflict(_))), "{wrong:?}");
    bed.world.delete(&id, delete(object.uid())).await.unwrap();
    bed.until("that it is gone", |world| world.cached(&id).is_none().then_some(())).await;
    bed.world.delete(&id, delete(object.uid())).await.unwrap();
}

#[tokio::test]
async fn an_object_with_a_finalizer_is_seen_to_be_deleted_at_once() {
    let bed = Bed::new("finalizer").await;
    let id = bed.id(Kind::Secret, "a");
    let rest = json!({"metadata": {"finalizers": ["buf.red/secret-in-use"]}});
    let object = bed.world.create(&bed.object(Kind::Secret, "a", rest)).await.unwrap();
    bed.world.delete(&id, delete(object.uid())).await.unwrap();
    assert!(bed.world.cached(&id).unwrap().deleting());
    let patch = json!({"metadata": {"finalizers": null, "uid": object.uid()}});
    bed.world.merge(&id, &patch).await.unwrap();
    bed.until("that it is gone", |world| world.cached(&id).is_none().then_some(())).await;
}

#[tokio::test]
async fn a_put_under_an_old_version_conflicts() {
    let bed = Bed::new("put").await;
    let spec = json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    let object = bed.world.apply(&bed.object(Kind::PodDisruptionBudget, "a", spec)).await.unwrap();
    let mut wanted = (*object.0).clone();
    wanted["metadata"]["annotations"] = json!({"n": "1"});
    // The controller writes this object's status at times: take the newest until nobody was faster.
    let written = loop {
        match bed.world.replace(&wanted).await {
            Err(ApiError::Conflict(_)) => {
                let id = bed.id(Kind::PodDisruptionBudget, "a");
                wanted["metadata"]["resourceVersion"] = json!(bed.world.get(&id).await.unwrap().unwrap().resource_version());
            }
            other => break other.unwrap(),
        }
    };
    assert_eq!(written.annotation("n"), "1");
    let managers =
        get_raw(&bed.other, &bed.path("apis/policy/v1", "poddisruptionbudgets"), "a").await["metadata"]["managedFields"].clone();
    let applied = managers.as_array().unwrap().iter().any(|entry| entry["operation"] == "Apply");
    assert!(applied, "a PUT of the pruned object leaves ownership as it was: {managers}");
    assert!(matches!(bed.world.replace(&wanted).await, Err(ApiError::Conflict(_))), "now the version is old");
}

#[tokio::test]
async fn a_status_is_written_under_its_version() {
    let bed = Bed::new("status").await;
    let spec = json!({"spec": {"version": "9.1", "arch": "replica", "replicas": {"replicasOfShard": 1},
        "resources": {"limits": {"memory": "64Mi"}}}});
    let object = bed.world.create(&bed.object(Kind::Valkey, "one", spec)).await.unwrap();
    let mut wanted = (*object.0).clone();
    wanted["status"] = json!({"message": "hello"});
    let written = bed.world.replace_status(&wanted).await.unwrap();
    assert_eq!(written.text("/status/message"), "hello");
    assert_eq!(bed.world.cached(&bed.id(Kind::Valkey, "one")), Some(written.clone()));
    wanted["status"]["message"] = json!("late");
    assert!(matches!(bed.world.replace_status(&wanted).await, Err(ApiError::Conflict(_))));
    let again = bed.world.replace_status(&written.0).await.unwrap();
    assert_eq!(again.resource_version(), written.resource_version(), "the same status again is no write");
}

/// One container that runs until it is told to stop.
fn pod(bed: &Bed) -> Value {
    let command = ["valkey-server", "--save", "", "--bind", "$(POD_IP)"];
    let env = json!([{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    let container = json!({"name": "valkey", "image": "valkey/valkey:9.1", "imagePullPolicy": "IfNotPresent", "command": command, "env": env});
    let spec = json!({"terminationGracePeriodSeconds": 5, "automountServiceAccountToken": false, "containers": [container]});
    bed.object(Kind::Pod, "a", json!({"metadata": {"annotations": {"example.com/x": "y"}}, "spec": spec}))
}

#[tokio::test]
async fn an_eviction_is_bound_to_the_pod_that_was_seen_and_asks_the_budget() {
    let bed = Bed::new("evict").await;
    let id = bed.id(Kind::Pod, "a");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": bed.namespace}});
    apply_raw(&bed.other, &bed.path("api/v1", "serviceaccounts"), &account).await;
    create_raw(&bed.other, &bed.path("api/v1", "pods"), &pod(&bed)).await;
    let ready = |pod: &Object| {
        let conditions = pod.list("/status/conditions");
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let running = bed.until("a ready pod", |world| world.cached(&id).filter(ready)).await;
    assert_eq!(running.0.pointer("/spec/containers/0"), Some(&json!({"name": "valkey", "image": "valkey/valkey:9.1"})));
    assert_eq!(running.0.pointer("/metadata/annotations"), None);
    let wrong = bed.world.evict(&bed.namespace, "a", "11111111-2222-3333-4444-555555555555").await;
    assert!(matches!(wrong, Err(ApiError::Conflict(_))), "{wrong:?}");
    let budget = json!({"spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"buf.red/name": "one"}}}});
    let budget = bed.world.apply(&bed.object(Kind::PodDisruptionBudget, "a", budget)).await.unwrap();
    let budget_id = bed.id(Kind::PodDisruptionBudget, "a");
    bed.until("the controller's word on the budget", |world| {
        world.cached(&budget_id).filter(|budget| budget.number("/status/observedGeneration") == Some(1))
    })
    .await;
    let blocked = bed.world.evict(&bed.namespace, "a", running.uid()).await;
    assert!(matches!(blocked, Err(ApiError::TooManyRequests(_))), "{blocked:?}");
    bed.world.delete(&budget_id, delete(budget.uid())).await.unwrap();
    bed.world.evict(&bed.namespace, "a", running.uid()).await.unwrap();
    bed.until("that it is gone", |world| world.cached(&id).is_none().then_some(())).await;
}

#[tokio::test]
async fn a_heartbeat_wakes_nobody() {
    let bed = Bed::new("heartbeat").await;
    let node = bed.world.cached_all(Kind::Node).first().cloned().expect("a cluster with a node");
    let id = ObjectId::new(Kind::Node, "", node.name());
    let mut changes = bed.world.changes();
    let beat = json!({"metadata": {"annotations": {"example.com/beat": bed.namespace}}});
    let beaten = bed.patch("/api/v1/nodes", node.name(), &beat).await;
    // Something that does matter, and comes after the beat on the same watch: when it is here, the beat has been.
    let taint = json!({"key": "example.com/test", "value": bed.namespace, "effect": "PreferNoSchedule"});
    let taints: Vec<_> = node.list("/spec/taints").iter().cloned().chain([taint]).collect();
    bed.patch("/api/v1/nodes", node.name(), &json!({"spec": {"taints": taints}})).await;
    let first = bounded(async {
        loop {
            if let Some(change) = bed::next(&mut changes).await.filter(|change| change.id == id) {
                return change;
            }
        }
    })
    .await;
    assert_eq!(first.instance, "");
    let seen = bed.world.cached(&id).unwrap();
    assert!(
        seen.list("/spec/taints").iter().any(|taint| taint["value"] == bed.namespace.as_str()),
        "the first change is the taint"
    );
    assert_ne!(seen.resource_version(), beaten.resource_version());
    bed.patch("/api/v1/nodes", node.name(), &json!({"spec": {"taints": node.list("/spec/taints")}})).await;
}

#[tokio::test]
async fn the_same_event_again_is_counted() {
    let bed = Bed::new("events").await;
    let object = bed.world.apply(&bed.object(Kind::ConfigMap, "a", json!({}))).await.unwrap();
    let note = |text: &str| EventNote { reason: "Blocked".to_owned(), note: text.to_owned(), warning: true };
    for text in ["waits for a", "waits for a", "waits for b"] {
        bed.world.event(&object, note(text)).await;
    }
    let path = bed.path("apis/events.k8s.io/v1", "events");
    let list: Value = bed.other.request(Request::new(path).list(&Default::default()).unwrap()).await.unwrap();
    let mut events: Vec<_> = list["items"].as_array().unwrap().iter().collect();
    events.sort_by_key(|event| event["note"].as_str());
    let found: Vec<_> = events.iter().map(|event| (event["note"].as_str().unwrap(), event["series"]["count"].as_u64())).collect();
    assert_eq!(found, [("waits for a", Some(2)), ("waits for b", None)]);
    assert_eq!(events[0]["regarding"]["uid"], object.uid());
    assert_eq!(events[0]["type"], "Warning");
}

#[tokio::test]
async fn one_of_two_electors_holds_the_lease_and_hands_it_over() {
    let bed = Bed::new("lease").await;
    let elect = || {
        let world = Arc::new(Composite { kube: bed.world.clone(), servers: (), clock: SystemClock::new() });
        let identity = LeaseOptions::identity("operator", &world.clock);
        let options = LeaseOptions { namespace: bed.namespace.clone(), name: "operator".to_owned(), identity };
        let (elector, state) = Elector::new(world, options);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(elector.run(async move {
            let _ = stopped.await;
        }));
        (state, stop, task)
    };
    let acquired = |transition: &Transition| matches!(transition, Transition::Acquired { after_ungraceful: false, .. });
    let (first, stop, task) = elect();
    bounded(first.transitions().wait_for(acquired)).await.unwrap();
    assert!(first.covers(Duration::from_secs(8)));
    let (second, _stop, _task) = elect();
    stop.send(()).unwrap();
    bounded(task).await.unwrap();
    assert!(!first.is_leader());
    bounded(second.transitions().wait_for(acquired)).await.unwrap();
    let lease = bed.world.get(&bed.id(Kind::Lease, "operator")).await.unwrap().unwrap();
    assert_eq!(lease.number("/spec/leaseTransitions"), Some(1));
    assert!(bed.world.cached(&bed.id(Kind::Lease, "operator")).is_none(), "leases are read, not watched");
}

#[tokio::test]
async fn a_field_changes_hands_by_force_only() {
    let bed = Bed::new("hands").await;
    let ours = bed.object(Kind::ConfigMap, "a", json!({"data": {"x": "1"}}));
    bed.world.apply(&ours).await.unwrap();
    let mut theirs = ours.clone();
    theirs["data"] = json!({"x": "2", "y": "1"});
    let params = kube::api::PatchParams::apply("somebody");
    let request = |params: &kube::api::PatchParams| {
        Request::new(bed.path("api/v1", "configmaps")).patch("a", params, &kube::api::Patch::Apply(&theirs)).unwrap()
    };
    let refused = bed.other.request::<Value>(request(&params)).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
    bed.other.request::<Value>(request(&params.force())).await.unwrap();
    let back = bed.world.apply(&ours).await.unwrap();
    assert_eq!((back.text("/data/x"), back.text("/data/y")), ("1", "1"), "what they own beside us stays");
    let fields = &back.0["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert_eq!(*fields, json!({"f:x": {}}), "and is theirs");
    let less = bed.object(Kind::ConfigMap, "a", json!({}));
    let left = bed.world.apply(&less).await.unwrap();
    assert_eq!(left.0["data"], json!({"y": "1"}), "what we don't apply any more goes");
}

#[tokio::test]
async fn children_go_with_their_owner_or_are_left() {
    let bed = Bed::new("children").await;
    for orphan in [false, true] {
        let owner = bed.world.apply(&bed.object(Kind::ConfigMap, "owner", json!({}))).await.unwrap();
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
        let child = json!({"metadata": {"ownerReferences": [reference]}});
        bed.world.apply(&bed.object(Kind::ConfigMap, "child", child)).await.unwrap();
        let (owner_id, child_id) = (bed.id(Kind::ConfigMap, "owner"), bed.id(Kind::ConfigMap, "child"));
        bed.world.delete(&owner_id, Delete { orphan, ..delete(owner.uid()) }).await.unwrap();
        bed.until("that the owner is gone", |world| world.cached(&owner_id).is_none().then_some(())).await;
        if orphan {
            let left = bed.until("the child", |world| world.cached(&child_id)).await;
            assert!(left.list("/metadata/ownerReferences").is_empty(), "released before its owner went");
        } else {
            bed.until("that the child is gone", |world| world.cached(&child_id).is_none().then_some(())).await;
        }
    }
}

/// What goes wrong on the way: only the API server in memory can be told to.
#[cfg(not(feature = "apiserver-tests"))]
mod faults {
    use super::*;
    use vko_apiserver::fault::{Act, Fault};

    fn fault(verb: &str, act: Act) -> Fault {
        Fault {
            verb: verb.into(),
            resource: "configmaps".into(),
            name: "a".into(),
            client: "operator".into(),
            after: 0,
            times: 1,
            act,
        }
    }

    #[tokio::test]
    async fn without_its_token_nobody_is_answered() {
        let bed = Bed::new("token").await;
        for token in ["", "x"] {
            let found = vko_kube::KubeWorld::at(&bed.url(), token, &bed.options()).await;
            let refused = found.map(drop).unwrap_err().to_string();
            assert!(refused.contains("Unauthorized"), "{token:?}: {refused}");
        }
    }

    #[tokio::test]
    async fn whatever_becomes_of_a_watch_the_cache_ends_right() {
        for act in [Act::Double, Act::End, Act::Break, Act::Expire, Act::Delay { ms: 200 }, Act::Drop] {
            let bed = Bed::new("watch-faults").await;
            let id = bed.id(Kind::ConfigMap, "a");
            bed.world.apply(&bed.object(Kind::ConfigMap, "a", json!({"data": {"x": "1"}}))).await.unwrap();
            bed.faults().add(fault("watch", act.clone()));
            let path = bed.path("api/v1", "configmaps");
            // An event that is lost is made good by the next one of the same object, and by nothing before.
            for x in ["2", "3"] {
                bed.patch(&path, "a", &json!({"data": {"x": x}})).await;
            }
            bed.until(&format!("the last change, {act:?}"), |world| world.cached(&id).filter(|seen| seen.text("/data/x") == "3"))
                .await;
            assert!(bed.faults().left().is_empty(), "{act:?}");
        }
    }

    #[tokio::test]
    async fn a_write_whose_answer_is_lost_has_happened() {
        let bed = Bed::new("answer-lost").await;
        bed.faults().add(fault("apply", Act::Break));
        let lost = bed.world.apply(&bed.object(Kind::ConfigMap, "a", json!({"data": {"x": "1"}}))).await;
        assert!(matches!(lost, Err(ApiError::Unavailable(_))), "{lost:?}");
        let id = bed.id(Kind::ConfigMap, "a");
        bed.until("what was written", |world| world.cached(&id)).await;
    }

    #[tokio::test]
    async fn refusals_are_sorted_by_their_code() {
        let bed = Bed::new("refusals").await;
        let object = bed.object(Kind::ConfigMap, "a", json!({}));
        for (code, sorted) in [
            (409, (|error| matches!(error, ApiError::Conflict(_))) as fn(&ApiError) -> bool),
            (429, |error| matches!(error, ApiError::TooManyRequests(_))),
            (500, |error| matches!(error, ApiError::Unavailable(_))),
            (504, |error| matches!(error, ApiError::Timeout(_))),
        ] {
            bed.faults().add(fault("apply", Act::Refuse { code }));
            let refused = bed.world.apply(&object).await.unwrap_err();
            assert!(sorted(&refused), "{code}: {refused}");
        }
        assert!(bed.world.get(&bed.id(Kind::ConfigMap, "a")).await.unwrap().is_none(), "nothing has happened");
        bed.world.apply(&object).await.unwrap();
    }
}

/// Below Kubernetes: only the test bed can be struck there.
#[cfg(feature = "apiserver-tests")]
mod struck {
    use super::*;

    /// Runs the test bed's script. It must be the one whose API server KUBECONFIG names.
    fn testbed(arguments: &[&str]) {
        let script = std::env::var("VKO_TESTBED").expect("VKO_TESTBED names the test bed's script; './dev test' sets it");
        let status = std::process::Command::new(script).args(arguments).status().unwrap();
        assert!(status.success(), "testbed {arguments:?}: {status}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_hangs_is_a_timeout_and_nothing_waits_for_ever() {
        let bed = Bed::new("hang").await;
        let id = bed.id(Kind::ConfigMap, "a");
        let object = |x: &str| bed.object(Kind::ConfigMap, "a", json!({"data": {"x": x}}));
        bed.world.apply(&object("1")).await.unwrap();
        testbed(&["pause", "kube-apiserver"]);
        let hung = bounded(bed.world.apply(&object("2"))).await;
        testbed(&["resume", "kube-apiserver"]);
        assert_eq!(hung, Err(ApiError::Timeout(vko_kube::REQUEST_DEADLINE)));
        bed.patch(&bed.path("api/v1", "configmaps"), "a", &json!({"data": {"x": "3"}})).await;
        bed.until("the change afterwards", |world| world.cached(&id).filter(|seen| seen.text("/data/x") == "3")).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn watches_survive_a_restart_of_the_api_server() {
        let bed = Bed::new("restart").await;
        let id = bed.id(Kind::ConfigMap, "a");
        let before = bed.world.apply(&bed.object(Kind::ConfigMap, "a", json!({"data": {"x": "1"}}))).await.unwrap();
        testbed(&["stop", "kube-apiserver"]);
        let refused = bed.world.apply(&bed.object(Kind::ConfigMap, "a", json!({"data": {"x": "2"}}))).await;
        testbed(&["start", "kube-apiserver"]);
        assert!(matches!(refused, Err(ApiError::Unavailable(_))), "{refused:?}");
        assert_eq!(bed.world.cached(&id), Some(before), "what was known stays known");
        let path = bed.path("api/v1", "configmaps");
        let patch = json!({"data": {"x": "3"}});
        // The API server may still be starting: the first answer that is one counts.
        bounded(async {
            loop {
                let request = Request::new(&path).patch("a", &Default::default(), &kube::api::Patch::Merge(&patch)).unwrap();
                match bed.other.request::<Value>(request).await {
                    Ok(_) => break,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        bed.until("the change after the restart", |world| world.cached(&id).filter(|seen| seen.text("/data/x") == "3")).await;
        let failures: u64 = bed.world.requests().iter().filter(|c| c.verb == "watch" && c.outcome != "ok").map(|c| c.count).sum();
        assert!(failures > 0, "and the failures were counted");
    }
}
