//! Whatever a cluster was left as, it comes to rest as declared: a seed that fails is printed and replays.

use vko_sdk::observation::{Outcome, OutcomeKind};
use vko_sdk::planning::{Condition, Operation, Plan, Truth};
use vko_sdk::{lookup, slots};

use super::plan;
use crate::testing::{State, World, half_made, wounded};

/// Rounds of look, steps and time. A cluster of three shards needs about ten from nothing.
const ROUNDS_MAX: usize = 60;

fn ready(plan: &Plan) -> Option<&Condition> {
    plan.status.conditions.iter().find(|c| c.kind == "Ready")
}

/// Runs a world until it rests.
fn run(world: &mut World, what: &str) -> usize {
    for round in 0..ROUNDS_MAX {
        let plan = plan(world);
        check(world, &plan, what);
        if ready(&plan).is_some_and(|c| c.state == Truth::Yes) {
            assert!(plan.tracks.is_empty() && plan.look_again == 0, "{what}: ready, and yet busy: {:?}", plan.tracks);
            return round;
        }
        for track in &plan.tracks {
            for step in &track.steps {
                let done = world.apply(step);
                let outcome = if done { OutcomeKind::Done } else { OutcomeKind::Failed("the server refused".into()) };
                let operation = lookup::operation_name(&step.operation).into();
                world.recent.insert(0, Outcome { operation, subject: track.subject.clone(), outcome, age: 0 });
                if !done {
                    break;
                }
            }
        }
        world.recent.truncate(64);
        world.pass();
        // What ended starts again, as its pod would let it.
        for server in world.servers.iter_mut().filter(|s| s.state == State::Ended && !s.replica_of.is_empty()) {
            (server.state, server.run) = (State::Up, server.run + 1);
            server.known.values_mut().for_each(|linked| *linked = true);
        }
    }
    let last = plan(world);
    panic!(
        "{what}: not at rest after {ROUNDS_MAX} rounds: {} {:?} {:?}",
        super::describe(&last),
        last.status.message,
        last.blocked
    );
}

/// What holds at every look.
fn check(world: &World, plan: &Plan, what: &str) {
    assert_eq!(*plan, super::plan(world), "{what}: the same facts, another plan");
    let mut subjects: Vec<&str> = plan.tracks.iter().map(|t| t.subject.as_str()).collect();
    subjects.dedup();
    assert_eq!(subjects.len(), plan.tracks.len(), "{what}: two tracks of one subject");
    let steps = || plan.tracks.iter().flat_map(|t| &t.steps);
    assert!(steps().all(|s| !s.reason.is_empty()), "{what}: a step without a reason");
    let by_uid = |uid: &str| world.servers.iter().find(|s| s.uid() == uid).unwrap_or_else(|| panic!("{what}: no pod {uid}"));
    let mut takeovers = 0;
    for step in steps() {
        match &step.operation {
            Operation::OwnSlots(own) if step.consent.is_empty() => {
                let pod = by_uid(&own.pod);
                assert!(pod.keys == 0 && pod.slots.is_empty() && pod.replica_of.is_empty(), "{what}: {pod:?} gets slots");
                let taken = world.servers.iter().any(|s| !slots::common(&s.slots, &own.slots).is_empty());
                assert!(!taken, "{what}: slots are given twice");
            }
            Operation::Replicate(replication) => {
                let pod = by_uid(&replication.pod);
                assert!(
                    pod.slots.is_empty() && (pod.keys == 0 || !pod.replica_of.is_empty()),
                    "{what}: {pod:?} is told to replicate"
                );
            }
            Operation::TakeOver(take) => {
                takeovers += 1;
                let of = by_uid(&take.replica).replica_of.clone();
                let alive = world.servers.iter().any(|s| s.id == of && matches!(s.state, State::Up | State::Silent));
                assert!(!alive, "{what}: somebody takes over from a living primary");
            }
            _ => {}
        }
    }
    assert!(takeovers <= 1 || world.majority(), "{what}: {takeovers} take over without votes at once");
}

#[test]
fn every_half_made_cluster_is_completed() {
    for seed in 1..=400 {
        run(&mut half_made(seed), &format!("seed {seed}"));
    }
}

#[test]
fn every_cluster_that_lost_something_with_a_copy_left_is_whole_again() {
    for seed in 1..=300_u64 {
        let mut world = wounded(seed);
        // A server that is held starts when somebody has taken over.
        let mut rounds = 0;
        while rounds < ROUNDS_MAX && world.servers.iter().any(|s| s.state == State::Held && s.replica_of.is_empty()) {
            let plan = plan(&world);
            check(&world, &plan, &format!("seed {seed}"));
            plan.tracks.iter().flat_map(|t| &t.steps).for_each(|s| _ = world.apply(s));
            world.pass();
            rounds += 1;
        }
        for server in world.servers.iter_mut().filter(|s| s.state == State::Held || s.state == State::Ended) {
            (server.state, server.run) = (State::Up, server.run + 1);
        }
        world.pass();
        run(&mut world, &format!("seed {seed}"));
        assert!(world.servers.iter().all(|s| s.keys == 10), "seed {seed}: keys were lost: {:?}", world.servers);
    }
}

#[test]
fn all_under_new_addresses_find_each_other() {
    for (shards, members) in [(3, 1), (3, 2), (7, 3)] {
        let mut world = World::healthy(shards, members);
        world.restart_all();
        run(&mut world, &format!("{shards} x {members}"));
        assert!(world.servers.iter().all(|s| s.keys == 10 && s.pod == 1));
    }
}

#[test]
fn the_largest_cluster_is_made_in_bounded_batches() {
    let mut world = World::new(128, 5);
    let first = plan(&world);
    let meets = first.tracks.iter().flat_map(|t| &t.steps).filter(|s| matches!(s.operation, Operation::Meet(_))).count();
    assert_eq!(meets, crate::join::BATCH_MAX);
    let owns = first.tracks.iter().flat_map(|t| &t.steps).filter(|s| matches!(s.operation, Operation::OwnSlots(_))).count();
    assert_eq!(owns, 128, "slots are given side by side");
    world.pass();
    let healthy = plan(&World::healthy(128, 5));
    assert!(healthy.tracks.is_empty() && healthy.blocked.is_empty() && healthy.look_again == 0);
}
