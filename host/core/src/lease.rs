//! One operator acts: leader election by a `coordination.k8s.io/v1` Lease.
//!
//! # Guarantees
//! 1. At most one operator believes to hold the Lease at any time. A holder counts [`DURATION`] from before it *sent* its last
//!    confirmed renewal; everybody else counts it from after they *saw* that renewal. So the holder always stops first.
//! 2. [`LeaseState::is_leader`] turns false at that moment by the clock alone, even when the task that renews hangs.
//! 3. [`LeaseState::covers`] is true only when a command with that deadline ends, with [`MARGIN`] to spare, before anybody else
//!    may act. So a successor needs to wait out the Lease and nothing more: the longest deadline lies inside.
//! 4. A successor that takes over from a holder who didn't release is told so (`after_ungraceful`): commands that the old holder
//!    sent may still lie in some server's socket buffer, and it cuts those sessions before it acts.
//! 5. A quiet holder costs one PUT every [`RENEW`]; a standby costs one GET every [`POLL`]. No watch: what a standby decides
//!    rests on an answer that it has just read, never on a cache that may be late.
//!
//! # Assumptions
//! - Monotonic clocks of different machines run at the same speed within 10 % ([`MARGIN`] of [`DURATION`]). Wall clocks are
//!   written for people to read and are never compared.
//! - The API server's writes under a resourceVersion are linearisable.
//! - Nobody deletes the Lease while its holder can't write it: an operator that never saw it takes that for a first start, makes
//!   it anew, and both lead until the holder's hold ends. The ledger bears that ([`crate::store`]).
//! - The identity is new in each start of the process (a pod name alone isn't: a container that restarts would take its own old
//!   Lease for held).
//!
//! # Flow (one round of [`Elector`])
//! 1. The holder writes its renewal straight away, under the resourceVersion of its last write.
//! 2. Everybody else, and a holder who was refused, reads the Lease and [`decide`]s: create, renew, take or wait.
//! 3. A confirmed write moves the end of the hold; the first one announces [`Transition::Acquired`].
//! 4. The end of the hold, or the sight of another holder, announces [`Transition::Lost`].
//! 5. A graceful stop announces `Lost` and empties the holder, so that a successor starts at its next look.

mod elector;
#[cfg(test)]
mod elector_tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::object::Object;
use crate::world::{Clock, Shared};

pub use elector::{Elector, LeaseOptions};

/// How long a hold lasts without renewal. Long enough for two renewals to fail.
pub const DURATION: Duration = Duration::from_secs(15);
/// Between two renewals of the holder.
pub const RENEW: Duration = Duration::from_secs(5);
/// Between two looks of a standby: bounds how long nobody acts after a graceful stop.
pub const POLL: Duration = Duration::from_secs(2);
/// Between two tries of a holder whose renewal failed.
pub const RETRY: Duration = Duration::from_secs(1);
/// Deadline of each request: three of them, with pauses, fit between the first failed renewal and the end of the hold.
pub const REQUEST: Duration = Duration::from_secs(3);
/// What must remain of the hold beyond the deadline of a dangerous command: clock drift and the way to the server.
pub const MARGIN: Duration = Duration::from_secs(2);

/// What a Lease object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty when released.
    pub holder: String,
    /// For how long after each renewal.
    pub duration: Duration,
    /// `renewTime` as written. Only ever compared for being another one.
    pub renewed: String,
    /// How often the holder changed.
    pub transitions: u64,
}

impl Record {
    /// Reads a Lease. A missing or zero duration counts as ours: waiting too long is safe.
    pub fn read(lease: &Object) -> Self {
        let seconds = lease.number("/spec/leaseDurationSeconds").unwrap_or(0);
        Self {
            holder: lease.text("/spec/holderIdentity").to_owned(),
            duration: if seconds == 0 { DURATION } else { Duration::from_secs(seconds) },
            renewed: lease.text("/spec/renewTime").to_owned(),
            transitions: lease.number("/spec/leaseTransitions").unwrap_or(0),
        }
    }
}

/// A record and since when, by our own monotonic clock, we have known it unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// What was read.
    pub record: Record,
    /// When it was first read like this: a time after the answer came.
    pub since: Duration,
}

impl Sighting {
    /// The sighting after another look. Only another holder, renewal or transition count is news: a label that somebody edits on
    /// the Lease doesn't prolong the wait.
    pub fn next(previous: Option<&Self>, record: Record, now: Duration) -> Self {
        match previous {
            Some(known) if known.record == record => known.clone(),
            _ => Self { record, since: now },
        }
    }

    /// When the hold of the one who is named ends, as far as we can tell.
    pub fn end(&self) -> Duration {
        self.since.saturating_add(self.record.duration)
    }
}

/// What to do about the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Create it with us as the holder.
    Create {
        /// It vanished while another held it.
        after_ungraceful: bool,
    },
    /// Write a new `renewTime`: it names us.
    Renew,
    /// Write us as the holder.
    Take {
        /// The last holder didn't release it.
        after_ungraceful: bool,
    },
    /// Another holds it, for so long at most.
    Wait(Duration),
}

/// What to do about the Lease: `found` says whether the last read found one, `last` is the newest sighting (of a Lease that has
/// vanished since, when it wasn't found), `now` is our monotonic clock.
pub fn decide(found: bool, last: Option<&Sighting>, me: &str, now: Duration) -> Action {
    let Some(sighting) = last else {
        return Action::Create { after_ungraceful: false };
    };
    let holder = sighting.record.holder.as_str();
    let left = sighting.end().saturating_sub(now);
    match (found, holder) {
        (true, "") => Action::Take { after_ungraceful: false },
        (true, holder) if holder == me => Action::Renew,
        (true, _) if left.is_zero() => Action::Take { after_ungraceful: true },
        (false, "") => Action::Create { after_ungraceful: false },
        (false, holder) if holder == me => Action::Create { after_ungraceful: false },
        // Somebody deleted the Lease. The one whom it named doesn't know yet, and acts until the end of its hold.
        (false, _) if left.is_zero() => Action::Create { after_ungraceful: true },
        _ => Action::Wait(left),
    }
}

/// Where we stand. A watch channel keeps the newest only: `term` tells a reader who missed a loss in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// Never held it.
    Standby,
    /// We hold it.
    Acquired {
        /// Counts our holds, from 1.
        term: u64,
        /// The last holder, or we in our last hold, ended without releasing: commands of then may still be on their way. Cut the
        /// operator account's other sessions on each server before acting on it.
        after_ungraceful: bool,
    },
    /// We held it and don't any more. Close all connections to servers.
    Lost {
        /// The hold that ended.
        term: u64,
    },
}

/// Whether we may act, for everybody who acts. Cheap to clone and to ask.
#[derive(Clone)]
pub struct LeaseState(Arc<State>);

struct State {
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    /// End of the hold, nanoseconds of the monotonic clock; 0 when we don't hold it.
    until: AtomicU64,
    /// Start of the hold, likewise; meaningless when `until` is 0.
    since: AtomicU64,
    transition: watch::Sender<Transition>,
}

impl LeaseState {
    fn new<C: Clock>(clock: Shared<C>) -> Self {
        Self(Arc::new(State {
            now: Box::new(move || clock.monotonic()),
            until: AtomicU64::new(0),
            since: AtomicU64::new(0),
            transition: watch::Sender::new(Transition::Standby),
        }))
    }

    /// For a world that no other operator can reach (servers of our own on loopback): held from now on and for ever.
    pub fn alone<C: Clock>(clock: Shared<C>) -> Self {
        let state = Self::new(clock);
        let now = (state.0.now)();
        state.acquire(now, Duration::from_nanos(u64::MAX), 1, false);
        state
    }

    /// What is left of the hold; zero when we don't hold it.
    pub fn remaining(&self) -> Duration {
        Duration::from_nanos(self.0.until.load(Ordering::Acquire)).saturating_sub((self.0.now)())
    }

    /// Whether we hold it.
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Whether a dangerous command with this deadline may start: it ends, with [`MARGIN`] to spare, within the hold.
    pub fn covers(&self, deadline: Duration) -> bool {
        self.remaining() > deadline.saturating_add(MARGIN)
    }

    /// Since when we hold it, by the monotonic clock; `None` when we don't.
    pub fn held_since(&self) -> Option<Duration> {
        self.is_leader().then(|| Duration::from_nanos(self.0.since.load(Ordering::Acquire)))
    }

    /// Where we stand, and changes of it.
    pub fn transitions(&self) -> watch::Receiver<Transition> {
        self.0.transition.subscribe()
    }

    fn acquire(&self, now: Duration, until: Duration, term: u64, after_ungraceful: bool) {
        self.0.since.store(nanos(now), Ordering::Release);
        self.extend(until);
        self.0.transition.send_replace(Transition::Acquired { term, after_ungraceful });
    }

    fn extend(&self, until: Duration) {
        self.0.until.store(nanos(until), Ordering::Release);
    }

    /// The end comes before the announcement: whoever hears of it finds `is_leader` false.
    fn lose(&self, term: u64) {
        self.0.until.store(0, Ordering::Release);
        self.0.transition.send_replace(Transition::Lost { term });
    }

    fn until(&self) -> Option<Duration> {
        match self.0.until.load(Ordering::Acquire) {
            0 => None,
            until => Some(Duration::from_nanos(until)),
        }
    }
}

impl fmt::Debug for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseState")
            .field("remaining", &self.remaining())
            .field("transition", &*self.0.transition.borrow())
            .finish()
    }
}

/// 584 years fit.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn seen(holder: &str, since: u64, duration: u64) -> Option<Sighting> {
        let record = Record { holder: holder.to_owned(), duration: s(duration), renewed: "r1".to_owned(), transitions: 3 };
        Some(Sighting { record, since: s(since) })
    }

    #[test]
    fn decides_by_table() {
        use Action::{Create, Renew, Take, Wait};
        let cases = [
            ("no lease, none ever seen: create", false, None, 100, Create { after_ungraceful: false }),
            ("released: take at once", true, seen("", 99, 15), 100, Take { after_ungraceful: false }),
            ("ours: renew", true, seen("me", 99, 15), 100, Renew),
            ("ours, long run out by our clock, nobody took it: renew", true, seen("me", 0, 15), 100, Renew),
            ("another's, just seen to change: wait all of it", true, seen("other", 100, 15), 100, Wait(s(15))),
            ("another's, a second before its end: wait", true, seen("other", 86, 15), 100, Wait(s(1))),
            ("another's, at its end: take", true, seen("other", 85, 15), 100, Take { after_ungraceful: true }),
            ("another's with a longer duration: its duration counts", true, seen("other", 85, 60), 100, Wait(s(45))),
            ("vanished while another held it: wait it out", false, seen("other", 90, 15), 100, Wait(s(5))),
            ("vanished, and waited out: create", false, seen("other", 80, 15), 100, Create { after_ungraceful: true }),
            ("vanished while we held it: create", false, seen("me", 99, 15), 100, Create { after_ungraceful: false }),
            ("vanished after a release: create", false, seen("", 99, 15), 100, Create { after_ungraceful: false }),
            ("the clock is before the sighting (never, but no panic): wait", true, seen("other", 200, 15), 100, Wait(s(115))),
        ];
        for (name, found, last, now, expected) in cases {
            assert_eq!(decide(found, last.as_ref(), "me", s(now)), expected, "{name}");
        }
    }

    #[test]
    fn only_another_holder_renewal_or_transition_is_news() {
        let first = seen("other", 10, 15).unwrap();
        let news = |change: fn(&mut Record)| {
            let mut record = first.record.clone();
            change(&mut record);
            Sighting::next(Some(&first), record, s(20)).since
        };
        assert_eq!(news(|_| {}), s(10), "the same again");
        assert_eq!(news(|record| record.renewed = "r2".to_owned()), s(20), "renewed");
        assert_eq!(news(|record| record.holder = "third".to_owned()), s(20), "another holder");
        assert_eq!(news(|record| record.transitions = 4), s(20), "another hold of the same holder");
        assert_eq!(Sighting::next(None, first.record.clone(), s(20)).since, s(20), "never seen before");
    }

    #[test]
    fn a_record_reads_what_is_there() {
        let full = serde_json::json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 30, "renewTime": "t", "leaseTransitions": 2}});
        let record = Record::read(&Object::new(full));
        assert_eq!(record, Record { holder: "a".into(), duration: s(30), renewed: "t".into(), transitions: 2 });
        let empty = Record::read(&Object::new(serde_json::json!({"spec": {"leaseDurationSeconds": 0}})));
        assert_eq!(empty, Record { holder: String::new(), duration: DURATION, renewed: String::new(), transitions: 0 });
    }
}
