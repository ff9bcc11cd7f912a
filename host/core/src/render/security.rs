//! Security contexts: the Pod Security Standard `restricted`, whatever the instance says.

use serde_json::{Map, Value, json};

/// User and group of the official images.
const VALKEY_ID: u32 = 999;

/// Fields of the instance's `securityContext` that are taken over. None of them leaves `restricted` (a `runAsUser` of 0 is
/// stopped by `runAsNonRoot`); the rest of a pod's security context is the host's.
const OVERRIDABLE: [&str; 3] = ["runAsUser", "fsGroup", "supplementalGroups"];

/// The pod's security context.
pub(super) fn pod(wanted: Option<&Value>) -> Value {
    let mut context = Map::from_iter([
        ("runAsNonRoot".to_owned(), json!(true)),
        ("runAsUser".to_owned(), json!(VALKEY_ID)),
        ("runAsGroup".to_owned(), json!(VALKEY_ID)),
        ("fsGroup".to_owned(), json!(VALKEY_ID)),
        // Walking through a big volume at every start would take minutes.
        ("fsGroupChangePolicy".to_owned(), json!("OnRootMismatch")),
        ("seccompProfile".to_owned(), json!({ "type": "RuntimeDefault" })),
    ]);
    for name in OVERRIDABLE {
        if let Some(value) = wanted.and_then(|wanted| wanted.get(name)).filter(|value| !value.is_null()) {
            context.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(context)
}

/// Each container's security context.
pub(super) fn container() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{every_part, template_of};
    use super::*;

    /// Every container of the pod, init containers included.
    fn containers(spec: &Value) -> Vec<&Value> {
        ["initContainers", "containers", "ephemeralContainers"].into_iter().filter_map(|l| spec[l].as_array()).flatten().collect()
    }

    /// The controls of the Pod Security Standards `baseline` and `restricted` that can be broken by a Linux pod.
    fn assert_restricted(spec: &Value) {
        for field in ["hostNetwork", "hostPID", "hostIPC", "hostUsers"] {
            assert_eq!(spec.get(field), None, "{field}");
        }
        let allowed =
            ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];
        for volume in spec["volumes"].as_array().unwrap() {
            let sources: Vec<_> = volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
            assert!(sources.iter().all(|source| allowed.contains(&source.as_str())), "{volume}");
        }
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        assert_ne!(spec["securityContext"]["runAsUser"], 0);
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        for field in ["sysctls", "seLinuxOptions", "appArmorProfile", "windowsOptions"] {
            assert_eq!(spec["securityContext"].get(field), None, "{field}");
        }
        for container in containers(spec) {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{}", container["name"]);
            assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }), "{}", container["name"]);
            for field in ["privileged", "procMount", "runAsUser", "runAsNonRoot", "seccompProfile", "seLinuxOptions"] {
                assert_eq!(context.get(field), None, "{} {field}", container["name"]);
            }
            assert!(container["ports"].as_array().is_none_or(|ports| ports.iter().all(|port| port.get("hostPort").is_none())));
        }
    }

    #[test]
    fn pods_are_restricted_also_when_the_instance_asks_for_less() {
        let lax = json!({ "runAsNonRoot": false, "seccompProfile": { "type": "Unconfined" }, "sysctls": [{ "name": "a", "value": "b" }] });
        for wanted in [Value::Null, json!({ "fsGroup": 2000, "supplementalGroups": [3000] }), lax] {
            for (mut topology, part) in every_part() {
                topology.spec["securityContext"] = wanted.clone();
                if topology.watched().is_some() {
                    topology.spec["sentinel"]["securityContext"] = wanted.clone();
                }
                let spec = template_of(&topology, part)["spec"].clone();
                assert_restricted(&spec);
                assert_eq!(spec["automountServiceAccountToken"], false);
                assert!(containers(&spec).iter().all(|container| container["securityContext"]["readOnlyRootFilesystem"] == true));
            }
        }
    }

    /// A value of a schema's type that says something.
    fn telling(schema: &Value) -> Value {
        let fields =
            || schema["properties"].as_object().into_iter().flatten().map(|(name, field)| (name.clone(), telling(field)));
        match schema["type"].as_str() {
            Some("integer") => json!(7),
            Some("boolean") => json!(false),
            Some("array") => json!([telling(&schema["items"])]),
            Some("object") => fields().collect::<Map<_, _>>().into(),
            _ => json!("x"),
        }
    }

    #[test]
    fn ids_and_groups_are_the_instances_to_choose_and_the_rest_is_refused() {
        let crds = vko_api::crd::crds();
        let crd = serde_json::to_value(crds.iter().find(|crd| crd.spec.names.kind == "Valkey")).unwrap();
        let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/securityContext/properties");
        for (field, schema) in schema.and_then(Value::as_object).unwrap() {
            let context = json!({ field.as_str(): telling(schema) });
            let taken = pod(Some(&context))[field.as_str()] == context[field.as_str()];
            let spec = json!({ "version": "9.1", "arch": "replica", "replicas": { "replicasOfShard": 3 },
                "resources": { "limits": { "memory": "256Mi" } }, "securityContext": context });
            let valkey = vko_api::translate::read(&json!({ "metadata": { "name": "x", "namespace": "shop" }, "spec": spec }));
            let refused = vko_api::validate(&valkey.unwrap()).iter().any(|violation| violation.field.ends_with(field));
            assert_eq!(taken, OVERRIDABLE.contains(&field.as_str()), "{field}");
            assert_ne!(taken, refused, "{field}: taken over {taken}, refused {refused}");
        }
    }
}
