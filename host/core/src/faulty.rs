//! For tests only: a world that fails by script. The process ends right after a given number of effects, as if it were killed;
//! servers are out of reach for this process alone. Effects are writes to the API server (the Lease's aside, which are time's
//! and not the instance's) and changing commands to servers.
//!
//! # Guarantees
//! 1. Whoever waits for an effect's answer when the process ends never gets it, and nobody begins another effect.
//! 2. A server that is cut off gets nothing, and the answer is the one that a lost network gives: none, when the deadline is
//!    over.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::command::{Command, Reply, SentinelEvent};
use crate::composite::Composite;
use crate::object::{Kind, Object, ObjectId};
use crate::world::{ApiError, Change, Delete, EventNote, Kube, ServerError, Servers, Target};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

/// What fails.
pub struct Faults {
    done: AtomicU64,
    die_after: Option<u64>,
    end: Box<dyn Fn() + Send + Sync>,
    cut: Mutex<BTreeSet<String>>,
}

impl Faults {
    /// `end` is how the process ends, after so many effects; it need not return.
    pub fn new(die_after: Option<u64>, end: impl Fn() + Send + Sync + 'static) -> Self {
        Self { done: AtomicU64::new(0), die_after, end: Box::new(end), cut: Mutex::default() }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.die_after.is_some_and(|after| self.done.load(Ordering::SeqCst) >= after)
    }

    /// Servers of these pods (UIDs) are out of reach from now on, and no others.
    pub fn cut_off(&self, pods: impl IntoIterator<Item = String>) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = pods.into_iter().collect();
    }

    fn is_cut_off(&self, pod: &str) -> bool {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner).contains(pod)
    }

    /// An effect has happened; what it answered reaches nobody if this was the last.
    async fn effect(&self, what: &str) {
        let done = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        tracing::info!(number = done, effect = what, "effect");
        if self.die_after == Some(done) {
            (self.end)();
        }
        self.alive().await;
    }

    async fn alive(&self) {
        if self.has_ended() {
            std::future::pending().await
        }
    }
}

/// A part of a world that fails.
pub struct Faulty<P> {
    inner: P,
    faults: Arc<Faults>,
}

/// The same world, whose API server and servers fail as the faults say.
pub fn faulty<K, S, C>(world: Composite<K, S, C>, faults: Arc<Faults>) -> Composite<Faulty<K>, Faulty<S>, C> {
    Composite {
        kube: Faulty { inner: world.kube, faults: faults.clone() },
        servers: Faulty { inner: world.servers, faults },
        clock: world.clock,
    }
}

fn counted(kind: Option<&str>) -> bool {
    kind != Some(Kind::Lease.name())
}

impl<K: Kube> Kube for Faulty<K> {
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
        self.faults.alive().await;
        let result = self.inner.apply(object).await;
        self.faults.effect("apply").await;
        result
    }
    async fn create(&self, object: &Value) -> Result<Object, ApiError> {
        self.faults.alive().await;
        let result = self.inner.create(object).await;
        if counted(object["kind"].as_str()) {
            self.faults.effect("create").await;
        }
        result
    }
    async fn replace(&self, object: &Value) -> Result<Object, ApiError> {
        self.faults.alive().await;
        let result = self.inner.replace(object).await;
        if counted(object["kind"].as_str()) {
            self.faults.effect("replace").await;
        }
        result
    }
    async fn replace_status(&self, object: &Value) -> Result<Object, ApiError> {
        self.faults.alive().await;
        let result = self.inner.replace_status(object).await;
        self.faults.effect("replace-status").await;
        result
    }
    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Object, ApiError> {
        self.faults.alive().await;
        let result = self.inner.merge(id, patch).await;
        self.faults.effect("merge").await;
        result
    }
    async fn delete(&self, id: &ObjectId, delete: Delete) -> Result<(), ApiError> {
        self.faults.alive().await;
        let result = self.inner.delete(id, delete).await;
        self.faults.effect("delete").await;
        result
    }
    async fn evict(&self, namespace: &str, pod: &str, uid: &str) -> Result<(), ApiError> {
        self.faults.alive().await;
        let result = self.inner.evict(namespace, pod, uid).await;
        self.faults.effect("evict").await;
        result
    }
    async fn event(&self, regarding: &Object, note: EventNote) {
        self.faults.alive().await;
        self.inner.event(regarding, note).await;
    }
}

impl<S> Faulty<S> {
    async fn reach(&self, target: &Target, deadline: Duration) -> Result<(), ServerError> {
        if self.faults.is_cut_off(&target.pod) {
            tokio::time::sleep(deadline).await;
            return Err(ServerError::Silent(deadline));
        }
        Ok(())
    }
}

impl<S: Servers> Servers for Faulty<S> {
    async fn call(&self, target: &Target, command: Command, deadline: Duration) -> Result<Reply, ServerError> {
        self.reach(target, deadline).await?;
        let (name, effect) = (command.name(), command.is_effect());
        if effect {
            self.faults.alive().await;
        }
        let result = self.inner.call(target, command, deadline).await;
        if effect {
            self.faults.effect(name).await;
        }
        result
    }
    async fn call_fresh(&self, target: &Target, command: Command, deadline: Duration) -> Result<Reply, ServerError> {
        self.reach(target, deadline).await?;
        self.inner.call_fresh(target, command, deadline).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeServer, FakeWorld, mk_site};

    /// Does it, unless it never ends.
    async fn ends<T>(act: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_millis(50), act).await.ok()
    }

    fn config_map(name: &str) -> Value {
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}})
    }

    #[tokio::test]
    async fn the_last_effects_answer_reaches_nobody_and_no_other_effect_begins() {
        let ended = Arc::new(AtomicU64::new(0));
        let counter = ended.clone();
        let faults = Arc::new(Faults::new(Some(2), move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        let world = Faulty { inner: FakeWorld::default(), faults: faults.clone() };
        assert!(ends(world.apply(&config_map("a"))).await.is_some() && !faults.has_ended());
        assert!(ends(world.apply(&config_map("b"))).await.is_none() && faults.has_ended());
        assert!(ends(world.apply(&config_map("c"))).await.is_none());
        let there = |name: &str| world.inner.object(&ObjectId::new(Kind::ConfigMap, "n", name)).is_some();
        assert_eq!(["a", "b", "c"].map(there), [true, true, false]);
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_server_out_of_reach_gets_nothing_until_it_is_back() {
        let (_, site) = mk_site(2);
        let (_, target) = site.target(&crate::guard::testing::uid(0)).unwrap();
        let faults = Arc::new(Faults::new(None, || {}));
        let world = Faulty { inner: FakeWorld::default(), faults: faults.clone() };
        world.inner.state().servers.insert(target.pod.clone(), FakeServer::primary("rfr-x-0", &target.ip.to_string()));
        let asked = async || world.call(&target, Command::Role, Duration::from_millis(1)).await;
        faults.cut_off([target.pod.clone()]);
        assert_eq!(asked().await, Err(ServerError::Silent(Duration::from_millis(1))));
        faults.cut_off([]);
        assert!(asked().await.is_ok());
    }
}
