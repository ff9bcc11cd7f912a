//! StatefulSets: of a data set, of a shard, of Sentinels.

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::Workload;

use super::metadata::{object, selector};
use super::template::choose_template;
use super::volume::claim_templates;
use super::{Live, Part, RenderError, Topology, pod};
use crate::object::Kind;
use crate::settings::Settings;

/// Renders the StatefulSet of a part, with the template that is in force.
///
/// # Errors
/// A number of members that the part can't have, or a spec without what pods need.
pub(super) fn stateful_set(
    topology: &Topology,
    part: Part,
    workload: &Workload,
    settings: &Settings,
    live: Live<'_>,
) -> Result<Value, RenderError> {
    part.check_members(workload.members)?;
    let rendered = pod::template(topology, part, workload, settings)?;
    let running = (live.stateful_set)(&workload.name);
    let template = choose_template(running.as_ref(), &rendered, live.roll_out);
    let claims = claim_templates(topology, part, running.as_ref())?;

    let mut stateful_set = object(topology, Some(part), Kind::StatefulSet, &workload.name);
    stateful_set["metadata"]["annotations"] = json!({
        names::SPEC_HASH: template.spec_hash,
        names::SOFTWARE: template.software,
        names::TEMPLATE: template.text,
    });
    stateful_set["spec"] = json!({
        "replicas": workload.members,
        "serviceName": part.governing(&topology.name),
        "selector": { "matchLabels": selector(part, &topology.name) },
        // Members start side by side, and one that can't start holds up nobody; who restarts when is the plan's business.
        "podManagementPolicy": "Parallel",
        "updateStrategy": { "type": "OnDelete" },
        "minReadySeconds": 0,
        // Claims are deleted by the operator alone, one by one, under its guard.
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": "Retain" },
        "template": template.value,
    });
    if !claims.is_empty() {
        stateful_set["spec"]["volumeClaimTemplates"] = Value::Array(claims);
    }
    Ok(stateful_set)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{every_part, mk_cluster, stateful_set_of, stateful_set_with_members};
    use super::*;

    #[test]
    fn the_operator_alone_decides_who_restarts_and_which_claims_go() {
        for (topology, part) in every_part() {
            let stateful_set = stateful_set_of(&topology, part);
            assert_eq!(stateful_set["spec"]["updateStrategy"], json!({ "type": "OnDelete" }));
            assert_eq!(stateful_set["spec"]["podManagementPolicy"], "Parallel");
            let retention = json!({ "whenDeleted": "Retain", "whenScaled": "Retain" });
            assert_eq!(stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"], retention);
        }
    }

    #[test]
    fn members_are_the_replicas_and_nothing_else_differs() {
        for (topology, part) in every_part() {
            let mut three = stateful_set_with_members(&topology, part, 3);
            assert_eq!(three["spec"]["replicas"], 3);
            three["spec"]["replicas"] = json!(5);
            assert_eq!(three, stateful_set_with_members(&topology, part, 5));
        }
    }

    #[test]
    fn a_shard_more_changes_no_other_shard() {
        let mut more = mk_cluster();
        more.spec["replicas"]["shards"] = json!(9);
        for shard in 0..3 {
            let part = Part::Shard(shard);
            assert_eq!(stateful_set_of(&more, part), stateful_set_of(&mk_cluster(), part));
        }
    }

    #[test]
    fn members_get_their_names_from_the_governing_service() {
        for (topology, part) in every_part() {
            let stateful_set = stateful_set_of(&topology, part);
            let (name, service) = match part {
                Part::Data => ("rfr-demo", "rfr-demo"),
                Part::Shard(0) => ("drc-demo-0", "demo-0"),
                Part::Shard(_) => ("drc-demo-2", "demo-2"),
                Part::Sentinels => ("rfs-demo", "rfs-demo"),
            };
            assert_eq!(
                (&stateful_set["metadata"]["name"], &stateful_set["spec"]["serviceName"]),
                (&json!(name), &json!(service))
            );
        }
    }

    #[test]
    fn the_authorised_template_is_kept_as_text() {
        for (topology, part) in every_part() {
            let stateful_set = stateful_set_of(&topology, part);
            let stored = stateful_set["metadata"]["annotations"][names::TEMPLATE].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(stored).unwrap(), stateful_set["spec"]["template"], "{part:?}");
        }
    }
}
