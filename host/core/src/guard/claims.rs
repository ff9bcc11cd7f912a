//! Rule 7: a claim goes only when its member is gone for good, a synced copy lives elsewhere, and the spec says so or its node is
//! gone; or when a member that is there must begin anew ([`roll::check_emptied`]).

use serde_json::Value;
use vko_wit::planning::{Operation, Step};

use super::{View, roll};

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    let Operation::DeleteClaim(uid) = &step.operation else { return Ok(()) };
    let Some(claim) = view.observed.claims.iter().find(|claim| &claim.uid == uid) else { return Ok(()) };
    let spec: Value = serde_json::from_str(&view.observed.instance.spec).unwrap_or(Value::Null);
    let place_wanted = u64::from(claim.ordinal) < view.wanted_members();
    let node_gone = claim.node_exists == Some(false);
    let pod = view.members().find(|pod| pod.workload == claim.workload && pod.ordinal == claim.ordinal);
    let in_use = pod.filter(|pod| !(node_gone && pod.addresses.is_empty()));
    if let Some(pod) = in_use {
        roll::check_emptied(pod, view)?;
    }
    if in_use.is_none() && place_wanted && !node_gone {
        return Err(format!("member {} is wanted", claim.ordinal));
    }
    if in_use.is_none() && !node_gone && spec["storage"]["retainAfterDeleted"].as_bool() != Some(false) {
        return Err("spec.storage.retainAfterDeleted is not false: the claim stays".into());
    }
    if view.last_primary(&claim.workload).is_some_and(|last| last.ordinal == claim.ordinal) {
        return Err("it belongs to the last primary".into());
    }
    // What its server was called nobody tells any more: any owner without a pod may be it.
    if let Some(owner) = view.owners().find(|peer| view.pod_of_node(&peer.id).is_none()) {
        return Err(format!("the node {} owns slots and is in no pod: the claim may be its", owner.id));
    }
    let of_shard = |p: &&vko_wit::observation::Pod| p.workload == claim.workload && p.ordinal != claim.ordinal;
    let copy = view.members().filter(of_shard).any(|p| view.is_accepted_primary(p));
    if copy { Ok(()) } else { Err("no primary answers: the claim may hold the only copy".into()) }
}
