//! Pods and their nodes.

use serde_json::Value;
use vko_api::names;
use vko_wit::common::StartMode;
use vko_wit::observation::{ContainerState, NodeState, Pod};

use super::{Inputs, MOUNT_SETTLES, millis, timestamp};
use crate::object::{Kind, Object};

/// Workload and ordinal of a StatefulSet's pod name.
fn ordinal_of(pod: &str) -> Option<(&str, u32)> {
    let (workload, ordinal) = pod.rsplit_once('-')?;
    // "01" is no ordinal that a StatefulSet writes: such a pod isn't one of ours.
    let number: u32 = ordinal.parse().ok()?;
    (number.to_string() == ordinal).then_some((workload, number))
}

/// Workload and ordinal of the member that a claim of that name belongs to.
pub fn place_of_claim(claim: &str) -> Option<(&str, u32)> {
    ordinal_of(claim.strip_prefix(names::CLAIM_TEMPLATE)?.strip_prefix('-')?)
}

pub(super) fn zone_of(node: &Object) -> &str {
    node.label("topology.kubernetes.io/zone")
}

/// Whether a node exists; unknown while the cache is too old to say.
pub(super) fn node_exists(inputs: &Inputs<'_>, name: &str) -> Option<bool> {
    if inputs.nodes.iter().any(|node| node.name() == name) { Some(true) } else { inputs.fresh.then_some(false) }
}

pub(super) fn pods(inputs: &Inputs<'_>) -> Vec<Pod> {
    let mut pods: Vec<Pod> = inputs.pods.iter().filter_map(|pod| observed_pod(inputs, pod)).collect();
    pods.sort_by(|a, b| (&a.workload, a.ordinal, &a.uid).cmp(&(&b.workload, b.ordinal, &b.uid)));
    pods
}

fn observed_pod(inputs: &Inputs<'_>, pod: &Object) -> Option<Pod> {
    let (workload, ordinal) = ordinal_of(pod.name())?;
    let node_name = pod.text("/spec/nodeName");
    let node = inputs.nodes.iter().find(|node| node.name() == node_name);
    let state = node_state(inputs, node_name, node);
    let ready = pod.condition("Ready").filter(|c| c["status"] == "True");
    let ready_since = ready.and_then(|c| timestamp(c["lastTransitionTime"].as_str()?));
    Some(Pod {
        uid: pod.uid().into(),
        name: pod.name().into(),
        workload: workload.into(),
        ordinal,
        role_label: pod.label(names::ROLE).into(),
        addresses: addresses(pod),
        node: node_name.into(),
        zone: node.map(zone_of).unwrap_or_default().into(),
        node_state: state,
        phase: pod.text("/status/phase").into(),
        waiting: waiting(pod),
        container: container(pod, state),
        ready: ready.is_some() && !pod.deleting(),
        ready_for: ready_since.map_or(0, |at| inputs.now.saturating_sub(at)),
        terminating_for: terminating_for(pod, inputs.now),
        restarts: container_status(pod).and_then(|c| c["restartCount"].as_u64()).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        template: (inputs.template)(pod),
        mounted_start: mounted_start(inputs, pod),
    })
}

/// What a restart of that pod's container would read.
fn mounted_start(inputs: &Inputs<'_>, pod: &Object) -> Option<StartMode> {
    let mut configs = inputs.objects.iter().filter(|(kind, _)| *kind == Kind::ConfigMap).map(|(_, object)| object);
    let config = configs.find(|config| !config.text("/data/start").is_empty())?;
    let settled = crate::refresh::settled(pod, &crate::refresh::hash(config), inputs.now, millis(MOUNT_SETTLES));
    settled.then(|| start_mode(config.text("/data/start"))).flatten()
}

fn start_mode(text: &str) -> Option<StartMode> {
    match text {
        "alone" => Some(StartMode::Alone),
        "named" => Some(StartMode::Named),
        _ => None,
    }
}

fn addresses(pod: &Object) -> Vec<String> {
    let listed: Vec<String> = pod.list("/status/podIPs").iter().filter_map(|ip| ip["ip"].as_str()).map(str::to_owned).collect();
    if listed.is_empty() && !pod.text("/status/podIP").is_empty() { vec![pod.text("/status/podIP").into()] } else { listed }
}

/// How long it has been terminating; at least 1 once it is, since zero says that it isn't. The deletion timestamp is the time
/// when the grace period ends, so the period is taken off.
fn terminating_for(pod: &Object, now: u64) -> u64 {
    if !pod.deleting() {
        return 0;
    }
    let grace = pod.number("/metadata/deletionGracePeriodSeconds").unwrap_or(0) * 1000;
    let began = timestamp(pod.text("/metadata/deletionTimestamp")).map_or(now, |end| end.saturating_sub(grace));
    now.saturating_sub(began).max(1)
}

fn node_state(inputs: &Inputs<'_>, name: &str, node: Option<&Object>) -> NodeState {
    let Some(node) = node else {
        // Not scheduled yet is not a lost node.
        return if name.is_empty() || !inputs.fresh { NodeState::Unknown } else { NodeState::Gone };
    };
    let out_of_service = node.list("/spec/taints").iter().any(|taint| taint["key"] == "node.kubernetes.io/out-of-service");
    match node.condition("Ready").and_then(|c| c["status"].as_str()) {
        _ if out_of_service => NodeState::OutOfService,
        Some("Unknown") => NodeState::Silent,
        // A kubelet that reports itself as not ready does report: the node is alive.
        Some("True" | "False") => NodeState::Alive,
        _ => NodeState::Unknown,
    }
}

fn container_status(pod: &Object) -> Option<&Value> {
    pod.list("/status/containerStatuses").iter().find(|c| c["name"] == names::CONTAINER || c["name"] == names::SENTINEL_CONTAINER)
}

fn waiting(pod: &Object) -> String {
    let unschedulable = pod.condition("PodScheduled").filter(|c| c["status"] == "False").and_then(|c| c["reason"].as_str());
    let init = pod.list("/status/initContainerStatuses").iter().find_map(|c| c.pointer("/state/waiting/reason")?.as_str());
    let main = container_status(pod).and_then(|c| c.pointer("/state/waiting/reason")?.as_str());
    // PodInitializing hides what the init container waits for.
    unschedulable.or(init.filter(|reason| *reason != "PodInitializing")).or(main).unwrap_or_default().into()
}

/// What the kubelet last said of the container; what a silent kubelet said is no news.
fn container(pod: &Object, node: NodeState) -> ContainerState {
    match pod.text("/status/phase") {
        "Failed" | "Succeeded" => return ContainerState::Terminated,
        _ if !matches!(node, NodeState::Alive) && !pod.text("/spec/nodeName").is_empty() => return ContainerState::Unknown,
        _ => {}
    }
    let Some(status) = container_status(pod) else { return ContainerState::Starting };
    let state = &status["state"];
    if state["running"].is_object() {
        ContainerState::Running
    } else if state["terminated"].is_object() || status.pointer("/lastState/terminated").is_some() {
        // Waiting after it ran (CrashLoopBackOff): no process is there.
        ContainerState::Terminated
    } else if state["waiting"].is_object() {
        ContainerState::Starting
    } else {
        ContainerState::Unknown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ordinals() {
        assert_eq!(ordinal_of("rfr-a-b-2"), Some(("rfr-a-b", 2)));
        assert_eq!(ordinal_of("rfr-a-02"), None);
        assert_eq!(ordinal_of("rfr"), None);
    }

    #[test]
    fn containers() {
        let pod = |status: Value| Object::new(json!({"spec": {"nodeName": "n"}, "status": status}));
        let of = |state: Value| json!({"phase": "Running", "containerStatuses": [state]});
        let cases = [
            ("running", of(json!({"name": "valkey", "state": {"running": {}}})), NodeState::Alive, ContainerState::Running),
            (
                "crashed and waiting",
                of(
                    json!({"name": "valkey", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {}}}),
                ),
                NodeState::Alive,
                ContainerState::Terminated,
            ),
            (
                "first start",
                of(json!({"name": "valkey", "state": {"waiting": {"reason": "PodInitializing"}}, "lastState": {}})),
                NodeState::Alive,
                ContainerState::Starting,
            ),
            (
                "running, the kubelet says, long ago",
                of(json!({"name": "valkey", "state": {"running": {}}})),
                NodeState::Silent,
                ContainerState::Unknown,
            ),
            ("failed pod on a silent node", json!({"phase": "Failed"}), NodeState::Silent, ContainerState::Terminated),
            ("no status yet", json!({"phase": "Pending"}), NodeState::Alive, ContainerState::Starting),
        ];
        for (name, status, node, expected) in cases {
            assert_eq!(container(&pod(status), node), expected, "{name}");
        }
    }

    #[test]
    fn terminating_counts_from_the_request_not_from_its_end() {
        let pod =
            Object::new(json!({"metadata": {"deletionTimestamp": "1970-01-01T00:02:00Z", "deletionGracePeriodSeconds": 90}}));
        assert_eq!(terminating_for(&pod, 40_000), 10_000);
        assert_eq!(terminating_for(&pod, 10_000), 1);
    }
}
