//! A world made of three parts that know nothing of each other: Kubernetes, servers, a clock.

use std::future::Future;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

use crate::command::{Command, Reply, SentinelEvent};
use crate::object::{Kind, Object, ObjectId};
use crate::world::{ApiError, Change, Clock, Delete, EventNote, Kube, ServerError, Servers, Target, UnixMs};

/// Delegates each trait of the world to one part.
#[derive(Debug, Clone, Default)]
pub struct Composite<K, S, C> {
    /// Kubernetes.
    pub kube: K,
    /// Servers and Sentinels.
    pub servers: S,
    /// Time and randomness.
    pub clock: C,
}

impl<K: Kube, S: Send + Sync + 'static, C: Send + Sync + 'static> Kube for Composite<K, S, C> {
    fn cached(&self, id: &ObjectId) -> Option<Object> {
        self.kube.cached(id)
    }
    fn cached_of(&self, kind: Kind, namespace: &str, instance: &str) -> Vec<Object> {
        self.kube.cached_of(kind, namespace, instance)
    }
    fn cached_all(&self, kind: Kind) -> Vec<Object> {
        self.kube.cached_all(kind)
    }
    fn cache_age(&self, kind: Kind) -> Option<Duration> {
        self.kube.cache_age(kind)
    }
    fn changes(&self) -> broadcast::Receiver<Change> {
        self.kube.changes()
    }
    fn get(&self, id: &ObjectId) -> impl Future<Output = Result<Option<Object>, ApiError>> + Send {
        self.kube.get(id)
    }
    fn apply(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send {
        self.kube.apply(object)
    }
    fn create(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send {
        self.kube.create(object)
    }
    fn replace(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send {
        self.kube.replace(object)
    }
    fn replace_status(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send {
        self.kube.replace_status(object)
    }
    fn merge(&self, id: &ObjectId, patch: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send {
        self.kube.merge(id, patch)
    }
    fn delete(&self, id: &ObjectId, delete: Delete) -> impl Future<Output = Result<(), ApiError>> + Send {
        self.kube.delete(id, delete)
    }
    fn evict(&self, namespace: &str, pod: &str, uid: &str) -> impl Future<Output = Result<(), ApiError>> + Send {
        self.kube.evict(namespace, pod, uid)
    }
    fn event(&self, regarding: &Object, note: EventNote) -> impl Future<Output = ()> + Send {
        self.kube.event(regarding, note)
    }
}

impl<K: Send + Sync + 'static, S: Servers, C: Send + Sync + 'static> Servers for Composite<K, S, C> {
    fn call(
        &self,
        target: &Target,
        command: Command,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply, ServerError>> + Send {
        self.servers.call(target, command, deadline)
    }
    fn call_fresh(
        &self,
        target: &Target,
        command: Command,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply, ServerError>> + Send {
        self.servers.call_fresh(target, command, deadline)
    }
    fn subscribe(&self, target: &Target) -> impl Future<Output = Result<mpsc::Receiver<SentinelEvent>, ServerError>> + Send {
        self.servers.subscribe(target)
    }
    fn forget(&self, pods_gone: &[String]) {
        self.servers.forget(pods_gone);
    }
    fn close_all(&self) {
        self.servers.close_all();
    }
}

impl<K: Send + Sync + 'static, S: Send + Sync + 'static, C: Clock> Clock for Composite<K, S, C> {
    fn unix_ms(&self) -> UnixMs {
        self.clock.unix_ms()
    }
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        self.clock.sleep(time)
    }
    fn random(&self, bytes: &mut [u8]) {
        self.clock.random(bytes);
    }
}
