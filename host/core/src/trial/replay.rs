//! Shows another policy what was decided on, and compares.
//!
//! # Assumptions
//! A policy is pure: on the observation that was recorded the same module gives the same plan. So what differs is the module's
//! doing. What a different plan would have led to is not known: the next observation is the one that followed the recorded plan.

use vko_wit::planning::{Plan, PolicyError};

use super::CALM;
use super::difference::{self, Difference};
use super::record::{Answer, Recorded};
use super::words::{Names, plan_in_words};
use crate::guard::guard;
use crate::policy::{GuestError, Policy};

/// What became of one decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Replayed {
    /// The same plan, or again none.
    Same,
    /// Another one.
    Different(Box<Different>),
}

/// Two answers to one observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Different {
    /// The recorded one, in words.
    pub before: Vec<String>,
    /// The module's.
    pub after: Vec<String>,
    /// Where two plans differ first; `None` where one of the two is none.
    pub first: Option<Difference>,
    /// What the guard would refuse of the module's plan.
    pub refused: Vec<String>,
}

/// Replays one decision.
pub fn replay(policy: &dyn Policy, recorded: &Recorded) -> Replayed {
    let answer = policy.decide(&recorded.observed);
    match (&recorded.answer, &answer) {
        (Answer::Plan(before), Ok(Ok(after))) if **before == *after => Replayed::Same,
        (Answer::Held(_), Ok(Err(PolicyError::Insufficient(_)))) => Replayed::Same,
        (before, after) => Replayed::Different(Box::new(different(recorded, before, after))),
    }
}

fn different(recorded: &Recorded, before: &Answer, after: &Result<Result<Plan, PolicyError>, GuestError>) -> Different {
    let observed = &*recorded.observed;
    let first = match (before, after) {
        (Answer::Plan(before), Ok(Ok(after))) => difference::between(before, after, &Names::of(observed)),
        _ => None,
    };
    let refused = match after {
        Ok(Ok(plan)) => guard(plan, observed, CALM, &[]).refusals.iter().map(super::conformance::told).collect(),
        _ => Vec::new(),
    };
    let before = match before {
        Answer::Plan(plan) => plan_in_words(plan, observed),
        Answer::Held(why) => vec![format!("no plan: {why}")],
    };
    let after = match after {
        Ok(Ok(plan)) => plan_in_words(plan, observed),
        Ok(Err(PolicyError::Insufficient(why))) => vec![format!("no plan: the policy lacks facts: {why}")],
        Ok(Err(PolicyError::Internal(why))) => vec![format!("no plan: the policy says that it failed: {why}")],
        Err(error) => vec![format!("no plan: {error}")],
    };
    Different { before, after, first, refused }
}
