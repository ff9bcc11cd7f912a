//! Observations that no run has brought: recorded ones with parts of others in the places of theirs.
//!
//! # Guarantees
//! 1. Equal records and equal lots give equal variants.
//! 2. Each is an [`Observed`] by its types. Whether it can be is another matter: builds of a policy must agree on any.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vko_mock::scenario::seed::Lots;
use vko_wit::observation::Observed;

/// Edits of a variant at most: so many that faults meet, so few that it is still alike to what can be.
const EDITS_MAX: u64 = 4;
/// Values that are kept of a field: of ages and offsets there are as many as observations.
const KEPT: usize = 64;
/// What fields of numbers are tried with beside what was seen: where builds of other word sizes and overflow checks could part.
const NUMBERS: [u64; 5] = [0, 1, u16::MAX as u64, u32::MAX as u64, u64::MAX];

/// What has been seen in the fields of observations, by the field's name; what lists hold, by the list's name and [`ITEM`].
#[derive(Debug, Default)]
pub(crate) struct Parts(BTreeMap<String, Vec<Value>>);

/// Behind a list's name: one of its items.
const ITEM: &str = "[]";

impl Parts {
    /// Takes what an observation holds.
    pub(crate) fn add(&mut self, observed: &Value) {
        walk(observed, "", "", &mut |_, name, value| {
            let known = self.0.entry(name.to_owned()).or_default();
            if known.len() < KEPT && !known.contains(value) {
                known.push(value.clone());
            }
        });
    }

    /// An observation with one to [`EDITS_MAX`] other parts; `None` where they don't fit by their types.
    pub(crate) fn vary(&self, observed: &Value, lots: &mut Lots) -> Option<Observed> {
        let mut varied = observed.clone();
        for _ in 0..=lots.below(EDITS_MAX) {
            self.edit(&mut varied, lots)?;
        }
        serde_json::from_value(varied).ok()
    }

    fn edit(&self, observed: &mut Value, lots: &mut Lots) -> Option<()> {
        let mut places = Vec::new();
        walk(observed, "", "", &mut |path, name, _| places.push((path.to_owned(), name.to_owned())));
        let (path, name) = lots.one_of(&places.iter().collect::<Vec<_>>())?;
        let seen = |name: &str, lots: &mut Lots| lots.one_of(&self.0.get(name)?.iter().collect::<Vec<_>>()).cloned();
        let place = observed.pointer_mut(path)?;
        match place {
            Value::Array(items) if !items.is_empty() && lots.chance(50) => drop(items.remove(index(lots, items.len()))),
            Value::Array(items) if lots.chance(50) => {
                let item = seen(&format!("{name}{ITEM}"), lots)?;
                items.insert(index(lots, items.len() + 1), item);
            }
            Value::Number(_) if lots.chance(30) => *place = json!(lots.one_of(&NUMBERS)?),
            Value::Bool(yes) => *yes = !*yes,
            _ => *place = seen(name, lots)?,
        }
        Some(())
    }
}

fn index(lots: &mut Lots, below: usize) -> usize {
    usize::try_from(lots.below(below as u64)).unwrap_or(0)
}

/// Shows each field and each item of a list: its path, its name, what is in it.
fn walk(value: &Value, path: &str, name: &str, show: &mut impl FnMut(&str, &str, &Value)) {
    let mut inner = |key: &str, name: &str, value: &Value| {
        let path = format!("{path}/{key}");
        show(&path, name, value);
        walk(value, &path, name, show);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(field, value)| inner(field, field, value)),
        Value::Array(items) => {
            let name = format!("{name}{ITEM}");
            items.iter().enumerate().for_each(|(index, item)| inner(&index.to_string(), &name, item));
        }
        _ => {}
    }
}
