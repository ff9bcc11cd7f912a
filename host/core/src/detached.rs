//! How long ago the last replica left a fenced primary, by a clock that doesn't jump.
//!
//! The ledger holds the wall clock's time, because it outlives processes. A wall clock that is set forward, or a successor whose
//! clock is ahead, would count a fence as closed before it is; one that is set back would count it as open for hours.
//!
//! # Guarantees
//! A fence is as old as this process has known it, never older: a successor counts anew from its first look, which costs it
//! max-lag + 2 s at most.
//!
//! # Flow
//! At each look [`Detached::rectify`] puts the times of the ledger's fences into the frame of that look.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use vko_wit::common::Pair;

use crate::ledger::{Fence, Ledger};
use crate::observe::millis;
use crate::world::UnixMs;

/// When this process first saw each record of a detaching (monotonic).
#[derive(Debug, Default)]
pub struct Detached(Mutex<BTreeMap<Record, Duration>>);

/// Pod, run, and the time that was written.
type Record = (String, String, UnixMs);

impl Detached {
    /// The ledger with each `detached_at` counted back from `now` by the monotonic clock, and what was written, as facts beyond
    /// the base: `fence-detached:<pod>`.
    pub fn rectify(&self, ledger: &Ledger, now: UnixMs, monotonic: Duration) -> (Ledger, Vec<Pair>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut ledger, mut written) = (ledger.clone(), Vec::new());
        let records: Vec<Record> = ledger.fences.iter().filter(|fence| fence.detached_at > 0).map(record).collect();
        seen.retain(|known, _| records.contains(known));
        for fence in ledger.fences.iter_mut().filter(|fence| fence.detached_at > 0) {
            let first = *seen.entry(record(fence)).or_insert(monotonic);
            written.push(Pair { key: format!("fence-detached:{}", fence.pod), value: fence.detached_at.to_string() });
            fence.detached_at = now.saturating_sub(millis(monotonic.saturating_sub(first))).max(1);
        }
        (ledger, written)
    }
}

fn record(fence: &Fence) -> Record {
    (fence.pod.clone(), fence.run_id.clone(), fence.detached_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 1_800_000_000_000;

    fn ledger(detached_at: UnixMs) -> Ledger {
        let fence = Fence { pod: "p".into(), run_id: "r".into(), min_replicas: 1, max_lag_ms: 5_000, set_at: 1, detached_at };
        Ledger { fences: vec![fence], ..Ledger::default() }
    }

    /// How old the detaching is (ms) at a look five seconds after the first one, when the wall clock then says `later`.
    fn age_after_five_seconds(written: UnixMs, later: UnixMs) -> UnixMs {
        let detached = Detached::default();
        detached.rectify(&ledger(written), NOW, Duration::from_secs(100));
        let (seen, _) = detached.rectify(&ledger(written), later, Duration::from_secs(105));
        later - seen.fences[0].detached_at
    }

    #[test]
    fn a_clock_that_jumps_neither_closes_a_fence_nor_keeps_it_open() {
        let cases = [
            ("no jump", NOW, NOW + 5_000),
            ("set forward meanwhile", NOW, NOW + 3_600_000),
            ("set back meanwhile", NOW, NOW - 3_600_000),
            ("written by an operator whose clock is behind", NOW - 60_000, NOW + 5_000),
            ("written by an operator whose clock is ahead", NOW + 60_000, NOW + 5_000),
        ];
        for (case, written, later) in cases {
            assert_eq!(age_after_five_seconds(written, later), 5_000, "{case}");
        }
    }

    #[test]
    fn each_detaching_counts_from_itself() {
        let detached = Detached::default();
        detached.rectify(&ledger(NOW), NOW, Duration::ZERO);
        let (again, written) = detached.rectify(&ledger(NOW + 9_000), NOW + 9_000, Duration::from_secs(9));
        assert_eq!(again.fences[0].detached_at, NOW + 9_000, "followed and detached anew");
        assert_eq!(written, [Pair { key: "fence-detached:p".into(), value: (NOW + 9_000).to_string() }]);
        let (open, written) = detached.rectify(&ledger(0), NOW, Duration::from_secs(20));
        assert_eq!((open.fences[0].detached_at, written), (0, Vec::new()), "not detached stays so");
    }
}
