//! What a look starts from: cached objects, targets of probes, how fresh the caches are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use vko_api::names;
use vko_model::accounts::ServerRole;
use vko_model::config::ServerConf;
use vko_model::version::Line;
use vko_wit::common::Pair;

use super::Instance;
use super::topology::Named;
use crate::object::{Kind, Object};
use crate::render::{Topology, TopologyKind};
use crate::world::{Credential, Target, World};

/// A view older than this is too old to do anything dangerous on: a dead watch is found and replaced sooner.
const FRESH_MAX: Duration = Duration::from_secs(90);
/// Kinds whose absence is evidence, beside the topology object's own.
const EVIDENCE: [Kind; 4] = [Kind::Pod, Kind::Node, Kind::PersistentVolumeClaim, Kind::StatefulSet];
/// Kinds that an observation lists.
const LISTED: [Kind; 5] = [Kind::StatefulSet, Kind::Service, Kind::ConfigMap, Kind::PodDisruptionBudget, Kind::Secret];

impl<W: World> Instance<W> {
    pub(super) fn is_fresh(&self, topology: Kind) -> bool {
        let fresh = |kind| self.shared.world.cache_age(kind).is_some_and(|age| age <= FRESH_MAX);
        EVIDENCE.into_iter().chain([topology]).all(fresh)
    }

    pub(super) fn objects(&self) -> Vec<(Kind, Object)> {
        let of = |kind: Kind| {
            self.shared.world.cached_of(kind, &self.key.namespace, &self.key.name).into_iter().map(move |o| (kind, o))
        };
        LISTED.into_iter().flat_map(of).collect()
    }

    pub(super) fn render_topology(&self, Named { id, object: topology }: &Named) -> Topology {
        Topology {
            kind: TopologyKind::of(id.kind),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            uid: topology.uid().into(),
            // Sentinels that stand alone are nobody's but their own.
            valkey_uid: if id.kind == Kind::Sentinel { topology.uid() } else { topology.label(names::VALKEY_UID) }.into(),
            spec: topology.0.get("spec").cloned().unwrap_or(Value::Null),
        }
    }
}

/// Servers to talk to, by pod UID: pod's name and target. A pod that runs and has an address.
pub(super) fn targets<'a>(
    pods: impl Iterator<Item = &'a Object>,
    port: u16,
    credential: &Credential,
) -> BTreeMap<String, (String, Target)> {
    let target = |pod: &Object| {
        let ip: IpAddr = pod.text("/status/podIP").parse().ok()?;
        let over = matches!(pod.text("/status/phase"), "Failed" | "Succeeded");
        let target = Target { pod: pod.uid().into(), ip, port, credential: credential.clone() };
        (!over).then(|| (pod.uid().to_owned(), (pod.name().to_owned(), target)))
    };
    pods.filter_map(target).collect()
}

/// The servers' configuration without secrets.
///
/// # Errors
/// Names the setting or field that can't be used.
pub(super) fn server_conf(topology: &Topology, settings: &[Pair]) -> Result<String, String> {
    let limit = topology
        .spec
        .pointer("/resources/limits/memory")
        .map(|limit| limit.as_str().map_or_else(|| limit.to_string(), str::to_owned));
    let settings = settings.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect();
    let conf = ServerConf {
        role: ServerRole::Replica,
        line: line(topology)?,
        on_claim: topology.spec.get("storage").is_some_and(Value::is_object),
        memory_limit: limit.as_deref().and_then(crate::diff::quantity::units),
        settings: &settings,
    };
    vko_model::config::server_conf(&conf).map_err(|error| error.to_string())
}

/// The server line that the topology object names.
pub(super) fn line(topology: &Topology) -> Result<Line, String> {
    let text = topology.spec.get("version").and_then(Value::as_str).unwrap_or_default();
    text.parse::<Line>().map_err(|error| error.to_string())
}
