//! The rules for a Valkey's spec. One table: each row is a rule in CEL, for the API server, and in Rust, for objects that were stored
//! before the rule existed (Helm never updates CRDs), with the one text for both.
//!
//! # Guarantees
//! 1. A message names the field, the value and what to do.
//! 2. What is not served is refused, not ignored; only what says nothing (empty, false) passes, so that exported manifests still apply.
//! 3. A rule never fails to evaluate: absent fields are guarded, quantities are checked before they are compared.
//!
//! # Assumptions
//! The schema has checked types and bounds before.
//!
//! # Flow
//! 1. [`attach`] puts the table and the transition rules ([`transitions`]) on the spec's schema.
//! 2. [`validate`](crate::validate::validate) walks the same table in Rust.

mod cel;
mod fields;
mod forms;
mod scheduling;
pub mod transitions;
mod unserved;

use kube::core::{Message, Reason, Rule as CelRule};
use schemars::Schema;
use vko_model::version::Line;

use crate::valkey::ValkeySpec;

pub use forms::NAME_LENGTH_MAX;
pub(crate) use forms::{NAME_FORM, NAME_LENGTH, is_label_value, is_name, is_qualified_name};

/// Server lines that are served.
pub const LINES: [&str; 3] = [Line::V7_2.as_str(), Line::V8_1.as_str(), Line::V9_1.as_str()];

/// Least memory limit: what isn't data (the server itself, replication backlog, buffers of clients, copies made while saving) must
/// fit beside the data, and `maxmemory` is a share of the limit.
pub const MEMORY_LIMIT_MIN: &str = "64Mi";

/// The Rust half of a rule: the value that breaks it.
pub type Offence = Box<dyn Fn(&ValkeySpec) -> Option<String>>;

/// A rule.
pub struct Rule {
    /// Path of the field that the rule is about, from the object's root.
    pub field: &'static str,
    /// CEL over the spec (`self`); true if all is well.
    pub cel: String,
    /// CEL of the value as a text; empty if naming it would say nothing.
    pub shown: String,
    /// What to do, after "FIELD is VALUE; ", or after "FIELD " where no value is shown.
    pub remedy: &'static str,
    /// The value that breaks the rule, as text (empty where none is shown); `None` if all is well.
    pub offence: Offence,
}

impl Rule {
    fn new(
        field: &'static str,
        cel: impl Into<String>,
        shown: impl Into<String>,
        remedy: &'static str,
        offence: impl Fn(&ValkeySpec) -> Option<String> + 'static,
    ) -> Self {
        Self { field, cel: cel.into(), shown: shown.into(), remedy, offence: Box::new(offence) }
    }
}

/// All rules about one object. Rules about a change are apart, in [`transitions`].
pub fn table() -> Vec<Rule> {
    let mut rules = fields::rules();
    rules.extend(scheduling::rules());
    rules.extend(unserved::rules());
    rules
}

/// The text of a refusal; the same in CEL and in Rust.
pub(crate) fn text(field: &str, value: &str, remedy: &str) -> String {
    if value.is_empty() { format!("{field} {remedy}") } else { format!("{field} is {value}; {remedy}") }
}

/// Puts all rules on the schema of the spec.
pub(crate) fn attach(schema: &mut Schema) {
    let rows = table().into_iter().map(|r| to_cel(r.field, r.cel, &r.shown, r.remedy));
    let changes = transitions::table().into_iter().map(|c| to_cel(c.field, c.cel, c.shown, c.remedy));
    for rule in rows.chain(changes) {
        // The only way to fail is a rule that isn't JSON; a rule is a handful of texts. The tests count what arrived.
        let _ = kube::core::validate(schema, rule);
    }
}

fn to_cel(field: &str, cel: String, shown: &str, remedy: &str) -> CelRule {
    let message = if shown.is_empty() {
        Message::Message(text(field, "", remedy))
    } else {
        Message::Expression(format!("{} + {shown} + {}", cel::quote(&format!("{field} is ")), cel::quote(&format!("; {remedy}"))))
    };
    let reason = if remedy.contains("not supported yet") { Reason::FieldValueForbidden } else { Reason::FieldValueInvalid };
    CelRule::new(cel).message(message).reason(reason).field_path(field.strip_prefix("spec").unwrap_or(field))
}

/// Rule on the whole object: names become parts of Service names, which have no dots.
pub(crate) fn name_form() -> CelRule {
    let cel = "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
    let message = format!("'metadata.name is ' + self.metadata.name + {}", cel::quote(&format!("; {NAME_FORM}")));
    CelRule::new(cel).message(Message::Expression(message))
}

/// Rule on the whole object: names become parts of longer names and labels.
pub(crate) fn name_length() -> CelRule {
    let cel = format!("size(self.metadata.name) <= {NAME_LENGTH_MAX}");
    CelRule::new(cel).message(Message::Expression(format!(
        "'metadata.name is ' + self.metadata.name + {}",
        cel::quote(&format!("; {NAME_LENGTH}"))
    )))
}
