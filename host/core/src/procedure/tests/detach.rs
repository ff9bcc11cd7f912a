//! When the last replica has left.

use super::{fence, run};
use crate::execute::ExecuteError;
use crate::guard::testing::uid;
use crate::testing::mk_site;
use vko_wit::planning::Operation;

#[tokio::test]
async fn the_time_runs_from_the_last_one_that_left() {
    let (world, site) = mk_site(3);
    run(&site, fence(1)).await.unwrap();
    world.change(&uid(0), |server| server.silent = true);
    run(&site, Operation::Detach(uid(1))).await.unwrap();
    assert_eq!(site.store.ledger().await.fences[0].detached_at, 0, "member 2 still follows");
    run(&site, Operation::Detach(uid(2))).await.unwrap();
    assert_ne!(site.store.ledger().await.fences[0].detached_at, 0);
    for ordinal in [1, 2] {
        assert!(world.server(&uid(ordinal)).upstream.is_some_and(|ip| ip.is_loopback()));
    }
}

#[tokio::test]
async fn a_crash_before_it_was_noted_is_made_good_by_detaching_again() {
    let (world, site) = mk_site(2);
    run(&site, fence(1)).await.unwrap();
    world.change(&uid(0), |server| server.silent = true);
    world.state().refusals.push(("status".into(), crate::world::ApiError::Unavailable("away".into())));
    assert!(matches!(run(&site, Operation::Detach(uid(1))).await, Err(ExecuteError::LedgerNotWritten(_))));
    assert_eq!(site.store.ledger().await.fences[0].detached_at, 0);
    // It follows nobody already.
    run(&site, Operation::Detach(uid(1))).await.unwrap();
    assert_ne!(site.store.ledger().await.fences[0].detached_at, 0);
}

#[tokio::test]
async fn who_still_follows_is_not_detached() {
    let (world, site) = mk_site(2);
    run(&site, fence(1)).await.unwrap();
    world.change(&uid(1), |server| server.ignores.push("replicaof-nobody"));
    assert!(matches!(run(&site, Operation::Detach(uid(1))).await, Err(ExecuteError::NotVerified(_))));
    assert_eq!(site.store.ledger().await.fences[0].detached_at, 0);
}

#[tokio::test]
async fn without_a_fence_there_is_nothing_to_note() {
    let (world, site) = mk_site(2);
    run(&site, Operation::Detach(uid(1))).await.unwrap();
    assert_eq!(world.effects(), ["rfr-x-1: replicaof-nobody"]);
}
