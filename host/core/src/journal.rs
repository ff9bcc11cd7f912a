//! The decision journal: what was seen, what was planned, what became of it. The last 200 per instance, in memory.
//!
//! Observations are large and mostly alike: one is kept (as JSON) only when its plan differs from the one before, so a quiet instance costs
//! nothing. Nothing secret can be in it, since observations and plans hold none.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::world::UnixMs;

/// How many entries are kept per instance.
pub const KEPT: usize = 200;

/// One entry.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, by the wall clock.
    pub at: UnixMs,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum Event {
    /// A plan that differs from the one before, with the observation that it was made for.
    #[serde(rename_all = "camelCase")]
    Decision {
        /// Who decided.
        policy: String,
        /// Its digest.
        digest: String,
        /// The observation.
        observed: Value,
        /// The plan.
        plan: Value,
        /// What the guard refused.
        refused: Vec<String>,
    },
    /// A step's end.
    #[serde(rename_all = "camelCase")]
    Step {
        /// Track.
        subject: String,
        /// Operation.
        operation: String,
        /// Why.
        reason: String,
        /// `done`, or what went wrong.
        outcome: String,
    },
}

/// One instance's journal.
#[derive(Debug, Default)]
pub struct Journal(Mutex<VecDeque<Entry>>);

impl Journal {
    /// Adds an entry.
    pub fn note(&self, at: UnixMs, event: Event) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push_back(Entry { at, event });
        if entries.len() > KEPT {
            entries.pop_front();
        }
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
