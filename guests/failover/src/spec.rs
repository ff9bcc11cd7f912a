//! What this policy reads of the topology object's spec beyond what the replica policy reads.

use std::collections::BTreeMap;

use serde::Deserialize;
use vko_sdk::planning::Severity;
use vko_sdk::{PolicyError, Violation};

/// Sentinels where the number isn't said.
const SENTINELS: u32 = 3;
/// Lowest `down-after-milliseconds`. Below about 2.2 s Sentinels never find a good replica for a primary that came back following
/// nobody.
pub const DOWN_AFTER_MIN_MS: u64 = 3_000;
/// `down-after-milliseconds` of a Sentinel that wasn't told one: the server's own default.
const DOWN_AFTER_MS: u64 = 30_000;

/// The Sentinels of an instance and what they are told about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Sentinels of its own.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// How many must hold the primary for dead. Absent: the majority.
    #[serde(default)]
    pub quorum: Option<u32>,
    /// Options of the monitor by name. Those that aren't said stay as Sentinel has them.
    #[serde(default)]
    pub monitor_config: BTreeMap<String, String>,
    /// Sentinels that exist already, in place of own ones.
    #[serde(default)]
    pub sentinel_reference: Option<Reference>,
}

/// Sentinels that exist already.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Reference {
    /// Where they are.
    pub nodes: Vec<Node>,
}

/// Address of a Sentinel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Node {
    /// IP address.
    pub ip: String,
    /// Port.
    pub port: u16,
}

#[derive(Deserialize)]
struct Failover {
    sentinel: Option<Settings>,
}

impl Settings {
    /// Whether the Sentinels are this instance's own.
    pub fn own(&self) -> bool {
        self.sentinel_reference.is_none()
    }

    /// How many Sentinels there are.
    pub fn count(&self) -> u32 {
        match &self.sentinel_reference {
            Some(reference) => u32::try_from(reference.nodes.len()).unwrap_or(u32::MAX),
            None => self.replicas.unwrap_or(SENTINELS),
        }
    }

    /// How many must hold the primary for dead.
    pub fn quorum(&self) -> u32 {
        self.quorum.unwrap_or(self.count() / 2 + 1)
    }

    /// After how long (ms) without an answer a Sentinel holds the primary for down.
    pub fn down_after_ms(&self) -> u64 {
        self.monitor_config.get("down-after-milliseconds").and_then(|ms| ms.parse().ok()).unwrap_or(DOWN_AFTER_MS)
    }
}

/// Reads the Sentinels of a Failover.
///
/// # Errors
/// [`PolicyError::Insufficient`] where there are none, or too few: the instance stays as it is.
pub fn read(json: &str) -> Result<Settings, PolicyError> {
    let failover: Failover = vko_sdk::spec::parse("instance.spec", json)?;
    let settings = failover
        .sentinel
        .ok_or_else(|| PolicyError::Insufficient("spec.sentinel is missing: the failover architecture needs Sentinels".into()))?;
    counted(settings)
}

/// Reads a Sentinel that stands alone.
///
/// # Errors
/// As [`read`].
pub fn read_alone(json: &str) -> Result<Settings, PolicyError> {
    counted(vko_sdk::spec::parse("instance.spec", json)?)
}

fn counted(settings: Settings) -> Result<Settings, PolicyError> {
    match settings.count() {
        0 => Err(PolicyError::Insufficient("no Sentinel is declared: set sentinel.replicas to 3 or more".into())),
        _ => Ok(settings),
    }
}

/// What is wrong with a spec, and what a change of it costs. `previous` is empty at creation.
pub fn validate(spec: &str, previous: &str) -> Vec<Violation> {
    let settings = match serde_json::from_str::<Failover>(spec) {
        Ok(Failover { sentinel: Some(settings) }) => settings,
        Ok(Failover { sentinel: None }) => {
            // A Sentinel that stands alone has the same fields at the top.
            return serde_json::from_str::<Settings>(spec).map(|s| validate_settings(&s, "spec")).unwrap_or_default();
        }
        Err(error) => return vec![violation("spec.sentinel", format!("it can't be read: {error}"))],
    };
    let mut found = vko_replica::spec::validate_members(spec, previous);
    found.extend(validate_settings(&settings, "spec.sentinel"));
    found
}

fn validate_settings(settings: &Settings, at: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let count = settings.count();
    if count < 3 || count.is_multiple_of(2) {
        let text = format!("{count} Sentinels are not possible: choose an odd number from 3 on, so that one can be lost");
        found.push(violation(&format!("{at}.replicas"), text));
    }
    if !(1..=count.max(1)).contains(&settings.quorum()) {
        let text = format!("a quorum of {} can't be reached by {count} Sentinels: choose 1 to {count}", settings.quorum());
        found.push(violation(&format!("{at}.quorum"), text));
    }
    if settings.down_after_ms() < DOWN_AFTER_MIN_MS {
        let text =
            format!("down-after-milliseconds must be {DOWN_AFTER_MIN_MS} or more: below it Sentinels find no good replica");
        found.push(violation(&format!("{at}.monitorConfig"), text));
    }
    found
}

fn violation(field: &str, message: String) -> Violation {
    Violation { severity: Severity::Error, field: field.into(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_name_the_field() {
        let table: &[(&str, &[&str])] = &[
            (r#"{"replicas":3,"sentinel":{"replicas":3}}"#, &[]),
            (r#"{"replicas":3,"sentinel":{}}"#, &[]),
            (r#"{"replicas":2,"sentinel":{}}"#, &[]),
            (r#"{"replicas":6,"sentinel":{}}"#, &["spec.replicas"]),
            (r#"{"replicas":3,"sentinel":{"replicas":4}}"#, &["spec.sentinel.replicas"]),
            (r#"{"replicas":3,"sentinel":{"replicas":1}}"#, &["spec.sentinel.replicas"]),
            (r#"{"replicas":3,"sentinel":{"replicas":5,"quorum":6}}"#, &["spec.sentinel.quorum"]),
            (r#"{"replicas":3,"sentinel":{"quorum":0}}"#, &["spec.sentinel.quorum"]),
            (
                r#"{"replicas":3,"sentinel":{"monitorConfig":{"down-after-milliseconds":"1000"}}}"#,
                &["spec.sentinel.monitorConfig"],
            ),
            (
                r#"{"replicas":3,"sentinel":{"sentinelReference":{"nodes":[{"ip":"10.1.0.1","port":26379}]}}}"#,
                &["spec.sentinel.replicas"],
            ),
            (r#"{"replicas":3,"sentinel":"x"}"#, &["spec.sentinel"]),
            (r#"{"replicas":4}"#, &["spec.replicas"]),
        ];
        for (spec, fields) in table {
            let found: Vec<_> = validate(spec, "").into_iter().map(|v| v.field).collect();
            assert_eq!(found, *fields, "{spec}");
        }
    }

    #[test]
    fn what_is_not_said_is_the_majority_of_three() {
        let settings = read(r#"{"replicas":3,"sentinel":{}}"#).expect("it can be read");
        assert_eq!((settings.count(), settings.quorum(), settings.down_after_ms(), settings.own()), (3, 2, 30_000, true));
        let five = read_alone(r#"{"replicas":5,"monitorConfig":{"down-after-milliseconds":"5000"}}"#).expect("it can be read");
        assert_eq!((five.quorum(), five.down_after_ms()), (3, 5_000));
    }

    #[test]
    fn no_sentinels_hold() {
        assert!(matches!(read(r#"{"replicas":3}"#), Err(PolicyError::Insufficient(text)) if text.contains("spec.sentinel")));
        assert!(matches!(read_alone(r#"{"replicas":0}"#), Err(PolicyError::Insufficient(_))));
        assert!(matches!(read("{"), Err(PolicyError::Internal(_))));
    }
}
