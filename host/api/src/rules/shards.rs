//! Rules about shards: how many, and which slots they have.

use vko_model::slots::{Range, SlotError, SlotSet};

use super::Rule;
use super::cel::{number, present, when};
use crate::valkey::ValkeySpec;

/// Fewest shards: with fewer no majority of primaries outlives the loss of one.
const SHARDS_MIN: i32 = 3;
/// Most shards.
const SHARDS_MAX: i32 = 128;

/// Slots and ranges of slots, as a regular expression for CEL. Whether a range ends before it begins or beyond the last slot,
/// Rust says.
const SLOTS: &str = "^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$";

/// The same in Rust.
fn is_list(text: &str) -> bool {
    let number = |text: &str| (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.split(',').all(|part| part.split_once('-').map_or_else(|| number(part), |(first, last)| number(first) && number(last)))
}

/// The ranges in such a text; the part of it that is none.
fn ranges(text: &str) -> Result<Vec<Range>, &str> {
    text.split(',').map(|part| part.parse().map_err(|_: SlotError| part)).collect()
}

/// What is wrong with the slots of all shards together.
fn coverage(spec: &ValkeySpec) -> Option<String> {
    if !is_cluster(spec) || listed(spec) == 0 {
        return None;
    }
    let mut seen = SlotSet::default();
    for shard in &spec.replicas.shards_config {
        for range in ranges(&shard.slots).ok()? {
            let new: SlotSet = [range].into_iter().collect();
            if let Some(slot) = seen.intersection(&new).iter().next() {
                return Some(format!("a list that has slot {slot} twice"));
            }
            seen = seen.union(&new);
        }
    }
    let lacks = SlotSet::all().difference(&seen).iter().next();
    lacks.map(|slot| format!("a list that lacks slot {slot}"))
}

fn is_cluster(spec: &ValkeySpec) -> bool {
    spec.arch == "cluster"
}

fn listed(spec: &ValkeySpec) -> usize {
    spec.replicas.shards_config.len()
}

/// A cluster's number of shards is within one end of its range.
fn end(within: &str, remedy: &str, beyond: fn(i32) -> bool) -> Rule<ValkeySpec> {
    Rule::new(
        "spec.replicas.shards",
        format!("self.arch != 'cluster' || {}", when("replicas.shards", within)),
        number("replicas.shards"),
        remedy,
        move |spec: &ValkeySpec| {
            spec.replicas.shards.filter(|&shards| is_cluster(spec) && beyond(shards)).map(|shards| shards.to_string())
        },
    )
}

pub(super) fn rules() -> Vec<Rule<ValkeySpec>> {
    let some = "has(self.replicas.shardsConfig) && size(self.replicas.shardsConfig) > 0";
    let count = format!("self.arch != 'cluster' || !({some}) || !({})", present("replicas.shards"));
    vec![
        Rule::new(
            "spec.replicas.shards",
            format!("self.arch == 'cluster' || {}", when("replicas.shards", "self.replicas.shards == 1")),
            number("replicas.shards"),
            "use 1 or leave it out: there is one data set in the failover and replica architectures",
            |spec: &ValkeySpec| {
                spec.replicas.shards.filter(|&shards| !is_cluster(spec) && shards != 1).map(|shards| shards.to_string())
            },
        ),
        Rule::new(
            "spec.replicas.shards",
            format!("self.arch != 'cluster' || ({})", present("replicas.shards")),
            "",
            "is missing; set it to 3 to 128",
            |spec: &ValkeySpec| (is_cluster(spec) && spec.replicas.shards.is_none()).then(String::new),
        ),
        end(
            "self.replicas.shards >= 3",
            "use 3 to 128: with fewer than 3 no majority of primaries outlives the loss of one",
            |shards| shards < SHARDS_MIN,
        ),
        end("self.replicas.shards <= 128", "use 3 to 128: no larger cluster is served", |shards| shards > SHARDS_MAX),
        Rule::new(
            "spec.replicas.shardsConfig",
            format!("self.arch == 'cluster' || !({some})"),
            "",
            "has no effect unless spec.arch is cluster; remove it",
            |spec: &ValkeySpec| (!is_cluster(spec) && listed(spec) > 0).then(String::new),
        ),
        Rule::new(
            "spec.replicas.shardsConfig",
            format!("{count} || size(self.replicas.shardsConfig) == self.replicas.shards"),
            "'a list of ' + string(dyn(size(self.replicas.shardsConfig)))",
            "write one item for each of spec.replicas.shards, or leave it out",
            |spec: &ValkeySpec| {
                let declared = usize::try_from(spec.replicas.shards?).ok();
                (is_cluster(spec) && listed(spec) > 0 && Some(listed(spec)) != declared)
                    .then(|| format!("a list of {}", listed(spec)))
            },
        ),
        Rule::new(
            "spec.replicas.shardsConfig",
            format!("!({some}) || self.replicas.shardsConfig.all(s, s.slots.matches('{}'))", SLOTS),
            "",
            "has slots that are none; write slots and ranges of slots, like 0-99,200,300-399",
            |spec: &ValkeySpec| spec.replicas.shards_config.iter().any(|shard| !is_list(&shard.slots)).then(String::new),
        ),
        Rule::new(
            "spec.replicas.shardsConfig",
            "",
            "",
            "write slots from 0 to 16383, the lower end of a range first",
            |spec: &ValkeySpec| {
                let wrong = |text: &str| ranges(text).err().map(|part| format!("a list with {part}"));
                let lists = spec.replicas.shards_config.iter().map(|shard| shard.slots.as_str());
                lists.filter(|text| is_list(text)).find_map(wrong)
            },
        ),
        Rule::new("spec.replicas.shardsConfig", "", "", "give each of the slots 0 to 16383 to one shard", coverage),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_told_from_other_texts() {
        for text in ["0", "0-16383", "1,3-5", "5-1", "0012", "99999"] {
            assert!(is_list(text), "{text:?}");
        }
        for text in ["", "1,", "1-2-3", "1 2", "+1", "123456", "-1", "a"] {
            assert!(!is_list(text), "{text:?}");
        }
    }
}
