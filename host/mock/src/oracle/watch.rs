//! Records what happens to objects, what the operators ask for, and what servers say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;
use vko_api::names;
use vko_apiserver::requests::Request;
use vko_apiserver::store::{Change, Event};
use vko_apiserver::{ApiServer, Store};
use vko_script::outcome;
use vko_script::target::Pod;
use vko_script::wait;

use super::disruption::{self, Happening};
use super::keeping::{Deletion, is_deleting};
use super::writers::Sample;
use super::{quiet, sample};
use crate::bed::{Bed, NAMESPACE};
use crate::scenario::view::Here;

/// How operators' names begin.
pub const OPERATORS: &str = "operator-";

/// What has been recorded.
#[derive(Debug, Default)]
pub struct Recorded {
    /// What servers said to writes of nothing.
    pub samples: Vec<Sample>,
    /// Objects that were deleted.
    pub deletions: Vec<Deletion>,
    /// What happened to pods.
    pub pods: Vec<disruption::Event>,
    /// Events for people.
    pub events: Vec<outcome::Event>,
    /// What operators asked to change.
    pub requests: Vec<quiet::Seen>,
    /// Members that workloads want.
    wanted: BTreeMap<String, u64>,
    ready: BTreeSet<String>,
}

/// Records until it is dropped.
#[derive(Debug)]
pub struct Recording {
    /// What there is.
    pub recorder: Arc<Recorder>,
    tasks: [JoinHandle<()>; 2],
}

/// Takes in what is seen.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    recorded: Mutex<Recorded>,
}

impl Recording {
    /// Begins in a world.
    pub fn begin(bed: &Bed) -> Self {
        let recorder = Arc::new(Recorder { began: Instant::now(), recorded: Mutex::default() });
        let objects = tokio::spawn(follow(bed.api.clone(), recorder.clone()));
        let servers = tokio::spawn(sample::run(bed.api.clone(), bed.kubelet.clone(), recorder.clone()));
        Self { recorder, tasks: [objects, servers] }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Recorder {
    /// What there is so far.
    pub fn read<T>(&self, look: impl FnOnce(&Recorded) -> T) -> T {
        look(&self.lock())
    }

    /// Since it began.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn samples(&self, samples: impl Iterator<Item = Sample>) {
        self.lock().samples.extend(samples);
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(api: Arc<ApiServer>, recorder: Arc<Recorder>) {
    let mut versions = api.versions();
    let mut position = api.read(Store::version);
    loop {
        versions.borrow_and_update();
        let requests = api.requests.take();
        api.read(|store| {
            let mut recorded = recorder.lock();
            recorded.take_requests(recorder.now(), requests);
            // What was compacted away isn't known: scripts that ask for it lose what happened just before.
            let events = store.events_after(position).map(|events| events.cloned().collect::<Vec<_>>()).unwrap_or_default();
            events.iter().for_each(|event| recorded.take(store, event));
            position = store.version();
        });
        if versions.changed().await.is_err() {
            return;
        }
    }
}

impl Recorded {
    fn take_requests(&mut self, at: Duration, requests: Vec<Request>) {
        for request in requests.into_iter().filter(|request| request.client.starts_with(OPERATORS)) {
            let ends = request.key.resource == "pods" && ["delete", "evict"].contains(&request.verb) && request.code < 300;
            if ends {
                self.happened(&request.key.name, Happening::Ended);
            }
            self.requests.push((at, request));
        }
    }

    fn take(&mut self, store: &Store, event: &Event) {
        let key = &event.key;
        if key.namespace != NAMESPACE {
            return;
        }
        let text = |pointer: &str| event.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let deleted_now = (event.change == Change::Deleted || is_deleting(&event.object))
            && event.before.as_ref().is_none_or(|before| !is_deleting(before));
        match key.resource.as_str() {
            "persistentvolumeclaims" | "secrets" if deleted_now => {
                let instance = event.object["metadata"]["labels"]
                    .get(names::INSTANCE)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                let view = Here(store);
                let holder = wait::instance(&view, &instance);
                self.deletions.push(Deletion::of(format!("{}/{}", key.resource, key.name), instance, holder));
            }
            "pods" => {
                let pod = Pod::of(&event.object);
                let ready = pod.ready && event.change != Change::Deleted;
                let was = if ready { !self.ready.insert(pod.name.clone()) } else { self.ready.remove(&pod.name) };
                if ready != was || event.change == Change::Added {
                    self.happened(&pod.name, if ready { Happening::Ready } else { Happening::Unready });
                }
            }
            "statefulsets.apps" => {
                let wanted = event.object.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(0);
                let before = self.wanted.insert(key.name.clone(), wanted).unwrap_or(0);
                (wanted..before).for_each(|ordinal| self.push(&key.name, ordinal, Happening::Unwanted));
            }
            "events.events.k8s.io" => self.events.push((text("/reason"), text("/note"))),
            _ => {}
        }
    }

    fn happened(&mut self, pod: &str, what: Happening) {
        let Some((workload, ordinal)) = pod.rsplit_once('-') else { return };
        let Ok(ordinal) = ordinal.parse::<u64>() else { return };
        if self.wanted.get(workload).is_none_or(|wanted| ordinal < *wanted) {
            self.push(workload, ordinal, what);
        }
    }

    fn push(&mut self, workload: &str, ordinal: u64, what: Happening) {
        self.pods.push(disruption::Event { workload: workload.into(), pod: format!("{workload}-{ordinal}"), what });
    }
}
