//! Checks a Valkey that is stored already: it may be older than a rule of the CRD, or the CRD older than the operator.

use serde::{Deserialize, Serialize};

use crate::rules::{self, NAME_FORM, NAME_LENGTH, NAME_LENGTH_MAX, is_name};
use crate::valkey::Valkey;

/// A rule that is broken.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, from the object's root.
    pub field: String,
    /// Its value as text; empty where it says nothing.
    pub value: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&rules::text(&self.field, &self.value, &self.remedy))
    }
}

/// All rules that a Valkey breaks, in the order of the table. The API server refuses the same ones.
pub fn validate(valkey: &Valkey) -> Vec<Violation> {
    let violation = |field: &str, value: String, remedy: &str| Violation { field: field.into(), value, remedy: remedy.into() };
    let name = valkey.metadata.name.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    if !is_name(name) {
        found.push(violation("metadata.name", name.into(), NAME_FORM));
    }
    if name.len() > NAME_LENGTH_MAX {
        found.push(violation("metadata.name", name.into(), NAME_LENGTH));
    }
    let broken = |rule: rules::Rule| (rule.offence)(&valkey.spec).map(|value| violation(rule.field, value, rule.remedy));
    found.extend(rules::table().into_iter().filter_map(broken));
    found
}
