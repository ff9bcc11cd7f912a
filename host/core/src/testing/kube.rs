//! The API server of the world in memory.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast;
use vko_api::names;

use super::{FakeWorld, State};
use crate::object::{Kind, Object, ObjectId};
use crate::world::{ApiError, Change, Delete, EventNote, Kube};

pub(crate) fn id_of(object: &Value) -> ObjectId {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    ObjectId::new(Kind::from_name(text("/kind")).unwrap(), text("/metadata/namespace"), text("/metadata/name"))
}

impl State {
    /// Stores an object under a new resourceVersion; a new one gets a UID, a deleted one that nothing holds any more goes.
    pub(crate) fn put(&mut self, mut object: Value) -> Object {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"].get("uid").is_none() {
            object["metadata"]["uid"] = json!(format!("made-{}", self.version));
        }
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if object["metadata"].get("deletionTimestamp").is_some() && !finalizers {
            self.objects.remove(&id_of(&object));
        } else {
            self.objects.insert(id_of(&object), object.clone());
        }
        Object::new(object)
    }

    fn live(&self, id: &ObjectId) -> Result<Value, ApiError> {
        self.objects.get(id).cloned().ok_or_else(|| ApiError::NotFound(id.to_string()))
    }

    fn held(&self, id: &ObjectId, object: &Value) -> Result<Value, ApiError> {
        let live = self.live(id)?;
        let same = |field: &str| object["metadata"].get(field).is_none_or(|wanted| wanted == &live["metadata"][field]);
        if same("resourceVersion") && same("uid") { Ok(live) } else { Err(ApiError::Conflict(id.to_string())) }
    }
}

/// JSON merge patch.
fn merged(mut live: Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    for (key, value) in changes {
        if value.is_null() {
            live.as_object_mut().unwrap().remove(key);
        } else {
            let below = live.get(key).cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
            live[key.as_str()] = merged(below, value);
        }
    }
    live
}

impl Kube for FakeWorld {
    fn cached(&self, id: &ObjectId) -> Option<Object> {
        let state = self.state();
        let seen = state.stale.get(id).cloned().unwrap_or_else(|| state.objects.get(id).cloned());
        seen.map(Object::new)
    }

    fn cached_of(&self, kind: Kind, namespace: &str, instance: &str) -> Vec<Object> {
        let all = self.cached_all(kind).into_iter();
        all.filter(|object| object.namespace() == namespace && object.label(names::INSTANCE) == instance).collect()
    }

    fn cached_all(&self, kind: Kind) -> Vec<Object> {
        let ids: Vec<ObjectId> = self.state().objects.keys().filter(|id| id.kind == kind).cloned().collect();
        ids.iter().filter_map(|id| self.cached(id)).collect()
    }

    fn cache_age(&self, _: Kind) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Object>, ApiError> {
        let mut state = self.state();
        state.requests += 1;
        if state.has_ended() {
            return Err(ApiError::Timeout(Duration::ZERO));
        }
        Ok(state.objects.get(id).cloned().map(Object::new))
    }

    async fn apply(&self, object: &Value) -> Result<Object, ApiError> {
        let (mut state, id) = (self.state(), id_of(object));
        state.requests += 1;
        state.effect(format!("apply {} {}", id.kind.name(), id.name))?;
        if object["metadata"].get("resourceVersion").is_some() {
            state.held(&id, object).inspect_err(|_| drop(state.effects.pop()))?;
        }
        let live = state.objects.get(&id).cloned().unwrap_or_else(|| json!({}));
        let object = merged(live, object);
        Ok(state.put(object))
    }

    async fn create(&self, object: &Value) -> Result<Object, ApiError> {
        let (mut state, id) = (self.state(), id_of(object));
        state.requests += 1;
        state.effect(format!("create {} {}", id.kind.name(), id.name))?;
        if state.objects.contains_key(&id) {
            state.effects.pop();
            return Err(ApiError::AlreadyExists(id.to_string()));
        }
        Ok(state.put(object.clone()))
    }

    async fn replace(&self, object: &Value) -> Result<Object, ApiError> {
        let (mut state, id) = (self.state(), id_of(object));
        state.requests += 1;
        state.held(&id, object)?;
        state.effect(format!("replace {} {}", id.kind.name(), id.name))?;
        Ok(state.put(object.clone()))
    }

    async fn replace_status(&self, object: &Value) -> Result<Object, ApiError> {
        let (mut state, id) = (self.state(), id_of(object));
        state.requests += 1;
        state.effect(format!("status {}", id.name))?;
        match state.held(&id, object) {
            Ok(mut live) => {
                live["status"] = object["status"].clone();
                Ok(state.put(live))
            }
            Err(error) => {
                state.effects.pop();
                Err(error)
            }
        }
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Object, ApiError> {
        let mut state = self.state();
        state.requests += 1;
        let live = state.held(id, patch)?;
        state.effect(format!("merge {} {}", id.kind.name(), id.name))?;
        Ok(state.put(merged(live, patch)))
    }

    async fn delete(&self, id: &ObjectId, delete: Delete) -> Result<(), ApiError> {
        let mut state = self.state();
        state.requests += 1;
        state.effect(format!("delete {} {}", id.kind.name(), id.name))?;
        let Some(mut live) = state.objects.get(id).cloned() else { return Ok(()) };
        if live["metadata"]["uid"] != delete.uid {
            return Err(ApiError::Conflict(id.to_string()));
        }
        live["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        state.put(live);
        Ok(())
    }

    async fn evict(&self, namespace: &str, pod: &str, uid: &str) -> Result<(), ApiError> {
        let (mut state, id) = (self.state(), ObjectId::new(Kind::Pod, namespace, pod));
        state.requests += 1;
        state.effect(format!("evict {pod}"))?;
        if state.live(&id)?["metadata"]["uid"] == uid { Ok(()) } else { Err(ApiError::Conflict(id.to_string())) }
    }

    async fn event(&self, regarding: &Object, note: EventNote) {
        self.state().effects.push(format!("event {} {}", regarding.name(), note.reason));
    }
}
