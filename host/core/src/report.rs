//! REPORT: the status of the topology object and of the Valkey, out of the plan and what the host knows itself. Pure.
//!
//! # Guarantees
//! 1. Ready is derived at each look and never remembered. It is Unknown, not False, while the operator is cut off, no policy
//!    could decide, or the one that did says nothing of it.
//! 2. Equal facts give an equal status: a quiet instance is not written, and neither is one that waits.
//!
//! # Flow
//! 1. What the policy says; over it what the host knows better (a problem of its own, being cut off, refusals, who governs).
//! 2. Only the last word on each condition meets the one that was shown before. (If the policy's word did too, a condition on
//!    which the two disagree would change twice at each look, with a new transition time, and the write would wake the next
//!    look.)
//! 3. The Valkey shows what its topology object shows, and whether its newest spec is in force.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};
use vko_api::conditions::{ConditionType, Truth, set};
use vko_wit::planning::{Phase, Plan, Truth as PlanTruth};

use crate::governor::Decision;
use crate::object::Kind;
use crate::observe::CutOff;
use crate::render::{TopologyKind, pod_selector};
use crate::world::UnixMs;

/// What the host itself has to say at a look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostFacts {
    /// Why the newest policy doesn't govern: reason and message; empty when it does.
    pub policy_problem: Option<(String, String)>,
    /// What stopped the host's own work (accounts, rendering, applying): reason and message.
    pub problem: Option<(String, String)>,
}

/// The topology object's status, without the ledger.
pub fn topology_status(
    before: &Value,
    decision: &Decision,
    host: &HostFacts,
    cut_off: &CutOff,
    generation: u64,
    now: UnixMs,
) -> Value {
    let mut report = Report::new(before, generation, now);
    match &decision.plan {
        Some(plan) => report.plan(plan),
        None => report.held(decision.hold.as_deref().unwrap_or_default()),
    }
    if let Some((reason, message)) = &host.problem {
        report.set(ConditionType::Progressing, Truth::No, reason, message);
        report.set(ConditionType::Ready, Truth::No, reason, message);
        report.message.clone_from(message);
    }
    if let CutOff::Yes(silent) = cut_off {
        let message = format!(
            "the operator does not reach {}, which Kubernetes says are ready: it waits and does nothing dangerous",
            silent.join(", ")
        );
        report.set(ConditionType::Ready, Truth::Unknown, "OperatorCutOff", &message);
        report.message = message;
    }
    for refusal in &decision.guarded.refusals {
        let message = format!("the guard refused {} of {}: {}", refusal.operation, refusal.subject, refusal.why);
        report.set(ConditionType::Progressing, Truth::No, refusal.name, &message);
    }
    report.policy(decision, host);
    report.finish(decision)
}

/// The last word on each condition.
#[derive(Default)]
struct Said(BTreeMap<ConditionType, (Truth, String, String)>);

impl Said {
    fn say(&mut self, kind: ConditionType, truth: Truth, reason: &str, message: &str) {
        self.0.insert(kind, (truth, reason.into(), message.into()));
    }

    /// The conditions as they are shown from now on; those that nobody spoke of stay.
    fn over(&self, before: &Value, generation: i64, now: &Time) -> Vec<Condition> {
        let mut conditions = conditions_of(before);
        for (kind, (truth, reason, message)) in &self.0 {
            set(&mut conditions, *kind, *truth, reason, message, generation, now);
        }
        conditions
    }
}

fn conditions_of(status: &Value) -> Vec<Condition> {
    status.get("conditions").and_then(|c| serde_json::from_value(c.clone()).ok()).unwrap_or_default()
}

struct Report<'a> {
    before: &'a Value,
    said: Said,
    generation: i64,
    now: Time,
    phase: &'static str,
    message: String,
    details: Value,
}

impl<'a> Report<'a> {
    fn new(before: &'a Value, generation: u64, now: UnixMs) -> Self {
        let generation = i64::try_from(generation).unwrap_or(i64::MAX);
        let details = crate::observe::details(before);
        // Without a plan the phase stays what it was: nothing is known to have changed.
        let known = |phase: &&str| before.get("phase").and_then(Value::as_str) == Some(phase);
        let phase = ["Rebalancing", "Ready", "Failed", "Paused"].into_iter().find(known).unwrap_or("Creating");
        Self { before, said: Said::default(), generation, now: time(now), phase, message: String::new(), details }
    }

    fn set(&mut self, kind: ConditionType, truth: Truth, reason: &str, message: &str) {
        self.said.say(kind, truth, reason, message);
    }

    fn plan(&mut self, plan: &Plan) {
        let status = &plan.status;
        self.phase = match status.phase {
            Phase::Initializing => "Creating",
            Phase::Rebalancing => "Rebalancing",
            Phase::Ready => "Ready",
            Phase::Failed => "Failed",
            Phase::Paused => "Paused",
        };
        self.message.clone_from(&status.message);
        if let Ok(details) = serde_json::from_str::<Value>(&status.details)
            && details.is_object()
        {
            self.details = details;
        }
        self.set(ConditionType::Ready, Truth::Unknown, "PolicySilent", "the policy does not say whether the instance is ready");
        for condition in &status.conditions {
            // A type that this host doesn't know is a newer policy's; it can't be shown and does no harm.
            let Some(kind) = ConditionType::from_name(&condition.kind) else { continue };
            let truth = match condition.state {
                PlanTruth::Yes => Truth::Yes,
                PlanTruth::No => Truth::No,
                PlanTruth::Unknown => Truth::Unknown,
            };
            self.set(kind, truth, reason(&condition.reason), &condition.message);
        }
        self.blocked(plan);
    }

    /// What waits. How consent is given is the host's to say; that something else than time is waited for is the policy's, and
    /// only where it doesn't say so it follows from the plan.
    fn blocked(&mut self, plan: &Plan) {
        let told: Vec<String> = plan.blocked.iter().map(describe).collect();
        let needs_person = plan.blocked.iter().any(|blocked| !blocked.token.is_empty());
        let (truth, word) = match (needs_person, told.is_empty()) {
            (true, _) => (Truth::Yes, "ConsentNeeded"),
            (false, false) => (Truth::No, "Waiting"),
            (false, true) if self.phase == "Ready" => (Truth::No, "AsDeclared"),
            (false, true) => (Truth::No, "Working"),
        };
        if needs_person || !self.said.0.contains_key(&ConditionType::Stalled) {
            self.set(ConditionType::Stalled, truth, word, &told.join("; "));
        }
        if told.is_empty() {
            return;
        }
        if self.message.is_empty() || needs_person {
            self.message = told.join("; ");
        }
    }

    fn held(&mut self, why: &str) {
        self.message = why.into();
        self.set(ConditionType::Ready, Truth::Unknown, "NoPlan", why);
    }

    fn policy(&mut self, decision: &Decision, host: &HostFacts) {
        let info = &decision.policy;
        match &host.policy_problem {
            Some((reason, message)) => self.set(ConditionType::PolicyActive, Truth::No, reason, message),
            None => {
                let message = format!("{} {} governs", info.name, info.version);
                self.set(ConditionType::PolicyActive, Truth::Yes, "Governs", &message);
            }
        }
    }

    fn finish(mut self, decision: &Decision) -> Value {
        if let Some((truth, reason, message)) = self.said.0.get(&ConditionType::Progressing).cloned() {
            let truth = if truth == Truth::Yes { Truth::Yes } else { Truth::No };
            self.set(ConditionType::Reconciling, truth, &reason, &message);
        }
        let info = &decision.policy;
        let mut status = json!({
            "phase": self.phase,
            "observedGeneration": self.generation,
            "conditions": self.said.over(self.before, self.generation, &self.now),
            "nodes": [],
            "policy": { "name": info.name, "version": info.version, "digest": info.digest, "interface": vko_wit::INTERFACE },
        });
        for key in crate::observe::DETAILS {
            if let Some(value) = self.details.get(key) {
                status[key] = value.clone();
            }
        }
        if !self.message.is_empty() {
            status["message"] = json!(self.message);
        }
        status
    }
}

fn describe(blocked: &vko_wit::planning::Blocked) -> String {
    let token = if blocked.token.is_empty() {
        String::new()
    } else {
        format!(" (to allow it, annotate the Valkey with {}={})", vko_api::names::CONSENT, blocked.token)
    };
    format!("{}: {}; {}{token}", blocked.subject, blocked.reason, blocked.remedy)
}

/// A reason must be CamelCase; anything else of a policy's would make the API server refuse the whole status.
fn reason(text: &str) -> &str {
    let camel = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.len() <= 1024;
    if camel { text } else { "PolicySays" }
}

pub(crate) fn time(now: UnixMs) -> Time {
    let seconds = i64::try_from(now / 1000).unwrap_or(0);
    Time(k8s_openapi::jiff::Timestamp::from_second(seconds).unwrap_or_default())
}

/// The Valkey's status, out of its topology object's. `refused`: why the newest spec is not in force (reason and message).
pub fn valkey_status(
    before: &Value,
    topology: Option<&crate::object::Object>,
    generation: u64,
    refused: Option<(&str, &str)>,
    now: UnixMs,
) -> Value {
    let generation_i = i64::try_from(generation).unwrap_or(i64::MAX);
    let below = topology.and_then(|t| t.0.get("status")).cloned().unwrap_or_else(|| json!({}));
    let current = topology.is_some_and(|t| t.number("/status/observedGeneration") == Some(t.generation()));
    let mut said = Said::default();
    for condition in &conditions_of(&below) {
        if let Some(kind) = ConditionType::from_name(&condition.type_) {
            let truth = truth_of(&condition.status);
            let truth = if kind == ConditionType::Ready && truth == Truth::Yes && !current { Truth::No } else { truth };
            said.say(kind, truth, &condition.reason, &condition.message);
        }
    }
    match refused {
        None => said.say(ConditionType::Accepted, Truth::Yes, "SpecAccepted", ""),
        Some((reason, message)) => {
            said.say(ConditionType::Stalled, Truth::Yes, reason, message);
            if topology.is_none() {
                said.say(ConditionType::Ready, Truth::No, reason, message);
            }
            said.say(ConditionType::Accepted, Truth::No, reason, message);
        }
    }
    let conditions = said.over(before, generation_i, &time(now));
    let phase = match below.get("phase").and_then(Value::as_str) {
        _ if refused.is_some() && topology.is_none() => "Failed",
        Some("Ready") if current => "Ready",
        Some(same @ ("Rebalancing" | "Failed" | "Paused")) => same,
        _ => "Initializing",
    };
    let mut status = json!({ "phase": phase, "observedGeneration": generation, "conditions": conditions });
    let complete = below.get("shards").and_then(Value::as_array).map(Vec::len).filter(|_| phase == "Ready");
    status["lastShardCount"] = match (topology.and_then(crate::object::Object::kind), complete) {
        (Some(Kind::Cluster), Some(shards)) => json!(shards),
        (Some(Kind::Cluster), None) => before.get("lastShardCount").cloned().unwrap_or_else(|| json!(0)),
        _ => json!(1),
    };
    for key in ["nodes", "policy"] {
        if let Some(value) = below.get(key) {
            status[key] = value.clone();
        }
    }
    let message = refused
        .map(|(_, message)| message.to_owned())
        .or_else(|| below.get("message").and_then(Value::as_str).map(str::to_owned));
    if let Some(message) = message.filter(|m| !m.is_empty()) {
        status["message"] = json!(message);
    }
    if let Some(topology) = topology {
        status["matchLabels"] = json!(pod_selector(TopologyKind::of(topology.kind().unwrap_or(Kind::Failover)), topology.name()));
        if let Some(version) = below.pointer("/ledger/finishedVersion").and_then(Value::as_str) {
            status["lastVersion"] = json!(version);
        }
    }
    status
}

/// The status of the Sentinel object beside a Failover, out of the Failover's.
pub fn sentinel_status(report: &Value, generation: u64) -> Value {
    let mut status = json!({ "observedGeneration": generation });
    for key in ["phase", "message", "policy", "conditions"] {
        if let Some(value) = report.get(key) {
            status[key] = value.clone();
        }
    }
    let nodes = report.get("nodes").and_then(Value::as_array).into_iter().flatten();
    status["nodes"] = nodes.filter(|node| node["role"] == "Sentinel").cloned().collect();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["observedGeneration"] = json!(generation);
    }
    status
}

/// The status of an object that a person wrote and that is not served, with everything else that its status says.
pub fn refused_status(object: &crate::object::Object, reason: &str, message: &str, now: UnixMs) -> Value {
    let before = object.0.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut said = Said::default();
    said.say(ConditionType::Ready, Truth::No, reason, message);
    said.say(ConditionType::Stalled, Truth::Yes, reason, message);
    let generation = i64::try_from(object.generation()).unwrap_or(i64::MAX);
    let conditions = said.over(&before, generation, &time(now));
    let mut status = before;
    status["phase"] = json!("Failed");
    status["message"] = json!(message);
    status["observedGeneration"] = json!(generation);
    status["conditions"] = json!(conditions);
    status
}

fn truth_of(text: &str) -> Truth {
    match text {
        "True" => Truth::Yes,
        "False" => Truth::No,
        _ => Truth::Unknown,
    }
}

#[cfg(test)]
mod tests;
