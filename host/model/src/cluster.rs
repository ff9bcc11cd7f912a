//! What a server in cluster mode says: CLUSTER INFO, and what it believes of all nodes: CLUSTER NODES, which is also the form of
//! its nodes.conf.
//!
//! # Guarantees
//! 1. CLUSTER INFO: as for INFO, a field that isn't there is `None`.
//! 2. CLUSTER NODES: all lines or an error. A node that was left out would look like one that isn't known.
//!
//! # Assumptions
//! A node is its id. An address is where it was last seen, by this server; a name or another address may be shown to clients.

use std::str::FromStr;

use crate::address::Address;
use crate::info::Role;
use crate::slots::{Range, SlotSet};

/// `cluster-port` is set to this, whatever the port for clients is: a change of that to TLS must not move the cluster's own.
pub const BUS_PORT: u16 = 16_379;

/// Why an answer is no CLUSTER NODES. The variant is the metric label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// A line with another number of words, or a word that isn't of its form.
    #[error("line {line} of CLUSTER NODES has no valid {what}: {text}")]
    LineMalformed {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
        /// The line.
        text: String,
    },
    /// No line, or more than one, has the flag `myself`.
    #[error("CLUSTER NODES doesn't say which node is the server's own")]
    MyselfMissing,
}

impl ClusterError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::LineMalformed { .. } => "LineMalformed",
            Self::MyselfMissing => "MyselfMissing",
        }
    }
}

/// CLUSTER INFO.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Whether `cluster_state` is `ok`. It is for the first `cluster-node-timeout` after a start, too, when nobody has been
    /// reached yet.
    pub state_ok: Option<bool>,
    /// `cluster_slots_assigned`: slots with an owner.
    pub slots_assigned: Option<u16>,
    /// `cluster_slots_pfail`: slots whose owner this server suspects.
    pub slots_suspected: Option<u16>,
    /// `cluster_slots_fail`: slots whose owner has failed by the word of most.
    pub slots_failed: Option<u16>,
    /// `cluster_known_nodes`, itself included.
    pub known_nodes: Option<u32>,
    /// `cluster_size`: primaries with slots.
    pub size: Option<u32>,
    /// `cluster_current_epoch`.
    pub current_epoch: Option<u64>,
    /// `cluster_my_epoch`: config epoch of its shard.
    pub my_epoch: Option<u64>,
}

impl ClusterInfo {
    /// Reads an answer.
    pub fn parse(text: &str) -> Self {
        fn parsed<T: FromStr>(text: &str, name: &str) -> Option<T> {
            field(text, name)?.parse().ok()
        }
        Self {
            state_ok: field(text, "cluster_state").filter(|state| !state.is_empty()).map(|state| state == "ok"),
            slots_assigned: parsed(text, "cluster_slots_assigned"),
            slots_suspected: parsed(text, "cluster_slots_pfail"),
            slots_failed: parsed(text, "cluster_slots_fail"),
            known_nodes: parsed(text, "cluster_known_nodes"),
            size: parsed(text, "cluster_size"),
            current_epoch: parsed(text, "cluster_current_epoch"),
            my_epoch: parsed(text, "cluster_my_epoch"),
        }
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    values.filter(|(found, _)| *found == name).map(|(_, value)| value.trim_end()).next_back()
}

/// Which way a slot is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// `[slot->-id]`: it goes to the peer.
    Migrating,
    /// `[slot-<-id]`: it comes from the peer.
    Importing,
}

/// A slot on its way between two nodes, as one of them has it marked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenSlot {
    /// The slot.
    pub slot: u16,
    /// Which way.
    pub direction: Direction,
    /// Id of the other node.
    pub peer: String,
}

/// A node as one server believes it to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Id: 40 characters. Random, and not the node's own, while [`Self::handshake`].
    pub id: String,
    /// IP address; `None` if it isn't known (`noaddr`, or the server's own before anybody has told it).
    pub host: Option<String>,
    /// Port for clients; 0 if it isn't known.
    pub port: u16,
    /// Port of the cluster's own traffic; 0 if it isn't known.
    pub bus_port: u16,
    /// Announced name.
    pub hostname: Option<String>,
    /// Whether the line is about the server that was asked.
    pub myself: bool,
    /// `None` while it isn't known yet.
    pub role: Option<Role>,
    /// `fail?`: this server has no answer from it.
    pub suspected: bool,
    /// `fail`: most primaries had no answer from it.
    pub failed: bool,
    /// It is being met.
    pub handshake: bool,
    /// Its address isn't known.
    pub no_address: bool,
    /// Id of its primary, if it is a replica with one.
    pub replica_of: Option<String>,
    /// Config epoch; of a replica, its primary's.
    pub config_epoch: u64,
    /// Whether this server has a link to it. Always so for itself.
    pub linked: bool,
    /// What it owns.
    pub slots: SlotSet,
    /// Only on the server's own line.
    pub open: Vec<OpenSlot>,
}

impl Node {
    /// Where it listens for clients, if that is known.
    pub fn address(&self) -> Option<Address> {
        self.host.clone().filter(|_| self.port != 0).map(|host| Address { host, port: self.port })
    }

    /// Whether it is a primary.
    pub fn is_primary(&self) -> bool {
        self.role == Some(Role::Primary)
    }
}

/// CLUSTER NODES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNodes {
    /// All nodes, the server itself included, sorted by id.
    pub nodes: Vec<Node>,
}

impl ClusterNodes {
    /// Reads an answer, or the text of a nodes.conf.
    ///
    /// # Errors
    /// [`ClusterError`] if any line can't be read, or none is the server's own.
    pub fn parse(text: &str) -> Result<Self, ClusterError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with("vars "));
        let mut nodes = Vec::new();
        for (index, line) in lines {
            let malformed = |what| ClusterError::LineMalformed { line: index + 1, what, text: line.to_owned() };
            nodes.push(node(line).map_err(malformed)?);
        }
        nodes.sort_by(|one: &Node, other: &Node| one.id.cmp(&other.id));
        let mut own = nodes.iter().filter(|node| node.myself);
        if own.next().is_none() || own.next().is_some() {
            return Err(ClusterError::MyselfMissing);
        }
        Ok(Self { nodes })
    }

    /// The server's own line.
    pub fn myself(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.myself)
    }

    /// The node of that id.
    pub fn get(&self, id: &str) -> Option<&Node> {
        self.nodes.binary_search_by(|node| node.id.as_str().cmp(id)).ok().map(|index| &self.nodes[index])
    }

    /// The replicas of a primary.
    pub fn replicas_of<'a>(&'a self, primary: &'a str) -> impl Iterator<Item = &'a Node> {
        self.nodes.iter().filter(move |node| node.replica_of.as_deref() == Some(primary))
    }
}

/// `id ip:port@bus[,hostname[,name=value...]] flags primary ping pong epoch link slot...`; the error is what is wrong.
fn node(line: &str) -> Result<Node, &'static str> {
    let mut words = line.split_ascii_whitespace();
    let mut next = |what| words.next().ok_or(what);
    let id = next("id").and_then(|id| is_id(id).then_some(id).ok_or("id"))?;
    let mut node = Node { id: id.to_owned(), ..place(next("address")?)? };
    for flag in next("flags")?.split(',') {
        match flag {
            "myself" => node.myself = true,
            "master" => node.role = Some(Role::Primary),
            "slave" => node.role = Some(Role::Replica),
            "fail?" => node.suspected = true,
            "fail" => node.failed = true,
            "handshake" => node.handshake = true,
            "noaddr" => node.no_address = true,
            // `nofailover`, `noflags`, and what a later version may add.
            _ => {}
        }
    }
    node.replica_of = match next("primary")? {
        "-" => None,
        id if is_id(id) => Some(id.to_owned()),
        _ => return Err("id of the primary"),
    };
    next("ping time")?;
    next("pong time")?;
    node.config_epoch = next("epoch")?.parse().map_err(|_| "epoch")?;
    node.linked = match next("link state")? {
        "connected" => true,
        "disconnected" => false,
        _ => return Err("link state"),
    };
    let mut ranges: Vec<Range> = Vec::new();
    for word in words {
        match word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => node.open.push(open_slot(inner).ok_or("open slot")?),
            None => ranges.push(word.parse().map_err(|_| "slot")?),
        }
    }
    node.slots = ranges.into_iter().collect();
    Ok(node)
}

/// `ip:port@bus[,hostname[,name=value...]]`. An IPv6 address has no brackets here.
fn place(word: &str) -> Result<Node, &'static str> {
    let mut parts = word.split(',');
    let place = parts.next().unwrap_or_default();
    let (client, bus) = place.rsplit_once('@').ok_or("address")?;
    let (host, port) = client.rsplit_once(':').ok_or("address")?;
    let mut node = Node {
        host: Some(host).filter(|host| !host.is_empty()).map(str::to_owned),
        port: port.parse().map_err(|_| "port")?,
        bus_port: bus.parse().map_err(|_| "bus port")?,
        ..Node::default()
    };
    for part in parts {
        // Fields with a name are those of nodes.conf, and what a later version may add.
        if !part.contains('=') {
            node.hostname = Some(part).filter(|name| !name.is_empty()).map(str::to_owned);
        }
    }
    Ok(node)
}

/// `slot->-id` or `slot-<-id`.
fn open_slot(text: &str) -> Option<OpenSlot> {
    let (slot, direction, peer) = match text.split_once("->-") {
        Some((slot, peer)) => (slot, Direction::Migrating, peer),
        None => text.split_once("-<-").map(|(slot, peer)| (slot, Direction::Importing, peer))?,
    };
    let slot = slot.parse::<Range>().ok().filter(|range| range.count() == 1)?.first();
    is_id(peer).then(|| OpenSlot { slot, direction, peer: peer.to_owned() })
}

/// 40 letters and digits; servers take any of them, though their own are hexadecimal.
fn is_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
