//! The life of one pod: volumes, init containers, the server, probes, restarts, the end.
//!
//! # Flow
//! 1. Volumes, as soon as what they are made of is there.
//! 2. Init containers one after the other, each again until it succeeds.
//! 3. The server; when it ends it starts again, after pauses that double.
//! 4. The pod is to go: hook, SIGTERM, SIGKILL when the grace is over. Then its object is released.
//! 5. The object is gone (deleted by force): SIGKILL.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use vko_apiserver::Key;
use vko_apiserver::store::{DeleteOptions, Manner};

use super::command::{self, Mounts, Place};
use super::probe::{Probe, Question};
use super::status::{self, Known, State};
use super::{ImageFault, Kubelet, MANAGER, NodeFault, Running, list, text, volumes};
use crate::process::{self, Process, Program, exit_code};

/// Before the first restart, doubled by each further one up to [`PAUSE_MAX`]. Real kubelets wait ten seconds to five minutes: the
/// same order of events, slower.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// A server that ran for so long is none that can't start: the next pause is short again.
const SETTLED: Duration = Duration::from_secs(60);
/// After so long mounted files are looked at again, whatever happens.
const REFRESH: Duration = Duration::from_secs(60);
/// A container that ends for want of an image or a volume is looked at again after this.
const AGAIN: Duration = Duration::from_millis(250);

/// Lives; returns the pod's UID.
pub(super) async fn live(kubelet: Arc<Kubelet>, key: Key, uid: String) -> String {
    let ip = kubelet.next_address();
    let node = kubelet.api.read(|store| store.get(&key).map(|pod| text(pod, "/spec/nodeName").to_owned())).unwrap_or_default();
    let folder = kubelet.root.join("pods").join(format!("{}.{uid}", key.name));
    kubelet.note(&uid, |all, uid| {
        drop(all.insert(uid.into(), Running { node: node.clone(), ip, process: None, folder: folder.clone() }))
    });
    let known = Known {
        ip: None,
        initialized: false,
        init: State::Waiting("PodInitializing"),
        main: State::Waiting("PodInitializing"),
        last_end: None,
        restarts: 0,
        ready: false,
    };
    let versions = kubelet.api.versions();
    let mut life = Life { kubelet, key, uid, node, ip, folder, versions, known, volumes: BTreeMap::new() };
    life.run().await;
    life.release();
    let Life { kubelet, uid, folder, .. } = life;
    kubelet.note(&uid, |all, uid| drop(all.remove(uid)));
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        tracing::debug!(%error, folder = %folder.display(), "a pod's folder stays");
    }
    uid
}

/// The pod is to go, or is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    /// With so much grace.
    Gracefully(Duration),
    /// Its object isn't there any more.
    Gone,
}

struct Life {
    kubelet: Arc<Kubelet>,
    key: Key,
    uid: String,
    node: String,
    ip: Ipv4Addr,
    folder: PathBuf,
    versions: watch::Receiver<u64>,
    known: Known,
    volumes: BTreeMap<String, PathBuf>,
}

impl Life {
    async fn run(&mut self) {
        let Some(pod) = self.begin().await else { return };
        let mut pause = PAUSE;
        loop {
            let began = Instant::now();
            match self.serve(&pod).await {
                Some(code) => {
                    self.known.last_end = Some(code);
                    self.known.restarts += 1;
                }
                None => return,
            }
            pause = if began.elapsed() > SETTLED { PAUSE } else { pause };
            (self.known.main, self.known.ready) = (State::Waiting("CrashLoopBackOff"), false);
            self.tell();
            if self.going_within(pause).await.is_some() || self.power().await.is_some() {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Volumes and init containers. `None`: the pod is to go before it has begun.
    async fn begin(&mut self) -> Option<Value> {
        loop {
            let pod = self.pod()?;
            match self.mount(&pod) {
                Ok(()) => break,
                Err(error) => tracing::debug!(pod = self.key.name, %error, "volumes aren't there yet"),
            }
            if self.going_within(AGAIN).await.is_some() {
                return None;
            }
        }
        self.known.ip = Some(self.ip);
        self.tell();
        let pod = self.pod()?;
        for container in list(&pod, "/spec/initContainers") {
            while !self.initialize(&pod, container).await {
                self.known.init = State::Waiting("CrashLoopBackOff");
                self.tell();
                if self.going_within(PAUSE).await.is_some() {
                    return None;
                }
            }
        }
        (self.known.init, self.known.initialized) = (State::Ended(0), true);
        Some(pod)
    }

    async fn initialize(&mut self, pod: &Value, container: &Value) -> bool {
        let Some(program) = self.program(pod, container) else { return false };
        match Process::start(&program) {
            Ok(mut process) => process.ended().await.is_ok_and(|status| status.success()),
            Err(error) => {
                tracing::warn!(pod = self.key.name, %error, "an init container can't be started");
                false
            }
        }
    }

    /// One start of the server, to its end: its code, or `None` when the pod is to go.
    async fn serve(&mut self, pod: &Value) -> Option<i32> {
        let container = list(pod, "/spec/containers").first()?.clone();
        let Some(mut process) = self.start(pod, &container) else { return Some(128) };
        self.note_process(Some(process.id()));
        let now = self.now();
        (self.known.main, self.known.ready) = (State::Running(now), container.get("readinessProbe").is_none());
        self.tell();
        let mut probes = Probe::of(&container, Instant::now());
        let mut answers = JoinSet::new();
        let mut refresh = Instant::now() + REFRESH;
        let mut annotations = pod["metadata"]["annotations"].clone();
        loop {
            for (index, probe) in probes.iter_mut().enumerate().filter(|(_, probe)| !probe.asking && probe.due <= Instant::now())
            {
                probe.asking = true;
                let program = self.placed(&container, &probe.words, "probe.log");
                let timeout = probe.timeout;
                answers.spawn(async move { (index, ask(&program, timeout).await) });
            }
            let due = probes.iter().filter(|probe| !probe.asking).map(|probe| probe.due).min().unwrap_or(refresh).min(refresh);
            tokio::select! {
                ended = process.ended() => {
                    self.note_process(None);
                    return Some(ended.map_or(255, exit_code));
                }
                _ = self.versions.changed() => match self.going() {
                    Some(going) => {
                        self.stop(&container, process, going).await;
                        return None;
                    }
                    None => {
                        let pod = self.pod();
                        // Others say what they think of a node that is cut off.
                        if pod.as_ref().is_some_and(|pod| status::is_ready(pod) != self.known.ready) {
                            self.tell();
                        }
                        let found = pod.map(|pod| pod["metadata"]["annotations"].clone()).unwrap_or_default();
                        if std::mem::replace(&mut annotations, found.clone()) != found {
                            refresh = Instant::now();
                        }
                    }
                },
                Some(Ok((index, yes))) = answers.join_next() => {
                    let Some(probe) = probes.get_mut(index) else { continue };
                    if probe.take(yes, Instant::now()) {
                        match (probe.question, probe.holds()) {
                            (Question::Live, false) => {
                                let grace = self.pod().and_then(|pod| pod["spec"]["terminationGracePeriodSeconds"].as_u64());
                                let grace = Duration::from_secs(grace.unwrap_or(30));
                                return Some(self.stop(&container, process, Going::Gracefully(grace)).await);
                            }
                            (Question::Ready, ready) => {
                                self.known.ready = ready;
                                self.tell();
                            }
                            (Question::Live, true) => {}
                        }
                    }
                }
                () = tokio::time::sleep_until(due) => {
                    if Instant::now() >= refresh {
                        refresh = Instant::now() + REFRESH;
                        self.refresh();
                    }
                }
            }
        }
    }

    fn start(&mut self, pod: &Value, container: &Value) -> Option<Process> {
        self.refresh();
        let program = self.program(pod, container)?;
        match Process::start(&program) {
            Ok(process) => Some(process),
            Err(error) => {
                tracing::warn!(pod = self.key.name, %error, "the container can't be started");
                None
            }
        }
    }

    /// Hook, SIGTERM, SIGKILL; its exit code.
    async fn stop(&mut self, container: &Value, mut process: Process, going: Going) -> i32 {
        let Going::Gracefully(grace) = going else { return 137 };
        let end = Instant::now() + grace;
        let words: Vec<String> = list(container, "/lifecycle/preStop/exec/command")
            .iter()
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect();
        if !words.is_empty() {
            self.refresh();
            let hook = self.placed(container, &words, "hook.log");
            tokio::select! {
                _ = ask(&hook, grace) => {}
                _ = process.ended() => {}
                () = self.gone() => return 137,
            }
        }
        process.signal(Signal::TERM);
        let code = tokio::select! {
            ended = process.ended() => ended.map_or(255, exit_code),
            () = tokio::time::sleep_until(end) => 137,
            () = self.gone() => 137,
        };
        drop(process);
        self.note_process(None);
        code
    }

    /// Returns when the pod's object isn't there any more.
    async fn gone(&mut self) {
        while self.going() != Some(Going::Gone) {
            if self.versions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether the pod is to go within that time.
    async fn going_within(&mut self, time: Duration) -> Option<Going> {
        let end = Instant::now() + time;
        loop {
            if let Some(going) = self.going() {
                return Some(going);
            }
            tokio::select! {
                _ = self.versions.changed() => {}
                () = tokio::time::sleep_until(end) => return None,
            }
        }
    }

    /// Waits until the node has power; whether the pod is to go then.
    async fn power(&mut self) -> Option<Going> {
        while self.kubelet.fault(&self.node) == Some(NodeFault::PowerLost) {
            if self.versions.changed().await.is_err() {
                return Some(Going::Gone);
            }
        }
        self.going()
    }

    fn going(&self) -> Option<Going> {
        if self.kubelet.fault(&self.node).is_some() {
            return None;
        }
        let Some(pod) = self.pod() else { return Some(Going::Gone) };
        pod.pointer("/metadata/deletionTimestamp")?;
        let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
        Some(Going::Gracefully(Duration::from_secs(grace)))
    }

    /// The object, if it is still this pod's.
    fn pod(&self) -> Option<Value> {
        let found = self.kubelet.api.read(|store| store.get(&self.key).cloned())?;
        (text(&found, "/metadata/uid") == self.uid).then(|| (*found).clone())
    }

    fn mount(&mut self, pod: &Value) -> Result<(), volumes::VolumeError> {
        let (folder, disks) = (self.folder.clone(), &self.kubelet.disks);
        self.volumes = self.kubelet.api.read(|store| volumes::mount(store, pod, &folder, disks))?;
        Ok(())
    }

    /// Mounted files as their objects are now; where one is missing, as they were.
    fn refresh(&mut self) {
        let refreshed = self.pod().map(|pod| self.mount(&pod));
        if let Some(Err(error)) = refreshed {
            tracing::debug!(pod = self.key.name, %error, "mounted files stay as they were");
        }
    }

    fn program(&self, pod: &Value, container: &Value) -> Option<Program> {
        let image = text(container, "/image");
        let broken = self.kubelet.broken(image);
        if !self.kubelet.images.has(image) || broken == Some(ImageFault::Missing) {
            tracing::warn!(pod = self.key.name, image, "there is no such image on this machine");
            return None;
        }
        let words: Vec<String> = list(container, "/command").iter().filter_map(|word| word.as_str().map(str::to_owned)).collect();
        let environment = command::environment(container, pod, self.ip);
        let words = command::expanded(&words, &environment);
        let words = if broken == Some(ImageFault::Crashing) { vec!["/bin/false".to_owned()] } else { words };
        let mut program = self.placed(container, &words, &format!("{}.log", text(container, "/name")));
        program.environment.extend(environment);
        Some(program)
    }

    fn placed(&self, container: &Value, words: &[String], log: &str) -> Program {
        let mounts: Mounts = command::mounts(container, &self.volumes);
        let place = Place { images: &self.kubelet.images, image: text(container, "/image"), mounts: &mounts, ip: self.ip };
        let environment = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        let mut words = command::placed(words, place);
        if let Some(agent) = self.kubelet.images.agent() {
            words = process::tied(agent, words);
        }
        Program { words, environment, log: self.folder.join(log) }
    }

    fn note_process(&self, process: Option<u32>) {
        self.kubelet.note(&self.uid, |all, uid| all.get_mut(uid).into_iter().for_each(|running| running.process = process));
    }

    fn now(&self) -> String {
        self.kubelet.api.now()
    }

    fn tell(&self) {
        if self.kubelet.fault(&self.node).is_some() {
            return;
        }
        let now = self.now();
        self.kubelet.api.write(|store| {
            let ours = store.get(&self.key).is_some_and(|pod| text(pod, "/metadata/uid") == self.uid);
            if ours
                && let Err(refusal) =
                    store.change(&self.key, Manner::status_by(MANAGER), |pod| pod["status"] = status::of(pod, &self.known, &now))
            {
                tracing::warn!(pod = self.key.name, %refusal, "a pod's status was refused");
            }
        });
    }

    /// Lets the object go: nothing runs for it any more.
    fn release(&self) {
        let options = DeleteOptions::force(&self.uid);
        // Refused: it is gone already, or another pod has the name by now.
        let _ = self.kubelet.api.write(|store| store.delete(&self.key, &options));
    }
}

/// Runs a probe or hook; whether it said yes in time.
async fn ask(program: &Program, timeout: Duration) -> bool {
    let Ok(mut process) = Process::start(program) else { return false };
    matches!(tokio::time::timeout(timeout, process.ended()).await, Ok(Ok(status)) if status.success())
}
