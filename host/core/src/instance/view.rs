//! Sentinel objects that aren't an instance's own topology object: the one that is shown beside a Failover with own Sentinels,
//! and one that a person made under a name that is taken.
//!
//! # Guarantees
//! 1. The object beside a Failover is a view: its spec follows the Failover's, its status is written from the same report, and
//!    nothing is read from it. It goes with the Failover.
//! 2. A person's Sentinel is never taken over. It is told that its name is taken.
//! 3. A view that can't be written is an event of the Valkey's, once, and nothing else: neither the data nor the Sentinels depend
//!    on it.

use serde_json::{Value, json};
use vko_api::failover::FailoverSpec;
use vko_api::{names, translate};

use super::Instance;
use super::topology::{Named, stands_alone};
use crate::execute::desired;
use crate::object::{Kind, Object};
use crate::render::Topology;
use crate::report::{refused_status, sentinel_status};
use crate::world::{ApiError, EventNote, World};

/// The Sentinel object beside a topology object; `None` if it has no Sentinels of its own.
fn beside(topology: &Named) -> Option<Value> {
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
    /// The Sentinel object beside the topology object, as it should be.
    pub(super) async fn show_beside(&mut self, named: &Named, topology: &Topology, person: &Object) {
        let Some(object) = beside(named) else { return };
        let applied = desired::apply(&*self.shared.world, topology, &[object]).await;
        let problem = applied.failed.first().map(|(id, error)| format!("{id}: {error}"));
        self.tell_unseen(person, problem).await;
    }

    /// Tells once why the view isn't as it should be.
    async fn tell_unseen(&mut self, person: &Object, problem: Option<String>) {
        let problem = problem.unwrap_or_default();
        if problem == self.unseen {
            return;
        }
        self.unseen.clone_from(&problem);
        if problem.is_empty() {
            return;
        }
        tracing::warn!(namespace = self.key.namespace, instance = self.key.name, problem, "the Sentinel object is not shown");
        let note = format!("the object that shows the Sentinels can't be written, which harms nothing else: {problem}");
        self.shared.world.event(person, EventNote { reason: "SentinelNotShown".into(), note, warning: true }).await;
    }

    /// Shows in the Sentinel object, if there is one that isn't the topology object, how things are.
    pub(super) async fn report_sentinel(&self, topology: &Object, report: &Value) {
        let Some(sentinel) = self.cached(Kind::Sentinel).filter(|sentinel| !sentinel.object.deleting()) else { return };
        let status = if sentinel.object.controller_uid() == topology.uid() {
            sentinel_status(report, sentinel.object.generation())
        } else if stands_alone(&sentinel.object) && sentinel.object.uid() != topology.uid() {
            let message = format!("a Valkey {} exists, and its objects have this name; choose another one", self.key.name);
            refused_status(&sentinel.object, "NameTaken", &message, self.shared.world.unix_ms())
        } else {
            return;
        };
        if let Err(error) = self.write_status(&sentinel.object, &status).await {
            tracing::warn!(namespace = self.key.namespace, instance = self.key.name, %error, "the Sentinel object's status is not written");
        }
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
