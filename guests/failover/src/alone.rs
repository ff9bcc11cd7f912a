//! Sentinels that stand alone: a Sentinel object that no instance owns. Instances that refer to it watch their data sets there;
//! here only the Sentinels themselves are wanted.
//!
//! # Guarantees
//! No step is ever asked for: what such Sentinels watch is the business of those who refer to them.

use serde_json::json;
use vko_sdk::planning::{Condition, Phase, Plan, Status, Truth};
use vko_sdk::{Observed, plan};

use crate::desired::sentinels;
use crate::group::Group;
use crate::report::{nodes, unwell};
use crate::spec::Settings;
use vko_replica::decision::LATER_MS;

/// The plan: the Sentinels exist, and are ready when all answer and none is in TILT.
pub fn plan(observed: &Observed, settings: &Settings) -> Plan {
    let group = Group::new(observed, settings);
    let hands_off = observed.instance.deleting || observed.instance.paused;
    let missing = unwell(&group);
    let answering = group.seats.iter().filter(|s| s.answers()).count();
    let phase = match (observed.instance.paused, &missing) {
        (true, _) => Phase::Paused,
        (false, None) => Phase::Ready,
        // A majority serves; below it no data set is watched any more. Those that never ran are still being created.
        (false, Some(_)) if answering >= group.majority() => Phase::Rebalancing,
        (false, Some(_)) => Phase::Initializing,
    };
    let (state, reason, message) = match missing {
        None => (Truth::Yes, "AllSentinelsAnswer".to_owned(), format!("{answering} Sentinel(s) answer")),
        Some(shortfall) => (Truth::No, shortfall.reason, shortfall.message),
    };
    let of = |kind: &str, state| Condition { kind: kind.into(), state, reason: reason.clone(), message: message.clone() };
    let not_so = if state == Truth::Yes { Truth::No } else { Truth::Yes };
    let conditions = vec![of("Ready", state), of("Degraded", not_so), of("Progressing", not_so)];
    let details = json!({"nodes": nodes(&group)}).to_string();
    let status = Status { phase, message: message.clone(), conditions, details };
    Plan {
        desired: if hands_off { Vec::new() } else { sentinels(&group) },
        look_again: if state == Truth::Yes { 0 } else { LATER_MS },
        ..plan::holding(status)
    }
}

#[cfg(test)]
mod tests {
    use vko_sdk::Policy;
    use vko_sdk::planning::{Desired, Writer};

    use super::*;
    use crate::FailoverPolicy;
    use crate::testing::Watched;

    type Change = fn(&mut Watched) -> &mut Watched;

    #[test]
    fn ready_when_all_answer() {
        let table: &[(&str, Change, Phase, &str)] = &[
            ("all answer", |w| w, Phase::Ready, "AllSentinelsAnswer"),
            ("one is silent", |w| w.mute(0), Phase::Rebalancing, "SentinelsAway"),
            ("one in tilt", |w| w.tilt(0), Phase::Rebalancing, "SentinelsInTilt"),
            ("too few answer", |w| w.mute(0).drop_sentinel(1), Phase::Initializing, "SentinelsAway"),
        ];
        for (case, change, phase, reason) in table {
            let mut watched = Watched::alone("x");
            change(&mut watched);
            let plan = FailoverPolicy::decide(watched.scene.observed).expect("a plan");
            assert_eq!((plan.status.phase, plan.status.conditions[0].reason.as_str()), (*phase, *reason), "{case}");
            assert!(plan.tracks.is_empty() && plan.routing.writer == Writer::None, "{case}: nothing is done");
            assert_eq!(plan.look_again == 0, *phase == Phase::Ready, "{case}");
        }
    }

    #[test]
    fn only_sentinels_are_wanted() {
        let plan = FailoverPolicy::decide(Watched::alone("x").scene.observed).expect("a plan");
        let names: Vec<&str> = plan
            .desired
            .iter()
            .map(|d| match d {
                Desired::Workload(w) => w.name.as_str(),
                Desired::Service(s) => s.name.as_str(),
                Desired::Budget(b) => b.workload.as_str(),
                Desired::Certificate(_) | Desired::Extension(_) => "",
            })
            .collect();
        assert_eq!(names, ["rfs-x", "rfs-x", "rfs-x"]);
        let details: serde_json::Value = serde_json::from_str(&plan.status.details).expect("JSON");
        assert_eq!((&details["nodes"][2]["role"], &details["nodes"][2]["podName"]), (&json!("Sentinel"), &json!("rfs-x-2")));
    }
}
