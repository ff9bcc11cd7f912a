//! What each rule allows and refuses, as tables of named cases.

mod data;
mod disrupt;
mod membership;
mod objects;
mod promote;
mod random;
mod random_cluster;
mod rules;
mod sentinels;
mod slots;
mod take_over;
mod writers;

use super::testing::Scene;

/// A change of a scene.
type Change = fn(&mut Scene) -> &mut Scene;

/// The scene after a change.
fn after(mut scene: Scene, change: Change) -> Scene {
    change(&mut scene);
    scene
}

/// Compares a verdict with the start of what was expected.
fn expect(case: &str, found: &str, expected: &str) {
    assert!(found.contains(expected) && (expected != "ok" || found == "ok"), "{case}: '{found}' instead of '{expected}'");
}
