//! For tests only: a world in which the process ends right after a given number of effects, as if it were killed. Effects are
//! writes to the API server (the Lease's aside, which are time's and not the instance's) and changing commands to servers.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, mpsc};
use vko_core::command::{Command, Reply, SentinelEvent};
use vko_core::object::{Kind, Object, ObjectId};
use vko_core::world::{ApiError, Change, Clock, Delete, EventNote, Kube, ServerError, Servers, Target, UnixMs, World};

/// Exit code of a process that SIGKILL ends, as a shell reports it.
const KILLED: i32 = 137;

/// A world that ends.
pub(crate) struct Mortal<W> {
    inner: W,
    done: AtomicU64,
    die_after: Option<u64>,
}

impl<W> Mortal<W> {
    pub(crate) fn new(inner: W, die_after: Option<u64>) -> Self {
        Self { inner, done: AtomicU64::new(0), die_after }
    }

    /// An effect has happened; what it answered reaches nobody if this was the last.
    fn effect(&self, what: &str) {
        let done = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        tracing::info!(number = done, effect = what, "effect");
        if self.die_after == Some(done) {
            std::process::exit(KILLED);
        }
    }
}

fn counted(kind: Option<&str>) -> bool {
    kind != Some(Kind::Lease.name())
}

impl<W: World> Kube for Mortal<W> {
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

impl<W: World> Servers for Mortal<W> {
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

impl<W: World> Clock for Mortal<W> {
    fn unix_ms(&self) -> UnixMs {
        self.inner.unix_ms()
    }
    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        self.inner.sleep(time)
    }
    fn random(&self, bytes: &mut [u8]) {
        self.inner.random(bytes);
    }
}
