//! The process ends after each effect of each procedure. What the next one finds must be legal: the ledger claims no fence that
//! the server doesn't have, and whoever is a primary is one that the ledger names or is about to be asked.

use super::{fence, hand_over};
use crate::execute::step;
use crate::guard::testing::{self, promote, uid};
use crate::ledger::Ledger;
use crate::testing::{FakeWorld, mk_site, observed, topology_id};
use vko_wit::planning::Operation;

/// What was before: the primary is fenced, or not.
async fn begin(fenced: bool) -> (std::sync::Arc<FakeWorld>, std::sync::Arc<crate::site::Site<FakeWorld>>) {
    let (world, site) = mk_site(3);
    if fenced {
        step::run(&*site, &observed(3), &testing::step(fence(1))).await.unwrap();
        world.effects();
    }
    (world, site)
}

/// A promotion is asked for when the old primary gives no answer.
fn silence_for(world: &FakeWorld, operation: &Operation) {
    if matches!(operation, Operation::Promote(pod) if *pod != uid(0)) {
        world.change(&uid(0), |server| server.silent = true);
    }
}

fn check(world: &FakeWorld, case: &str) {
    let ledger = Ledger::read(world.object(&topology_id()).unwrap().get("status"));
    assert_eq!(ledger.formed, Some(true), "{case}");
    for fence in &ledger.fences {
        let server = world.server(&fence.pod);
        assert!(server.fence() >= fence.min_replicas, "{case}: the ledger claims a fence that isn't there");
        let followed = |ordinal: u32| world.server(&uid(ordinal)).upstream == Some(server.ip);
        assert!(fence.detached_at == 0 || !(0..3).any(followed), "{case}: the ledger says that nobody follows");
    }
    for ordinal in 0..3 {
        let server = world.server(&uid(ordinal));
        let named = ledger.is_last_primary("rfr-x", ordinal);
        // A hand-over by FAILOVER gives the new primary a history that descends from the newest one, by which it is known again.
        let descends = ledger.lineages.first().is_some_and(|lineage| lineage.replid == server.second_replid);
        assert!(!server.is_primary() || named || descends || ordinal == 0, "{case}: {} leads and nobody knows", server.name);
    }
}

#[tokio::test]
async fn an_end_after_any_effect_leaves_a_legal_state() {
    let cases: [(&str, bool, Operation); 8] = [
        ("raise the fence", false, fence(1)),
        ("raise it further", true, fence(2)),
        ("lower the fence", true, fence(0)),
        ("promote", true, promote(1)),
        ("hand over", true, hand_over()),
        ("detach", true, Operation::Detach(uid(1))),
        ("follow", true, testing::follow(2, 0)),
        ("promote the fenced one anew", true, promote(0)),
    ];
    for (name, fenced, operation) in cases {
        let (world, site) = begin(fenced).await;
        silence_for(&world, &operation);
        step::run(&*site, &observed(3), &testing::step(operation.clone())).await.unwrap();
        let effects = world.effects();
        check(&world, name);
        for end in 0..effects.len() {
            let (world, site) = begin(fenced).await;
            silence_for(&world, &operation);
            world.state().ends_after = Some(end);
            let case = format!("{name}, ended after {end} of {effects:?}");
            let ended = step::run(&*site, &observed(3), &testing::step(operation.clone())).await;
            assert!(ended.is_err(), "{case}: it went on");
            check(&world, &case);
        }
    }
}
