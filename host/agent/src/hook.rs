//! `hook pre-stop`: a primary doesn't stop before another has taken over, if there is one that can.
//!
//! # Guarantees
//! - No acknowledged write is lost by the hand-over, and handed over means verified ([`crate::attempt`]).
//! - A hand-over that doesn't come about is taken back, and the server takes writes again.
//! - It ends within the grace period less a quarter of it, which is left for the server's own stop (a last save).
//!
//! # Assumptions
//! The kubelet stops the server whatever we answer. A failure is reported by exit code 1: then the kubelet shows our line in an
//! event of the pod (FailedPreStopHook). Where stopping is right the code is 0.
//!
//! # Flow
//! 1. A Sentinel, or `ending` says `yes` (the instance goes): nothing to do.
//! 2. Look (a new connection, INFO replication), decide by [`handover::next`]. A server whose start is held back is told to stop.
//! 3. Another's FAILOVER runs: wait for it, for half of the time at most, then take it back: nobody cares for it.
//! 4. Ask the best replica to take over, the architecture's way; wait until it is verified, given up, or our clock runs out; then
//!    the next replica.

use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::args::{Mode, PreStop, local_address};
use crate::attempt::{ABORT_AFTER, LOOK_EVERY, LOOK_TIMEOUT, Server, USER, Way, Why};
use crate::files::{self, FileError};
use crate::handover::{self, Memory, Next, Outcome};
use crate::resp::{self, RespError};
use crate::sentinels::{Sentinels, SentinelsError};

/// How long writes may be held back for one replica. It needs one acknowledgement, one a second, and what it lags behind.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
/// An attempt shorter than this would end before a healthy replica's next acknowledgement.
const ATTEMPT_MIN: Duration = Duration::from_millis(1500);
/// For replicas that are there and not able: a lag of 2 s is over in one, one that was cut off by a failed attempt is back in
/// less; a full sync isn't waited for.
const REPLICA_PATIENCE: Duration = Duration::from_secs(3);

/// Why the hand-over that was due didn't happen.
#[derive(Debug)]
pub(crate) enum HookError {
    /// The password's file.
    File(FileError),
    /// It isn't known whom to ask.
    Sentinels(SentinelsError),
    /// The server here doesn't say what it is.
    ServerUnknown(RespError),
    /// Replicas were asked, and none took over. The last one, and why.
    NotTakenOver(SocketAddr, Why),
    /// Another's FAILOVER, which doesn't end even after it was taken back.
    FailoverStuck,
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "no hand-over: {error}"),
            Self::Sentinels(error) => write!(f, "no hand-over: {error}"),
            Self::ServerUnknown(error) => write!(f, "no hand-over, the server's role is unknown: {error}"),
            Self::NotTakenOver(to, why) => write!(f, "the primary stops without a hand-over; {to} was asked last: {why}"),
            Self::FailoverStuck => f.write_str("the primary stops in a FAILOVER that doesn't end"),
        }
    }
}

/// Hands over if there is something to hand over and somebody to take it.
///
/// # Errors
/// A hand-over was due and didn't happen.
pub(crate) fn pre_stop(stop: &PreStop) -> Result<Outcome, HookError> {
    if stop.mode == Mode::Sentinel {
        return Ok(Outcome::Sentinel);
    }
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
    let way = match stop.mode {
        Mode::Data | Mode::Sentinel => Way::Primary,
        Mode::Cluster => Way::Replica,
        Mode::Failover => Way::Sentinels(Sentinels::read(&stop.conf, &stop.accounts).map_err(HookError::Sentinels)?),
    };
    hand_over(&server, &way, limits)
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

fn hand_over(server: &Server, way: &Way, mut limits: Limits) -> Result<Outcome, HookError> {
    let mut memory = Memory::default();
    let mut failed = None;
    loop {
        let now = Instant::now();
        let view = match server.look() {
            Ok(view) => view,
            Err(RespError::Held(..)) => {
                end_hold(server);
                return Ok(Outcome::NotStarted);
            }
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
                match server.attempt(way, &view, to, attempt, limits.end) {
                    Ok(to) => return Ok(Outcome::HandedOver(to)),
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

/// The agent that holds the start back has no way of its own to hear that the pod stops. Should it not hear us, the kubelet kills
/// it.
fn end_hold(server: &Server) {
    let commands: [&[&str]; 2] = [&["AUTH", USER, &server.password], &["SHUTDOWN"]];
    let _ = resp::exchange(server.address, &commands, Instant::now() + LOOK_TIMEOUT);
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
