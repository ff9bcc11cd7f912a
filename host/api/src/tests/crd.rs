//! What the CRDs must be.

use serde_json::Value;

use crate::crd::crds;
use crate::rules;

fn schemas() -> Vec<(String, Value)> {
    let schema = |crd: &Value| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let json = crds().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    json.map(|crd| (crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(), schema(&crd))).collect()
}

/// Visits schemas, not the maps of properties between them.
fn each(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        each(child, &format!("{path}.{name}"), visit);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            each(&schema[below], &format!("{path}[]"), visit);
        }
    }
}

#[test]
fn names_and_versions_are_those_that_people_know() {
    let names: Vec<_> = crds()
        .into_iter()
        .map(|crd| {
            (crd.spec.group, crd.spec.versions[0].name.clone(), crd.spec.names.plural, crd.spec.names.short_names.unwrap())
        })
        .collect();
    let known = |group: &str, plural: &str, short: &str| {
        (group.to_owned(), "v1alpha1".to_owned(), plural.to_owned(), vec![short.to_owned()])
    };
    assert_eq!(names, [known("rds.valkey.buf.red", "valkeys", "vk"), known("valkey.buf.red", "failovers", "vkf")]);
}

#[test]
fn everything_in_a_spec_is_bounded() {
    for (kind, schema) in schemas() {
        each(&schema["properties"]["spec"], &format!("{kind}.spec"), &mut |path, schema| {
            let bound = match schema["type"].as_str() {
                Some("string") => "maxLength",
                Some("array") => "maxItems",
                Some("object") if schema["additionalProperties"].is_object() => "maxProperties",
                _ => return,
            };
            assert!(schema[bound].is_u64(), "{path} has no {bound}");
        });
    }
}

#[test]
fn nothing_is_nullable_and_every_own_field_is_described() {
    for (kind, schema) in schemas() {
        each(&schema, &kind, &mut |path, schema| {
            assert_eq!(schema["nullable"], Value::Null, "{path}");
            assert!(schema.get("default").is_none_or(|default| !default.is_null()), "{path}");
        });
        for (name, field) in schema["properties"]["spec"]["properties"].as_object().unwrap() {
            assert!(field["description"].as_str().is_some_and(|text| !text.is_empty()), "{kind}.spec.{name}");
        }
    }
}

#[test]
fn all_rules_are_in_the_schema() {
    let (_, valkey) = schemas().remove(0);
    let on_spec = valkey["properties"]["spec"]["x-kubernetes-validations"].as_array().unwrap().len();
    assert_eq!(on_spec, rules::table().len() + rules::transitions::table().len());
    assert_eq!(valkey["x-kubernetes-validations"].as_array().unwrap().len(), 2);
}

#[test]
fn a_crd_stays_far_below_what_client_side_apply_can_annotate() {
    for crd in crds() {
        let size = serde_json::to_string(&crd).unwrap().len();
        assert!(size < 64 * 1024, "{} has {size} bytes", crd.spec.names.kind);
    }
}
