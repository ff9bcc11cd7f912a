//! OBSERVE: one immutable observation out of the topology object, the watch caches, the servers' own words and the ledger.
//!
//! # Guarantees
//! 1. Facts are three-valued and carry their age; "no answer" is never "empty".
//! 2. Identity is the pod's UID. Addresses are resolved to pods of this instance, or named as foreign.
//! 3. Equal facts give equal values: lists are sorted by name or ordinal. Nothing secret is in it.
//!
//! # Flow
//! 1. [`Inputs`] are collected by the instance's loop.
//! 2. [`observe`] is pure.
//! 3. The result goes to the policy, the guard and the journal alike.

mod cluster;
mod cut_off;
mod pods;
mod sentinels;
mod servers;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vko_api::names;
use vko_model::address::Address;
use vko_wit::common::{Architecture, Pair};
use vko_wit::facts;
use vko_wit::observation::{Claim, Environment, Instance, IpFamily, Job, Object as ObservedObject, Observed, Outcome};

pub use self::cut_off::{CutOff, cut_off};
pub use self::pods::place_of_claim;
pub(crate) use self::sentinels::{monitor_name, referenced};

use crate::ledger::Ledger;
use crate::memory::ServerMemory;
use crate::object::{Kind, Object};
use crate::world::UnixMs;

/// Operations that this host carries out, by the name of the case, and facts beyond the base, for `environment.capabilities`.
pub const CAPABILITIES: &[&str] = &[
    "evict",
    "force-delete",
    "delete-claim",
    "follow",
    "detach",
    "promote",
    "hand-over",
    "fence",
    "drop-clients",
    "save",
    "meet",
    "forget",
    "replicate",
    "own-slots",
    "take-over",
    "bump-epoch",
    "settle-slots",
    "reset-empty",
    "monitor",
    "unmonitor",
    "set-monitor",
    "sentinel-failover",
    "reset-monitor",
    "cluster",
    "sentinels",
];

/// What of a plan's details is shown in a topology object's status: servers; a cluster's shards, and whether it serves all slots;
/// who decides about the primary.
pub(crate) const DETAILS: [&str; 4] = ["nodes", "shards", "clusterStatus", "monitor"];

/// How long after a patch of the pod the kubelet surely has refreshed its mounts: it does so at its next sync of the pod, which
/// the patch itself causes; the rest is margin for a busy node.
pub(crate) const MOUNT_SETTLES: Duration = Duration::from_secs(5);

/// Everything that an observation is made of.
pub struct Inputs<'a> {
    /// The topology object.
    pub topology: &'a Object,
    /// Its kind.
    pub kind: Kind,
    /// What a person wrote, if it is there: the Valkey, or the topology object itself where Sentinels stand alone.
    pub valkey: Option<&'a Object>,
    /// StatefulSets, Services, ConfigMaps, budgets and Secrets of the instance.
    pub objects: &'a [(Kind, Object)],
    /// Its pods.
    pub pods: &'a [Object],
    /// Its claims.
    pub claims: &'a [Object],
    /// All nodes.
    pub nodes: &'a [Object],
    /// Volumes that are known to be disks of nodes, by the UID of their claim: host names of the nodes.
    pub disks: &'a BTreeMap<String, Vec<String>>,
    /// Whether the caches of pods and nodes are fresh enough to tell "gone" from "not seen".
    pub fresh: bool,
    /// What the servers said.
    pub servers: &'a BTreeMap<String, ServerMemory>,
    /// Where a cluster's nodes were last seen, by id.
    pub places: &'a BTreeMap<String, Address>,
    /// The ledger.
    pub ledger: &'a Ledger,
    /// Recent outcomes of steps, newest first.
    pub recent: Vec<Outcome>,
    /// Long jobs.
    pub jobs: Vec<Job>,
    /// Wall clock.
    pub now: UnixMs,
    /// Monotonic clock.
    pub monotonic: Duration,
    /// Since when this process looks at this instance.
    pub looking_for: Duration,
    /// Operator's version.
    pub operator_version: &'a str,
    /// DNS domain of the Kubernetes cluster.
    pub cluster_domain: &'a str,
    /// Spec hash and software of the pod template that is in force, by workload.
    pub template: &'a dyn Fn(&Object) -> vko_wit::observation::TemplateState,
    /// Whether the live template of a StatefulSet is made of the newest spec, by its name.
    pub templates_of_spec: &'a BTreeMap<String, bool>,
}

impl<'a> Inputs<'a> {
    /// For tests and examples, which add what they are about: an object and a ledger on caches that are fresh, nobody else, all
    /// clocks at a fixed time.
    pub fn bare(topology: &'a Object, kind: Kind, ledger: &'a Ledger) -> Self {
        static DISKS: BTreeMap<String, Vec<String>> = BTreeMap::new();
        static SERVERS: BTreeMap<String, ServerMemory> = BTreeMap::new();
        static PLACES: BTreeMap<String, Address> = BTreeMap::new();
        static TEMPLATES: BTreeMap<String, bool> = BTreeMap::new();
        let (monotonic, now) = (Duration::from_secs(100), 1_800_000_000_000);
        Self {
            topology,
            kind,
            valkey: None,
            objects: &[],
            pods: &[],
            claims: &[],
            nodes: &[],
            disks: &DISKS,
            fresh: true,
            servers: &SERVERS,
            places: &PLACES,
            ledger,
            recent: Vec::new(),
            jobs: Vec::new(),
            now,
            monotonic,
            looking_for: monotonic,
            operator_version: "0.1.0",
            cluster_domain: "cluster.local",
            template: &|_| vko_wit::observation::TemplateState::Current,
            templates_of_spec: &TEMPLATES,
        }
    }
}

/// The observation.
pub fn observe(inputs: &Inputs<'_>) -> Observed {
    let pods = pods::pods(inputs);
    let agreement = cluster::Agreement::new(inputs);
    let servers = servers::servers(inputs, &pods, &agreement);
    Observed {
        now: inputs.now,
        instance: instance(inputs),
        environment: environment(inputs),
        ledger: inputs.ledger.observed(),
        objects: inputs.objects.iter().map(|(kind, object)| observed_object(*kind, object, inputs.now)).collect(),
        claims: inputs.claims.iter().filter_map(|claim| observed_claim(inputs, claim)).collect(),
        extensions: extensions(inputs),
        servers,
        agreed_view: agreement.peers(inputs, &pods),
        sentinels: sentinels::sentinels(inputs, &pods),
        users: Vec::new(),
        recent: inputs.recent.clone(),
        jobs: inputs.jobs.clone(),
        pods,
    }
}

/// Facts that have no field of their own yet.
fn extensions(inputs: &Inputs<'_>) -> Vec<Pair> {
    let of_ledger =
        facts::mk_held(inputs.ledger.held).into_iter().chain(facts::mk_tried_line(inputs.ledger.tried_line.as_deref()));
    let templates = inputs.templates_of_spec.iter().map(|(name, is_so)| facts::mk_template_of_spec(name, *is_so));
    of_ledger.chain(templates).collect()
}

/// The architecture of an instance, by its topology object.
pub(crate) fn architecture(kind: Kind, spec: &Value) -> Architecture {
    match kind {
        Kind::Cluster => Architecture::Cluster,
        Kind::Failover if spec.get("sentinel").is_none_or(Value::is_null) => Architecture::Replica,
        _ => Architecture::Failover,
    }
}

fn instance(inputs: &Inputs<'_>) -> Instance {
    let topology = inputs.topology;
    let person = inputs.valkey.unwrap_or(topology);
    Instance {
        namespace: topology.namespace().into(),
        name: topology.name().into(),
        uid: topology.uid().into(),
        generation: topology.generation(),
        architecture: architecture(inputs.kind, topology.0.get("spec").unwrap_or(&Value::Null)),
        kind: inputs.kind.name().into(),
        spec: topology.0.get("spec").unwrap_or(&Value::Null).to_string(),
        annotations: annotations(person),
        status: details(topology.0.get("status").unwrap_or(&Value::Null)).to_string(),
        deleting: topology.deleting(),
        paused: false,
        consents: consents(person, inputs.ledger),
    }
}

/// The part of a topology object's status that policies write; `null` if there is nothing of it.
pub(crate) fn details(status: &Value) -> Value {
    let kept: serde_json::Map<String, Value> =
        DETAILS.iter().filter_map(|key| Some(((*key).to_owned(), status.get(*key)?.clone()))).collect();
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

/// Annotations under `buf.red`: a person's word to the policy.
fn annotations(person: &Object) -> Vec<Pair> {
    let all = person.0.pointer("/metadata/annotations").and_then(Value::as_object);
    all.into_iter()
        .flatten()
        .filter(|(key, _)| key.split('/').next().is_some_and(|domain| domain == "buf.red" || domain.ends_with(".buf.red")))
        .map(|(key, value)| Pair { key: key.clone(), value: value.as_str().unwrap_or_default().into() })
        .collect()
}

/// Consents that a person gave and that are not used up.
fn consents(person: &Object, ledger: &Ledger) -> Vec<String> {
    person
        .annotation(names::CONSENT)
        .split(',')
        .map(str::trim)
        .filter(|token| !token.is_empty() && !ledger.consents_used.iter().any(|used| used == token))
        .map(str::to_owned)
        .collect()
}

fn environment(inputs: &Inputs<'_>) -> Environment {
    let mut zones: Vec<String> =
        inputs.nodes.iter().map(pods::zone_of).filter(|zone| !zone.is_empty()).map(str::to_owned).collect();
    zones.sort();
    zones.dedup();
    Environment {
        operator_version: inputs.operator_version.into(),
        looking_for: millis(inputs.looking_for),
        ip_family: if inputs.topology.text("/spec/access/ipFamilyPrefer") == "IPv6" { IpFamily::Ipv6 } else { IpFamily::Ipv4 },
        cluster_domain: inputs.cluster_domain.into(),
        zones,
        capabilities: CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
        fence_max_lag: vko_model::config::FENCE_MAX_LAG_MS,
    }
}

fn observed_object(kind: Kind, object: &Object, now: UnixMs) -> ObservedObject {
    ObservedObject {
        api_version: kind.api_version().into(),
        kind: kind.name().into(),
        name: object.name().into(),
        uid: object.uid().into(),
        age: age(object, now),
        deleting: object.deleting(),
        members: (kind == Kind::StatefulSet).then(|| object.number("/spec/replicas")?.try_into().ok()).flatten(),
        // A Secret has no status, so this shows none of it.
        status: object.0.get("status").unwrap_or(&Value::Null).to_string(),
    }
}

fn observed_claim(inputs: &Inputs<'_>, claim: &Object) -> Option<Claim> {
    let (workload, ordinal) = place_of_claim(claim.name())?;
    let node = claim.annotation(names::SELECTED_NODE).to_owned();
    Some(Claim {
        name: claim.name().into(),
        uid: claim.uid().into(),
        workload: workload.into(),
        ordinal,
        phase: claim.text("/status/phase").into(),
        capacity: crate::diff::quantity::units(claim.text("/status/capacity/storage")).unwrap_or(0),
        resizing: false,
        node_exists: if node.is_empty() { Some(true) } else { reachable(inputs, claim, &node) },
        node,
        before_instance: before_instance(inputs, claim),
    })
}

/// Whether a claim was there before the instance, and may hold data of an earlier one.
fn before_instance(inputs: &Inputs<'_>, claim: &Object) -> bool {
    let created = |object: &Object| timestamp(object.text("/metadata/creationTimestamp"));
    let began = created(inputs.valkey.unwrap_or(inputs.topology));
    began.zip(created(claim)).is_some_and(|(began, at)| at < began)
}

/// Whether a claim's data can still be reached. Its annotation says for which node the volume was made, not that it is bound
/// there: a network volume outlives its node. So once that node is gone only the volume itself can tell.
fn reachable(inputs: &Inputs<'_>, claim: &Object, node: &str) -> Option<bool> {
    if pods::node_exists(inputs, node)? {
        return Some(true);
    }
    let hosts = inputs.disks.get(claim.uid())?;
    Some(inputs.nodes.iter().any(|node| hosts.iter().any(|host| host == node.label(names::HOSTNAME))))
}

/// Age by the creation timestamp.
fn age(object: &Object, now: UnixMs) -> u64 {
    timestamp(object.text("/metadata/creationTimestamp")).map_or(0, |at| now.saturating_sub(at))
}

/// RFC 3339 as Unix milliseconds.
pub(crate) fn timestamp(text: &str) -> Option<UnixMs> {
    text.parse::<jiff::Timestamp>().ok().and_then(|t| u64::try_from(t.as_millisecond()).ok())
}

/// A text, empty where it isn't known.
fn text_of(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
