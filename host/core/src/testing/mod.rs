//! A world in memory for the tests of this crate: objects under resourceVersions, servers with the few behaviours that decisions
//! depend on, a clock that moves when somebody sleeps. Each effect is noted, and the world can end after any of them.

mod cluster;
mod kube;
mod sentinel;
mod server;
mod site;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast;

pub(crate) use self::cluster::{FakeNode, node_id};
pub(crate) use self::sentinel::{FakeMonitor, FakeSentinel};
pub(crate) use self::server::FakeServer;
pub(crate) use self::site::{
    mk_cluster_site, mk_sentinel_site, mk_settings, mk_site, mk_site_in, mk_topology, observed, sentinel_id, topology_id,
};
use vko_model::slots::SlotSet;

use crate::object::ObjectId;
use crate::world::{ApiError, Change, Clock, UnixMs};

/// When every test begins (Unix ms).
pub(crate) const BEGIN: UnixMs = 1_800_000_000_000;

/// The world.
pub(crate) struct FakeWorld {
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
}

/// What somebody else does.
pub(crate) type Meddling = fn(&mut State);

#[derive(Default)]
pub(crate) struct State {
    /// Objects as the API server has them.
    pub(crate) objects: BTreeMap<ObjectId, Value>,
    /// Objects that the cache shows as they were.
    pub(crate) stale: BTreeMap<ObjectId, Option<Value>>,
    /// Servers by the UID of their pod.
    pub(crate) servers: BTreeMap<String, FakeServer>,
    /// Sentinels by their ids.
    pub(crate) sentinels: BTreeMap<String, FakeSentinel>,
    /// Nodes that servers of a cluster know and that no server is any more: id and slots.
    pub(crate) ghosts: BTreeMap<String, SlotSet>,
    /// What was done, in order.
    pub(crate) effects: Vec<String>,
    /// Requests to the API server and commands to servers, reads too.
    pub(crate) requests: usize,
    /// After so many effects nothing happens any more and nobody answers: this process is gone.
    pub(crate) ends_after: Option<usize>,
    /// Refusals by the start of the effect's name, used up one by one.
    pub(crate) refusals: Vec<(String, ApiError)>,
    /// What happens just before an effect whose name starts so: somebody else is faster.
    pub(crate) before: Vec<(String, Meddling)>,
    version: u64,
    /// What the clocks say, from the beginning.
    pub(crate) time: Duration,
}

impl Default for FakeWorld {
    fn default() -> Self {
        Self { state: Mutex::default(), changes: broadcast::channel(64).0 }
    }
}

impl FakeWorld {
    /// All of it, to look at or to change.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What was done since the last time.
    pub(crate) fn effects(&self) -> Vec<String> {
        std::mem::take(&mut self.state().effects)
    }

    /// A server.
    pub(crate) fn server(&self, pod: &str) -> FakeServer {
        self.state().servers[pod].clone()
    }

    /// A server as a node of its cluster.
    pub(crate) fn node(&self, pod: &str) -> FakeNode {
        self.server(pod).node.unwrap()
    }

    /// A Sentinel.
    pub(crate) fn sentinel(&self, id: &str) -> FakeSentinel {
        self.state().sentinels[id].clone()
    }

    /// Changes a server.
    pub(crate) fn change(&self, pod: &str, change: impl FnOnce(&mut FakeServer)) {
        change(self.state().servers.get_mut(pod).unwrap());
    }

    /// An object as the API server has it.
    pub(crate) fn object(&self, id: &ObjectId) -> Option<Value> {
        self.state().objects.get(id).cloned()
    }
}

impl State {
    /// One effect: noted, unless the world has ended or it is refused.
    fn effect(&mut self, name: String) -> Result<(), ApiError> {
        if self.ends_after.is_some_and(|limit| self.effects.len() >= limit) {
            return Err(ApiError::Timeout(Duration::ZERO));
        }
        if let Some(at) = self.before.iter().position(|(start, _)| name.starts_with(start)) {
            let (_, act) = self.before.remove(at);
            act(self);
        }
        if let Some(at) = self.refusals.iter().position(|(start, _)| name.starts_with(start)) {
            return Err(self.refusals.remove(at).1);
        }
        self.effects.push(name);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.ends_after.is_some_and(|limit| self.effects.len() >= limit)
    }
}

impl Clock for FakeWorld {
    fn unix_ms(&self) -> UnixMs {
        BEGIN + u64::try_from(self.monotonic().as_millis()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.state().time
    }

    async fn sleep(&self, time: Duration) {
        self.state().time += time;
        tokio::task::yield_now().await;
    }

    fn random(&self, bytes: &mut [u8]) {
        for (value, byte) in (0_u8..=255).cycle().zip(bytes) {
            *byte = value;
        }
    }
}
