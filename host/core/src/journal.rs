//! The decision journal: what was seen, what was planned, what became of it. The last 200 entries per instance, in memory.
//! [`crate::trial`] reads it and shows other policies the same.
//!
//! An observation is kept only when its plan differs from the one before, so a quiet instance costs nothing; entries are kept as
//! the text that will be shown, and bounded in bytes too, since an observation grows with its instance: of older decisions first
//! the observation goes, then the entry. The newest decision is whole, whatever its size. Nothing secret can be in it:
//! observations and plans hold none.

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
        /// The interface that observation and plan are written in.
        interface: &'static str,
        /// The observation, as the policy was given it; null in older entries.
        observed: Value,
        /// The plan, as the policy gave it; null if there was none.
        plan: Value,
        /// Why there was none.
        hold: Option<String>,
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
    lines: VecDeque<Line>,
    bytes: usize,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// Of a whole decision: the same without what was observed.
    short: Option<String>,
}

impl Journal {
    /// Adds an entry.
    pub fn note(&self, at: UnixMs, event: Event) {
        let entry = Entry { at, event };
        let Ok(text) = serde_json::to_string(&entry) else { return };
        let short = shortened(entry).and_then(|entry| serde_json::to_string(&entry).ok());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += text.len();
        kept.lines.push_back(Line { text, short });
        while kept.exceeds() && kept.lines.len() > 1 {
            kept.shed();
        }
    }

    /// All entries as JSON, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.iter().map(|line| line.text.clone()).collect()
    }
}

impl Kept {
    /// Where the newest whole decision is.
    fn newest_whole(&self) -> Option<usize> {
        self.lines.iter().rposition(|line| line.short.is_some())
    }

    fn exceeds(&self) -> bool {
        let whole = self.newest_whole().map_or(0, |at| self.lines[at].text.len());
        self.lines.len() > KEPT || self.bytes - whole > BYTES_MAX
    }

    /// The oldest observation goes, and if there is only the newest one, the oldest other entry.
    fn shed(&mut self) {
        let newest = self.newest_whole();
        let oldest = self.lines.iter().position(|line| line.short.is_some()).filter(|at| Some(*at) != newest);
        if let Some(line) = oldest.filter(|_| self.lines.len() <= KEPT).and_then(|at| self.lines.get_mut(at)) {
            self.bytes -= line.text.len();
            line.text = line.short.take().unwrap_or_default();
            self.bytes += line.text.len();
            return;
        }
        let oldest = if newest == Some(0) { 1 } else { 0 };
        self.bytes -= self.lines.remove(oldest).map_or(0, |line| line.text.len());
    }
}

/// A decision without what was observed, and of its plan without what is derived from that.
fn shortened(mut entry: Entry) -> Option<Entry> {
    let Event::Decision { observed, plan, .. } = &mut entry.event else { return None };
    *observed = Value::Null;
    for (part, field) in [("/status", "details"), ("", "desired")] {
        if let Some(fields) = plan.pointer_mut(part).and_then(Value::as_object_mut) {
            fields.remove(field);
        }
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(subject: String) -> Event {
        Event::Step { subject, operation: "follow".into(), reason: "why".into(), outcome: "done".into() }
    }

    fn decision(number: u64, size: usize) -> Event {
        let (policy, digest) = (number.to_string(), String::new());
        let plan = serde_json::json!({"status": {"details": "d".repeat(size), "message": "m"}, "tracks": []});
        let (interface, observed) = (vko_wit::INTERFACE, "o".repeat(size).into());
        Event::Decision { policy, digest, interface, observed, plan, hold: None, refused: Vec::new() }
    }

    #[test]
    fn of_large_observations_the_newest_stays_and_no_step_is_lost() {
        let journal = Journal::default();
        for n in 0..20 {
            journal.note(n, step(n.to_string()));
            journal.note(n, decision(n, BYTES_MAX));
        }
        let lines = journal.lines();
        let whole: Vec<bool> = lines.iter().map(|line| line.contains("ooo")).collect();
        assert_eq!((lines.len(), whole.iter().filter(|whole| **whole).count(), whole.last()), (40, 1, Some(&true)));
        assert!(lines[1].contains(r#""message":"m""#) && !lines[1].contains("ddd"), "{}", lines[1]);
        for n in 0..KEPT as u64 {
            journal.note(n, step(n.to_string()));
        }
        assert_eq!(journal.lines().len(), KEPT);
        assert!(journal.lines()[0].contains("ooo"), "the newest decision outlives older steps");
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
