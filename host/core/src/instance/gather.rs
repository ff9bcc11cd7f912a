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
use crate::accounts::Accounts;
use crate::object::{Kind, Object};
use crate::render::{Texts, Topology, TopologyKind};
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

/// What pods of servers of one role mount.
#[derive(Default)]
pub(super) struct Mounted {
    conf: String,
    users_acl: String,
}

impl Mounted {
    /// As rendering takes it.
    pub(super) fn texts(&self) -> Texts<'_> {
        Texts { conf: &self.conf, users_acl: &self.users_acl }
    }
}

/// Renders the configuration and the `user` lines; `settings` are what the policy says beyond the host's.
///
/// # Errors
/// Reason and message for the condition.
pub(super) fn mounted(
    topology: &Topology,
    role: ServerRole,
    settings: &[Pair],
    accounts: &Accounts,
) -> Result<Mounted, (String, String)> {
    let conf = conf(topology, role, settings).map_err(|error| ("ConfigNotRendered".to_owned(), error))?;
    let line = line(topology).map_err(|error| ("VersionUnknown".to_owned(), error))?;
    let users_acl = accounts.users_acl(role, line).map_err(|error| (error.reason().to_owned(), error.to_string()))?;
    Ok(Mounted { conf, users_acl })
}

/// The servers' configuration without secrets.
///
/// # Errors
/// Names the setting or field that can't be used.
fn conf(topology: &Topology, role: ServerRole, settings: &[Pair]) -> Result<String, String> {
    let settings = settings.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect();
    if role == ServerRole::Sentinel {
        return vko_model::config::sentinel_conf(&settings).map_err(|error| error.to_string());
    }
    let limit = topology
        .spec
        .pointer("/resources/limits/memory")
        .map(|limit| limit.as_str().map_or_else(|| limit.to_string(), str::to_owned));
    let conf = ServerConf {
        role,
        line: line(topology)?,
        on_claim: topology.spec.get("storage").is_some_and(Value::is_object),
        memory_limit: limit.as_deref().and_then(crate::diff::quantity::units),
        settings: &settings,
    };
    vko_model::config::server_conf(&conf).map_err(|error| error.to_string())
}

/// The server line that the topology object names.
fn line(topology: &Topology) -> Result<Line, String> {
    let text = topology.spec.get("version").and_then(Value::as_str).unwrap_or_default();
    text.parse::<Line>().map_err(|error| error.to_string())
}
