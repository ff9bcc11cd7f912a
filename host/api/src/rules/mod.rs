//! The rules for what people write. One table per kind: each row is a rule in CEL, for the API server, and in Rust, for objects
//! that were stored before the rule existed (Helm never updates CRDs), with the one text for both.
//!
//! # Guarantees
//! 1. A message names the field, the value and what to do.
//! 2. What is not served is refused, not ignored; only what says nothing (empty, false) passes, so that exported manifests still
//!    apply.
//! 3. A rule never fails to evaluate: absent fields are guarded, quantities and numbers are checked before they are compared.
//!
//! # Assumptions
//! The schema has checked types and bounds before.
//!
//! # Flow
//! 1. [`crd`](crate::crd) puts the tables and the transition rules ([`transitions`]) on the schemas.
//! 2. [`validate`](crate::validate::validate) walks the same tables in Rust.
//!
//! Sentinels have the same fields in a Sentinel's `spec` and in a Valkey's `spec.sentinel`; so have pods of both kinds. Their
//! rules are written once, with `spec.` for where the fields are, and [placed](Rule::below).

mod cel;
mod fields;
mod forms;
mod names;
mod scheduling;
mod sentinel;
mod shards;
pub mod transitions;
mod unserved;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use vko_model::version::Line;

use crate::sentinel::SentinelSpec;
use crate::valkey::ValkeySpec;

pub use forms::{CLUSTER_NAME_LENGTH_MAX, NAME_LENGTH_MAX};
pub(crate) use forms::{is_label_value, is_qualified_name};
pub(crate) use names::{Subject, sentinel_names, valkey_names};
pub(crate) use unserved::users as users_unserved;

/// Server lines that are served.
pub const LINES: [&str; 3] = [Line::V7_2.as_str(), Line::V8_1.as_str(), Line::V9_1.as_str()];
/// The newest of them.
pub const NEWEST: &str = Line::V9_1.as_str();

/// Least memory limit: what isn't data (the server itself, replication backlog, buffers of clients, copies made while saving)
/// must fit beside the data, and `maxmemory` is a share of the limit.
pub const MEMORY_LIMIT_MIN: &str = "64Mi";

/// The Rust half of a rule: the value that breaks it.
pub type Offence<S> = Box<dyn Fn(&S) -> Option<String>>;

/// A rule about an `S`.
pub struct Rule<S> {
    /// Path of the field that the rule is about, from the object's root.
    pub field: String,
    /// Where in the schema the rule is: what `self` is.
    pub at: &'static str,
    /// CEL over `self`; true if all is well. Empty if CEL can't say it within its budget: then the object is stored, and a
    /// condition says what is wrong.
    pub cel: String,
    /// CEL of the value as a text; empty if naming it would say nothing.
    pub shown: String,
    /// What to do, after "FIELD is VALUE; ", or after "FIELD " where no value is shown.
    pub remedy: String,
    /// The value that breaks the rule, as text (empty where none is shown); `None` if all is well.
    pub offence: Offence<S>,
}

impl<S: 'static> Rule<S> {
    fn new(
        field: impl Into<String>,
        cel: impl Into<String>,
        shown: impl Into<String>,
        remedy: impl Into<String>,
        offence: impl Fn(&S) -> Option<String> + 'static,
    ) -> Self {
        let (field, cel, shown, remedy) = (field.into(), cel.into(), shown.into(), remedy.into());
        Self { field, at: "spec", cel, shown, remedy, offence: Box::new(offence) }
    }

    /// The same rule about a part of a larger thing.
    fn part_of<T: 'static>(self, part: fn(&T) -> Option<&S>) -> Rule<T> {
        let offence = self.offence;
        let offence: Offence<T> = Box::new(move |whole| offence(part(whole)?));
        Rule { field: self.field, at: self.at, cel: self.cel, shown: self.shown, remedy: self.remedy, offence }
    }

    /// The same rule where the fields are not in `spec` but in `place`, which is below it.
    fn below(self, place: &'static str) -> Self {
        let moved = |text: &str| text.replace("spec.", &format!("{place}."));
        Self { field: moved(&self.field), at: place, remedy: moved(&self.remedy), ..self }
    }

    /// As the CRD carries it.
    pub(crate) fn validation(&self) -> ValidationRule {
        validation(&self.field, self.at, &self.cel, &self.shown, &self.remedy)
    }
}

/// Rules about a Valkey. Rules about a change are apart, in [`transitions`].
pub fn valkey() -> Vec<Rule<ValkeySpec>> {
    let mut rules = fields::rules();
    rules.extend(shards::rules());
    rules.extend(scheduling::rules());
    rules.extend(scheduling::affinity());
    rules.extend(unserved::valkey());
    rules.extend(sentinel::of_valkey());
    rules
}

/// Rules about a Sentinel.
pub fn sentinel() -> Vec<Rule<SentinelSpec>> {
    sentinel::standing_alone()
}

/// The text of a refusal; the same in CEL and in Rust.
pub(crate) fn text(field: &str, value: &str, remedy: &str) -> String {
    if value.is_empty() { format!("{field} {remedy}") } else { format!("{field} is {value}; {remedy}") }
}

pub(crate) fn validation(field: &str, at: &str, cel: &str, shown: &str, remedy: &str) -> ValidationRule {
    let (message, expression) = if shown.is_empty() {
        (Some(text(field, "", remedy)), None)
    } else {
        let expression = format!("{} + {shown} + {}", cel::quote(&format!("{field} is ")), cel::quote(&format!("; {remedy}")));
        (None, Some(expression))
    };
    let reason = if remedy.contains("not supported yet") { "FieldValueForbidden" } else { "FieldValueInvalid" };
    ValidationRule {
        rule: cel.into(),
        message,
        message_expression: expression,
        reason: Some(reason.into()),
        field_path: field.strip_prefix(at).filter(|path| !path.is_empty()).map(Into::into),
        optional_old_self: None,
    }
}
