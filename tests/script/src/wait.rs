//! What a script waits for, as questions to the objects.

use serde_json::Value;

use crate::outcome::Event;
use crate::step::{Condition, Wait};
use crate::target::{self, Pod};
use crate::{SENTINELS, VALKEYS, View};

/// Whether it has come. `pods`: whom it means ([`Wait::targets`]). `None`: objects don't say it, the host must know.
pub fn has_come(view: &dyn View, wait: &Wait, pods: &[Pod], events: &[Event]) -> Option<bool> {
    Some(match wait {
        Wait::Ready(name) => is_ready(view, name),
        Wait::Condition { of, is } => stands(view, of, is),
        Wait::Policy { of, is } => is_governed(view, of, is),
        Wait::Event(reason) => events.iter().any(|(known, _)| known == reason),
        Wait::PrimaryNot(_) => primary_is_another(view, pods),
        Wait::Replaced(_) => replaced(view, pods),
        Wait::Gone(_) => gone(view, pods),
        Wait::Unready(_) => readiness(view, pods, false),
        Wait::PodsReady(_) => readiness(view, pods, true),
        Wait::Pods(count) => target::pods(view).len() == *count,
        Wait::Loading(_) | Wait::Calm(_) | Wait::Leader(_) | Wait::OperatorEnded(_) => return None,
    })
}

/// Whether what is declared is reached: the conditions that are expected, or else all instances ready.
pub fn is_reached(view: &dyn View, expected: &[(String, Condition)]) -> bool {
    let all_ready = || instances(view).iter().all(|name| is_ready(view, name));
    if expected.is_empty() { all_ready() } else { expected.iter().all(|(name, is)| stands(view, name, is)) }
}

/// An instance's object: a Valkey, or a Sentinel that stands alone.
pub fn instance<'a>(view: &'a dyn View, name: &str) -> Option<&'a Value> {
    view.get(VALKEYS, name).or_else(|| view.get(SENTINELS, name))
}

/// All instances by name.
pub fn instances(view: &dyn View) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    view.all(VALKEYS).into_iter().map(name).collect()
}

/// Whether an instance is ready, for the spec of now.
pub fn is_ready(view: &dyn View, name: &str) -> bool {
    let ready = Condition { kind: "Ready".into(), status: "True".into(), reason: None };
    stands(view, name, &ready)
}

/// Whether a condition stands as said, for the spec of now.
pub fn stands(view: &dyn View, name: &str, wanted: &Condition) -> bool {
    let Some(object) = instance(view, name) else { return false };
    let generation = object.pointer("/metadata/generation").and_then(Value::as_u64);
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let holds = |condition: &Value| {
        condition["type"] == *wanted.kind
            && condition["status"] == *wanted.status
            && wanted.reason.as_ref().is_none_or(|reason| condition["reason"] == **reason)
            && condition["observedGeneration"].as_u64().is_none_or(|seen| Some(seen) == generation)
    };
    conditions.into_iter().any(holds)
}

/// Whether that policy decided last.
fn is_governed(view: &dyn View, name: &str, policy: &str) -> bool {
    instance(view, name).and_then(|object| object.pointer("/status/policy/name")?.as_str()) == Some(policy)
}

/// Whether each of these pods' workloads has another primary by now.
fn primary_is_another(view: &dyn View, pods: &[Pod]) -> bool {
    let now = target::pods(view);
    pods.iter()
        .all(|old| now.iter().any(|pod| pod.workload == old.workload && pod.primary && pod.uid != old.uid && !pod.deleting))
}

/// Whether other pods have the names of these, and are ready.
fn replaced(view: &dyn View, pods: &[Pod]) -> bool {
    pods.iter().all(|old| target::named(view, &old.name).is_some_and(|pod| pod.uid != old.uid && pod.ready && !pod.deleting))
}

/// Whether none of these pods is there any more.
fn gone(view: &dyn View, pods: &[Pod]) -> bool {
    pods.iter().all(|old| target::named(view, &old.name).is_none_or(|pod| pod.uid != old.uid))
}

/// Whether all of these pods' places hold pods that are ready, or none of them.
fn readiness(view: &dyn View, pods: &[Pod], wanted: bool) -> bool {
    pods.iter().all(|old| target::named(view, &old.name).is_some_and(|pod| pod.ready) == wanted)
}
