//! One attempt to get a replica to take over, and the way of it in each architecture.
//!
//! # Guarantees
//! - No acknowledged write is lost: the primary holds writes back until the replica has all.
//! - Taken over means verified: this server follows the replica (or, with Sentinels, holds writes back until it stops), and on a
//!   new connection the replica says that it is the primary.
//! - An attempt that comes to nothing leaves a primary that takes writes; with Sentinels, once they can't be at it any more.
//!
//! # Assumptions
//! Whom to ask was decided by [`crate::handover`]: a cluster's server doesn't look whether the replica has ever been synced.
//!
//! # Flow, by way
//! - FAILOVER TO, at this server. Its own TIMEOUT doesn't always fire (with a frozen replica and equal offsets it stays a replica
//!   of nobody's primary for ever): our clock runs, and FAILOVER ABORT takes it back.
//! - CLUSTER FAILOVER, at the replica. This server holds writes back for as long as the replica tries, and goes on by itself.
//!   The replica learns by the same messages which slots it takes over.
//! - SENTINEL FAILOVER, at a Sentinel ([`crate::sentinels`]).

use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::handover::{self, Progress, View};
use crate::resp::{self, Reply, RespError};
use crate::sentinels::{Sentinels, SentinelsError};

/// The account, at every server.
pub(crate) const USER: &str = "hook";
/// Between two looks. A look takes a server some 30 µs; a hand-over takes up to a second, most of it waiting for the replica's
/// next acknowledgement, and nothing tells its end but looking.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For one look. Loopback or the next node: an answer that takes longer will not come.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
/// Our clock runs this much longer than the server's, which gives up the cleaner way when it does.
pub(crate) const ABORT_AFTER: Duration = Duration::from_millis(500);

/// Who moves the role.
#[derive(Debug)]
pub(crate) enum Way {
    /// The primary, asked by FAILOVER TO.
    Primary,
    /// The replica, asked by CLUSTER FAILOVER.
    Replica,
    /// Sentinels.
    Sentinels(Sentinels),
}

/// Why a replica didn't take over.
#[derive(Debug)]
pub(crate) enum Why {
    /// The server refused to hand over to it.
    Refused(RespError),
    /// It was too slow, and the server gave up.
    TooSlow,
    /// Nothing came of it, and it was taken back.
    Aborted,
    /// This server follows it, but it doesn't say that it is the primary.
    NotVerified,
    /// This server follows another one.
    Elsewhere,
    /// No Sentinel did it, or it would have lost something.
    Sentinels(SentinelsError),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::TooSlow => f.write_str("it didn't catch up in time"),
            Self::Aborted => f.write_str("it didn't answer, the hand-over was taken back"),
            Self::NotVerified => f.write_str("this server follows it, but it doesn't say that it is the primary"),
            Self::Elsewhere => f.write_str("this server follows another one now"),
            Self::Sentinels(error) => error.fmt(f),
        }
    }
}

/// The server beside us.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The hook's, here and everywhere.
    pub(crate) password: String,
}

impl Server {
    /// One command to a server, as the hook.
    pub(crate) fn ask(&self, server: SocketAddr, command: &[&str]) -> Result<Reply, RespError> {
        resp::ask(server, USER, &self.password, command, Instant::now() + LOOK_TIMEOUT)
    }

    /// What the server here is, and who follows it.
    pub(crate) fn look(&self) -> Result<View, RespError> {
        let invalid = || RespError::ReplyInvalid(self.address, "no role to INFO replication");
        match self.ask(self.address, &["INFO", "replication"])? {
            Reply::Text(info) => handover::view(&info).ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }

    /// Gets one replica to take over and waits for the end of it, by `end` at the latest. Says who took over: a Sentinel may
    /// choose another.
    pub(crate) fn attempt(
        &self,
        way: &Way,
        view: &View,
        to: SocketAddr,
        time: Duration,
        end: Instant,
    ) -> Result<SocketAddr, Why> {
        match way {
            Way::Primary => self.ask_primary(to, time).map(|()| to),
            Way::Replica => self.ask_replica(to, time).map(|()| to),
            Way::Sentinels(sentinels) => sentinels.hand_over(self, view, time, end).map_err(Why::Sentinels),
        }
    }

    fn ask_primary(&self, to: SocketAddr, time: Duration) -> Result<(), Why> {
        let (host, port, timeout) = (to.ip().to_string(), to.port().to_string(), time.as_millis().to_string());
        let ours = Instant::now() + time + ABORT_AFTER;
        accepted(self.ask(self.address, &["FAILOVER", "TO", &host, &port, "TIMEOUT", &timeout]))?;
        let ended = |progress| progress != Progress::Runs;
        match self.watch(to, ours, ended) {
            Progress::Follows => self.verify(to, ours),
            Progress::GivenUp => Err(Why::TooSlow),
            Progress::Elsewhere => Err(Why::Elsewhere),
            // It has the role, and only this server hasn't learnt of it (the link between them broke): taken back there would be
            // two.
            Progress::Runs if self.verify(to, Instant::now()).is_ok() => Ok(()),
            Progress::Runs => {
                self.abort();
                // It may have come about just before: then it is as good as in time.
                match self.watch(to, Instant::now() + LOOK_TIMEOUT, ended) {
                    Progress::Follows => self.verify(to, Instant::now() + LOOK_TIMEOUT),
                    _ => Err(Why::Aborted),
                }
            }
        }
    }

    /// OK means only that the replica tries; until its own time is up nothing tells that it has given up, so we wait as long.
    fn ask_replica(&self, to: SocketAddr, time: Duration) -> Result<(), Why> {
        let ours = Instant::now() + time + ABORT_AFTER;
        accepted(self.ask(to, &["CLUSTER", "FAILOVER"]))?;
        match self.watch(to, ours, |progress| matches!(progress, Progress::Follows | Progress::Elsewhere)) {
            Progress::Follows => self.verify(to, ours),
            Progress::Elsewhere => Err(Why::Elsewhere),
            Progress::GivenUp | Progress::Runs if self.verify(to, Instant::now()).is_ok() => Ok(()),
            Progress::GivenUp | Progress::Runs => Err(Why::TooSlow),
        }
    }

    /// Looks until it has ended or the time is up. A look that fails tells nothing: the server may be busy with the change.
    fn watch(&self, to: SocketAddr, until: Instant, ended: impl Fn(Progress) -> bool) -> Progress {
        loop {
            let progress = self.look().map_or(Progress::Runs, |view| handover::progress(&view, to));
            if ended(progress) || Instant::now() >= until {
                return progress;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The replica's own word for it.
    fn verify(&self, to: SocketAddr, until: Instant) -> Result<(), Why> {
        loop {
            if self.is_primary(to) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Why::NotVerified);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether a server says that it is a primary. No answer is no yes.
    pub(crate) fn is_primary(&self, server: SocketAddr) -> bool {
        let role = self.ask(server, &["ROLE"]);
        matches!(role, Ok(Reply::List(role)) if role.first() == Some(&Reply::Text("master".to_owned())))
    }

    /// Takes a FAILOVER back. An error means that none runs any more; the next look tells.
    pub(crate) fn abort(&self) {
        let _ = self.ask(self.address, &["FAILOVER", "ABORT"]);
    }
}

/// Whether an order may have been taken. After silence it may: looking tells.
fn accepted(answer: Result<Reply, RespError>) -> Result<(), Why> {
    match answer {
        Ok(_) | Err(RespError::ServerSilent(_) | RespError::ConnectionLost(..)) => Ok(()),
        Err(error) => Err(Why::Refused(error)),
    }
}
