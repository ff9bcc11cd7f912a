//! Faults below Kubernetes, on the test bed. Each is undone when its guard is dropped.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use anyhow::Context;

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

/// The other ends of the established connections to a TCP port of a pod.
///
/// # Errors
/// Nothing runs in the pod.
pub fn peers(pod_uid: &str, port: u16) -> Result<BTreeSet<SocketAddr>> {
    let process = processes_of_pod(pod_uid)?.pop().with_context(|| format!("nothing runs in the pod {pod_uid}"))?;
    let mut peers = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{process}/net/{table}"))?;
        peers.extend(text.lines().filter_map(|line| established(line, port)));
    }
    Ok(peers)
}

/// The other end of a line of the kernel's table of connections (proc_net_tcp in the kernel's documentation), if it is an
/// established one (state 01) to the port.
fn established(line: &str, port: u16) -> Option<SocketAddr> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, remote, state) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
    (*state == "01" && end(local)?.port() == port).then(|| end(remote)).flatten()
}

/// Address and port, in hexadecimal digits; an address in words of four bytes, each in the machine's order, which is the least
/// first here.
fn end(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for word in 0..ip.len() / 8 {
        bytes.extend(u32::from_str_radix(ip.get(word * 8..word * 8 + 8)?, 16).ok()?.to_le_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernels_connections() {
        let v4 = "   1: 0B0DD50A:670B 010CD50A:9C40 01 00000000:00000000 00:00000000 00000000 0 0 1 1 0 20 4 30 10 -1";
        let short = "   1: 1302 0 0";
        let listening = "   0: 00000000:670B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1 0 20 4 30 10 -1";
        let broken = "   2: 130200FD00000000120000000800000000:670B 0 01";
        let v6 = "   3: 130200FD000000000000000008000000:670B 130200FD000000000000000009000000:0050 01 0 0";
        for (line, port, expected) in [
            (v4, 26379, Some("10.213.12.1:40000")),
            (v4, 6379, None),
            (listening, 26379, None),
            (v6, 26379, Some("[fd00:213::9]:80")),
            (short, 26379, None),
            (broken, 26379, None),
            ("", 26379, None),
        ] {
            assert_eq!(established(line, port).map(|end| end.to_string()).as_deref(), expected, "{line:?}");
        }
    }
}
