//! The same servers without an operator: StatefulSets of the same image, sizes and security, started as plain servers.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use vko_e2e::instance::Instance;
use vko_e2e::{Result, kubectl};

const LABEL: &str = "bench";
const READY: Duration = Duration::from_secs(180);

/// StatefulSets like those of an instance, to be started elsewhere.
pub(crate) fn like(instance: &Instance) -> Result<Vec<Value>> {
    let sets = kubectl::list(&instance.namespace, "statefulsets", &format!("buf.red/name={}", instance.name))?;
    ensure!(!sets.is_empty(), "{} has no StatefulSets", instance.name);
    sets.iter().map(plain).collect()
}

fn plain(set: &Value) -> Result<Value> {
    let name = set["metadata"]["name"].as_str().context("a StatefulSet without a name")?;
    let pod = &set["spec"]["template"]["spec"];
    let container = pod["containers"].get(0).context("a pod without containers")?;
    let labels = json!({"app": name, LABEL: "bare"});
    Ok(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": set["spec"]["replicas"], "serviceName": name, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 1,
                    "securityContext": pod["securityContext"],
                    "containers": [{
                        "name": "server",
                        "image": container["image"],
                        "imagePullPolicy": container["imagePullPolicy"],
                        "resources": container["resources"],
                        "securityContext": container["securityContext"],
                        "command": ["valkey-server", "--protected-mode", "no", "--save", "", "--dir", "/tmp"],
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
                    }],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    }))
}

/// Starts them, and says how long it took until all their pods were ready.
pub(crate) fn start(namespace: &str, sets: &[Value]) -> Result<Duration> {
    let began = Instant::now();
    kubectl::apply(namespace, &json!({"apiVersion": "v1", "kind": "List", "items": sets}).to_string())?;
    for set in sets {
        let name = set["metadata"]["name"].as_str().unwrap_or_default();
        let timeout = format!("--timeout={}s", READY.as_secs());
        kubectl::run(&["rollout", "status", &format!("statefulset/{name}"), "--namespace", namespace, &timeout])?;
    }
    Ok(began.elapsed())
}
