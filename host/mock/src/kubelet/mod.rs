//! Makes processes of pods, as kubelets do; one for all nodes.
//!
//! # Guarantees
//! 1. A pod that is on a node has one life here; a successor of the same name has another, with another address.
//! 2. A pod's object is released only after its processes have ended.
//! 3. Of a node that is cut off or without power nothing is told, and nothing that was asked of it is done, until it is back.
//!
//! # Flow
//! At each new version: pods that have no life yet get one ([`life`]). A life ends by itself, with its pod's object.

mod command;
mod disks;
mod life;
mod probe;
mod status;
mod volumes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::task::JoinSet;
use vko_apiserver::{ApiServer, Key};

use self::disks::Disks;
use crate::images::Images;

/// Who writes pods' status.
const MANAGER: &str = "kubelet";

/// A text by pointer; empty when it isn't there.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list by pointer; empty when it isn't there.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What a running pod is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its node.
    pub node: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// Process id of its server; `None` while there is none.
    pub process: Option<u32>,
    /// Its folder: volumes and logs.
    pub folder: PathBuf,
}

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFault {
    /// It hears nothing of the API server and tells it nothing. What runs on it runs on.
    CutOff,
    /// It has no power: nothing runs on it.
    PowerLost,
}

/// What is wrong with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFault {
    /// There is none.
    Missing,
    /// What it runs ends at once.
    Crashing,
}

/// The kubelet.
#[derive(Debug)]
pub struct Kubelet {
    api: Arc<ApiServer>,
    images: Images,
    /// Folder of pods.
    root: PathBuf,
    disks: Disks,
    running: Mutex<BTreeMap<String, Running>>,
    nodes: Mutex<BTreeMap<String, NodeFault>>,
    /// Addresses that the next pods get.
    addresses: Mutex<VecDeque<Ipv4Addr>>,
    /// What is wrong with images, by reference.
    broken: Mutex<BTreeMap<String, ImageFault>>,
}

impl Kubelet {
    /// With its folders below `root`.
    pub fn new(api: Arc<ApiServer>, images: Images, root: PathBuf) -> Arc<Self> {
        let disks = Disks::new(root.join("claims"));
        let (running, nodes, addresses, broken) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { api, images, root, disks, running, nodes, addresses, broken })
    }

    /// Runs until it is dropped, and all pods' processes with it.
    pub async fn run(self: Arc<Self>) {
        let mut versions = self.api.versions();
        let mut lives = JoinSet::new();
        let mut known = BTreeSet::new();
        loop {
            versions.borrow_and_update();
            for (key, uid) in self.scheduled() {
                if known.insert(uid.clone()) {
                    lives.spawn(life::live(self.clone(), key, uid));
                }
            }
            tokio::select! {
                changed = versions.changed() => if changed.is_err() { return },
                Some(ended) = lives.join_next() => match ended {
                    Ok(uid) => drop(known.remove(&uid)),
                    Err(error) => tracing::error!(%error, "a pod's life ended by a fault of the mock host"),
                },
            }
        }
    }

    /// Sets what is wrong with a node, or that nothing is any more. Whoever asks for it also says it by the Node's object.
    pub fn strike(&self, node: &str, fault: Option<NodeFault>) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Some(fault) => drop(nodes.insert(node.into(), fault)),
            None => drop(nodes.remove(node)),
        }
    }

    /// What is wrong with a node.
    pub fn fault(&self, node: &str) -> Option<NodeFault> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    /// Sets what is wrong with an image, or that nothing is any more: for containers that start from now on.
    pub fn spoil(&self, image: &str, fault: Option<ImageFault>) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Some(fault) => drop(broken.insert(image.into(), fault)),
            None => drop(broken.remove(image)),
        }
    }

    /// All images are well.
    pub fn mend_images(&self) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is wrong with an image.
    fn broken(&self, image: &str) -> Option<ImageFault> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).get(image).copied()
    }

    /// The next pod gets that address, which another one had: networks give them out again.
    pub fn give_again(&self, address: Ipv4Addr) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).push_back(address);
    }

    /// The next claims have disks of their own, of so many MiB.
    pub fn size_disks(&self, mib: u64) {
        self.disks.size(mib);
    }

    /// Nothing more can be written to a pod's disk.
    ///
    /// # Errors
    /// It has none, or none of a size of its own.
    pub fn fill_disk(&self, pod: &Key) -> io::Result<()> {
        self.disks.fill(&self.claim(pod)?)
    }

    /// There is room on all disks again.
    pub fn clear_disks(&self) {
        self.disks.clear();
    }

    /// Disks of a size of their own are no more.
    pub(crate) fn unmount_disks(&self) {
        self.disks.unmount();
    }

    /// The disk of a pod.
    ///
    /// # Errors
    /// It has none.
    pub fn disk(&self, pod: &Key) -> io::Result<PathBuf> {
        self.disks.of(&self.claim(pod)?)
    }

    /// UID of the claim that a pod's data is on.
    fn claim(&self, pod: &Key) -> io::Result<String> {
        let uid = self.api.read(|store| {
            let volumes = list(store.get(pod)?, "/spec/volumes").iter();
            let claim = volumes.map(|volume| text(volume, "/persistentVolumeClaim/claimName")).find(|name| !name.is_empty())?;
            let claim = store.get(&Key::new("persistentvolumeclaims", &pod.namespace, claim))?;
            Some(text(claim, "/metadata/uid").to_owned())
        });
        uid.ok_or_else(|| io::Error::other(format!("{} has no disk: its data is on no claim", pod.name)))
    }

    fn next_address(&self) -> Ipv4Addr {
        let again = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        again.unwrap_or_else(crate::address::next)
    }

    /// What a pod is on this machine, by its UID.
    pub fn running(&self, uid: &str) -> Option<Running> {
        self.lock().get(uid).cloned()
    }

    /// What runs on a node, also if its pod is gone for the API server.
    pub fn running_on(&self, node: &str) -> Vec<Running> {
        self.lock().values().filter(|running| running.node == node).cloned().collect()
    }

    fn note(&self, uid: &str, change: impl FnOnce(&mut BTreeMap<String, Running>, &str)) {
        change(&mut self.lock(), uid);
    }

    fn scheduled(&self) -> Vec<(Key, String)> {
        self.api.read(|store| {
            let placed = |pod: &Value| {
                let node = text(pod, "/spec/nodeName");
                !node.is_empty() && self.fault(node).is_none() && !["Failed", "Succeeded"].contains(&text(pod, "/status/phase"))
            };
            let pods = store.list("pods", None).filter(|(_, pod)| placed(pod));
            pods.map(|(key, pod)| (key.clone(), text(pod, "/metadata/uid").to_owned())).collect()
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
