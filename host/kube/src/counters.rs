//! Counts of requests by verb, kind and outcome: for metrics, and for tests that say "a quiet instance sends nothing".

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use vko_core::object::Kind;

/// How many requests there were of a sort.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// `list`, `watch`, `get`, `apply`, `create`, `replace`, `replace-status`, `merge`, `delete`, `evict`, `event`.
    pub verb: &'static str,
    /// Kind of the object; for an event that of what it regards.
    pub kind: Kind,
    /// `ok`, or the variant of the error.
    pub outcome: &'static str,
    /// How many since the start.
    pub count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<(&'static str, Kind, &'static str), u64>>);

impl Counters {
    pub(crate) fn count(&self, verb: &'static str, kind: Kind, outcome: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((verb, kind, outcome)).or_default() += 1;
    }

    pub(crate) fn all(&self) -> Vec<Count> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(&(verb, kind, outcome), &count)| Count { verb, kind, outcome, count }).collect()
    }
}
