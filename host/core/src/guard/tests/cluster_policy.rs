//! The built-in policy of clusters and the guard are of one mind: what the one plans on facts the other one admits on the same
//! facts. A step that is always refused would be planned for ever.

use vko_cluster::testing::{State, World, half_made, wounded};
use vko_wit::observation::{Outcome, OutcomeKind};

use crate::execute::names;
use crate::guard::guard;
use crate::guard::testing::CALM;

/// Looks of one life.
const ROUNDS: usize = 25;

/// Plans and carries out, round by round; every step must be admitted. Returns how many there were.
fn live(world: &mut World, what: &str) -> usize {
    let mut count = 0;
    for round in 0..ROUNDS {
        let observed = world.observe();
        let plan = vko_cluster::decide(&observed).unwrap();
        let guarded = guard(&plan, &observed, CALM, &[]);
        assert_eq!(guarded.refusals, [], "{what}, round {round}");
        for track in &plan.tracks {
            for step in &track.steps {
                count += 1;
                let outcome = if world.apply(step) { OutcomeKind::Done } else { OutcomeKind::Failed("refused".into()) };
                let operation = names::operation(&step.operation).into();
                world.recent.insert(0, Outcome { operation, subject: track.subject.clone(), outcome, age: 0 });
            }
        }
        world.recent.truncate(64);
        world.pass();
    }
    count
}

#[test]
fn creations_that_were_cut_short() {
    let steps: usize = (1..=200).map(|seed| live(&mut half_made(seed), &format!("half made, seed {seed}"))).sum();
    assert!(steps > 1_000, "{steps} steps are no test");
}

#[test]
fn clusters_that_lost_something() {
    let mut steps = 0;
    for seed in 1..=200 {
        let mut world = wounded(seed);
        steps += live(&mut world, &format!("wounded, seed {seed}"));
        for server in world.servers.iter_mut().filter(|s| s.state != State::Up) {
            (server.state, server.run) = (State::Up, server.run + 1);
        }
        world.pass();
        steps += live(&mut world, &format!("wounded and back, seed {seed}"));
    }
    assert!(steps > 500, "{steps} steps are no test");
}

#[test]
fn all_addresses_new() {
    let mut world = World::healthy(4, 3);
    world.restart_all();
    assert!(live(&mut world, "all restarted") > 0);
}

#[test]
fn shards_that_go_on_by_consent() {
    for (shards, members) in [(3, 1), (3, 2), (5, 3)] {
        let mut world = World::healthy(shards, members);
        (0..members).for_each(|ordinal| world.replace(0, ordinal, false));
        live(&mut world, "before it");
        let asked = vko_cluster::decide(&world.observe()).unwrap();
        world.consents = asked.blocked.iter().map(|b| b.token.clone()).collect();
        assert!(world.consents.iter().any(|token| token.starts_with("slots-data-loss:")), "{:?}", asked.blocked);
        assert!(live(&mut world, "after it") >= 2);
    }
}
