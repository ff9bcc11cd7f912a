//! Passwords are in Secrets and nowhere else. A planted one shows that the search finds what it looks for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use vko_e2e::instance::{Instance, Wanted, password_in};
use vko_e2e::search::{Findings, Needle, logs, objects, processes};
use vko_e2e::{Result, bed, kubectl, operator, skipped, space, strike};

/// Accounts of each instance: the Secrets that were found must be at least so many.
const ACCOUNTS_MIN: usize = 5;
/// Where Secrets are mounted in a member's pod, and the operator's own token. A Sentinel keeps what it logs in with in its own
/// file, which it must be able to write: that one lies in memory.
const SECRET_FOLDERS: [&str; 3] = ["/etc/valkey-accounts", "/var/run/secrets", "/run/valkey/sentinel.conf"];
/// Of all four forms different ones.
const PLANTED: &str = "pl+an/\"ted pass\\word%";

#[test]
fn no_password_outside_the_secrets() -> Result {
    if !bed::is_here() {
        return skipped("looks into processes of nodes");
    }
    let _operator = operator::shared()?;
    space::with("secrets", |namespace| {
        let all = [("r", Wanted::default()), ("f", Wanted::failover(2, 3)), ("c", Wanted::cluster(3, 2))];
        let mut instances = Vec::new();
        for (name, wanted) in all {
            let instance = Instance::create(namespace, name, &Wanted { claims: true, ..wanted.clone() })?;
            something_happens(&instance, wanted.pods())?;
            instances.push(instance);
        }
        let mut needles = passwords(namespace)?;
        assert!(needles.len() >= instances.len() * ACCOUNTS_MIN, "{} Secrets with a password", needles.len());
        assert_eq!(search(&instances, &needles)?, Findings::default());
        needles.push(Needle::new("nobody", PLANTED));
        let places = plant(&instances[0])?;
        let found = search(&instances, &needles)?;
        for place in &places {
            assert!(found.0.iter().any(|finding| finding.starts_with(place)), "not found in {place}: {found:?}");
        }
        assert!(found.0.iter().all(|finding| finding.ends_with("nobody")), "{found:?}");
        Ok(())
    })
}

/// So that events, hooks and logs, also those of a container's former run, have a chance to tell.
fn something_happens(instance: &Instance, pods: usize) -> Result {
    let primary = instance.primary()?;
    let replica = instance.servers()?.into_iter().find(|pod| pod.name != primary.name).expect("two members");
    strike::kill_server(&replica)?;
    instance.wait_lives_over(&[replica])?;
    kubectl::run(&["delete", "pod", &primary.name, "--namespace", &instance.namespace])?;
    instance.wait_settled(pods)
}

/// All that lie in Secrets of a namespace.
fn passwords(namespace: &str) -> Result<Vec<Needle>> {
    let mut needles = Vec::new();
    for secret in kubectl::list(namespace, "secrets", "")? {
        if let Some(password) = password_in(&secret)? {
            needles.push(Needle::new(operator::name(&secret), &password));
        }
    }
    Ok(needles)
}

fn search(instances: &[Instance], needles: &[Needle]) -> Result<Findings> {
    let mut findings = Findings::default();
    for namespace in [instances[0].namespace.as_str(), operator::NAME] {
        objects(&mut findings, needles, namespace)?;
        logs(&mut findings, needles, namespace)?;
    }
    let pods = instances.iter().map(Instance::pod_objects).collect::<Result<Vec<_>>>()?.concat();
    for pod in pods.iter().chain(&operator::pods()?) {
        let looked_at = processes(&mut findings, needles, pod, &SECRET_FOLDERS)?;
        assert!(looked_at > 0, "no process of {} was seen", operator::name(pod));
    }
    Ok(findings)
}

/// Puts the planted password where it must be found, in each form and at each kind of place.
fn plant(instance: &Instance) -> Result<Vec<String>> {
    let namespace = &instance.namespace;
    let url: String = PLANTED
        .bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    let forms = [
        ("raw", PLANTED.to_owned()),
        ("base64", STANDARD.encode(format!("a{PLANTED}b"))),
        ("url", url),
        ("json", json!({"a": PLANTED}).to_string()),
    ];
    let mut places = Vec::new();
    for (name, text) in forms {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
        kubectl::apply(namespace, &map.to_string())?;
        places.push(format!("ConfigMap {namespace}/{name}"));
    }
    let primary = instance.primary()?;
    kubectl::patch(namespace, &format!("pod/{}", primary.name), &json!({"metadata": {"annotations": {"planted": PLANTED}}}))?;
    places.push(format!("Pod {namespace}/{}", primary.name));
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "planted"}, "message": PLANTED, "reason": "Planted", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": primary.name, "namespace": namespace},
    });
    kubectl::apply(namespace, &event.to_string())?;
    places.push(format!("Event {namespace}/planted"));
    // What the server's process writes to its output is the pod's log.
    places.push(format!("log of {namespace}/{}", primary.name));
    // A process with it among its arguments and in its environment, a file of a volume, and an open one.
    let script = "echo \"$2\" > /proc/1/fd/1; echo \"$2\" > /data/planted; exec 9</data/planted; sleep 600; :";
    let args = [
        "exec",
        &primary.name,
        "--namespace",
        namespace,
        "--container=valkey",
        "--",
        "env",
        &format!("PLANTED={PLANTED}"),
        "sh",
        "-c",
    ];
    let background = format!("({script}) </dev/null >/dev/null 2>&1 &");
    kubectl::run(&args.into_iter().chain([background.as_str(), "sh", "", PLANTED]).collect::<Vec<_>>())?;
    places.extend(
        ["cmdline of", "environ of", "file /data/planted", "open file /data/planted"]
            .map(|place| format!("{}: {place}", primary.name)),
    );
    Ok(places)
}
