//! A pod's status, as a kubelet writes it, from what is known of its containers.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::kubelet::{list, text};

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It doesn't run, and why.
    Waiting(&'static str),
    /// It runs, since that time.
    Running(String),
    /// It has ended by that code.
    Ended(i32),
}

impl State {
    fn write(&self) -> Value {
        match self {
            Self::Waiting(reason) => json!({"waiting": {"reason": reason}}),
            Self::Running(since) => json!({"running": {"startedAt": since}}),
            Self::Ended(code) => {
                json!({"terminated": {"exitCode": code, "reason": if *code == 0 { "Completed" } else { "Error" }}})
            }
        }
    }
}

/// What is known of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) ip: Option<Ipv4Addr>,
    pub(super) initialized: bool,
    pub(super) init: State,
    pub(super) main: State,
    pub(super) last_end: Option<i32>,
    pub(super) restarts: u64,
    pub(super) ready: bool,
}

/// The status that follows; conditions keep the time of their last change.
pub(super) fn of(pod: &Value, known: &Known, now: &str) -> Value {
    let mut status = pod.get("status").cloned().unwrap_or_else(|| json!({}));
    let running = matches!(known.main, State::Running(_));
    status["phase"] = json!(if running || known.restarts > 0 { "Running" } else { "Pending" });
    status["hostIP"] = json!("127.0.0.1");
    if status.get("startTime").is_none() {
        status["startTime"] = json!(now);
    }
    if let Some(ip) = known.ip {
        status["podIP"] = json!(ip.to_string());
        status["podIPs"] = json!([{"ip": ip.to_string()}]);
    }
    let container = |container: &Value, state: &State, ready: bool, restarts: u64| {
        json!({"name": container["name"], "image": container["image"], "ready": ready, "started": matches!(state, State::Running(_)),
            "restartCount": restarts, "state": state.write()})
    };
    let inits = list(pod, "/spec/initContainers").iter();
    status["initContainerStatuses"] = inits.map(|init| container(init, &known.init, known.initialized, 0)).collect();
    let mains = list(pod, "/spec/containers").iter().map(|main| {
        let mut main = container(main, &known.main, known.ready, known.restarts);
        if let Some(code) = known.last_end {
            main["lastState"] = State::Ended(code).write();
        }
        main
    });
    status["containerStatuses"] = mains.collect();
    let conditions = [("Initialized", known.initialized), ("ContainersReady", known.ready), ("Ready", known.ready)];
    for (name, holds) in conditions {
        set_condition(&mut status, name, holds, now);
    }
    status
}

/// Whether the pod's object says that it is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    list(pod, "/status/conditions").iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn set_condition(status: &mut Value, name: &str, holds: bool, now: &str) {
    let wanted = if holds { "True" } else { "False" };
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| text(condition, "/type") == name) {
        Some(known) if known["status"] == wanted => {}
        Some(known) => *known = json!({"type": name, "status": wanted, "lastTransitionTime": now}),
        None => conditions.push(json!({"type": name, "status": wanted, "lastTransitionTime": now})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"spec": {"initContainers": [{"name": "agent"}], "containers": [{"name": "valkey", "image": "i"}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}})
    }

    fn running() -> Known {
        Known {
            ip: Some(Ipv4Addr::new(127, 128, 0, 1)),
            initialized: true,
            init: State::Ended(0),
            main: State::Running("t1".into()),
            last_end: None,
            restarts: 0,
            ready: true,
        }
    }

    #[test]
    fn a_running_pod_and_one_that_crashed() {
        let first = of(&pod(), &running(), "t1");
        assert_eq!((&first["phase"], &first["podIP"]), (&json!("Running"), &json!("127.128.0.1")));
        assert_eq!(first["containerStatuses"][0]["state"], json!({"running": {"startedAt": "t1"}}));
        assert_eq!(first["conditions"].as_array().map(Vec::len), Some(4));
        let mut later = pod();
        later["status"] = first;
        let crashed =
            Known { main: State::Waiting("CrashLoopBackOff"), last_end: Some(137), restarts: 1, ready: false, ..running() };
        let second = of(&later, &crashed, "t2");
        assert_eq!(second["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 137);
        assert_eq!(second["conditions"][1], json!({"type": "Initialized", "status": "True", "lastTransitionTime": "t1"}));
        assert_eq!(second["conditions"][3], json!({"type": "Ready", "status": "False", "lastTransitionTime": "t2"}));
    }
}
