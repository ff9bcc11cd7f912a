//! The simulated cluster as an observation: what a host would make of what these servers say.

use std::collections::BTreeMap;
use vko_replica::testing::{Scene, mk_pod, mk_primary, mk_replica};
use vko_sdk::Observed;
use vko_sdk::common::Architecture;
use vko_sdk::observation::{
    AttachedReplica, Belief, Claim, ClusterFacts, ContainerState, DataOrigin, Failure, LastPrimary, LedgerMember, Peer, Pod,
    Reach, Role, Server, ServerFacts, Upstream,
};

use super::{Simulated, State, World};

/// Operations that the host of this world carries out.
pub(super) const CAPABILITIES: [&str; 8] =
    ["meet", "forget", "replicate", "own-slots", "take-over", "bump-epoch", "settle-slots", "reset-empty"];
/// Differences that the host lists of each server.
const DIFFERS_MAX: usize = 16;

impl World {
    /// What the policy would see.
    pub fn observe(&self) -> Observed {
        let mut observed = Scene::new("x", 1).observed;
        observed.instance.architecture = Architecture::Cluster;
        observed.instance.kind = "Cluster".into();
        observed.instance.spec =
            format!(r#"{{"version":"9.1","replicas":{{"shards":{},"replicasOfShard":{}}}}}"#, self.shards, self.members);
        observed.instance.consents = self.consents.clone();
        observed.environment.capabilities = CAPABILITIES.map(str::to_owned).to_vec();
        observed.objects.clear();
        observed.recent = self.recent.clone();
        observed.ledger.formed = self.formed;
        observed.ledger.members = self.recorded.iter().map(|(id, (shard, ordinal))| self.record(*shard, *ordinal, id)).collect();
        observed.ledger.last_primary =
            LastPrimary::Members(self.last.iter().map(|(shard, (ordinal, id))| self.record(*shard, *ordinal, id)).collect());
        observed.pods = self.servers.iter().filter(|s| s.state != State::NoPod).map(|s| self.pod(s)).collect();
        observed.agreed_view = self.agreed();
        let peers: BTreeMap<&str, &Peer> = observed.agreed_view.iter().map(|p| (p.id.as_str(), p)).collect();
        observed.servers = self.servers.iter().filter(|s| s.state != State::NoPod).map(|s| self.server(s, &peers)).collect();
        observed.claims = if self.claims { self.servers.iter().map(claim).collect() } else { Vec::new() };
        observed
    }

    fn record(&self, shard: u32, ordinal: u32, id: &str) -> LedgerMember {
        let here = self.servers.iter().find(|s| s.id == id).map_or(String::new(), Simulated::uid);
        LedgerMember { workload: format!("drc-x-{shard}"), ordinal, pod: here, claim: String::new(), node_id: id.into() }
    }

    fn pod(&self, server: &Simulated) -> Pod {
        let workload = format!("drc-x-{}", server.shard);
        let ready = server.state == State::Up && (!server.slots.is_empty() || server.synced);
        let container = if server.state == State::Ended { ContainerState::Terminated } else { ContainerState::Running };
        Pod {
            uid: server.uid(),
            name: format!("{workload}-{}", server.ordinal),
            workload,
            ready,
            container,
            addresses: vec![format!("10.0.{}.{}", server.shard, server.ordinal + 10 * server.pod)],
            ..mk_pod("x", server.ordinal)
        }
    }

    /// The belief that most share, by the highest epochs.
    fn agreed(&self) -> Vec<Peer> {
        let mut peers: BTreeMap<String, Peer> = BTreeMap::new();
        for server in &self.servers {
            let known = server.state == State::Up || self.servers.iter().any(|s| s.known.contains_key(&server.id));
            if !known {
                continue;
            }
            let linked = self.servers.iter().filter(|s| s.state == State::Up && s.known.get(&server.id) == Some(&true)).count();
            let up = server.state == State::Up;
            let pod = if server.state == State::NoPod { Upstream::Nobody } else { Upstream::Pod(server.uid()) };
            let peer = self.peer(&server.id, pod, server, !up, linked + usize::from(up));
            peers.insert(server.id.clone(), peer);
        }
        for (id, (alive, slots)) in &self.others {
            let like = Simulated { slots: slots.clone(), replica_of: String::new(), ..super::fresh(0, 0, 0) };
            peers.insert(id.clone(), self.peer(id, Upstream::Nobody, &like, !alive, usize::from(*alive) * 2));
        }
        peers.into_values().collect()
    }

    fn peer(&self, id: &str, pod: Upstream, server: &Simulated, failed: bool, linked_by: usize) -> Peer {
        Peer {
            id: id.into(),
            pod,
            replica_of: server.replica_of.clone(),
            config_epoch: server.epoch,
            failed,
            handshake: false,
            suspected_by: 0,
            linked_by: u32::try_from(linked_by).unwrap_or(u32::MAX),
            slots: server.slots.clone(),
        }
    }

    fn server(&self, server: &Simulated, peers: &BTreeMap<&str, &Peer>) -> Server {
        let reach = match server.state {
            State::Up => Reach::Answered,
            State::Held => Reach::Refused(Failure { lasting: 1_000, reason: "HELD behind: a replica has more data".into() }),
            State::Ended | State::NoPod | State::Silent => Reach::Silent(20_000),
        };
        let age = if server.state == State::Up { 500 } else { 20_000 };
        Server { pod: server.uid(), reach, age, facts: Some(self.facts(server, peers)) }
    }

    fn facts(&self, server: &Simulated, peers: &BTreeMap<&str, &Peer>) -> ServerFacts {
        let mut facts = if server.replica_of.is_empty() {
            mk_primary(&format!("history-{}", server.shard), 1_000)
        } else {
            let primary = self.servers.iter().find(|s| s.id == server.replica_of).map(Simulated::uid);
            mk_replica(&format!("history-{}", server.shard), 1_000, primary.map_or(Upstream::Nobody, Upstream::Pod))
        };
        if let Role::Replica(link) = &mut facts.role {
            link.up = server.synced;
            link.last_io = server.synced.then_some(0);
            link.down_for = (!server.synced).then_some(1_000);
        }
        if server.keys == 0 && !server.synced && server.slots.is_empty() {
            (facts.origin, facts.offset) = (DataOrigin::Empty, 0);
        }
        facts.run_id = format!("run-{}-{}", server.uid(), server.run);
        facts.keys = server.keys;
        facts.uptime = if server.run > 1 { 5_000 } else { 600_000 };
        let mine = self.servers.iter().filter(|s| s.replica_of == server.id && s.synced && s.state == State::Up);
        facts.replicas =
            mine.map(|s| AttachedReplica { pod: Upstream::Pod(s.uid()), online: true, offset: 1_000, lag: 0 }).collect();
        facts.cluster = vec![self.cluster(server, peers)];
        facts
    }

    fn cluster(&self, server: &Simulated, peers: &BTreeMap<&str, &Peer>) -> ClusterFacts {
        let others = peers.values().filter(|p| p.id != server.id);
        let mut differs: Vec<Belief> = others.filter_map(|p| self.belief(server, p)).collect();
        let differences = u32::try_from(differs.len()).unwrap_or(u32::MAX);
        differs.truncate(DIFFERS_MAX);
        let owned: u32 = peers.values().map(|p| vko_sdk::slots::count(&p.slots)).sum();
        let full = owned >= 16_384 && differences == 0 && peers.values().all(|p| p.slots.is_empty() || !p.failed);
        ClusterFacts {
            id: server.id.clone(),
            state_ok: full,
            epoch: if server.linked() { self.servers.iter().map(|s| s.epoch).max().unwrap_or(0) } else { server.epoch },
            config_epoch: server.epoch,
            importing: Vec::new(),
            migrating: Vec::new(),
            migrations: Vec::new(),
            differs,
            differences,
        }
    }

    fn belief(&self, server: &Simulated, peer: &Peer) -> Option<Belief> {
        let (known, linked) = match server.known.get(&peer.id) {
            Some(linked) => (true, *linked),
            None if self.others.contains_key(&peer.id) && !self.unaware.contains(&server.id) => (true, !peer.failed),
            None => (false, false),
        };
        (!known || (!linked && !peer.failed)).then(|| Belief {
            id: peer.id.clone(),
            known,
            replica_of: if known { peer.replica_of.clone() } else { String::new() },
            config_epoch: if known { peer.config_epoch } else { 0 },
            linked,
            suspected: false,
            failed: peer.failed,
            slots: if known { peer.slots.clone() } else { Vec::new() },
        })
    }
}

fn claim(server: &Simulated) -> Claim {
    Claim {
        name: format!("data-drc-x-{}-{}", server.shard, server.ordinal),
        uid: format!("claim-{}-{}", server.shard, server.ordinal),
        workload: format!("drc-x-{}", server.shard),
        ordinal: server.ordinal,
        phase: "Bound".into(),
        capacity: 1 << 30,
        resizing: false,
        node: String::new(),
        node_exists: Some(true),
        before_instance: false,
    }
}
