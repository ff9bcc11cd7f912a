//! What a script waits for, as questions to the store.

use serde_json::Value;
use vko_apiserver::{Key, Store};

use super::step::Condition;
use super::target::{self, Pod};
use crate::bed::{NAMESPACE, OPERATORS};

/// An instance's object: a Valkey, or a Sentinel that stands alone.
fn instance<'a>(store: &'a Store, name: &str) -> Option<&'a Value> {
    let of = |resource: &str| store.get(&Key::new(resource, NAMESPACE, name)).map(|object| &**object);
    of("valkeys.rds.valkey.buf.red").or_else(|| of("sentinels.valkey.buf.red"))
}

/// All instances by name.
pub(super) fn instances(store: &Store) -> Vec<String> {
    store.list("valkeys.rds.valkey.buf.red", Some(NAMESPACE)).map(|(key, _)| key.name.clone()).collect()
}

/// Whether an instance is ready, for the spec of now.
pub(super) fn is_ready(store: &Store, name: &str) -> bool {
    let ready = Condition { kind: "Ready".into(), status: "True".into(), reason: None };
    stands(store, name, &ready)
}

/// Whether a condition stands as said, for the spec of now.
pub(super) fn stands(store: &Store, name: &str, wanted: &Condition) -> bool {
    let Some(object) = instance(store, name) else { return false };
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
pub(super) fn is_governed(store: &Store, name: &str, policy: &str) -> bool {
    instance(store, name).and_then(|object| object.pointer("/status/policy/name")?.as_str()) == Some(policy)
}

/// Whether each of these pods' workloads has another primary by now.
pub(super) fn primary_is_another(store: &Store, pods: &[Pod]) -> bool {
    let now = target::pods(store);
    pods.iter()
        .all(|old| now.iter().any(|pod| pod.workload == old.workload && pod.primary && pod.uid != old.uid && !pod.deleting))
}

/// Whether other pods have the names of these, and are ready.
pub(super) fn replaced(store: &Store, pods: &[Pod]) -> bool {
    pods.iter().all(|old| target::named(store, &old.name).is_some_and(|pod| pod.uid != old.uid && pod.ready && !pod.deleting))
}

/// Whether none of these pods is there any more.
pub(super) fn gone(store: &Store, pods: &[Pod]) -> bool {
    pods.iter().all(|old| target::named(store, &old.name).is_none_or(|pod| pod.uid != old.uid))
}

/// Whether all of these pods' places hold pods that are ready, or none of them.
pub(super) fn readiness(store: &Store, pods: &[Pod], wanted: bool) -> bool {
    pods.iter().all(|old| target::named(store, &old.name).is_some_and(|pod| pod.ready) == wanted)
}

/// Whether that operator holds the Lease.
pub(super) fn leads(store: &Store, operator: &str) -> bool {
    let lease = store.get(&Key::new("leases.coordination.k8s.io", OPERATORS, "valkey-operator"));
    let holder = lease.and_then(|lease| lease.pointer("/spec/holderIdentity")?.as_str().map(str::to_owned));
    // What follows its name is this life's.
    holder.and_then(|holder| holder.strip_prefix(operator).map(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())))
        == Some(true)
}
