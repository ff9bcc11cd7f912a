//! What the hook does next, decided from what the server says and what was tried. Pure.
//!
//! # Guarantees
//! 1. A replica is asked once at most, and only one that is online and has acknowledged lately.
//! 2. Another's hand-over is waited for before one of ours is begun.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::info::{self, Attached};

/// Largest lag, in seconds, of a replica that can take over: it acknowledges once a second.
const LAG_SECONDS_MAX: u64 = 1;

/// What INFO replication says, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// The role it reports. While a FAILOVER runs it may report the new one already.
    pub(crate) role: Role,
    /// A FAILOVER is under way (`master_failover_state`).
    pub(crate) failover: bool,
    /// Its replicas.
    pub(crate) replicas: Vec<Attached>,
}

/// Who it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nobody: it takes writes.
    Primary,
    /// Another; `None` if its address isn't a literal one.
    Replica(Option<SocketAddr>),
}

/// Why there is nothing to hand over, or nothing left to do. Good news all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The instance is being deleted.
    InstanceEnds,
    /// The server's start was held back: nothing to hand over.
    NotStarted,
    /// A Sentinel has no role.
    Sentinel,
    /// Not a primary (any more).
    NotPrimary,
    /// A primary without a replica that could take over: this many are attached.
    NobodyToTakeOver(usize),
    /// Verified at both ends.
    HandedOver(SocketAddr),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstanceEnds => f.write_str("the instance is being deleted: no hand-over"),
            Self::NotStarted => f.write_str("the server hadn't been started: no hand-over"),
            Self::Sentinel => f.write_str("a Sentinel stops: no hand-over needed"),
            Self::NotPrimary => f.write_str("a replica stops: no hand-over needed"),
            Self::NobodyToTakeOver(0) => f.write_str("a primary stops, and no replica is attached: nothing to hand over to"),
            Self::NobodyToTakeOver(attached) => {
                write!(f, "a primary stops, and none of its {attached} replicas is synced: nothing to hand over to")
            }
            Self::HandedOver(to) => write!(f, "handed over to {to}"),
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing more.
    Done(Outcome),
    /// Somebody's FAILOVER runs: wait for its end.
    WaitForFailover,
    /// Replicas are there, none is able yet (or again): give them a moment.
    WaitForReplica,
    /// Ask this one.
    HandOver(SocketAddr),
    /// All that could take over were asked.
    Exhausted,
}

/// Reads INFO replication; `None` if it lacks the role.
pub(crate) fn view(info: &str) -> Option<View> {
    let role = match info::field(info, "role")? {
        "master" => Role::Primary,
        _ => Role::Replica(followed(info)),
    };
    // A server that doesn't know FAILOVER has no such field, and none running.
    let failover = info::field(info, "master_failover_state").is_some_and(|state| state != "no-failover");
    Some(View { role, failover, replicas: info::attached(info) })
}

fn followed(info: &str) -> Option<SocketAddr> {
    let ip: IpAddr = info::field(info, "master_host")?.parse().ok()?;
    Some(SocketAddr::new(ip, info::field(info, "master_port")?.parse().ok()?))
}

/// What the hook remembers between looks.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Replicas that were attached at some look. An attempt that is taken back may have cut them all off for a moment.
    pub(crate) seen: Vec<SocketAddr>,
    /// Those that didn't take over when asked.
    pub(crate) tried: Vec<SocketAddr>,
}

impl Memory {
    /// Takes in a look.
    pub(crate) fn note(&mut self, view: &View) {
        let new = view.replicas.iter().filter_map(|replica| replica.address);
        self.seen.extend(new);
        self.seen.sort_unstable();
        self.seen.dedup();
    }

    fn untried(&self) -> bool {
        self.seen.iter().any(|address| !self.tried.contains(address))
    }
}

/// The next step.
pub(crate) fn next(view: &View, memory: &Memory) -> Next {
    if view.failover {
        return Next::WaitForFailover;
    }
    if view.role != Role::Primary {
        return Next::Done(Outcome::NotPrimary);
    }
    match best(&view.replicas, &memory.tried) {
        Some(to) => Next::HandOver(to),
        None if memory.untried() => Next::WaitForReplica,
        None if !memory.tried.is_empty() => Next::Exhausted,
        None if view.replicas.is_empty() => Next::Done(Outcome::NobodyToTakeOver(0)),
        None => Next::WaitForReplica,
    }
}

/// The replica that loses least: online, synced (an offset of 0 is one that never was), acknowledging now, furthest.
/// Of equals the first by address, so that the choice doesn't depend on the order in which they attached.
fn best(replicas: &[Attached], tried: &[SocketAddr]) -> Option<SocketAddr> {
    let able = replicas.iter().filter(|replica| able(replica));
    able.filter_map(|replica| Some((replica.offset, replica.address?)))
        .filter(|(_, address)| !tried.contains(address))
        .max_by(|(one, first), (other, second)| one.cmp(other).then(second.cmp(first)))
        .map(|(_, address)| address)
}

/// Whether a replica could take over: online, synced once, acknowledging now.
pub(crate) fn able(replica: &Attached) -> bool {
    replica.online && replica.offset > 0 && replica.lag_seconds <= LAG_SECONDS_MAX
}

/// How a FAILOVER to a replica stands, by the server that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not decided. With equal offsets and a frozen replica it reports its new role at once and stays like this for ever.
    Runs,
    /// It follows the replica; what the replica says of itself is still to be asked.
    Follows,
    /// It is a primary as before.
    GivenUp,
    /// It follows somebody else: another's doing.
    Elsewhere,
}

/// Reads the progress of a FAILOVER to this address.
pub(crate) fn progress(view: &View, to: SocketAddr) -> Progress {
    match view.role {
        _ if view.failover => Progress::Runs,
        Role::Primary => Progress::GivenUp,
        Role::Replica(followed) if followed == Some(to) => Progress::Follows,
        Role::Replica(_) => Progress::Elsewhere,
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
