//! A policy as a ConfigMap: packed by its author, unpacked by the operator. Pure; what a component is worth, admission says.
//!
//! # Form
//! ```yaml
//! apiVersion: v1
//! kind: ConfigMap
//! metadata: {name: ..., labels: {valkey.buf.red/policy: "true"}}
//! data:
//!   manifest: '{"name": ..., "architecture": "replica", "version": "1.0.0", "sha256": ..., "interface": "valkey:policy@0.2.0"}'
//! binaryData:
//!   component: base64 of the component
//! ```
//! Nothing else may be in `data` and `binaryData`, and nothing may be missing: a field that nobody reads would be a promise that
//! nobody keeps. A packed component of more than about 190 kB must be applied server-side (`kubectl apply --server-side`):
//! client-side apply copies the object into an annotation, which ends at 256 KiB.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vko_core::policy::{AdmitError, Expected};
use vko_wit::common::Architecture;

use crate::engine::sha256;

/// Label of ConfigMaps that hold a policy; its value is `true`.
pub const LABEL: &str = "valkey.buf.red/policy";
/// Most bytes in `data` and `binaryData` together that an API server takes.
pub const CONFIG_MAP_BYTES_MAX: usize = 1 << 20;

const MANIFEST: &str = "manifest";
const COMPONENT: &str = "component";

/// The manifest as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    name: String,
    architecture: Shape,
    version: String,
    sha256: String,
    interface: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Cluster,
    Failover,
    Replica,
}

/// The ConfigMap of a component, without a namespace: it goes into the operator's. [`Engine::describe`](crate::Engine::describe)
/// makes the promise.
///
/// # Errors
/// [`AdmitError::PolicyManifestInvalid`] when the manifest would not be taken or the whole is larger than a ConfigMap;
/// [`AdmitError::PolicyDigestMismatch`] when the promise is of another component.
pub fn pack(config_map: &str, expected: &Expected, component: &[u8]) -> Result<Value, AdmitError> {
    let manifest = Manifest {
        name: expected.name.clone(),
        architecture: shape(expected.architecture),
        version: expected.version.clone(),
        sha256: expected.sha256.clone(),
        interface: expected.interface.clone(),
    };
    check_manifest(&manifest)
        .and_then(|()| check_name("the ConfigMap's name", config_map))
        .map_err(AdmitError::PolicyManifestInvalid)?;
    let found = sha256(component);
    if found != expected.sha256 {
        return Err(AdmitError::PolicyDigestMismatch { expected: expected.sha256.clone(), found });
    }
    let manifest = serde_json::to_string(&manifest).map_err(|error| invalid(format!("it can't be written: {error}")))?;
    let size = manifest.len() + component.len();
    if size > CONFIG_MAP_BYTES_MAX {
        return Err(invalid(format!(
            "component and manifest have {size} bytes, a ConfigMap holds {CONFIG_MAP_BYTES_MAX}; build the policy with \
             opt-level \"s\", lto and strip, and with serde_json values instead of typed Kubernetes structs"
        )));
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_map, "labels": {LABEL: "true"}},
        "data": {MANIFEST: manifest},
        "binaryData": {COMPONENT: STANDARD.encode(component)},
    }))
}

/// Promise and component of a ConfigMap.
///
/// # Errors
/// [`AdmitError::PolicyManifestInvalid`] says what is missing, malformed or too much.
pub fn unpack(config_map: &Value) -> Result<(Expected, Vec<u8>), AdmitError> {
    let manifest = sole_text(config_map, "data", MANIFEST)?;
    let manifest: Manifest = serde_json::from_str(manifest).map_err(|error| invalid(format!("data.manifest: {error}")))?;
    check_manifest(&manifest).map_err(|text| invalid(format!("data.manifest: {text}")))?;
    let component = sole_text(config_map, "binaryData", COMPONENT)?;
    let component = STANDARD.decode(component).map_err(|error| invalid(format!("binaryData.component is no base64: {error}")))?;
    if component.is_empty() {
        return Err(invalid("binaryData.component is empty".into()));
    }
    let expected = Expected {
        name: manifest.name,
        architecture: architecture(manifest.architecture),
        version: manifest.version,
        sha256: manifest.sha256,
        interface: manifest.interface,
    };
    Ok((expected, component))
}

/// The text under the only key that a section may have.
fn sole_text<'a>(config_map: &'a Value, section: &str, key: &str) -> Result<&'a str, AdmitError> {
    let map =
        config_map.get(section).and_then(Value::as_object).ok_or_else(|| invalid(format!("the ConfigMap has no {section}")))?;
    if let Some(stranger) = map.keys().find(|name| *name != key) {
        return Err(invalid(format!("{section}.{stranger} is not known; only {section}.{key} is read, remove the other")));
    }
    map.get(key).and_then(Value::as_str).ok_or_else(|| invalid(format!("{section}.{key} is missing or no text")))
}

fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    check_name("name", &manifest.name)?;
    check_version(&manifest.version)?;
    let is_digest = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if manifest.sha256.len() != 64 || !manifest.sha256.chars().all(is_digest) {
        return Err(format!("sha256 '{}' is not 64 lower-case hexadecimal digits", manifest.sha256));
    }
    if manifest.interface.is_empty() {
        return Err(format!("interface is empty; this operator speaks '{}'", vko_wit::INTERFACE));
    }
    Ok(())
}

/// A DNS label, as Kubernetes wants names, short enough for a label's value and a metric's.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let whole = (1..=63).contains(&name.len()) && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-');
    whole.then_some(()).ok_or_else(|| format!("{what} '{name}' is not 1 to 63 lower-case letters, digits and inner hyphens"))
}

/// `major.minor.patch`, without leading zeros; what is newer must be clear.
fn check_version(version: &str) -> Result<(), String> {
    let number = |part: &str| !part.is_empty() && part.parse::<u32>().is_ok_and(|value| value.to_string() == part);
    let parts: Vec<&str> = version.split('.').collect();
    let whole = parts.len() == 3 && parts.iter().all(|part| number(part));
    whole.then_some(()).ok_or_else(|| format!("version '{version}' is not MAJOR.MINOR.PATCH"))
}

fn invalid(text: String) -> AdmitError {
    AdmitError::PolicyManifestInvalid(text)
}

const fn shape(architecture: Architecture) -> Shape {
    match architecture {
        Architecture::Cluster => Shape::Cluster,
        Architecture::Failover => Shape::Failover,
        Architecture::Replica => Shape::Replica,
    }
}

const fn architecture(shape: Shape) -> Architecture {
    match shape {
        Shape::Cluster => Architecture::Cluster,
        Shape::Failover => Architecture::Failover,
        Shape::Replica => Architecture::Replica,
    }
}

#[cfg(test)]
mod tests;
