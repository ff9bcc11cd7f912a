//! Checks an object that is stored already: it may be older than a rule of the CRD, or the CRD older than the operator.

use serde::{Deserialize, Serialize};

use crate::rules::{self, Rule, Subject};
use crate::sentinel::Sentinel;
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

/// All rules that a Valkey breaks, in the order of the table. The API server refuses the same ones, but for the few that CEL
/// can't say.
pub fn validate(valkey: &Valkey) -> Vec<Violation> {
    let subject = if valkey.spec.arch == "cluster" { Subject::Cluster } else { Subject::Group };
    let mut found = names(subject, valkey.metadata.name.as_deref());
    found.extend(broken(rules::valkey(), &valkey.spec));
    found
}

/// All rules that a Sentinel breaks.
pub fn validate_sentinel(sentinel: &Sentinel) -> Vec<Violation> {
    let mut found = names(Subject::Group, sentinel.metadata.name.as_deref());
    found.extend(broken(rules::sentinel(), &sentinel.spec));
    found
}

fn names(subject: Subject, name: Option<&str>) -> Vec<Violation> {
    let name = name.unwrap_or_default();
    let violation = |remedy: &str| Violation { field: "metadata.name".into(), value: name.into(), remedy: remedy.into() };
    subject.faults(name).into_iter().map(violation).collect()
}

fn broken<S>(table: Vec<Rule<S>>, spec: &S) -> impl Iterator<Item = Violation> {
    let check = |rule: Rule<S>| (rule.offence)(spec).map(|value| Violation { field: rule.field, value, remedy: rule.remedy });
    table.into_iter().filter_map(check)
}
