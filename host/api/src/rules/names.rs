//! Rules about the names of objects, which become parts of longer names.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use super::cel::quote;
use super::forms::{
    self, CLUSTER_NAME_LENGTH, CLUSTER_NAME_LENGTH_MAX, CLUSTER_NAME_START, NAME_FORM, NAME_LENGTH, NAME_LENGTH_MAX,
};

/// What a name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An instance of one data set, or Sentinels.
    Group,
    /// An instance of the cluster architecture.
    Cluster,
}

impl Subject {
    /// What is wrong with a name.
    pub(crate) fn faults(self, name: &str) -> Vec<&'static str> {
        let cluster = self == Self::Cluster;
        let rows = [
            (!forms::is_name(name), NAME_FORM),
            (name.len() > NAME_LENGTH_MAX, NAME_LENGTH),
            (cluster && name.starts_with(|first: char| first.is_ascii_digit()), CLUSTER_NAME_START),
            (cluster && (CLUSTER_NAME_LENGTH_MAX + 1..=NAME_LENGTH_MAX).contains(&name.len()), CLUSTER_NAME_LENGTH),
        ];
        rows.into_iter().filter_map(|(fault, remedy)| fault.then_some(remedy)).collect()
    }
}

fn rule(cel: String, remedy: &str) -> ValidationRule {
    let message = format!("'metadata.name is ' + self.metadata.name + {}", quote(&format!("; {remedy}")));
    ValidationRule { rule: cel, message_expression: Some(message), ..ValidationRule::default() }
}

/// Rules on a whole Sentinel.
pub(crate) fn sentinel_names() -> Vec<ValidationRule> {
    vec![
        rule("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')".into(), NAME_FORM),
        rule(format!("size(self.metadata.name) <= {NAME_LENGTH_MAX}"), NAME_LENGTH),
    ]
}

/// Rules on a whole Valkey.
pub(crate) fn valkey_names() -> Vec<ValidationRule> {
    let cluster = "self.spec.arch != 'cluster'";
    let length = format!(
        "{cluster} || size(self.metadata.name) <= {CLUSTER_NAME_LENGTH_MAX} || size(self.metadata.name) > {NAME_LENGTH_MAX}"
    );
    let own = [
        rule(format!("{cluster} || !self.metadata.name.matches('^[0-9]')"), CLUSTER_NAME_START),
        rule(length, CLUSTER_NAME_LENGTH),
    ];
    sentinel_names().into_iter().chain(own).collect()
}
