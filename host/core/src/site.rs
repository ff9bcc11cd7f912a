//! What all parts of one instance's loop share: the world, the ledger's store, the servers' memory, the Lease.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use vko_model::info::Info;

use crate::command::{Command, Reply};
use crate::execute::ExecuteError;
use crate::lease::LeaseState;
use crate::memory::{Answer, Memory};
use crate::outcomes::Outcomes;
use crate::probe::{light_probe, whole_sentinel};
use crate::settings::Settings;
use crate::store::Store;
use crate::world::{Credential, ServerError, Target, World};

/// The longest deadline of a dangerous command (the Lease lasts 15 s and is renewed every 5 s, so a healthy leader always has
/// this much).
pub const DANGEROUS_DEADLINE: Duration = Duration::from_secs(5);

/// One instance, as its parts share it.
pub struct Site<W> {
    /// The world.
    pub world: Arc<W>,
    /// The operator's settings.
    pub settings: Arc<Settings>,
    /// Whether we may act.
    pub lease: LeaseState,
    /// Ledger and report.
    pub store: Store<W>,
    /// The servers' past.
    pub memory: Arc<Memory>,
    /// What became of steps.
    pub outcomes: Outcomes,
    /// Wakes the loop.
    pub wake: Arc<Notify>,
    targets: RwLock<BTreeMap<String, (String, Target)>>,
    sentinels: RwLock<BTreeMap<String, (String, Target)>>,
    monitor: RwLock<Option<String>>,
    credentials: RwLock<BTreeMap<String, Credential>>,
    cut_off: AtomicBool,
}

impl<W: World> Site<W> {
    /// A new one.
    pub fn new(
        world: Arc<W>,
        settings: Arc<Settings>,
        lease: LeaseState,
        store: Store<W>,
        memory: Arc<Memory>,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            world,
            settings,
            lease,
            store,
            memory,
            outcomes: Outcomes::default(),
            wake,
            targets: RwLock::default(),
            sentinels: RwLock::default(),
            monitor: RwLock::default(),
            credentials: RwLock::default(),
            cut_off: AtomicBool::new(false),
        }
    }

    /// Says which servers there are: pod UID, pod name, target.
    pub fn set_targets(&self, targets: BTreeMap<String, (String, Target)>) {
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    /// Says which Sentinels watch the instance, its own and referenced ones: id, name for people, target.
    pub fn set_sentinels(&self, sentinels: BTreeMap<String, (String, Target)>) {
        *self.sentinels.write().unwrap_or_else(PoisonError::into_inner) = sentinels;
    }

    /// Says by what name they know the data set; `None`: nobody watches it.
    pub fn set_monitor(&self, monitor: Option<String>) {
        *self.monitor.write().unwrap_or_else(PoisonError::into_inner) = monitor;
    }

    /// The Sentinels' name for the data set.
    pub fn monitor(&self) -> Option<String> {
        self.monitor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says with what the instance's accounts log in to its data servers, by the account's name.
    pub fn set_credentials(&self, credentials: BTreeMap<String, Credential>) {
        *self.credentials.write().unwrap_or_else(PoisonError::into_inner) = credentials;
    }

    /// A Sentinel's name and where it listens, by its own id.
    ///
    /// # Errors
    /// No Sentinel of this id is known now.
    pub fn sentinel_target(&self, id: &str) -> Result<(String, Target), ExecuteError> {
        let sentinels = self.sentinels.read().unwrap_or_else(PoisonError::into_inner);
        sentinels.get(id).cloned().ok_or_else(|| ExecuteError::TargetGone(format!("the Sentinel with id {id}")))
    }

    /// All Sentinels: id, name, target.
    pub fn all_sentinels(&self) -> Vec<(String, String, Target)> {
        let sentinels = self.sentinels.read().unwrap_or_else(PoisonError::into_inner);
        sentinels.iter().map(|(id, (name, target))| (id.clone(), name.clone(), target.clone())).collect()
    }

    /// What an account logs in with.
    ///
    /// # Errors
    /// This instance has no such account.
    pub fn credential(&self, account: &str) -> Result<Credential, ExecuteError> {
        let credentials = self.credentials.read().unwrap_or_else(PoisonError::into_inner);
        credentials.get(account).cloned().ok_or_else(|| ExecuteError::TargetGone(format!("the account {account}")))
    }

    /// Says whether the operator seems to be cut off.
    pub fn set_cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::Relaxed);
    }

    /// A pod's name and server.
    ///
    /// # Errors
    /// The pod is gone.
    pub fn target(&self, pod: &str) -> Result<(String, Target), ExecuteError> {
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.get(pod).cloned().ok_or_else(|| ExecuteError::TargetGone(format!("the pod with UID {pod}")))
    }

    /// All servers: pod UID, pod name, target.
    pub fn all_targets(&self) -> Vec<(String, String, Target)> {
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.iter().map(|(uid, (name, target))| (uid.clone(), name.clone(), target.clone())).collect()
    }

    /// Whether something dangerous may be started now.
    ///
    /// # Errors
    /// Says why not.
    pub fn may_act(&self) -> Result<(), ExecuteError> {
        if self.cut_off.load(Ordering::Relaxed) {
            return Err(ExecuteError::OperatorCutOff);
        }
        if !self.lease.covers(DANGEROUS_DEADLINE) {
            return Err(ExecuteError::LeaseTooShort);
        }
        Ok(())
    }

    /// Sends a command to a pod's server; a dangerous one only while we may act.
    ///
    /// # Errors
    /// The server's, or that we may not act.
    pub async fn send(&self, pod: &str, command: Command) -> Result<Reply, ExecuteError> {
        if command.is_dangerous() {
            self.may_act()?;
        }
        let (name, target) = self.target(pod)?;
        self.world.call(&target, command, DANGEROUS_DEADLINE).await.map_err(|error| refused(&name, error))
    }

    /// Sends a command to a Sentinel; a dangerous one only while we may act.
    ///
    /// # Errors
    /// The Sentinel's, or that we may not act.
    pub async fn send_sentinel(&self, id: &str, command: Command) -> Result<Reply, ExecuteError> {
        if command.is_dangerous() {
            self.may_act()?;
        }
        let (name, target) = self.sentinel_target(id)?;
        self.world.call(&target, command, DANGEROUS_DEADLINE).await.map_err(|error| refused(&name, error))
    }

    /// What a pod's server says now. The memory takes it in too.
    ///
    /// # Errors
    /// The server's.
    pub async fn look(&self, pod: &str) -> Result<Info, ExecuteError> {
        let (name, target) = self.target(pod)?;
        let asked = self.world.monotonic();
        let outcome = light_probe(&*self.world, &target).await;
        self.note(pod, asked, outcome.clone().map(Answer::from));
        outcome.map_err(|error| refused(&name, error))
    }

    /// Takes in what a Sentinel says now of a data set, so that the next look doesn't ask for what was just done. What it doesn't
    /// say, its probe finds out.
    pub async fn look_at_sentinel(&self, id: &str, monitor: &str) {
        let Ok((_, target)) = self.sentinel_target(id) else { return };
        let asked = self.world.monotonic();
        let outcome = whole_sentinel(&*self.world, &target, monitor).await;
        self.note(&target.pod, asked, outcome);
    }

    fn note(&self, server: &str, asked: Duration, outcome: Result<Answer, ServerError>) {
        if self.memory.note(server, asked, self.world.monotonic(), outcome) {
            self.wake.notify_one();
        }
    }
}

fn refused(pod: &str, error: ServerError) -> ExecuteError {
    ExecuteError::ServerRefused { pod: pod.into(), error }
}
