//! Clusters in the world in memory: who knows whom, who owns what, elections that are won at once. Gossip is instant, but for
//! what a test sets apart.

use std::collections::BTreeSet;
use std::fmt::Write;

use vko_model::slots::{Range, SlotSet};

use super::{FakeServer, State};
use crate::command::{ClusterFailover, Command, Reply};
use crate::world::ServerError;

/// A server as a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FakeNode {
    /// Its id.
    pub(crate) id: String,
    /// Ids that it knows, its own among them.
    pub(crate) knows: BTreeSet<String>,
    /// The primary's id.
    pub(crate) replica_of: Option<String>,
    /// Its slots.
    pub(crate) slots: SlotSet,
    /// Config epoch.
    pub(crate) epoch: u64,
    /// Slots of others that it hasn't been told of.
    pub(crate) unlearned: SlotSet,
    /// Slots that are open towards or from that id: slot, mark, peer.
    pub(crate) open: Vec<(u16, &'static str, String)>,
}

/// The id of a node in tests.
pub(crate) fn node_id(number: u32) -> String {
    format!("{number:0>40}")
}

fn refused(text: &str) -> ServerError {
    ServerError::Refused { code: "ERR".into(), text: text.into() }
}

impl State {
    /// What a server in cluster mode does; `None` for what is the same in each mode.
    pub(super) fn obey_as_node(&mut self, pod: &str, command: &Command) -> Option<Result<Reply, ServerError>> {
        Some(match command {
            Command::ClusterProbe => Ok(self.cluster_probe(pod)),
            Command::ClusterNodes => Ok(Reply::Text(self.cluster_nodes(pod))),
            Command::ClusterMeet { ip, .. } => self.meet(pod, *ip),
            Command::ClusterForget(id) => self.forget_node(pod, id),
            Command::ClusterReplicate(id) => self.replicate(pod, id),
            Command::ClusterAddSlots(ranges) => self.add_slots(pod, ranges),
            Command::ClusterSetSlotStable(slot) => {
                self.node_mut(pod).open.retain(|(open, ..)| open != slot);
                Ok(Reply::Done)
            }
            Command::ClusterSetSlotNode { slot, node } => Ok(self.set_owner(pod, *slot, node)),
            Command::ClusterFailover(how) => self.take_shard(pod, *how),
            Command::ClusterBumpEpoch => {
                self.node_mut(pod).epoch = self.epoch() + 1;
                Ok(Reply::Done)
            }
            Command::ClusterResetHard => self.reset(pod),
            _ => return None,
        })
    }

    fn node_mut(&mut self, pod: &str) -> &mut FakeNode {
        self.servers.get_mut(pod).unwrap().node.as_mut().unwrap()
    }

    fn nodes(&self) -> impl Iterator<Item = (&String, &FakeServer, &FakeNode)> {
        self.servers.iter().filter_map(|(pod, server)| Some((pod, server, server.node.as_ref()?)))
    }

    fn epoch(&self) -> u64 {
        self.nodes().map(|(_, _, node)| node.epoch).max().unwrap_or(0)
    }

    fn pod_of(&self, id: &str) -> Option<String> {
        self.nodes().find(|(_, _, node)| node.id == id).map(|(pod, ..)| pod.clone())
    }

    fn cluster_probe(&self, pod: &str) -> Reply {
        let server = &self.servers[pod];
        let own = server.node.as_ref().map_or(0, |node| node.epoch);
        let cluster = format!("cluster_state:ok\r\ncluster_current_epoch:{}\r\ncluster_my_epoch:{own}\r\n", self.epoch());
        Reply::ClusterProbe { info: server.info() + &self.attached(pod), cluster, slots_digest: 0 }
    }

    fn cluster_nodes(&self, pod: &str) -> String {
        let viewer = self.servers[pod].node.clone().unwrap();
        let mut text = String::new();
        for (_, server, node) in self.nodes().filter(|(_, _, node)| viewer.knows.contains(&node.id)) {
            let myself = if node.id == viewer.id { "myself," } else { "" };
            let role = if node.replica_of.is_some() { "slave" } else { "master" };
            let fail = if server.silent { ",fail" } else { "" };
            let primary = node.replica_of.as_deref().unwrap_or("-");
            let link = if server.silent { "disconnected" } else { "connected" };
            let (id, ip, epoch) = (&node.id, server.ip, node.epoch);
            let _ = write!(text, "{id} {ip}:6379@16379 {myself}{role}{fail} {primary} 0 0 {epoch} {link}");
            let unseen = if node.id == viewer.id { SlotSet::default() } else { viewer.unlearned.clone() };
            write_slots(&mut text, &node.slots.difference(&unseen));
            let marks = node.open.iter().filter(|_| node.id == viewer.id);
            marks.for_each(|(slot, mark, peer)| _ = write!(text, " [{slot}{mark}{peer}]"));
            text.push('\n');
        }
        for (id, slots) in self.ghosts.iter().filter(|(id, _)| viewer.knows.contains(*id)) {
            let _ = write!(text, "{id} :0@0 master,fail,noaddr - 0 0 1 disconnected");
            write_slots(&mut text, slots);
            text.push('\n');
        }
        text
    }

    fn meet(&mut self, pod: &str, ip: std::net::IpAddr) -> Result<Reply, ServerError> {
        let peer = self.nodes().find(|(_, server, _)| server.ip == ip && !server.silent).map(|(_, _, node)| node.knows.clone());
        let own = self.node_mut(pod).knows.clone();
        let all: BTreeSet<String> = own.into_iter().chain(peer.unwrap_or_default()).collect();
        for server in self.servers.values_mut() {
            if let Some(node) = server.node.as_mut().filter(|node| all.contains(&node.id)) {
                node.knows.extend(all.iter().cloned());
            }
        }
        Ok(Reply::Done)
    }

    fn forget_node(&mut self, pod: &str, id: &str) -> Result<Reply, ServerError> {
        let node = self.node_mut(pod);
        if node.replica_of.as_deref() == Some(id) {
            return Err(refused("Can't forget my master!"));
        }
        node.knows.remove(id);
        Ok(Reply::Done)
    }

    fn replicate(&mut self, pod: &str, id: &str) -> Result<Reply, ServerError> {
        let primary = self.pod_of(id).map(|pod| self.servers[&pod].clone()).ok_or_else(|| refused("Unknown node"))?;
        let server = self.servers.get_mut(pod).unwrap();
        let node = server.node.as_mut().unwrap();
        if node.replica_of.is_none() && (server.keys > 0 || !node.slots.is_empty()) {
            return Err(refused("To set a master the node must be empty and without assigned slots."));
        }
        node.replica_of = Some(id.to_owned());
        (server.upstream, server.keys, server.replid, server.offset) =
            (Some(primary.ip), primary.keys, primary.replid, primary.offset);
        Ok(Reply::Done)
    }

    fn add_slots(&mut self, pod: &str, ranges: &[(u16, u16)]) -> Result<Reply, ServerError> {
        let wanted: SlotSet = ranges.iter().filter_map(|(first, last)| Range::new(*first, *last)).collect();
        let knows = self.node_mut(pod).knows.clone();
        let owned = self.nodes().filter(|(_, _, node)| knows.contains(&node.id)).map(|(_, _, node)| &node.slots);
        let ghosts = self.ghosts.iter().filter(|(id, _)| knows.contains(*id)).map(|(_, slots)| slots);
        if owned.chain(ghosts).any(|slots| !slots.intersection(&wanted).is_empty()) {
            return Err(refused("Slot is already busy"));
        }
        let node = self.node_mut(pod);
        node.slots = node.slots.union(&wanted);
        Ok(Reply::Done)
    }

    fn set_owner(&mut self, pod: &str, slot: u16, id: &str) -> Reply {
        let one: SlotSet = Range::new(slot, slot).into_iter().collect();
        self.ghosts.values_mut().for_each(|slots| *slots = slots.difference(&one));
        for server in self.servers.values_mut() {
            if let Some(node) = &mut server.node {
                node.slots = if node.id == id { node.slots.union(&one) } else { node.slots.difference(&one) };
            }
        }
        self.node_mut(pod).open.retain(|(open, ..)| *open != slot);
        Reply::Done
    }

    /// A replica takes its shard; one whose primary is stuck is accepted and stays where it is. As the servers: nothing else is
    /// checked.
    fn take_shard(&mut self, pod: &str, how: ClusterFailover) -> Result<Reply, ServerError> {
        let Some(old) = self.node_mut(pod).replica_of.clone() else {
            return Err(refused("You should send CLUSTER FAILOVER to a replica"));
        };
        let old_pod = self.pod_of(&old);
        let silent = old_pod.as_ref().is_none_or(|pod| self.servers[pod].silent);
        if how == ClusterFailover::Coordinated && silent {
            return Err(refused("Master is down or failed, please use CLUSTER FAILOVER FORCE"));
        }
        if self.servers[pod].stuck {
            return Ok(Reply::Done);
        }
        let epoch = self.epoch() + 1;
        let (ip, id) = (self.servers[pod].ip, self.node_mut(pod).id.clone());
        let slots = match &old_pod {
            Some(old_pod) => {
                let server = self.servers.get_mut(old_pod).unwrap();
                server.upstream = Some(ip);
                let node = server.node.as_mut().unwrap();
                node.replica_of = Some(id);
                std::mem::take(&mut node.slots)
            }
            None => self.ghosts.get_mut(&old).map(std::mem::take).unwrap_or_default(),
        };
        self.servers.get_mut(pod).unwrap().take_the_role();
        let node = self.node_mut(pod);
        (node.replica_of, node.slots, node.epoch) = (None, slots, epoch);
        Ok(Reply::Done)
    }

    fn reset(&mut self, pod: &str) -> Result<Reply, ServerError> {
        let server = self.servers.get_mut(pod).unwrap();
        if server.is_primary() && server.keys > 0 {
            return Err(refused("CLUSTER RESET can't be called with master nodes containing keys"));
        }
        (server.keys, server.upstream) = (0, None);
        let id = format!("{}f", &server.node.as_ref().unwrap().id[1..]);
        server.node = Some(FakeNode { knows: BTreeSet::from([id.clone()]), id, ..FakeNode::default() });
        Ok(Reply::Done)
    }
}

fn write_slots(text: &mut String, slots: &SlotSet) {
    slots.ranges().iter().for_each(|range| _ = write!(text, " {range}"));
}
