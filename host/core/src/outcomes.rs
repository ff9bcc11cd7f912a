//! What became of recent steps, so that a pure policy can back off, and which event or metric it was.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use vko_wit::observation::{Outcome, OutcomeKind};

use crate::guard::Refusal;
use crate::observe::millis;

/// How many outcomes are kept: the steps of two looks at the largest cluster.
const KEPT: usize = 512;
/// How many of one operation on one subject: enough to double a wait up to its longest.
const KEPT_ALIKE: usize = 8;
/// Older ones say nothing about now; the longest back-off of a policy is far below.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// The recent outcomes of one instance.
#[derive(Debug, Default)]
pub struct Outcomes(Mutex<VecDeque<(Duration, String, String, OutcomeKind)>>);

impl Outcomes {
    /// Notes an outcome.
    pub fn note(&self, now: Duration, operation: &str, subject: &str, kind: OutcomeKind) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = |(_, o, s, _): &(Duration, String, String, OutcomeKind)| o == operation && s == subject;
        // One that fails again and again must not push out what became of all others.
        if let Some((oldest, _)) = all.iter().enumerate().filter(|(_, outcome)| alike(outcome)).nth(KEPT_ALIKE - 1) {
            all.remove(oldest);
        }
        all.push_front((now, operation.into(), subject.into(), kind));
        all.truncate(KEPT);
    }

    /// Notes what the guard refused, for policies to back off by. A refusal that isn't about the plan (no Lease, a stale view) is
    /// not noted: once it is over nothing should wait.
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
        for n in 0..1_000_u64 {
            outcomes.note(Duration::from_millis(n), "follow", &n.to_string(), OutcomeKind::Done);
        }
        let recent = outcomes.recent(Duration::from_secs(1));
        assert_eq!((recent.len(), recent[0].subject.as_str(), recent[0].age), (KEPT, "999", 1));
        assert!(outcomes.recent(Duration::from_secs(2000)).is_empty());
    }

    #[test]
    fn one_that_fails_for_ever_does_not_push_out_the_others() {
        let outcomes = Outcomes::default();
        outcomes.note(Duration::ZERO, "meet", "a", OutcomeKind::Done);
        for n in 1..=1_000 {
            outcomes.note(Duration::from_millis(n), "forget", "b", OutcomeKind::Failed("why".into()));
        }
        let recent = outcomes.recent(Duration::from_secs(1));
        assert_eq!((recent.len(), recent[0].age, recent[KEPT_ALIKE].subject.as_str()), (KEPT_ALIKE + 1, 0, "a"));
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
