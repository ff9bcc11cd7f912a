//! Which policy governs an instance.
//!
//! # Guarantees
//! 1. A bad module never stops reconciliation: whatever it does, the last good version plans in the same look. (The first
//!    deadline that it misses while it governs costs one look: the machine may have been busy. The first one that a newcomer
//!    misses costs nothing but time: the policy in force plans, and the newcomer is asked once more.)
//! 2. A newcomer governs only after a shadow run on this instance's own observation: it answered, the guard refused nothing, and
//!    it would disturb no more than the policy in force. One that would waits for a person, who pins its version.
//! 3. A swap happens at a rest point: no track runs. Rolling back waits for nothing.
//! 4. The host's own weather (Lease, stale views, API server away) never counts against a policy.
//! 5. The built-in policy is never given up: when it fails itself, the instance holds.
//! 6. A pin on a version that isn't there changes nothing: who pins doesn't want the newest. What governs stays, and it is said.
//!
//! # Flow (one look)
//! 1. A policy in force that isn't there any more is rolled back.
//! 2. [`wanted`] picks from what was admitted, without those that this instance or everybody gave up: the pinned version, or the
//!    newest where none is pinned.
//! 3. A newcomer runs in the shadow.
//! 4. The policy in force decides.
//! 5. When it fails, or the guard refuses its plan on a fresh view, it is given up here and the last good one decides; repeated
//!    failures withdraw it everywhere ([`crate::registry`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use vko_api::names;
use vko_wit::observation::Observed;
use vko_wit::planning::{Operation, Plan, PolicyError, Track};

use crate::guard::{Circumstances, Guarded, Refusal, guard};
use crate::policy::{GuestError, Policy, PolicyInfo};
use crate::registry::Registry;

/// One instance's choice of policies.
pub struct Governor {
    registry: Arc<Registry>,
    active: Arc<dyn Policy>,
    last_good: Arc<dyn Policy>,
    given_up: BTreeMap<String, GivenUp>,
    /// A newcomer that would disturb more than the policy in force.
    waits: Option<GivenUp>,
    missing: Option<PinMissing>,
    /// How often in a row the policy in force ran past its deadline.
    deadlines: u32,
    /// The newcomer, by its digest, that ran past its deadline in its last shadow run, and how often in a row.
    late: Option<(String, u32)>,
}

/// A version is pinned that isn't there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinMissing {
    pin: String,
    /// For a person.
    pub message: String,
}

impl PinMissing {
    /// Of conditions and events.
    pub const REASON: &'static str = "PolicyVersionMissing";
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
    /// Policies that were given up, or began to wait for a person, in this look.
    pub given_up: Vec<GivenUp>,
    /// A pin on a version that isn't there, seen first in this look.
    pub missing: Option<PinMissing>,
    /// A swap that happened in this look: from, to.
    pub swapped: Option<(PolicyInfo, PolicyInfo)>,
    /// A newcomer did not answer in time and is to be asked once more, soon: a quiet instance brings no look by itself.
    pub ask_again: bool,
}

/// What one look starts from.
struct Look<'a> {
    observed: &'a Observed,
    circumstances: Circumstances,
    running: &'a [Track],
    pin: &'a str,
}

/// A policy that runs past its deadline once may have met a busy machine; twice in a row is its own doing.
const DEADLINES_MAX: u32 = 2;

impl Governor {
    /// Starts with the built-in policy.
    pub fn new(registry: Arc<Registry>, built_in: Arc<dyn Policy>) -> Self {
        let last_good = built_in.clone();
        Self {
            registry,
            active: built_in,
            last_good,
            given_up: BTreeMap::new(),
            waits: None,
            missing: None,
            deadlines: 0,
            late: None,
        }
    }

    /// Policies that this instance gave up, and one that waits for a person.
    pub fn given_up(&self) -> impl Iterator<Item = &GivenUp> {
        self.given_up.values().chain(self.waits.as_ref())
    }

    /// The pinned version that isn't there.
    pub fn missing(&self) -> Option<&PinMissing> {
        self.missing.as_ref()
    }

    /// Decides. `running`: the tracks that run; there are none at a rest point. Blocks for as long as guests may run: call it
    /// where that is allowed.
    pub fn decide(&mut self, observed: &Observed, circumstances: Circumstances, running: &[Track], pin: &str) -> Decision {
        let look = Look { observed, circumstances, running, pin };
        let before = self.active.info().clone();
        let mut told = Vec::new();
        self.adopt(&look, &mut told);
        let after = self.active.info().clone();
        let missing = self.judge_pin(&look);
        let mut decision = self.plan(&look, &mut told);
        decision.given_up = told;
        decision.ask_again = self.late.as_ref().is_some_and(|(_, times)| *times < DEADLINES_MAX);
        decision.missing = missing;
        decision.swapped = (before != after).then_some((before, after));
        decision
    }

    /// Takes over what was admitted, withdrawn, pinned or rolled back since the last look.
    fn adopt(&mut self, look: &Look<'_>, told: &mut Vec<GivenUp>) {
        let admitted = self.registry.admitted();
        self.given_up.retain(|digest, _| admitted.iter().any(|policy| &policy.info().digest == digest));
        let usable = self.usable();
        if !contains(&usable, self.active.info()) {
            self.roll_back(&usable, look);
        }
        let wanted = wanted(&usable, look.observed.instance.architecture, look.pin);
        let Some(newcomer) = wanted.filter(|wanted| wanted.info() != self.active.info()) else {
            self.waits = None;
            self.late = None;
            return;
        };
        if !look.running.is_empty() {
            return;
        }
        let shadow = shadow(&*newcomer, &*self.active, look);
        if !matches!(shadow, Shadow::Late(_)) {
            self.late = None;
        }
        match shadow {
            Shadow::Fit => self.enthrone(newcomer),
            Shadow::Later => {}
            Shadow::Late(_) if self.is_late(newcomer.info()) < DEADLINES_MAX => {}
            Shadow::Late(error) if !self.registry.is_built_in(newcomer.info()) => {
                self.give_up(&newcomer, error.reason(), error.to_string(), told);
            }
            Shadow::Late(_) => {}
            Shadow::DisturbsMore(message) => self.wait(&newcomer, message, told),
            // A built-in that fails has nothing to fall back to: it stays out for now and is asked again.
            Shadow::Unfit(..) if self.registry.is_built_in(newcomer.info()) => {}
            Shadow::Unfit(reason, message) => self.give_up(&newcomer, reason, message, told),
        }
    }

    /// Counts a missed deadline of a newcomer; returns how many that makes in a row.
    fn is_late(&mut self, newcomer: &PolicyInfo) -> u32 {
        let before = self.late.take().filter(|(digest, _)| *digest == newcomer.digest).map_or(0, |(_, times)| times);
        self.late = Some((newcomer.digest.clone(), before + 1));
        before + 1
    }

    /// Notes whether the pinned version is there; returns what is to be told now.
    fn judge_pin(&mut self, look: &Look<'_>) -> Option<PinMissing> {
        let before = self.missing.take();
        let architecture = look.observed.instance.architecture;
        let there: Vec<Arc<dyn Policy>> =
            self.registry.admitted().into_iter().filter(|policy| policy.info().architecture == architecture).collect();
        if look.pin.is_empty() || there.iter().any(|policy| policy.info().version == look.pin) {
            return None;
        }
        let told = |policy: &Arc<dyn Policy>| {
            let PolicyInfo { name, version, .. } = policy.info();
            let where_from = if self.registry.is_built_in(policy.info()) { " (built in)" } else { "" };
            format!("{version}, of {name}{where_from}")
        };
        let there = there.iter().map(told).collect::<Vec<_>>().join("; ");
        let PolicyInfo { name, version, .. } = self.active.info();
        let message = format!(
            "{}={} pins a version that no policy for this architecture has; {name} {version} governs, as before; pin one that is              there ({there}), take the annotation away for the highest of them, or install the version",
            names::PIN,
            look.pin
        );
        let missing = PinMissing { pin: look.pin.to_owned(), message };
        self.missing = Some(missing.clone());
        before.is_none_or(|before| before.pin != look.pin).then_some(missing)
    }

    /// What may govern here.
    fn usable(&self) -> Vec<Arc<dyn Policy>> {
        self.registry.admitted().into_iter().filter(|policy| !self.given_up.contains_key(&policy.info().digest)).collect()
    }

    fn enthrone(&mut self, policy: Arc<dyn Policy>) {
        self.active = policy;
        self.deadlines = 0;
        self.waits = None;
    }

    /// The policy in force was taken away (its ConfigMap is gone, or it failed in too many places): what governed before, else
    /// the built-in.
    fn roll_back(&mut self, usable: &[Arc<dyn Policy>], look: &Look<'_>) {
        let before = usable.iter().find(|policy| policy.info() == self.last_good.info()).cloned();
        if let Some(next) = before.or_else(|| self.registry.built_in(look.observed.instance.architecture)) {
            self.last_good = next.clone();
            self.enthrone(next);
        }
    }

    fn plan(&mut self, look: &Look<'_>, told: &mut Vec<GivenUp>) -> Decision {
        let policy = self.active.clone();
        let answer = policy.decide(look.observed);
        if let Err(GuestError::PolicyDeadline(ms)) = &answer {
            self.deadlines += 1;
            if self.deadlines < DEADLINES_MAX {
                return held(&policy, format!("the policy did not answer within {ms} ms; it is asked once more"));
            }
        } else {
            self.deadlines = 0;
        }
        match answer {
            Ok(Ok(plan)) => {
                let guarded = guard(&plan, look.observed, look.circumstances, look.running);
                match blame(&guarded, look.circumstances) {
                    Some(refusal) if !self.registry.is_built_in(policy.info()) => {
                        self.fall_back(&policy, REFUSED, told_refusal(refusal), look, told)
                    }
                    _ => {
                        self.last_good = policy.clone();
                        Decision { plan: Some(plan), guarded, hold: None, ..held(&policy, String::new()) }
                    }
                }
            }
            Ok(Err(PolicyError::Insufficient(why))) => held(&policy, format!("the policy lacks facts: {why}")),
            Ok(Err(PolicyError::Internal(why))) => self.fall_back(&policy, INTERNAL, why, look, told),
            Err(error) => self.fall_back(&policy, error.reason(), error.to_string(), look, told),
        }
    }

    /// Gives a policy up and lets the next one decide; the built-in itself failing means: hold.
    fn fall_back(
        &mut self,
        failed: &Arc<dyn Policy>,
        reason: &'static str,
        message: String,
        look: &Look<'_>,
        told: &mut Vec<GivenUp>,
    ) -> Decision {
        if self.registry.is_built_in(failed.info()) {
            return held(failed, format!("the built-in policy fails ({reason}): {message}; nothing is done until it answers"));
        }
        self.give_up(failed, reason, message, told);
        let usable = self.usable();
        self.roll_back(&usable, look);
        if self.active.info() == failed.info() {
            return held(failed, "no policy is left".into());
        }
        self.plan(look, told)
    }

    fn give_up(&mut self, policy: &Arc<dyn Policy>, reason: &'static str, message: String, told: &mut Vec<GivenUp>) {
        let given_up = GivenUp { policy: policy.info().clone(), reason, message };
        self.registry.note_failure(policy.info());
        self.given_up.insert(policy.info().digest.clone(), given_up.clone());
        told.push(given_up);
    }

    /// A newcomer waits for a person; said once.
    fn wait(&mut self, newcomer: &Arc<dyn Policy>, message: String, told: &mut Vec<GivenUp>) {
        let known = self.waits.as_ref().is_some_and(|waits| &waits.policy == newcomer.info());
        let waits = GivenUp { policy: newcomer.info().clone(), reason: DISTURBS_MORE, message };
        if !known {
            told.push(waits.clone());
        }
        self.waits = Some(waits);
    }
}

const REFUSED: &str = "PolicyRefusedByGuard";
const INTERNAL: &str = "PolicyInternalError";
const DISTURBS_MORE: &str = "PolicyDisturbsMore";

fn held(policy: &Arc<dyn Policy>, hold: String) -> Decision {
    Decision {
        plan: None,
        guarded: Guarded::default(),
        policy: policy.info().clone(),
        hold: Some(hold),
        given_up: Vec::new(),
        missing: None,
        swapped: None,
        ask_again: false,
    }
}

fn contains(policies: &[Arc<dyn Policy>], info: &PolicyInfo) -> bool {
    policies.iter().any(|policy| policy.info() == info)
}

/// The refusal that speaks against the policy; none on a view that wasn't fresh.
fn blame(guarded: &Guarded, circumstances: Circumstances) -> Option<&Refusal> {
    guarded.refusals.iter().find(|refusal| circumstances.fresh && refusal.blames_policy())
}

fn told_refusal(refusal: &Refusal) -> String {
    format!("the guard refused {} ({}): {}", refusal.operation, refusal.subject, refusal.why)
}

/// The policy that should govern: the pinned version and no other, or the highest where none is pinned; of equal versions a
/// module goes before the built-in, since somebody put it there.
pub fn wanted(usable: &[Arc<dyn Policy>], architecture: vko_wit::common::Architecture, pin: &str) -> Option<Arc<dyn Policy>> {
    let mut fitting = usable.iter().filter(|policy| policy.info().architecture == architecture);
    match pin {
        "" => fitting.max_by_key(|policy| precedence(&policy.info().version)),
        pin => fitting.rfind(|policy| policy.info().version == pin),
    }
    .cloned()
}

/// Semantic versions by their numbers; a pre-release comes before its release, build metadata doesn't count.
fn precedence(version: &str) -> (Vec<u64>, bool, String) {
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (numbers, pre) = version.split_once('-').unwrap_or((version, ""));
    (numbers.split('.').map(|n| n.parse().unwrap_or(0)).collect(), pre.is_empty(), pre.to_owned())
}

enum Shadow {
    Fit,
    Later,
    /// It did not answer in time.
    Late(GuestError),
    DisturbsMore(String),
    Unfit(&'static str, String),
}

/// The newcomer decides on the observation as it is, guarded, not executed.
fn shadow(newcomer: &dyn Policy, active: &dyn Policy, look: &Look<'_>) -> Shadow {
    let plan = match newcomer.decide(look.observed) {
        Ok(Ok(plan)) => plan,
        Ok(Err(PolicyError::Insufficient(_))) => return Shadow::Later,
        Ok(Err(PolicyError::Internal(why))) => return Shadow::Unfit(INTERNAL, why),
        Err(error @ GuestError::PolicyDeadline(_)) => return Shadow::Late(error),
        Err(error) => return Shadow::Unfit(error.reason(), error.to_string()),
    };
    if !look.circumstances.fresh {
        return Shadow::Later;
    }
    let guarded = guard(&plan, look.observed, look.circumstances, look.running);
    if let Some(refusal) = blame(&guarded, look.circumstances) {
        return Shadow::Unfit(REFUSED, told_refusal(refusal));
    }
    let now = match active.decide(look.observed) {
        Ok(Ok(plan)) => disturbance(&plan),
        _ => 0,
    };
    let (then, version) = (disturbance(&plan), &newcomer.info().version);
    if then <= now || look.pin == version {
        return Shadow::Fit;
    }
    let message = format!(
        "it would disturb {then} members where the policy in force disturbs {now}; annotate the Valkey with {}={version} to let it govern all the same",
        names::PIN
    );
    Shadow::DisturbsMore(message)
}

/// How many members a plan disturbs.
fn disturbance(plan: &Plan) -> usize {
    let disturbs = |operation: &Operation| {
        matches!(
            operation,
            Operation::Evict(_)
                | Operation::ForceDelete(_)
                | Operation::Promote(_)
                | Operation::HandOver(_)
                | Operation::DeleteClaim(_)
                | Operation::DeleteObject(_)
                | Operation::Detach(_)
        )
    };
    plan.tracks.iter().flat_map(|track| &track.steps).filter(|step| disturbs(&step.operation)).count()
}

#[cfg(test)]
mod tests;
