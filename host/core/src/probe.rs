//! The light probe: one command per server and interval on the server's lasting connection.
//!
//! # Guarantees
//! 1. A quiet server is asked once in 5 s, every second while something is wrong or in motion.
//! 2. One silent server delays nobody: each has a task of its own.
//! 3. The loop is woken only by changes that a decision could depend on.
//!
//! # Flow
//! 1. The instance hands in its pods (`follow`); tasks start for new ones and end for those that are gone.
//! 2. Each task asks, notes the outcome in the memory, wakes the loop if it changed, and waits for the interval or a poke.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use vko_model::info::Info;

use crate::command::{Command, Reply};
use crate::memory::Memory;
use crate::world::{ServerError, Target, World};

/// Between probes of a quiet server (target: at most one command per 5 s).
pub const QUIET: Duration = Duration::from_secs(5);
/// Between probes while something is wrong or in motion.
pub const ALERT: Duration = Duration::from_secs(1);
/// A server that doesn't answer INFO within this is silent. A fork or a slow disk takes hundreds of milliseconds.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// The probes of one instance.
pub struct Probes<W> {
    world: Arc<W>,
    memory: Arc<Memory>,
    wake: Arc<Notify>,
    pace: watch::Sender<Duration>,
    tasks: BTreeMap<String, Task>,
    cut_sessions: bool,
}

struct Task {
    target: Target,
    poke: Arc<Notify>,
    handle: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl<W: World> Probes<W> {
    /// No probes yet. `cut_sessions`: a former leader may still hold connections (it ended without a word), so each server's other
    /// sessions of the operator's account are ended before anything else is sent there.
    pub fn new(world: Arc<W>, memory: Arc<Memory>, wake: Arc<Notify>, cut_sessions: bool) -> Self {
        Self { world, memory, wake, pace: watch::channel(ALERT).0, tasks: BTreeMap::new(), cut_sessions }
    }

    /// Probes exactly these servers.
    pub fn follow(&mut self, targets: Vec<Target>) {
        let gone: Vec<String> = self.tasks.keys().filter(|pod| !targets.iter().any(|t| &t.pod == *pod)).cloned().collect();
        self.tasks.retain(|pod, task| targets.iter().any(|t| &t.pod == pod && *t == task.target));
        self.memory.keep_only(&targets.iter().map(|t| t.pod.clone()).collect::<Vec<_>>());
        if !gone.is_empty() {
            self.world.forget(&gone);
        }
        for target in targets {
            if !self.tasks.contains_key(&target.pod) {
                let task = self.start(target);
                self.tasks.insert(task.target.pod.clone(), task);
            }
        }
    }

    /// Sets the interval.
    pub fn set_pace(&self, interval: Duration) {
        self.pace.send_if_modified(|pace| std::mem::replace(pace, interval) != interval);
    }

    /// Asks all servers now: after a step has changed something.
    pub fn poke(&self) {
        self.tasks.values().for_each(|task| task.poke.notify_one());
    }

    /// The target of a pod's server.
    pub fn target(&self, pod: &str) -> Option<Target> {
        self.tasks.get(pod).map(|task| task.target.clone())
    }

    fn start(&self, target: Target) -> Task {
        let poke = Arc::new(Notify::new());
        let handle = tokio::spawn(probe(Prober {
            world: self.world.clone(),
            memory: self.memory.clone(),
            wake: self.wake.clone(),
            pace: self.pace.subscribe(),
            poke: poke.clone(),
            target: target.clone(),
            cut_sessions: self.cut_sessions,
        }));
        Task { target, poke, handle }
    }
}

struct Prober<W> {
    world: Arc<W>,
    memory: Arc<Memory>,
    wake: Arc<Notify>,
    pace: watch::Receiver<Duration>,
    poke: Arc<Notify>,
    target: Target,
    cut_sessions: bool,
}

async fn probe<W: World>(mut prober: Prober<W>) {
    loop {
        let outcome = prober.ask().await;
        if prober.memory.note(&prober.target.pod, prober.world.monotonic(), outcome) {
            prober.wake.notify_one();
        }
        let interval = *prober.pace.borrow_and_update();
        tokio::select! {
            () = prober.world.sleep(interval) => {}
            () = prober.poke.notified() => {}
            changed = prober.pace.changed() => if changed.is_err() { return },
        }
    }
}

impl<W: World> Prober<W> {
    async fn ask(&mut self) -> Result<Info, ServerError> {
        if self.cut_sessions {
            self.world.call(&self.target, Command::KillUser(self.target.credential.user.clone()), DEADLINE).await?;
            self.cut_sessions = false;
        }
        light_probe(&*self.world, &self.target).await
    }
}

/// One light probe.
///
/// # Errors
/// The server's.
pub async fn light_probe<W: World>(world: &W, target: &Target) -> Result<Info, ServerError> {
    match world.call(target, Command::LightProbe, DEADLINE).await? {
        Reply::Text(text) => Ok(Info::parse(&text)),
        other => Err(ServerError::Unexpected(format!("{other:?}"))),
    }
}
