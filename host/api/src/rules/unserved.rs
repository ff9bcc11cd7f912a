//! Fields that are in the schema, so that manifests are understood, and are not served yet. What says nothing (empty, false)
//! passes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use serde::Serialize;
use serde_json::Value;

use super::cel::{present, when};
use super::{Rule, validation};
use crate::sentinel::SentinelSpec;
use crate::valkey::ValkeySpec;

/// How a field can say nothing, in CEL after the field's name (`_`); empty if its mere presence says something.
struct Field(&'static str, &'static str);

const NOT_YET: &str = "is not supported yet; remove it";
const EXPORTER: &str = "is not supported yet; remove it, or set spec.exporter.disable to true";

/// Of a Valkey alone.
const VALKEY: [Field; 2] = [Field("spec.modules", "size(_) == 0"), Field("spec.storage.annotations", "size(_) == 0")];

/// Of Sentinels alone.
const SENTINEL: [Field; 1] = [Field("spec.access.externalTLSSecret", "_ == ''")];

/// Of everything that pods are made from.
const COMMON: [Field; 17] = [
    Field("spec.customConfigs", "size(_) == 0"),
    Field("spec.resources.claims", "size(_) == 0"),
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

pub(super) fn valkey() -> Vec<Rule<ValkeySpec>> {
    VALKEY.iter().chain(&COMMON).map(rule).collect()
}

pub(super) fn sentinel() -> Vec<Rule<SentinelSpec>> {
    SENTINEL.iter().chain(&COMMON).map(rule).collect()
}

fn rule<S: Serialize + 'static>(&Field(field, empty): &Field) -> Rule<S> {
    let path = field.trim_start_matches("spec.");
    let cel =
        if empty.is_empty() { format!("!({})", present(path)) } else { when(path, &empty.replace('_', &format!("self.{path}"))) };
    let remedy = if field == "spec.exporter" { EXPORTER } else { NOT_YET };
    Rule::new(field, cel, "", remedy, move |spec| says_something(spec, field).then(String::new))
}

/// The one rule about Users. It never holds.
pub(crate) fn users() -> ValidationRule {
    validation("spec", "spec", "false", "", "is not supported yet: the operator does not serve User objects; remove the object")
}

/// Whether an unserved field is there and says something.
fn says_something<S: Serialize>(spec: &S, field: &str) -> bool {
    let pointer = field.trim_start_matches("spec").replace('.', "/");
    let Some(value) = serde_json::to_value(spec).ok().and_then(|spec| spec.pointer(&pointer).cloned()) else { return false };
    match (field, value) {
        ("spec.exporter", Value::Object(exporter)) => exporter.get("disable") != Some(&Value::Bool(true)),
        ("spec.access.certIssuerType", Value::String(kind)) => !kind.is_empty() && kind != "ClusterIssuer",
        (_, Value::Null | Value::Bool(false)) => false,
        ("spec.access.ports" | "spec.access.certIssuer" | "spec.access.externalTLSSecret", Value::String(text)) => {
            !text.is_empty()
        }
        ("spec.customConfigs" | "spec.storage.annotations" | "spec.access.annotations", Value::Object(map)) => !map.is_empty(),
        (_, Value::Array(list)) => !list.is_empty(),
        _ => true,
    }
}
