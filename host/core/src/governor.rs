//! Which policy governs an instance.
//!
//! # Guarantees
//! 1. A bad module never stops reconciliation: whatever it does, the last good version plans in the same look.
//! 2. A newcomer governs only after a shadow run on this instance's own observation: it answered, the guard refused nothing, and it would
//!    disturb no more than the policy in force.
//! 3. A swap happens at a rest point: no track runs.
//! 4. The host's own weather (Lease, stale views, API server away) never counts against a policy.
//!
//! # Flow (one look)
//! 1. [`wanted`] picks from what was admitted: the pinned version, else the newest, without those that this instance or everybody gave up.
//! 2. A newcomer runs in the shadow. 3. The policy in force decides. 4. When it fails, or the guard refuses its plan on a fresh view, it is
//! given up here and the last good one decides; repeated failures withdraw it everywhere ([`crate::registry`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use vko_wit::observation::Observed;
use vko_wit::planning::{Operation, Plan, PolicyError};

use crate::guard::{Circumstances, Guarded, guard};
use crate::policy::{GuestError, Policy, PolicyInfo};
use crate::registry::Registry;

/// One instance's choice of policies.
pub struct Governor {
    registry: Arc<Registry>,
    active: Arc<dyn Policy>,
    last_good: Arc<dyn Policy>,
    given_up: BTreeMap<String, GivenUp>,
    deadlines: u32,
}

/// Why a policy doesn't govern this instance. The reason is a metric label, event reason and condition reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Which.
    pub policy: PolicyInfo,
    /// From a closed list.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
}

/// What a look brought.
pub struct Decision {
    /// The plan; `None` when the policy holds, or the built-in itself fails.
    pub plan: Option<Plan>,
    /// What the guard left of it.
    pub guarded: Guarded,
    /// Who decided.
    pub policy: PolicyInfo,
    /// Why the policy holds, for the status.
    pub hold: Option<String>,
    /// Policies given up in this look.
    pub given_up: Vec<GivenUp>,
    /// A swap that happened in this look: from, to.
    pub swapped: Option<(PolicyInfo, PolicyInfo)>,
}

/// A policy that runs past its deadline once may have met a busy machine; twice in a row is its own doing.
const DEADLINES_MAX: u32 = 2;

impl Governor {
    /// Starts with the built-in policy.
    pub fn new(registry: Arc<Registry>, built_in: Arc<dyn Policy>) -> Self {
        Self { registry, active: built_in.clone(), last_good: built_in, given_up: BTreeMap::new(), deadlines: 0 }
    }

    /// Policies that this instance gave up.
    pub fn given_up(&self) -> impl Iterator<Item = &GivenUp> {
        self.given_up.values()
    }

    /// Decides. `at_rest`: no track runs. Blocks for as long as guests may run: call it where that is allowed.
    pub fn decide(&mut self, observed: &Observed, circumstances: Circumstances, running: &[String], pin: &str) -> Decision {
        let before = self.active.info().clone();
        let mut given_up = Vec::new();
        self.adopt(observed, circumstances, running, pin, &mut given_up);
        let after = self.active.info().clone();
        let mut decision = self.plan(observed, circumstances, running, &mut given_up);
        decision.given_up = given_up;
        decision.swapped = (before != after).then_some((before, after));
        decision
    }

    /// Takes over what was admitted, withdrawn, pinned or rolled back since the last look.
    fn adopt(&mut self, observed: &Observed, circumstances: Circumstances, running: &[String], pin: &str, told: &mut Vec<GivenUp>) {
        let admitted = self.registry.admitted();
        self.given_up.retain(|digest, _| admitted.iter().any(|policy| &policy.info().digest == digest));
        let usable: Vec<Arc<dyn Policy>> = admitted.into_iter().filter(|p| !self.given_up.contains_key(&p.info().digest)).collect();
        let Some(wanted) = wanted(&usable, observed.instance.architecture, pin) else { return };
        if wanted.info() == self.active.info() {
            return;
        }
        let withdrawn = !usable.iter().any(|policy| policy.info() == self.active.info());
        if !withdrawn && !running.is_empty() {
            return;
        }
        match shadow(&*wanted, &*self.active, observed, circumstances) {
            Shadow::Fit => {
                self.active = wanted;
                self.deadlines = 0;
            }
            Shadow::Later => {}
            Shadow::Unfit(reason, message) => self.give_up(&wanted, reason, message, told),
        }
        if withdrawn && self.active.info() != self.last_good.info() {
            // The ConfigMap is gone: roll back to what governed before, or to the built-in.
            self.active = usable.iter().find(|p| p.info() == self.last_good.info()).cloned().unwrap_or_else(|| self.registry.built_in(observed.instance.architecture).unwrap_or_else(|| self.last_good.clone()));
        }
    }

    fn plan(&mut self, observed: &Observed, circumstances: Circumstances, running: &[String], told: &mut Vec<GivenUp>) -> Decision {
        let policy = self.active.clone();
        match policy.decide(observed) {
            Ok(Ok(plan)) => {
                self.deadlines = 0;
                let guarded = guard(&plan, observed, circumstances, running);
                let blame = guarded.refusals.iter().find(|refusal| circumstances.fresh && refusal.blames_policy());
                match blame {
                    Some(refusal) if !self.registry.is_built_in(policy.info()) => {
                        let message = format!("the guard refused {} ({}): {}", refusal.operation, refusal.subject, refusal.why);
                        self.fall_back(&policy, "PolicyRefusedByGuard", message, observed, circumstances, running, told)
                    }
                    _ => {
                        self.last_good = policy.clone();
                        Decision { plan: Some(plan), guarded, ..held(&policy, None) }
                    }
                }
            }
            Ok(Err(PolicyError::Insufficient(why))) => held(&policy, Some(format!("the policy lacks facts: {why}"))),
            Ok(Err(PolicyError::Internal(why))) => self.fall_back(&policy, "PolicyInternalError", why, observed, circumstances, running, told),
            Err(GuestError::PolicyDeadline(ms)) if self.deadlines + 1 < DEADLINES_MAX => {
                self.deadlines += 1;
                held(&policy, Some(format!("the policy did not answer within {ms} ms; it is asked once more")))
            }
            Err(error) => self.fall_back(&policy, error.reason(), error.to_string(), observed, circumstances, running, told),
        }
    }

    /// Gives a policy up and lets the next one decide; the built-in itself failing means: hold.
    #[allow(clippy::too_many_arguments, reason = "one look's facts, passed on as they came")]
    fn fall_back(
        &mut self,
        policy: &Arc<dyn Policy>,
        reason: &'static str,
        message: String,
        observed: &Observed,
        circumstances: Circumstances,
        running: &[String],
        told: &mut Vec<GivenUp>,
    ) -> Decision {
        if self.registry.is_built_in(policy.info()) {
            return held(policy, Some(format!("the built-in policy fails ({reason}): {message}; nothing but labels and status is done")));
        }
        self.give_up(policy, reason, message, told);
        let next = if self.last_good.info() == policy.info() { None } else { Some(self.last_good.clone()) };
        let Some(next) = next.or_else(|| self.registry.built_in(observed.instance.architecture)) else {
            return held(policy, Some("no policy is left".into()));
        };
        self.active = next;
        self.deadlines = 0;
        self.plan(observed, circumstances, running, told)
    }

    fn give_up(&mut self, policy: &Arc<dyn Policy>, reason: &'static str, message: String, told: &mut Vec<GivenUp>) {
        let given_up = GivenUp { policy: policy.info().clone(), reason, message };
        self.registry.note_failure(policy.info());
        self.given_up.insert(policy.info().digest.clone(), given_up.clone());
        told.push(given_up);
    }
}

fn held(policy: &Arc<dyn Policy>, hold: Option<String>) -> Decision {
    Decision { plan: None, guarded: Guarded::default(), policy: policy.info().clone(), hold, given_up: Vec::new(), swapped: None }
}

/// The policy that should govern: the pinned version, else the highest; of equal versions a module goes before the built-in, since somebody put
/// it there.
pub fn wanted(usable: &[Arc<dyn Policy>], architecture: vko_wit::common::Architecture, pin: &str) -> Option<Arc<dyn Policy>> {
    let fitting = || usable.iter().filter(|policy| policy.info().architecture == architecture);
    let pinned = fitting().filter(|policy| !pin.is_empty() && policy.info().version == pin).next_back();
    pinned.or_else(|| fitting().max_by_key(|policy| precedence(&policy.info().version))).cloned()
}

/// Semantic versions by their numbers; a pre-release comes before its release.
fn precedence(version: &str) -> (Vec<u64>, bool, String) {
    let (numbers, pre) = version.split_once('-').unwrap_or((version, ""));
    (numbers.split('.').map(|n| n.parse().unwrap_or(0)).collect(), pre.is_empty(), pre.to_owned())
}

enum Shadow {
    Fit,
    Later,
    Unfit(&'static str, String),
}

/// The newcomer decides on the observation as it is, guarded, not executed.
fn shadow(newcomer: &dyn Policy, active: &dyn Policy, observed: &Observed, circumstances: Circumstances) -> Shadow {
    let plan = match newcomer.decide(observed) {
        Ok(Ok(plan)) => plan,
        Ok(Err(PolicyError::Insufficient(_))) => return Shadow::Later,
        Ok(Err(PolicyError::Internal(why))) => return Shadow::Unfit("PolicyInternalError", why),
        Err(error) => return Shadow::Unfit(error.reason(), error.to_string()),
    };
    let guarded = guard(&plan, observed, circumstances, &[]);
    if let Some(refusal) = guarded.refusals.iter().find(|refusal| refusal.blames_policy()) {
        if !circumstances.fresh {
            return Shadow::Later;
        }
        return Shadow::Unfit("PolicyRefusedByGuard", format!("the guard refused {} ({}): {}", refusal.operation, refusal.subject, refusal.why));
    }
    let now = match active.decide(observed) {
        Ok(Ok(plan)) => disturbance(&plan),
        _ => 0,
    };
    let then = disturbance(&plan);
    if then > now {
        let message = format!("it would disturb {then} members where the policy in force disturbs {now}; pin its version to let it govern all the same");
        return if observed.instance.annotations.iter().any(|pair| pair.key == vko_api::names::PIN && pair.value == newcomer.info().version) {
            Shadow::Fit
        } else {
            Shadow::Unfit("PolicyDisturbsMore", message)
        };
    }
    Shadow::Fit
}

/// How many members a plan disturbs.
fn disturbance(plan: &Plan) -> usize {
    let disturbs = |operation: &Operation| {
        matches!(operation, Operation::Evict(_) | Operation::ForceDelete(_) | Operation::Promote(_) | Operation::HandOver(_) | Operation::DeleteClaim(_) | Operation::DeleteObject(_) | Operation::Detach(_))
    };
    plan.tracks.iter().flat_map(|track| &track.steps).filter(|step| disturbs(&step.operation)).count()
}
