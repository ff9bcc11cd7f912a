//! Fields that are in the schema, so that manifests are understood, and are not served yet. What says nothing (empty, false) passes.

use serde_json::Value;

use super::Rule;
use super::cel::{present, when};
use crate::valkey::ValkeySpec;

/// How a field can say nothing, in CEL after the field's name; empty if its mere presence says something.
struct Field(&'static str, &'static str);

const NOT_YET: &str = "is not supported yet; remove it";

const FIELDS: [Field; 21] = [
    Field("spec.customConfigs", "size(_) == 0"),
    Field("spec.modules", "size(_) == 0"),
    Field("spec.sentinel", ""),
    Field("spec.replicas.shardsConfig", "size(_) == 0"),
    Field("spec.resources.claims", "size(_) == 0"),
    Field("spec.storage.annotations", "size(_) == 0"),
    Field("spec.access.annotations", "size(_) == 0"),
    Field("spec.access.ports", "_ == ''"),
    Field("spec.access.enableTLS", "!_"),
    Field("spec.access.certIssuer", "_ == ''"),
    Field("spec.access.certIssuerType", "_ == '' || _ == 'ClusterIssuer'"),
    Field("spec.securityContext.appArmorProfile", ""),
    Field("spec.securityContext.fsGroupChangePolicy", ""),
    Field("spec.securityContext.runAsGroup", ""),
    Field("spec.securityContext.seLinuxChangePolicy", ""),
    Field("spec.securityContext.seLinuxOptions", ""),
    Field("spec.securityContext.seccompProfile", ""),
    Field("spec.securityContext.supplementalGroupsPolicy", ""),
    Field("spec.securityContext.sysctls", "size(_) == 0"),
    Field("spec.securityContext.windowsOptions", ""),
    Field("spec.exporter", "has(_.disable) && _.disable"),
];

pub(super) fn rules() -> Vec<Rule> {
    let remedy = |field: &str| {
        if field == "spec.exporter" { "is not supported yet; remove it, or set spec.exporter.disable to true" } else { NOT_YET }
    };
    FIELDS
        .iter()
        .map(|&Field(field, empty)| {
            let path = field.trim_start_matches("spec.");
            let cel = if empty.is_empty() {
                format!("!({})", present(path))
            } else {
                when(path, &empty.replace('_', &format!("self.{path}")))
            };
            Rule::new(field, cel, "", remedy(field), move |spec| says_something(spec, field).then(String::new))
        })
        .collect()
}

/// Whether an unserved field is there and says something.
fn says_something(spec: &ValkeySpec, field: &str) -> bool {
    let pointer = field.trim_start_matches("spec").replace('.', "/");
    let Some(value) = serde_json::to_value(spec).ok().and_then(|spec| spec.pointer(&pointer).cloned()) else { return false };
    match (field, value) {
        ("spec.exporter", Value::Object(exporter)) => exporter.get("disable") != Some(&Value::Bool(true)),
        ("spec.access.certIssuerType", Value::String(kind)) => !kind.is_empty() && kind != "ClusterIssuer",
        (_, Value::Null | Value::Bool(false)) => false,
        ("spec.access.ports" | "spec.access.certIssuer", Value::String(text)) => !text.is_empty(),
        ("spec.customConfigs" | "spec.storage.annotations" | "spec.access.annotations", Value::Object(map)) => !map.is_empty(),
        (_, Value::Array(list)) => !list.is_empty(),
        _ => true,
    }
}
