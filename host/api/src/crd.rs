//! The CRDs as they are installed: what the derives give, made smaller and bounded, with the rules.
//!
//! 1. Nothing is nullable: `null` says the same as absence, and CEL's `has` would tell them apart.
//! 2. Embedded Kubernetes types lose their descriptions (57 kB to 11 kB): every tool that shows them has them already, and
//!    client-side apply can annotate 256 KiB only.
//! 3. What the Kubernetes types leave unbounded gets a bound, so that the API server can price the rules. The status has none:
//!    the operator alone writes it, and a bound there could only keep the truth out.
//! 4. Rules are on what people write: Valkey, Sentinel, User. The rest is the operator's own.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use kube::CustomResourceExt;

use crate::{Cluster, Failover, Sentinel, User, Valkey, rules};

/// Fields whose schema is a Kubernetes type.
pub(crate) const EMBEDDED: [&str; 13] = [
    "spec.resources",
    "spec.customAffinity",
    "spec.CustomAffinity",
    "spec.affinity",
    "spec.tolerations",
    "spec.securityContext",
    "spec.imagePullSecrets",
    "spec.sentinel.resources",
    "spec.sentinel.affinity",
    "spec.sentinel.tolerations",
    "spec.sentinel.securityContext",
    "spec.sentinel.imagePullSecrets",
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

/// All CRDs.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        with(finished(Valkey::crd()), valkey()),
        with(finished(Sentinel::crd()), sentinel()),
        with(finished(User::crd()), user()),
        finished(Cluster::crd()),
        finished(Failover::crd()),
    ]
}

/// Rules, each with the place in the schema that it is about.
type Placed = Vec<(&'static str, ValidationRule)>;

fn valkey() -> Placed {
    let rows = rules::valkey().into_iter().filter(|rule| !rule.cel.is_empty()).map(|rule| (rule.at, rule.validation()));
    let changes = rules::transitions::valkey().into_iter().map(|change| ("spec", change.validation()));
    rows.chain(changes).chain(rules::valkey_names().into_iter().map(|rule| ("", rule))).collect()
}

fn sentinel() -> Placed {
    let rows = rules::sentinel().into_iter().filter(|rule| !rule.cel.is_empty()).map(|rule| (rule.at, rule.validation()));
    let changes = rules::transitions::sentinel().into_iter().map(|change| ("spec", change.validation()));
    rows.chain(changes).chain(rules::sentinel_names().into_iter().map(|rule| ("", rule))).collect()
}

fn user() -> Placed {
    vec![("spec", rules::users_unserved())]
}

/// Puts rules where they belong. The tests count what arrived.
fn with(mut crd: CustomResourceDefinition, rules: Placed) -> CustomResourceDefinition {
    let root = crd.spec.versions.iter_mut().find_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    let Some(root) = root else { return crd };
    for (at, rule) in rules {
        let place = if at.is_empty() { Some(&mut *root) } else { descend(root, at) };
        if let Some(place) = place {
            place.x_kubernetes_validations.get_or_insert_default().push(rule);
        }
    }
    crd
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
        for list in [
            "spec.resources.limits",
            "spec.resources.requests",
            "spec.sentinel.resources.limits",
            "spec.sentinel.resources.requests",
        ] {
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

/// The fields of a kind's spec that have nothing of their own below them, as paths from the spec: `access.ports`. What is
/// embedded from Kubernetes counts as one. Tests hold each of them to a reader.
pub fn spec_fields(crd: &CustomResourceDefinition) -> BTreeSet<String> {
    let schemas = crd.spec.versions.iter().filter_map(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    let specs = schemas.filter_map(|root| root.properties.as_ref()?.get("spec"));
    let mut found = BTreeSet::new();
    specs.for_each(|spec| leaves(spec, "spec", &mut found));
    found
}

fn leaves(schema: &JSONSchemaProps, path: &str, found: &mut BTreeSet<String>) {
    let below = match schema.items.as_ref() {
        Some(JSONSchemaPropsOrArray::Schema(item)) if item.properties.is_some() => item,
        _ => schema,
    };
    let opaque = EMBEDDED.contains(&path) || schema.x_kubernetes_preserve_unknown_fields == Some(true);
    match below.properties.as_ref().filter(|_| !opaque) {
        Some(fields) => fields.iter().for_each(|(name, field)| leaves(field, &format!("{path}.{name}"), found)),
        None => {
            found.insert(path.trim_start_matches("spec.").to_owned());
        }
    }
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
