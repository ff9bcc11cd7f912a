//! Whether a policy keeps the rules on a scene: the sandbox's bounds, the guard, and what each instance needs to get on.
//!
//! # Guarantees
//! 1. What is broken is named by the rule that the operator would name, and comes with what to do.
//! 2. A policy that does nothing doesn't conform: an instance would stand still with it.
//!
//! # Flow
//! 1. The policy validates the scene's spec, which is in force.
//! 2. It decides, twice: pure functions answer alike.
//! 3. The guard judges the plan, on a fresh view and with the Lease.
//! 4. What is left of the plan is held against what the scene needs.

use std::time::Duration;

use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Severity};

use super::CALM;
use super::words::plan_in_words;
use crate::guard::{Guarded, Refusal, guard};
use crate::policy::{GuestError, Policy};

/// What an instance needs in a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing that can be said of every policy: it must be safe.
    Safety,
    /// All is as declared: no step.
    Rest,
    /// It doesn't get on by itself: at least one step.
    Act,
}

/// A scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// What happened.
    pub name: String,
    /// What the policy sees.
    pub observed: Observed,
    /// What the instance needs.
    pub need: Need,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule, by the name that the operator uses in events and conditions where it has one.
    pub rule: String,
    /// What speaks against the policy.
    pub why: String,
    /// What its author can do.
    pub remedy: &'static str,
}

/// How a policy did in one scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What it planned, in words; or that it planned nothing.
    pub plan: Vec<String>,
    /// How long the first call took.
    pub took: Duration,
    /// What it broke; empty if it conforms.
    pub broken: Vec<Broken>,
}

type Word = Result<Result<Plan, PolicyError>, GuestError>;

/// Judges a policy in a scene. `now`: a clock that only goes forward. Blocks for as long as a guest may run.
pub fn judge(policy: &dyn Policy, scene: &Scene, now: &dyn Fn() -> Duration) -> Judged {
    let begun = now();
    let word = policy.decide(&scene.observed);
    let took = now().saturating_sub(begun);
    let mut broken = validated(policy, scene);
    broken.extend(failed(&word));
    if broken.is_empty() {
        broken.extend(pure(policy, scene, &word));
        broken.extend(safe_and_useful(scene, &word));
    }
    Judged { plan: in_words(&word, scene), took, broken }
}

fn validated(policy: &dyn Policy, scene: &Scene) -> Vec<Broken> {
    let spec = scene.observed.instance.spec.as_str();
    match policy.validate(spec, spec) {
        Err(error) => vec![crashed(&error)],
        Ok(found) => {
            let errors = found.into_iter().filter(|violation| violation.severity == Severity::Error);
            let remedy = "accept what the custom resource accepts: a refused spec never comes into force";
            errors.map(|v| broken("SpecRefused", format!("validate refuses {}: {}", v.field, v.message), remedy)).collect()
        }
    }
}

fn failed(word: &Word) -> Option<Broken> {
    match word {
        Err(error) => Some(crashed(error)),
        Ok(Err(PolicyError::Internal(why))) => {
            let remedy = "a policy that lacks a fact says Insufficient; Internal is a fault of its own, and it is replaced";
            Some(broken("PolicyInternalError", format!("it says that it failed: {why}"), remedy))
        }
        Ok(_) => None,
    }
}

fn crashed(error: &GuestError) -> Broken {
    let remedy = match error {
        GuestError::PolicyTrapped(_) => "handle the case instead of panicking: the message names file and line if it was a panic",
        GuestError::PolicyDeadline(_) => "bound each loop by what is observed; the same call runs natively in a test of yours",
        GuestError::PolicyOutOfMemory(_) => "keep no copies of the observation; an observation of 640 servers is 3 MiB",
        GuestError::PolicyOutputTooLarge(_) => "say less in messages and details; a status that large couldn't be stored either",
        GuestError::PolicyOutputInvalid(_) => "name only UIDs of this observation, and JSON where the interface says JSON",
        GuestError::PolicyNotCallable(_) => "build it with 'cargo xtask guests': its exports or its start code don't fit",
    };
    broken(error.reason(), error.to_string(), remedy)
}

fn pure(policy: &dyn Policy, scene: &Scene, first: &Word) -> Option<Broken> {
    let again = policy.decide(&scene.observed);
    let remedy = "decide by the observation alone; sort what comes out of a HashMap, whose order is random";
    (again != *first).then(|| broken("NotPure", "asked twice on the same observation, it gave two answers".into(), remedy))
}

fn safe_and_useful(scene: &Scene, word: &Word) -> Vec<Broken> {
    let guarded = match word {
        Ok(Ok(plan)) => guard(plan, &scene.observed, CALM, &[]),
        _ => Guarded::default(),
    };
    if !guarded.refusals.is_empty() {
        return guarded.refusals.iter().map(refused).collect();
    }
    let steps = guarded.tracks.len();
    match scene.need {
        Need::Rest if steps > 0 => {
            let remedy =
                "plan steps only for what differs from what is declared; a step in a quiet instance comes again each look";
            vec![broken("NoRest", format!("all is as declared, and it plans {steps} track(s)"), remedy)]
        }
        Need::Act if steps == 0 => {
            let remedy = "plan at least one step here (build on vko-replica, vko-failover or vko-cluster to get theirs)";
            vec![broken("StandsStill", "the instance doesn't get on by itself here, and nothing is planned".into(), remedy)]
        }
        _ => Vec::new(),
    }
}

fn refused(refusal: &Refusal) -> Broken {
    let remedy = match refusal.name {
        "OnlyCopy" => "make sure of a second synced copy first, or wait and say so in 'blocked'",
        "PromotionWithoutEvidence" => "promote only who was synced, and only once the old primary is dead or fenced",
        "SecondDisruption" => "disturb one member of a data set at a time, and wait until it is back",
        "ObjectNotOwned" => "touch only pods, claims and monitors of this instance, by their UIDs",
        "OperationNotListed" => "ask only for operations in environment.capabilities",
        "ClaimInUse" | "ShrinkOverData" => "move the data away first; a claim goes only when its member is forgotten and empty",
        "SentinelMajority" => "take one Sentinel at a time, and never while a failover runs",
        _ => "see the table of rules in ARCHITECTURE.md",
    };
    broken(refusal.name, told(refusal), remedy)
}

/// A refusal for a person.
pub(super) fn told(refusal: &Refusal) -> String {
    format!("the guard refuses {} of {}: {}", refusal.operation, refusal.subject, refusal.why)
}

fn broken(rule: &str, why: String, remedy: &'static str) -> Broken {
    Broken { rule: rule.to_owned(), why, remedy }
}

fn in_words(word: &Word, scene: &Scene) -> Vec<String> {
    match word {
        Ok(Ok(plan)) => plan_in_words(plan, &scene.observed),
        Ok(Err(PolicyError::Insufficient(why))) => vec![format!("no plan: it lacks facts: {why}")],
        Ok(Err(PolicyError::Internal(why))) => vec![format!("no plan: it failed: {why}")],
        Err(error) => vec![format!("no plan: {error}")],
    }
}
