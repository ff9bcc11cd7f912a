//! Clusters as their servers would describe them, for tests: shard `s` has the members `drc-x-<s>-0`.., whose servers are node `o
//! * shards + s` for ordinal `o`. Ordinal 0 is the primary.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use vko_model::address::Address;
use vko_model::cluster::{ClusterInfo, ClusterNodes};
use vko_model::info::Info;
use vko_model::slots::SlotSet;
use vko_wit::observation::{Observed, Peer, Reach, Role, ServerFacts, Upstream};

use super::{Inputs, observe};
use crate::ledger::Ledger;
use crate::memory::{Answer, Memory, ServerMemory};
use crate::object::{Kind, Object};

/// When it is observed (monotonic); everybody answered a second ago.
const NOW: Duration = Duration::from_secs(100);

/// Id of a node.
pub(crate) fn node_id(node: u32) -> String {
    format!("{node:040x}")
}

/// Address of a node.
pub(crate) fn node_ip(node: u32) -> String {
    format!("10.0.{}.{}", node / 250, node % 250 + 1)
}

/// CLUSTER NODES of node `of` while all is well.
pub(crate) fn nodes_text(shards: u32, members: u32, of: u32) -> String {
    let slots = SlotSet::all().split(u16::try_from(shards).unwrap());
    let line = |node: u32| {
        let (shard, myself) = (node % shards, if node == of { "myself," } else { "" });
        let place = format!("{} {}:6379@16379 {myself}", node_id(node), node_ip(node));
        let epoch = shard + 1;
        match node < shards {
            true => format!("{place}master - 0 0 {epoch} connected {}\n", slots[shard as usize]),
            false => format!("{place}slave {} 0 0 {epoch} connected\n", node_id(shard)),
        }
    };
    (0..shards * members).map(line).collect()
}

fn info(shards: u32, node: u32) -> Info {
    let role = match node < shards {
        true => "role:master\r\n".to_owned(),
        false => format!(
            "role:slave\r\nmaster_host:{}\r\nmaster_port:6379\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\n",
            node_ip(node % shards)
        ),
    };
    Info::parse(&format!("valkey_version:9.1.2\r\nrun_id:run-{node}\r\nloading:0\r\n{role}# Keyspace\r\n"))
}

fn pod(shards: u32, node: u32) -> Object {
    Object::new(json!({
        "metadata": {"name": format!("drc-x-{}-{}", node % shards, node / shards), "uid": format!("uid-{node}")},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": node_ip(node), "containerStatuses": [{"name": "valkey", "state": {"running": {}}}]},
    }))
}

/// What is observed when each server says what `says` makes of what it would say; `None`: it never answered.
pub(crate) fn observe_cluster(shards: u32, members: u32, says: impl Fn(u32, String) -> Option<String>) -> Observed {
    observe_with(shards, members, &Ledger::default(), |_| {}, says)
}

/// The same with a ledger, and with what the memory is told afterwards.
pub(crate) fn observe_with(
    shards: u32,
    members: u32,
    ledger: &Ledger,
    after: impl Fn(&Memory),
    says: impl Fn(u32, String) -> Option<String>,
) -> Observed {
    let memory = Memory::default();
    let cluster = ClusterInfo::parse("cluster_state:ok\r\ncluster_current_epoch:9\r\ncluster_my_epoch:1\r\n");
    for node in 0..shards * members {
        let Some(text) = says(node, nodes_text(shards, members, node)) else { continue };
        let nodes = ClusterNodes::parse(&text).unwrap();
        let answer = Answer::Cluster(Box::new(info(shards, node)), cluster, 7, Some(nodes));
        memory.note(&format!("uid-{node}"), NOW - Duration::from_secs(1), NOW - Duration::from_secs(1), Ok(answer));
    }
    after(&memory);
    let topology: Value = json!({
        "metadata": {"name": "x", "namespace": "shop", "uid": "topology"},
        "spec": {"replicas": {"shards": shards, "replicasOfShard": members}},
    });
    let pods: Vec<Object> = (0..shards * members).map(|node| pod(shards, node)).collect();
    let said = (&memory.snapshot(), &memory.places());
    observe(&inputs(&Object::new(topology), &pods, &[node()], said, ledger))
}

/// The node that all pods are on.
pub(crate) fn node() -> Object {
    Object::new(json!({"metadata": {"name": "node"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
}

/// What a cluster is observed from, where nothing but its pods and its servers' words matters.
pub(crate) fn inputs<'a>(
    topology: &'a Object,
    pods: &'a [Object],
    nodes: &'a [Object],
    (servers, places): (&'a BTreeMap<String, ServerMemory>, &'a BTreeMap<String, Address>),
    ledger: &'a Ledger,
) -> Inputs<'a> {
    Inputs { pods, nodes, servers, places, ..Inputs::bare(topology, Kind::Cluster, ledger) }
}

/// A healthy cluster as observed, to be changed.
pub(crate) struct Cluster {
    pub(crate) observed: Observed,
    shards: u32,
}

pub(crate) fn mk_cluster(shards: u32, members: u32) -> Cluster {
    Cluster { observed: observe_cluster(shards, members, |_, text| Some(text)), shards }
}

impl Cluster {
    fn node(&self, shard: u32, ordinal: u32) -> u32 {
        ordinal * self.shards + shard
    }

    pub(crate) fn facts(&mut self, shard: u32, ordinal: u32) -> &mut ServerFacts {
        let uid = format!("uid-{}", self.node(shard, ordinal));
        self.observed.servers.iter_mut().find(|server| server.pod == uid).unwrap().facts.as_mut().unwrap()
    }

    pub(crate) fn peer(&mut self, shard: u32, ordinal: u32) -> &mut Peer {
        let pod = Upstream::Pod(format!("uid-{}", self.node(shard, ordinal)));
        self.observed.agreed_view.iter_mut().find(|peer| peer.pod == pod).unwrap()
    }

    /// Member 1 of a shard has taken over from member 0, and all agree.
    pub(crate) fn switch(&mut self, shard: u32) {
        let (old, new) = (self.peer(shard, 0).clone(), self.peer(shard, 1).clone());
        (self.peer(shard, 0).slots, self.peer(shard, 0).replica_of) = (Vec::new(), new.id);
        (self.peer(shard, 1).slots, self.peer(shard, 1).replica_of) = (old.slots, String::new());
        let roles: BTreeMap<u32, Role> = (0..2).map(|ordinal| (ordinal, self.facts(shard, ordinal).role.clone())).collect();
        self.facts(shard, 0).role = roles[&1].clone();
        self.facts(shard, 1).role = roles[&0].clone();
    }

    pub(crate) fn silence(&mut self, shard: u32, ordinal: u32) {
        let uid = format!("uid-{}", self.node(shard, ordinal));
        self.observed.servers.iter_mut().find(|server| server.pod == uid).unwrap().reach = Reach::Silent(5_000);
    }

    /// The server of that place has another id.
    pub(crate) fn rename(&mut self, shard: u32, ordinal: u32, id: &str) {
        self.facts(shard, ordinal).cluster[0].id = id.into();
        self.peer(shard, ordinal).id = id.into();
    }

    /// Nobody was given slots yet.
    pub(crate) fn no_slots(&mut self) {
        self.observed.agreed_view.iter_mut().for_each(|peer| peer.slots.clear());
    }
}
