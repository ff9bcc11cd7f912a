//! The agent's command lines: the contract between a pod's template and the binary that its init container copies in.
//!
//! Probes and hooks are run by the kubelet without expansion of `$(VAR)`, so they get the loopback of the pod's family; the
//! server listens there too. The server's own command is expanded, and gets the pod's address from the downward API.

use serde_json::{Value, json};
use vko_api::names;

/// Where the agent is in the operator's image.
const SOURCE: &str = "/agent";
/// Folder that the init container fills and the server's container reads.
pub(super) const AGENT_DIR: &str = "/opt/valkey";
/// Configuration: `valkey.conf`, `start`, `ending`.
pub(super) const CONF_DIR: &str = "/etc/valkey";
/// Accounts: `users.acl`, and the passwords of the pod's own accounts in a file each.
pub(super) const ACCOUNTS_DIR: &str = "/etc/valkey-accounts";
/// The data set.
pub(super) const DATA_DIR: &str = "/data";
/// Memory volume: the run that was synced.
pub(super) const RUN_DIR: &str = "/run/valkey";
/// The server, in official images and ours.
const SERVER: &str = "/usr/local/bin/valkey-server";
/// Environment variable with the pod's address.
pub(super) const POD_IP: &str = "POD_IP";

/// Seconds from the start of the hook until the kubelet kills the container. The hook gets [`HOOK_GRACE_MS`]; the other half
/// is the server's: up to 10 s for replicas to catch up (`shutdown-timeout`), then the save.
pub(super) const GRACE_SECONDS: u32 = 120;
/// Milliseconds that the hook may take. A hand-over takes well under a second; this leaves room for one replica after
/// another to be tried.
const HOOK_GRACE_MS: u32 = 60_000;

/// Ready follows a promotion or a lost process within a few seconds: routing of reads waits for it.
const READY: Timing = Timing { period_s: 2, timeout_s: 3, failures: 3 };
/// A minute of silence, because a killed server is worse than a slow one: a fork, a big DEL or a frozen disk can take
/// seconds, and a restart loads the whole data set.
const LIVE: Timing = Timing { period_s: 10, timeout_s: 5, failures: 6 };
/// The agent gives up so long before the kubelet kills it, so that the event says why.
const PROBE_MARGIN_MS: u32 = 500;

struct Timing {
    period_s: u32,
    timeout_s: u32,
    failures: u32,
}

/// Copies the agent into the pod.
pub(super) fn install() -> Value {
    json!([SOURCE, "install", agent()])
}

/// Renders the configuration for this start and becomes the server.
pub(super) fn serve() -> Value {
    let ip = format!("$({POD_IP})");
    json!([
        agent(),
        "serve",
        "--server",
        SERVER,
        "--conf",
        CONF_DIR,
        "--accounts",
        ACCOUNTS_DIR,
        "--data",
        DATA_DIR,
        "--ip",
        ip,
        "--port",
        port(),
    ])
}

/// Ready: the primary, or synced in this run; not loading.
pub(super) fn readiness(ipv6: bool) -> Value {
    probe("ready", ipv6, &READY)
}

/// Alive: anything that answers, also while it loads, syncs or follows nobody.
pub(super) fn liveness(ipv6: bool) -> Value {
    probe("live", ipv6, &LIVE)
}

/// Hands the primary role over before the server is told to stop.
pub(super) fn pre_stop(ipv6: bool) -> Value {
    json!({ "exec": { "command": [
        agent(), "hook", "pre-stop", "--conf", CONF_DIR, "--accounts", ACCOUNTS_DIR, "--ip", loopback(ipv6), "--port", port(),
        "--grace-ms", HOOK_GRACE_MS.to_string(),
    ] } })
}

fn probe(question: &str, ipv6: bool, timing: &Timing) -> Value {
    let timeout_ms = timing.timeout_s * 1000 - PROBE_MARGIN_MS;
    json!({
        "exec": { "command": [
            agent(), "probe", question, "--accounts", ACCOUNTS_DIR, "--ip", loopback(ipv6), "--port", port(), "--run", RUN_DIR,
            "--timeout-ms", timeout_ms.to_string(),
        ] },
        "periodSeconds": timing.period_s,
        "timeoutSeconds": timing.timeout_s,
        "failureThreshold": timing.failures,
    })
}

fn agent() -> String {
    format!("{AGENT_DIR}/agent")
}

fn port() -> String {
    names::PORT.to_string()
}

fn loopback(ipv6: bool) -> &'static str {
    if ipv6 { "::1" } else { "127.0.0.1" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kubelet_runs_needs_no_expansion() {
        for ipv6 in [false, true] {
            for command in [readiness(ipv6), liveness(ipv6), pre_stop(ipv6)] {
                assert!(!command.to_string().contains("$("), "{command}");
                assert!(command.to_string().contains(if ipv6 { "\"::1\"" } else { "\"127.0.0.1\"" }), "{command}");
            }
        }
    }

    #[test]
    fn the_hook_leaves_the_server_time_to_stop() {
        const SHUTDOWN_TIMEOUT_MS: u32 = 10_000;
        const { assert!(HOOK_GRACE_MS + SHUTDOWN_TIMEOUT_MS < GRACE_SECONDS * 1000) };
    }

    #[test]
    fn the_agent_gives_up_before_the_kubelet_does() {
        for probe in [readiness(false), liveness(false)] {
            let command = probe["exec"]["command"].as_array().unwrap();
            let timeout_ms: u64 = command.last().unwrap().as_str().unwrap().parse().unwrap();
            assert!(timeout_ms < probe["timeoutSeconds"].as_u64().unwrap() * 1000);
        }
    }
}
