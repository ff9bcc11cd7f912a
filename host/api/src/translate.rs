//! From a Valkey to the topology object that the servers are brought to. Pure.
//!
//! # Guarantees
//! 1. The same Valkey and the same configuration give the same Failover, on every run.
//! 2. What people left out is resolved here and nowhere else; the Failover has no defaults.
//! 3. A Valkey that breaks a rule gives an error and no Failover: the live one stays as it is, and the instance goes on serving.
//!
//! # Flow
//! 1. [`read`] the object. 2. [`translate`] it. 3. [`refused_changes`] against the live Failover. 4. Only then apply.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::failover::{FailoverAccess, FailoverSpec, FailoverStorage};
use crate::images::{ImageError, Images};
use crate::validate::{Violation, validate};
use crate::valkey::{Valkey, ValkeySpec};
use crate::{names, quantity};

/// A volume without a declared size has this many times the memory limit: a rewritten append-only file, or a new snapshot, fits
/// beside the one that it replaces.
const CAPACITY_PER_MEMORY: u64 = 2;

/// Highest weight that a preference can have: spreading over nodes is the first thing to ask of a soft rule.
const WEIGHT: i32 = 100;

/// Why a Valkey has no topology object. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// The object has another form than the CRD says.
    #[error("the Valkey can't be read: {0}; is the CRD the one that came with this operator?")]
    SpecUnreadable(String),
    /// Rules are broken.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(". "))]
    SpecInvalid(Vec<Violation>),
    /// The operator's configuration has no usable image.
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl TranslateError {
    /// The variant's name: metric label, event reason, condition reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SpecUnreadable(_) => "SpecUnreadable",
            Self::SpecInvalid(_) => "SpecInvalid",
            Self::Image(error) => error.reason(),
        }
    }
}

/// Reads a Valkey from JSON, without its status: that is ours, and a form of it that we don't know must not stop anything.
///
/// # Errors
/// [`TranslateError::SpecUnreadable`], with the place.
pub fn read(object: &Value) -> Result<Valkey, TranslateError> {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    serde_json::from_value(object).map_err(|error| TranslateError::SpecUnreadable(error.to_string()))
}

/// The topology object's spec.
///
/// # Errors
/// Says which rules are broken, or what the operator's configuration lacks.
pub fn translate(valkey: &Valkey, images: &Images) -> Result<FailoverSpec, TranslateError> {
    let violations = validate(valkey);
    if !violations.is_empty() {
        return Err(TranslateError::SpecInvalid(violations));
    }
    let spec = &valkey.spec;
    Ok(FailoverSpec {
        image: images.reference(&spec.version)?,
        image_pull_policy: images.pull_policy.clone(),
        image_pull_secrets: images.pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() }).collect(),
        version: spec.version.clone(),
        replicas: spec.replicas.replicas_of_shard,
        resources: spec.resources.clone(),
        storage: storage(spec),
        access: access(spec),
        pod_annotations: spec.pod_annotations.clone(),
        affinity: affinity(valkey),
        tolerations: spec.tolerations.clone(),
        node_selector: spec.node_selector.clone(),
        security_context: spec.security_context.clone(),
    })
}

fn storage(spec: &ValkeySpec) -> Option<FailoverStorage> {
    let storage = spec.storage.as_ref()?;
    let memory = spec.resources.limits.as_ref().and_then(|limits| limits.get("memory")).and_then(quantity::units).unwrap_or(0);
    let capacity = storage.capacity.clone().unwrap_or_else(|| quantity::from_bytes(memory.saturating_mul(CAPACITY_PER_MEMORY)));
    Some(FailoverStorage {
        storage_class_name: storage.storage_class_name.clone(),
        capacity,
        access_mode: storage.access_mode.clone(),
        retain_after_deleted: storage.retain_after_deleted,
    })
}

fn access(spec: &ValkeySpec) -> FailoverAccess {
    let family = spec.access.ip_family_prefer.as_deref().filter(|family| !family.is_empty()).unwrap_or("IPv4");
    FailoverAccess {
        service_type: spec.access.service_type.clone(),
        ip_family_prefer: family.into(),
        open_default_user: spec.access.open_default_user,
    }
}

/// The pods' affinity. In-shard and instance-wide are the same where there is one shard.
fn affinity(valkey: &Valkey) -> Option<Affinity> {
    let instance = valkey.metadata.name.as_deref().unwrap_or_default();
    let term = || PodAffinityTerm {
        topology_key: "kubernetes.io/hostname".into(),
        label_selector: Some(LabelSelector { match_labels: Some(pod_labels(instance)), match_expressions: None }),
        ..PodAffinityTerm::default()
    };
    let away = match valkey.spec.affinity_policy.as_deref() {
        Some("CustomAffinity") => return valkey.spec.custom_affinity.clone(),
        Some("AntiAffinity" | "AntiAffinityInShard") => PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term()]),
            ..PodAntiAffinity::default()
        },
        _ => PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
                weight: WEIGHT,
                pod_affinity_term: term(),
            }]),
            ..PodAntiAffinity::default()
        },
    };
    Some(Affinity { pod_anti_affinity: Some(away), ..Affinity::default() })
}

/// Labels that select the pods of an instance's data servers.
pub fn pod_labels(instance: &str) -> BTreeMap<String, String> {
    [(names::MANAGED_BY, names::OPERATOR), (names::TYPE, "failover"), (names::INSTANCE, instance)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Fields of a Failover that can't change once servers exist, the Valkey's field that they come from, and why.
const UNCHANGEABLE: [(&str, &str, &str); 10] = [
    ("/version", "spec.version", "rolling upgrades are not supported yet"),
    ("/resources", "spec.resources", NEEDS_PODS),
    ("/podAnnotations", "spec.podAnnotations", NEEDS_PODS),
    ("/affinity", "spec.affinityPolicy", NEEDS_PODS),
    ("/nodeSelector", "spec.nodeSelector", NEEDS_PODS),
    ("/tolerations", "spec.tolerations", NEEDS_PODS),
    ("/securityContext", "spec.securityContext", NEEDS_PODS),
    ("/storage/storageClassName", "spec.storage.storageClassName", "volumes keep their class"),
    ("/storage/capacity", "spec.storage.capacity", "growing volumes is not supported yet, and they can't shrink"),
    ("/access/ipFamilyPrefer", "spec.access.ipFamilyPrefer", "Services keep their family"),
];
const NEEDS_PODS: &str = "it needs pods to be replaced, which is not supported yet";

/// Changes that must not reach a live Failover. The CRD refuses them on a Valkey; here is what got past an older CRD, or past the
/// deletion and re-creation of a Valkey whose Failover stayed.
pub fn refused_changes(live: &FailoverSpec, wanted: &FailoverSpec) -> Vec<Violation> {
    let (Ok(live_json), Ok(wanted_json)) = (serde_json::to_value(live), serde_json::to_value(wanted)) else { return Vec::new() };
    let refuse = |field: &str, why: &str| Violation {
        field: field.into(),
        value: String::new(),
        remedy: format!("was changed, which is refused: {why}; set it back"),
    };
    if live.storage.is_some() != wanted.storage.is_some() {
        return vec![refuse("spec.storage", "volumes can't be added or removed")];
    }
    UNCHANGEABLE
        .iter()
        .filter(|(pointer, ..)| !same(live_json.pointer(pointer), wanted_json.pointer(pointer)))
        .map(|(_, field, why)| refuse(field, why))
        .collect()
}

/// Equal, or equal as quantities.
fn same(live: Option<&Value>, wanted: Option<&Value>) -> bool {
    let amount = |value: Option<&Value>| {
        let text = value?.as_str()?;
        quantity::nano(&Quantity(text.into()))
    };
    live == wanted || amount(live).is_some_and(|live| Some(live) == amount(wanted))
}
