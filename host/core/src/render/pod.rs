//! The pod template, as this operator version makes it. Whether it comes into force is decided in [`super::template`].

use serde_json::{Map, Value, json};
use vko_api::names;
use vko_wit::planning::Workload;

use super::metadata::{is_reserved, labels, selector};
use super::spec::{PodSpec, spec_hash};
use super::{RenderError, Topology, agent, security, volume};
use crate::settings::Settings;

/// Well-known label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Renders the template, stamped with the hash of the spec and the operator's version.
///
/// It depends on the instance, never on a member or on how many there are.
///
/// # Errors
/// A spec without an image, or a policy's label in a domain that isn't its own.
pub(super) fn template(topology: &Topology, workload: &Workload, settings: &Settings) -> Result<Value, RenderError> {
    let spec = PodSpec::new(&topology.spec);
    Ok(json!({
        "metadata": { "labels": pod_labels(topology, workload)?, "annotations": annotations(topology, &spec, settings) },
        "spec": pod_spec(topology, &spec, settings)?,
    }))
}

fn pod_labels(topology: &Topology, workload: &Workload) -> Result<Value, RenderError> {
    let mut all = labels(topology);
    for label in &workload.labels {
        if is_reserved(&label.key) {
            return Err(RenderError::LabelReserved { key: label.key.clone() });
        }
        all.insert(label.key.clone(), label.value.clone());
    }
    Ok(json!(all))
}

/// The person's annotations and the host's stamps, which win.
fn annotations(topology: &Topology, spec: &PodSpec<'_>, settings: &Settings) -> Value {
    let mut all = spec.field("podAnnotations").and_then(Value::as_object).cloned().unwrap_or_default();
    all.insert(names::SPEC_HASH.to_owned(), json!(spec_hash(&topology.spec)));
    all.insert(names::SOFTWARE.to_owned(), json!(settings.operator_version));
    Value::Object(all)
}

fn pod_spec(topology: &Topology, spec: &PodSpec<'_>, settings: &Settings) -> Result<Value, RenderError> {
    let mut pod = json!({
        "initContainers": [init_container(spec, settings)],
        "containers": [server_container(spec)?],
        "volumes": volume::volumes(&topology.name, spec),
        "securityContext": security::pod(spec.field("securityContext")),
        "terminationGracePeriodSeconds": agent::GRACE_SECONDS,
        // The pod never speaks to Kubernetes.
        "automountServiceAccountToken": false,
        // A namespace with many Services would fill the environment.
        "enableServiceLinks": false,
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": ZONE,
            // Where there are fewer zones than members, or a zone is lost, members must start all the same.
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": selector(&topology.name) },
        }],
    });
    for name in ["affinity", "tolerations", "nodeSelector", "imagePullSecrets"] {
        if let Some(value) = spec.field(name) {
            pod[name] = value.clone();
        }
    }
    Ok(pod)
}

/// Copies the agent in. It asks for the server's resources: a pod's request is the larger of the two, so this costs nothing,
/// and the pod keeps the quality of service that the person chose.
fn init_container(spec: &PodSpec<'_>, settings: &Settings) -> Value {
    let mut container = json!({
        "name": "agent",
        "image": settings.agent_image,
        "command": agent::install(),
        "volumeMounts": volume::init_mounts(),
    });
    finish(&mut container, spec);
    container
}

fn server_container(spec: &PodSpec<'_>) -> Result<Value, RenderError> {
    let ipv6 = spec.is_ipv6();
    let mut container = json!({
        "name": names::CONTAINER,
        "image": spec.image()?,
        "command": agent::serve(),
        "env": [{ "name": agent::POD_IP, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIP" } } }],
        "ports": [{ "name": "server", "containerPort": names::PORT, "protocol": "TCP" }],
        "readinessProbe": agent::readiness(ipv6),
        "livenessProbe": agent::liveness(ipv6),
        "lifecycle": { "preStop": agent::pre_stop(ipv6) },
        "volumeMounts": volume::mounts(),
    });
    finish(&mut container, spec);
    Ok(container)
}

/// What both containers have in common.
fn finish(container: &mut Value, spec: &PodSpec<'_>) {
    let Some(fields) = container.as_object_mut() else { return };
    insert(fields, "securityContext", Some(&security::container()));
    insert(fields, "resources", spec.field("resources"));
    insert(fields, "imagePullPolicy", spec.field("imagePullPolicy"));
    // The agent's last words (a missing file, a bad value) are then in the pod's status.
    insert(fields, "terminationMessagePolicy", Some(&json!("FallbackToLogsOnError")));
}

fn insert(fields: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_topology, template_of};
    use super::*;

    #[test]
    fn the_template_is_the_same_for_every_member_count() {
        let one = template_of(&mk_topology(), 1);
        for members in 2..=5 {
            let mut topology = mk_topology();
            topology.spec["replicas"] = json!(members);
            assert_eq!(template_of(&topology, members), one, "{members} members");
        }
    }

    #[test]
    fn stamps_win_over_the_persons_annotations() {
        let mut topology = mk_topology();
        topology.spec["podAnnotations"] = json!({ names::SOFTWARE: "0", names::SPEC_HASH: "0", "example.org/a": "b" });
        let annotations = template_of(&topology, 3)["metadata"]["annotations"].clone();
        let expected = json!({
            names::SOFTWARE: "0.1.0", names::SPEC_HASH: spec_hash(&topology.spec), "example.org/a": "b",
        });
        assert_eq!(annotations, expected);
    }

    #[test]
    fn scheduling_is_the_instances_and_zones_are_spread() {
        let mut topology = mk_topology();
        topology.spec["affinity"] = json!({ "nodeAffinity": { "a": 1 } });
        topology.spec["tolerations"] = json!([{ "operator": "Exists" }]);
        topology.spec["nodeSelector"] = json!({ "disk": "ssd" });
        let pod = template_of(&topology, 3)["spec"].clone();
        for name in ["affinity", "tolerations", "nodeSelector"] {
            assert_eq!(pod[name], topology.spec[name], "{name}");
        }
        assert_eq!(pod["topologySpreadConstraints"][0]["whenUnsatisfiable"], "ScheduleAnyway");
        assert_eq!(pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"], json!(selector("demo")));
    }

    #[test]
    fn no_password_and_no_account_name_is_in_environment_or_command() {
        let template = template_of(&mk_topology(), 3);
        let container = &template["spec"]["containers"][0];
        let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|env| env["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["POD_IP"]);
        assert!(!template.to_string().contains("secretKeyRef"));
    }
}
