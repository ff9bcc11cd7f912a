//! All instances of this process: who is looked at, who is woken, and when nobody may be.
//!
//! # Guarantees
//! 1. Instances are looked at only while this process holds the Lease. When it is lost, all tasks are dropped and all connections
//!    closed before anybody else can act.
//! 2. A change wakes the instance that it belongs to and no other; a node wakes those with pods on it.
//! 3. Falling behind with changes loses nothing: everybody is woken then.
//!
//! # Flow
//! 1. Wait until the caches are filled.
//! 2. Wait for the Lease.
//! 3. Start a task for each instance; wake them as changes come; load policies as their ConfigMaps change.
//! 4. Lease lost: drop them, close connections, go to 2.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use vko_api::names;

use crate::instance::ending::is_held;
use crate::instance::{Instance, Key, Shared};
use crate::journal::Journal;
use crate::lease::Transition;
use crate::metrics::Reason;
use crate::object::{Kind, Object};
use crate::policy::Admit;
use crate::registry::Loaded;
use crate::world::{Change, EventNote, World};

/// Kinds that must be listed once before anything is decided.
const NEEDED: [Kind; 11] = [
    Kind::Valkey,
    Kind::Cluster,
    Kind::Failover,
    Kind::Sentinel,
    Kind::StatefulSet,
    Kind::Service,
    Kind::ConfigMap,
    Kind::Secret,
    Kind::Pod,
    Kind::PersistentVolumeClaim,
    Kind::Node,
];
/// Between two looks at whether the caches are filled; there is no event for it, and it happens once.
const FILLING: Duration = Duration::from_millis(50);

/// Journals by instance, for the command line.
pub type Journals = Arc<Mutex<BTreeMap<Key, Arc<Journal>>>>;

/// Looks after all instances.
pub struct Manager<W> {
    shared: Arc<Shared<W>>,
    policies: Arc<Policies<W>>,
    journals: Journals,
    tasks: BTreeMap<Key, Task>,
    cut_sessions: bool,
}

struct Task {
    wake: Arc<Notify>,
    ended: Arc<Mutex<bool>>,
    handle: JoinHandle<()>,
}

impl Task {
    /// Wakes the instance; `false` if its task has ended.
    fn wake(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *ended || self.handle.is_finished() {
            return false;
        }
        self.wake.notify_one();
        true
    }

    fn has_ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) || self.handle.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl<W: World> Manager<W> {
    /// Nobody is looked after yet.
    pub fn new(shared: Arc<Shared<W>>, admit: Arc<dyn Admit>) -> Self {
        let policies = Arc::new(Policies { shared: shared.clone(), admit, changed: Notify::new() });
        Self { shared, policies, journals: Journals::default(), tasks: BTreeMap::new(), cut_sessions: false }
    }

    /// The journals, for reading.
    pub fn journals(&self) -> Journals {
        self.journals.clone()
    }

    /// Runs until `stop` is true. When it returns nothing dangerous is under way, so the Lease may be released.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut changes = self.shared.world.changes();
        while NEEDED.iter().any(|kind| self.shared.world.cache_age(*kind).is_none()) {
            if *stop.borrow() {
                return;
            }
            self.shared.world.sleep(FILLING).await;
        }
        let mut lease = self.shared.lease.transitions();
        self.policies.load().await;
        let loader = tokio::spawn(self.policies.clone().load_on_change());
        self.transition(*lease.borrow_and_update());
        loop {
            tokio::select! {
                _ = stop.changed() => break,
                changed = lease.changed() => {
                    if changed.is_err() { break }
                    self.transition(*lease.borrow_and_update());
                }
                change = changes.recv() => match change {
                    Ok(change) => self.changed(&change),
                    Err(RecvError::Lagged(_)) => {
                        self.policies.changed.notify_one();
                        self.wake_everybody();
                    }
                    Err(RecvError::Closed) => break,
                }
            }
        }
        loader.abort();
        self.drop_everybody();
    }

    fn transition(&mut self, transition: Transition) {
        match transition {
            Transition::Acquired { after_ungraceful, .. } => {
                self.cut_sessions = after_ungraceful;
                self.shared.metrics.leader.set(1);
                self.wake_everybody();
            }
            Transition::Standby => {}
            Transition::Lost { .. } => {
                self.shared.metrics.leader.set(0);
                self.drop_everybody();
            }
        }
    }

    fn drop_everybody(&mut self) {
        self.tasks.clear();
        self.shared.world.close_all();
        self.shared.metrics.instances.set(0);
    }

    fn wake_everybody(&mut self) {
        if !self.shared.lease.is_leader() {
            return;
        }
        for kind in Kind::INSTANCES {
            for object in self.shared.world.cached_all(kind) {
                self.wake(Key { namespace: object.namespace().into(), name: object.name().into() });
            }
        }
        // What an end left behind while nobody was here.
        let left = |secret: &&Object| is_held(secret) && !secret.label(names::INSTANCE).is_empty();
        for secret in self.shared.world.cached_all(Kind::Secret).iter().filter(left) {
            self.wake(Key { namespace: secret.namespace().into(), name: secret.label(names::INSTANCE).into() });
        }
    }

    fn changed(&mut self, change: &Change) {
        match change.id.kind {
            Kind::Node => self.wake_pods_of(&change.id.name),
            Kind::ConfigMap if change.instance.is_empty() => self.policies.changed.notify_one(),
            _ if change.instance.is_empty() => {}
            _ => self.wake(Key { namespace: change.id.namespace.clone(), name: change.instance.clone() }),
        }
    }

    /// Wakes an instance, and starts its task when there is none and something to look at.
    fn wake(&mut self, key: Key) {
        if !self.shared.lease.is_leader() {
            return;
        }
        if self.tasks.get(&key).is_some_and(Task::wake) {
            return;
        }
        let world = &self.shared.world;
        let there = |kind| world.cached(&crate::object::ObjectId::new(kind, &key.namespace, &key.name)).is_some();
        let left = || world.cached_of(Kind::Secret, &key.namespace, &key.name).iter().any(is_held);
        if !Kind::INSTANCES.into_iter().any(there) && !left() {
            self.tasks.remove(&key);
            self.lock_journals().remove(&key);
            self.shared.metrics.instances.set(i64::try_from(self.tasks.len()).unwrap_or(i64::MAX));
            return;
        }
        self.sweep(&key);
        let wake = Arc::new(Notify::new());
        let journal = self.lock_journals().entry(key.clone()).or_default().clone();
        let instance = Instance::new(self.shared.clone(), key.clone(), wake.clone(), journal, self.cut_sessions);
        let ended = Arc::new(Mutex::new(false));
        self.tasks.insert(key, Task { wake, ended: ended.clone(), handle: tokio::spawn(instance.run(ended)) });
        self.shared.metrics.instances.set(i64::try_from(self.tasks.len()).unwrap_or(i64::MAX));
    }

    /// Forgets instances that have ended: as a rule the last event about their objects does, but nothing promises that one comes.
    fn sweep(&mut self, but: &Key) {
        let ended: Vec<Key> =
            self.tasks.iter().filter(|(key, task)| *key != but && task.has_ended()).map(|(key, _)| key.clone()).collect();
        for key in ended {
            self.tasks.remove(&key);
            self.lock_journals().remove(&key);
        }
    }

    fn wake_pods_of(&mut self, node: &str) {
        let pods = self.shared.world.cached_all(Kind::Pod);
        let on_node = pods.iter().filter(|pod| pod.text("/spec/nodeName") == node);
        let keys: std::collections::BTreeSet<Key> =
            on_node.map(|pod| Key { namespace: pod.namespace().into(), name: pod.label(names::INSTANCE).into() }).collect();
        keys.into_iter().filter(|key| !key.name.is_empty()).for_each(|key| self.wake(key));
    }

    fn lock_journals(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Arc<Journal>>> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads policies beside the manager: compiling takes seconds, and the end of the Lease can't wait for it.
struct Policies<W> {
    shared: Arc<Shared<W>>,
    admit: Arc<dyn Admit>,
    changed: Notify,
}

impl<W: World> Policies<W> {
    async fn load_on_change(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            self.load().await;
        }
    }

    /// Admits what is new among the policies' ConfigMaps; instances are woken by the registry itself.
    async fn load(&self) {
        let namespace = &self.shared.settings.operator_namespace;
        let config_maps: Vec<Object> = self
            .shared
            .world
            .cached_all(Kind::ConfigMap)
            .into_iter()
            .filter(|map| map.namespace() == namespace && map.label(names::POLICY) == "true" && !map.deleting())
            .collect();
        let (registry, admit) = (self.shared.registry.clone(), self.admit.clone());
        let loaded = tokio::task::spawn_blocking(move || registry.load(&config_maps, &*admit)).await.unwrap_or_default();
        for one in loaded {
            self.tell_loaded(one).await;
        }
    }

    async fn tell_loaded(&self, loaded: Loaded) {
        let note = match &loaded.result {
            Ok(info) => {
                tracing::info!(
                    config_map = loaded.config_map.name(),
                    policy = info.name,
                    version = info.version,
                    digest = info.digest,
                    "policy admitted"
                );
                let note = format!(
                    "policy {} {} was admitted; it takes over at each instance's next rest point",
                    info.name, info.version
                );
                EventNote { reason: "PolicyAdmitted".into(), note, warning: false }
            }
            Err(error) => {
                tracing::warn!(config_map = loaded.config_map.name(), reason = error.reason(), %error, "policy not admitted");
                self.shared.metrics.policies_rejected.get_or_create(&Reason { reason: error.reason() }).inc();
                EventNote { reason: error.reason().into(), note: error.to_string(), warning: true }
            }
        };
        // Both operator replicas read the ConfigMap; the one that acts says so.
        if self.shared.lease.is_leader() {
            self.shared.world.event(&loaded.config_map, note).await;
        }
    }
}

#[cfg(test)]
mod tests;
