//! Whom a step means: pods by name, by role, by what they were called before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vko_api::names;

use crate::step::Targets;
use crate::{INSTANCE, VALKEYS, View};

/// A word for pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// `NAME`: the pod of that name.
    Named(String),
    /// `$NAME`: pods that a step gave that name.
    Remembered(String),
    /// `WHAT [of SHARD] [at INSTANCE]`: by what they are now.
    Found {
        /// Which.
        what: What,
        /// Number of the shard; all of them where nothing is said.
        shard: Option<u32>,
        /// Instance; [`INSTANCE`] where nothing is said.
        instance: Option<String>,
    },
}

/// What pods are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// `primary`: those that carry the primary's label.
    Primary,
    /// `replica`: the first of the other data pods (of each shard).
    Replica,
    /// `replicas`: all of them.
    Replicas,
    /// `servers`: all data pods.
    Servers,
    /// `sentinel`: the first.
    Sentinel,
    /// `sentinels`.
    Sentinels,
    /// `pods`: all there are.
    Pods,
}

const WORDS: [(&str, What); 7] = [
    ("primary", What::Primary),
    ("replica", What::Replica),
    ("replicas", What::Replicas),
    ("servers", What::Servers),
    ("sentinel", What::Sentinel),
    ("sentinels", What::Sentinels),
    ("pods", What::Pods),
];

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix('$') {
            return Ok(Self::Remembered(name.into()));
        }
        let mut words = text.split(' ');
        let first = words.next().unwrap_or_default();
        let Some((_, what)) = WORDS.iter().find(|(word, _)| *word == first) else {
            if first.contains('-') && first == text {
                return Ok(Self::Named(text));
            }
            let known: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
            return Err(format!(
                "{text:?} is nobody; use a pod's name, $NAME of a remembered one, or one of {} [of SHARD] [at INSTANCE]",
                known.join(", ")
            ));
        };
        let (mut shard, mut instance) = (None, None);
        while let Some(word) = words.next() {
            let argument = words.next().unwrap_or_default();
            match (word, argument.parse::<u32>()) {
                ("of", Ok(number)) => shard = Some(number),
                ("at", _) if !argument.is_empty() => instance = Some(argument.to_owned()),
                _ => return Err(format!("{text:?}: after {first:?} only 'of SHARD' and 'at INSTANCE' can be said")),
            }
        }
        Ok(Self::Found { what: *what, shard, instance })
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        match target {
            Target::Named(name) => name,
            Target::Remembered(name) => format!("${name}"),
            Target::Found { what, shard, instance } => {
                let word = WORDS.iter().find(|(_, known)| *known == what).map_or("", |(word, _)| word);
                let shard = shard.map(|shard| format!(" of {shard}")).unwrap_or_default();
                let instance = instance.map(|instance| format!(" at {instance}")).unwrap_or_default();
                format!("{word}{shard}{instance}")
            }
        }
    }
}

/// A pod as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its UID: another pod of the name is another one.
    pub uid: String,
    /// Its address; empty: none yet.
    pub ip: String,
    /// Its node; empty: none yet.
    pub node: String,
    /// Its StatefulSet.
    pub workload: String,
    /// Its instance.
    pub instance: String,
    /// Whether it carries the primary's label; in a cluster, where Services don't go by roles, whether its Valkey says so.
    pub primary: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is to go.
    pub deleting: bool,
    /// How often its container was started again.
    pub restarts: u64,
}

impl Pod {
    /// From its object.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let label = |name: &str| object["metadata"]["labels"].get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("/metadata/name");
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        Self {
            uid: text("/metadata/uid"),
            ip: text("/status/podIP"),
            node: text("/spec/nodeName"),
            workload: name.rsplit_once('-').map_or(name.as_str(), |(workload, _)| workload).to_owned(),
            instance: label(names::INSTANCE),
            primary: label(names::ROLE) == names::ROLE_PRIMARY,
            ready: conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True"),
            deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
            restarts: object.pointer("/status/containerStatuses/0/restartCount").and_then(Value::as_u64).unwrap_or(0),
            name,
        }
    }

    /// Whether it is a Sentinel's.
    pub fn is_sentinel(&self) -> bool {
        self.workload == names::sentinel_workload(&self.instance)
    }
}

/// All pods of instances.
pub fn pods(view: &dyn View) -> Vec<Pod> {
    view.all("pods").into_iter().map(|pod| seen(view, pod)).collect()
}

/// The pod of that name.
pub fn named(view: &dyn View, name: &str) -> Option<Pod> {
    view.get("pods", name).map(|pod| seen(view, pod))
}

fn seen(view: &dyn View, object: &Value) -> Pod {
    let mut pod = Pod::of(object);
    let valkey = view.get(VALKEYS, &pod.instance);
    let nodes = valkey.filter(|valkey| valkey["spec"]["arch"] == "cluster").and_then(|valkey| valkey.pointer("/status/nodes"));
    let leads = |node: &Value| node["podName"] == *pod.name && node["role"] == "master";
    pod.primary |= nodes.and_then(Value::as_array).is_some_and(|nodes| nodes.iter().any(leads));
    pod
}

/// Pods by the names that steps gave them.
pub type Remembered = BTreeMap<String, Vec<Pod>>;

/// Whom a step means, now.
///
/// # Errors
/// The target that is nobody.
pub fn meant(view: &dyn View, targets: &Targets, remembered: &Remembered) -> Result<Vec<Pod>, Target> {
    let mut all = Vec::new();
    for target in &targets.0 {
        let found = match target {
            Target::Remembered(name) => remembered.get(name).cloned().unwrap_or_default(),
            Target::Named(name) => named(view, name).into_iter().collect(),
            Target::Found { what, shard, instance } => found(view, *what, *shard, instance.as_deref()),
        };
        if found.is_empty() {
            return Err(target.clone());
        }
        all.extend(found);
    }
    Ok(all)
}

/// The pods of an instance (one shard of it, or all) that are `what`.
pub fn found(view: &dyn View, what: What, shard: Option<u32>, instance: Option<&str>) -> Vec<Pod> {
    let instance = instance.unwrap_or(INSTANCE);
    let of_shard = |pod: &Pod| shard.is_none_or(|shard| pod.workload == names::shard_workload(instance, shard));
    let mut all = pods(view);
    all.retain(|pod| pod.instance == instance && of_shard(pod));
    all.retain(|pod| match what {
        What::Primary => pod.primary,
        What::Replica | What::Replicas => !pod.primary && !pod.is_sentinel(),
        What::Servers => !pod.is_sentinel(),
        What::Sentinel | What::Sentinels => pod.is_sentinel(),
        What::Pods => true,
    });
    if matches!(what, What::Replica | What::Sentinel) {
        all.dedup_by(|later, first| later.workload == first.workload);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_by_table() {
        let found =
            |what, shard, instance: Option<&str>| Ok(Target::Found { what, shard, instance: instance.map(str::to_owned) });
        for (text, expected) in [
            ("rfr-demo-0", Ok(Target::Named("rfr-demo-0".into()))),
            ("$old", Ok(Target::Remembered("old".into()))),
            ("primary", found(What::Primary, None, None)),
            ("primary of 2", found(What::Primary, Some(2), None)),
            ("sentinels at b", found(What::Sentinels, None, Some("b"))),
            ("replica of 0 at b", found(What::Replica, Some(0), Some("b"))),
        ] {
            let target = Target::try_from(text.to_owned());
            assert_eq!(target, expected, "{text}");
            assert_eq!(target.map(String::from), Ok(text.to_owned()));
        }
        for (text, says) in
            [("master", "use a pod's name"), ("primary of x", "of SHARD"), ("primary in 2", "of SHARD"), ("", "use")]
        {
            let refused = Target::try_from(text.to_owned()).unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
