//! Desired objects: rendered, compared with the live ones, applied where they differ.
//!
//! # Guarantees
//! 1. What equals the live object is not sent.
//! 2. An object of the same name that isn't this instance's is never touched.
//! 3. A workload shrinks only from the state that was seen.
//! 4. One object that can't be applied doesn't stop the others; a StatefulSet alone waits for what its pods mount.

use serde_json::Value;
use vko_api::names;

use crate::diff::differs;
use crate::object::{Kind, Object, ObjectId};
use crate::render::Topology;
use crate::world::{ApiError, World};

/// What applying brought.
#[derive(Debug, Default)]
pub struct Applied {
    /// Objects written, with the first path that differed.
    pub written: Vec<(ObjectId, String)>,
    /// Objects that couldn't be.
    pub failed: Vec<(ObjectId, ApiError)>,
}

/// Applies the objects in order.
pub async fn apply<W: World>(world: &W, topology: &Topology, rendered: &[Value]) -> Applied {
    let mut applied = Applied::default();
    for object in rendered {
        let Some(id) = id_of(object) else { continue };
        if id.kind == Kind::StatefulSet && !applied.failed.is_empty() {
            continue;
        }
        match apply_one(world, topology, &id, object).await {
            Ok(None) => {}
            Ok(Some(path)) => {
                tracing::info!(object = %id, path, "applied");
                applied.written.push((id, path));
            }
            Err(error) => {
                tracing::warn!(object = %id, %error, "not applied");
                applied.failed.push((id, error));
            }
        }
    }
    applied
}

async fn apply_one<W: World>(world: &W, topology: &Topology, id: &ObjectId, object: &Value) -> Result<Option<String>, ApiError> {
    // What isn't in the cache may still be there without our labels: an object of somebody else, or one whose labels were taken
    // off.
    let live = match world.cached(id) {
        Some(live) => Some(live),
        None => world.get(id).await?,
    };
    let Some(live) = live else {
        world.apply(object).await?;
        return Ok(Some("created".into()));
    };
    if !is_ours(topology, &live) {
        return Err(ApiError::Conflict(format!("{id} exists and belongs to something else; delete or rename it")));
    }
    if live.deleting() {
        // It can't be changed any more; its successor is made when it is gone.
        return Ok(None);
    }
    match differs(object, &live, names::OPERATOR) {
        None => Ok(None),
        Some(path) => {
            world.apply(&bound(object, &live)).await?;
            Ok(Some(path))
        }
    }
}

/// A workload that shrinks loses pods, so this holds for the object that was seen and for no later one: neither a cache that lags
/// nor an operator that stood still may undo what was decided since.
fn bound(object: &Value, live: &Object) -> Value {
    let members = object.pointer("/spec/replicas").and_then(Value::as_u64);
    let mut bound = object.clone();
    if members.is_some_and(|members| live.number("/spec/replicas").is_some_and(|now| members < now)) {
        bound["metadata"]["resourceVersion"] = live.resource_version().into();
    }
    bound
}

/// Ours by its owner, or by the labels that a released object keeps. An identity that isn't known fits nothing.
fn is_ours(topology: &Topology, live: &Object) -> bool {
    let same = |a: &str, b: &str| !a.is_empty() && a == b;
    same(live.controller_uid(), &topology.uid)
        || same(live.label(names::VALKEY_UID), &topology.valkey_uid)
        || (live.controller_uid().is_empty()
            && live.label(names::MANAGED_BY) == names::OPERATOR
            && live.label(names::INSTANCE) == topology.name)
}

fn id_of(object: &Value) -> Option<ObjectId> {
    let kind = Kind::from_name(object["kind"].as_str()?)?;
    Some(ObjectId::new(kind, object["metadata"]["namespace"].as_str()?, object["metadata"]["name"].as_str()?))
}

#[cfg(test)]
mod tests;
