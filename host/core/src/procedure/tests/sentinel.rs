//! Steps at Sentinels, and the hand-over beside them.

use std::sync::Arc;
use std::time::Duration;

use vko_wit::common::Pair;
use vko_wit::planning::{Expectation, HandOver, Operation, SentinelEpochOf, SentinelMonitor, SentinelName, SentinelOptions};

use crate::execute::{ExecuteError, step};
use crate::guard::testing::{Scene, step as mk_step, uid};
use crate::site::Site;
use crate::testing::{FakeWorld, mk_sentinel_site, sentinel_id};

async fn run(site: &Site<FakeWorld>, operation: Operation) -> Result<(), ExecuteError> {
    step::run(site, &Scene::watched().0, &mk_step(operation)).await
}

fn monitor(primary: u32) -> Operation {
    Operation::Monitor(SentinelMonitor {
        sentinel: sentinel_id(0),
        name: "mymaster".into(),
        primary: uid(primary),
        quorum: 2,
        options: vec![Pair { key: "down-after-milliseconds".into(), value: "5000".into() }],
        credential: "sentinel".into(),
    })
}

fn named() -> SentinelName {
    SentinelName { sentinel: sentinel_id(0), name: "mymaster".into() }
}

fn hand_over() -> Operation {
    Operation::HandOver(HandOver { primary: uid(0), replica: uid(1), monitor: "mymaster".into(), timeout: 5_000 })
}

/// Nothing is watched yet by the first Sentinel.
fn unwatched() -> (Arc<FakeWorld>, Arc<Site<FakeWorld>>) {
    let (world, site) = mk_sentinel_site(3);
    world.state().sentinels.get_mut(&sentinel_id(0)).unwrap().monitors.clear();
    (world, site)
}

#[tokio::test]
async fn a_monitor_comes_with_its_options_and_its_login() {
    let (world, site) = unwatched();
    run(&site, monitor(0)).await.unwrap();
    assert_eq!(world.effects(), ["rfs-x-0: sentinel-monitor", "rfs-x-0: sentinel-set"]);
    let options = world.sentinel(&sentinel_id(0)).monitors["mymaster"].options.clone();
    for (key, value) in
        [("quorum", "2"), ("down-after-milliseconds", "5000"), ("auth-user", "sentinel"), ("auth-pass", "s3ntinel")]
    {
        assert_eq!(options.get(key).map(String::as_str), Some(value), "{key}");
    }
    // As after an answer that was lost.
    run(&site, monitor(0)).await.unwrap();
    assert_eq!(world.effects(), ["rfs-x-0: sentinel-set"]);
}

/// What the host remembers of the first Sentinel's watching: the primary's address and the quorum.
fn remembered(site: &Site<FakeWorld>) -> Option<(String, Option<u32>)> {
    let memory = site.memory.snapshot();
    let monitors = memory.get(&sentinel_id(0))?.sentinel.clone()?.monitors?;
    monitors.first().map(|answer| (answer.monitored.address.host.clone(), answer.monitored.quorum))
}

#[tokio::test]
async fn what_was_done_is_remembered_before_the_next_look() {
    let (_, site) = unwatched();
    run(&site, monitor(0)).await.unwrap();
    assert_eq!(remembered(&site), Some(("10.0.0.1".into(), Some(2))));
    let options = vec![Pair { key: "quorum".into(), value: "3".into() }];
    let set = SentinelOptions { sentinel: sentinel_id(0), name: "mymaster".into(), options, credential: "sentinel".into() };
    run(&site, Operation::SetMonitor(set)).await.unwrap();
    assert_eq!(remembered(&site), Some(("10.0.0.1".into(), Some(3))));
    run(&site, Operation::Unmonitor(named())).await.unwrap();
    assert_eq!(remembered(&site), None);
}

#[tokio::test]
async fn a_monitor_that_was_cut_short_shows_and_starts_no_failover() {
    let (world, site) = unwatched();
    world.state().ends_after = Some(1);
    assert!(run(&site, monitor(0)).await.is_err());
    let half = world.sentinel(&sentinel_id(0)).monitors["mymaster"].options.clone();
    assert!(half["quorum"].parse::<u32>().unwrap() > 100 && !half.contains_key("auth-pass"), "{half:?}");
    world.state().ends_after = None;
    run(&site, monitor(0)).await.unwrap();
    assert_eq!(world.sentinel(&sentinel_id(0)).monitors["mymaster"].options["quorum"], "2");
}

#[tokio::test]
async fn another_primary_is_not_taken_over_by_the_way() {
    let (world, site) = mk_sentinel_site(3);
    world.change(&uid(1), |server| server.upstream = None);
    assert!(run(&site, monitor(1)).await.unwrap_err().is_dropped(), "it watches member 0");
    assert!(run(&site, monitor(2)).await.unwrap_err().is_dropped(), "a replica is none to watch");
    assert_eq!(world.effects(), Vec::<String>::new());
    run(&site, Operation::Unmonitor(named())).await.unwrap();
    run(&site, monitor(1)).await.unwrap();
    assert_eq!(world.sentinel(&sentinel_id(0)).monitors["mymaster"].ip, Some("10.0.0.2".parse().unwrap()));
}

#[tokio::test]
async fn what_does_not_show_is_not_reported() {
    let (world, site) = unwatched();
    world.state().sentinels.get_mut(&sentinel_id(0)).unwrap().ignores.push("sentinel-monitor");
    assert!(run(&site, monitor(0)).await.is_err());
    let (world, site) = mk_sentinel_site(3);
    world.state().sentinels.get_mut(&sentinel_id(0)).unwrap().ignores.extend(["sentinel-set", "sentinel-remove"]);
    let options = vec![Pair { key: "quorum".into(), value: "3".into() }];
    let set = SentinelOptions { sentinel: sentinel_id(0), name: "mymaster".into(), options, credential: String::new() };
    assert!(matches!(run(&site, Operation::SetMonitor(set)).await, Err(ExecuteError::NotVerified(_))));
    assert!(matches!(run(&site, Operation::Unmonitor(named())).await, Err(ExecuteError::NotVerified(_))));
}

#[tokio::test]
async fn an_account_that_is_not_known_is_not_half_set() {
    let (world, site) = unwatched();
    site.set_credentials(std::collections::BTreeMap::new());
    assert!(matches!(run(&site, monitor(0)).await, Err(ExecuteError::TargetGone(_))));
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_reset_is_of_one_name() {
    let (world, site) = mk_sentinel_site(3);
    run(&site, Operation::ResetMonitor(named())).await.unwrap();
    assert_eq!(world.effects(), ["rfs-x-0: sentinel-reset"]);
    let all = SentinelName { sentinel: sentinel_id(0), name: "*".into() };
    assert!(run(&site, Operation::ResetMonitor(all)).await.is_err());
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_removed_while_a_failover_runs() {
    let (world, site) = mk_sentinel_site(3);
    let busy = |sentinel: &mut crate::testing::FakeSentinel| {
        sentinel.monitors.get_mut("mymaster").unwrap().failover = "wait_start".into();
    };
    busy(world.state().sentinels.get_mut(&sentinel_id(0)).unwrap());
    let operations =
        [Operation::Unmonitor(named()), Operation::ResetMonitor(named()), Operation::SentinelFailover(named()), hand_over()];
    for operation in operations {
        assert!(run(&site, operation.clone()).await.unwrap_err().is_dropped(), "{operation:?}");
    }
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn nobody_is_promoted_beside_a_failover_that_began_since() {
    let (world, site) = mk_sentinel_site(3);
    world.change(&uid(0), |server| server.silent = true);
    let busy = |state: &mut crate::testing::State, number: u32| {
        state.sentinels.get_mut(&sentinel_id(number)).unwrap().monitors.get_mut("mymaster").unwrap().failover =
            "wait_start".into();
    };
    busy(&mut world.state(), 2);
    let promote = || crate::guard::testing::promote(1);
    assert!(run(&site, promote()).await.unwrap_err().is_dropped());
    assert_eq!(world.effects(), Vec::<String>::new());
    // It begins between the note in the ledger and the command.
    let (world, site) = mk_sentinel_site(3);
    world.change(&uid(0), |server| server.silent = true);
    world.state().before.push(("rfr-x-1: config-set".into(), |state| {
        state.sentinels.get_mut(&sentinel_id(1)).unwrap().monitors.get_mut("mymaster").unwrap().failover = "select_slave".into();
    }));
    assert!(run(&site, promote()).await.unwrap_err().is_dropped());
    assert!(!world.server(&uid(1)).is_primary());
}

#[tokio::test]
async fn they_replace_a_primary_that_is_over() {
    let (world, site) = mk_sentinel_site(3);
    assert!(run(&site, Operation::SentinelFailover(named())).await.unwrap_err().is_dropped(), "it leads");
    world.change(&uid(0), |server| server.upstream = Some("127.0.0.1".parse().unwrap()));
    run(&site, Operation::SentinelFailover(named())).await.unwrap();
    assert_eq!(world.effects(), ["rfs-x-0: sentinel-failover", "status x"]);
    assert!(world.server(&uid(1)).is_primary() && site.store.ledger().await.is_last_primary("rfr-x", 1));
}

#[tokio::test]
async fn a_failover_that_stands_still_is_no_success() {
    let (world, site) = mk_sentinel_site(3);
    world.change(&uid(0), |server| server.silent = true);
    world.state().sentinels.get_mut(&sentinel_id(0)).unwrap().stuck = true;
    assert!(matches!(run(&site, Operation::SentinelFailover(named())).await, Err(ExecuteError::NotVerified(_))));
    assert!(site.store.ledger().await.is_last_primary("rfr-x", 0));
}

#[tokio::test]
async fn a_hand_over_holds_writes_back_around_the_failover() {
    let (world, site) = mk_sentinel_site(3);
    run(&site, hand_over()).await.unwrap();
    let expected = [
        "rfr-x-1: config-set",
        "rfr-x-0: pause-writes",
        "rfr-x-0: pause-writes",
        "rfs-x-0: sentinel-failover",
        "rfr-x-0: replicaof",
        "rfr-x-0: unpause",
        "status x",
    ];
    assert_eq!(world.effects(), expected);
    assert!(world.server(&uid(1)).is_primary() && world.server(&uid(0)).upstream == Some("10.0.0.2".parse().unwrap()));
    assert!(site.store.ledger().await.is_last_primary("rfr-x", 1));
}

#[tokio::test]
async fn a_replica_that_lags_keeps_the_role_where_it_is() {
    let (world, site) = mk_sentinel_site(3);
    world.change(&uid(2), |server| server.offset = 900);
    let error = run(&site, hand_over()).await.unwrap_err();
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert_eq!(world.effects(), ["rfr-x-1: config-set", "rfr-x-0: pause-writes", "rfr-x-0: unpause"]);
    assert!(world.server(&uid(0)).is_primary() && world.server(&uid(0)).paused.is_none());
}

#[tokio::test]
async fn a_pause_that_may_have_run_out_before_it_was_extended_changes_nothing() {
    // How long it takes until the second pause is answered, and whether the role goes over.
    let table: [(&str, crate::testing::Meddling, bool); 2] = [
        ("while the first one lasts", |state| state.time += Duration::from_millis(1_900), true),
        ("after its end", |state| state.time += Duration::from_secs(2), false),
    ];
    for (case, late, goes) in table {
        let (world, site) = mk_sentinel_site(3);
        world.state().before = vec![("rfr-x-0: pause-writes".into(), |_| ()), ("rfr-x-0: pause-writes".into(), late)];
        let outcome = run(&site, hand_over()).await;
        assert_eq!(outcome.is_ok(), goes, "{case}: {outcome:?}");
        assert_eq!(world.effects().contains(&"rfs-x-0: sentinel-failover".to_owned()), goes, "{case}");
        assert!(world.server(&uid(0)).paused.is_none(), "{case}");
    }
}

#[tokio::test]
async fn whom_the_sentinels_chose_has_the_role_and_the_ledger_says_so() {
    let (world, site) = mk_sentinel_site(3);
    let order = HandOver { primary: uid(0), replica: uid(2), monitor: "mymaster".into(), timeout: 5_000 };
    let error = run(&site, Operation::HandOver(order)).await.unwrap_err();
    assert!(error.to_string().contains("chose rfr-x-1 and not rfr-x-2"), "{error}");
    assert!(site.store.ledger().await.is_last_primary("rfr-x", 1));
    assert_eq!(world.server(&uid(0)).upstream, Some("10.0.0.2".parse().unwrap()), "nobody is left with writes of its own");
}

#[tokio::test]
async fn a_failover_that_goes_on_keeps_the_pause() {
    let (world, site) = mk_sentinel_site(3);
    world.state().sentinels.get_mut(&sentinel_id(0)).unwrap().stuck = true;
    let error = run(&site, hand_over()).await.unwrap_err();
    assert!(error.to_string().contains("has not given up"), "{error}");
    assert!(world.server(&uid(0)).paused.is_some(), "the server's own clock ends it");

    let (world, site) = mk_sentinel_site(3);
    world.state().sentinels.get_mut(&sentinel_id(0)).unwrap().ignores.push("sentinel-failover");
    let error = run(&site, hand_over()).await.unwrap_err();
    assert!(error.to_string().contains("it takes writes again"), "{error}");
    assert!(world.server(&uid(0)).paused.is_none());
}

#[tokio::test]
async fn without_a_majority_nobody_hands_over() {
    let (world, site) = mk_sentinel_site(3);
    for number in [1, 2] {
        world.state().sentinels.get_mut(&sentinel_id(number)).unwrap().silent = true;
    }
    assert!(run(&site, hand_over()).await.unwrap_err().is_dropped());
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_hand_over_that_ends_after_any_effect_loses_nothing() {
    let (world, site) = mk_sentinel_site(3);
    run(&site, hand_over()).await.unwrap();
    let effects = world.effects();
    for end in 0..effects.len() {
        let (world, site) = mk_sentinel_site(3);
        world.state().ends_after = Some(end);
        let case = format!("ended after {end} of {effects:?}");
        assert!(run(&site, hand_over()).await.is_err(), "{case}: it went on");
        let leads: Vec<u32> = (0..3).filter(|number| world.server(&uid(*number)).is_primary()).collect();
        let open = |number: &u32| world.server(&uid(*number)).paused.is_none();
        assert!(leads.iter().filter(|number| open(number)).count() <= 1, "{case}: {leads:?} take writes");
        let named = world.sentinel(&sentinel_id(0)).monitors["mymaster"].ip;
        assert!(leads.iter().any(|number| Some(world.server(&uid(*number)).ip) == named), "{case}: the Sentinels' primary leads");
    }
}

#[tokio::test]
async fn epochs_of_monitors_are_read_again() {
    let (world, site) = mk_sentinel_site(3);
    for (epoch, holds) in [(2, false), (1, true)] {
        let mut step = mk_step(Operation::Unmonitor(named()));
        let expected = SentinelEpochOf { sentinel: sentinel_id(0), name: "mymaster".into(), epoch };
        step.expects.push(Expectation::SentinelEpoch(expected));
        assert_eq!(step::run(&*site, &Scene::watched().0, &step).await.is_ok(), holds, "{epoch}");
        assert_eq!(world.effects().len(), usize::from(holds));
    }
}
