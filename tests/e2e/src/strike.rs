//! A fault under load: an instance, a client that writes, something that happens, and what the client was promised held against
//! the published bound.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::ensure;

use crate::instance::{Instance, Pod, Wanted};
use crate::losses::bound;
use crate::writer::{Pace, Writer};
use crate::{Result, bed, kubectl, space};

/// Acknowledged writes before and after a fault: about two seconds each.
pub const SOME: usize = 2000;

/// A number for each run: of its namespace, which does not go at once, and of its client, as one instance may have several runs.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// One run in a namespace of its own. `strike` gets the instance, its primary (a cluster's first shard's) and the client; when it
/// returns the fault is over.
///
/// # Errors
/// More was lost than docs/losses.md promises for the fault, the instance did not get back to what it was, or the run is invalid
/// (too few writes).
pub fn under_writes(fault: &str, wanted: &Wanted, strike: impl FnOnce(&Instance, &Pod, &Writer) -> Result) -> Result {
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let namespace = format!("{}-{fault}-{}-{number}", wanted.arch.name(), wanted.version.replace('.', ""));
    space::with(&namespace, |namespace| {
        let instance = Instance::create(namespace, "x", wanted)?;
        instance.wait_writable()?;
        on(&instance, wanted.pods(), fault, strike)
    })
}

/// The same on an instance that is there, of so many pods.
///
/// # Errors
/// As [`under_writes`].
pub fn on(instance: &Instance, pods: usize, fault: &str, strike: impl FnOnce(&Instance, &Pod, &Writer) -> Result) -> Result {
    let name = format!("w{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let writer = Writer::start_named(instance.entrance()?, &name, Pace::default());
    writer.wait_acks(SOME)?;
    strike(instance, &instance.primary()?, &writer)?;
    writer.wait_acks(SOME)?;
    let record = writer.stop()?;
    instance.wait_settled(pods)?;
    record.verify(&instance.entrance()?, &format!("{} {fault}", instance.arch.name()), bound(instance.arch.name(), fault)?)
}

/// A strike of any architecture: the primary's server dies, and comes back in its pod.
///
/// # Errors
/// Nobody takes over.
pub fn kill_primary(instance: &Instance, primary: &Pod, _: &Writer) -> Result {
    kill_server(primary)?;
    instance.wait_successor(primary)
}

/// The primary's pod is deleted.
///
/// # Errors
/// Nobody takes over.
pub fn delete_primary(instance: &Instance, primary: &Pod, _: &Writer) -> Result {
    delete_pod(&instance.namespace, &primary.name, None)?;
    instance.wait_successor(primary)
}

/// The primary's pod comes back without its data. Its server is killed first, so that no hook runs.
///
/// # Errors
/// Nobody takes over.
pub fn empty_primary(instance: &Instance, primary: &Pod, _: &Writer) -> Result {
    kill_server(primary)?;
    delete_pod(&instance.namespace, &primary.name, Some(1))?;
    instance.wait_successor(primary)
}

/// Deletes a pod, and doesn't wait for its end.
///
/// # Errors
/// The request is refused.
pub fn delete_pod(namespace: &str, pod: &str, grace_seconds: Option<u64>) -> Result {
    delete_named(namespace, &[pod], grace_seconds, &[])
}

/// Deletes pods at once.
///
/// # Errors
/// The request is refused.
pub fn delete_pods(namespace: &str, pods: &[Pod], grace_seconds: u64) -> Result {
    let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    delete_named(namespace, &names, Some(grace_seconds), &[])
}

/// Deletes pods by their names at once, and doesn't wait for their end. `more`: what else kubectl is told.
///
/// # Errors
/// The request is refused.
pub fn delete_named(namespace: &str, pods: &[&str], grace_seconds: Option<u64>, more: &[&str]) -> Result {
    let grace = grace_seconds.map(|seconds| format!("--grace-period={seconds}"));
    let mut args = vec!["delete", "pods", "--namespace", namespace, "--wait=false"];
    args.extend(grace.as_deref());
    args.extend(more);
    args.extend(pods);
    kubectl::run(&args).map(|_| ())
}

/// All of these servers die at once, and come back in their pods.
///
/// # Errors
/// One runs no server, or the instance doesn't become ready.
pub fn kill_all(instance: &Instance, pods: &[Pod]) -> Result {
    pods.iter().try_for_each(kill_server)?;
    back(instance, pods)
}

/// All of these pods are deleted at once, with some time to end.
///
/// # Errors
/// The request is refused, or the instance doesn't become ready.
pub fn replace_all(instance: &Instance, pods: &[Pod]) -> Result {
    delete_pods(&instance.namespace, pods, 5)?;
    back(instance, pods)
}

fn back(instance: &Instance, pods: &[Pod]) -> Result {
    instance.wait_lives_over(pods)?;
    instance.wait_ready()
}

/// What a server's process is called: the stand-ins of the 7.2 line keep their own names.
const SERVERS: [&str; 3] = ["valkey-server", "redict-server", "redis-server"];

/// Kills the server's process in a pod, as running out of memory would.
///
/// # Errors
/// There is none.
pub fn kill_server(pod: &Pod) -> Result {
    signal_server(&pod.uid, "KILL")
}

/// A signal, by its name, to the server's process in the pod of that UID.
///
/// # Errors
/// There is none.
pub fn signal_server(pod_uid: &str, signal: &str) -> Result {
    let mut processes = Vec::new();
    for name in SERVERS {
        processes.extend(bed::processes(pod_uid, name)?);
    }
    ensure!(!processes.is_empty(), "no server runs in the pod {pod_uid}");
    processes.into_iter().try_for_each(|process| bed::signal(process, signal))
}
