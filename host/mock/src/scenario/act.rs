//! Carries steps out.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::json;
use vko_apiserver::store::{DeleteOptions, Manner};
use vko_apiserver::{Key, Refusal, Store};
use vko_engine::{Engine, pack};
use vko_script::step::{
    CALM, FIRST_OPERATOR, ImageState, NodeState, ObjectName, OperatorState, PolicyState, SignalName, Step, Targets, Wait, Writes,
};
use vko_script::target::{self, Pod};
use vko_script::wait;

use super::client::{self, Client};
use super::run::{PATIENCE, Running, Stage, StageError};
use super::view::{self, Here};
use crate::bed::{BedError, NAMESPACE, OPERATORS, ZONES, node};
use crate::burden::burden;
use crate::cut;
use crate::kubelet::{ImageFault, NodeFault};

/// A person's word that nothing runs on the node.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Who writes nodes' conditions.
const NODES: Manner<'static> = Manner::status_by("kubelet");
/// Who changes nodes otherwise.
const PEOPLE: Manner<'static> = Manner::by("people");

impl Stage<'_> {
    pub(super) async fn act(&mut self, step: &Step) -> Result<(), StageError> {
        match step {
            Step::Apply(file) => {
                for object in self.scenario.manifests.get(file).into_iter().flatten() {
                    self.bed.apply(object.clone())?;
                }
            }
            Step::Patch { object, with } => drop(self.bed.patch(&key(object), with)?),
            Step::Delete { object, propagation } => {
                let options = DeleteOptions { propagation_policy: propagation.clone(), ..DeleteOptions::default() };
                self.bed.api.write(|store| store.delete(&key(object), &options))?;
            }
            Step::DeletePods { pods, grace } => {
                for pod in self.pods(pods)? {
                    let options = DeleteOptions { grace_period_seconds: *grace, ..DeleteOptions::of(&pod.uid) };
                    self.bed.api.write(|store| store.delete(&pod_key(&pod), &options))?;
                }
            }
            Step::Evict(pods) => self.evict(pods).await?,
            Step::Remember(names) => {
                for (name, targets) in names {
                    let pods = self.pods(targets)?;
                    self.remembered.insert(name.clone(), pods);
                }
            }
            Step::Wait(wait) => self.wait(wait).await?,
            Step::Hold(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
            Step::Writes(writes) => self.writes(writes).await?,
            Step::Signal { pods, signal } => {
                for pod in self.pods(pods)? {
                    self.bed.signal(&pod.name, of(*signal))?;
                }
            }
            Step::Node { of, becomes } => {
                let mut nodes: Vec<String> = self.pods(of)?.into_iter().map(|pod| pod.node).collect();
                nodes.sort();
                nodes.dedup();
                nodes.iter().try_for_each(|node| self.node(node, *becomes))?;
            }
            Step::ApiFault(fault) => self.bed.api.faults.add(fault.clone()),
            Step::ApiCompact => self.bed.api.write(Store::compact),
            Step::Operator { name, becomes } => self.operator(name, becomes).await?,
            Step::ReuseAddresses(pods) => {
                for pod in self.pods(pods)? {
                    pod.ip.parse().into_iter().for_each(|ip| self.bed.kubelet.give_again(ip));
                }
            }
            Step::Partition { pods, from } => {
                let address = |pod: &Pod| pod.ip.parse::<Ipv4Addr>().ok();
                let (pods, others) = (self.pods(pods)?, self.pods(from)?);
                let pairs = pods.iter().flat_map(|pod| others.iter().map(move |other| (address(pod), address(other))));
                cut::cut(&self.scenario.name, &pairs.filter_map(|(one, other)| Some((one?, other?))).collect::<Vec<_>>())
                    .map_err(machine)?;
            }
            Step::SmallDisks(mib) => self.bed.kubelet.size_disks(*mib),
            Step::FillDisks(pods) => {
                for pod in self.pods(pods)? {
                    self.bed.kubelet.fill_disk(&pod_key(&pod)).map_err(machine)?;
                }
            }
            Step::ClearDisks => self.bed.kubelet.clear_disks(),
            Step::Burden { pods, commands } => {
                for pod in self.pods(pods)? {
                    let disk = self.bed.kubelet.disk(&pod_key(&pod)).map_err(machine)?;
                    burden(&disk, *commands).map_err(machine)?;
                }
            }
            Step::Policy { name, becomes } => self.policy(name, *becomes)?,
            Step::Image { line, becomes } => self.image(line, *becomes)?,
            Step::Heal => self.heal().await?,
        }
        Ok(())
    }

    fn image(&self, line: &str, becomes: ImageState) -> Result<(), StageError> {
        let image =
            self.bed.images().lines().get(line).ok_or_else(|| machine(format!("there is no image of the line {line}")))?;
        let fault = match becomes {
            ImageState::Missing => Some(ImageFault::Missing),
            ImageState::Crashing => Some(ImageFault::Crashing),
            ImageState::Well => None,
        };
        self.bed.kubelet.spoil(image, fault);
        Ok(())
    }

    /// Whom a step means, now.
    pub(super) fn pods(&self, targets: &Targets) -> Result<Vec<Pod>, StageError> {
        let meant = self.bed.api.read(|store| target::meant(&Here(store), targets, &self.remembered));
        meant.map_err(|nobody| StageError::Nobody(nobody.into()))
    }

    async fn evict(&self, pods: &Targets) -> Result<(), StageError> {
        for pod in self.pods(pods)? {
            let mut versions = self.bed.api.versions();
            let keep_asking = async {
                loop {
                    versions.borrow_and_update();
                    match self.bed.api.write(|store| store.evict(NAMESPACE, &pod.name, &DeleteOptions::of(&pod.uid))) {
                        Err(Refusal { code: 429, .. }) => {}
                        other => return other,
                    }
                    let _ = versions.changed().await;
                }
            };
            let asked = tokio::time::timeout(PATIENCE, keep_asking).await;
            asked.map_err(|_| StageError::Kept(pod.name.clone()))??;
        }
        Ok(())
    }

    async fn wait(&mut self, wait: &Wait) -> Result<(), StageError> {
        let pods = wait.targets().map_or(Ok(Vec::new()), |targets| self.pods(targets))?;
        if let Wait::OperatorEnded(name) = wait {
            let ended = self.operators.get(name).ok_or_else(|| StageError::NoOperator(name.clone()))?.ended.clone();
            let waited = tokio::time::timeout(PATIENCE, ended.notified()).await;
            waited.map_err(|_| StageError::Lives(name.clone()))?;
            self.operators.remove(name);
            return Ok(());
        }
        match wait {
            Wait::Calm(name) => return self.calm(name).await,
            Wait::Loading(_) => return client::loading(&self.bed.api, &pods).await,
            _ => {}
        }
        let recorder = self.recording.recorder.clone();
        let holds = |store: &Store| match wait {
            Wait::Leader(name) => view::leads(store, name),
            _ => recorder.read(|recorded| wait::has_come(&Here(store), wait, &pods, &recorded.events)) == Some(true),
        };
        Ok(self.bed.until(&format!("{wait:?}"), PATIENCE, |store| holds(store).then_some(())).await?)
    }

    /// What a status said before its operator died is no word on what came after: one that lives must lead all the time.
    async fn calm(&self, name: &str) -> Result<(), StageError> {
        let end = Instant::now() + PATIENCE;
        let led = |store: &Store| {
            let mut living = self.operators.iter().filter(|(_, running)| !running.faults.has_ended());
            living.any(|(name, _)| view::leads(store, name))
        };
        let holds = |store: &Store| led(store) && wait::is_ready(&Here(store), name);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let what = format!("an operator leads and {name} is ready for {CALM:?}");
            self.bed.until(&what, left, |store| holds(store).then_some(())).await?;
            let broken = self.bed.until("it isn't any more", CALM, |store| (!holds(store)).then_some(())).await;
            if broken.is_err() && self.bed.api.read(holds) {
                return Ok(());
            }
        }
    }

    async fn writes(&mut self, writes: &Writes) -> Result<(), StageError> {
        let nobody = || StageError::Client("no client writes; 'writes: {on: INSTANCE}' starts one".into());
        match writes {
            Writes::On(instance) => {
                self.clients += 1;
                self.client = Some(Client::start(&self.bed.api, instance, self.clients));
            }
            Writes::Acks(more) => self.client.as_ref().ok_or_else(nobody)?.acks(*more).await?,
            Writes::Verify(fault) => {
                self.acks += self.client.take().ok_or_else(nobody)?.verify(fault).await?;
            }
        }
        Ok(())
    }

    fn node(&mut self, name: &str, state: NodeState) -> Result<(), StageError> {
        let (kubelet, node) = (&self.bed.kubelet, Key::new("nodes", "", name));
        let signal = |signal: Signal| {
            let processes = kubelet.running_on(name).into_iter().filter_map(|running| running.process);
            // One that has just ended is none to be signalled.
            for id in processes.filter_map(|id| Pid::from_raw(id.try_into().ok()?)) {
                let _ = rustix::process::kill_process(id, signal);
            }
        };
        let ready =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "NodeStatus"}]}});
        match state {
            NodeState::Cordoned => drop(self.bed.patch(&node, &json!({"spec": {"unschedulable": true}}))?),
            NodeState::CutOff | NodeState::StandsStill => {
                kubelet.strike(name, Some(NodeFault::CutOff));
                if state == NodeState::StandsStill {
                    signal(Signal::STOP);
                }
                self.bed.api.write(|store| store.merge(&node, &ready("Unknown"), NODES))?;
            }
            NodeState::PowerLost | NodeState::OutOfService | NodeState::Gone => {
                kubelet.strike(name, Some(NodeFault::PowerLost));
                signal(Signal::KILL);
                self.bed.api.write(|store| store.merge(&node, &ready("Unknown"), NODES))?;
                let taint =
                    json!({"spec": {"taints": [{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]}});
                match state {
                    NodeState::OutOfService => drop(self.bed.patch(&node, &taint)?),
                    NodeState::Gone => self.bed.delete(&node)?,
                    _ => {}
                }
            }
            NodeState::Well => {
                if self.bed.get(&node).is_none() {
                    self.bed.add_node(name)?;
                }
                signal(Signal::CONT);
                kubelet.strike(name, None);
                self.bed.api.write(|store| {
                    store.merge(&node, &json!({"spec": {"taints": null, "unschedulable": null}}), PEOPLE)?;
                    store.merge(&node, &ready("True"), NODES)
                })?;
            }
        }
        Ok(())
    }

    fn policy(&self, name: &str, state: PolicyState) -> Result<(), StageError> {
        if state == PolicyState::Removed {
            return Ok(self.bed.delete(&Key::new("configmaps", OPERATORS, name))?);
        }
        let folder = std::env::var_os("VKO_GUESTS")
            .ok_or_else(|| machine("VKO_GUESTS isn't set; 'cargo xtask guests' makes its files"))?;
        let file = Path::new(&folder).join(format!("{name}.wasm"));
        let component = std::fs::read(&file).map_err(|error| machine(format!("{}: {error}", file.display())))?;
        let described = Engine::new().map_err(machine)?.describe(&component).map_err(machine)?;
        let mut packed = pack::pack(name, &described, &component).map_err(machine)?;
        packed["metadata"]["namespace"] = json!(OPERATORS);
        self.bed.apply(packed)?;
        Ok(())
    }

    async fn operator(&mut self, name: &str, becomes: &OperatorState) -> Result<(), StageError> {
        let missing = || StageError::NoOperator(name.to_owned());
        match becomes {
            OperatorState::Started => {
                self.operators.insert(name.into(), Running::start(&self.bed, name, self.policies, None).await?);
            }
            OperatorState::StartedToDieAfter(effects) => {
                let running = Running::start(&self.bed, name, self.policies, Some(*effects)).await?;
                self.operators.insert(name.into(), running);
            }
            OperatorState::Stopped => {
                self.operators.remove(name).ok_or_else(missing)?.operator.stop().await.map_err(StageError::from)?
            }
            OperatorState::Killed => drop(self.operators.remove(name).ok_or_else(missing)?),
            OperatorState::CutOffFrom(pods) => {
                let pods = self.pods(pods)?.into_iter().map(|pod| pod.uid);
                self.operators.get(name).ok_or_else(missing)?.faults.cut_off(pods);
            }
        }
        Ok(())
    }

    /// Ends all faults.
    pub(super) async fn heal(&mut self) -> Result<(), StageError> {
        let idle = self.bed.api.faults.clear();
        self.bed.kubelet.clear_disks();
        self.bed.kubelet.mend_images();
        if self.scenario.needs_namespaces() {
            cut::mend(&self.scenario.name).map_err(machine)?;
        }
        for zone in 0..ZONES.len() {
            self.node(&node(zone), NodeState::Well)?;
        }
        for pod in self.bed.api.read(|store| target::pods(&Here(store))) {
            // One without a server isn't stopped either.
            let _ = self.bed.signal(&pod.name, Signal::CONT);
        }
        self.operators.retain(|_, running| !running.faults.has_ended());
        self.operators.values().for_each(|running| running.faults.cut_off([]));
        if self.operators.is_empty() {
            self.operators.insert(FIRST_OPERATOR.into(), Running::start(&self.bed, FIRST_OPERATOR, self.policies, None).await?);
        }
        if idle.is_empty() || self.scenario.expect.faults_may_miss { Ok(()) } else { Err(StageError::IdleFaults(idle)) }
    }
}

fn machine(error: impl std::fmt::Display) -> StageError {
    StageError::Bed(BedError::Machine(error.to_string()))
}

fn key(object: &ObjectName) -> Key {
    Key::new(&object.resource, object.namespace.as_deref().unwrap_or(NAMESPACE), &object.name)
}

fn pod_key(pod: &Pod) -> Key {
    Key::new("pods", NAMESPACE, &pod.name)
}

fn of(signal: SignalName) -> Signal {
    match signal {
        SignalName::Kill => Signal::KILL,
        SignalName::Stop => Signal::STOP,
        SignalName::Cont => Signal::CONT,
        SignalName::Term => Signal::TERM,
    }
}
