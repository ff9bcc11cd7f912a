//! Reads the topology object's spec: what influences a pod template goes through here, and nothing else does.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::template::{canonical, short_digest};
use super::{Part, RenderError, Topology, TopologyKind, affinity};

/// The fields of the spec that a part's pods are made of, without those that change no pod: member count, capacity, class,
/// version (the image says it), accounts, and what only servers are told.
pub(super) struct PodSpec {
    fields: BTreeMap<&'static str, Value>,
    ipv6: bool,
    claim: bool,
    /// Sentinels move the primary's role: a data server's hook asks them.
    watched: bool,
    /// The Secret of those that exist elsewhere, which the hook's pod mounts.
    login: Option<String>,
    /// The image is required; without one, this says where it is missing.
    no_image: RenderError,
}

/// Fields that say which image: Sentinels of a Failover have that of its data servers.
const IMAGE: [&str; 3] = ["image", "imagePullPolicy", "imagePullSecrets"];
/// Fields that are copied into the template, or select what is in it, as they are.
const OWN: [&str; 6] = ["resources", "podAnnotations", "affinity", "tolerations", "nodeSelector", "securityContext"];

impl PodSpec {
    pub(super) fn new(topology: &Topology, part: Part) -> Self {
        let section = section(topology, part);
        let image = IMAGE.into_iter().map(|name| (name, topology.spec.get(name).cloned()));
        let own = OWN.into_iter().map(|name| (name, field(topology, part, section, name)));
        let filled = |(name, value): (&'static str, Option<Value>)| Some((name, value.filter(|value| !is_empty(value))?));
        Self {
            fields: image.chain(own).filter_map(filled).collect(),
            ipv6: is_ipv6(topology, Some(part)),
            claim: storage(topology, part).is_some(),
            watched: part == Part::Data && topology.watched().is_some(),
            login: topology.login_elsewhere().filter(|_| part == Part::Data).map(|login| login.secret.to_owned()),
            no_image: topology.missing("image"),
        }
    }

    /// The server's image.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn image(&self) -> Result<&str, RenderError> {
        self.field("image").and_then(Value::as_str).ok_or_else(|| self.no_image.clone())
    }

    /// A field that pods are made of; null, `{}`, `[]` and `""` count as absent, as they do for the API server.
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        debug_assert!(IMAGE.contains(&name) || OWN.contains(&name), "{name} is not read, and so not in the hash");
        self.fields.get(name)
    }

    /// Whether pods serve on IPv6.
    pub(super) fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// Whether data is on a claim.
    pub(super) fn has_claim(&self) -> bool {
        self.claim
    }

    /// Hash of exactly the spec fields that influence the pod template: first 16 hexadecimal digits of SHA-256 over canonical
    /// JSON. Pods are due for a restart when it changes, and only then.
    pub(super) fn hash(&self) -> String {
        let mut hashed: Map<String, Value> =
            self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        hashed.insert("claim".to_owned(), json!(self.claim));
        hashed.insert("ipv6".to_owned(), json!(self.ipv6));
        if self.watched {
            hashed.insert("watched".to_owned(), json!(true));
        }
        if let Some(secret) = &self.login {
            hashed.insert("login".to_owned(), json!(secret));
        }
        short_digest(&canonical(&Value::Object(hashed)))
    }
}

/// Where the spec speaks of the part.
fn section(topology: &Topology, part: Part) -> &Value {
    match part {
        Part::Data | Part::Shard(_) => &topology.spec,
        Part::Sentinels => topology.own_sentinels().unwrap_or(&Value::Null),
    }
}

/// A Cluster's fields have other names, which are those of the operator that people have today.
fn field(topology: &Topology, part: Part, section: &Value, name: &str) -> Option<Value> {
    match (part, name) {
        (Part::Shard(_), "affinity") => affinity::of_shard(topology, part),
        (Part::Shard(_), "podAnnotations") => section.get("annotations").cloned(),
        _ => section.get(name).cloned(),
    }
}

/// Whether the part (without one, the instance) lives on IPv6: `access.ipFamilyPrefer`. Everything else means IPv4. Sentinels
/// that say nothing live where the data does.
pub fn is_ipv6(topology: &Topology, part: Option<Part>) -> bool {
    let family = |section: &Value| section.pointer("/access/ipFamilyPrefer").and_then(Value::as_str).map(str::to_owned);
    let own = part.and_then(|part| family(section(topology, part))).filter(|family| !family.is_empty());
    own.or_else(|| family(&topology.spec)).as_deref() == Some("IPv6")
}

/// The storage section, if data is on claims. An empty section counts: it asks for a claim of the default class. A Sentinel's
/// state is made anew by the operator, so it has none.
pub(super) fn storage(topology: &Topology, part: Part) -> Option<&Value> {
    match (part, topology.kind) {
        (Part::Sentinels, _) | (_, TopologyKind::Sentinel) => None,
        (Part::Data | Part::Shard(_), _) => topology.spec.get("storage").filter(|storage| storage.is_object()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
