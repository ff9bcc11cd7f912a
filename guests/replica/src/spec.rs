//! What this policy reads of the topology object's spec. Unknown fields belong to the host and are ignored.

use serde::Deserialize;
use vko_sdk::planning::Severity;
use vko_sdk::{PolicyError, Violation};

/// Most members of a data set: one primary and four replicas.
pub const MEMBERS_MAX: u32 = 5;

/// The part of a Failover's spec that decides.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Members of the data set, the primary included: 1..=5.
    pub replicas: u32,
    /// A volume for each member; absent: the data lives and dies with the pod.
    #[serde(default)]
    pub storage: Option<Storage>,
    /// Server line ("9.1").
    #[serde(default)]
    pub version: String,
}

/// The part of the storage that decides.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Whether the claims of removed members stay. Where it isn't said they do: deleting needs a word.
    #[serde(default = "yes")]
    pub retain_after_deleted: bool,
}

fn yes() -> bool {
    true
}

/// Reads the spec and holds where it can't be served.
///
/// # Errors
/// [`PolicyError::Insufficient`] where the number of members is out of range: the instance stays as it is.
pub fn read(json: &str) -> Result<Spec, PolicyError> {
    let spec: Spec = vko_sdk::spec::parse("instance.spec", json)?;
    if (1..=MEMBERS_MAX).contains(&spec.replicas) {
        return Ok(spec);
    }
    Err(PolicyError::Insufficient(format!(
        "spec.replicas is {}, which is not in 1..={MEMBERS_MAX}: set it within the range",
        spec.replicas
    )))
}

/// What is wrong with a spec, and what a change of it costs. `previous` is empty at creation.
pub fn validate(spec: &str, previous: &str) -> Vec<Violation> {
    let mut found = validate_members(spec, previous);
    if serde_json::from_str::<Spec>(spec).is_ok_and(|new| new.replicas == 2) {
        let text = "with 2 members writes stop while the replica is away, until the operator has lowered the fence: 3 members avoid that";
        found.push(violation(Severity::Warning, "spec.replicas", text.into()));
    }
    found
}

/// The same without what concerns the fence alone.
pub fn validate_members(spec: &str, previous: &str) -> Vec<Violation> {
    let new = match serde_json::from_str::<Spec>(spec) {
        Ok(new) => new,
        Err(error) => return vec![violation(Severity::Error, "spec", format!("the spec can't be read: {error}"))],
    };
    let mut found = Vec::new();
    if !(1..=MEMBERS_MAX).contains(&new.replicas) {
        let text = format!("{} members are not possible: choose 1 to {MEMBERS_MAX}, the primary included", new.replicas);
        found.push(violation(Severity::Error, "spec.replicas", text));
    }
    if new.replicas == 1 && new.storage.is_none() {
        let text = "a single member without storage loses all data with its pod: set storage, or at least 2 members";
        found.push(violation(Severity::Warning, "spec.storage", text.into()));
    }
    if let Ok(old) = serde_json::from_str::<Spec>(previous)
        && old.storage.is_some() != new.storage.is_some()
    {
        let text = "storage can't be added or removed later: create another instance and move the data";
        found.push(violation(Severity::Error, "spec.storage", text.into()));
    }
    found
}

fn violation(severity: Severity, field: &str, message: String) -> Violation {
    Violation { severity, field: field.into(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_name_the_field() {
        // (spec, previous, fields with an error, fields with a warning)
        let table: &[(&str, &str, &[&str], &[&str])] = &[
            (r#"{"replicas":3}"#, "", &[], &[]),
            (r#"{"replicas":0}"#, "", &["spec.replicas"], &[]),
            (r#"{"replicas":6}"#, "", &["spec.replicas"], &[]),
            (r#"{"replicas":1}"#, "", &[], &["spec.storage"]),
            (r#"{"replicas":1,"storage":{"capacity":"1Gi"}}"#, "", &[], &[]),
            (r#"{"replicas":2}"#, "", &[], &["spec.replicas"]),
            (r#"{"replicas":3}"#, r#"{"replicas":3,"storage":{}}"#, &["spec.storage"], &[]),
            (r#"{"replicas":5}"#, r#"{"replicas":3}"#, &[], &[]),
            (r#"{"replicas":"x"}"#, "", &["spec"], &[]),
            ("", "", &["spec"], &[]),
            (r#"{"replicas":3}"#, "not json", &[], &[]),
        ];
        for (spec, previous, errors, warnings) in table {
            let found = validate(spec, previous);
            let fields = |severity| found.iter().filter(|v| v.severity == severity).map(|v| v.field.as_str()).collect::<Vec<_>>();
            assert_eq!(fields(Severity::Error), *errors, "{spec} after {previous}");
            assert_eq!(fields(Severity::Warning), *warnings, "{spec} after {previous}");
        }
    }

    #[test]
    fn claims_stay_unless_the_spec_says_otherwise() {
        let retain = |json| read(json).ok().and_then(|s| s.storage).map(|s| s.retain_after_deleted);
        assert_eq!(retain(r#"{"replicas":2,"storage":{}}"#), Some(true));
        assert_eq!(retain(r#"{"replicas":2,"storage":{"retainAfterDeleted":false}}"#), Some(false));
        assert_eq!(retain(r#"{"replicas":2,"storage":null}"#), None);
    }

    #[test]
    fn an_unservable_spec_holds() {
        assert!(matches!(read(r#"{"replicas":9}"#), Err(PolicyError::Insufficient(text)) if text.contains("spec.replicas is 9")));
        assert!(matches!(read("{}"), Err(PolicyError::Internal(_))));
    }
}
