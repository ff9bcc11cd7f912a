//! Asks the nodes that a start hangs on: this node's replicas, and the primaries that would elect one.
//!
//! # Guarantees
//! - An answer counts for a node only if the node names its own id: an address may be another's by now.
//! - A look takes as long as its slowest node, with a bound, however many there are.
//!
//! # Flow
//! 1. Addresses come from `nodes.conf`; those of nodes that are silent there from the views of the others.
//! 2. Each is asked INFO and CLUSTER NODES at once, on a connection of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::decide::{self, Peer, Peers};
use super::nodes::{Node, Nodes};
use crate::resp::{self, Reply, RespError};

/// The account, at every node.
const USER: &str = "hook";
/// For one node. The next node or the next zone: an answer that takes longer will not come.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
/// Nodes that are asked at the same time. More would only cost memory for their threads.
const AT_ONCE: usize = 64;

/// The nodes to ask.
pub(crate) struct Asked<'a> {
    myself: &'a Node,
    password: &'a str,
    addresses: BTreeMap<String, Option<SocketAddr>>,
}

impl<'a> Asked<'a> {
    /// Those in the file.
    pub(crate) fn new(file: &'a Nodes, password: &'a str) -> Self {
        let mut asked = Self { myself: file.myself(), password, addresses: BTreeMap::new() };
        asked.learn(file, &Peers::new());
        asked
    }

    /// Asks all of them.
    pub(crate) fn look(&mut self) -> Peers {
        let mut peers = Peers::new();
        let all: Vec<_> = self.addresses.iter().collect();
        for some in all.chunks(AT_ONCE) {
            let answers = thread::scope(|scope| {
                let password = self.password;
                let asking: Vec<_> = some.iter().map(|(id, address)| scope.spawn(move || ask(id, **address, password))).collect();
                asking.into_iter().map(|thread| thread.join().unwrap_or(Peer::Silent)).collect::<Vec<_>>()
            });
            peers.extend(some.iter().map(|(id, _)| (*id).clone()).zip(answers));
        }
        let views: Vec<Nodes> = peers
            .values()
            .filter_map(|peer| match peer {
                Peer::Answers(nodes, _) => Some(nodes.clone()),
                _ => None,
            })
            .collect();
        for view in &views {
            self.learn(view, &peers);
        }
        peers
    }

    /// Orders a replica to take over with the votes of the others, without this node. OK means only that it tries.
    ///
    /// # Errors
    /// It doesn't answer or refuses.
    pub(crate) fn order(&self, id: &str) -> Result<(), RespError> {
        let Some(address) = self.addresses.get(id).copied().flatten() else { return Ok(()) };
        let command = ["CLUSTER", "FAILOVER", "FORCE"];
        resp::ask(address, USER, self.password, &command, Instant::now() + LOOK_TIMEOUT).map(|_| ())
    }

    /// Takes the addresses of a view, but not those of nodes that answer where they were asked.
    fn learn(&mut self, view: &Nodes, peers: &Peers) {
        let needed = view.voters().chain(view.replicas_of(&self.myself.id)).filter(|node| node.id != self.myself.id);
        for node in needed {
            let known = self.addresses.entry(node.id.clone()).or_default();
            let silent = !matches!(peers.get(&node.id), Some(Peer::Loading | Peer::Answers(..)));
            if silent && node.address.is_some() {
                *known = node.address;
            }
        }
    }
}

fn ask(id: &str, address: Option<SocketAddr>, password: &str) -> Peer {
    let Some(address) = address else { return Peer::Silent };
    let commands: [&[&str]; 2] = [&["INFO", "replication", "keyspace", "memory"], &["CLUSTER", "NODES"]];
    let Ok(replies) = resp::ask_all(address, USER, password, &commands, Instant::now() + LOOK_TIMEOUT) else {
        return Peer::Silent;
    };
    match replies.as_slice() {
        [Reply::Text(info), Reply::Text(nodes)] => match (decide::copy(info), Nodes::parse(nodes)) {
            (Some(copy), Ok(nodes)) if nodes.myself().id == id => Peer::Answers(nodes, copy),
            _ => Peer::Silent,
        },
        [_, Reply::Error(text)] if text.starts_with("LOADING") => Peer::Loading,
        _ => Peer::Silent,
    }
}
