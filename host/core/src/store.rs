//! The topology object's status: the ledger and the report, one writer, whole, under resourceVersion.
//!
//! # Guarantees
//! 1. A change of the ledger is on the API server before [`Store::change`] returns `Ok`.
//! 2. Only a view of the newest ledger is ever written back: when somebody else changed it, the write fails, and the next look
//!    starts from what the API server has.
//! 3. What is unequal to nothing is not written.
//!
//! # Flow
//! 1. Take the newest object that we know.
//! 2. Change a copy of the ledger.
//! 3. PUT the status.
//! 4. On a conflict read the object once: if its ledger is still ours (only spec or metadata moved on) try again with its
//!    resourceVersion, else give up.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::ledger::Ledger;
use crate::object::{Object, ObjectId};
use crate::world::{ApiError, World};

/// How often a conflict with a change of spec or metadata is met before the next look has to sort it out.
const TRIES: u32 = 3;

/// Why the ledger couldn't be written. The variant is the metric label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The API server didn't take it.
    #[error("the ledger could not be written: {0}")]
    LedgerNotWritten(#[from] ApiError),
    /// Somebody else wrote the ledger: another operator is at work.
    #[error("somebody else wrote the ledger of {0}; observing again")]
    LedgerForeign(String),
    /// The topology object is another one by now.
    #[error("{0} was replaced by another object; observing again")]
    TopologyReplaced(String),
}

/// Status of one topology object.
pub struct Store<W> {
    world: Arc<W>,
    id: ObjectId,
    state: Mutex<State>,
}

struct State {
    object: Object,
    ledger: Ledger,
}

impl<W: World> Store<W> {
    /// Starts from what was observed.
    pub fn new(world: Arc<W>, id: ObjectId, object: Object, ledger: Ledger) -> Self {
        Self { world, id, state: Mutex::new(State { object, ledger }) }
    }

    /// Takes a newer object of the same identity in, as the watch brings it, with the ledger that it holds: ours as a rule; a
    /// write of ours whose answer was lost; or what another operator wrote before we got the Lease.
    pub async fn refresh(&self, object: &Object) {
        let mut state = self.state.lock().await;
        if object.uid() == state.object.uid() && newer(object, &state.object) {
            state.ledger = Ledger::read(object.0.get("status"));
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

    /// Changes the ledger and writes it, unless nothing changed.
    ///
    /// # Errors
    /// The change did not happen, or it isn't known whether it did; the act it should precede must not follow.
    pub async fn change(&self, change: impl FnOnce(&mut Ledger) + Send) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        let mut ledger = state.ledger.clone();
        change(&mut ledger);
        if ledger == state.ledger {
            return Ok(());
        }
        let status = with_ledger(state.object.0.get("status").cloned().unwrap_or_else(|| json!({})), &ledger);
        self.write(&mut state, status, ledger).await
    }

    /// Writes the report beside the ledger, unless nothing changed.
    ///
    /// # Errors
    /// It wasn't written; the next look tries again.
    pub async fn report(&self, report: &Value) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        let ledger = state.ledger.clone();
        let status = with_ledger(report.clone(), &ledger);
        if state.object.0.get("status") == Some(&status) {
            return Ok(());
        }
        self.write(&mut state, status, ledger).await
    }

    async fn write(&self, state: &mut State, status: Value, ledger: Ledger) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let mut body = (*state.object.0).clone();
            body["status"] = status.clone();
            match self.world.replace_status(&body).await {
                Ok(written) => {
                    state.object = written;
                    state.ledger = ledger;
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
