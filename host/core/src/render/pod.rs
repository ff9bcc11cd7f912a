//! The pod template, as this operator version makes it. Whether it comes into force is decided in [`super::template`].

use serde_json::{Map, Value, json};
use vko_api::names;
use vko_wit::planning::Workload;

use super::metadata::{is_reserved, labels, selector};
use super::spec::PodSpec;
use super::{Part, RenderError, Topology, agent, security, volume};
use crate::settings::Settings;

/// Well-known label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Renders the template, stamped with the hash of the spec and the operator's version.
///
/// It depends on the instance, never on a member or on how many there are.
///
/// # Errors
/// A spec without an image, or a policy's label in a domain that isn't its own.
pub(super) fn template(topology: &Topology, part: Part, workload: &Workload, settings: &Settings) -> Result<Value, RenderError> {
    let spec = PodSpec::new(topology, part);
    Ok(json!({
        "metadata": { "labels": pod_labels(topology, part, workload)?, "annotations": annotations(&spec, settings) },
        "spec": pod_spec(topology, part, &spec, settings)?,
    }))
}

fn pod_labels(topology: &Topology, part: Part, workload: &Workload) -> Result<Value, RenderError> {
    let mut all = labels(topology, Some(part));
    for label in &workload.labels {
        if is_reserved(&label.key) {
            return Err(RenderError::LabelReserved { key: label.key.clone() });
        }
        all.insert(label.key.clone(), label.value.clone());
    }
    Ok(json!(all))
}

/// The person's annotations and the host's stamps, which win.
fn annotations(spec: &PodSpec, settings: &Settings) -> Value {
    let mut all = spec.field("podAnnotations").and_then(Value::as_object).cloned().unwrap_or_default();
    all.insert(names::SPEC_HASH.to_owned(), json!(spec.hash()));
    all.insert(names::SOFTWARE.to_owned(), json!(settings.operator_version));
    Value::Object(all)
}

fn pod_spec(topology: &Topology, part: Part, spec: &PodSpec, settings: &Settings) -> Result<Value, RenderError> {
    let mut pod = json!({
        "initContainers": [init_container(spec, settings)],
        "containers": [server_container(topology, part, spec)?],
        "volumes": volume::volumes(topology, part, spec),
        "securityContext": security::pod(spec.field("securityContext")),
        "terminationGracePeriodSeconds": agent::grace_seconds(part),
        // The pod never speaks to Kubernetes.
        "automountServiceAccountToken": false,
        // A namespace with many Services would fill the environment.
        "enableServiceLinks": false,
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": ZONE,
            // Where there are fewer zones than members, or a zone is lost, members must start all the same.
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": selector(part, &topology.name) },
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
fn init_container(spec: &PodSpec, settings: &Settings) -> Value {
    let mut container = json!({
        "name": "agent",
        "image": settings.agent_image,
        "command": agent::install(),
        "volumeMounts": volume::init_mounts(),
    });
    finish(&mut container, spec);
    container
}

fn server_container(topology: &Topology, part: Part, spec: &PodSpec) -> Result<Value, RenderError> {
    let ipv6 = spec.is_ipv6();
    let mut container = json!({
        "name": part.container(),
        "image": spec.image()?,
        "command": agent::serve(topology, part),
        "env": environment(part),
        "ports": ports(part),
        "readinessProbe": agent::readiness(part, ipv6),
        "livenessProbe": agent::liveness(part, ipv6),
        "volumeMounts": volume::mounts(part),
    });
    if let Some(hook) = agent::pre_stop(topology, part, ipv6) {
        container["lifecycle"] = json!({ "preStop": hook });
    }
    finish(&mut container, spec);
    Ok(container)
}

/// What a template can't know of its pods: the address, and the name where the agent needs it.
fn environment(part: Part) -> Value {
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": path } } });
    let address = field(agent::POD_IP, "status.podIP");
    match part {
        Part::Data | Part::Shard(_) => json!([address]),
        Part::Sentinels => json!([address, field(agent::POD_NAME, "metadata.name")]),
    }
}

fn ports(part: Part) -> Value {
    let port = |name: &str, port: u16| json!({ "name": name, "containerPort": port, "protocol": "TCP" });
    let clients = port(part.port_name(), part.port());
    match part {
        Part::Data | Part::Sentinels => json!([clients]),
        Part::Shard(_) => json!([clients, port("gossip", names::CLUSTER_PORT)]),
    }
}

/// What both containers have in common.
fn finish(container: &mut Value, spec: &PodSpec) {
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
    use super::super::testing::{every_part, mk_failover, mk_topology, template_of, template_with_members};
    use super::*;

    #[test]
    fn the_template_is_the_same_for_every_member_count() {
        for (topology, part) in every_part() {
            let before = template_of(&topology, part);
            for members in [1, 2, 3, 4, 5, 7, 9] {
                if part.check_members(members).is_ok() {
                    assert_eq!(template_with_members(&topology, part, members), before, "{part:?}: {members} members");
                }
            }
        }
    }

    #[test]
    fn stamps_win_over_the_persons_annotations() {
        let mut topology = mk_failover();
        let annotations = json!({ names::SOFTWARE: "0", names::SPEC_HASH: "0", "example.org/a": "b" });
        topology.spec["podAnnotations"] = annotations.clone();
        topology.spec["sentinel"]["podAnnotations"] = annotations;
        for part in [Part::Data, Part::Sentinels] {
            let hash = PodSpec::new(&topology, part).hash();
            let expected = json!({ names::SOFTWARE: "0.1.0", names::SPEC_HASH: hash, "example.org/a": "b" });
            assert_eq!(template_of(&topology, part)["metadata"]["annotations"], expected, "{part:?}");
        }
    }

    #[test]
    fn scheduling_is_the_instances_and_zones_are_spread() {
        let mut topology = mk_failover();
        for (section, node) in [("", "a"), ("/sentinel", "b")] {
            let section = topology.spec.pointer_mut(section).unwrap();
            section["affinity"] = json!({ "nodeAffinity": { node: 1 } });
            section["tolerations"] = json!([{ "key": node, "operator": "Exists" }]);
            section["nodeSelector"] = json!({ "disk": node });
        }
        for (part, section) in [(Part::Data, ""), (Part::Sentinels, "/sentinel")] {
            let pod = template_of(&topology, part)["spec"].clone();
            for name in ["affinity", "tolerations", "nodeSelector"] {
                assert_eq!(pod[name], topology.spec.pointer(section).unwrap()[name], "{part:?} {name}");
            }
            assert_eq!(pod["topologySpreadConstraints"][0]["whenUnsatisfiable"], "ScheduleAnyway");
            let spread = &pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
            assert_eq!(*spread, json!(selector(part, "demo")), "{part:?}");
        }
    }

    #[test]
    fn no_password_and_no_account_name_is_in_environment_or_command() {
        for (topology, part) in every_part() {
            let template = template_of(&topology, part);
            let container = &template["spec"]["containers"][0];
            let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|env| env["name"].as_str().unwrap()).collect();
            let expected: &[&str] = if part == Part::Sentinels { &["POD_IP", "POD_NAME"] } else { &["POD_IP"] };
            assert_eq!(names, expected, "{part:?}");
            assert!(!template.to_string().contains("secretKeyRef"), "{part:?}");
        }
    }

    #[test]
    fn each_part_has_its_container_its_ports_and_its_time_to_stop() {
        for (topology, part) in every_part() {
            let spec = template_of(&topology, part)["spec"].clone();
            let container = &spec["containers"][0];
            let ports: Vec<_> = container["ports"].as_array().unwrap().iter().map(|port| port["containerPort"].clone()).collect();
            let (name, expected, grace) = match part {
                Part::Data => ("valkey", vec![json!(6379)], 120),
                Part::Shard(_) => ("valkey", vec![json!(6379), json!(16379)], 120),
                Part::Sentinels => ("sentinel", vec![json!(26379)], 30),
            };
            assert_eq!((&container["name"], ports), (&json!(name), expected), "{part:?}");
            assert_eq!(spec["terminationGracePeriodSeconds"], grace, "{part:?}");
        }
    }

    #[test]
    fn a_replica_without_sentinels_has_the_template_of_a_plain_data_server() {
        let hook = |topology: &Topology| template_of(topology, Part::Data)["spec"]["containers"][0]["lifecycle"].clone();
        assert_ne!(hook(&mk_topology()), hook(&mk_failover()));
        let mut without = mk_failover();
        without.spec["sentinel"] = Value::Null;
        assert_eq!(template_of(&without, Part::Data), template_of(&mk_topology(), Part::Data));
    }
}
