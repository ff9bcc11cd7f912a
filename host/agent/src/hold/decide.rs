//! Whether a node of a cluster may start with the data that it has. Pure.
//!
//! # Guarantees
//! 1. A primary doesn't start while a replica that answers, and would follow it, has data that the primary lacks: the replica
//!    would be wiped. Within one lineage the offset tells; in another one whatever the replica holds counts.
//! 2. A replica that was seen with such data is waited for when it falls silent; silence never makes up for it. It isn't any
//!    longer when it answers without them.
//! 3. A replica is asked to take over only where its election can come about: a majority of primaries with slots answers.
//!
//! # Assumptions
//! A primary that starts after another took over all its slots learns of it before it serves them: the other's epoch is higher.
//! Replicas that don't follow this node in their own view don't do it later without an operator's order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::data::{Own, Position};
use super::nodes::{self, Node, Nodes};
use crate::info;

/// Node id to what came of asking.
pub(crate) type Peers = BTreeMap<String, Peer>;

/// What came of asking a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// No answer, or another node's.
    Silent,
    /// It is there and loads its data.
    Loading,
    /// It said how it sees the cluster, and what it holds.
    Answers(Nodes, Copy),
}

/// A replica's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    /// Where it stands.
    pub(crate) position: Position,
    /// Lineage of before, and the offset at which this one began.
    pub(crate) before: Option<Position>,
    /// It has keys or functions.
    pub(crate) holds: bool,
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Nobody answered for as long as is waited for somebody.
    pub(crate) waited: bool,
    /// Replicas that had data which this node lacks when they answered last.
    pub(crate) better: BTreeSet<String>,
    /// Replicas that were asked to take over, in this order.
    pub(crate) asked: Vec<String>,
}

impl Memory {
    /// Takes in a look.
    pub(crate) fn note(&mut self, file: &Nodes, own: &Own, peers: &Peers) {
        for (id, peer) in peers {
            match peer {
                Peer::Silent | Peer::Loading => {}
                Peer::Answers(nodes, copy) if follows(nodes, file.myself()) && compare(own, copy) == Compared::Lacks => {
                    self.better.insert(id.clone());
                }
                Peer::Answers(..) => {
                    self.better.remove(id);
                }
            }
        }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server may start.
    Start(Start),
    /// Ask this replica to take over.
    Ask(String),
    /// Wait.
    Hold(Hold),
}

/// Why it may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// It isn't a primary with slots and replicas: nobody follows it, or nobody could take over.
    NothingToLose,
    /// It has a log of every write.
    Log,
    /// It lacks nothing of what the replicas hold.
    Complete,
    /// Another node serves its slots.
    TakenOver,
    /// Its replicas follow others now.
    NobodyFollows,
    /// No replica answered in time.
    NobodyAnswers,
}

/// Why it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// A replica has the data, and too few primaries answer to elect it: so many of so many.
    NoMajority(usize, usize),
    /// A replica loads what it has.
    ReplicaLoads,
    /// A replica that had the data has fallen silent.
    BetterCopySilent,
    /// No replica answers yet that could be compared with.
    ReplicasSilent,
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingToLose => "no replica hangs on this start",
            Self::Log => "it has its own log of every write",
            Self::Complete => "no replica has more data",
            Self::TakenOver => "another node has taken over its slots",
            Self::NobodyFollows => "its replicas follow others now",
            Self::NobodyAnswers => "no replica answered in time, so it starts with the data that it has",
        })
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMajority(answering, voters) => write!(
                f,
                "a replica has data that this primary lacks, and only {answering} of {voters} primaries answer, too few to elect \
                 it; it waits until a replica has taken over (CLUSTER FAILOVER TAKEOVER)"
            ),
            Self::ReplicaLoads => f.write_str("a replica loads its data, which may be more than this primary has"),
            Self::BetterCopySilent => f.write_str(
                "a replica that has data which this primary lacks doesn't answer any more; if it is gone for good, delete this pod",
            ),
            Self::ReplicasSilent => f.write_str("none of its replicas answers yet that could have more data"),
        }
    }
}

/// Reads INFO replication, keyspace and memory of a replica; `None` if it lacks something.
pub(crate) fn copy(info: &str) -> Option<Copy> {
    let number = |name: &str| info::field(info, name).and_then(|value| value.parse::<u64>().ok());
    let lineage = |name: &str| info::field(info, name).map(str::to_owned);
    let offset = number("slave_repl_offset").or_else(|| number("master_repl_offset"))?;
    // -1 while there is no lineage of before.
    let before = number("second_repl_offset")
        .and_then(|offset| Some(Position { lineage: lineage("master_replid2")?, offset: offset.saturating_sub(1) }));
    let keys = info.lines().any(|line| line.starts_with("db") && line.contains(":keys="));
    let functions = number("number_of_functions").is_some_and(|count| count > 0);
    Some(Copy { position: Position { lineage: lineage("master_replid")?, offset }, before, holds: keys || functions })
}

/// The decision, for the node whose file this is.
pub(crate) fn decide(file: &Nodes, own: &Own, peers: &Peers, memory: &Memory) -> Verdict {
    let myself = file.myself();
    if !myself.owns_slots() || file.replicas_of(&myself.id).next().is_none() {
        return Verdict::Start(Start::NothingToLose);
    }
    if *own == Own::Aof {
        return Verdict::Start(Start::Log);
    }
    if nodes::covered(&myself.slots, answering(peers)) {
        return Verdict::Start(Start::TakenOver);
    }
    let followers: Vec<(&Nodes, &Copy)> = followers(myself, peers).collect();
    let lacks = |copy: &Copy| compare(own, copy) == Compared::Lacks;
    if let Some(better) = best(followers.iter().copied().filter(|(_, copy)| lacks(copy)), &memory.asked) {
        return elect(better, peers);
    }
    let replicas = || file.replicas_of(&myself.id).map(|node| peers.get(&node.id).unwrap_or(&Peer::Silent));
    if replicas().any(|peer| *peer == Peer::Loading) {
        return Verdict::Hold(Hold::ReplicaLoads);
    }
    if !memory.better.is_empty() {
        return Verdict::Hold(Hold::BetterCopySilent);
    }
    let silent = replicas().any(|peer| *peer == Peer::Silent);
    if followers.iter().any(|(_, copy)| compare(own, copy) == Compared::Complete) {
        return Verdict::Start(Start::Complete);
    }
    match (silent, followers.is_empty()) {
        (true, _) if memory.waited => Verdict::Start(Start::NobodyAnswers),
        (true, _) => Verdict::Hold(Hold::ReplicasSilent),
        (false, true) => Verdict::Start(Start::NobodyFollows),
        (false, false) => Verdict::Start(Start::Complete),
    }
}

/// How a node's own data stand against a replica's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// One lineage, and it has all that the replica has.
    Complete,
    /// The replica holds data, and this node lacks some of them or may.
    Lacks,
    /// Nothing can be said, and nothing of the replica's can be lost.
    Unrelated,
}

fn compare(own: &Own, copy: &Copy) -> Compared {
    if let Own::Rdb(Some(own)) = own {
        let same = own.lineage == copy.position.lineage;
        // The replica went on in another lineage, from a point that this node hasn't passed.
        let grew = copy.before.as_ref().is_some_and(|before| own.lineage == before.lineage && own.offset <= before.offset);
        if same || grew {
            return if copy.position.offset > own.offset { Compared::Lacks } else { Compared::Complete };
        }
    }
    if copy.holds { Compared::Lacks } else { Compared::Unrelated }
}

/// Those who answer and follow this node.
fn followers<'a>(of: &'a Node, peers: &'a Peers) -> impl Iterator<Item = (&'a Nodes, &'a Copy)> {
    peers.values().filter_map(move |peer| match peer {
        Peer::Answers(nodes, copy) if follows(nodes, of) => Some((nodes, copy)),
        _ => None,
    })
}

/// In its own view.
fn follows(nodes: &Nodes, of: &Node) -> bool {
    nodes.myself().follows.as_ref() == Some(&of.id)
}

/// What those who answer say of themselves.
fn answering(peers: &Peers) -> impl Iterator<Item = &Node> {
    peers.values().filter_map(|peer| match peer {
        Peer::Answers(nodes, _) if nodes.myself().owns_slots() => Some(nodes.myself()),
        _ => None,
    })
}

/// The one that wasn't asked or, if all were, whose turn it was longest ago; of these the furthest, of equals the first by id.
fn best<'a>(all: impl Iterator<Item = (&'a Nodes, &'a Copy)>, asked: &[String]) -> Option<&'a Nodes> {
    let last_turn = |nodes: &Nodes| asked.iter().rposition(|id| *id == nodes.myself().id).map_or(0, |turn| turn + 1);
    all.min_by_key(|(nodes, copy)| (last_turn(nodes), std::cmp::Reverse(copy.position.offset), nodes.myself().id.clone()))
        .map(|(nodes, _)| nodes)
}

/// Asks it, if it can win: more than half of the primaries with slots, as it counts them, answer.
fn elect(replica: &Nodes, peers: &Peers) -> Verdict {
    let voters: Vec<&str> = replica.voters().map(|node| node.id.as_str()).collect();
    let answering = answering(peers).filter(|node| voters.contains(&node.id.as_str())).count();
    if answering * 2 > voters.len() {
        Verdict::Ask(replica.myself().id.clone())
    } else {
        Verdict::Hold(Hold::NoMajority(answering, voters.len()))
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
