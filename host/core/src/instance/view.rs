//! Sentinel objects that aren't an instance's own topology object: the one that is shown beside a Failover with own Sentinels, and one that a
//! person made under a name that is taken.
//!
//! # Guarantees
//! 1. The object beside a Failover is a view: its spec follows the Failover's, its status is written from the same report, and nothing is read
//!    from it. It goes with the Failover.
//! 2. A person's Sentinel is never taken over. It is told that its name is taken.

use serde_json::{Value, json};
use vko_api::failover::FailoverSpec;
use vko_api::{names, translate};

use super::Instance;
use super::topology::{Named, stands_alone};
use crate::object::{Kind, Object};
use crate::report::{refused_status, sentinel_status};
use crate::world::{ApiError, World};

/// The Sentinel object beside a topology object; `None` if it has no Sentinels of its own.
pub(super) fn beside(topology: &Named) -> Option<Value> {
    let object = &topology.object;
    let spec = object.0.get("spec").filter(|_| topology.id.kind == Kind::Failover)?;
    let failover: FailoverSpec = serde_json::from_value(spec.clone()).ok()?;
    Some(json!({
        "apiVersion": Kind::Sentinel.api_version(),
        "kind": Kind::Sentinel.name(),
        "metadata": {
            "name": topology.id.name,
            "namespace": topology.id.namespace,
            "labels": {
                names::MANAGED_BY: names::OPERATOR,
                names::COMPONENT: names::component::FAILOVER,
                names::APP_NAME: "valkey",
                names::TYPE: names::TYPE_SENTINEL,
                names::INSTANCE: topology.id.name,
                names::VALKEY_UID: object.label(names::VALKEY_UID),
            },
            "ownerReferences": [{
                "apiVersion": topology.id.kind.api_version(),
                "kind": topology.id.kind.name(),
                "name": topology.id.name,
                "uid": object.uid(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": translate::sentinel_beside(&failover)?,
    }))
}

impl<W: World> Instance<W> {
    /// Shows in the Sentinel object, if there is one that isn't the topology object, how things are.
    ///
    /// # Errors
    /// The API server's; that somebody edited it meanwhile is none, its change wakes us.
    pub(super) async fn report_sentinel(&self, topology: &Object, report: &Value) -> Result<(), ApiError> {
        let Some(sentinel) = self.cached(Kind::Sentinel).filter(|sentinel| !sentinel.object.deleting()) else { return Ok(()) };
        let status = if sentinel.object.controller_uid() == topology.uid() {
            sentinel_status(report, sentinel.object.generation())
        } else if stands_alone(&sentinel.object) && sentinel.object.uid() != topology.uid() {
            let message = format!("a Valkey {} exists, and its objects have this name; choose another one", self.key.name);
            refused_status(&sentinel.object, "NameTaken", &message, self.shared.world.unix_ms())
        } else {
            return Ok(());
        };
        self.write_status(&sentinel.object, &status).await
    }

    /// Writes a status that differs.
    pub(super) async fn write_status(&self, object: &Object, status: &Value) -> Result<(), ApiError> {
        if object.0.get("status") == Some(status) {
            return Ok(());
        }
        let mut body = (*object.0).clone();
        body["status"] = status.clone();
        match self.shared.world.replace_status(&body).await {
            // Somebody edited it, or it is gone: that wakes us.
            Ok(_) | Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
