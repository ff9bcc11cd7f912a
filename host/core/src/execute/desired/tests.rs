//! Whose objects are touched, and in which order.

use serde_json::{Value, json};
use vko_api::names;

use super::apply;
use crate::object::{Kind, ObjectId};
use crate::testing::{FakeWorld, mk_topology};
use crate::world::ApiError;

fn object(kind: Kind, name: &str, owner: &str) -> Value {
    let owners =
        json!([{"apiVersion": Kind::Failover.api_version(), "kind": "Failover", "name": "x", "uid": owner, "controller": true}]);
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners},
        "spec": {"a": 1},
    })
}

fn ours() -> Vec<Value> {
    vec![
        object(Kind::Service, "s", "topology"),
        object(Kind::ConfigMap, "c", "topology"),
        object(Kind::StatefulSet, "w", "topology"),
    ]
}

#[tokio::test]
async fn what_equals_the_live_object_is_not_sent() {
    let world = FakeWorld::default();
    assert_eq!(apply(&world, &mk_topology(), &ours()).await.written.len(), 3);
    assert_eq!(world.effects(), ["apply Service s", "apply ConfigMap c", "apply StatefulSet w"]);
    let before = world.state().requests;
    let again = apply(&world, &mk_topology(), &ours()).await;
    assert!(again.written.is_empty() && again.failed.is_empty());
    assert_eq!(world.state().requests, before, "not even a read");
}

/// Members that are removed are pods that end: what was decided on an old view must not take those of now.
#[tokio::test]
async fn a_workload_shrinks_only_from_the_state_that_was_seen() {
    let set = |members: u64| {
        let mut set = object(Kind::StatefulSet, "w", "topology");
        set["spec"] = json!({"replicas": members});
        set
    };
    let world = FakeWorld::default();
    let id = ObjectId::new(Kind::StatefulSet, "shop", "w");
    apply(&world, &mk_topology(), &[set(3)]).await;
    let seen = world.object(&id);
    apply(&world, &mk_topology(), &[set(5)]).await;
    world.state().stale.insert(id.clone(), seen);
    assert_eq!(apply(&world, &mk_topology(), &[set(1)]).await.failed.len(), 1, "the cache lags behind five members");
    assert_eq!(world.object(&id).unwrap()["spec"]["replicas"], 5);
    world.state().stale.clear();
    assert_eq!(apply(&world, &mk_topology(), &[set(3)]).await.written.len(), 1);
    assert_eq!(world.object(&id).unwrap()["spec"]["replicas"], 3);
}

#[tokio::test]
async fn an_edit_is_undone() {
    let world = FakeWorld::default();
    apply(&world, &mk_topology(), &ours()).await;
    let mut edited = world.object(&ObjectId::new(Kind::Service, "shop", "s")).unwrap();
    edited["spec"]["a"] = json!(2);
    world.state().put(edited);
    world.effects();
    let applied = apply(&world, &mk_topology(), &ours()).await;
    assert_eq!((world.effects(), applied.written[0].1.as_str()), (vec!["apply Service s".to_owned()], "spec.a"));
}

#[tokio::test]
async fn whose_object_it_is() {
    let labelled = |labels: Value, owner: &str| {
        let mut object = object(Kind::Service, "s", owner);
        object["metadata"]["labels"] = labels;
        if owner.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        }
        object["spec"] = json!({"a": 2});
        object
    };
    let managed = json!({names::MANAGED_BY: names::OPERATOR, names::INSTANCE: "x"});
    let table: Vec<(&str, Value, bool)> = vec![
        ("owned by the topology object", labelled(json!({}), "topology"), true),
        ("of the same Valkey", labelled(json!({names::VALKEY_UID: "valkey"}), ""), true),
        ("released, with our labels", labelled(managed.clone(), ""), true),
        ("nobody's", labelled(json!({}), ""), false),
        ("another owner's", labelled(json!({}), "stranger"), false),
        ("another owner's, with our labels", labelled(managed, "stranger"), false),
        ("of another instance", labelled(json!({names::MANAGED_BY: names::OPERATOR, names::INSTANCE: "y"}), ""), false),
    ];
    for (case, live, touched) in table {
        let world = FakeWorld::default();
        world.state().put(live);
        let applied = apply(&world, &mk_topology(), &ours()[..1]).await;
        assert_eq!(world.effects().len(), usize::from(touched), "{case}");
        assert_eq!(applied.failed.is_empty(), touched, "{case}: {:?}", applied.failed);
    }
    let world = FakeWorld::default();
    let mut unknown = mk_topology();
    (unknown.uid, unknown.valkey_uid) = (String::new(), String::new());
    world.state().put(labelled(json!({}), ""));
    assert_eq!(apply(&world, &unknown, &ours()[..1]).await.failed.len(), 1, "an identity that isn't known fits nothing");
}

#[tokio::test]
async fn one_that_fails_stops_no_other_but_the_stateful_set() {
    let world = FakeWorld::default();
    world.state().refusals.push(("apply Service".into(), ApiError::Invalid("no".into())));
    let applied = apply(&world, &mk_topology(), &ours()).await;
    assert_eq!(world.effects(), ["apply ConfigMap c"]);
    assert_eq!(applied.failed.len(), 1);
}

#[tokio::test]
async fn what_the_cache_lacks_is_asked_for_before_it_is_made() {
    let world = FakeWorld::default();
    let id = ObjectId::new(Kind::Service, "shop", "s");
    world.state().put(object(Kind::Service, "s", "stranger"));
    world.state().stale.insert(id, None);
    let applied = apply(&world, &mk_topology(), &ours()[..1]).await;
    assert!(matches!(applied.failed[0].1, ApiError::Conflict(_)));
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn an_object_that_is_being_deleted_is_left_alone() {
    let world = FakeWorld::default();
    let mut ending = object(Kind::Service, "s", "topology");
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    ending["metadata"]["finalizers"] = json!(["example.org/held"]);
    ending["spec"]["a"] = json!(2);
    world.state().put(ending);
    let applied = apply(&world, &mk_topology(), &ours()[..1]).await;
    assert!(applied.failed.is_empty() && applied.written.is_empty());
}
