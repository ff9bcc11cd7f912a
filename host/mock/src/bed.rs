//! A world to be in: an API server with nodes in three zones and our kinds, and a kubelet.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use vko_apiserver::store::{DeleteOptions, Manner};
use vko_apiserver::{ApiServer, Key, Refusal, Resource, Store, disk};

use crate::images::Images;
use crate::kubelet::{Kubelet, Running};
use crate::lasting;

/// Where the operator is.
pub const OPERATORS: &str = "valkey-system";
/// Where instances are.
pub const NAMESPACE: &str = "default";
/// Zones of the three nodes.
pub const ZONES: [&str; 3] = ["a", "b", "c"];
/// Who the people in this world are.
const PEOPLE: Manner<'static> = Manner::by("people");

/// Beyond a pod's grace: SIGKILL, and the last of its object.
const AFTER_GRACE: Duration = Duration::from_secs(5);

/// Numbers the beds of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Why something can't be done in this world.
#[derive(Debug, thiserror::Error)]
pub enum BedError {
    /// The API server says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A kind that isn't served.
    #[error("no kind {kind:?} of {api_version:?} is served here")]
    KindUnknown {
        /// `apiVersion`.
        api_version: String,
        /// `kind`.
        kind: String,
    },
    /// What was waited for didn't come.
    #[error("never seen within {within:?}: {what}\n{state}")]
    NeverSeen {
        /// What.
        what: String,
        /// For so long.
        within: Duration,
        /// How things stand.
        state: String,
    },
    /// No pod of that name runs.
    #[error("no server of a pod {0} runs")]
    NotRunning(String),
    /// The operator can't be started, or something else of the machine failed.
    #[error("{0}")]
    Machine(String),
}

/// A world. Its processes go with it, and its folders, unless it was opened to last.
#[derive(Debug)]
pub struct Bed {
    /// The API server.
    pub api: Arc<ApiServer>,
    /// What runs the pods.
    pub kubelet: Arc<Kubelet>,
    images: Images,
    folder: PathBuf,
    lasts: bool,
    task: JoinHandle<()>,
}

impl Bed {
    /// An empty one, of this machine's images.
    ///
    /// # Errors
    /// The kinds' definitions are refused.
    pub fn new(images: Images) -> Result<Self, BedError> {
        let api = ApiServer::new();
        api.write(furnish)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("vko-mock-{}-{number}", std::process::id()));
        Ok(Self::run(api, images, folder, false))
    }

    /// One that lasts: its objects and claims' data are in a folder, those of an earlier one are there again. Pods are new, as
    /// after a power failure of all nodes. An instance without claims begins anew, by what people wrote: its data went with its
    /// pods.
    ///
    /// # Errors
    /// The folder can't be read or written, or what is in it is refused.
    pub fn open(images: Images, folder: PathBuf) -> Result<Self, BedError> {
        let file = folder.join(lasting::OBJECTS);
        let broken = |error: std::io::Error| BedError::Machine(format!("{}: {error}", file.display()));
        let (saved, anew) = lasting::sorted_out(disk::read(&file).map_err(broken)?);
        lasting::tidy(&folder, &saved).map_err(|error| BedError::Machine(format!("{}: {error}", folder.display())))?;
        let api = ApiServer::restored(saved);
        api.write(furnish)?;
        api.keep(&file).map_err(broken)?;
        let bed = Self::run(api, images, folder, true);
        for object in anew {
            bed.apply(object)?;
        }
        Ok(bed)
    }

    fn run(api: Arc<ApiServer>, images: Images, folder: PathBuf, lasts: bool) -> Self {
        let kubelet = Kubelet::new(api.clone(), images.clone(), folder.clone());
        let task = tokio::spawn(kubelet.clone().run());
        Self { api, kubelet, images, folder, lasts, task }
    }

    /// What runs here.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Creates or changes an object as a person does; without a namespace it is in [`NAMESPACE`].
    ///
    /// # Errors
    /// The API server says no, or doesn't know the kind.
    pub fn apply(&self, mut object: Value) -> Result<Arc<Value>, BedError> {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let found = self.api.read(|store| {
            store
                .resources()
                .find(|known| known.api_version() == api_version && known.kind == kind)
                .map(|k| (k.id(), k.namespaced))
        });
        let Some((resource, namespaced)) = found else { return Err(BedError::KindUnknown { api_version, kind }) };
        if namespaced && object.pointer("/metadata/namespace").is_none() {
            object["metadata"]["namespace"] = json!(NAMESPACE);
        }
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = Key::new(resource, text("/metadata/namespace"), text("/metadata/name"));
        Ok(self.api.write(|store| store.apply(&key, object, PEOPLE, true))?)
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// The API server says no.
    pub fn patch(&self, key: &Key, patch: &Value) -> Result<Arc<Value>, BedError> {
        Ok(self.api.write(|store| store.merge(key, patch, PEOPLE))?)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The API server says no.
    pub fn delete(&self, key: &Key) -> Result<(), BedError> {
        Ok(self.api.write(|store| store.delete(key, &DeleteOptions::default()).map(drop))?)
    }

    /// Adds a node, in the zone that its name says.
    ///
    /// # Errors
    /// It is there.
    pub fn add_node(&self, name: &str) -> Result<(), BedError> {
        Ok(self.api.write(|store| add_node(store, name))?)
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.api.read(|store| store.get(key).cloned())
    }

    /// Waits until the objects look as expected, looking again at each change.
    ///
    /// # Errors
    /// They don't within that time.
    pub async fn until<T>(&self, what: &str, within: Duration, look: impl Fn(&Store) -> Option<T>) -> Result<T, BedError> {
        let mut versions = self.api.versions();
        let wait = async {
            loop {
                versions.borrow_and_update();
                if let Some(found) = self.api.read(&look) {
                    return found;
                }
                // The sender lives as long as the API server that we hold.
                let _ = versions.changed().await;
            }
        };
        let seen = tokio::time::timeout(within, wait).await;
        seen.map_err(|_| BedError::NeverSeen { what: what.into(), within, state: self.state() })
    }

    /// What a pod in [`NAMESPACE`] is on this machine.
    pub fn running(&self, pod: &str) -> Option<Running> {
        self.running_at(&Key::new("pods", NAMESPACE, pod))
    }

    /// What a pod is on this machine.
    pub fn running_at(&self, pod: &Key) -> Option<Running> {
        self.kubelet.running(self.get(pod)?.pointer("/metadata/uid")?.as_str()?)
    }

    /// Sends a signal to the server of a pod in [`NAMESPACE`].
    ///
    /// # Errors
    /// None runs.
    pub fn signal(&self, pod: &str, signal: Signal) -> Result<(), BedError> {
        self.signal_at(&Key::new("pods", NAMESPACE, pod), signal)
    }

    /// Sends a signal to a pod's server.
    ///
    /// # Errors
    /// None runs.
    pub fn signal_at(&self, key: &Key, signal: Signal) -> Result<(), BedError> {
        let pod = &key.name;
        let process = self.running_at(key).and_then(|running| running.process).and_then(|id| i32::try_from(id).ok());
        let process = process.and_then(Pid::from_raw).ok_or_else(|| BedError::NotRunning(pod.clone()))?;
        rustix::process::kill_process(process, signal).map_err(|error| BedError::Machine(format!("{pod}: {error}")))
    }

    /// How things stand, for people.
    pub fn state(&self) -> String {
        let line = |key: &Key, object: &Value| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
            let conditions: Vec<String> = conditions
                .map(|condition| {
                    format!("{}={} {}", condition["type"], condition["status"], condition["message"]).replace('"', "")
                })
                .collect();
            let label = text("/metadata/labels/valkey.buf.red~1role");
            let (phase, ip, message) = (text("/status/phase"), text("/status/podIP"), text("/status/message"));
            format!("{} {} {phase} {ip} {label} {message} [{}]", key.resource, key.name, conditions.join("; "))
        };
        let shown = |key: &Key| ["pods", "valkeys.rds.valkey.buf.red"].contains(&key.resource.as_str());
        self.api
            .read(|store| store.all().filter(|(key, _)| shown(key)).map(|(key, o)| line(key, o)).collect::<Vec<_>>().join("\n"))
    }

    /// Drains all nodes for good: every server is told to stop and gets its pod's grace. Stop the operator before. Nothing of it
    /// is kept on disk, and no role is handed over.
    ///
    /// # Errors
    /// The API server says no, or a server didn't end within its grace.
    pub async fn drain(&self) -> Result<(), BedError> {
        self.api.keep_no_more();
        let pods = self.api.write(lasting::cordon)?;
        let grace = |pod: &Value| pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
        let longest = self.api.read(|store| store.list("pods", None).map(|(_, pod)| grace(pod)).max().unwrap_or(0));
        for pod in &pods {
            // One that a fault has stopped hears no SIGTERM; one that doesn't run needs nothing.
            let _ = self.signal_at(pod, Signal::CONT);
            self.delete(pod)?;
        }
        let on_nodes = |store: &Store| store.list("pods", None).any(|(_, pod)| pod.pointer("/spec/nodeName").is_some());
        let within = Duration::from_secs(longest) + AFTER_GRACE;
        self.until("no server runs", within, |store| (!on_nodes(store)).then_some(())).await
    }

    /// Ends all pods' processes, and returns when they have ended.
    pub async fn close(mut self) {
        self.task.abort();
        // An error is what an aborted task ends with.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.task.abort();
        self.kubelet.unmount_disks();
        if self.lasts {
            return;
        }
        if std::thread::panicking() {
            tracing::error!(folder = %self.folder.display(), "kept for a look");
        } else if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::debug!(%error, folder = %self.folder.display(), "a bed's folder stays");
        }
    }
}

/// Namespaces, nodes, definitions, where they aren't there yet.
fn furnish(store: &mut Store) -> Result<(), Refusal> {
    for namespace in [NAMESPACE, OPERATORS] {
        add(store, "namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))?;
    }
    for index in 0..ZONES.len() {
        add_node(store, &node(index))?;
    }
    for crd in vko_api::crd::crds() {
        let crd = serde_json::to_value(crd).map_err(|error| Refusal::internal(error.to_string()))?;
        add(store, Resource::definitions(), crd)?;
    }
    Ok(())
}

/// Name of the node in that zone.
pub fn node(zone: usize) -> String {
    format!("node{}", zone + 1)
}

fn add_node(store: &mut Store, name: &str) -> Result<(), Refusal> {
    let zone = (0..ZONES.len()).find(|zone| node(*zone) == name).map_or("", |zone| ZONES[zone]);
    let labels = json!({"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name});
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    add(store, "nodes", object)?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    store.merge(&Key::new("nodes", "", name), &ready, Manner::status_by("kubelet")).map(drop)
}

fn add(store: &mut Store, resource: &str, object: Value) -> Result<(), Refusal> {
    match store.create(resource, object, PEOPLE) {
        Err(refusal) if refusal.reason == "AlreadyExists" => Ok(()),
        created => created.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vko_core::object::Kind;

    #[test]
    fn every_kind_of_the_operator_is_served_where_it_asks_for_it() {
        let mut store = Store::default();
        furnish(&mut store).unwrap();
        for kind in Kind::ALL {
            let served =
                store.resources().find(|served| served.kind == kind.name() && served.api_version() == kind.api_version());
            let served = served.map(|served| (served.plural.as_str(), served.namespaced));
            assert_eq!(served, Some((kind.plural(), kind.namespaced())), "{kind:?}");
        }
    }
}
