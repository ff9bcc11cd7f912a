//! One writer, whole, under resourceVersion.

use serde_json::json;

use crate::ledger::Ledger;
use crate::object::Object;
use crate::store::StoreError;
use crate::testing::{State, mk_site, topology_id};
use crate::world::ApiError;

fn ledger_in(world: &crate::testing::FakeWorld) -> Ledger {
    Ledger::read(world.object(&topology_id()).unwrap().get("status"))
}

fn edit_spec(state: &mut State) {
    let mut object = state.objects[&topology_id()].clone();
    object["spec"]["replicas"] = json!(5);
    state.put(object);
}

fn write_ledger(state: &mut State) {
    let mut object = state.objects[&topology_id()].clone();
    object["status"]["ledger"]["consentsUsed"] = json!(["theirs"]);
    state.put(object);
}

fn replace(state: &mut State) {
    let mut object = state.objects[&topology_id()].clone();
    object["metadata"]["uid"] = json!("another");
    state.put(object);
}

#[tokio::test]
async fn what_is_equal_is_not_written() {
    let (world, site) = mk_site(1);
    site.store.change(|_| {}).await.unwrap();
    let status = world.object(&topology_id()).unwrap()["status"].clone();
    site.store.report(&json!({"phase": status["phase"]})).await.unwrap();
    assert_eq!(world.effects(), Vec::<String>::new());
    site.store.report(&json!({"phase": "Failed"})).await.unwrap();
    assert_eq!(world.effects(), ["status x"]);
    assert_eq!(ledger_in(&world).formed, Some(true), "the report leaves the ledger as it is");
}

#[tokio::test]
async fn a_conflict_with_an_edit_of_the_spec_is_met_again() {
    let (world, site) = mk_site(1);
    world.state().before.push(("status".into(), edit_spec));
    site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap();
    assert_eq!(ledger_in(&world).consents_used, ["ours"]);
    assert_eq!(world.object(&topology_id()).unwrap()["spec"]["replicas"], 5, "the edit stays");
}

#[tokio::test]
async fn edits_without_end_are_not_fought() {
    let (world, site) = mk_site(1);
    for _ in 0..3 {
        world.state().before.push(("status".into(), edit_spec));
    }
    let error = site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap_err();
    assert!(matches!(error, StoreError::LedgerNotWritten(ApiError::Conflict(_))), "{error}");
    assert!(ledger_in(&world).consents_used.is_empty());
}

#[tokio::test]
async fn a_ledger_of_somebody_else_is_never_written_over() {
    let (world, site) = mk_site(1);
    world.state().before.push(("status".into(), write_ledger));
    let error = site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap_err();
    assert!(matches!(error, StoreError::LedgerForeign(_)), "{error}");
    assert_eq!(ledger_in(&world).consents_used, ["theirs"]);

    // The watch brings it: the next change starts from there.
    site.store.refresh(&Object::new(world.object(&topology_id()).unwrap())).await;
    site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap();
    assert_eq!(ledger_in(&world).consents_used, ["theirs", "ours"]);
}

#[tokio::test]
async fn a_successor_of_the_same_name_gets_nothing() {
    let (world, site) = mk_site(1);
    world.state().before.push(("status".into(), replace));
    let error = site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap_err();
    assert!(matches!(error, StoreError::TopologyReplaced(_)), "{error}");
    site.store.refresh(&Object::new(world.object(&topology_id()).unwrap())).await;
    assert!(site.store.is_of("topology").await, "an object of another identity isn't taken in");
}

#[tokio::test]
async fn what_was_not_confirmed_did_not_happen() {
    let (world, site) = mk_site(1);
    world.state().refusals.push(("status".into(), ApiError::Forbidden("no".into())));
    site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap_err();
    assert!(site.store.ledger().await.consents_used.is_empty(), "neither there nor here");
}

#[tokio::test]
async fn an_older_object_is_not_taken_in() {
    let (world, site) = mk_site(1);
    let old = Object::new(world.object(&topology_id()).unwrap());
    site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap();
    site.store.refresh(&old).await;
    assert_eq!(site.store.ledger().await.consents_used, ["ours"]);
}
