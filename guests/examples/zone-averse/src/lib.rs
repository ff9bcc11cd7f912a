//! An example: the built-in replica policy, but the primary keeps out of one zone.
//!
//! The zone is named by the annotation `buf.red/avoid-zone` of the instance; without it nothing changes. Everything else is the
//! built-in policy, used as a library: who may be promoted at all, when, and on which evidence stays its business.
//!
//! # Guarantees
//! 1. A pod in the avoided zone is promoted only if it is the only candidate: a zone is never worth the data set's standing
//!    still.
//! 2. A primary that is in the avoided zone already stays there: nothing is moved for a preference.
//!
//! # What it costs
//! Among copies that streamed to the end, one in another zone goes first even if it is a few writes behind.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use vko_replica::{Preferences, ReplicaPolicy, decide_with};
use vko_sdk::observation::Pod;
use vko_sdk::{ModuleInfo, Observed, Plan, Policy, PolicyError, Violation, lookup};

/// Annotation of the instance that names the zone.
pub const AVOID_ZONE: &str = "buf.red/avoid-zone";

/// The policy.
pub struct ZoneAverse;

#[cfg(all(target_arch = "wasm32", feature = "component"))]
vko_sdk::export_policy!(ZoneAverse);

impl Policy for ZoneAverse {
    fn describe() -> ModuleInfo {
        ModuleInfo {
            name: "replica-zone-averse".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            description: format!("The replica policy; the primary keeps out of the zone that {AVOID_ZONE} names."),
            ..ReplicaPolicy::describe()
        }
    }

    fn validate(spec: String, previous: String) -> Vec<Violation> {
        ReplicaPolicy::validate(spec, previous)
    }

    fn decide(observed: Observed) -> Result<Plan, PolicyError> {
        let avoided = lookup::annotation(&observed.instance, AVOID_ZONE).unwrap_or_default();
        let may_promote = |pod: &Pod| avoided.is_empty() || pod.zone != avoided;
        decide_with(&observed, &Preferences { may_promote: &may_promote })
    }
}

#[cfg(test)]
mod tests {
    use vko_replica::testing::{Scene, describe_track};
    use vko_sdk::common::Pair;

    use super::*;

    type Change = fn(&mut Scene) -> &mut Scene;

    fn decided(scene: &Scene) -> Vec<String> {
        let plan = ZoneAverse::decide(scene.observed.clone()).expect("a plan");
        plan.tracks.iter().map(|t| describe_track(scene, t)).collect()
    }

    fn avoiding(zone: &str, mut scene: Scene) -> Scene {
        scene.observed.instance.annotations.push(Pair { key: AVOID_ZONE.into(), value: zone.into() });
        scene
    }

    #[test]
    fn who_is_promoted() {
        // Members 0, 1, 2 are in zones a, b, c; 0 is the primary.
        let table: &[(&str, &str, Change, &[&str])] = &[
            ("no zone is named", "", |s| s.kill(0), &["promote rfr-x-1"]),
            ("another zone is named", "c", |s| s.kill(0), &["promote rfr-x-1"]),
            ("the first choice's zone is named", "b", |s| s.kill(0), &["promote rfr-x-2"]),
            ("even if it has a few writes more", "b", |s| s.kill(0).facts(1, |f| f.offset = 1_010), &["promote rfr-x-2"]),
            ("the only candidate is there", "b", |s| s.kill(0).kill(2), &["promote rfr-x-1"]),
            ("a copy that isn't synced is no alternative", "b", |s| s.kill(0).set_syncing(2), &["promote rfr-x-1"]),
            ("the primary is there and stays", "a", |s| s, &[]),
            (
                "the primary is to be removed",
                "b",
                |s| s.serve_from(2).fence(2, 1).want(2),
                &["fence rfr-x-2 0, hand-over rfr-x-2 rfr-x-0"],
            ),
            ("silent is not dead here, either", "b", |s| s.silence(0).unfence(0), &[]),
        ];
        for (case, zone, change, expected) in table {
            let mut scene = avoiding(zone, Scene::healthy("x", 3));
            change(&mut scene);
            assert_eq!(decided(&scene), *expected, "{case}");
        }
    }

    #[test]
    fn the_first_primary_keeps_out_too() {
        assert_eq!(decided(&avoiding("a", Scene::new("x", 3))), ["promote rfr-x-1"]);
    }

    #[test]
    fn without_a_zone_it_is_the_built_in_policy() {
        let changes: [Change; 3] = [|s| s, |s| s.kill(0), |s| s.silence(0)];
        for change in changes {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            assert_eq!(ZoneAverse::decide(scene.observed.clone()), ReplicaPolicy::decide(scene.observed));
        }
    }

    #[test]
    fn it_says_who_it_is() {
        let info = ZoneAverse::describe();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("replica-zone-averse", "0.2.0"));
        assert_eq!(info.architecture, ReplicaPolicy::describe().architecture);
    }
}
