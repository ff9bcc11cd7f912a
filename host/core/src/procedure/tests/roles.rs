//! Promotion and hand-over: what is done, in which order, and what is verified.

use super::{hand_over, run, run_step};
use crate::execute::ExecuteError;
use crate::guard::testing::{by_consent, promote, step, uid};
use crate::lease::{Elector, LeaseOptions};
use crate::ledger::Member;
use crate::testing::{FakeWorld, mk_site, mk_site_in};
use crate::world::ApiError;
use std::sync::Arc;
use vko_wit::planning::{Expectation, Known, Operation};

/// Member 0, the primary, gives no answer any more.
fn after_a_death() -> (Arc<FakeWorld>, Arc<crate::site::Site<FakeWorld>>) {
    let (world, site) = mk_site(3);
    world.change(&uid(0), |server| server.silent = true);
    (world, site)
}

#[tokio::test]
async fn nobody_is_promoted_beside_one_that_took_the_role_since_it_was_last_asked() {
    let (world, site) = after_a_death();
    // The hook of the old primary handed over; the observation was made before.
    world.change(&uid(2), |server| server.upstream = None);
    let error = run_step(&site, &by_consent(promote(1), "promote-data-loss:rfr-x-1:1")).await.unwrap_err();
    assert!(error.is_dropped() && error.to_string().contains("rfr-x-2"), "{error}");
    assert_eq!(world.effects(), Vec::<String>::new(), "not even the consent is used up");
}

#[tokio::test]
async fn nobody_is_promoted_by_a_plan_from_before_another_was_named() {
    let (world, site) = after_a_death();
    let decided_on = site.store.ledger().await.observed().last_primary;
    let other = Member { workload: "rfr-x".into(), ordinal: 2, pod: uid(2), ..Member::default() };
    site.store.appoint(&decided_on, |ledger| ledger.set_last_primary(other)).await.unwrap();
    world.effects();
    let error = run(&site, promote(1)).await.unwrap_err();
    assert!(error.is_dropped(), "{error}");
    assert_eq!(world.effects(), Vec::<String>::new());
    assert!(site.store.ledger().await.is_last_primary("rfr-x", 2));
}

#[tokio::test]
async fn a_hand_over_that_only_the_old_primary_has_not_seen_is_not_taken_back() {
    let (world, site) = mk_site(3);
    // The order came through, its end did not: the replica leads, the old one still waits to follow it.
    world.change(&uid(0), |server| (server.stuck, server.upstream) = (true, None));
    world.state().before.push(("rfr-x-0: failover-to".into(), |state| {
        state.servers.get_mut("uid-1").unwrap().upstream = None;
    }));
    let error = run(&site, hand_over()).await.unwrap_err();
    assert!(error.to_string().contains("rfr-x-1 is the primary"), "{error}");
    assert_eq!(world.effects(), ["rfr-x-1: config-set", "rfr-x-0: failover-to"], "an ABORT would make two primaries");
}

#[tokio::test]
async fn a_promotion_is_in_the_ledger_before_the_server_may_take_a_write() {
    let (world, site) = after_a_death();
    run(&site, promote(1)).await.unwrap();
    assert_eq!(world.effects(), ["status x", "rfr-x-1: config-set", "rfr-x-1: replicaof-no-one", "status x"]);
    let ledger = site.store.ledger().await;
    assert!(ledger.is_last_primary("rfr-x", 1));
    assert_eq!(ledger.lineages[0].replid, "h-of-rfr-x-1");
}

#[tokio::test]
async fn without_the_ledger_nobody_is_promoted() {
    let (world, site) = after_a_death();
    world.state().refusals.push(("status".into(), ApiError::Unavailable("away".into())));
    assert!(matches!(run(&site, promote(1)).await, Err(ExecuteError::LedgerNotWritten(_))));
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_role_that_is_not_seen_is_not_reported() {
    let (world, site) = after_a_death();
    world.change(&uid(1), |server| server.ignores.push("replicaof-no-one"));
    assert!(matches!(run(&site, promote(1)).await, Err(ExecuteError::NotVerified(_))));
}

#[tokio::test]
async fn a_hand_over_ends_with_both_roles_seen() {
    let (world, site) = mk_site(3);
    run(&site, hand_over()).await.unwrap();
    assert_eq!(world.effects(), ["rfr-x-1: config-set", "rfr-x-0: failover-to", "status x"]);
    assert!(world.server(&uid(1)).is_primary() && !world.server(&uid(0)).is_primary());
    assert!(site.store.ledger().await.is_last_primary("rfr-x", 1));
}

#[tokio::test]
async fn a_hand_over_that_stands_still_is_taken_back() {
    for answers_lost in [false, true] {
        let (world, site) = mk_site(3);
        world.change(&uid(0), |server| {
            server.stuck = true;
            if answers_lost {
                server.answers_lost.push("failover-to");
            }
        });
        let error = run(&site, hand_over()).await.unwrap_err();
        assert!(error.to_string().contains("was aborted; it is primary again"), "{error}");
        assert_eq!(world.effects(), ["rfr-x-1: config-set", "rfr-x-0: failover-to", "rfr-x-0: failover-abort"]);
        assert!(world.server(&uid(0)).is_primary(), "never without a primary for longer than the time-out");
        assert!(site.store.ledger().await.is_last_primary("rfr-x", 0));
    }
}

#[tokio::test]
async fn a_lost_answer_of_a_hand_over_that_worked_is_no_failure() {
    let (world, site) = mk_site(3);
    world.change(&uid(0), |server| server.answers_lost.push("failover-to"));
    run(&site, hand_over()).await.unwrap();
    assert!(site.store.ledger().await.is_last_primary("rfr-x", 1));
}

#[tokio::test]
async fn a_refused_hand_over_changes_nothing() {
    let (world, site) = mk_site(3);
    world.change(&uid(0), |server| server.upstream = Some("10.0.0.9".parse().unwrap()));
    assert!(matches!(run(&site, hand_over()).await, Err(ExecuteError::ServerRefused { .. })));
    assert!(site.store.ledger().await.is_last_primary("rfr-x", 0));
}

#[tokio::test]
async fn the_fence_of_an_earlier_life_goes_with_a_new_role() {
    for operation in [hand_over(), promote(1)] {
        let (world, site) = mk_site(3);
        site.store
            .change(|ledger| {
                ledger.fences.push(crate::ledger::Fence {
                    pod: uid(1),
                    run_id: "run-rfr-x-1".into(),
                    min_replicas: 1,
                    detached_at: 5,
                    ..Default::default()
                })
            })
            .await
            .unwrap();
        world.change(&uid(1), |server| drop(server.config.insert("min-replicas-to-write".into(), "1".into())));
        world.change(&uid(0), |server| server.silent = matches!(operation, Operation::Promote(_)));
        run(&site, operation.clone()).await.unwrap();
        assert!(
            site.store.ledger().await.fences.is_empty(),
            "{operation:?}: a record would permit to replace it while it writes"
        );
        assert_eq!(world.server(&uid(1)).fence(), 0, "{operation:?}");
    }
}

#[tokio::test]
async fn nothing_may_be_sent_without_the_lease_while_cut_off_or_against_an_expectation() {
    let operations =
        || [promote(1), hand_over(), crate::guard::testing::follow(1, 0), crate::guard::testing::evict(1), super::fence(1)];
    for operation in operations() {
        let world = Arc::new(FakeWorld::default());
        let options = LeaseOptions { namespace: "valkey-system".into(), name: "l".into(), identity: "me".into() };
        let (_elector, lease) = Elector::new(world.clone(), options);
        let site = mk_site_in(&world, 3, lease, true);
        assert_eq!(run(&site, operation.clone()).await.unwrap_err().reason(), "LeaseTooShort", "{operation:?}");
        assert_eq!(world.effects(), Vec::<String>::new(), "{operation:?} without the Lease");

        let (world, site) = mk_site(3);
        site.set_cut_off(true);
        assert_eq!(run(&site, operation.clone()).await.unwrap_err().reason(), "OperatorCutOff", "{operation:?}");
        assert_eq!(world.effects(), Vec::<String>::new(), "{operation:?} while cut off");

        let (world, site) = mk_site(3);
        let mut step = step(operation.clone());
        step.expects.push(Expectation::RunId(Known { pod: uid(1), value: "another".into() }));
        assert_eq!(run_step(&site, &step).await.unwrap_err().reason(), "ExpectationFailed", "{operation:?}");
        assert_eq!(world.effects(), Vec::<String>::new(), "{operation:?} against its expectation");
    }
}

#[tokio::test]
async fn a_consent_is_used_up_by_what_is_done_and_not_by_what_is_dropped() {
    let (world, site) = after_a_death();
    let mut wanted = by_consent(promote(1), "promote-data-loss:rfr-x-1:1");
    wanted.expects.push(Expectation::RunId(Known { pod: uid(1), value: "another".into() }));
    run_step(&site, &wanted).await.unwrap_err();
    assert!(site.store.ledger().await.consents_used.is_empty());
    wanted.expects.clear();
    run_step(&site, &wanted).await.unwrap();
    assert_eq!(site.store.ledger().await.consents_used, ["promote-data-loss:rfr-x-1:1"]);
    assert_eq!(world.effects()[..2], ["status x", "status x"], "the consent, then the role, both before any command");
}

#[tokio::test]
async fn what_was_expected_is_read_once_more_after_the_ledger() {
    // Just after the ledger was written, before the command: a hook made member 2 the primary.
    let (world, site) = after_a_death();
    world.state().before.push(("rfr-x-1: config-set".into(), |state| {
        state.servers.get_mut("uid-2").unwrap().upstream = None;
    }));
    assert!(run(&site, promote(1)).await.unwrap_err().is_dropped());
    assert_eq!(world.effects(), ["status x", "rfr-x-1: config-set"], "and no second primary");
    assert!(!world.server(&uid(1)).is_primary());
}

#[tokio::test]
async fn a_former_primary_that_came_back_without_its_fence_holds_nothing_up() {
    let (world, site) = with_a_lost_fence().await;
    run(&site, promote(1)).await.unwrap();
    assert!(world.server(&uid(1)).is_primary());
}

/// Member 0 came back as a replica of nobody, without a fence; the ledger says that it has one of 1.
async fn with_a_lost_fence() -> (Arc<FakeWorld>, Arc<crate::site::Site<FakeWorld>>) {
    let (world, site) = mk_site(3);
    world.change(&uid(0), |server| {
        server.upstream = Some("127.0.0.1".parse().unwrap());
        server.config.insert("min-replicas-to-write".into(), "0".into());
    });
    let fence = crate::ledger::Fence { pod: uid(0), run_id: "run-rfr-x-0".into(), min_replicas: 1, ..Default::default() };
    site.store.change(|ledger| ledger.fences.push(fence)).await.unwrap();
    (world, site)
}
