//! A policy to begin with: the built-in replica policy, but a pod that keeps restarting is promoted last.
//!
//! Everything else stays the built-in policy's, used as a library: who may be promoted at all, when, and on which evidence.
//! Change what is here bit by bit; `cargo test` and `valkey-operator policy test` say what still holds.
//!
//! # Guarantees
//! A pod that keeps restarting is promoted only if it is the only candidate.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use vko_replica::{Preferences, ReplicaPolicy, decide_with};
use vko_sdk::observation::Pod;
use vko_sdk::{ModuleInfo, Observed, Plan, Policy, PolicyError, Violation};

/// A pod with more restarts than this keeps restarting: a roll-out or an eviction makes a new pod, whose count begins at none.
const RESTARTS_MAX: u32 = 3;

/// The policy.
pub struct Mine;

#[cfg(all(target_arch = "wasm32", feature = "component"))]
vko_sdk::export_policy!(Mine);

impl Policy for Mine {
    fn describe() -> ModuleInfo {
        ModuleInfo {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            description: "The replica policy; a pod that keeps restarting is promoted last.".into(),
            ..ReplicaPolicy::describe()
        }
    }

    fn validate(spec: String, previous: String) -> Vec<Violation> {
        ReplicaPolicy::validate(spec, previous)
    }

    fn decide(observed: Observed) -> Result<Plan, PolicyError> {
        let may_promote = |pod: &Pod| pod.restarts <= RESTARTS_MAX;
        decide_with(&observed, &Preferences { may_promote: &may_promote })
    }
}

#[cfg(test)]
mod tests {
    use vko_replica::testing::{Scene, describe_track};

    use super::*;

    type Change = fn(&mut Scene) -> &mut Scene;

    #[test]
    fn who_is_promoted() {
        // Member 0 is the primary and dies.
        let table: &[(&str, Change, &[&str])] = &[
            ("nobody keeps restarting", |s| s, &["promote rfr-x-1"]),
            ("the first choice does", |s| s.pod(1, |p| p.restarts = RESTARTS_MAX + 1), &["promote rfr-x-2"]),
            ("it is the only candidate", |s| s.pod(1, |p| p.restarts = RESTARTS_MAX + 1).kill(2), &["promote rfr-x-1"]),
        ];
        for (case, change, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(scene.kill(0));
            let plan = Mine::decide(scene.observed.clone()).expect("a plan");
            let decided: Vec<String> = plan.tracks.iter().map(|track| describe_track(&scene, track)).collect();
            assert_eq!(decided, *expected, "{case}");
        }
    }
}
