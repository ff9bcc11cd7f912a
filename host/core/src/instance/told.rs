//! What people are told as it happens: events on the Valkey, log lines, metrics, the journal.

use std::sync::Arc;

use serde_json::Value;

use super::Instance;
use crate::execute::tracks::{StepReport, Told};
use crate::governor::{Decision, PinMissing};
use crate::journal::Event;
use crate::metrics::{Reason, StepEnd};
use crate::object::Object;
use crate::world::{EventNote, World};

impl<W: World> Instance<W> {
    /// Receives the ends of steps.
    pub(super) fn step_listener(&self, regarding: Object) -> Told {
        let (world, journal, metrics) = (self.shared.world.clone(), self.journal.clone(), self.shared.metrics.clone());
        let runtime = tokio::runtime::Handle::current();
        Arc::new(move |report: StepReport| {
            let outcome = report.result.as_ref().map_or_else(|error| error.reason(), |()| "done");
            metrics.steps.get_or_create(&StepEnd { operation: report.operation, outcome }).inc();
            let text = report.result.as_ref().map_or_else(ToString::to_string, |()| "done".into());
            tracing::info!(
                instance = regarding.name(),
                namespace = regarding.namespace(),
                operation = report.operation,
                reason = report.reason,
                outcome = text,
                "step"
            );
            journal.note(
                world.unix_ms(),
                Event::Step {
                    subject: report.subject.clone(),
                    operation: report.operation.into(),
                    reason: report.reason.clone(),
                    outcome: text,
                },
            );
            if let Some(note) = note_of(&report) {
                let (world, regarding) = (world.clone(), regarding.clone());
                runtime.spawn(async move { world.event(&regarding, note).await });
            }
        })
    }

    /// Policies given up or swapped, refusals of the guard.
    pub(super) async fn tell_decision(&self, regarding: &Object, decision: &Decision) {
        let metrics = &self.shared.metrics;
        metrics.decisions.inc();
        for given_up in &decision.given_up {
            metrics.policies_rejected.get_or_create(&Reason { reason: given_up.reason }).inc();
            let note =
                format!("policy {} {} does not govern here: {}", given_up.policy.name, given_up.policy.version, given_up.message);
            tracing::warn!(
                instance = self.key.name,
                namespace = self.key.namespace,
                reason = given_up.reason,
                note,
                "policy does not govern"
            );
            self.shared.world.event(regarding, EventNote { reason: given_up.reason.into(), note, warning: true }).await;
        }
        if let Some(missing) = &decision.missing {
            let note = missing.message.clone();
            tracing::warn!(instance = self.key.name, namespace = self.key.namespace, note, "the pinned policy isn't there");
            self.shared.world.event(regarding, EventNote { reason: PinMissing::REASON.into(), note, warning: true }).await;
        }
        if let Some((from, to)) = &decision.swapped {
            metrics.policy_swaps.inc();
            let note = format!("{} {} took over from {} {}", to.name, to.version, from.name, from.version);
            self.shared.world.event(regarding, EventNote { reason: "PolicySwapped".into(), note, warning: false }).await;
        }
        for loss in losses(decision) {
            self.shared.world.event(regarding, EventNote { reason: "DataLost".into(), note: loss, warning: true }).await;
        }
        for refusal in &decision.guarded.refusals {
            metrics.refusals.get_or_create(&Reason { reason: refusal.name }).inc();
            let note =
                format!("rule {}: {} of {} was refused: {}", refusal.rule, refusal.operation, refusal.subject, refusal.why);
            tracing::warn!(instance = self.key.name, namespace = self.key.namespace, note, "the guard refused a step");
            self.shared.world.event(regarding, EventNote { reason: refusal.name.into(), note, warning: true }).await;
        }
    }

    /// Keeps a decision that differs from the one before.
    pub(super) fn journal_decision(&mut self, observed: &vko_wit::observation::Observed, decision: &Decision) {
        let plan = serde_json::to_value(&decision.plan).unwrap_or(Value::Null);
        let text = substance(&plan);
        if text == self.last_plan {
            return;
        }
        self.last_plan = text;
        self.journal.note(
            observed.now,
            Event::Decision {
                policy: format!("{} {}", decision.policy.name, decision.policy.version),
                digest: decision.policy.digest.clone(),
                interface: vko_wit::INTERFACE,
                hold: decision.hold.clone(),
                observed: serde_json::to_value(observed).unwrap_or(Value::Null),
                plan,
                refused: decision
                    .guarded
                    .refusals
                    .iter()
                    .map(|r| format!("{} of {}: {}", r.operation, r.subject, r.why))
                    .collect(),
            },
        );
    }

    /// A Ready condition that changed becomes an event.
    pub(super) async fn tell_ready(&self, regarding: &Object, before: &Value, after: &Value) {
        let ready = |status: &Value| {
            let all = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            let own = all.into_iter().find(|c| c["type"] == "Ready")?;
            Some((own["status"].as_str()?.to_owned(), own["reason"].as_str()?.to_owned(), own["message"].as_str()?.to_owned()))
        };
        let (Some(now), then) = (ready(after), ready(before)) else { return };
        if then.as_ref().map(|t| (&t.0, &t.1)) != Some((&now.0, &now.1)) {
            let (status, reason, message) = now;
            let note = if message.is_empty() { format!("Ready is {status}") } else { message };
            self.shared.world.event(regarding, EventNote { reason, note, warning: status != "True" }).await;
        }
    }
}

/// A plan as it is compared with the one before: when to look again counts down while something waits, and says nothing new.
fn substance(plan: &Value) -> String {
    let mut plan = plan.clone();
    if let Some(again) = plan.get_mut("look_again") {
        *again = Value::Null;
    }
    plan.to_string()
}

/// What a plan says is lost. An event and no condition: it happened, and nothing makes it unhappen.
fn losses(decision: &Decision) -> Vec<String> {
    let conditions = decision.plan.iter().flat_map(|plan| &plan.status.conditions);
    conditions.filter(|c| c.kind == "DataLost" && c.state == vko_wit::planning::Truth::Yes).map(|c| c.message.clone()).collect()
}

/// Steps that people want to hear of.
fn note_of(report: &StepReport) -> Option<EventNote> {
    match &report.result {
        Ok(()) => {
            let reason = match report.operation {
                "promote" => "Promoted",
                "hand-over" => "HandedOver",
                "evict" => "Evicted",
                "force-delete" => "ForceDeleted",
                "delete-claim" => "ClaimDeleted",
                "detach" => "ReplicaDetached",
                _ => return None,
            };
            Some(EventNote { reason: reason.into(), note: format!("{}: {}", report.subject, report.reason), warning: false })
        }
        Err(error) if error.is_dropped() => None,
        Err(error) => {
            let note = format!("{} of {}: {error}", report.operation, report.subject);
            Some(EventNote { reason: error.reason().into(), note, warning: true })
        }
    }
}
