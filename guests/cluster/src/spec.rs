//! What this policy reads of a Cluster's spec. Unknown fields belong to the host and are ignored.

use serde::Deserialize;
use vko_sdk::common::SlotRange;
use vko_sdk::planning::Severity;
use vko_sdk::{PolicyError, Violation, slots};

/// Fewest shards: below it no majority of primaries survives the loss of one.
pub const SHARDS_MIN: u32 = 3;
/// Most shards.
pub const SHARDS_MAX: u32 = 128;
/// Most members of a shard, the primary included.
pub const MEMBERS_MAX: u32 = 5;

/// The part of a Cluster's spec that decides.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Shards and their members.
    pub replicas: Replicas,
    /// A volume for each member; absent: the data lives and dies with the pod.
    #[serde(default)]
    pub storage: Option<serde::de::IgnoredAny>,
}

/// How many of each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    /// 3..=128.
    pub shards: u32,
    /// Members of each shard, the primary included: 1..=5.
    pub replicas_of_shard: u32,
    /// Slots of each shard at creation; empty: an even split.
    #[serde(default, deserialize_with = "absent_is_default")]
    pub shards_config: Vec<ShardConfig>,
}

/// Slots of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ShardConfig {
    /// Ranges as text: `0-5460,6000`.
    pub slots: String,
}

fn absent_is_default<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ShardConfig>, D::Error> {
    Option::<Vec<ShardConfig>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Spec {
    /// Slots that a shard is created with. Empty for a shard that isn't declared.
    pub fn planned(&self, shard: u32) -> Vec<SlotRange> {
        let config = &self.replicas.shards_config;
        if config.is_empty() {
            return slots::share(shard, self.replicas.shards);
        }
        let own = usize::try_from(shard).ok().and_then(|i| config.get(i));
        own.and_then(|c| slots::parse(&c.slots)).unwrap_or_default()
    }

    /// What keeps this spec from being served, by field.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let replicas = &self.replicas;
        let mut found = Vec::new();
        if !(SHARDS_MIN..=SHARDS_MAX).contains(&replicas.shards) {
            let text = format!("{} shards are not possible: choose {SHARDS_MIN} to {SHARDS_MAX}", replicas.shards);
            found.push(("spec.replicas.shards", text));
        }
        if !(1..=MEMBERS_MAX).contains(&replicas.replicas_of_shard) {
            let text = format!(
                "{} members of a shard are not possible: choose 1 to {MEMBERS_MAX}, the primary included",
                replicas.replicas_of_shard
            );
            found.push(("spec.replicas.replicasOfShard", text));
        }
        found.extend(self.config_problem().map(|text| ("spec.replicas.shardsConfig", text)));
        found
    }

    fn config_problem(&self) -> Option<String> {
        let config = &self.replicas.shards_config;
        if config.is_empty() {
            return None;
        }
        if u32::try_from(config.len()).ok() != Some(self.replicas.shards) {
            return Some(format!(
                "it has {} entries for {} shards: give one for each, or none",
                config.len(),
                self.replicas.shards
            ));
        }
        let mut all = Vec::new();
        for (i, entry) in config.iter().enumerate() {
            match slots::parse(&entry.slots) {
                Some(ranges) if !ranges.is_empty() => all.extend(ranges),
                _ => return Some(format!("entry {i} is '{}': write ranges like '0-5460,6000' within 0 to 16383", entry.slots)),
            }
        }
        let named: u32 = all.iter().map(|r| u32::from(r.last - r.first) + 1).sum();
        let covered = slots::count(&all);
        let whole = u32::from(slots::COUNT);
        (named != covered || covered != whole)
            .then(|| format!("it names {named} slots and covers {covered} of {whole}: name each slot exactly once"))
    }
}

/// Reads the spec and holds where it can't be served.
///
/// # Errors
/// [`PolicyError::Insufficient`] where a number is out of range or slots don't add up: the instance stays as it is.
pub fn read(json: &str) -> Result<Spec, PolicyError> {
    let spec: Spec = vko_sdk::spec::parse("instance.spec", json)?;
    match spec.problems().into_iter().next() {
        None => Ok(spec),
        Some((field, text)) => Err(PolicyError::Insufficient(format!("{field}: {text}"))),
    }
}

/// What is wrong with a spec, and what a change of it costs. `previous` is empty at creation.
pub fn validate(spec: &str, previous: &str) -> Vec<Violation> {
    let new = match serde_json::from_str::<Spec>(spec) {
        Ok(new) => new,
        Err(error) => return vec![violation(Severity::Error, "spec", format!("the spec can't be read: {error}"))],
    };
    let mut found: Vec<_> = new.problems().into_iter().map(|(field, text)| violation(Severity::Error, field, text)).collect();
    if new.replicas.replicas_of_shard == 1 {
        let text = "a shard of one member has nobody to take over: its slots are down while it is, and lost with its data";
        found.push(violation(Severity::Warning, "spec.replicas.replicasOfShard", text.into()));
    }
    if let Ok(old) = serde_json::from_str::<Spec>(previous) {
        let text = "it can't be changed later yet: create another instance and move the data".to_owned();
        if old.replicas.shards != new.replicas.shards {
            found.push(violation(Severity::Error, "spec.replicas.shards", text.clone()));
        }
        if old.replicas.replicas_of_shard != new.replicas.replicas_of_shard {
            found.push(violation(Severity::Error, "spec.replicas.replicasOfShard", text.clone()));
        }
        if old.storage.is_some() != new.storage.is_some() {
            found.push(violation(Severity::Error, "spec.storage", text));
        }
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
        let of = |shards: u32, members: u32, more: &str| {
            format!(r#"{{"replicas":{{"shards":{shards},"replicasOfShard":{members}{more}}}}}"#)
        };
        let config = |texts: [&str; 3]| {
            let each = texts.map(|t| format!(r#"{{"slots":"{t}"}}"#)).join(",");
            of(3, 2, &format!(r#","shardsConfig":[{each}]"#))
        };
        const SHARDS: &str = "spec.replicas.shards";
        const MEMBERS: &str = "spec.replicas.replicasOfShard";
        const CONFIG: &str = "spec.replicas.shardsConfig";
        // (spec, previous, fields with an error, fields with a warning)
        let table: Vec<(String, String, &[&str], &[&str])> = vec![
            (of(3, 2, ""), String::new(), &[], &[]),
            (of(128, 5, ""), String::new(), &[], &[]),
            (of(2, 2, ""), String::new(), &[SHARDS], &[]),
            (of(129, 6, ""), String::new(), &[SHARDS, MEMBERS], &[]),
            (of(3, 0, ""), String::new(), &[MEMBERS], &[]),
            (of(3, 1, ""), String::new(), &[], &[MEMBERS]),
            (of(3, 2, r#","shardsConfig":null"#), String::new(), &[], &[]),
            (config(["0-99", "100-199", "200-16383"]), String::new(), &[], &[]),
            (config(["0-99", "99-199", "200-16383"]), String::new(), &[CONFIG], &[]),
            (config(["0-99", "100-199", "200-16382"]), String::new(), &[CONFIG], &[]),
            (config(["0-99", "", "200-16383"]), String::new(), &[CONFIG], &[]),
            (of(3, 2, r#","shardsConfig":[{"slots":"0-16383"}]"#), String::new(), &[CONFIG], &[]),
            (of(4, 2, ""), of(3, 2, ""), &[SHARDS], &[]),
            (of(3, 3, ""), of(3, 2, ""), &[MEMBERS], &[]),
            (of(3, 2, ""), "not json".into(), &[], &[]),
            ("{}".into(), String::new(), &["spec"], &[]),
        ];
        for (spec, previous, errors, warnings) in table {
            let found = validate(&spec, &previous);
            let fields = |severity| found.iter().filter(|v| v.severity == severity).map(|v| v.field.as_str()).collect::<Vec<_>>();
            assert_eq!(fields(Severity::Error), errors, "{spec} after {previous}");
            assert_eq!(fields(Severity::Warning), warnings, "{spec} after {previous}");
            assert_eq!(read(&spec).is_ok(), errors.is_empty() || !previous.is_empty(), "{spec}");
        }
    }
}
