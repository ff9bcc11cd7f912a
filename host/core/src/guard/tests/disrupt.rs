//! Rule 4: one member at a time.

use super::expect;
use crate::guard::guard;
use crate::guard::testing::{CALM, Scene, evict, hand_over, mk_plan, step, track, uid, verdict};
use vko_wit::planning::Operation;

#[test]
fn one_member_at_a_time() {
    let scene = Scene::healthy(3);
    let both = vec![track("a", vec![step(evict(1))]), track("b", vec![step(evict(2))])];
    expect("two in one plan", &scene.ask_all(both), "rfr-x-1 is disturbed by this plan already");
    let plan = mk_plan(vec![track("b", vec![step(evict(2))])]);
    let running = [track("a", vec![step(evict(1))])];
    expect("beside one that runs", &verdict(&guard(&plan, &scene.0, CALM, &running)), "rfr-x-1 is disturbed");

    let mut scene = Scene::healthy(3);
    scene.pod(2).ready = false;
    expect("another one isn't ready", &scene.ask(step(evict(1))), "rfr-x-2 is not ready");
    expect("the one that isn't ready itself", &scene.ask(step(evict(2))), "ok");
    expect("the primary's role, while one isn't ready", &scene.ask(step(hand_over(0, 1))), "rfr-x-2 is not ready");

    let mut scene = Scene::healthy(3);
    scene.pod(2).terminating_for = 5;
    expect("another one is terminating", &scene.ask(step(evict(1))), "rfr-x-2 is not ready");
}

#[test]
fn the_dead_are_no_second_disruption_but_count_as_one() {
    let mut scene = Scene::healthy(3);
    scene.kill(2);
    let plan = vec![track("a", vec![step(Operation::ForceDelete(uid(2)))]), track("b", vec![step(evict(1))])];
    expect("after a force-delete", &scene.ask_all(plan), "rfr-x-2 is disturbed");
}

#[test]
fn one_heir_at_a_time() {
    let scene = Scene::healthy(3);
    let twice = vec![track("a", vec![step(hand_over(0, 1))]), track("b", vec![step(hand_over(0, 2))])];
    expect("two hand-overs", &scene.ask_all(twice), "rfr-x-1 is made the primary already");
}

#[test]
fn one_member_of_each_shard_and_a_majority_of_primaries() {
    let scene = Scene::cluster();
    let tracks = |steps: &[Operation]| {
        let each = |(at, operation): (usize, &Operation)| track(&at.to_string(), vec![step(operation.clone())]);
        steps.iter().enumerate().map(each).collect::<Vec<_>>()
    };
    expect("replicas of three shards", &scene.ask_all(tracks(&[evict(1), evict(3), evict(5)])), "ok");
    expect("one primary's role", &scene.ask(step(hand_over(0, 1))), "ok");
    expect("two primaries' roles", &scene.ask_all(tracks(&[hand_over(0, 1), hand_over(2, 3)])), "1 of 3 primaries would be left");
    let mut scene = Scene::cluster();
    scene.silence(4);
    expect("beside a silent one", &scene.ask(step(hand_over(0, 1))), "1 of 3 primaries would be left");
    expect("a replica beside a silent primary", &scene.ask(step(evict(1))), "ok");
}
