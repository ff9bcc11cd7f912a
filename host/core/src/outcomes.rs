//! What became of recent steps, so that a pure policy can back off, and which event or metric it was.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use vko_wit::observation::{Outcome, OutcomeKind};

use crate::guard::Refusal;
use crate::observe::millis;

/// How many outcomes are kept: a few rounds of an instance's steps.
const KEPT: usize = 64;
/// Older ones say nothing about now; the longest back-off of a policy is far below.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// The recent outcomes of one instance.
#[derive(Debug, Default)]
pub struct Outcomes(Mutex<VecDeque<(Duration, String, String, OutcomeKind)>>);

impl Outcomes {
    /// Notes an outcome.
    pub fn note(&self, now: Duration, operation: &str, subject: &str, kind: OutcomeKind) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_front((now, operation.into(), subject.into(), kind));
        all.truncate(KEPT);
    }

    /// Notes what the guard refused, for policies to back off by. A refusal that isn't about the plan (no Lease, a stale view) is not noted: once
    /// it is over nothing should wait.
    pub fn note_refusals(&self, now: Duration, refusals: &[Refusal]) {
        for refusal in refusals.iter().filter(|refusal| refusal.blames_policy()) {
            self.note(now, refusal.operation, &refusal.subject, OutcomeKind::Refused(refusal.why.clone()));
        }
    }

    /// Newest first.
    pub fn recent(&self, now: Duration) -> Vec<Outcome> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(at, ..)| now.saturating_sub(*at) < FORGOTTEN);
        all.iter()
            .map(|(at, operation, subject, kind)| Outcome {
                operation: operation.clone(),
                subject: subject.clone(),
                outcome: kind.clone(),
                age: millis(now.saturating_sub(*at)),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_first_bounded_and_forgotten() {
        let outcomes = Outcomes::default();
        for n in 0..100_u64 {
            outcomes.note(Duration::from_secs(n), "follow", &n.to_string(), OutcomeKind::Done);
        }
        let recent = outcomes.recent(Duration::from_secs(100));
        assert_eq!((recent.len(), recent[0].subject.as_str(), recent[0].age), (KEPT, "99", 1000));
        assert!(outcomes.recent(Duration::from_secs(2000)).is_empty());
    }

    #[test]
    fn refusals_of_the_plan_are_noted_and_the_hosts_own_weather_is_not() {
        let outcomes = Outcomes::default();
        let refusal = |rule, name| Refusal { rule, name, subject: "a".into(), operation: "evict", why: "the primary".into() };
        outcomes.note_refusals(Duration::ZERO, &[refusal(10, "StaleView"), refusal(1, "OnlyCopy")]);
        let recent = outcomes.recent(Duration::ZERO);
        assert_eq!(recent.len(), 1);
        assert_eq!((recent[0].operation.as_str(), &recent[0].outcome), ("evict", &OutcomeKind::Refused("the primary".into())));
    }
}
