//! The CRDs as they are installed: what the derives give, made smaller and bounded.
//!
//! 1. Nothing is nullable: `null` says the same as absence, and CEL's `has` would tell them apart.
//! 2. Embedded Kubernetes types lose their descriptions (57 kB to 11 kB): every tool that shows them has them already, and client-side
//!    apply can annotate 256 KiB only.
//! 3. What the Kubernetes types leave unbounded gets a bound, so that the API server can price the rules. The status has none: the
//!    operator alone writes it, and a bound there could only keep the truth out.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{Failover, Valkey};

/// Fields whose schema is a Kubernetes type.
const EMBEDDED: [&str; 7] = [
    "spec.resources",
    "spec.customAffinity",
    "spec.affinity",
    "spec.tolerations",
    "spec.securityContext",
    "spec.imagePullSecrets",
    "status.conditions",
];

/// Most items of a list inside an embedded type.
const ITEMS_MAX: i64 = 64;
/// Longest text inside an embedded type: annotations aside, Kubernetes' own texts have at most 253 characters, label keys 317.
const TEXT_MAX: i64 = 512;
/// Most keys of a map inside an embedded type.
const KEYS_MAX: i64 = 32;

/// Most resources in `limits` and `requests`: three names are served, and rules look at each.
const RESOURCES_MAX: i64 = 8;

/// Both CRDs.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [Valkey::crd(), Failover::crd()].map(finished).into()
}

fn finished(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for schema in crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()) {
        let Some(root) = schema.open_api_v3_schema.as_mut() else { continue };
        walk(root, &mut |schema| {
            schema.nullable = None;
            schema.description = schema.description.take().map(|text| text.replace('\n', " "));
            schema.default = schema.default.take().filter(|default| !default.0.is_null());
        });
        for path in EMBEDDED {
            if let Some(embedded) = descend(root, path) {
                let description = embedded.description.take();
                walk(embedded, &mut |schema| schema.description = None);
                embedded.description = description;
            }
        }
        for list in ["spec.resources.limits", "spec.resources.requests"] {
            if let Some(list) = descend(root, list) {
                list.max_properties = Some(RESOURCES_MAX);
            }
        }
        if let Some(spec) = descend(root, "spec") {
            walk(spec, &mut bound);
        }
    }
    crd
}

/// Adds bounds where there are none.
fn bound(schema: &mut JSONSchemaProps) {
    match schema.type_.as_deref() {
        Some("array") => schema.max_items = schema.max_items.or(Some(ITEMS_MAX)),
        Some("object") if schema.additional_properties.is_some() => {
            schema.max_properties = schema.max_properties.or(Some(KEYS_MAX))
        }
        Some("string") => schema.max_length = schema.max_length.or(Some(TEXT_MAX)),
        _ => {}
    }
}

/// The schema of a field, by its path.
fn descend<'a>(root: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    path.split('.').try_fold(root, |schema, name| schema.properties.as_mut()?.get_mut(name))
}

/// Visits a schema and everything below it.
fn walk(schema: &mut JSONSchemaProps, visit: &mut impl FnMut(&mut JSONSchemaProps)) {
    visit(schema);
    for child in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        walk(child, visit);
    }
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(child)) => walk(child, visit),
        Some(JSONSchemaPropsOrArray::Schemas(children)) => children.iter_mut().for_each(|child| walk(child, visit)),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(child)) = schema.additional_properties.as_mut() {
        walk(child, visit);
    }
}
