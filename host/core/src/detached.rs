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

use vko_wit::observation::FenceRecord;

use crate::observe::millis;
use crate::world::UnixMs;

/// When this process first saw each record of a detaching (monotonic).
#[derive(Debug, Default)]
pub struct Detached(Mutex<BTreeMap<Record, Duration>>);

/// Pod, run, and the time that was written.
type Record = (String, String, UnixMs);

impl Detached {
    /// Counts each `detached_at` back from `now` by the monotonic clock. `detached_at_written` stays.
    pub fn rectify(&self, fences: &mut [FenceRecord], now: UnixMs, monotonic: Duration) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let detached = |fence: &&mut FenceRecord| fence.detached_at_written > 0;
        let records: Vec<Record> = fences.iter().map(record).collect();
        seen.retain(|known, _| records.contains(known));
        for fence in fences.iter_mut().filter(detached) {
            let first = *seen.entry(record(fence)).or_insert(monotonic);
            fence.detached_at = now.saturating_sub(millis(monotonic.saturating_sub(first))).max(1);
        }
    }
}

fn record(fence: &FenceRecord) -> Record {
    (fence.pod.clone(), fence.run_id.clone(), fence.detached_at_written)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 1_800_000_000_000;

    fn fences(written: UnixMs) -> Vec<FenceRecord> {
        let (pod, run_id) = ("p".into(), "r".into());
        vec![FenceRecord {
            pod,
            run_id,
            min_replicas: 1,
            max_lag: 5_000,
            set_at: 1,
            detached_at: written,
            detached_at_written: written,
        }]
    }

    /// What was written, and what a look then says of it.
    fn seen(detached: &Detached, written: UnixMs, now: UnixMs, monotonic: u64) -> UnixMs {
        let mut fences = fences(written);
        detached.rectify(&mut fences, now, Duration::from_secs(monotonic));
        assert_eq!(fences[0].detached_at_written, written);
        fences[0].detached_at
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
            let detached = Detached::default();
            seen(&detached, written, NOW, 100);
            assert_eq!(later - seen(&detached, written, later, 105), 5_000, "{case}");
        }
    }

    #[test]
    fn each_detaching_counts_from_itself() {
        let detached = Detached::default();
        seen(&detached, NOW, NOW, 0);
        assert_eq!(seen(&detached, NOW + 9_000, NOW + 9_000, 9), NOW + 9_000, "followed and detached anew");
        assert_eq!(seen(&detached, 0, NOW, 20), 0, "not detached stays so");
        assert_eq!(seen(&detached, NOW + 9_000, NOW + 30_000, 30), NOW + 30_000, "what was forgotten counts anew");
    }
}
