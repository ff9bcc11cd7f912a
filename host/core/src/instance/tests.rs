//! Looks, from a Valkey that was just written to one that is gone.

mod fields;
mod kinds;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use vko_api::images::Images;
use vko_api::names;
use vko_wit::common::Architecture;
use vko_wit::observation::{Observed, Outcome, OutcomeKind};
use vko_wit::planning::{Operation, Phase, Plan, PolicyError, Severity, Step, Track, Violation};

use super::rest::LOOKS;
use super::{Instance, Key, Next, Shared};
use crate::guard::testing::mk_plan;
use crate::journal::Journal;
use crate::lease::{Elector, LeaseOptions, LeaseState};
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::object::{Kind, ObjectId};
use crate::policy::{GuestError, Policy, PolicyInfo};
use crate::registry::Registry;
use crate::testing::{FakeWorld, mk_settings, topology_id};
use crate::world::{ApiError, Clock};

/// A policy that wants three members, and refuses a spec that asks for five.
struct Plain(PolicyInfo);

impl Policy for Plain {
    fn info(&self) -> &PolicyInfo {
        &self.0
    }
    fn decide(&self, observed: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        let mut plan = mk_plan(Vec::new());
        plan.status.phase = Phase::Initializing;
        plan.desired = crate::render::testing::desired(&observed.instance.name, 3);
        Ok(Ok(plan))
    }
    fn validate(&self, spec: &str, _: &str) -> Result<Vec<Violation>, GuestError> {
        let five = serde_json::from_str::<Value>(spec).unwrap()["replicas"] == 5;
        let violation = || Violation { severity: Severity::Error, field: "replicas".into(), message: "five are too many".into() };
        Ok(five.then(violation).into_iter().collect())
    }
}

/// A policy that asks for what is always refused, and keeps what it was told of it.
struct Stubborn(PolicyInfo, Mutex<Vec<Outcome>>);

impl Policy for Stubborn {
    fn info(&self) -> &PolicyInfo {
        &self.0
    }
    fn decide(&self, observed: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        self.1.lock().unwrap().clone_from(&observed.recent);
        let operation = Operation::Evict("nobody".into());
        let step = Step { operation, reason: "why".into(), expects: Vec::new(), consent: String::new() };
        Ok(Ok(mk_plan(vec![Track { subject: "member 0".into(), steps: vec![step] }])))
    }
    fn validate(&self, _: &str, _: &str) -> Result<Vec<Violation>, GuestError> {
        Ok(Vec::new())
    }
}

fn info() -> PolicyInfo {
    let (name, version, digest) = ("replica".into(), "1.0.0".into(), "native".into());
    PolicyInfo { name, architecture: Architecture::Replica, version, digest, server_lines: Vec::new() }
}

fn built_in() -> Arc<dyn Policy> {
    Arc::new(Plain(info()))
}

fn mk_instance(world: &Arc<FakeWorld>) -> Instance<FakeWorld> {
    mk_instance_of(world, built_in())
}

fn mk_instance_of(world: &Arc<FakeWorld>, policy: Arc<dyn Policy>) -> Instance<FakeWorld> {
    mk_instance_under(world, policy, LeaseState::alone(world.clone()))
}

fn mk_instance_under(world: &Arc<FakeWorld>, policy: Arc<dyn Policy>, lease: LeaseState) -> Instance<FakeWorld> {
    let shared = Shared {
        world: world.clone(),
        settings: Arc::new(mk_settings()),
        images: Arc::new(Images { lines: [("9.1".to_owned(), "valkey/valkey:9.1.1".to_owned())].into(), ..Images::default() }),
        lease,
        registry: Arc::new(Registry::new(vec![policy])),
        metrics: Metrics::default(),
    };
    let key = Key { namespace: "shop".into(), name: "x".into() };
    Instance::new(Arc::new(shared), key, Arc::new(Notify::new()), Arc::new(Journal::default()), false)
}

/// The least there is to write.
fn valkey() -> Value {
    json!({
        "apiVersion": Kind::Valkey.api_version(),
        "kind": "Valkey",
        "metadata": {"name": "x", "namespace": "shop", "uid": "valkey", "generation": 1},
        "spec": {
            "version": "9.1",
            "arch": "replica",
            "replicas": {"replicasOfShard": 3},
            "resources": {"limits": {"memory": "256Mi"}},
        },
    })
}

fn valkey_id() -> ObjectId {
    ObjectId::new(Kind::Valkey, "shop", "x")
}

/// A world with a Valkey in it.
fn mk_world() -> Arc<FakeWorld> {
    let world = Arc::new(FakeWorld::default());
    world.state().put(valkey());
    world
}

/// A world in which an instance is as declared, but for its pods, which nothing makes here.
async fn made() -> (Arc<FakeWorld>, Instance<FakeWorld>) {
    let world = mk_world();
    let mut instance = mk_instance(&world);
    for _ in 0..3 {
        instance.look().await.unwrap();
    }
    world.effects();
    (world, instance)
}

fn change(world: &FakeWorld, id: &ObjectId, change: impl FnOnce(&mut Value)) {
    let mut object = world.object(id).unwrap();
    change(&mut object);
    world.state().put(object);
}

fn ledger(world: &FakeWorld) -> Ledger {
    Ledger::read(world.object(&topology_id()).unwrap().get("status"))
}

fn count(world: &FakeWorld, kind: Kind) -> usize {
    world.state().objects.keys().filter(|id| id.kind == kind).count()
}

#[tokio::test]
async fn everything_is_made_and_then_nothing_more_is_sent() {
    let world = mk_world();
    let mut instance = mk_instance(&world);
    instance.look().await.unwrap();
    let effects = world.effects();
    assert_eq!(effects[0], "apply Failover x");
    let position = |wanted: &str| {
        effects.iter().position(|effect| effect.starts_with(wanted)).unwrap_or_else(|| panic!("{wanted}: {effects:?}"))
    };
    assert!(
        position("status x") < position("apply StatefulSet"),
        "that nothing was formed is remembered before anything can hold data"
    );
    assert!(
        position("apply ConfigMap") < position("apply StatefulSet") && position("create Secret") < position("apply StatefulSet")
    );
    assert_eq!(ledger(&world).formed, Some(false));
    assert_eq!(world.object(&valkey_id()).unwrap()["status"]["phase"], "Initializing");

    instance.look().await.unwrap();
    world.effects();
    let requests = world.state().requests;
    let next = instance.look().await.unwrap();
    assert_eq!(
        (world.effects(), world.state().requests - requests),
        (Vec::<String>::new(), 0),
        "a quiet instance costs no request"
    );
    assert!(matches!(next, Next::After(_)));
}

#[tokio::test]
async fn a_look_that_ends_anywhere_is_made_good_by_the_next_process() {
    let (whole, _) = made().await;
    let effects = {
        let world = mk_world();
        mk_instance(&world).look().await.unwrap();
        world.effects().len()
    };
    for end in 0..effects {
        let world = mk_world();
        world.state().ends_after = Some(end);
        let _ = mk_instance(&world).look().await;
        world.state().ends_after = None;
        let mut next = mk_instance(&world);
        for _ in 0..3 {
            next.look().await.unwrap();
        }
        let kinds = |world: &FakeWorld| world.state().objects.keys().map(|id| (id.kind, id.name.clone())).collect::<Vec<_>>();
        assert_eq!(kinds(&world), kinds(&whole), "ended after {end}");
        assert_eq!(ledger(&world).formed, Some(false), "ended after {end}: nothing was lost, so nothing is unknown");
    }
}

#[tokio::test]
async fn an_edit_of_the_topology_object_is_undone() {
    let (world, mut instance) = made().await;
    change(&world, &topology_id(), |object| object["spec"]["replicas"] = json!(1));
    instance.look().await.unwrap();
    assert_eq!(world.object(&topology_id()).unwrap()["spec"]["replicas"], 3);
}

#[tokio::test]
async fn a_spec_that_is_refused_changes_nothing_and_is_named() {
    for (case, patch, reason) in [
        ("the policy says no", json!({"replicasOfShard": 5}), "PolicyRefusesSpec"),
        ("it can't be read", json!("three"), "SpecUnreadable"),
    ] {
        let (world, mut instance) = made().await;
        let before = world.object(&topology_id()).unwrap()["spec"].clone();
        change(&world, &valkey_id(), |object| object["spec"]["replicas"] = patch.clone());
        instance.look().await.unwrap();
        assert_eq!(world.object(&topology_id()).unwrap()["spec"], before, "{case}");
        let status = world.object(&valkey_id()).unwrap()["status"].clone();
        let accepted = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Accepted").unwrap().clone();
        assert_eq!((accepted["status"].as_str(), accepted["reason"].as_str()), (Some("False"), Some(reason)), "{case}");
    }
}

#[tokio::test]
async fn a_topology_object_of_somebody_else_is_left_alone() {
    let world = mk_world();
    let owner = json!([{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "stranger", "controller": true}]);
    let metadata = json!({"name": "x", "namespace": "shop", "uid": "theirs", "ownerReferences": owner});
    world.state().put(json!({"apiVersion": Kind::Failover.api_version(), "kind": "Failover", "metadata": metadata, "spec": {}}));
    let _ = mk_instance(&world).look().await;
    assert!(!world.effects().iter().any(|effect| effect.starts_with("apply Failover")));
}

#[tokio::test]
async fn a_topology_object_that_is_deleted_takes_nothing_with_it() {
    let (world, mut instance) = made().await;
    change(&world, &topology_id(), |object| object["status"]["ledger"]["formed"] = json!(true));
    change(&world, &topology_id(), |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z"));
    let sets = count(&world, Kind::StatefulSet);
    instance.look().await.unwrap();
    assert!(world.object(&topology_id()).is_none(), "it may go");
    let owned = |world: &FakeWorld| {
        let by_topology = |object: &&Value| object.pointer("/metadata/ownerReferences/0/kind") == Some(&json!("Failover"));
        world.state().objects.values().filter(by_topology).count()
    };
    assert_eq!((count(&world, Kind::StatefulSet), owned(&world)), (sets, 0), "its children stay, and are not collected with it");
    instance.look().await.unwrap();
    assert_eq!(ledger(&world).formed, Some(true), "its successor has the ledger");
    assert!(owned(&world) > 0, "and the children");
}

/// The Valkey's watch lags behind the one that shows its topology object going.
#[tokio::test]
async fn a_valkey_that_is_gone_is_ended_though_the_cache_still_shows_it() {
    let (world, mut instance) = made().await;
    let seen = world.object(&valkey_id()).unwrap();
    world.state().stale.insert(valkey_id(), Some(seen));
    world.state().objects.remove(&valkey_id());
    change(&world, &topology_id(), |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z"));
    for _ in 0..6 {
        instance.look().await.unwrap();
        world.sleep(Duration::from_secs(2)).await;
        if world.object(&topology_id()).is_none() {
            break;
        }
    }
    assert_eq!(count(&world, Kind::StatefulSet), 0, "nothing of it is left as nobody's");
}

/// The other way round: the Valkey's watch is late, broken or not filled yet.
#[tokio::test]
async fn a_valkey_that_only_the_cache_misses_is_not_ended() {
    for deleting in [false, true] {
        let (world, mut instance) = made().await;
        world.state().stale.insert(valkey_id(), None);
        if deleting {
            change(&world, &topology_id(), |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z"));
        }
        for _ in 0..4 {
            instance.look().await.unwrap();
            world.sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(count(&world, Kind::StatefulSet), 1, "deleting {deleting}");
        assert_eq!(world.effects(), Vec::<String>::new(), "deleting {deleting}");
    }
}

/// A process that stood still goes on where it was, while another operator acts.
#[tokio::test]
async fn without_the_lease_no_workload_is_changed_and_none_is_ended() {
    let (world, _) = made().await;
    let options = LeaseOptions { namespace: "valkey-system".into(), name: "l".into(), identity: "me".into() };
    let (_elector, lease) = Elector::new(world.clone(), options);
    let mut instance = mk_instance_under(&world, built_in(), lease);
    let set = ObjectId::new(Kind::StatefulSet, "shop", "rfr-x");
    change(&world, &set, |object| object["spec"]["replicas"] = json!(5));
    instance.look().await.unwrap();
    assert_eq!(world.object(&set).unwrap()["spec"]["replicas"], 5, "the other one wants five by now");
    world.state().objects.remove(&valkey_id());
    for _ in 0..6 {
        let _ = instance.look().await;
        world.sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(count(&world, Kind::StatefulSet), 1);
}

#[tokio::test]
async fn an_unknown_past_stays_unknown() {
    let world = mk_world();
    let metadata = json!({"name": "valkey-data-rfr-x-0", "namespace": "shop", "uid": "c", "labels": {names::INSTANCE: "x"}});
    world.state().put(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}));
    mk_instance(&world).look().await.unwrap();
    assert_eq!(ledger(&world).formed, None, "a claim was there before: it may hold data");
}

/// The end of an instance with one pod and one claim, step by step, until the Valkey is gone.
async fn end(spec: Option<bool>, finalizer: bool) -> (Arc<FakeWorld>, Vec<String>) {
    let (world, mut instance) = made().await;
    let labels = json!({names::INSTANCE: "x"});
    let pod_labels: Value = serde_json::to_value(crate::render::selector(crate::render::Part::Data, "x")).unwrap();
    let object = |kind: &str, name: &str, labels: &Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels}});
    let mut pod = object("Pod", "rfr-x-0", &pod_labels);
    pod["metadata"]["labels"][names::INSTANCE] = json!("x");
    pod["spec"] = json!({"nodeName": "node-0"});
    world.state().put(pod);
    world.state().put(object("PersistentVolumeClaim", "valkey-data-rfr-x-0", &labels));
    let mut node = object("Node", "node-0", &json!({}));
    node["metadata"]["namespace"] = json!("");
    node["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    world.state().put(node);
    if let Some(retain) = spec {
        change(&world, &topology_id(), |object| object["spec"]["storage"] = json!({"retainAfterDeleted": retain}));
    }
    change(&world, &valkey_id(), |object| {
        let own = if finalizer { json!([names::DELETE_PVC, "example.org/held"]) } else { json!(["example.org/held"]) };
        object["metadata"]["finalizers"] = own;
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    });
    for _ in 0..12 {
        let Next::After(time) = instance.look().await.unwrap() else { break };
        world.sleep(time).await;
        // The StatefulSet's end is its pods' end.
        if count(&world, Kind::StatefulSet) == 0 {
            world.state().objects.remove(&ObjectId::new(Kind::Pod, "shop", "rfr-x-0"));
        }
    }
    let effects = world.effects();
    (world, effects)
}

#[tokio::test]
async fn an_end_in_order() {
    let (world, effects) = end(None, true).await;
    let told: Vec<&str> =
        effects.iter().map(String::as_str).filter(|effect| !effect.starts_with("event") && !effect.contains("Secret")).collect();
    let expected = [
        "delete Failover x",
        "merge ConfigMap rfr-x",
        "merge Pod rfr-x-0",
        "delete StatefulSet rfr-x",
        "delete PersistentVolumeClaim valkey-data-rfr-x-0",
        "merge Failover x",
        "merge Valkey x",
    ];
    assert_eq!(told, expected, "hooks are told, then pods end, then claims, then what held the objects");
    assert!(world.object(&topology_id()).is_none());
    assert_eq!(
        world.object(&valkey_id()).unwrap()["metadata"]["finalizers"],
        json!(["example.org/held"]),
        "others' finalizers stay"
    );
    let held = |object: &Value| {
        object.pointer("/metadata/finalizers").is_some_and(|all| all.to_string().contains(names::SECRET_FINALIZER))
    };
    assert!(!world.state().objects.values().any(held), "no Secret is held for ever");
}

#[tokio::test]
async fn secrets_that_an_end_left_behind_are_let_go() {
    let secrets = |world: &FakeWorld| count(world, Kind::Secret);
    let delete_secrets = |world: &FakeWorld| {
        for object in world.state().objects.values_mut().filter(|object| object["kind"] == "Secret") {
            object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        }
    };
    let (world, mut instance) = made().await;
    let held = secrets(&world);
    delete_secrets(&world);
    instance.look().await.unwrap();
    assert_eq!(secrets(&world), held, "the Valkey lives: its servers use them");
    // A namespace that goes takes the topology object first, whose children the Valkey gets, and then the Valkey.
    world.state().objects.retain(|id, _| !Kind::INSTANCES.contains(&id.kind));
    assert_eq!(instance.look().await.unwrap(), Next::After(Duration::from_secs(2)));
    let left = |object: &Value| {
        object.pointer("/metadata/finalizers").is_some_and(|all| all.to_string().contains(names::SECRET_FINALIZER))
    };
    assert!(!world.state().objects.values().any(left), "none is held for ever");
    assert_eq!(instance.look().await.unwrap(), Next::Gone);
}

#[tokio::test]
async fn claims_go_only_when_asked() {
    let table = [
        ("nothing is said", None, false, true),
        ("the finalizer asks", None, true, false),
        ("the spec asks", Some(false), false, false),
        ("both ask", Some(false), true, false),
        ("the spec retains", Some(true), false, true),
        ("the finalizer asks and the spec retains", Some(true), true, true),
    ];
    for (case, spec, finalizer, stay) in table {
        let (world, _) = end(spec, finalizer).await;
        assert_eq!(count(&world, Kind::PersistentVolumeClaim) == 1, stay, "{case}");
        assert!(world.object(&topology_id()).is_none(), "{case}: it ends");
    }
}

#[tokio::test]
async fn a_claim_that_comes_after_its_set_goes_as_well() {
    let (world, mut instance) = made().await;
    change(&world, &topology_id(), |object| object["spec"]["storage"] = json!({"retainAfterDeleted": false}));
    change(&world, &valkey_id(), |object| {
        object["metadata"]["finalizers"] = json!(["example.org/held"]);
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    });
    let mut late = Some(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
        "name": "valkey-data-rfr-x-0", "namespace": "shop", "uid": "late", "labels": {names::INSTANCE: "x"},
    }}));
    for _ in 0..12 {
        let Next::After(time) = instance.look().await.unwrap() else { break };
        if count(&world, Kind::StatefulSet) == 0
            && let Some(claim) = late.take()
        {
            world.state().put(claim);
        }
        world.sleep(time).await;
    }
    assert_eq!((late, count(&world, Kind::PersistentVolumeClaim)), (None, 0));
    assert!(world.object(&topology_id()).is_none(), "it ends");
}

#[tokio::test]
async fn what_is_gone_is_gone() {
    assert_eq!(mk_instance(&Arc::new(FakeWorld::default())).look().await.unwrap(), Next::Gone);
}

#[tokio::test]
async fn an_object_that_cannot_be_applied_is_shown_and_stops_no_report() {
    let world = mk_world();
    world.state().refusals.push(("apply Service".into(), ApiError::Forbidden("quota".into())));
    let mut instance = mk_instance(&world);
    instance.look().await.unwrap();
    let status = world.object(&topology_id()).unwrap()["status"].clone();
    assert!(status["message"].as_str().unwrap().contains("quota"), "{status}");
    assert_eq!(count(&world, Kind::StatefulSet), 0, "pods wait for what they need");
    instance.look().await.unwrap();
    assert_eq!(count(&world, Kind::StatefulSet), 1);
}

#[tokio::test]
async fn a_policy_is_told_what_the_guard_refused() {
    let policy = Arc::new(Stubborn(info(), Mutex::default()));
    let mut instance = mk_instance_of(&mk_world(), policy.clone());
    for _ in 0..3 {
        instance.look().await.unwrap();
    }
    let told = policy.1.lock().unwrap();
    let newest = told.first().expect("an outcome");
    assert_eq!(newest.operation, "evict");
    assert!(matches!(&newest.outcome, OutcomeKind::Refused(why) if why.contains("nobody")), "{newest:?}");
}

#[tokio::test]
async fn a_policy_that_wants_nothing_leaves_what_is_there() {
    let (world, _) = made().await;
    let mut instance = mk_instance_of(&world, Arc::new(Stubborn(info(), Mutex::default())));
    instance.look().await.unwrap();
    let set = ObjectId::new(Kind::StatefulSet, "shop", names::data_workload("x"));
    assert_eq!(world.object(&set).unwrap().pointer("/spec/replicas"), Some(&json!(3)));
    let status = world.object(&topology_id()).unwrap()["status"].clone();
    let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap().clone();
    assert_eq!(ready["reason"], "PolicySilent", "{ready}");
}

/// A policy that says something else each time and wants to be asked again at once; it keeps when it was asked.
struct Flapping(PolicyInfo, Arc<FakeWorld>, Mutex<Vec<Duration>>, Notify);

const ASKED: usize = 200;

impl Policy for Flapping {
    fn info(&self) -> &PolicyInfo {
        &self.0
    }
    fn decide(&self, _: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        let mut asked = self.2.lock().unwrap();
        asked.push(self.1.monotonic());
        if asked.len() == ASKED {
            self.3.notify_one();
        }
        let mut plan = mk_plan(Vec::new());
        plan.status.message = format!("call {}", asked.len());
        plan.look_again = 1;
        Ok(Ok(plan))
    }
    fn validate(&self, _: &str, _: &str) -> Result<Vec<Violation>, GuestError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_policy_that_flaps_is_asked_at_the_rate_of_looks() {
    let world = mk_world();
    let policy = Arc::new(Flapping(info(), world.clone(), Mutex::default(), Notify::new()));
    tokio::select! {
        () = mk_instance_of(&world, policy.clone()).run(Arc::default()) => panic!("it ended"),
        () = policy.3.notified() => {}
    }
    let asked = policy.2.lock().unwrap();
    let (burst, each) = (LOOKS.burst as usize, LOOKS.each);
    // The first looks may have asked nobody.
    let (early, late) = (asked[burst / 2] - asked[0], asked[ASKED - 1] - asked[burst]);
    assert!(early < each, "a burst isn't held up: {early:?}");
    let due = each * u32::try_from(ASKED - 1 - burst).unwrap();
    assert!(late >= due, "{} more within {late:?}, not {due:?}", ASKED - 1 - burst);
}

#[tokio::test]
async fn no_password_is_in_the_journal() {
    let (world, mut instance) = made().await;
    // The next decision is kept whatever the one before was.
    instance.last_plan.clear();
    instance.look().await.unwrap();
    let journal = instance.journal.lines().join("\n");
    assert!(journal.contains(r#""kind":"Secret""#), "the journal tells of Secrets: {journal}");
    let state = world.state();
    let passwords: Vec<&Value> = state.objects.values().filter_map(|object| object.pointer("/data/password")).collect();
    assert!(!passwords.is_empty(), "there are some to look for");
    for encoded in passwords {
        let clear: k8s_openapi::ByteString = serde_json::from_value(encoded.clone()).unwrap();
        let (encoded, clear) = (encoded.as_str().unwrap(), String::from_utf8(clear.0).unwrap());
        assert!(clear.len() > 8 && !journal.contains(&clear) && !journal.contains(encoded), "a password is in the journal");
    }
}
