//! `hook pre-stop`: a primary doesn't stop before another has taken over, if there is one that can.
//!
//! # Guarantees
//! - No acknowledged write is lost by the hand-over: the server holds writes back until the replica has all (`FAILOVER`).
//! - Handed over means verified: this server follows the replica, and on a new connection the replica says that it is the primary.
//! - A hand-over that doesn't come about is taken back (`FAILOVER ABORT`) by our clock, and the server takes writes again. Its own
//!   TIMEOUT doesn't always fire: with a frozen replica and equal offsets it stays a replica of nobody's primary for ever.
//! - It ends within the grace period less a quarter of it, which is left for the server's own stop (a last save).
//!
//! # Assumptions
//! The kubelet stops the server whatever we answer. A failure is reported by exit code 1: then the kubelet shows our line in an event of
//! the pod (FailedPreStopHook). Where stopping is right the code is 0.
//!
//! # Flow
//! 1. `ending` says `yes`: the instance goes, nothing to do.
//! 2. Look (a new connection, INFO replication), decide by [`handover::next`].
//! 3. Another's FAILOVER runs: wait for it, for half of the time at most, then take it back: nobody cares for it.
//! 4. Ask the best replica; wait until it is verified, given up, or our clock runs out; then the next replica.

use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::args::{PreStop, local_address};
use crate::files::{self, FileError};
use crate::handover::{self, Memory, Next, Outcome, Progress, View};
use crate::resp::{self, Reply, RespError};

/// The account, here and at the new primary.
const USER: &str = "hook";
/// Between two looks. A look takes a server some 30 µs; a hand-over takes 0.4 to 1 s, most of it waiting for the replica's next
/// acknowledgement, and nothing tells its end but looking.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For one look. Loopback or the next node: an answer that takes longer will not come.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long writes may be held back for one replica. It needs one acknowledgement, one a second, and what it lags behind.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
/// An attempt shorter than this would end before a healthy replica's next acknowledgement.
const ATTEMPT_MIN: Duration = Duration::from_millis(1500);
/// Our clock runs this much longer than the server's, which gives up the cleaner way when it does.
const ABORT_AFTER: Duration = Duration::from_millis(500);
/// For replicas that are there and not able: a lag of 2 s is over in one, one that was cut off by a failed attempt is back in less; a
/// full sync isn't waited for.
const REPLICA_PATIENCE: Duration = Duration::from_secs(3);

/// Why the hand-over that was due didn't happen.
#[derive(Debug)]
pub(crate) enum HookError {
    /// The password's file.
    File(FileError),
    /// The server here doesn't say what it is.
    ServerUnknown(RespError),
    /// Replicas were asked, and none took over. The last one, and why.
    NotTakenOver(SocketAddr, Why),
    /// Another's FAILOVER, which doesn't end even after it was taken back.
    FailoverStuck,
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
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "no hand-over: {error}"),
            Self::ServerUnknown(error) => write!(f, "no hand-over, the server's role is unknown: {error}"),
            Self::NotTakenOver(to, why) => write!(f, "the primary stops without a hand-over; {to} was asked last: {why}"),
            Self::FailoverStuck => f.write_str("the primary stops in a FAILOVER that doesn't end"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::TooSlow => f.write_str("it didn't catch up in time"),
            Self::Aborted => f.write_str("it didn't answer, the hand-over was taken back"),
            Self::NotVerified => f.write_str("this server follows it, but it doesn't say that it is the primary"),
            Self::Elsewhere => f.write_str("this server follows another one now"),
        }
    }
}

/// Hands over if there is something to hand over and somebody to take it.
///
/// # Errors
/// A hand-over was due and didn't happen.
pub(crate) fn pre_stop(stop: &PreStop) -> Result<Outcome, HookError> {
    // Anything but a clear yes: hand over, which is never wrong.
    if files::text(&stop.conf, "ending").is_ok_and(|text| text.trim() == "yes") {
        return Ok(Outcome::InstanceEnds);
    }
    let password = files::password(&stop.accounts, USER).map_err(HookError::File)?;
    let now = Instant::now();
    let server = Server { address: SocketAddr::new(local_address(stop.ip), stop.port), password };
    let limits = Limits {
        foreign: now + stop.grace / 2,
        end: now + stop.grace / 4 * 3,
        patience: now + REPLICA_PATIENCE.min(stop.grace / 4),
    };
    hand_over(&server, limits)
}

/// Until when what is done.
#[derive(Clone, Copy)]
struct Limits {
    /// Until when another's FAILOVER is waited for.
    foreign: Instant,
    /// Until when replicas that aren't synced, or a server that doesn't answer, are waited for.
    patience: Instant,
    /// The end of everything but clearing up.
    end: Instant,
}

fn hand_over(server: &Server, mut limits: Limits) -> Result<Outcome, HookError> {
    let mut memory = Memory::default();
    let mut failed = None;
    loop {
        let now = Instant::now();
        let view = match server.look() {
            Ok(view) => view,
            Err(error) if now >= limits.patience => return Err(HookError::ServerUnknown(error)),
            Err(_) => {
                thread::sleep(LOOK_EVERY);
                continue;
            }
        };
        memory.note(&view);
        match handover::next(&view, &memory) {
            // It was a primary when we asked: that it isn't now must be somebody's we asked, or else verified by nobody.
            Next::Done(Outcome::NotPrimary) if failed.is_some() => return give_up(failed),
            Next::Done(outcome) => return Ok(outcome),
            Next::WaitForReplica if now >= limits.patience && failed.is_some() => return give_up(failed),
            Next::WaitForReplica if now >= limits.patience => return Ok(Outcome::NobodyToTakeOver(view.replicas.len())),
            Next::WaitForFailover if now >= limits.end => return Err(HookError::FailoverStuck),
            Next::WaitForFailover if now >= limits.foreign => server.abort(),
            Next::WaitForReplica | Next::WaitForFailover => {}
            Next::Exhausted => return give_up(failed),
            Next::HandOver(to) => {
                let Some(attempt) = attempt_time(limits.end.saturating_duration_since(now)) else { return give_up(failed) };
                match server.attempt(to, attempt) {
                    Ok(()) => return Ok(Outcome::HandedOver(to)),
                    // Somebody else's began between look and order: the next look waits for it.
                    Err(Why::Refused(RespError::CommandRefused(_, text))) if text.contains("already in progress") => {}
                    Err(why) => {
                        failed = Some((to, why));
                        memory.tried.push(to);
                        limits.patience = limits.end.min(Instant::now() + REPLICA_PATIENCE);
                    }
                }
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn give_up(failed: Option<(SocketAddr, Why)>) -> Result<Outcome, HookError> {
    // Without an attempt the time was up with a foreign FAILOVER.
    failed.map_or(Err(HookError::FailoverStuck), |(to, why)| Err(HookError::NotTakenOver(to, why)))
}

/// How long one attempt may take of what is left: half of it, so that another replica can be asked; `None` if that is too short.
fn attempt_time(left: Duration) -> Option<Duration> {
    let attempt = (left / 2).clamp(ATTEMPT_MIN, ATTEMPT_MAX);
    (attempt + ABORT_AFTER <= left).then_some(attempt)
}

/// The server beside us.
struct Server {
    address: SocketAddr,
    password: String,
}

impl Server {
    fn ask(&self, server: SocketAddr, command: &[&str]) -> Result<Reply, RespError> {
        resp::ask(server, USER, &self.password, command, Instant::now() + LOOK_TIMEOUT)
    }

    fn look(&self) -> Result<View, RespError> {
        let invalid = || RespError::ReplyInvalid(self.address, "no role to INFO replication");
        match self.ask(self.address, &["INFO", "replication"])? {
            Reply::Text(info) => handover::view(&info).ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }

    /// Asks one replica to take over and waits for the end of it.
    fn attempt(&self, to: SocketAddr, time: Duration) -> Result<(), Why> {
        let (host, port, timeout) = (to.ip().to_string(), to.port().to_string(), time.as_millis().to_string());
        let ours = Instant::now() + time + ABORT_AFTER;
        match self.ask(self.address, &["FAILOVER", "TO", &host, &port, "TIMEOUT", &timeout]) {
            // Silence: it may have been accepted; looking tells.
            Ok(_) | Err(RespError::ServerSilent(_) | RespError::ConnectionLost(..)) => {}
            Err(error) => return Err(Why::Refused(error)),
        }
        let ended = |progress| progress != Progress::Runs;
        match self.watch(to, ours, ended) {
            Progress::Follows => self.verify(to, ours),
            Progress::GivenUp => Err(Why::TooSlow),
            Progress::Elsewhere => Err(Why::Elsewhere),
            // It has the role, and only this server hasn't learnt of it (the link between them broke): taken back there would be two.
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
            if let Ok(Reply::List(role)) = self.ask(to, &["ROLE"])
                && role.first() == Some(&Reply::Text("master".to_owned()))
            {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Why::NotVerified);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Takes a FAILOVER back. An error means that none runs any more; the next look tells.
    fn abort(&self) {
        let _ = self.ask(self.address, &["FAILOVER", "ABORT"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_leaves_time_for_another() {
        let ms = Duration::from_millis;
        for (left, expected) in [
            (ms(90_000), Some(ATTEMPT_MAX)),
            (ms(8_000), Some(ms(4_000))),
            (ms(2_500), Some(ATTEMPT_MIN)),
            (ms(2_000), Some(ATTEMPT_MIN)),
            (ms(1_999), None),
            (ms(0), None),
        ] {
            assert_eq!(attempt_time(left), expected, "{left:?}");
        }
    }
}
