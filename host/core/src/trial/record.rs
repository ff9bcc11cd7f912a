//! Reads a decision journal: what `valkey-operator journal` prints, an entry in a line, oldest first.
//!
//! # Guarantees
//! 1. What can't be replayed is an error that names the line, or is counted; it is never left out in silence.
//! 2. Entries that are no decisions are passed over, known or not: they bear on no plan.

use serde::Deserialize;
use serde_json::Value;
use vko_wit::observation::Observed;
use vko_wit::planning::Plan;

use crate::world::UnixMs;

/// Why a journal can't be replayed. The variant's name is for those who look for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Nothing in it.
    #[error("the journal is empty: the operator has decided nothing yet, or another one holds the Lease; ask that one")]
    Empty,
    /// The last line ends in the middle.
    #[error("line {0} ends in the middle: the journal was cut; fetch it again")]
    Cut(usize),
    /// No JSON.
    #[error("line {line} is no JSON ({why}): this is no decision journal; 'valkey-operator journal NAMESPACE/NAME' prints one")]
    NotJson {
        /// From 1.
        line: usize,
        /// The parser's word.
        why: String,
    },
    /// JSON of another form.
    #[error("line {line} is no entry of a journal: {why}")]
    NotAnEntry {
        /// From 1.
        line: usize,
        /// What is missing or malformed.
        why: String,
    },
    /// Recorded by an operator that speaks another version of the interface.
    #[error(
        "line {line} was recorded over {theirs}, this valkey-operator speaks {ours}: replay it with the version that recorded it"
    )]
    OtherInterface {
        /// From 1.
        line: usize,
        /// That of the journal.
        theirs: String,
        /// Ours.
        ours: &'static str,
    },
    /// There are decisions, but what they were made for was dropped.
    #[error(
        "none of the {0} decisions still has its observation (older ones are dropped when they are large); fetch the journal \
         sooner after what it is about"
    )]
    NothingToReplay(usize),
}

/// What a policy answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A plan.
    Plan(Box<Plan>),
    /// None, and why.
    Held(String),
}

/// A decision with what it was made for.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its line, from 1.
    pub line: usize,
    /// When, by the operator's wall clock.
    pub at: UnixMs,
    /// Name and version of the policy that decided.
    pub policy: String,
    /// Its digest.
    pub digest: String,
    /// What it saw.
    pub observed: Box<Observed>,
    /// What it answered.
    pub answer: Answer,
}

/// A journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The decisions that can be replayed, oldest first.
    pub decisions: Vec<Recorded>,
    /// How many more there are without their observations.
    pub without: usize,
}

/// The part of an entry that replaying needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    at: UnixMs,
    event: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Decision {
    policy: String,
    digest: String,
    interface: String,
    #[serde(default)]
    hold: Option<String>,
    observed: Value,
    plan: Value,
}

impl Record {
    /// Reads a whole journal.
    ///
    /// # Errors
    /// Says which line is wrong and what to do.
    pub fn read(text: &str) -> Result<Self, JournalError> {
        let mut record = Self { decisions: Vec::new(), without: 0 };
        // Whoever prints a journal ends each line.
        let open = text.lines().count() + usize::from(text.ends_with('\n'));
        let mut entries = 0;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            entries += 1;
            record.take(index + 1, line, index + 1 == open)?;
        }
        match (entries, record.decisions.is_empty()) {
            (0, _) => Err(JournalError::Empty),
            (_, true) => Err(JournalError::NothingToReplay(record.without)),
            (_, false) => Ok(record),
        }
    }

    fn take(&mut self, line: usize, text: &str, open: bool) -> Result<(), JournalError> {
        let value: Value = serde_json::from_str(text).map_err(|error| match error.is_eof() || open && text.starts_with('{') {
            true => JournalError::Cut(line),
            false => JournalError::NotJson { line, why: error.to_string() },
        })?;
        let not_an_entry = |error: serde_json::Error| JournalError::NotAnEntry { line, why: error.to_string() };
        let entry = Entry::deserialize(&value).map_err(not_an_entry)?;
        if entry.event != "decision" {
            return Ok(());
        }
        let decision = Decision::deserialize(value).map_err(not_an_entry)?;
        if decision.interface != vko_wit::INTERFACE {
            return Err(JournalError::OtherInterface { line, theirs: decision.interface, ours: vko_wit::INTERFACE });
        }
        if decision.observed.is_null() {
            self.without += 1;
            return Ok(());
        }
        let observed = serde_json::from_value(decision.observed).map_err(not_an_entry)?;
        let answer = match decision.plan {
            Value::Null => Answer::Held(decision.hold.unwrap_or_default()),
            plan => Answer::Plan(serde_json::from_value(plan).map_err(not_an_entry)?),
        };
        let (at, policy, digest) = (entry.at, decision.policy, decision.digest);
        self.decisions.push(Recorded { line, at, policy, digest, observed, answer });
        Ok(())
    }
}
