//! GUARD: what no policy may do. Host code, pure, with evidence of its own from the observation itself.
//!
//! # Guarantees
//! 1. A step that a rule refuses is not done, and neither are the steps after it in its track; other tracks go on.
//! 2. A rule refuses when the evidence is missing, not only when it speaks against: unknown is not no.
//! 3. What a person wants in spite of a rule is a consent that names situation and target; the rules that can be overruled say
//!    so.
//! 4. Labels, status and desired objects always go through, but for a workload that would shrink over data.
//!
//! # Assumptions
//! The observation is the one that the plan was made for. What can change between the two looks is in the step's expectations.
//!
//! # Flow
//! 1. [`guard`] walks the plan's tracks.
//! 2. Each step meets every rule of [`RULES`].
//! 3. What is left goes to EXECUTE; the refusals become an event, a condition and a metric, and count against the policy when the
//!    view was fresh.

mod claims;
mod cluster;
mod data;
mod disrupt;
mod evidence;
mod objects;
mod promote;
mod roll;
mod sentinels;
mod shrink;
mod stale;
mod writers;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use vko_wit::observation::Observed;
use vko_wit::planning::{Desired, Plan, Step, Track};

pub use self::evidence::View;
pub use self::shrink::members_now;

use crate::execute::names;

/// What the guard knows beside the observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// The Lease lasts long enough to act.
    pub lease: bool,
    /// The caches are fresh.
    pub fresh: bool,
    /// The operator seems to be cut off from the servers.
    pub cut_off: bool,
    /// The spec that was observed is still the newest that we know.
    pub current: bool,
}

impl Circumstances {
    /// Whether nothing speaks against acting on what was observed.
    pub const fn is_calm(self) -> bool {
        self.lease && self.fresh && self.current && !self.cut_off
    }
}

/// One rule.
pub struct Rule {
    /// Its number in the design.
    pub number: u8,
    /// Metric label, event reason, condition reason.
    pub name: &'static str,
    /// The check; the error says what speaks against the step, for a person.
    pub check: fn(&Step, &View<'_>) -> Result<(), String>,
}

/// The rules, in the order in which they are asked. The one on moving slots (8) comes with the moves.
pub const RULES: [Rule; 8] = [
    Rule { number: 10, name: "StaleView", check: stale::check },
    Rule { number: 6, name: "OperationNotListed", check: objects::check_listed },
    Rule { number: 5, name: "ObjectNotOwned", check: objects::check_owned },
    Rule { number: 1, name: "OnlyCopy", check: data::check },
    Rule { number: 2, name: "PromotionWithoutEvidence", check: promote::check },
    Rule { number: 4, name: "SecondDisruption", check: disrupt::check },
    Rule { number: 9, name: "SentinelMajority", check: sentinels::check },
    Rule { number: 7, name: "ClaimInUse", check: claims::check },
];

/// A refused step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Number of the rule.
    pub rule: u8,
    /// Name of the rule.
    pub name: &'static str,
    /// Track.
    pub subject: String,
    /// Operation.
    pub operation: &'static str,
    /// What speaks against it.
    pub why: String,
}

impl Refusal {
    /// Whether it counts against the policy. The host's own weather (Lease, stale views, API down) never does.
    pub fn blames_policy(&self) -> bool {
        self.rule != 10
    }
}

/// What is left of a plan.
#[derive(Debug, Clone, Default)]
pub struct Guarded {
    /// Tracks, each cut before its first refused step; empty ones are gone.
    pub tracks: Vec<Track>,
    /// What was refused.
    pub refusals: Vec<Refusal>,
}

/// Checks a plan's tracks. `running` are the tracks that run: what they disturb and whom they promote counts too.
pub fn guard(plan: &Plan, observed: &Observed, circumstances: Circumstances, running: &[Track]) -> Guarded {
    let mut guarded = Guarded::default();
    let mut view = View::new(observed, circumstances);
    running.iter().for_each(|track| view.admit_running(track));
    for track in &plan.tracks {
        if running.iter().any(|other| other.subject == track.subject) {
            // It goes on as it was admitted; the plan's version of it is ignored anyway.
            guarded.tracks.push(Track { subject: track.subject.clone(), steps: Vec::new() });
            continue;
        }
        view.begin_track();
        let mut steps = Vec::new();
        for step in &track.steps {
            if let Some(refusal) = refuse(track, step, &view) {
                guarded.refusals.push(refusal);
                break;
            }
            view.admit(step);
            steps.push(step.clone());
        }
        if !steps.is_empty() {
            guarded.tracks.push(Track { subject: track.subject.clone(), steps });
        }
    }
    guarded.refusals.extend(plan.desired.iter().filter_map(|desired| refuse_desired(desired, &view)));
    guarded
}

fn refuse(track: &Track, step: &Step, view: &View<'_>) -> Option<Refusal> {
    RULES.iter().find_map(|rule| {
        (rule.check)(step, view).err().map(|why| Refusal {
            rule: rule.number,
            name: rule.name,
            subject: track.subject.clone(),
            operation: names::operation(&step.operation),
            why,
        })
    })
}

fn refuse_desired(desired: &Desired, view: &View<'_>) -> Option<Refusal> {
    let Desired::Workload(workload) = desired else { return None };
    shrink::check(workload, view).err().map(|why| Refusal {
        rule: 7,
        name: "ShrinkOverData",
        subject: workload.name.clone(),
        operation: "workload",
        why,
    })
}
