//! Rule 9: what may be done at Sentinels, and what else waits for them.

use super::{Change, after, expect};
use crate::guard::testing::{Scene, promote, step, track, uid};
use crate::testing::sentinel_id;
use vko_wit::common::Pair;
use vko_wit::observation::{LastPrimary, Upstream};
use vko_wit::planning::{HandOver, Operation, SentinelMonitor, SentinelName, SentinelOptions};

fn name_at(sentinel: u32) -> SentinelName {
    SentinelName { sentinel: sentinel_id(sentinel), name: "mymaster".into() }
}

fn monitor(sentinel: u32, primary: u32) -> Operation {
    Operation::Monitor(SentinelMonitor {
        sentinel: sentinel_id(sentinel),
        name: "mymaster".into(),
        primary: uid(primary),
        quorum: 2,
        options: Vec::new(),
        credential: "sentinel".into(),
    })
}

fn failover() -> Operation {
    Operation::SentinelFailover(name_at(0))
}

#[test]
fn one_at_a_time_and_never_below_a_majority() {
    let table: &[(&str, Change, &str)] = &[
        ("all well", |s| s, "ok"),
        ("another one is silent", |s| s.silence_sentinel(1), "only 1 of 3 Sentinels would be left"),
        ("a failover runs", busy, "rfs-x-1 is in the middle of a failover"),
        ("another data set's failover runs", busy_elsewhere, "ok"),
    ];
    for (case, change, expected) in table {
        for operation in [Operation::Unmonitor(name_at(0)), Operation::ResetMonitor(name_at(0)), Operation::Evict("s-0".into())] {
            expect(&format!("{case}: {operation:?}"), &after(Scene::watched(), *change).ask(step(operation)), expected);
        }
    }
    let mut scene = Scene::watched();
    scene.silence_sentinel(0).silence_sentinel(1);
    expect("it is silent itself", &scene.ask(step(Operation::Unmonitor(name_at(0)))), "rfs-x-0 does not answer now");
    expect("its pod may be replaced", &scene.ask(step(Operation::Evict("s-0".into()))), "ok");
    let two = |one: Operation, other: Operation| vec![track("a", vec![step(one)]), track("b", vec![step(other)])];
    let scene = Scene::watched();
    let pair = two(Operation::Unmonitor(name_at(0)), Operation::Unmonitor(name_at(1)));
    expect("two tracks", &scene.ask_all(pair), "is taken out of service by this plan already");
    let pair = two(Operation::Evict("s-0".into()), Operation::ResetMonitor(name_at(1)));
    expect("a pod and another one", &scene.ask_all(pair), "is taken out of service by this plan already");
    let chain = [0, 1].map(|n| [step(Operation::Unmonitor(name_at(n))), step(monitor(n, 0))]).concat();
    expect("one after the other, each back first", &scene.ask_all(vec![track("a", chain)]), "ok");
}

#[test]
fn whom_they_may_watch() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("the accepted primary", 0, |s| s, "ok"),
        ("a replica", 1, |s| s, "not the primary that the ledger names"),
        ("the last primary, which is silent", 0, |s| s.silence(0), "does not answer as one"),
        ("the ledger names another one", 0, not_accepted, "not the primary that the ledger names"),
        ("the Sentinel is silent", 0, |s| s.silence_sentinel(0), "does not answer now"),
    ];
    for (case, primary, change, expected) in table {
        expect(case, &after(Scene::watched(), *change).ask(step(monitor(0, *primary))), expected);
    }
    let mut scene = Scene::watched();
    scene.kill(0);
    let steps = vec![step(promote(1)), step(monitor(0, 1))];
    expect("the one that this track makes", &scene.ask_all(vec![track("t", steps)]), "ok");
}

#[test]
fn what_may_be_set() {
    let options = |key: &str, value: &str| vec![Pair { key: key.into(), value: value.into() }];
    let table: &[(&str, &str, &str)] = &[
        ("down-after-milliseconds", "5000", "ok"),
        ("down-after-milliseconds", "0", "'0' is no whole number above 0"),
        ("failover-timeout", "soon", "'soon' is no whole number above 0"),
        ("parallel-syncs", "-1", "'-1' is no whole number above 0"),
        ("quorum", "2", "ok"),
        ("quorum", "3", "ok"),
        ("quorum", "4", "a quorum of 4 of 3 Sentinels"),
        ("notification-script", "1", "'notification-script' is no option"),
        ("auth-pass", "1", "'auth-pass' is no option"),
    ];
    for (key, value, expected) in table {
        let (sentinel, name, credential) = (sentinel_id(0), "mymaster".into(), String::new());
        let set = SentinelOptions { sentinel, name, options: options(key, value), credential };
        expect(&format!("{key} {value}"), &Scene::watched().ask(step(Operation::SetMonitor(set))), expected);
    }
    let Operation::Monitor(mut order) = monitor(0, 0) else { panic!("it is one") };
    order.options = options("down-after-milliseconds", "0");
    expect("a monitor's own", &Scene::watched().ask(step(Operation::Monitor(order))), "no whole number above 0");
}

#[test]
fn only_its_own_monitor() {
    let named = |name: &str| Operation::Unmonitor(SentinelName { sentinel: sentinel_id(0), name: name.into() });
    expect("its own", &Scene::watched().ask(step(named("mymaster"))), "ok");
    expect("another name", &Scene::watched().ask(step(named("theirs"))), "ObjectNotOwned");
    let mut scene = Scene::watched();
    scene.sentinel(0).pod = Upstream::Nobody;
    expect("of a shared Sentinel, its own", &scene.ask(step(named("shop.x"))), "ok");
    expect("of a shared Sentinel, another's", &scene.ask(step(named("mymaster"))), "ObjectNotOwned");
    let nobody = Operation::Unmonitor(SentinelName { sentinel: sentinel_id(7), name: "mymaster".into() });
    expect("of no Sentinel of ours", &Scene::watched().ask(step(nobody)), "no Sentinel of this instance");
    expect("elsewhere", &Scene::healthy(3).ask(step(failover())), "OperationNotListed");
}

#[test]
fn when_they_are_told_to_fail_over() {
    let table: &[(&str, Change, &str)] = &[
        ("the primary answers", |s| s, "rfr-x-0 answers as a primary"),
        ("the primary is silent", |s| s.silence(0), "not proven dead"),
        ("the primary is dead", |s| s.kill(0), "ok"),
        ("the primary is gone", |s| s.remove(0), "ok"),
        ("the primary came back and waits to be named", |s| s.empty(0), "ok"),
        ("one of three is silent", |s| s.kill(0).silence_sentinel(1), "ok"),
        ("two of three are silent", |s| s.kill(0).silence_sentinel(1).silence_sentinel(2), "1 of 3 Sentinels answer"),
        ("one is in TILT", |s| tilt(s.kill(0)), "rfs-x-2 is in TILT mode"),
        ("one is at it", |s| busy(s.kill(0)), "in the middle of a failover"),
        ("no replica is synced", |s| s.kill(0).restart(1, 0).restart(2, 0), "no synced replica answers"),
        ("no replica may be chosen", |s| unwilling(s.kill(0)), "no synced replica answers"),
        ("it watches nothing", |s| unwatched(s.kill(0)), "does not monitor mymaster"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::watched(), *change).ask(step(failover())), expected);
    }
    let mut scene = Scene::watched();
    scene.kill(0);
    let twice = vec![track("a", vec![step(failover())]), track("b", vec![step(promote(1))])];
    expect("and nobody is promoted meanwhile", &scene.ask_all(twice), "the Sentinels choose a primary already");
}

#[test]
fn who_is_promoted_beside_them() {
    let table: &[(&str, Change, &str)] = &[
        ("the last primary is dead", |s| s.kill(0), "ok"),
        ("a failover runs", |s| busy(s.kill(0)), "in the middle of a failover"),
        ("another one is silent, they name the dead one", |s| s.kill(0).silence(2), "ok"),
        ("another one is silent, they name it", |s| named(s.kill(0).silence(2), 2), "the primary by the word of most Sentinels"),
        ("another one is silent, and most of them", |s| two_silent(s.kill(0).silence(2)), "no majority of the Sentinels says"),
        ("most of them are silent, all others answer", |s| two_silent(s.kill(0)), "ok"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::watched(), *change).ask(step(promote(1))), expected);
    }
}

#[test]
fn a_hand_over_goes_by_them() {
    let order = |monitor: &str| {
        step(Operation::HandOver(HandOver { primary: uid(0), replica: uid(1), monitor: monitor.into(), timeout: 5_000 }))
    };
    expect("by name", &Scene::watched().ask(order("mymaster")), "ok");
    expect("without them", &Scene::watched().ask(order("")), "they would take it back");
    expect("where there are none", &Scene::healthy(3).ask(order("mymaster")), "has no Sentinels");
    let mut scene = Scene::watched();
    expect("they name another one", &named(&mut scene, 2).ask(order("mymaster")), "no majority of the Sentinels names rfr-x-0");
    let mut scene = Scene::watched();
    expect("they are at it", &busy(&mut scene).ask(order("mymaster")), "in the middle of a failover");
}

#[test]
fn their_pods_are_no_data_servers() {
    let table = [
        (Operation::Promote("s-0".into()), "rfs-x-0 runs a Sentinel"),
        (Operation::DropClients("s-0".into()), "runs a Sentinel"),
        (Operation::ForceDelete("s-0".into()), "not proven dead"),
    ];
    for (operation, expected) in table {
        expect(expected, &Scene::watched().ask(step(operation)), expected);
    }
}

fn busy(scene: &mut Scene) -> &mut Scene {
    scene.monitor(1).failover_state = "wait_start".into();
    scene
}

fn busy_elsewhere(scene: &mut Scene) -> &mut Scene {
    let mut other = scene.monitor(1).clone();
    (other.name, other.failover_state) = ("other".into(), "wait_start".into());
    scene.sentinel(1).monitors.push(other);
    scene
}

fn not_accepted(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.last_primary = LastPrimary::Members(vec![crate::guard::testing::mk_member(1)]);
    scene
}

fn tilt(scene: &mut Scene) -> &mut Scene {
    scene.sentinel(2).tilt = true;
    scene
}

fn unwilling(scene: &mut Scene) -> &mut Scene {
    for number in [1, 2] {
        scene.link(number).priority = 0;
    }
    scene
}

fn unwatched(scene: &mut Scene) -> &mut Scene {
    scene.sentinel(0).monitors.clear();
    scene
}

fn named(scene: &mut Scene, primary: u32) -> &mut Scene {
    for number in 0..3 {
        scene.monitor(number).primary = Upstream::Pod(uid(primary));
    }
    scene
}

fn two_silent(scene: &mut Scene) -> &mut Scene {
    scene.silence_sentinel(1).silence_sentinel(2)
}
