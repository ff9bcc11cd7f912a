//! Topology objects of all kinds: Sentinels that stand alone, the Sentinel beside a Failover, a name that changes its
//! architecture.

use std::sync::Arc;

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::common::Architecture;
use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Violation};

use super::{change, count, info, mk_instance_of, mk_world, valkey, valkey_id};
use crate::guard::testing::mk_plan;
use crate::instance::{Instance, Next};
use crate::object::{Kind, ObjectId};
use crate::policy::{GuestError, Policy, PolicyInfo};
use crate::testing::{FakeMonitor, FakeSentinel, FakeWorld};
use crate::world::ApiError;

/// A policy that wants nothing, and shows a primary and a Sentinel.
struct Quiet(PolicyInfo);

impl Policy for Quiet {
    fn info(&self) -> &PolicyInfo {
        &self.0
    }
    fn decide(&self, _: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        let mut plan = mk_plan(Vec::new());
        plan.status.details =
            json!({"nodes": [{"role": "master"}, {"role": "Sentinel"}], "monitor": {"policy": "sentinel"}}).to_string();
        Ok(Ok(plan))
    }
    fn validate(&self, _: &str, _: &str) -> Result<Vec<Violation>, GuestError> {
        Ok(Vec::new())
    }
}

fn sentinel_id() -> ObjectId {
    ObjectId::new(Kind::Sentinel, "shop", "x")
}

fn instance_of(world: &Arc<FakeWorld>, architecture: Architecture) -> Instance<FakeWorld> {
    mk_instance_of(world, Arc::new(Quiet(PolicyInfo { architecture, ..info() })))
}

/// Sentinels as a person writes them.
fn standing() -> (Arc<FakeWorld>, Instance<FakeWorld>) {
    let world = Arc::new(FakeWorld::default());
    let metadata = json!({"name": "x", "namespace": "shop", "uid": "sentinel", "generation": 1, "finalizers": ["theirs"]});
    let object =
        json!({"apiVersion": Kind::Sentinel.api_version(), "kind": "Sentinel", "metadata": metadata, "spec": {"replicas": 5}});
    world.state().put(object);
    let instance = instance_of(&world, Architecture::Failover);
    (world, instance)
}

fn reason(object: &Value) -> &str {
    let ready = object["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
    ready["reason"].as_str().unwrap()
}

#[tokio::test]
async fn sentinels_that_stand_alone_are_an_instance_of_their_own() {
    let (world, mut instance) = standing();
    instance.look().await.unwrap();
    let object = world.object(&sentinel_id()).unwrap();
    assert_eq!(object["spec"], json!({"replicas": 5}), "as the person wrote it");
    assert_eq!(object["metadata"]["finalizers"], json!(["theirs", names::FINALIZER]));
    assert_eq!(object["status"]["ledger"]["formed"], false);
    for _ in 0..2 {
        instance.look().await.unwrap();
    }
    world.effects();
    instance.look().await.unwrap();
    assert_eq!(world.effects(), Vec::<String>::new(), "quiet");
}

#[tokio::test]
async fn a_valkey_of_their_name_is_told_and_they_stay() {
    let (world, mut instance) = standing();
    world.state().put(valkey());
    for _ in 0..2 {
        instance.look().await.unwrap();
    }
    assert_eq!(reason(&world.object(&valkey_id()).unwrap()), "TopologyForeign");
    assert_eq!((count(&world, Kind::Failover), count(&world, Kind::Sentinel)), (0, 1));
}

#[tokio::test]
async fn their_end_is_theirs_alone() {
    let (world, mut instance) = standing();
    instance.look().await.unwrap();
    change(&world, &sentinel_id(), |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z"));
    instance.look().await.unwrap();
    assert_eq!(world.object(&sentinel_id()).unwrap()["metadata"]["finalizers"], json!(["theirs"]));
    change(&world, &sentinel_id(), |object| object["metadata"]["finalizers"] = json!([]));
    assert_eq!(instance.look().await.unwrap(), Next::Gone);
}

#[tokio::test]
async fn a_spec_that_is_refused_is_told() {
    let (world, mut instance) = standing();
    change(&world, &sentinel_id(), |object| object["spec"]["replicas"] = json!(4));
    instance.look().await.unwrap();
    let object = world.object(&sentinel_id()).unwrap();
    assert_eq!((reason(&object), &object["status"]["phase"]), ("SpecInvalid", &json!("Failed")));
    assert_eq!(object["metadata"]["finalizers"], json!(["theirs"]), "nothing was made that would have to end");
}

fn with_sentinels() -> Arc<FakeWorld> {
    let world = mk_world();
    change(&world, &valkey_id(), |object| {
        object["spec"]["arch"] = json!("failover");
        object["spec"]["sentinel"] = json!({"replicas": 3});
    });
    world
}

#[tokio::test]
async fn a_failover_has_its_sentinels_shown_beside_it() {
    let world = with_sentinels();
    let mut instance = instance_of(&world, Architecture::Failover);
    for _ in 0..3 {
        instance.look().await.unwrap();
    }
    let failover = world.object(&ObjectId::new(Kind::Failover, "shop", "x")).unwrap();
    let sentinel = world.object(&sentinel_id()).unwrap();
    assert_eq!(sentinel["metadata"]["ownerReferences"][0]["uid"], failover["metadata"]["uid"]);
    assert_eq!(sentinel["spec"]["replicas"], 3);
    assert_eq!(sentinel["status"]["nodes"], json!([{"role": "Sentinel"}]));
    assert_eq!(failover["status"]["monitor"], json!({"policy": "sentinel"}));
    assert_eq!(sentinel["status"].get("ledger"), None, "a view");
}

#[tokio::test]
async fn a_persons_sentinels_are_not_taken_over() {
    let world = with_sentinels();
    let mut instance = instance_of(&world, Architecture::Failover);
    for _ in 0..2 {
        instance.look().await.unwrap();
    }
    let metadata = json!({"name": "x", "namespace": "shop", "uid": "theirs", "generation": 1});
    world.state().objects.remove(&sentinel_id());
    let object =
        json!({"apiVersion": Kind::Sentinel.api_version(), "kind": "Sentinel", "metadata": metadata, "spec": {"replicas": 5}});
    world.state().put(object);
    instance.look().await.unwrap();
    let sentinel = world.object(&sentinel_id()).unwrap();
    assert_eq!((reason(&sentinel), &sentinel["spec"]), ("NameTaken", &json!({"replicas": 5})));
}

#[tokio::test]
async fn a_view_that_can_not_be_written_is_told_once_and_harms_nothing() {
    let world = with_sentinels();
    let mut instance = instance_of(&world, Architecture::Failover);
    instance.look().await.unwrap();
    world.state().objects.remove(&sentinel_id());
    let refused = || ("apply Sentinel x".to_owned(), ApiError::Forbidden("no".into()));
    world.state().refusals.extend([refused(), refused(), refused()]);
    world.effects();
    for _ in 0..3 {
        instance.look().await.unwrap();
    }
    let failover = world.object(&ObjectId::new(Kind::Failover, "shop", "x")).unwrap();
    assert_eq!(reason(&failover), "PolicySilent", "the policy's word on Ready, not the host's");
    assert_eq!(world.effects().iter().filter(|effect| effect.contains("SentinelNotShown")).count(), 1);
    instance.look().await.unwrap();
    assert_eq!(count(&world, Kind::Sentinel), 1, "tried again");
}

/// Where the Sentinels are that an instance refers to, as the fake world knows them.
fn elsewhere(last: u8) -> String {
    format!("sentinel 10.9.0.{last} 26379")
}

/// An instance that refers to three Sentinels, which watch another data set, too; its end begins.
async fn ending_beside_shared_sentinels() -> (Arc<FakeWorld>, Instance<FakeWorld>) {
    let world = with_sentinels();
    change(&world, &valkey_id(), |object| {
        let nodes = [1, 2, 3].map(|last| json!({"ip": format!("10.9.0.{last}"), "port": 26379}));
        object["spec"]["sentinel"] = json!({"sentinelReference": {"nodes": nodes}});
    });
    for last in 1..=3 {
        let watched = |name: &str| (name.to_owned(), FakeMonitor::of("10.0.0.1"));
        let monitors = [watched("shop.x"), watched("shop.y")].into();
        let name = format!("s{last}");
        let sentinel = FakeSentinel { name, monitors, silent: false, stuck: false, ignores: Vec::new() };
        world.state().sentinels.insert(elsewhere(last), sentinel);
    }
    let mut instance = instance_of(&world, Architecture::Failover);
    for _ in 0..2 {
        instance.look().await.unwrap();
    }
    world.state().objects.remove(&valkey_id());
    change(&world, &ObjectId::new(Kind::Failover, "shop", "x"), |object| {
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    });
    world.effects();
    (world, instance)
}

fn watched_by(world: &FakeWorld, last: u8) -> Vec<String> {
    world.sentinel(&elsewhere(last)).monitors.into_keys().collect()
}

#[tokio::test]
async fn the_end_of_an_instance_takes_its_own_monitor_off_shared_sentinels() {
    let (world, mut instance) = ending_beside_shared_sentinels().await;
    instance.look().await.unwrap();
    for last in 1..=3 {
        assert_eq!(watched_by(&world, last), ["shop.y"], "{last}");
    }
    assert!(!world.effects().iter().any(|effect| effect.contains("MonitorLeftBehind")));
}

#[tokio::test]
async fn a_shared_sentinel_that_does_not_answer_is_told_and_holds_nothing_up() {
    let (world, mut instance) = ending_beside_shared_sentinels().await;
    world.state().sentinels.get_mut(&elsewhere(2)).unwrap().silent = true;
    instance.look().await.unwrap();
    assert_eq!((watched_by(&world, 1), watched_by(&world, 2).len()), (vec!["shop.y".to_owned()], 2));
    assert!(world.effects().iter().any(|effect| effect.contains("MonitorLeftBehind")));
    assert_eq!(world.object(&ObjectId::new(Kind::Failover, "shop", "x")), None, "it is gone");
}

#[tokio::test]
async fn another_architecture_under_the_same_name_waits_for_the_end_of_the_first() {
    let world = mk_world();
    let mut instance = instance_of(&world, Architecture::Replica);
    for _ in 0..2 {
        instance.look().await.unwrap();
    }
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {
        "name": "rfr-x", "namespace": "shop", "uid": "set", "labels": {names::INSTANCE: "x"}, "finalizers": ["kept"],
    }});
    world.state().put(set);
    change(&world, &valkey_id(), |object| object["spec"]["arch"] = json!("cluster"));
    instance.look().await.unwrap();
    let refused = world.object(&valkey_id()).unwrap();
    let accepted = refused["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Accepted").unwrap().clone();
    assert_eq!((accepted["reason"].as_str(), count(&world, Kind::Cluster)), (Some("ChangeRefused"), 0), "the same Valkey");
    // Deleted and made anew as a cluster, while the Failover of before is on its way out.
    change(&world, &valkey_id(), |object| object["metadata"]["uid"] = json!("anew"));
    change(&world, &ObjectId::new(Kind::Failover, "shop", "x"), |object| {
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    });
    instance.look().await.unwrap();
    let set = world.object(&ObjectId::new(Kind::StatefulSet, "shop", "rfr-x")).unwrap();
    assert!(set["metadata"]["deletionTimestamp"].is_string(), "ended, not handed to the cluster");
    assert_eq!(set["metadata"].get("ownerReferences"), None);
}
