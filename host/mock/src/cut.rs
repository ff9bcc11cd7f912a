//! Cuts between addresses: what one sends the other never arrives, in both directions.
//!
//! # Assumptions
//! 1. Servers send from their own addresses (the agent sees to that where these are loopback addresses).
//! 2. The rules are the kernel's, so this takes root, and a network namespace of one's own: the machine's own stays as it is,
//!    and what a killed process leaves goes with the namespace.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// Why nothing was cut.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// This is the machine's own network.
    #[error(
        "servers are cut off from each other in a network namespace of its own only, and this is the machine's: \
         run it under 'unshare --net', as host/mock/tests/scenarios.rs does"
    )]
    Shared,
    /// nft says no, or isn't there.
    #[error("nft (Debian: nftables) can't cut servers off: {0}")]
    Refused(String),
}

/// From now on none of these pairs reach each other. `name` is whose cuts these are.
///
/// # Errors
/// This network is the machine's own, or nft fails.
pub fn cut(name: &str, pairs: &[(Ipv4Addr, Ipv4Addr)]) -> Result<(), CutError> {
    let (own, first) = (std::fs::read_link("/proc/self/ns/net"), std::fs::read_link("/proc/1/ns/net"));
    if own.is_err() || own.ok() == first.ok() {
        return Err(CutError::Shared);
    }
    nft(&rules(name, pairs))
}

/// The cuts of that name are no more.
///
/// # Errors
/// As [`cut`].
pub fn mend(name: &str) -> Result<(), CutError> {
    nft(&format!("add table inet {name}\ndelete table inet {name}\n"))
}

fn rules(name: &str, pairs: &[(Ipv4Addr, Ipv4Addr)]) -> String {
    let mut text = format!("add table inet {name}\nadd chain inet {name} cut {{ type filter hook output priority 0; }}\n");
    for (one, other) in pairs.iter().filter(|(one, other)| one != other) {
        for (from, to) in [(one, other), (other, one)] {
            // Writing to a text doesn't fail.
            let _ = writeln!(text, "add rule inet {name} cut ip saddr {from} ip daddr {to} drop");
        }
    }
    text
}

fn nft(rules: &str) -> Result<(), CutError> {
    let refused = |error: std::io::Error| CutError::Refused(error.to_string());
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(refused)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(rules.as_bytes()).map_err(refused)?;
    }
    let output = child.wait_with_output().map_err(refused)?;
    if output.status.success() { Ok(()) } else { Err(CutError::Refused(String::from_utf8_lossy(&output.stderr).into_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_of_each_pair_and_nobody_from_itself() {
        let [a, b] = [1, 2].map(|last| Ipv4Addr::new(127, 128, 0, last));
        let rules = rules("x", &[(a, b), (a, a)]);
        let drops: Vec<&str> = rules.lines().filter_map(|line| line.strip_prefix("add rule inet x cut ")).collect();
        let expected = ["ip saddr 127.128.0.1 ip daddr 127.128.0.2 drop", "ip saddr 127.128.0.2 ip daddr 127.128.0.1 drop"];
        assert_eq!(drops, expected);
    }
}
