//! `nodes.conf`, which is CLUSTER NODES with a line `vars ...` more: as much of it as a start hangs on.
//!
//! # Guarantees
//! Nothing that a server takes is refused here but a file without a line for the node itself: lines are read as far as needed,
//! and marks of slots that move are passed over.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Slots in a cluster.
const SLOTS: usize = 16_384;

/// One node's view of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// All lines, its own among them.
    all: Vec<Node>,
    /// Which one is its own.
    myself: usize,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// 40 characters; the identity.
    pub(crate) id: String,
    /// Client port and address; `None` if the address isn't known or is a name.
    pub(crate) address: Option<SocketAddr>,
    /// Flag `master`.
    pub(crate) primary: bool,
    /// Whom it follows.
    pub(crate) follows: Option<String>,
    /// `shard-id=` behind the address.
    pub(crate) shard: Option<String>,
    /// Ranges of slots that it owns, first and last.
    pub(crate) slots: Vec<(u16, u16)>,
}

/// Why a text is no view of a cluster. Lines count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodesError {
    /// A line with fewer words than a node has, or a slot that there isn't.
    LineMalformed(usize),
    /// No node is flagged `myself`.
    MyselfMissing,
}

impl fmt::Display for NodesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineMalformed(line) => write!(f, "line {line} isn't a node's"),
            Self::MyselfMissing => f.write_str("no line is flagged 'myself'"),
        }
    }
}

impl Nodes {
    /// Reads the file or the reply.
    ///
    /// # Errors
    /// A line isn't a node's, or none is the node's own.
    pub(crate) fn parse(text: &str) -> Result<Self, NodesError> {
        let mut all = Vec::new();
        let mut myself = None;
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if matches!(words.as_slice(), [] | ["vars", ..]) {
                continue;
            }
            let (node, own) = node(&words).ok_or(NodesError::LineMalformed(index + 1))?;
            if own {
                myself = Some(all.len());
            }
            all.push(node);
        }
        myself.map(|myself| Self { all, myself }).ok_or(NodesError::MyselfMissing)
    }

    /// The node whose view this is.
    pub(crate) fn myself(&self) -> &Node {
        &self.all[self.myself]
    }

    /// Primaries that own slots: those who vote.
    pub(crate) fn voters(&self) -> impl Iterator<Item = &Node> {
        self.all.iter().filter(|node| node.owns_slots())
    }

    /// The replicas of a node.
    pub(crate) fn replicas_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Node> {
        self.all.iter().filter(move |node| node.follows.as_deref() == Some(id))
    }

    /// A replica whose shard id isn't its primary's. Servers of 7.2 don't start with such a file.
    pub(crate) fn two_shards(&self) -> Option<&Node> {
        self.all.iter().find(|node| {
            let primary = node.follows.as_ref().and_then(|id| self.all.iter().find(|other| other.id == *id));
            primary.is_some_and(|primary| node.shard.is_some() && primary.shard.is_some() && node.shard != primary.shard)
        })
    }
}

impl Node {
    /// Whether it is a primary that owns slots.
    pub(crate) fn owns_slots(&self) -> bool {
        self.primary && !self.slots.is_empty()
    }
}

/// Whether the slots of `all` cover these.
pub(crate) fn covered<'a>(slots: &[(u16, u16)], all: impl Iterator<Item = &'a Node>) -> bool {
    let mut owned = vec![false; SLOTS];
    for (first, last) in all.flat_map(|node| &node.slots) {
        owned[usize::from(*first)..=usize::from(*last)].fill(true);
    }
    slots.iter().all(|(first, last)| owned[usize::from(*first)..=usize::from(*last)].iter().all(|owned| *owned))
}

/// One line, and whether it is flagged `myself`. `None` if it isn't a node's.
fn node(words: &[&str]) -> Option<(Node, bool)> {
    // id, address, flags, primary, ping, pong, epoch, link, slots...
    let [id, address, flags, follows, _, _, _, _, slots @ ..] = words else { return None };
    let flag = |name| flags.split(',').any(|flag| flag == name);
    let ranges = slots.iter().filter(|word| !word.starts_with('[')).map(|word| range(word)).collect::<Option<Vec<_>>>()?;
    let node = Node {
        id: (*id).to_owned(),
        address: socket(address).filter(|_| !flag("noaddr")),
        primary: flag("master"),
        follows: (*follows != "-").then(|| (*follows).to_owned()),
        shard: address.split(',').find_map(|part| part.strip_prefix("shard-id=")).map(str::to_owned),
        slots: ranges,
    };
    Some((node, flag("myself")))
}

/// `host:port@bus,...`; IPv6 without brackets.
fn socket(word: &str) -> Option<SocketAddr> {
    let (host, port) = word.split([',', '@']).next()?.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port))
}

/// `5` or `0-16383`.
fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && usize::from(last) < SLOTS).then_some((first, last))
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
