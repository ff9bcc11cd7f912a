//! Waiting for what has no watch: what a server says, what a process has done.

use std::time::{Duration, Instant};

use anyhow::bail;

use crate::Result;

/// Between two looks: a tenth of the shortest thing that is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// What a look finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look<T> {
    /// What was waited for.
    Found(T),
    /// Not yet; what there is instead, for the failure's text.
    Not(String),
}

impl<T> Look<T> {
    /// Found, or what there is instead.
    pub fn when(found: Option<T>, instead: impl FnOnce() -> String) -> Self {
        found.map_or_else(|| Self::Not(instead()), Self::Found)
    }
}

/// Looks until it is found. An error of a look counts as "not yet": servers and nodes are away while faults last.
///
/// # Errors
/// The deadline passed; says what the last look found instead.
pub fn until<T>(what: &str, deadline: Duration, look: impl FnMut() -> Result<Look<T>>) -> Result<T> {
    until_every(LOOK, what, deadline, look)
}

/// As [`until`], for looks that cost so much that they may only be repeated at an interval.
///
/// # Errors
/// As [`until`].
pub fn until_every<T>(
    interval: Duration,
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<Look<T>>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    loop {
        let last = match look() {
            Ok(Look::Found(value)) => return Ok(value),
            Ok(Look::Not(instead)) => instead,
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() >= end {
            bail!("gave up after {deadline:?} waiting for {what}; last seen: {last}");
        }
        std::thread::sleep(interval);
    }
}
