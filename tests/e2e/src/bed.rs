//! Faults below Kubernetes, on the test bed. Each is undone when its guard is dropped.

use std::process::Command;

use crate::{Result, command, settings};

/// Whether the cluster under test is the test bed.
pub fn is_here() -> bool {
    settings::bed_folder().is_some()
}

/// Runs `testbed`.
///
/// # Errors
/// It fails.
pub fn testbed(args: &[&str]) -> Result<String> {
    command::run(Command::new(settings::required("VKO_TESTBED")?).args(args))
}

/// A fault that lasts.
#[derive(Debug)]
pub struct Fault {
    undo: Option<Vec<String>>,
}

impl Fault {
    fn begin(begin: &[&str], undo: &[&str]) -> Result<Self> {
        testbed(begin)?;
        Ok(Self { undo: Some(undo.iter().map(|word| (*word).to_owned()).collect()) })
    }

    /// Ends it now.
    ///
    /// # Errors
    /// It can't be undone.
    pub fn end(mut self) -> Result {
        self.undo.take().map_or(Ok(()), |undo| undone(&undo))
    }
}

fn undone(undo: &[String]) -> Result {
    testbed(&undo.iter().map(String::as_str).collect::<Vec<_>>()).map(|_| ())
}

impl Drop for Fault {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take()
            && let Err(error) = undone(&undo)
        {
            eprintln!("a fault was not undone, what follows may fail for it: {error:#}");
        }
    }
}

/// Cuts a node off from everything; its containers go on running.
///
/// # Errors
/// There is no such node.
pub fn partition(node: &str) -> Result<Fault> {
    Fault::begin(&["partition", node], &["heal", node])
}

/// Power loss of a node.
///
/// # Errors
/// There is no such node.
pub fn kill_node(node: &str) -> Result<Fault> {
    Fault::begin(&["kill-node", node], &["start-node", node])
}

/// Loses what a pod sends to a TCP port.
///
/// # Errors
/// There is no such node.
pub fn drop_traffic(node: &str, pod_ip: &str, port: &str) -> Result<Fault> {
    Fault::begin(&["drop", node, pod_ip, port], &["undrop", node, pod_ip, port])
}

/// Host process ids of a container of a pod: those in the pod's control group whose program has this name.
///
/// # Errors
/// The pod's control group can't be read.
pub fn processes(pod_uid: &str, program: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for process in processes_of_pod(pod_uid)? {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        // The kernel keeps 15 bytes of a name.
        if !name.trim().is_empty() && program.starts_with(name.trim()) {
            found.push(process);
        }
    }
    Ok(found)
}

/// Host process ids of all containers of a pod.
///
/// # Errors
/// The control groups can't be listed.
pub fn processes_of_pod(pod_uid: &str) -> Result<Vec<u32>> {
    // cgroup v1 keeps a tree for each controller (one lists them all); v2 has one tree.
    let root =
        ["/sys/fs/cgroup/freezer/testbed", "/sys/fs/cgroup/testbed"].into_iter().find(|path| std::path::Path::new(path).is_dir());
    let listed = command::run(Command::new("find").args([
        root.unwrap_or("/sys/fs/cgroup"),
        "-path",
        &format!("*{pod_uid}*"),
        "-name",
        "cgroup.procs",
    ]))?;
    let mut processes: Vec<u32> = listed
        .lines()
        // A container may end while it is looked at.
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
        .collect();
    processes.sort_unstable();
    processes.dedup();
    Ok(processes)
}

/// Sends a process of a pod a signal, by its name: `KILL` is what an out-of-memory killer does.
///
/// # Errors
/// It is gone already.
pub fn signal(process: u32, signal: &str) -> Result {
    command::run(Command::new("kill").args([format!("-{signal}"), process.to_string()])).map(|_| ())
}
