//! How a world stands: what `status` shows, and what progress is told from. It holds no password.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vko_api::names::{self, account, account_secret, component};
use vko_apiserver::{Key, Store};
use vko_mock::kubelet::Running;

use crate::delete::TOPOLOGIES;
use crate::manifest::title;
use crate::world::World;

/// Kinds of instances, as the API server calls them.
pub(crate) const VALKEYS: &str = "valkeys.rds.valkey.buf.red";
const SENTINELS: &str = "sentinels.valkey.buf.red";
pub(crate) const INSTANCES: [&str; 2] = [VALKEYS, SENTINELS];
/// Conditions that say that work is under way.
const AT_WORK: [&str; 2] = ["Progressing", "Reconciling"];

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    pub(crate) folder: PathBuf,
    pub(crate) instances: Vec<Instance>,
    /// Oldest first.
    pub(crate) events: Vec<Event>,
}

/// An instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Instance {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `replica`, `failover`, `cluster`; of a Sentinel `sentinel`.
    pub(crate) arch: String,
    /// For the newest spec.
    pub(crate) ready: bool,
    /// Ready, and nothing is under way: no member comes or goes.
    pub(crate) settled: bool,
    pub(crate) phase: String,
    pub(crate) message: String,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) pods: Vec<Pod>,
    /// Ways in.
    pub(crate) ways: Vec<Way>,
    /// Where the password of the account `default` is; `None` where it has none.
    pub(crate) password_file: Option<PathBuf>,
    /// The client of its line.
    pub(crate) client: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pod {
    pub(crate) name: String,
    /// `primary`, `replica`, `sentinel`; empty while it has none.
    pub(crate) role: String,
    /// Address and port; empty while it has none.
    pub(crate) address: String,
    /// Its server's process; `None` while none runs.
    pub(crate) process: Option<u32>,
    pub(crate) ready: bool,
    /// Starts after the first.
    pub(crate) restarts: u64,
    /// Where its log is.
    pub(crate) log: PathBuf,
}

/// An address for applications, which stays when roles move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) service: String,
    pub(crate) purpose: Purpose,
    pub(crate) ip: String,
    pub(crate) port: u16,
}

/// What a way is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Purpose {
    #[default]
    ReadWrite,
    ReadOnly,
    Cluster,
    Sentinel,
}

impl Purpose {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::ReadWrite => "read and write",
            Self::ReadOnly => "read only",
            Self::Cluster => "cluster clients",
            Self::Sentinel => "Sentinel clients",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Of what it is about.
    pub(crate) namespace: String,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) note: String,
    pub(crate) count: u64,
    /// Version of the object: their order.
    pub(crate) version: u64,
}

/// How it stands now.
pub(crate) fn of(world: &World) -> View {
    world.bed.api.read(|store| View {
        folder: world.folder.path().into(),
        instances: instances(world, store),
        events: events(store),
    })
}

impl View {
    /// Whether there is something, and all of it is settled.
    pub(crate) fn is_settled(&self) -> bool {
        !self.instances.is_empty() && self.instances.iter().all(|instance| instance.settled)
    }
}

impl Instance {
    /// `Valkey demo`.
    pub(crate) fn title(&self) -> String {
        title(&self.kind, &self.namespace, &self.name)
    }

    /// What is under way.
    pub(crate) fn work(&self) -> &str {
        self.conditions.iter().find(|condition| condition.is_work()).map_or("", |condition| &condition.message)
    }
}

fn instances(world: &World, store: &Store) -> Vec<Instance> {
    let written = |resource: &'static str| {
        let alone = |object: &Value| {
            object.pointer("/metadata/ownerReferences").is_none_or(|owners| owners.as_array().is_none_or(Vec::is_empty))
        };
        store.list(resource, None).filter(move |(_, object)| alone(object))
    };
    let written = written(VALKEYS).chain(written(SENTINELS)).map(|(key, object)| instance(world, store, key, object));
    written.chain(ending(world, store)).collect()
}

/// Valkeys that are gone while the operator still ends what was made of them.
fn ending<'a>(world: &'a World, store: &'a Store) -> impl Iterator<Item = Instance> + 'a {
    let topologies = TOPOLOGIES.into_iter().flat_map(|resource| store.list(resource, None));
    let left = topologies.filter(|(key, _)| store.get(&Key::new(VALKEYS, &*key.namespace, &*key.name)).is_none());
    left.map(|(key, object)| Instance {
        kind: "Valkey".into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        message: ENDING.into(),
        pods: pods(world, store, key, object),
        ..Instance::default()
    })
}

const ENDING: &str = "is being deleted";

fn instance(world: &World, store: &Store, key: &Key, object: &Value) -> Instance {
    let kind = text(object, "/kind");
    let arch = if kind == "Sentinel" { "sentinel" } else { text(object, "/spec/arch") };
    let conditions: Vec<Condition> = list(object, "/status/conditions").iter().map(condition).collect();
    let current = object.pointer("/status/observedGeneration") == object.pointer("/metadata/generation");
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    let is_ready = conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True");
    let ready = current && !deleting && is_ready;
    let secret = account_secret(owner(arch), &key.name, account::DEFAULT);
    let has_password = store.get(&Key::new("secrets", &*key.namespace, secret)).is_some();
    Instance {
        kind: kind.into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        arch: arch.into(),
        ready,
        settled: ready && !conditions.iter().any(Condition::is_work),
        phase: text(object, "/status/phase").into(),
        message: if deleting { ENDING } else { text(object, "/status/message") }.into(),
        conditions,
        pods: pods(world, store, key, object),
        ways: ways(world, store, key, arch),
        password_file: has_password.then(|| world.folder.password(&key.namespace, &key.name)),
        client: world.client(text(object, "/spec/version")),
    }
}

/// By what the names of an architecture's Secrets begin.
pub(crate) fn owner(arch: &str) -> &'static str {
    if arch == "cluster" { component::CLUSTER } else { component::FAILOVER }
}

fn condition(condition: &Value) -> Condition {
    let text = |pointer: &str| text(condition, pointer).to_owned();
    Condition { kind: text("/type"), status: text("/status"), reason: text("/reason"), message: text("/message") }
}

fn pods(world: &World, store: &Store, key: &Key, object: &Value) -> Vec<Pod> {
    let ours = |pod: &Value| pod["metadata"]["labels"][names::INSTANCE] == key.name.as_str();
    let pods = store.list("pods", Some(&key.namespace)).filter(|(_, pod)| ours(pod));
    pods.map(|(_, pod)| self::pod(pod, world.bed.kubelet.running(text(pod, "/metadata/uid")), object)).collect()
}

fn pod(pod: &Value, running: Option<Running>, object: &Value) -> Pod {
    let name = text(pod, "/metadata/name");
    let label = pod["metadata"]["labels"][names::ROLE].as_str().unwrap_or_default();
    let node = list(object, "/status/nodes").iter().find(|node| node["podName"] == name);
    let said = node.map(|node| text(node, "/role")).unwrap_or_default();
    let container = list(pod, "/status/containerStatuses").first();
    let sentinel = name.starts_with("rfs-");
    let role = match (sentinel, label, said) {
        (true, ..) => "sentinel",
        (_, names::ROLE_PRIMARY, _) | (_, "", names::ROLE_PRIMARY) => "primary",
        (_, names::ROLE_REPLICA, _) | (_, "", names::ROLE_REPLICA) => "replica",
        _ => "",
    };
    let port = if sentinel { names::SENTINEL_PORT } else { names::PORT };
    let container_name = if sentinel { names::SENTINEL_CONTAINER } else { names::CONTAINER };
    Pod {
        name: name.into(),
        role: role.into(),
        address: running.as_ref().map(|running| format!("{}:{port}", running.ip)).unwrap_or_default(),
        process: running.as_ref().and_then(|running| running.process),
        ready: container.is_some_and(|container| container["ready"] == true),
        restarts: container.and_then(|container| container["restartCount"].as_u64()).unwrap_or(0),
        log: running.map(|running| running.folder.join(format!("{container_name}.log"))).unwrap_or_default(),
    }
}

fn ways(world: &World, store: &Store, key: &Key, arch: &str) -> Vec<Way> {
    let name = &key.name;
    let wanted: Vec<(String, Purpose)> = match arch {
        "cluster" => vec![(names::instance_service(name), Purpose::Cluster)],
        "sentinel" => Vec::new(),
        _ => vec![(names::writer_service(name), Purpose::ReadWrite), (names::reader_service(name), Purpose::ReadOnly)],
    };
    let way = |(service, purpose): (String, Purpose)| {
        let ip = world.services.address(&Key::new("services", &*key.namespace, &*service))?;
        Some(Way { service, purpose, ip: ip.to_string(), port: names::PORT })
    };
    let mut ways: Vec<Way> = wanted.into_iter().filter_map(way).collect();
    // Their governing Service is headless: it stands for each of them.
    let sentinels = store.list("pods", Some(&key.namespace)).filter(|(pod, object)| {
        pod.name.starts_with(&format!("{}-", names::sentinel_workload(name)))
            && object["metadata"]["labels"][names::INSTANCE] == name.as_str()
    });
    let port = names::SENTINEL_PORT;
    let sentinel = |ip: &str| Way { service: names::sentinel_workload(name), purpose: Purpose::Sentinel, ip: ip.into(), port };
    ways.extend(sentinels.map(|(_, pod)| text(pod, "/status/podIP")).filter(|ip| !ip.is_empty()).map(sentinel));
    ways
}

fn events(store: &Store) -> Vec<Event> {
    let event = |(key, event): (&Key, &std::sync::Arc<Value>)| Event {
        name: key.name.clone(),
        about: title(text(event, "/regarding/kind"), text(event, "/regarding/namespace"), text(event, "/regarding/name")),
        namespace: text(event, "/regarding/namespace").into(),
        warning: text(event, "/type") == "Warning",
        reason: text(event, "/reason").into(),
        note: text(event, "/note").into(),
        count: event.pointer("/series/count").and_then(Value::as_u64).unwrap_or(1),
        version: text(event, "/metadata/resourceVersion").parse().unwrap_or(0),
    };
    let mut events: Vec<Event> = store.list("events.events.k8s.io", None).map(event).collect();
    events.sort_by_key(|event| event.version);
    events
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// For people.
pub(crate) fn written(view: &View) -> String {
    let mut lines = Vec::new();
    for instance in &view.instances {
        let state = match (instance.settled, instance.ready) {
            (true, _) => "ready",
            (false, true) => "ready, at work",
            (false, false) => "not ready",
        };
        let arch = if instance.arch.is_empty() { String::new() } else { format!(" ({})", instance.arch) };
        lines.push(format!("{}{arch}: {state}. {}", instance.title(), instance.message));
        let said = instance.conditions.iter().filter(|condition| !condition.is_good());
        lines.extend(said.map(|condition| format!("  {} is {}: {}", condition.kind, condition.status, condition.message)));
        for pod in &instance.pods {
            let process = pod.process.map_or("no process".to_owned(), |process| format!("process {process}"));
            let ready = if pod.ready { "ready" } else { "not ready" };
            let role = if pod.role.is_empty() { "-" } else { &pod.role };
            lines.push(format!(
                "  {:<16} {role:<9} {:<22} {process:<14} {ready}, {} restarts",
                pod.name, pod.address, pod.restarts
            ));
        }
        lines.extend(crate::connect::lines(instance));
    }
    if view.instances.is_empty() {
        lines.push("no instance".to_owned());
    }
    let events = view.events.iter().rev().take(EVENTS).rev();
    lines.extend(events.map(|event| format!("event {}: {}: {}", event.about, event.reason, event.note)));
    lines.join("\n")
}

/// Newest events that are shown to people.
const EVENTS: usize = 10;

impl Condition {
    /// Whether it says that work is under way.
    fn is_work(&self) -> bool {
        AT_WORK.contains(&&*self.kind) && self.status == "True"
    }

    /// Whether there is nothing to say about it: most are good when True.
    fn is_good(&self) -> bool {
        let bad = ["Progressing", "Degraded", "Stalled", "Reconciling"].contains(&&*self.kind);
        self.status == if bad { "False" } else { "True" }
    }
}
