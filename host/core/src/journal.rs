//! The decision journal: what was seen, what was planned, what became of it. The last 200 entries per instance, in memory.
//!
//! An observation is kept only when its plan differs from the one before, so a quiet instance costs nothing; entries are kept as the text
//! that will be shown, and bounded in bytes too, since an observation grows with its instance. Nothing secret can be in it: observations and
//! plans hold none.

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

/// How much is kept per instance, in bytes: what an instance may cost beyond its caches.
pub const BYTES_MAX: usize = 256 << 10;

/// One instance's journal.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Journal {
    /// Adds an entry.
    pub fn note(&self, at: UnixMs, event: Event) {
        let Ok(line) = serde_json::to_string(&Entry { at, event }) else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += line.len();
        kept.lines.push_back(line);
        while kept.lines.len() > KEPT || (kept.bytes > BYTES_MAX && kept.lines.len() > 1) {
            kept.bytes -= kept.lines.pop_front().map_or(0, |line| line.len());
        }
    }

    /// All entries as JSON, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(subject: String) -> Event {
        Event::Step { subject, operation: "follow".into(), reason: "why".into(), outcome: "done".into() }
    }

    #[test]
    fn it_keeps_the_newest_within_both_bounds() {
        let journal = Journal::default();
        for n in 0..KEPT + 5 {
            journal.note(1, step(n.to_string()));
        }
        assert_eq!(journal.lines().len(), KEPT);
        assert!(journal.lines()[0].contains("\"subject\":\"5\""));
        journal.note(2, step("x".repeat(BYTES_MAX / 2)));
        journal.note(3, step("y".repeat(BYTES_MAX)));
        let lines = journal.lines();
        assert_eq!(lines.len(), 1, "the newest stays, whatever its size");
        assert!(lines[0].contains("yyy"));
    }
}
