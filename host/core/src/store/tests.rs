//! One writer, whole, under resourceVersion.

use std::time::Duration;

use serde_json::json;

use super::{APPOINTMENT_MAX, Naming, REPORT_PAUSE, REPORTS, StoreError};
use crate::guard::testing::uid;
use crate::lease::{Elector, LeaseOptions};
use crate::ledger::{Ledger, Member};
use crate::object::Object;
use crate::testing::{State, mk_site, mk_site_in, topology_id};
use crate::world::{ApiError, Clock};

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

fn named(ordinal: u32) -> Member {
    Member { workload: "rfr-x".into(), ordinal, pod: uid(ordinal), ..Member::default() }
}

/// What another operator writes that promotes member 1.
fn promote_elsewhere(state: &mut State) {
    let mut object = state.objects[&topology_id()].clone();
    let mut ledger = Ledger::read(object.get("status"));
    ledger.set_last_primary(named(1));
    object["status"]["ledger"] = json!(ledger);
    state.put(object);
}

#[tokio::test]
async fn whom_the_ledger_names_is_changed_only_by_what_was_decided_on_it() {
    // Each case: what happens between the observation and the change, which names member `to`; and who is named in the end.
    type Between = fn(&mut State);
    type Case = (&'static str, Between, bool, u32, Result<u32, u32>);
    let nothing: Between = |_| {};
    let cases: [Case; 5] = [
        ("nobody else wrote", nothing, false, 2, Ok(2)),
        ("another operator promoted, and the watch has brought it", promote_elsewhere, true, 2, Err(1)),
        ("the old primary is to be written back", promote_elsewhere, true, 0, Err(1)),
        ("the same is to be named as by the other one: its command may be under way", promote_elsewhere, true, 1, Ok(1)),
        ("the watch is late: the write meets a conflict", promote_elsewhere, false, 2, Err(1)),
    ];
    for (case, between, seen, to, expected) in cases {
        let (world, site) = mk_site(3);
        let decided_on = site.store.ledger().await.observed().last_primary;
        between(&mut world.state());
        if seen {
            site.store.refresh(&Object::new(world.object(&topology_id()).unwrap())).await;
        }
        let written = site.store.appoint(&decided_on, |ledger| ledger.set_last_primary(named(to))).await;
        let now = ledger_in(&world).last_primary[0].ordinal;
        assert_eq!(written.as_ref().map(|()| now).map_err(|_| now), expected, "{case}");
        if let Err(error) = written {
            assert!(error.is_moved_on(), "{case}: {error}");
        }
    }
}

#[tokio::test]
async fn what_else_is_noted_along_with_a_primary_goes_with_it() {
    let (world, site) = mk_site(3);
    let decided_on = site.store.ledger().await.observed().last_primary;
    site.store.appoint(&decided_on, |ledger| ledger.set_last_primary(named(1))).await.unwrap();
    let late = |ledger: &mut Ledger| {
        ledger.set_last_primary(named(0));
        ledger.note_lineage("h9", 1, 1);
    };
    let error = site.store.appoint(&decided_on, late).await.unwrap_err();
    assert!(matches!(error, StoreError::NamedMeanwhile(_)), "{error}");
    assert_eq!(ledger_in(&world).lineages[0].replid, "h1", "a part of the change would be a lie");
}

#[tokio::test]
async fn without_the_lease_nothing_is_written() {
    let (world, _) = mk_site(1);
    let lease = LeaseOptions { namespace: "n".into(), name: "l".into(), identity: "me".into() };
    let site = mk_site_in(&world, 1, Elector::new(world.clone(), lease).1, false);
    let error = site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap_err();
    assert!(matches!(error, StoreError::NotLeading(_)) && error.is_moved_on(), "{error}");
    site.store.report(&json!({"phase": "Failed"})).await.unwrap_err();
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_report_waits_while_another_operator_writes() {
    let (world, site) = mk_site(3);
    let seen = || Object::new(world.object(&topology_id()).unwrap());
    write_ledger(&mut world.state());
    site.store.refresh(&seen()).await;
    let report = json!({"phase": "Failed"});
    assert_eq!(site.store.report(&report).await, Ok(Some(REPORT_PAUSE)));
    assert_eq!(world.effects(), Vec::<String>::new());
    site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap();
    assert_eq!(world.effects(), ["status x"], "the ledger doesn't wait");
    world.sleep(REPORT_PAUSE).await;
    site.store.refresh(&seen()).await;
    assert_eq!((site.store.report(&report).await, world.effects()), (Ok(None), vec!["status x".to_owned()]));
    edit_spec(&mut world.state());
    site.store.refresh(&seen()).await;
    assert_eq!(site.store.report(&json!({"phase": "Ready"})).await, Ok(None), "an edit of the spec is nobody's report");
}

#[tokio::test]
async fn reports_that_differ_each_time_are_written_at_a_bounded_rate() {
    let (world, site) = mk_site(1);
    let message = |number: u32| json!({"message": format!("counts {number}")});
    for number in 0..REPORTS.burst {
        assert_eq!(site.store.report(&message(number)).await, Ok(None), "{number}");
    }
    assert_eq!(site.store.report(&message(1)).await, Ok(Some(REPORTS.each)));
    assert_eq!(world.effects().len(), REPORTS.burst as usize);
    site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap();
    assert_eq!(world.effects().len(), 1, "the ledger doesn't wait");
    let written = json!({"message": format!("counts {}", REPORTS.burst - 1)});
    assert_eq!(site.store.report(&written).await, Ok(None), "what stands there already has nothing to wait for");
    world.sleep(REPORTS.each).await;
    assert_eq!(site.store.report(&message(1)).await, Ok(None));
    assert_eq!(world.object(&topology_id()).unwrap()["status"]["message"], "counts 1", "the newest one");
}

#[tokio::test]
async fn since_when_the_primary_has_been_named() {
    let (world, site) = mk_site(3);
    let since = |naming: Naming| world.monotonic().saturating_sub(naming.since);
    let second = Duration::from_secs(1);
    world.sleep(second).await;
    site.store.change(|ledger| ledger.use_consent("ours")).await.unwrap();
    assert_eq!(since(site.store.naming().await), second, "the ledger says something else of another matter");
    let decided_on = site.store.ledger().await.observed().last_primary;
    site.store.appoint(&decided_on, |ledger| ledger.set_last_primary(named(2))).await.unwrap();
    assert_eq!(since(site.store.naming().await), Duration::ZERO);
    assert_eq!(site.store.naming().await.under_way(world.monotonic()), None, "what is under way here, the tracks say");
    world.sleep(second).await;

    promote_elsewhere(&mut world.state());
    site.store.refresh(&Object::new(world.object(&topology_id()).unwrap())).await;
    let naming = site.store.naming().await;
    assert_eq!((since(naming), naming.under_way(world.monotonic())), (Duration::ZERO, Some(APPOINTMENT_MAX)));
    assert_eq!(naming.under_way(world.monotonic() + APPOINTMENT_MAX), None, "it has come to its end by then");
}
