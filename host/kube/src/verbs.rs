//! The verbs of `vko_core::world::Kube`: one request each, tried once, with a deadline, and what it answers into the cache.

use std::future::Future;
use std::time::Duration;

use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{Request, request};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use vko_api::names;
use vko_core::object::{Kind, Object, ObjectId};
use vko_core::world::{ApiError, Change, Delete, EventNote, Kube};

use crate::connect::KubeWorld;
use crate::{error, path, prune};

/// Deadline of each request. A Lease that has just been renewed covers it, with its margin, until the next renewal.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(8);

impl Kube for KubeWorld {
    fn cached(&self, id: &ObjectId) -> Option<Object> {
        self.caches.get(id)
    }

    fn cached_of(&self, kind: Kind, namespace: &str, instance: &str) -> Vec<Object> {
        self.caches.of(kind, namespace, instance)
    }

    fn cached_all(&self, kind: Kind) -> Vec<Object> {
        self.caches.all(kind)
    }

    fn cache_age(&self, kind: Kind) -> Option<Duration> {
        self.caches.age(kind, self.origin.elapsed())
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.caches.changes()
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Object>, ApiError> {
        let request = built(of(id).get(&id.name, &GetParams::default()))?;
        match self.exchange("get", id.kind, self.client.request::<Value>(request)).await {
            Ok(answer) => Ok(Some(Object::new(prune::prune(id.kind, answer)))),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn apply(&self, object: &Value) -> Result<Object, ApiError> {
        let (id, body) = outgoing(object)?;
        // Strict: without it the server drops a field that it doesn't know with a warning that nobody reads.
        let params = PatchParams::apply(names::OPERATOR).force().validation_strict();
        let request = built(of(&id).patch(&id.name, &params, &Patch::Apply(&body)))?;
        self.write("apply", id.kind, self.client.request(request)).await
    }

    async fn create(&self, object: &Value) -> Result<Object, ApiError> {
        let (id, body) = outgoing(object)?;
        let request = built(of(&id).create(&posted(), bytes(&body)?))?;
        self.write("create", id.kind, self.client.request(request)).await
    }

    async fn replace(&self, object: &Value) -> Result<Object, ApiError> {
        let (id, body) = outgoing_whole(object)?;
        let request = built(of(&id).replace(&id.name, &posted(), bytes(&body)?))?;
        self.write("replace", id.kind, self.client.request(request)).await
    }

    async fn replace_status(&self, object: &Value) -> Result<Object, ApiError> {
        let (id, body) = outgoing_whole(object)?;
        let request = built(of(&id).replace_subresource("status", &id.name, &posted(), bytes(&body)?))?;
        self.write("replace-status", id.kind, self.client.request(request)).await
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Object, ApiError> {
        let params = PatchParams { field_manager: Some(names::OPERATOR.to_owned()), ..PatchParams::default() };
        let request = built(of(id).patch(&id.name, &params, &Patch::Merge(patch)))?;
        self.write("merge", id.kind, self.client.request(request)).await
    }

    async fn delete(&self, id: &ObjectId, delete: Delete) -> Result<(), ApiError> {
        let request = built(of(id).delete(&id.name, &delete_params(&delete)))?;
        match self.exchange("delete", id.kind, self.client.request::<Value>(request)).await {
            Ok(answer) => {
                // An object with grace or finalizers left is answered as it is now; one that is gone at once is the watch's to
                // tell.
                let object = Object::new(prune::prune(id.kind, answer));
                if object.deleting() && object.uid() == delete.uid {
                    self.caches.absorb(id.kind, &object);
                }
                Ok(())
            }
            Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn evict(&self, namespace: &str, pod: &str, uid: &str) -> Result<(), ApiError> {
        let pods = Request::new(path::collection(Kind::Pod, Some(namespace)));
        let request = built(pods.create_subresource("eviction", pod, &posted(), bytes(&eviction(namespace, pod, uid))?))?;
        self.exchange("evict", Kind::Pod, self.client.request::<Value>(request)).await.map(drop)
    }

    async fn event(&self, regarding: &Object, note: EventNote) {
        self.events.publish(self, regarding, note).await;
    }
}

impl KubeWorld {
    /// Runs a request under its deadline, sorts its error, counts it.
    pub(crate) async fn exchange<T>(
        &self,
        verb: &'static str,
        kind: Kind,
        request: impl Future<Output = kube::Result<T>> + Send,
    ) -> Result<T, ApiError> {
        let answer = match tokio::time::timeout(REQUEST_DEADLINE, request).await {
            Ok(answer) => answer.map_err(|error| error::classify(kind, &error, REQUEST_DEADLINE)),
            Err(_) => Err(ApiError::Timeout(REQUEST_DEADLINE)),
        };
        self.counters.count(verb, kind, answer.as_ref().map_or_else(error::outcome, |_| "ok"));
        answer
    }

    /// A request that answers the object as it is now, which goes into the cache.
    async fn write(
        &self,
        verb: &'static str,
        kind: Kind,
        request: impl Future<Output = kube::Result<Value>> + Send,
    ) -> Result<Object, ApiError> {
        let answer = self.exchange(verb, kind, request).await?;
        let object = Object::new(prune::prune(kind, answer));
        self.caches.absorb(kind, &object);
        Ok(object)
    }
}

/// Names an object by what is written in it, and takes managedFields out: what we keep of them is a part, and sent back it would
/// drop the other managers' ownership. An absent list means "as it is".
fn outgoing(object: &Value) -> Result<(ObjectId, Value), ApiError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = Kind::from_name(text("/kind")).filter(|kind| kind.api_version() == text("/apiVersion"));
    let Some(kind) = kind else {
        return Err(ApiError::Invalid(format!(
            "'{} {}' is none of the kinds that the operator writes",
            text("/apiVersion"),
            text("/kind")
        )));
    };
    if kind.namespaced() && text("/metadata/namespace").is_empty() {
        return Err(ApiError::Invalid(format!("a {} '{}' without a namespace", kind.name(), text("/metadata/name"))));
    }
    let id = ObjectId::new(kind, text("/metadata/namespace"), text("/metadata/name"));
    let mut body = object.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok((id, body))
}

/// The same for a PUT: under a resourceVersion, and not of a kind of which the cache holds a part only.
fn outgoing_whole(object: &Value) -> Result<(ObjectId, Value), ApiError> {
    let (id, body) = outgoing(object)?;
    if prune::is_partial(id.kind) {
        return Err(ApiError::Invalid(format!("{id} can't be replaced: the cache holds a part of it; patch it")));
    }
    if body.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().is_empty() {
        return Err(ApiError::Invalid(format!(
            "{id} can't be replaced without metadata.resourceVersion: it would overwrite any change"
        )));
    }
    Ok((id, body))
}

fn of(id: &ObjectId) -> Request {
    Request::new(path::collection(id.kind, Some(&id.namespace)))
}

fn posted() -> PostParams {
    PostParams { field_manager: Some(names::OPERATOR.to_owned()), ..PostParams::default() }
}

fn delete_params(delete: &Delete) -> DeleteParams {
    DeleteParams {
        grace_period_seconds: delete.grace_seconds,
        propagation_policy: Some(if delete.orphan { PropagationPolicy::Orphan } else { PropagationPolicy::Background }),
        preconditions: Some(Preconditions { uid: Some(delete.uid.clone()), resource_version: None }),
        ..DeleteParams::default()
    }
}

/// By hand: kube 5.0 writes `delete_options`, which the server ignores, precondition and all.
fn eviction(namespace: &str, pod: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "namespace": namespace, "name": pod },
        "deleteOptions": { "preconditions": { "uid": uid } },
    })
}

fn built<T>(request: Result<T, request::Error>) -> Result<T, ApiError> {
    request.map_err(|error| ApiError::Invalid(format!("the request can't be made: {error}")))
}

fn bytes(body: &Value) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(body).map_err(|error| ApiError::Invalid(format!("the object can't be written as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(result: Result<(ObjectId, Value), ApiError>) -> bool {
        matches!(result, Err(ApiError::Invalid(_)))
    }

    #[test]
    fn only_listed_kinds_go_out_by_their_own_version() {
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": "n", "name": "x", "resourceVersion": "1"}});
        assert!(!refused(outgoing(&object("v1", "Secret"))));
        assert!(refused(outgoing(&object("v1", "ServiceAccount"))));
        assert!(refused(outgoing(&object("apps/v1beta1", "StatefulSet"))));
        assert!(refused(outgoing(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}))), "no namespace");
        assert!(!refused(outgoing_whole(&object("v1", "Secret"))));
        assert!(refused(outgoing_whole(&object("v1", "Pod"))), "a part of it");
        let without = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "n", "name": "x"}});
        assert!(refused(outgoing_whole(&without)), "without a version a PUT overwrites anything");
    }

    #[test]
    fn managed_fields_never_go_out() {
        let object = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": "n", "name": "x", "managedFields": [{"manager": "valkey-operator"}]}});
        let (id, body) = outgoing(&object).unwrap_or_else(|_| (ObjectId::new(Kind::Pod, "", ""), Value::Null));
        assert_eq!(id, ObjectId::new(Kind::Secret, "n", "x"));
        assert_eq!(body["metadata"], json!({"namespace": "n", "name": "x"}));
    }

    #[test]
    fn deletes_are_bound_by_table() {
        for (name, grace_seconds, orphan, expected) in [
            ("ordinary", None, false, json!({"propagationPolicy": "Background", "preconditions": {"uid": "u"}})),
            (
                "by force",
                Some(0),
                false,
                json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background", "preconditions": {"uid": "u"}}),
            ),
            ("leaving its children", None, true, json!({"propagationPolicy": "Orphan", "preconditions": {"uid": "u"}})),
        ] {
            let delete = Delete { uid: "u".to_owned(), grace_seconds, orphan };
            assert_eq!(serde_json::to_value(delete_params(&delete)).unwrap_or_default(), expected, "{name}");
        }
    }

    #[test]
    fn an_eviction_is_bound_to_the_uid() {
        assert_eq!(eviction("n", "p", "u")["deleteOptions"]["preconditions"]["uid"], "u");
    }
}
