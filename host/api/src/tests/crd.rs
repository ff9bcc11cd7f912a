//! What the CRDs must be.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::crd::{EMBEDDED, crds};
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
    let expected = [
        known("rds.valkey.buf.red", "valkeys", "vk"),
        known("valkey.buf.red", "sentinels", "vks"),
        known("valkey.buf.red", "users", "vku"),
        known("valkey.buf.red", "clusters", "vkc"),
        known("valkey.buf.red", "failovers", "vkf"),
    ];
    assert_eq!(names, expected);
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
        for part in ["spec", "status"] {
            each(&schema["properties"][part], part, &mut |path, schema| {
                let ours = !EMBEDDED.iter().any(|embedded| path.starts_with(embedded));
                for (name, field) in schema["properties"].as_object().into_iter().flatten().filter(|_| ours) {
                    let text = field["description"].as_str().unwrap_or_default();
                    assert!(!text.is_empty(), "{kind}: {path}.{name} is not described");
                    // Either the word, or the one value that there is.
                    let value = field["default"].as_str().unwrap_or("efault");
                    assert!(
                        field["default"].is_null() || text.contains("efault") || text.contains(value),
                        "{kind}: {path}.{name}: {text}"
                    );
                }
            });
        }
    }
}

#[test]
fn columns_are_those_that_people_know() {
    let columns = |kind: &str| {
        let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap();
        columns.iter().map(|column| format!("{} {}", column.name, column.json_path)).collect::<Vec<_>>()
    };
    let (phase, message, age) = (".status.phase", "Message .status.message", "Age .metadata.creationTimestamp");
    let ready = "Ready .status.conditions[?(@.type==\"Ready\")].status";
    let access = "Access .spec.access.serviceType";
    let valkey = ["Arch .spec.arch", "Version .spec.version", access, "Storage Class .spec.storage.storageClassName"];
    let status = format!("Status {phase}");
    let after = [&status, ready, message, age];
    assert_eq!(columns("Valkey"), [&valkey[..], &after].concat());
    for (kind, own) in [
        ("Cluster", vec!["Shards .spec.replicas.shards", "Service Status .status.clusterStatus", access]),
        ("Failover", vec!["Replicas .spec.replicas", "Sentinels .spec.sentinel.replicas", access]),
    ] {
        let rest = [format!("Phase {phase}"), ready.into(), message.into(), age.into()];
        assert_eq!(columns(kind), own.into_iter().map(str::to_owned).chain(rest).collect::<Vec<_>>(), "{kind}");
    }
    assert_eq!(columns("Sentinel"), ["Replicas .spec.replicas", access, &status, ready, message, age]);
    let user = ["Instance .spec.instanceName", "username .spec.username", "phase .status.phase", age];
    assert_eq!(columns("User"), user);
}

/// How many rules a schema has, and it alone.
fn count(schema: &Value) -> usize {
    schema["x-kubernetes-validations"].as_array().map_or(0, Vec::len)
}

#[test]
fn all_rules_are_in_the_schemas() {
    let schemas: BTreeMap<_, _> = schemas().into_iter().collect();
    let in_cel = |cel: &str| usize::from(!cel.is_empty());
    let valkey = &schemas["Valkey"];
    let table = rules::valkey();
    let at = |place: &str| table.iter().filter(|rule| rule.at == place).map(|rule| in_cel(&rule.cel)).sum::<usize>();
    let spec = &valkey["properties"]["spec"];
    assert_eq!(count(spec), at("spec") + rules::transitions::valkey().len());
    assert_eq!(count(&spec["properties"]["sentinel"]), at("spec.sentinel"));
    assert_eq!(count(valkey), 4);
    assert!(table.iter().all(|rule| ["spec", "spec.sentinel"].contains(&rule.at)));
    let sentinel = &schemas["Sentinel"];
    let table: usize = rules::sentinel().iter().map(|rule| in_cel(&rule.cel)).sum();
    assert_eq!(count(&sentinel["properties"]["spec"]), table + rules::transitions::sentinel().len());
    assert_eq!(count(sentinel), 2);
    assert_eq!(count(&schemas["User"]["properties"]["spec"]), 1);
}

#[test]
fn a_rule_names_a_field_that_is_in_its_schema() {
    for (kind, schema) in schemas() {
        each(&schema, &kind, &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let Some(field) = rule["fieldPath"].as_str() else { continue };
                let found = field.trim_start_matches('.').split('.').try_fold(schema, |schema, name| {
                    let below = [&schema["properties"][name], &schema["additionalProperties"]];
                    below.into_iter().find(|below| below.is_object())
                });
                assert!(found.is_some(), "{path}: {field}");
            }
        });
    }
}

#[test]
fn a_crd_stays_far_below_what_client_side_apply_can_annotate() {
    for crd in crds() {
        let size = serde_json::to_string(&crd).unwrap().len();
        assert!(size < 128 * 1024, "{} has {size} bytes", crd.spec.names.kind);
    }
}
