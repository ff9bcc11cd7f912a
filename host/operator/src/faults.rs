//! For tests only: a world in which the process ends right after a given number of effects, as if it were killed. Effects are
//! writes to the API server (the Lease's aside, which are time's and not the instance's) and changing commands to servers.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, mpsc};
use vko_core::command::{Command, Reply, SentinelEvent};
use vko_core::composite::Composite;
use vko_core::object::{Kind, Object, ObjectId};
use vko_core::world::{ApiError, Change, Delete, EventNote, Kube, ServerError, Servers, Target};

/// Exit code of a process that SIGKILL ends, as a shell reports it.
const KILLED: i32 = 137;

/// A part of a world that ends.
pub(crate) struct Mortal<P> {
    inner: P,
    effects: Arc<Effects>,
}

/// The effects of all parts together.
struct Effects {
    done: AtomicU64,
    die_after: Option<u64>,
}

/// The same world, whose process ends after so many effects; never if `None`.
pub(crate) fn mortal<K, S, C>(world: Composite<K, S, C>, die_after: Option<u64>) -> Composite<Mortal<K>, Mortal<S>, C> {
    let effects = Arc::new(Effects { done: AtomicU64::new(0), die_after });
    Composite {
        kube: Mortal { inner: world.kube, effects: effects.clone() },
        servers: Mortal { inner: world.servers, effects },
        clock: world.clock,
    }
}

impl<P> Mortal<P> {
    /// An effect has happened; what it answered reaches nobody if this was the last.
    fn effect(&self, what: &str) {
        let done = self.effects.done.fetch_add(1, Ordering::SeqCst) + 1;
        tracing::info!(number = done, effect = what, "effect");
        if self.effects.die_after == Some(done) {
            std::process::exit(KILLED);
        }
    }
}

fn counted(kind: Option<&str>) -> bool {
    kind != Some(Kind::Lease.name())
}

impl<K: Kube> Kube for Mortal<K> {
    fn cached(&self, id: &ObjectId) -> Option<Object> {
        self.inner.cached(id)
    }
    fn cached_of(&self, kind: Kind, namespace: &str, instance: &str) -> Vec<Object> {
        self.inner.cached_of(kind, namespace, instance)
    }
    fn cached_all(&self, kind: Kind) -> Vec<Object> {
        self.inner.cached_all(kind)
    }
    fn cache_age(&self, kind: Kind) -> Option<Duration> {
        self.inner.cache_age(kind)
    }
    fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes()
    }
    fn get(&self, id: &ObjectId) -> impl Future<Output = Result<Option<Object>, ApiError>> + Send {
        self.inner.get(id)
    }
    async fn apply(&self, object: &Value) -> Result<Object, ApiError> {
        let result = self.inner.apply(object).await;
        self.effect("apply");
        result
    }
    async fn create(&self, object: &Value) -> Result<Object, ApiError> {
        let result = self.inner.create(object).await;
        if counted(object["kind"].as_str()) {
            self.effect("create");
        }
        result
    }
    async fn replace(&self, object: &Value) -> Result<Object, ApiError> {
        let result = self.inner.replace(object).await;
        if counted(object["kind"].as_str()) {
            self.effect("replace");
        }
        result
    }
    async fn replace_status(&self, object: &Value) -> Result<Object, ApiError> {
        let result = self.inner.replace_status(object).await;
        self.effect("replace-status");
        result
    }
    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Object, ApiError> {
        let result = self.inner.merge(id, patch).await;
        self.effect("merge");
        result
    }
    async fn delete(&self, id: &ObjectId, delete: Delete) -> Result<(), ApiError> {
        let result = self.inner.delete(id, delete).await;
        self.effect("delete");
        result
    }
    async fn evict(&self, namespace: &str, pod: &str, uid: &str) -> Result<(), ApiError> {
        let result = self.inner.evict(namespace, pod, uid).await;
        self.effect("evict");
        result
    }
    fn event(&self, regarding: &Object, note: EventNote) -> impl Future<Output = ()> + Send {
        self.inner.event(regarding, note)
    }
}

impl<S: Servers> Servers for Mortal<S> {
    async fn call(&self, target: &Target, command: Command, deadline: Duration) -> Result<Reply, ServerError> {
        let (name, effect) = (command.name(), command.is_effect());
        let result = self.inner.call(target, command, deadline).await;
        if effect {
            self.effect(name);
        }
        result
    }
    fn call_fresh(
        &self,
        target: &Target,
        command: Command,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply, ServerError>> + Send {
        self.inner.call_fresh(target, command, deadline)
    }
    fn subscribe(&self, target: &Target) -> impl Future<Output = Result<mpsc::Receiver<SentinelEvent>, ServerError>> + Send {
        self.inner.subscribe(target)
    }
    fn forget(&self, pods: &[String]) {
        self.inner.forget(pods);
    }
    fn close_all(&self) {
        self.inner.close_all();
    }
}
