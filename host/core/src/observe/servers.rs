//! What the servers themselves say.

use std::collections::BTreeMap;
use std::net::IpAddr;

use vko_model::address::Address as ServerAddress;
use vko_model::info::{Info, ReplicaState, Role as InfoRole};
use vko_model::replication::is_nobody;
use vko_wit::common::{Address, Version};
use vko_wit::observation::{
    AttachedReplica, DataOrigin, DiskFile, Failure, Fence, Pod, Reach, ReplicaLink, Role, Server, ServerFacts, Tls, Upstream,
};

use vko_wit::planning::Purpose;

use super::cluster::Agreement;
use super::{Inputs, millis};
use crate::memory::ServerMemory;
use crate::workloads::purpose;
use crate::world::ServerError;

pub(super) fn servers(inputs: &Inputs<'_>, pods: &[Pod], agreement: &Agreement<'_>) -> Vec<Server> {
    let (places, unheard) = (Places::new(pods.iter()), ServerMemory::default());
    pods.iter()
        .filter(|pod| purpose(inputs.kind, inputs.topology.name(), &pod.workload) == Some(Purpose::Data))
        .filter(|pod| !pod.addresses.is_empty())
        .map(|pod| {
            let memory = inputs.servers.get(&pod.uid).unwrap_or(&unheard);
            Server {
                pod: pod.uid.clone(),
                reach: reach(memory, inputs),
                age: age_of(memory, inputs),
                facts: memory.info.as_ref().and_then(|info| {
                    let cluster = memory.cluster.as_ref().and_then(|cluster| agreement.facts(cluster));
                    Some(ServerFacts { cluster: cluster.into_iter().collect(), ..facts(inputs, &places, pod, memory, info)? })
                }),
            }
        })
        .collect()
}

/// How old the last answer is; the largest number if there never was one.
pub(super) fn age_of(memory: &ServerMemory, inputs: &Inputs<'_>) -> u64 {
    memory.answered_at.map_or(u64::MAX, |at| millis(inputs.monotonic.saturating_sub(at)))
}

/// What the newest attempt brought.
pub(super) fn reach(memory: &ServerMemory, inputs: &Inputs<'_>) -> Reach {
    let Some(since) = memory.failing_since else {
        return match &memory.info {
            Some(info) if info.loading == Some(true) => Reach::Loading(info.loading_percent),
            _ if memory.answered_at.is_some() => Reach::Answered,
            // Not asked yet. Silent for no time at all is the honest form of it.
            _ => Reach::Silent(0),
        };
    };
    let lasting = millis(inputs.monotonic.saturating_sub(since));
    match &memory.error {
        Some(ServerError::Loading) => Reach::Loading(None),
        Some(ServerError::Silent(_) | ServerError::Lost(_)) | None => Reach::Silent(lasting),
        Some(error) => Reach::Refused(Failure { lasting, reason: error.to_string() }),
    }
}

fn facts(inputs: &Inputs<'_>, places: &Places<'_>, pod: &Pod, memory: &ServerMemory, info: &Info) -> Option<ServerFacts> {
    let role = info.role?;
    Some(ServerFacts {
        run_id: info.run_id.clone()?,
        version: info.version.map(|v| Version { major: v.major, minor: v.minor, patch: v.patch })?,
        uptime: info.uptime_seconds.unwrap_or(0) * 1000,
        role: match role {
            InfoRole::Primary => Role::Primary,
            InfoRole::Replica => Role::Replica(link(places, info)),
        },
        replid: info.replid.clone().unwrap_or_default(),
        offset: match role {
            InfoRole::Primary => info.primary_offset,
            InfoRole::Replica => info.replica_offset,
        }
        .unwrap_or(0),
        second_replid: info.second_replid.clone().unwrap_or_default(),
        second_offset: info.second_offset.unwrap_or(0),
        failover_state: info.failover_state.clone().unwrap_or_default(),
        keys: info.keys?,
        used_memory: info.used_memory.unwrap_or(0),
        max_memory: info.max_memory.unwrap_or(0),
        max_memory_policy: info.max_memory_policy.clone().unwrap_or_default(),
        replicas: info.replicas.iter().map(|replica| attached(places, replica)).collect(),
        origin: origin(memory, info),
        saving: info.saving.unwrap_or(false),
        last_save: info.last_save_seconds.unwrap_or(0) * 1000,
        last_save_ok: info.last_save_ok.unwrap_or(false),
        writes_paused: info.writes_paused,
        fence: fence(inputs, &pod.uid, info),
        config_drift: Vec::new(),
        user_drift: Vec::new(),
        tls: Tls::Off,
        cluster: Vec::new(),
        cannot_write: info.cannot_write().map(disk_file),
        extensions: vko_wit::facts::mk_appends(info.aof_enabled),
    })
}

/// Whose address is whose: read once, since each replica and each primary names some.
pub(super) struct Places<'a>(BTreeMap<IpAddr, &'a str>);

impl<'a> Places<'a> {
    /// Those of these pods. Of two with one address, the first.
    pub(super) fn new(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut places = BTreeMap::new();
        for pod in pods {
            for ip in pod.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
                places.entry(ip).or_insert(pod.uid.as_str());
            }
        }
        Self(places)
    }

    /// Whose address it is: one of this instance's pods, nobody's (where an unnamed server is sent), or a stranger's.
    pub(super) fn of(&self, address: &ServerAddress) -> Upstream {
        if is_nobody(address) {
            return Upstream::Nobody;
        }
        match address.ip().and_then(|ip| self.0.get(&ip)) {
            Some(pod) => Upstream::Pod((*pod).to_owned()),
            None => Upstream::Other(Address { host: address.host.clone(), port: address.port }),
        }
    }
}

fn link(places: &Places<'_>, info: &Info) -> ReplicaLink {
    ReplicaLink {
        primary: info.primary().map_or(Upstream::Nobody, |address| places.of(&address)),
        up: info.link_up == Some(true),
        syncing: info.sync_in_progress == Some(true),
        last_io: info.last_io_seconds.map(|seconds| seconds * 1000),
        down_for: info.link_down_seconds.map(|seconds| seconds * 1000),
        priority: info.replica_priority.unwrap_or(100),
    }
}

fn disk_file(file: vko_model::info::DiskFile) -> DiskFile {
    match file {
        vko_model::info::DiskFile::AppendOnlyFile => DiskFile::AppendOnlyFile,
        vko_model::info::DiskFile::Snapshot => DiskFile::Snapshot,
    }
}

fn attached(places: &Places<'_>, replica: &vko_model::info::AttachedReplica) -> AttachedReplica {
    AttachedReplica {
        pod: places.of(&ServerAddress { host: replica.ip.clone(), port: replica.port }),
        online: replica.state == ReplicaState::Online,
        offset: replica.offset.unwrap_or(0),
        lag: replica.lag_seconds.map_or(u64::MAX, |seconds| seconds.saturating_mul(1000)),
    }
}

/// Where its data came from, as far as this run shows.
fn origin(memory: &ServerMemory, info: &Info) -> DataOrigin {
    if memory.synced_run.is_some() && memory.synced_run == info.run_id {
        return DataOrigin::Sync;
    }
    match (info.aof_enabled, info.keys_loaded, info.keys) {
        (Some(true), _, Some(keys)) if keys > 0 => DataOrigin::AppendOnlyFile,
        (_, Some(loaded), _) if loaded > 0 => DataOrigin::Snapshot,
        (_, Some(0), Some(0)) => DataOrigin::Empty,
        _ => DataOrigin::Unknown,
    }
}

/// The fence as the server itself counts it: the number of good replicas is shown only while a fence is on. Its height is what
/// the ledger says for this run; a fence that the ledger doesn't know has at least height one.
fn fence(inputs: &Inputs<'_>, pod: &str, info: &Info) -> Fence {
    let Some(good_replicas) = info.good_replicas else {
        return Fence { min_replicas: 0, max_lag: 0, good_replicas: 0 };
    };
    let known = inputs.ledger.fences.iter().find(|f| f.pod == pod && Some(f.run_id.as_str()) == info.run_id.as_deref());
    Fence {
        min_replicas: known.map_or(1, |f| f.min_replicas),
        max_lag: known.map_or(vko_model::config::FENCE_MAX_LAG_MS, |f| f.max_lag_ms),
        good_replicas,
    }
}
