//! Sentinels, resolved: those of an instance, and those that stand alone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{TranslateError, family, pull_secrets};
use crate::affinity::{self, pod_labels};
use crate::failover::FailoverSpec;
use crate::images::Images;
use crate::sentinel::{Sentinel, SentinelAccess, SentinelReference, SentinelSettings, SentinelSpec};
use crate::validate::validate_sentinel;
use crate::valkey::ValkeySpec;
use crate::{names, rules};

/// Sentinels where their number isn't said: the least that can lose one.
const REPLICAS: i32 = 3;

/// How Sentinels judge where it isn't said. `down-after-milliseconds`: servers pause for a second or so when they fork or a slow
/// command runs, and that is no death. `failover-timeout`: a failover takes seconds; one that failed is tried again after twice
/// this time. `parallel-syncs`: while one replica changes over, the others serve reads.
const MONITOR: [(&str, &str); 3] = [("down-after-milliseconds", "5000"), ("failover-timeout", "60000"), ("parallel-syncs", "1")];

/// Requests and limits where none are said: a Sentinel that watches some tens of data sets has about 10 MiB resident.
fn resources() -> ResourceRequirements {
    let of = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned()))).collect::<BTreeMap<_, _>>())
    };
    ResourceRequirements {
        requests: of(&[("cpu", "50m"), ("memory", "64Mi")]),
        limits: of(&[("memory", "128Mi")]),
        ..ResourceRequirements::default()
    }
}

/// The Sentinels of an instance of the failover architecture.
pub(super) fn settings(name: &str, spec: &ValkeySpec) -> SentinelSettings {
    let said = spec.sentinel.clone().unwrap_or_default();
    let (own, count) = match &said.sentinel_reference {
        Some(reference) => (SentinelSpec::default(), i32::try_from(reference.nodes.len()).unwrap_or(i32::MAX)),
        None => {
            let mut own = said.own;
            inherit(&mut own, spec);
            let own = resolved(own, name, spec.affinity_policy.as_deref());
            let count = own.replicas.unwrap_or(REPLICAS);
            (own, count)
        }
    };
    let mut monitor_config: BTreeMap<String, String> = MONITOR.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    monitor_config.extend(said.monitor_config);
    SentinelSettings {
        own,
        sentinel_reference: said.sentinel_reference.map(significant),
        monitor_config,
        quorum: Some(said.quorum.unwrap_or(count / 2 + 1)),
    }
}

/// What an instance's Sentinels take over from it where they don't say otherwise.
fn inherit(own: &mut SentinelSpec, spec: &ValkeySpec) {
    if own.tolerations.is_empty() {
        own.tolerations.clone_from(&spec.tolerations);
    }
    if own.node_selector.is_empty() {
        own.node_selector.clone_from(&spec.node_selector);
    }
    if own.pod_annotations.is_empty() {
        own.pod_annotations.clone_from(&spec.pod_annotations);
    }
    if own.security_context.is_none() {
        own.security_context.clone_from(&spec.security_context);
    }
    let access = own.access.get_or_insert_default();
    if access.ip_family_prefer.as_deref().unwrap_or_default().is_empty() {
        access.ip_family_prefer.clone_from(&spec.access.ip_family_prefer);
    }
}

/// Without what says nothing.
fn significant(mut reference: SentinelReference) -> SentinelReference {
    let full = |text: &mut Option<String>| *text = text.take().filter(|text| !text.is_empty());
    reference.nodes.iter_mut().for_each(|node| full(&mut node.flags));
    if let Some(auth) = &mut reference.auth {
        full(&mut auth.username);
        full(&mut auth.password_secret);
        full(&mut auth.tls_secret);
    }
    reference
}

/// Everything that is read, written out; nothing that isn't.
fn resolved(said: SentinelSpec, name: &str, policy: Option<&str>) -> SentinelSpec {
    let access = said.access.unwrap_or_default();
    SentinelSpec {
        replicas: Some(said.replicas.unwrap_or(REPLICAS)),
        resources: Some(said.resources.unwrap_or_else(resources)),
        access: Some(SentinelAccess {
            service_type: Some(access.service_type.unwrap_or_else(|| "ClusterIP".into())),
            ip_family_prefer: Some(family(access.ip_family_prefer.as_deref()).into()),
            default_password_secret: access.default_password_secret.filter(|name| !name.is_empty()),
            ..SentinelAccess::default()
        }),
        affinity: Some(said.affinity.unwrap_or_else(|| affinity::of_group(policy, pod_labels(names::TYPE_SENTINEL, name)))),
        custom_configs: None,
        exporter: None,
        ..said
    }
}

/// The spec of the Sentinel object beside a Failover; `None` if it has no Sentinels of its own.
pub fn sentinel_beside(failover: &FailoverSpec) -> Option<SentinelSpec> {
    let settings = failover.sentinel.as_ref().filter(|settings| settings.sentinel_reference.is_none())?;
    Some(SentinelSpec {
        version: Some(failover.version.clone()),
        image: Some(failover.image.clone()),
        image_pull_policy: failover.image_pull_policy.clone(),
        image_pull_secrets: failover.image_pull_secrets.clone(),
        ..settings.own.clone()
    })
}

/// The spec of a Sentinel that stands alone with everything that people left out. The object itself stays as they wrote it.
///
/// # Errors
/// Says which rules are broken, or what the operator's configuration lacks.
pub fn resolve_sentinel(sentinel: &Sentinel, images: &Images) -> Result<SentinelSpec, TranslateError> {
    let violations = validate_sentinel(sentinel);
    if !violations.is_empty() {
        return Err(TranslateError::SpecInvalid(violations));
    }
    let mut spec = sentinel.spec.clone();
    let version = spec.version.take().unwrap_or_else(|| rules::NEWEST.into());
    let image = match spec.image.take() {
        Some(image) => image,
        None => images.reference(&version)?,
    };
    let secrets = std::mem::take(&mut spec.image_pull_secrets);
    let spec = SentinelSpec {
        version: Some(version),
        image: Some(image),
        image_pull_policy: spec.image_pull_policy.take().or_else(|| images.pull_policy.clone()),
        image_pull_secrets: if secrets.is_empty() { pull_secrets(images) } else { secrets },
        ..spec
    };
    Ok(resolved(spec, sentinel.metadata.name.as_deref().unwrap_or_default(), None))
}
