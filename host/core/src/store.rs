//! The topology object's status: the ledger and the report, one writer, whole, under resourceVersion.
//!
//! # Guarantees
//! 1. A change of the ledger is on the API server before [`Store::change`] returns `Ok`.
//! 2. Only a view of the newest ledger is ever written back: when somebody else changed it, the write fails, and the next look
//!    starts from what the API server has.
//! 3. Whom the ledger names as primaries changes only where it still names those that the change was decided on
//!    ([`Store::appoint`]). A look and a step last, and two operators may lead for a while: a Lease that somebody deleted is made
//!    anew by one that never saw it.
//! 4. Without the Lease nothing is written.
//! 5. Two operators that report differently don't chase each other: whoever sees the other one's status waits with its report.
//! 6. What is unequal to nothing is not written.
//! 7. Reports that differ each time (a policy may count in its messages) are written at [`REPORTS`], whatever the looks' pace.
//!
//! # Flow
//! 1. Take the newest object that we know.
//! 2. Change a copy of the ledger.
//! 3. PUT the status.
//! 4. On a conflict read the object once: if its ledger is still ours (only spec or metadata moved on) try again with its
//!    resourceVersion, else give up.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use vko_wit::observation::LastPrimary;

use crate::allowance::{Allowance, Rate};
use crate::lease::LeaseState;
use crate::ledger::Ledger;
use crate::object::{Object, ObjectId};
use crate::world::{ApiError, World};

/// How often a conflict with a change of spec or metadata is met before the next look has to sort it out.
const TRIES: u32 = 3;
/// Longer than a promotion takes from the ledger to its command: three commands of 5 s at most, and a few questions of 2 s.
const APPOINTMENT_MAX: Duration = Duration::from_secs(30);
/// For how long no report is written after another operator's status was seen. Each write wakes both: without a pause they would
/// write as fast as the API server answers.
const REPORT_PAUSE: Duration = Duration::from_secs(2);
/// A creation writes some twenty reports, a promotion ten. Each write also wakes the next look, so without a bound a message that
/// is another one at each look would be written as fast as the API server answers.
const REPORTS: Rate = Rate { burst: 30, each: Duration::from_secs(2) };

/// Why the ledger couldn't be written. The variant is the metric label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The API server didn't take it.
    #[error("the ledger could not be written: {0}")]
    LedgerNotWritten(#[from] ApiError),
    /// Somebody else wrote the ledger: another operator is at work.
    #[error("somebody else wrote the ledger of {0}; observing again")]
    LedgerForeign(String),
    /// The ledger names another primary than the one that the change was decided on.
    #[error("the ledger of {0} names another primary by now; observing again")]
    NamedMeanwhile(String),
    /// Another operator may be at work.
    #[error("the Lease is not held: the ledger of {0} is not ours to write")]
    NotLeading(String),
    /// The topology object is another one by now.
    #[error("{0} was replaced by another object; observing again")]
    TopologyReplaced(String),
}

impl StoreError {
    /// Whether the world moved on, which is nobody's fault: what was decided before isn't done.
    pub fn is_moved_on(&self) -> bool {
        !matches!(self, Self::LedgerNotWritten(_))
    }
}

/// Since when the ledger has named the primaries that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    /// When (monotonic) this operator came to know it.
    pub since: Duration,
    /// It wasn't this operator that wrote it, while it led.
    elsewhere: bool,
}

impl Naming {
    /// For how long yet another operator may be about to promote the one whom it has named.
    pub fn under_way(self, now: Duration) -> Option<Duration> {
        let left = APPOINTMENT_MAX.saturating_sub(now.saturating_sub(self.since));
        (self.elsewhere && !left.is_zero()).then_some(left)
    }
}

/// Status of one topology object.
pub struct Store<W> {
    world: Arc<W>,
    lease: LeaseState,
    id: ObjectId,
    state: Mutex<State>,
}

struct State {
    object: Object,
    ledger: Ledger,
    naming: Naming,
    /// When (monotonic) a status was seen last that this operator didn't write.
    other_seen: Option<Duration>,
    reports: Allowance,
}

impl State {
    fn learn(&mut self, ledger: Ledger, naming: Naming) {
        if ledger.last_primary != self.ledger.last_primary {
            self.naming = naming;
        }
        self.ledger = ledger;
    }
}

impl<W: World> Store<W> {
    /// Starts from what was observed.
    pub fn new(world: Arc<W>, lease: LeaseState, id: ObjectId, object: Object, ledger: Ledger) -> Self {
        // What was written before we led is not under way: a successor waits out the Lease.
        let naming = Naming { since: world.monotonic(), elsewhere: false };
        let reports = Allowance::new(REPORTS);
        Self { world, lease, id, state: Mutex::new(State { object, ledger, naming, other_seen: None, reports }) }
    }

    /// Takes a newer object of the same identity in, as the watch brings it, with the ledger that it holds: ours as a rule; a
    /// write of ours whose answer was lost; or what another operator wrote before we got the Lease.
    pub async fn refresh(&self, object: &Object) {
        let mut state = self.state.lock().await;
        if object.uid() == state.object.uid() && newer(object, &state.object) {
            let now = self.world.monotonic();
            if object.0.get("status") != state.object.0.get("status") {
                state.other_seen = Some(now);
            }
            let naming = Naming { since: now, elsewhere: true };
            state.learn(Ledger::read(object.0.get("status")), naming);
            state.object = object.clone();
        }
    }

    /// Whether this is the store of that topology object and not of one with the same name.
    pub async fn is_of(&self, uid: &str) -> bool {
        self.state.lock().await.object.uid() == uid
    }

    /// The ledger as last written or read.
    pub async fn ledger(&self) -> Ledger {
        self.state.lock().await.ledger.clone()
    }

    /// Since when the ledger has named the primaries that it names.
    pub async fn naming(&self) -> Naming {
        self.state.lock().await.naming
    }

    /// Changes the ledger and writes it, unless nothing changed. Whom it names as primaries is for [`Self::appoint`].
    ///
    /// # Errors
    /// The change did not happen, or it isn't known whether it did; the act it should precede must not follow.
    pub async fn change(&self, change: impl FnOnce(&mut Ledger) + Send) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        let mut ledger = state.ledger.clone();
        change(&mut ledger);
        self.put(&mut state, ledger).await
    }

    /// The same for a change of whom the ledger names as primaries. `decided_on`: whom it named in the observation.
    ///
    /// # Errors
    /// As of [`Self::change`]; [`StoreError::NamedMeanwhile`]: nothing was written.
    pub async fn appoint(&self, decided_on: &LastPrimary, change: impl FnOnce(&mut Ledger) + Send) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        let mut ledger = state.ledger.clone();
        change(&mut ledger);
        if !ledger.names_after(&state.ledger, decided_on) {
            return Err(StoreError::NamedMeanwhile(self.id.to_string()));
        }
        self.put(&mut state, ledger).await
    }

    async fn put(&self, state: &mut State, ledger: Ledger) -> Result<(), StoreError> {
        if ledger == state.ledger {
            return Ok(());
        }
        let status = with_ledger(state.object.0.get("status").cloned().unwrap_or_else(|| json!({})), &ledger);
        self.write(state, status, ledger).await
    }

    /// Writes the report beside the ledger, unless nothing changed. It is held back where another operator has just written, or
    /// where there were too many of them: then it returns how long to wait before the next try.
    ///
    /// # Errors
    /// It wasn't written; the next look tries again.
    pub async fn report(&self, report: &Value) -> Result<Option<Duration>, StoreError> {
        let mut state = self.state.lock().await;
        let ledger = state.ledger.clone();
        let status = with_ledger(report.clone(), &ledger);
        if state.object.0.get("status") == Some(&status) {
            return Ok(None);
        }
        let now = self.world.monotonic();
        let pause = state.other_seen.map_or(Duration::ZERO, |seen| REPORT_PAUSE.saturating_sub(now.saturating_sub(seen)));
        let left = pause.max(state.reports.wait(now));
        if !left.is_zero() {
            return Ok(Some(left));
        }
        state.reports.spend(now);
        self.write(&mut state, status, ledger).await.map(|()| None)
    }

    async fn write(&self, state: &mut State, status: Value, ledger: Ledger) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            if !self.lease.is_leader() {
                return Err(StoreError::NotLeading(self.id.to_string()));
            }
            let mut body = (*state.object.0).clone();
            body["status"] = status.clone();
            match self.world.replace_status(&body).await {
                Ok(written) => {
                    state.object = written;
                    state.learn(ledger, Naming { since: self.world.monotonic(), elsewhere: false });
                    return Ok(());
                }
                Err(ApiError::Conflict(_)) => self.catch_up(state).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(ApiError::Conflict(format!("{} keeps changing", self.id)).into())
    }

    /// After a conflict: the newest object, if its ledger is the one that we wrote.
    async fn catch_up(&self, state: &mut State) -> Result<(), StoreError> {
        let Some(object) = self.world.get(&self.id).await? else {
            return Err(ApiError::NotFound(self.id.to_string()).into());
        };
        if object.uid() != state.object.uid() {
            return Err(StoreError::TopologyReplaced(self.id.to_string()));
        }
        if Ledger::read(object.0.get("status")) != state.ledger {
            return Err(StoreError::LedgerForeign(self.id.to_string()));
        }
        state.object = object;
        Ok(())
    }
}

fn with_ledger(mut status: Value, ledger: &Ledger) -> Value {
    if let (Some(fields), Ok(ledger)) = (status.as_object_mut(), serde_json::to_value(ledger)) {
        fields.insert("ledger".into(), ledger);
    }
    status
}

/// Whether `a` is newer than `b`. The API server documents resourceVersions of one resource as comparable numbers since 1.35 and
/// they were etcd's revisions before; a text that is no number counts as newer, so that we never hold on to an old object.
fn newer(a: &Object, b: &Object) -> bool {
    match (a.resource_version().parse::<u64>(), b.resource_version().parse::<u64>()) {
        (Ok(a), Ok(b)) => a > b,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
