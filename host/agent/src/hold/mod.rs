//! A node of a cluster doesn't start as an empty primary that wipes its replicas.
//!
//! # Guarantees
//! - A node that its `nodes.conf` calls a primary with slots and replicas starts only when [`decide`] says that nothing is lost
//!   by it.
//! - Nothing is written: `nodes.conf` and the data are the server's. A file that can't be read stays, and the start fails.
//! - While it waits every command on the client port is answered with `-HELD behind: reason` (a replica has more) or `-HELD
//!   waiting: reason` (it isn't known yet); peers see a node that is down and may elect another.
//!
//! # Assumptions
//! A replica's order to take over by force needs the votes of a majority of primaries and no word of this node; it is done or
//! given up within [`ATTEMPT`].
//!
//! # Flow
//! 1. Read `nodes.conf` and what data there are; most starts are decided by these two.
//! 2. Ask replicas and primaries, decide.
//! 3. Ask a replica to take over, or wait; look again until it may start. For replicas that are silent from the start on: two
//!    node timeouts.

mod answer;
mod data;
mod decide;
mod nodes;
mod peers;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use crate::args::Serve;
use crate::files::{self, FileError};
use crate::render::value;
use answer::Answering;
use data::Own;
use decide::{Memory, Peers, Start, Verdict};
use nodes::{Nodes, NodesError};
use peers::Asked;

/// Between two looks while a replica takes over, which takes some 10 to 50 ms.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// Between two looks otherwise: somebody who comes back, or an operator's order. A look takes a node some 100 µs.
const LOOK_LATER: Duration = Duration::from_millis(500);
/// How long a replica tries to be elected (`cluster-manual-failover-timeout`), and a little more.
const ATTEMPT: Duration = Duration::from_millis(5500);
/// The server's own `cluster-node-timeout`, where the configuration says nothing.
const NODE_TIMEOUT_MS: u64 = 15_000;

/// Why it can't be decided whether to start.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// A mounted file.
    File(FileError),
    /// `nodes.conf` is no view of a cluster.
    NodesInvalid(PathBuf, NodesError),
    /// Data that are there and can't be looked at.
    DataUnreadable(PathBuf, io::Error),
    /// Nobody can be told why this waits.
    AddressTaken(SocketAddr, io::Error),
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::NodesInvalid(path, error) => write!(
                f,
                "{}: {error}; the server doesn't start, since it would forget its cluster. If other nodes own its slots or hold its \
                 data, delete this file and the node joins anew; else restore it",
                path.display()
            ),
            Self::DataUnreadable(path, error) => write!(f, "{}: {error}; check the pod's volumes", path.display()),
            Self::AddressTaken(address, error) => write!(f, "can't listen on {address}: {error}; the pod's address must be this"),
        }
    }
}

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The server may start.
    Start,
    /// The pod stops.
    Stop,
}

/// Waits until the server may start.
///
/// # Errors
/// See [`HoldError`].
pub(crate) fn until_safe(start: &Serve, conf: &str) -> Result<Ended, HoldError> {
    let name = value(conf, "cluster-config-file").filter(|name| !name.is_empty()).unwrap_or("nodes.conf");
    let Some(file) = read(&start.data, name)? else { return Ok(Ended::Start) };
    if let Some(node) = file.two_shards() {
        let path = start.data.join(name);
        eprintln!(
            "agent: {}: node {} is in another shard than its primary; if the server (7.2) calls the file corrupted: delete the file \
             if other nodes own its slots or hold its data, and the node joins anew",
            path.display(),
            node.id
        );
    }
    let own = data::look(&start.data, conf).map_err(|(path, error)| HoldError::DataUnreadable(path, error))?;
    match decide::decide(&file, &own, &Peers::new(), &Memory::default()) {
        Verdict::Start(_) => Ok(Ended::Start),
        _ => hold(start, &file, &own, patience(conf)),
    }
}

/// The file's view; `None` where the server will begin a new one.
fn read(data: &Path, name: &str) -> Result<Option<Nodes>, HoldError> {
    let text = match files::text(data, name) {
        Err(FileError::FileUnreadable(_, error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(HoldError::File)?,
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    Nodes::parse(&text).map(Some).map_err(|error| HoldError::NodesInvalid(data.join(name), error))
}

/// How long somebody is waited for who doesn't answer: two node timeouts, by then the others have agreed who is down.
fn patience(conf: &str) -> Duration {
    let timeout = value(conf, "cluster-node-timeout").and_then(|ms| ms.parse().ok()).unwrap_or(NODE_TIMEOUT_MS);
    Duration::from_millis(timeout.saturating_mul(2))
}

fn hold(start: &Serve, file: &Nodes, own: &Own, patience: Duration) -> Result<Ended, HoldError> {
    let password = files::password(&start.accounts, "hook").map_err(HoldError::File)?;
    let answering =
        Answering::start(start.ip, start.port, &password).map_err(|(address, error)| HoldError::AddressTaken(address, error))?;
    answering.say(&standing(&Memory::default(), "the server looks for its replicas before it starts"));
    let mut asked = Asked::new(file, &password);
    let mut memory = Memory::default();
    let (begin, mut attempt_ends, mut said) = (Instant::now(), None, String::new());
    loop {
        let peers = asked.look();
        memory.note(file, own, &peers);
        memory.waited = begin.elapsed() >= patience;
        let now = Instant::now();
        let attempted = attempt_ends.is_some_and(|ends| now < ends);
        let line = match decide::decide(file, own, &peers, &memory) {
            Verdict::Start(why) => return Ok(started(why)),
            Verdict::Hold(why) => standing(&memory, &why.to_string()),
            Verdict::Ask(_) if attempted => said.clone(),
            Verdict::Ask(id) => {
                attempt_ends = Some(now + ATTEMPT);
                let line = match asked.order(&id) {
                    Ok(()) => format!("node {id} has data that this primary lacks and was asked to take over"),
                    Err(error) => format!("node {id} has data that this primary lacks and can't be asked to take over: {error}"),
                };
                memory.asked.push(id);
                standing(&memory, &line)
            }
        };
        if line != said {
            eprintln!("agent: held: {line}");
            answering.say(&line);
            said = line;
        }
        let pause = if attempt_ends.is_some_and(|ends| Instant::now() < ends) { LOOK_SOON } else { LOOK_LATER };
        match answering.ended.recv_timeout(pause) {
            Ok(()) => return Ok(Ended::Stop),
            // Disconnected can't be: the listeners never end.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

/// What is said, behind one word for whoever decides on a takeover: `behind` only while a replica has more than this node,
/// `waiting` as long as this node may well have all.
fn standing(memory: &Memory, line: &str) -> String {
    format!("{}: {line}", if memory.better.is_empty() { "waiting" } else { "behind" })
}

fn started(why: Start) -> Ended {
    eprintln!("agent: the server starts: {why}");
    Ended::Start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_two_node_timeouts() {
        for (conf, ms) in [("", 30_000), ("cluster-node-timeout 2000\n", 4_000), ("cluster-node-timeout x\n", 30_000)] {
            assert_eq!(patience(conf), Duration::from_millis(ms), "{conf}");
        }
    }
}
