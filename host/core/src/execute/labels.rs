//! Labels: whose pods the read-write and read-only Services select.
//!
//! # Guarantees
//! 1. Never two writers: the old writer's label is taken off before the new one's is put on, each a write of its own.
//! 2. Labels follow observed roles: a pod gets the writer's label only if its server says that it is a primary.
//! 3. Who is merely silent keeps its label: clients are no better off without any address.

use serde_json::{Value, json};
use vko_api::names;
use vko_wit::common::Architecture;
use vko_wit::observation::{Observed, Role};
use vko_wit::planning::{Routing, Writer};

use crate::object::{Kind, Object, ObjectId};
use crate::site::Site;
use crate::world::{ApiError, World};

use super::ExecuteError;

/// One pod's labels as they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Pod.
    pub pod: String,
    /// Its UID: the patch is bound to it.
    pub uid: String,
    /// Value of the role label.
    pub role: String,
    /// Whether readers may use it.
    pub reader: bool,
}

/// What has to change, in the order in which it must: taking off before putting on.
pub fn changes(observed: &Observed, pods: &[Object], routing: &Routing) -> Vec<Change> {
    if observed.instance.architecture == Architecture::Cluster {
        // Clients of a cluster find primaries by its slots; no Service selects by role.
        return Vec::new();
    }
    let mut changes: Vec<(bool, Change)> = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.deleting() || pod.label(names::ROLE) == names::ROLE_PRIMARY) {
        let role = wanted_role(observed, pod, routing);
        let reader = routing.readers.iter().any(|uid| uid == pod.uid());
        let is_reader = pod.label(names::READER) == "true";
        if role != pod.label(names::ROLE) || reader != is_reader {
            let puts_on = role == names::ROLE_PRIMARY;
            changes.push((puts_on, Change { pod: pod.name().into(), uid: pod.uid().into(), role: role.into(), reader }));
        }
    }
    changes.sort_by_key(|(puts_on, _)| *puts_on);
    changes.into_iter().map(|(_, change)| change).collect()
}

fn wanted_role<'a>(observed: &Observed, pod: &'a Object, routing: &Routing) -> &'a str {
    let observed_role =
        observed.servers.iter().find(|s| s.pod == pod.uid()).and_then(|s| s.facts.as_ref()).map(|facts| &facts.role);
    let now = pod.label(names::ROLE);
    let is_writer = matches!(&routing.writer, Writer::Pod(uid) if uid == pod.uid());
    match (is_writer, observed_role) {
        (true, Some(Role::Primary)) => names::ROLE_PRIMARY,
        // Chosen, but its server doesn't say so (yet, or any more): what it has stays, nothing is put on.
        (true, _) => now,
        (false, Some(Role::Replica(_))) => names::ROLE_REPLICA,
        // A primary that isn't the writer: no Service may lead to it.
        (false, Some(Role::Primary)) => "",
        (false, None) if now == names::ROLE_PRIMARY => "",
        (false, None) => now,
    }
}

/// Applies the changes, in order. The first failure ends it: putting a label on must not overtake taking another off. A pod that
/// is gone has no label any more.
///
/// # Errors
/// What the API server said.
pub async fn apply<W: World>(site: &Site<W>, namespace: &str, changes: &[Change]) -> Result<(), ExecuteError> {
    for change in changes {
        let id = ObjectId::new(Kind::Pod, namespace, &change.pod);
        match site.world.merge(&id, &patch(change)).await {
            Ok(_) => {}
            Err(ApiError::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        }
        tracing::info!(namespace, pod = change.pod, role = change.role, reader = change.reader, "labels follow the roles");
    }
    Ok(())
}

fn patch(change: &Change) -> Value {
    let reader = if change.reader { json!("true") } else { Value::Null };
    json!({"metadata": {"uid": change.uid, "labels": {names::ROLE: change.role, names::READER: reader}}})
}

#[cfg(test)]
mod tests;
