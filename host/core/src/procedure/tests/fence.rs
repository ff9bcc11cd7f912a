//! The ledger never claims a fence that doesn't hold.

use super::{fence, run};
use crate::execute::ExecuteError;
use crate::guard::testing::uid;
use crate::testing::mk_site;
use vko_wit::planning::Operation;

#[tokio::test]
async fn raised_on_the_server_first_lowered_in_the_ledger_first() {
    let (world, site) = mk_site(3);
    run(&site, fence(1)).await.unwrap();
    assert_eq!(world.effects(), ["rfr-x-0: config-set", "status x"]);
    let recorded = site.store.ledger().await.fences;
    assert_eq!((recorded.len(), recorded[0].min_replicas, recorded[0].run_id.as_str()), (1, 1, "run-rfr-x-0"));
    assert_eq!(world.server(&uid(0)).fence(), 1);

    run(&site, fence(0)).await.unwrap();
    assert_eq!(world.effects(), ["status x", "rfr-x-0: config-set"]);
    assert_eq!((world.server(&uid(0)).fence(), site.store.ledger().await.fences.len()), (0, 0));
}

#[tokio::test]
async fn what_is_not_read_back_is_not_recorded() {
    let (world, site) = mk_site(3);
    world.change(&uid(0), |server| server.ignores.push("config-set"));
    let error = run(&site, fence(1)).await.unwrap_err();
    assert!(matches!(error, ExecuteError::NotVerified(_)), "{error}");
    assert!(site.store.ledger().await.fences.is_empty());
}

#[tokio::test]
async fn a_server_that_names_no_run_gets_no_fence() {
    let (world, site) = mk_site(3);
    world.change(&uid(0), |server| server.run_id.clear());
    assert!(matches!(run(&site, fence(1)).await, Err(ExecuteError::NotVerified(_))));
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_fence_of_an_earlier_run_is_replaced() {
    let (world, site) = mk_site(3);
    run(&site, fence(2)).await.unwrap();
    world.change(&uid(0), |server| {
        server.run_id = "later".into();
        server.config.clear();
    });
    world.effects();
    run(&site, fence(1)).await.unwrap();
    assert_eq!(world.effects(), ["rfr-x-0: config-set", "status x"], "raised from nothing, whatever the former run had");
    let recorded = site.store.ledger().await.fences;
    assert_eq!((recorded.len(), recorded[0].run_id.as_str(), recorded[0].min_replicas), (1, "later", 1));
}

#[tokio::test]
async fn set_anew_it_forgets_that_replicas_were_detached() {
    let (_, site) = mk_site(3);
    run(&site, fence(1)).await.unwrap();
    site.store.change(|ledger| ledger.fences[0].detached_at = 7).await.unwrap();
    run(&site, fence(1)).await.unwrap();
    assert_eq!(site.store.ledger().await.fences[0].detached_at, 0);
}

#[tokio::test]
async fn who_follows_or_leads_again_opens_it() {
    let cases: [(&str, Operation, bool); 3] = [
        ("a replica comes back", crate::guard::testing::follow(1, 0), true),
        ("its server is promoted anew", Operation::Promote(uid(0)), false),
        ("another replica follows another", crate::guard::testing::follow(1, 2), true),
    ];
    for (case, operation, kept) in cases {
        let (_, site) = mk_site(3);
        run(&site, fence(1)).await.unwrap();
        site.store.change(|ledger| ledger.fences[0].detached_at = 7).await.unwrap();
        let to_it = matches!(&operation, Operation::Follow(follow) if follow.primary == uid(0));
        run(&site, operation).await.unwrap();
        let recorded = site.store.ledger().await.fences;
        assert_eq!(recorded.len(), usize::from(kept), "{case}");
        if let [fence] = recorded.as_slice() {
            assert_eq!(fence.detached_at == 0, to_it, "{case}");
        }
    }
}
