//! Plans in words that a person reads: pods by their names, not by their UIDs.

use std::collections::BTreeMap;

use serde_json::Value;
use vko_wit::observation::Observed;
use vko_wit::planning::{Operation, Plan, Step, Writer};

use crate::execute::names;
use crate::world::UnixMs;

/// Names of what an observation knows by UID.
pub(super) struct Names<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Names<'a> {
    pub(super) fn of(observed: &'a Observed) -> Self {
        let objects = observed.objects.iter().map(|object| (object.uid.as_str(), object.name.as_str()));
        let claims = observed.claims.iter().map(|claim| (claim.uid.as_str(), claim.name.as_str()));
        let pods = observed.pods.iter().map(|pod| (pod.uid.as_str(), pod.name.as_str()));
        Self(objects.chain(claims).chain(pods).filter(|(uid, _)| !uid.is_empty()).collect())
    }

    /// The name, or what was given.
    pub(super) fn name<'b>(&self, uid: &'b str) -> &'b str
    where
        'a: 'b,
    {
        self.0.get(uid).copied().unwrap_or(uid)
    }

    fn knows(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }
}

/// A plan in short: how things stand, a line for each track, for what waits, and for who is routed to.
pub fn plan_in_words(plan: &Plan, observed: &Observed) -> Vec<String> {
    let names = Names::of(observed);
    let mut lines = vec![format!("status {}: {}", case(&plan.status.phase), plan.status.message)];
    lines.extend(plan.tracks.iter().map(|track| {
        let steps: Vec<String> = track.steps.iter().map(|step| step_in_words(step, &names)).collect();
        let why = track.steps.first().map(|step| format!(" ({})", step.reason)).unwrap_or_default();
        format!("track {}: {}{why}", names.name(&track.subject), steps.join(", then "))
    }));
    lines.extend(plan.blocked.iter().map(|block| {
        let consent = if block.token.is_empty() { String::new() } else { format!("; or the consent {}", block.token) };
        format!("waits {}: {}; remedy: {}{consent}", names.name(&block.subject), block.reason, block.remedy)
    }));
    let readers: Vec<&str> = plan.routing.readers.iter().map(|uid| names.name(uid)).collect();
    match (&plan.routing.writer, readers.as_slice()) {
        (Writer::None, []) => {}
        (writer, readers) => lines.push(format!("writer {}, readers {}", writer_in_words(writer, &names), list(readers))),
    }
    lines
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

fn writer_in_words(writer: &Writer, names: &Names<'_>) -> String {
    match writer {
        Writer::Pod(uid) => names.name(uid).to_owned(),
        other => case(other).to_lowercase(),
    }
}

/// The name of a case; the generated types write the variant's name before it.
fn case(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.rsplit("::").next().unwrap_or(&text).to_owned()
}

fn step_in_words(step: &Step, names: &Names<'_>) -> String {
    let what = operation_in_words(&step.operation, names);
    if step.consent.is_empty() { what } else { format!("{what} by consent") }
}

/// An operation's name and what it is done to; numbers and texts that are no UID with their field's name.
pub(super) fn operation_in_words(operation: &Operation, names: &Names<'_>) -> String {
    let mut words = vec![names::operation(operation).to_owned()];
    let value = serde_json::to_value(operation).unwrap_or_default();
    // One case of a variant: its name, then what it holds.
    let holds = value.as_object().and_then(|case| case.values().next()).unwrap_or(&Value::Null);
    match holds {
        Value::Object(fields) => words.extend(fields.iter().filter_map(|(field, value)| argument(Some(field), value, names))),
        other => words.extend(argument(None, other, names)),
    }
    words.join(" ")
}

fn argument(field: Option<&str>, value: &Value, names: &Names<'_>) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(uid) if names.knows(uid) => return Some(names.name(uid).to_owned()),
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(field.map_or(text.clone(), |field| format!("{field}={text}")))
}

/// A time as people write it; the number itself where no calendar has it.
pub fn time(at: UnixMs) -> String {
    let stamp = i64::try_from(at).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    stamp.map_or_else(|| format!("{at} ms"), |stamp| stamp.to_string())
}
