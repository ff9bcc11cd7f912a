//! Where two plans differ, and where first.

use serde_json::Value;
use vko_wit::planning::Plan;

use super::words::Names;

/// The parts of a plan, from what changes most for an instance to what changes least, with the words for them.
const PARTS: [(&str, &str); 7] = [
    ("tracks", "steps"),
    ("routing", "who is routed to"),
    ("desired", "what should be there"),
    ("blocked", "what waits"),
    ("status", "status"),
    ("look_again", "when to look again"),
    ("extensions", "extensions"),
];

/// Longer values are cut: they are there to be recognised.
const SHOWN_CHARS: usize = 160;

/// The first difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which parts of the plan differ, in words, the weightiest first.
    pub parts: Vec<&'static str>,
    /// Where the first of them differs first: `tracks[0].steps[0].operation.Promote`.
    pub path: String,
    /// What was there; `-` for nothing.
    pub before: String,
    /// What is there now.
    pub after: String,
}

/// Where the second plan differs from the first one; `None`: nowhere.
pub(super) fn between(before: &Plan, after: &Plan, names: &Names<'_>) -> Option<Difference> {
    let (before, after) = (serde_json::to_value(before).ok()?, serde_json::to_value(after).ok()?);
    let differs = |(part, _): &&(&str, &str)| before.get(part) != after.get(part);
    let parts: Vec<_> = PARTS.iter().filter(differs).collect();
    let (first, _) = parts.first()?;
    let (path, old, new) = first_of((*first).to_owned(), &before[*first], &after[*first])?;
    let shown = |value: Option<Value>| shown(value.as_ref(), names);
    Some(Difference { parts: parts.iter().map(|(_, words)| *words).collect(), path, before: shown(old), after: shown(new) })
}

type Found = (String, Option<Value>, Option<Value>);

fn first_of(path: String, before: &Value, after: &Value) -> Option<Found> {
    match (before, after) {
        (one, other) if one == other => None,
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            keys.into_iter().find_map(|key| child(format!("{path}.{key}"), one.get(key), other.get(key)))
        }
        (Value::Array(one), Value::Array(other)) => {
            (0..one.len().max(other.len())).find_map(|n| child(format!("{path}[{n}]"), one.get(n), other.get(n)))
        }
        (Value::String(one), Value::String(other)) => match (json(one), json(other)) {
            // The same JSON in another order of keys is another text all the same.
            (Some(one), Some(other)) if one != other => first_of(path, &one, &other),
            _ => Some((path, Some(before.clone()), Some(after.clone()))),
        },
        _ => Some((path, Some(before.clone()), Some(after.clone()))),
    }
}

fn child(path: String, before: Option<&Value>, after: Option<&Value>) -> Option<Found> {
    match (before, after) {
        (Some(one), Some(other)) => first_of(path, one, other),
        (one, other) => Some((path, one.cloned(), other.cloned())),
    }
}

/// What a text says if it is JSON that holds something.
fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

fn shown(value: Option<&Value>, names: &Names<'_>) -> String {
    let text = match value {
        None => return "-".into(),
        Some(Value::String(text)) => names.name(text).to_owned(),
        Some(other) => other.to_string(),
    };
    if text.chars().count() <= SHOWN_CHARS {
        return text;
    }
    text.chars().take(SHOWN_CHARS).chain("...".chars()).collect()
}
