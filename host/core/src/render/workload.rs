//! The StatefulSet of a data set.

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::{Purpose, Workload};

use super::metadata::{object, selector};
use super::template::choose_template;
use super::volume::claim_templates;
use super::{Live, MEMBERS_MAX, RenderError, Topology, expect_name, pod, unsupported};
use crate::object::Kind;
use crate::settings::Settings;

/// Renders the StatefulSet, with the template that is in force.
///
/// # Errors
/// A workload that this instance doesn't have, or a spec without what pods need.
pub(super) fn stateful_set(
    topology: &Topology,
    workload: &Workload,
    settings: &Settings,
    live: Live<'_>,
) -> Result<Value, RenderError> {
    check(topology, workload)?;
    let rendered = pod::template(topology, workload, settings)?;
    let template = choose_template(live.stateful_set, &rendered, live.roll_out);
    let claims = claim_templates(topology, live.stateful_set)?;

    let mut stateful_set = object(topology, Kind::StatefulSet, &workload.name);
    stateful_set["metadata"]["annotations"] = json!({
        names::SPEC_HASH: template.spec_hash,
        names::SOFTWARE: template.software,
        names::TEMPLATE: template.text,
    });
    stateful_set["spec"] = json!({
        "replicas": workload.members,
        "serviceName": workload.name,
        "selector": { "matchLabels": selector(&topology.name) },
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

fn check(topology: &Topology, workload: &Workload) -> Result<(), RenderError> {
    if workload.purpose != Purpose::Data {
        return Err(unsupported("a workload of Sentinels".to_owned()));
    }
    if workload.shard != 0 {
        return Err(unsupported(format!("shard {}", workload.shard)));
    }
    expect_name("StatefulSet", &workload.name, names::data_workload(&topology.name))?;
    if (1..=MEMBERS_MAX).contains(&workload.members) {
        Ok(())
    } else {
        Err(RenderError::MembersOutOfRange { members: workload.members })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_topology, stateful_set_of};
    use super::*;

    #[test]
    fn the_operator_alone_decides_who_restarts_and_which_claims_go() {
        let stateful_set = stateful_set_of(&mk_topology(), 3);
        assert_eq!(stateful_set["spec"]["updateStrategy"], json!({ "type": "OnDelete" }));
        assert_eq!(stateful_set["spec"]["podManagementPolicy"], "Parallel");
        let retention = json!({ "whenDeleted": "Retain", "whenScaled": "Retain" });
        assert_eq!(stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"], retention);
    }

    #[test]
    fn members_are_the_replicas_and_nothing_else_differs() {
        let mut three = stateful_set_of(&mk_topology(), 3);
        assert_eq!(three["spec"]["replicas"], 3);
        three["spec"]["replicas"] = json!(5);
        assert_eq!(three, stateful_set_of(&mk_topology(), 5));
    }

    #[test]
    fn the_authorised_template_is_kept_as_text() {
        let stateful_set = stateful_set_of(&mk_topology(), 3);
        let stored = stateful_set["metadata"]["annotations"][names::TEMPLATE].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(stored).unwrap(), stateful_set["spec"]["template"]);
    }
}
