//! Carries steps out.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use vko_script::step::{CALM, NodeState, ObjectName, SignalName, Step, Targets, Wait, Writes};
use vko_script::target::{self, Pod};
use vko_script::{Scenario, VALKEYS, View, wait};

use super::Stage;
use crate::instance::{Arch, Instance, MEMBERS_OF_SENTINELS, on_its_family};
use crate::losses::bound;
use crate::wait::Look;
use crate::writer::{Pace, Writer};
use crate::{Result, bed, command, kubectl, operator, strike};

/// For what a step waits for. Reached only when something is wrong.
const PATIENCE: Duration = Duration::from_secs(180);

/// The application: it enters as the documentation tells people to, and writes numbers.
pub(super) struct Client {
    instance: Instance,
    writer: Writer,
}

impl Stage<'_> {
    pub(super) fn act(&mut self, step: &Step) -> Result {
        match step {
            Step::Apply(file) => self.apply(file),
            Step::Patch { object, with } => {
                kubectl::patch(self.namespace, &path(object), with)?;
                self.caught_up(&object.resource, &object.name)
            }
            Step::Delete { object, propagation } => {
                let cascade = format!("--cascade={}", propagation.as_deref().unwrap_or("background").to_lowercase());
                let args = ["delete", &path(object), "--namespace", self.namespace, "--wait=false", &cascade];
                kubectl::run(&args).map(|_| ())
            }
            Step::DeletePods { pods, grace } => self.delete_pods(&self.pods(pods)?, *grace),
            Step::Evict(pods) => self.pods(pods)?.iter().try_for_each(|pod| self.evict(pod)),
            Step::Remember(names) => {
                for (name, targets) in names {
                    let pods = self.pods(targets)?;
                    self.remembered.insert(name.clone(), pods);
                }
                Ok(())
            }
            Step::Wait(wait) => self.wait(wait),
            Step::Hold(seconds) => {
                std::thread::sleep(Duration::from_secs(*seconds));
                Ok(())
            }
            Step::Writes(writes) => self.writes(writes),
            Step::Signal { pods, signal } => self.pods(pods)?.iter().try_for_each(|pod| self.signal(&pod.name, *signal)),
            Step::Node { of, becomes } => self.node(of, *becomes),
            Step::Heal => self.heal(),
            other => bail!("{other:?} can't be done here; why, says vko_script::bed"),
        }
    }

    /// Whom a step means, now.
    pub(super) fn pods(&self, targets: &Targets) -> Result<Vec<Pod>> {
        let meant = self.seen.read(|objects| target::meant(objects, targets, &self.remembered));
        meant.map_err(|nobody| anyhow::anyhow!("no pod is {:?} now", String::from(nobody)))
    }

    fn apply(&self, file: &str) -> Result {
        for object in self.scenario.manifests.get(file).into_iter().flatten() {
            let is_valkey = object["kind"] == "Valkey";
            let object = &if is_valkey { on_its_family(object.clone())? } else { object.clone() };
            kubectl::apply(self.namespace, &object.to_string())?;
            if is_valkey {
                self.caught_up(VALKEYS, operator::name(object))?;
            }
        }
        Ok(())
    }

    /// Waits until the watch has come to what was just written: what it knew before is no answer to the next step.
    fn caught_up(&self, resource: &str, name: &str) -> Result {
        let generation = |object: &Value| object["metadata"]["generation"].as_u64();
        let written = generation(&kubectl::must_get(self.namespace, &format!("{resource}/{name}"))?);
        let what = format!("{resource}/{name} as it was written");
        let come = |object: &Value| (generation(object) >= written).then_some(());
        self.seen.until(&what, PATIENCE, |objects| objects.get(resource, name).and_then(come))
    }

    fn delete_pods(&self, pods: &[Pod], grace_seconds: Option<u64>) -> Result {
        let more: &[&str] = if grace_seconds == Some(0) { &["--force"] } else { &[] };
        let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
        strike::delete_named(self.namespace, &names, grace_seconds, more)
    }

    /// Asks until the budget lets it go.
    fn evict(&self, pod: &Pod) -> Result {
        let (namespace, name) = (self.namespace, &pod.name);
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        kubectl::look_until(&format!("the eviction of {name}"), PATIENCE, || {
            let mut kubectl = kubectl::kubectl()?;
            command::run_with_input(kubectl.args(["create", "--raw", &path, "--filename", "-"]), &eviction.to_string())?;
            Ok(Look::Found(()))
        })
    }

    fn wait(&self, wait: &Wait) -> Result {
        if let Wait::Calm(name) = wait {
            return self.calm(name);
        }
        let pods = wait.targets().map_or(Ok(Vec::new()), |targets| self.pods(targets))?;
        self.seen.until(&format!("{wait:?}"), PATIENCE, |objects| {
            (wait::has_come(objects, wait, &pods, &objects.events) == Some(true)).then_some(())
        })
    }

    /// The operator leads all the time here: it stays.
    fn calm(&self, name: &str) -> Result {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let what = format!("{name} is ready for {CALM:?}");
            self.seen.until(&what, left, |objects| wait::is_ready(objects, name).then_some(()))?;
            let broken = self.seen.until("it isn't any more", CALM, |objects| (!wait::is_ready(objects, name)).then_some(()));
            if broken.is_err() && self.seen.read(|objects| wait::is_ready(objects, name)) {
                return Ok(());
            }
        }
    }

    fn writes(&mut self, writes: &Writes) -> Result {
        let nobody = "no client writes; 'writes: {on: INSTANCE}' starts one";
        match writes {
            Writes::On(name) => {
                self.clients += 1;
                self.client = Some(self.client_of(name)?);
                Ok(())
            }
            Writes::Acks(more) => self.client.as_ref().context(nobody)?.writer.wait_acks(*more),
            Writes::Verify(fault) => self.client.take().context(nobody)?.verify(self.scenario, fault),
        }
    }

    fn client_of(&self, name: &str) -> Result<Client> {
        let arch = self.seen.read(|objects| objects.get(VALKEYS, name).map(arch)).context("there is no such instance")??;
        let instance = Instance { namespace: self.namespace.into(), name: name.into(), arch };
        instance.wait_reachable()?;
        let writer = Writer::start_named(instance.entrance()?, &format!("w{}", self.clients), Pace::default());
        Ok(Client { instance, writer })
    }

    fn signal(&self, pod: &str, signal: SignalName) -> Result {
        let name = match signal {
            SignalName::Kill => "KILL",
            SignalName::Stop => "STOP",
            SignalName::Cont => "CONT",
            SignalName::Term => "TERM",
        };
        let pod = self.seen.read(|objects| target::named(objects, pod)).with_context(|| format!("there is no pod {pod}"))?;
        strike::signal_server(&pod.uid, name)
    }

    /// The operator doesn't share the fate of a node: what it does then is another fault.
    fn node(&mut self, of: &Targets, becomes: NodeState) -> Result {
        let mut nodes: Vec<String> = self.pods(of)?.into_iter().map(|pod| pod.node).collect();
        nodes.sort();
        nodes.dedup();
        match becomes {
            NodeState::PowerLost => {
                ensure!(self.nodes.is_empty() && nodes.len() == 1, "one node at a time: the operator needs another one");
                for node in nodes {
                    operator::place(&node, false)?;
                    let fault = bed::kill_node(&node)?;
                    self.nodes.insert(node, fault);
                }
                Ok(())
            }
            NodeState::Well => nodes.iter().filter_map(|node| self.nodes.remove(node)).try_for_each(bed::Fault::end),
            other => bail!("{other:?} can't be done here; why, says vko_script::bed"),
        }
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) -> Result {
        std::mem::take(&mut self.nodes).into_values().try_for_each(bed::Fault::end)?;
        if self.scenario.steps.iter().any(|step| matches!(step, Step::Signal { signal: SignalName::Stop, .. })) {
            for pod in self.seen.read(|objects| target::pods(objects)) {
                // One without a server isn't stopped either.
                let _ = self.signal(&pod.name, SignalName::Cont);
            }
        }
        Ok(())
    }
}

impl Client {
    /// Ends, and holds what is missing against the published bound of a fault. How fast it wrote isn't asked, as it isn't on the
    /// mock host: a script waits for few writes beside long outages.
    fn verify(self, scenario: &Scenario, fault: &str) -> Result {
        let Self { instance, writer } = self;
        let record = writer.stop()?;
        instance.wait_writable()?;
        let lost = record.lost(&instance.entrance()?)?;
        record.print(&format!("scenario {}, {fault}", scenario.name), &lost);
        record.held(&lost, bound(instance.arch.name(), fault)?)
    }
}

fn arch(valkey: &Value) -> Result<Arch> {
    let number = |pointer: &str| valkey.pointer(pointer).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    match valkey["spec"]["arch"].as_str().unwrap_or_default() {
        "replica" => Ok(Arch::Replica),
        "failover" => Ok(Arch::Failover { sentinels: number("/spec/sentinel/replicas").unwrap_or(MEMBERS_OF_SENTINELS) }),
        "cluster" => Ok(Arch::Cluster { shards: number("/spec/replicas/shards").context("spec.replicas.shards isn't set")? }),
        other => bail!("spec.arch is {other:?}"),
    }
}

fn path(object: &ObjectName) -> String {
    format!("{}/{}", object.resource, object.name)
}
