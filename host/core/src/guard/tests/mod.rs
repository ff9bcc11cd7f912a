//! What each rule allows and refuses, as tables of named cases.

mod cluster_policy;
mod data;
mod disrupt;
mod membership;
mod objects;
mod promote;
mod random;
mod random_cluster;
mod roll;
mod rules;
mod sentinels;
mod slots;
mod take_over;
mod writers;

use super::testing::{Scene, mk_belief, slots as slots_of};
use crate::testing::node_id;

/// A change of a scene.
type Change = fn(&mut Scene) -> &mut Scene;

/// The scene after a change.
fn after(mut scene: Scene, change: Change) -> Scene {
    change(&mut scene);
    scene
}

/// Member 1 terminates.
fn terminating(scene: &mut Scene) -> &mut Scene {
    scene.pod(1).terminating_for = 1;
    scene
}

/// Member 1 is being synced.
fn syncing(scene: &mut Scene) -> &mut Scene {
    scene.link(1).syncing = true;
    scene
}

fn keyless(scene: &mut Scene, number: u32) -> &mut Scene {
    scene.facts(number).keys = 0;
    scene
}

/// It holds itself for an owner of shard 0's slots.
fn claims(scene: &mut Scene, number: u32) -> &mut Scene {
    scene.cluster_of(number).differs.push(mk_belief(node_id(number), slots_of(0)));
    scene
}

/// Most hold it for the owner of shard 0's slots.
fn owner(scene: &mut Scene, number: u32) -> &mut Scene {
    scene.peer(number).slots = slots_of(0);
    scene
}

/// Compares a verdict with the start of what was expected.
fn expect(case: &str, found: &str, expected: &str) {
    assert!(found.contains(expected) && (expected != "ok" || found == "ok"), "{case}: '{found}' instead of '{expected}'");
}
