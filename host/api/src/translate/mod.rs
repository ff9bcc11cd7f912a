//! From a Valkey to the topology object that the servers are brought to. Pure.
//!
//! # Guarantees
//! 1. The same Valkey and the same configuration give the same topology object, on every run.
//! 2. What people left out is resolved here and nowhere else; the topology object has no defaults.
//! 3. A Valkey that breaks a rule gives an error and no topology object: the live one stays as it is, and the instance goes on
//!    serving.
//!
//! # Flow
//! 1. [`read`] the object. 2. [`translate`] it. 3. [`refused_changes`] against the live topology object. 4. Only then apply, and
//!    beside a Failover with Sentinels of its own the Sentinel that [`sentinel_beside`] gives.
//!
//! A Sentinel that stands alone is its own topology object: [`read_sentinel`], then [`resolve_sentinel`].

mod changes;
mod sentinel;

use k8s_openapi::api::core::v1::LocalObjectReference;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::affinity::{self, pod_labels};
use crate::cluster::{ClusterReplicas, ClusterSpec};
use crate::failover::FailoverSpec;
use crate::images::{ImageError, Images};
use crate::quantity;
use crate::sentinel::Sentinel;
use crate::topology::{TopologyAccess, TopologySpec, TopologyStorage};
use crate::validate::{Violation, validate};
use crate::valkey::{Valkey, ValkeySpec};

pub use changes::refused_changes;
pub use sentinel::{resolve_sentinel, sentinel_beside};

/// A volume without a declared size has this many times the memory limit: a rewritten append-only file, or a new snapshot, fits
/// beside the one that it replaces.
const CAPACITY_PER_MEMORY: u64 = 2;

/// Why an object has no topology object. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// The object has another form than the CRD says.
    #[error("the {0} can't be read: {1}; is the CRD the one that came with this operator?")]
    SpecUnreadable(&'static str, String),
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
            Self::SpecUnreadable(..) => "SpecUnreadable",
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
    without_status("Valkey", object)
}

/// The same of a Sentinel.
///
/// # Errors
/// [`TranslateError::SpecUnreadable`], with the place.
pub fn read_sentinel(object: &Value) -> Result<Sentinel, TranslateError> {
    without_status("Sentinel", object)
}

fn without_status<T: DeserializeOwned>(kind: &'static str, object: &Value) -> Result<T, TranslateError> {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    serde_json::from_value(object).map_err(|error| TranslateError::SpecUnreadable(kind, error.to_string()))
}

/// The topology object's spec.
///
/// # Errors
/// Says which rules are broken, or what the operator's configuration lacks.
pub fn translate(valkey: &Valkey, images: &Images) -> Result<TopologySpec, TranslateError> {
    let violations = validate(valkey);
    if !violations.is_empty() {
        return Err(TranslateError::SpecInvalid(violations));
    }
    let image = images.reference(&valkey.spec.version)?;
    Ok(match valkey.spec.arch.as_str() {
        "cluster" => TopologySpec::Cluster(cluster(valkey, images, image)),
        _ => TopologySpec::Failover(failover(valkey, images, image)),
    })
}

fn cluster(valkey: &Valkey, images: &Images, image: String) -> ClusterSpec {
    let spec = &valkey.spec;
    ClusterSpec {
        image,
        image_pull_policy: images.pull_policy.clone(),
        image_pull_secrets: pull_secrets(images),
        version: spec.version.clone(),
        replicas: ClusterReplicas {
            shards: spec.replicas.shards.unwrap_or_default(),
            replicas_of_shard: spec.replicas.replicas_of_shard,
            shards_config: spec.replicas.shards_config.clone(),
        },
        resources: spec.resources.clone(),
        storage: storage(spec),
        access: access(spec),
        pod_annotations: spec.pod_annotations.clone(),
        affinity_policy: spec.affinity_policy.clone().unwrap_or_else(|| affinity::DEFAULT.into()),
        custom_affinity: spec.custom_affinity.clone(),
        tolerations: spec.tolerations.clone(),
        node_selector: spec.node_selector.clone(),
        security_context: spec.security_context.clone(),
    }
}

fn failover(valkey: &Valkey, images: &Images, image: String) -> FailoverSpec {
    let spec = &valkey.spec;
    let name = valkey.metadata.name.as_deref().unwrap_or_default();
    let affinity = match spec.affinity_policy.as_deref() {
        Some("CustomAffinity") => spec.custom_affinity.clone(),
        policy => Some(affinity::of_group(policy, pod_labels("failover", name))),
    };
    FailoverSpec {
        image,
        image_pull_policy: images.pull_policy.clone(),
        image_pull_secrets: pull_secrets(images),
        version: spec.version.clone(),
        replicas: spec.replicas.replicas_of_shard,
        resources: spec.resources.clone(),
        storage: storage(spec),
        access: access(spec),
        pod_annotations: spec.pod_annotations.clone(),
        affinity,
        tolerations: spec.tolerations.clone(),
        node_selector: spec.node_selector.clone(),
        security_context: spec.security_context.clone(),
        sentinel: (spec.arch == "failover").then(|| sentinel::settings(name, spec)),
    }
}

fn pull_secrets(images: &Images) -> Vec<LocalObjectReference> {
    images.pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() }).collect()
}

fn storage(spec: &ValkeySpec) -> Option<TopologyStorage> {
    let storage = spec.storage.as_ref()?;
    let memory = spec.resources.limits.as_ref().and_then(|limits| limits.get("memory")).and_then(quantity::units).unwrap_or(0);
    let capacity = storage.capacity.clone().unwrap_or_else(|| quantity::from_bytes(memory.saturating_mul(CAPACITY_PER_MEMORY)));
    Some(TopologyStorage {
        storage_class_name: storage.storage_class_name.clone(),
        capacity,
        access_mode: storage.access_mode.clone(),
        retain_after_deleted: storage.retain_after_deleted,
    })
}

fn access(spec: &ValkeySpec) -> TopologyAccess {
    TopologyAccess {
        service_type: spec.access.service_type.clone(),
        ip_family_prefer: family(spec.access.ip_family_prefer.as_deref()).into(),
        open_default_user: spec.access.open_default_user,
    }
}

/// The address family; absent and empty mean IPv4.
fn family(said: Option<&str>) -> &str {
    said.filter(|family| !family.is_empty()).unwrap_or("IPv4")
}
