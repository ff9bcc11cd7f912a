//! What the API server fills in where nothing is said, as far as operators meet it again when they compare.

use serde_json::{Value, json};

use crate::json::{list, map_in, text};

/// Fills in the defaults of Kubernetes' own kinds.
pub(crate) fn fill(kind: &str, object: &mut Value) {
    match kind {
        "Pod" => pod_spec(&mut object["spec"]),
        "Service" => service(object),
        "Secret" => secret(object),
        "StatefulSet" => stateful_set(object),
        "PersistentVolumeClaim" => claim(&mut object["spec"]),
        "Node" => {
            map_in(object, "spec");
        }
        _ => {}
    }
}

/// What a new object's status is before anybody has written it.
pub(crate) fn first_status(kind: &str) -> Option<Value> {
    Some(match kind {
        "Pod" => json!({"phase": "Pending"}),
        "PersistentVolumeClaim" => json!({"phase": "Pending"}),
        "StatefulSet" => json!({"replicas": 0}),
        "Service" => json!({"loadBalancer": {}}),
        "Namespace" => json!({"phase": "Active"}),
        _ => return None,
    })
}

fn default(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.entry(name).or_insert(value);
    }
}

fn each(object: &mut Value, name: &str, fill: impl FnMut(&mut Value)) {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().for_each(fill);
}

fn secret(object: &mut Value) {
    // What is written in clear is kept in base64.
    let clear = object.as_object_mut().and_then(|fields| fields.remove("stringData"));
    for (name, value) in clear.iter().filter_map(Value::as_object).flatten() {
        let bytes = k8s_openapi::ByteString(value.as_str().unwrap_or_default().as_bytes().to_vec());
        map_in(object, "data").insert(name.clone(), json!(bytes));
    }
    default(object, "type", json!("Opaque"));
}

fn service(object: &mut Value) {
    let headless = text(object, "/spec/clusterIP") == "None";
    let address = if headless {
        "None".to_owned()
    } else {
        address_of(text(object, "/metadata/namespace"), text(object, "/metadata/name"))
    };
    let spec = &mut object["spec"];
    for (name, value) in [
        ("type", json!("ClusterIP")),
        ("clusterIP", json!(address)),
        ("clusterIPs", json!([address])),
        ("ipFamilies", json!(["IPv4"])),
        ("ipFamilyPolicy", json!("SingleStack")),
        ("sessionAffinity", json!("None")),
        ("internalTrafficPolicy", json!("Cluster")),
    ] {
        default(spec, name, value);
    }
    each(spec, "ports", |port| {
        default(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        default(port, "targetPort", number);
    });
}

/// An address of the range for Services, by namespace and name: nothing listens there. Who looks for the same Service finds the
/// same address, whatever else there is. (Of two names in 65 000 that meet, real allocators would give one another address.)
fn address_of(namespace: &str, name: &str) -> String {
    let bytes = namespace.bytes().chain([b'/']).chain(name.bytes());
    let sum = bytes.fold(1_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("10.96.{}.{}", (sum >> 8) % 256, sum % 254 + 1)
}

fn stateful_set(object: &mut Value) {
    let spec = &mut object["spec"];
    for (name, value) in [
        ("replicas", json!(1)),
        ("revisionHistoryLimit", json!(10)),
        ("podManagementPolicy", json!("OrderedReady")),
        ("updateStrategy", json!({"type": "RollingUpdate"})),
        ("persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"})),
    ] {
        default(spec, name, value);
    }
    if spec.pointer("/template/spec").is_some() {
        pod_spec(&mut spec["template"]["spec"]);
    }
    each(spec, "volumeClaimTemplates", |template| {
        default(template, "apiVersion", json!("v1"));
        default(template, "kind", json!("PersistentVolumeClaim"));
        claim(&mut template["spec"]);
        default(template, "status", json!({"phase": "Pending"}));
    });
}

fn claim(spec: &mut Value) {
    default(spec, "volumeMode", json!("Filesystem"));
}

fn pod_spec(spec: &mut Value) {
    for (name, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        default(spec, name, value);
    }
    for containers in ["containers", "initContainers"] {
        each(spec, containers, container);
    }
    each(spec, "volumes", volume);
}

fn container(container: &mut Value) {
    let floating = !text(container, "/image").contains(['@', ':']) || text(container, "/image").ends_with(":latest");
    let pull = if floating { "Always" } else { "IfNotPresent" };
    for (name, value) in [
        ("imagePullPolicy", json!(pull)),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("resources", json!({})),
    ] {
        default(container, name, value);
    }
    each(container, "ports", |port| default(port, "protocol", json!("TCP")));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[probe].is_object() {
            for (name, value) in [("periodSeconds", 10), ("timeoutSeconds", 1), ("failureThreshold", 3), ("successThreshold", 1)]
            {
                default(&mut container[probe], name, json!(value));
            }
        }
    }
    // Indexing has left nulls where there are no probes.
    crate::json::drop_nulls(container);
}

fn volume(volume: &mut Value) {
    let modes = |source: &mut Value| {
        if source.is_object() {
            default(source, "defaultMode", json!(420));
        }
    };
    for source in ["configMap", "secret", "projected"] {
        volume.get_mut(source).into_iter().for_each(modes);
    }
    let sources = ["configMap", "secret", "projected", "emptyDir", "persistentVolumeClaim", "hostPath"];
    if !sources.iter().any(|source| volume.get(source).is_some()) && list(volume, "").is_empty() {
        default(volume, "emptyDir", json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_looks_as_the_server_keeps_it() {
        let mut set = json!({"kind": "StatefulSet", "metadata": {"name": "a"}, "spec": {"template": {"spec": {
            "containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 1}], "readinessProbe": {"periodSeconds": 2}}],
            "volumes": [{"name": "v", "configMap": {"name": "m"}}, {"name": "w", "emptyDir": {}}],
        }}, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]}});
        fill("StatefulSet", &mut set);
        let spec = &set["spec"]["template"]["spec"];
        assert_eq!(spec["restartPolicy"], "Always");
        assert_eq!(spec["containers"][0]["ports"][0]["protocol"], "TCP");
        let probe = json!({"periodSeconds": 2, "timeoutSeconds": 1, "failureThreshold": 3, "successThreshold": 1});
        assert_eq!((&spec["containers"][0]["readinessProbe"], spec["containers"][0].get("livenessProbe")), (&probe, None));
        assert_eq!(
            spec["volumes"],
            json!([{"name": "v", "configMap": {"name": "m", "defaultMode": 420}}, {"name": "w", "emptyDir": {}}])
        );
        assert_eq!(set["spec"]["volumeClaimTemplates"][0]["spec"]["volumeMode"], "Filesystem");
        let before = set.clone();
        fill("StatefulSet", &mut set);
        assert_eq!(set, before, "once is enough");
    }

    #[test]
    fn a_service_gets_an_address_unless_it_wants_none() {
        for (spec, expected) in [(json!({"ports": [{"port": 1}]}), false), (json!({"clusterIP": "None"}), true)] {
            let mut service = json!({"metadata": {"name": "a"}, "spec": spec});
            fill("Service", &mut service);
            assert_eq!(service["spec"]["clusterIP"] == "None", expected);
        }
        let address = |namespace: &str| {
            let mut service = json!({"metadata": {"name": "a", "namespace": namespace}, "spec": {}});
            fill("Service", &mut service);
            service["spec"]["clusterIP"].clone()
        };
        assert_eq!(address("n"), address("n"));
        assert_ne!(address("n"), address("m"), "of its own in each namespace");
    }

    #[test]
    fn a_secrets_clear_text_is_kept_in_base64() {
        let mut secret = json!({"metadata": {"name": "a"}, "stringData": {"p": "foobar"}});
        fill("Secret", &mut secret);
        assert_eq!(secret, json!({"metadata": {"name": "a"}, "type": "Opaque", "data": {"p": "Zm9vYmFy"}}));
    }
}
