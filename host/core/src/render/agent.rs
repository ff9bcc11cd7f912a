//! The agent's command lines: the contract between a pod's template and the binary that its init container copies in.
//!
//! Probes and hooks are run by the kubelet without expansion of `$(VAR)`, so they get the loopback of the pod's family; the
//! server listens there too. The server's own command is expanded, and gets the pod's address and name from the downward API.

use serde_json::{Value, json};

use super::{Part, Topology};

/// Where the agent is in the operator's image.
const SOURCE: &str = "/agent";
/// Folder that the init container fills and the server's container reads.
pub(super) const AGENT_DIR: &str = "/opt/valkey";
/// Configuration, and what the agent is told beside it: see [`super::mounted`].
pub(super) const CONF_DIR: &str = "/etc/valkey";
/// Accounts: `users.acl`, and the passwords of the pod's own accounts in a file each.
pub(super) const ACCOUNTS_DIR: &str = "/etc/valkey-accounts";
/// The data set.
pub(super) const DATA_DIR: &str = "/data";
/// Memory volume: the run that was synced; the one file that a Sentinel writes.
pub(super) const RUN_DIR: &str = "/run/valkey";
/// The server, in official images and ours.
const SERVER: &str = "/usr/local/bin/valkey-server";
/// Environment variable with the pod's address.
pub(super) const POD_IP: &str = "POD_IP";
/// Environment variable with the pod's name.
pub(super) const POD_NAME: &str = "POD_NAME";

/// Seconds from the start of the hook until the kubelet kills the container. The hook gets [`HOOK_GRACE_MS`]; the other half
/// is the server's: up to 10 s for replicas to catch up (`shutdown-timeout`), then the save.
const GRACE_SECONDS: u32 = 120;
/// The same for Sentinels, which have no hook and nothing to save.
const SENTINEL_GRACE_SECONDS: u32 = 30;
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

/// Seconds that a pod of the part gets to stop.
pub(super) fn grace_seconds(part: Part) -> u32 {
    match part {
        Part::Data | Part::Shard(_) => GRACE_SECONDS,
        Part::Sentinels => SENTINEL_GRACE_SECONDS,
    }
}

/// Renders the configuration for this start and becomes the server.
///
/// A Sentinel's id is made of the instance and the pod's name: its replacement is the same Sentinel to the others, and no ghost
/// of it counts against their majority.
pub(super) fn serve(topology: &Topology, part: Part) -> Value {
    let ip = format!("$({POD_IP})");
    let data = if part == Part::Sentinels { RUN_DIR } else { DATA_DIR };
    let mut command: Vec<String> = [
        &agent(),
        "serve",
        "--server",
        SERVER,
        "--conf",
        CONF_DIR,
        "--accounts",
        ACCOUNTS_DIR,
        "--data",
        data,
        "--ip",
        &ip,
        "--port",
        &part.port().to_string(),
    ]
    .map(str::to_owned)
    .into();
    command.extend(mode(part));
    if part == Part::Sentinels {
        command.extend(["--identity".to_owned(), format!("{}.$({POD_NAME})", topology.valkey_uid)]);
    }
    json!(command)
}

/// Ready: the primary, or synced in this run; not loading. A Sentinel: answers.
pub(super) fn readiness(part: Part, ipv6: bool) -> Value {
    probe("ready", part, ipv6, &READY)
}

/// Alive: anything that answers, also while it loads, syncs or follows nobody.
pub(super) fn liveness(part: Part, ipv6: bool) -> Value {
    probe("live", part, ipv6, &LIVE)
}

/// Hands the primary role over before the server is told to stop. A Sentinel has nothing to hand over.
pub(super) fn pre_stop(topology: &Topology, part: Part, ipv6: bool) -> Option<Value> {
    let mode = match part {
        Part::Data if topology.watched().is_some() => of_mode("failover"),
        Part::Data | Part::Shard(_) => mode(part),
        Part::Sentinels => return None,
    };
    let own = ["hook", "pre-stop", "--conf", CONF_DIR];
    Some(json!({ "exec": exec(&own, part, ipv6, ["--grace-ms", &HOOK_GRACE_MS.to_string()], mode) }))
}

fn probe(question: &str, part: Part, ipv6: bool, timing: &Timing) -> Value {
    let timeout_ms = (timing.timeout_s * 1000 - PROBE_MARGIN_MS).to_string();
    json!({
        "exec": exec(&["probe", question], part, ipv6, ["--run", RUN_DIR, "--timeout-ms", &timeout_ms], mode(part)),
        "periodSeconds": timing.period_s,
        "timeoutSeconds": timing.timeout_s,
        "failureThreshold": timing.failures,
    })
}

/// What the kubelet runs beside the server: whom to ask, and as whom, is the same for all of it.
fn exec<const N: usize>(own: &[&str], part: Part, ipv6: bool, limits: [&str; N], mode: Vec<String>) -> Value {
    let (agent, port) = (agent(), part.port().to_string());
    let server = ["--accounts", ACCOUNTS_DIR, "--ip", loopback(ipv6), "--port", &port];
    let words = [agent.as_str()].into_iter().chain(own.iter().copied()).chain(server).chain(limits);
    json!({ "command": words.map(str::to_owned).chain(mode).collect::<Vec<_>>() })
}

/// What the server is. Of a plain data server nothing is said: that is what the agent takes it for, and templates of before stay
/// as they are.
fn mode(part: Part) -> Vec<String> {
    match part {
        Part::Data => Vec::new(),
        Part::Shard(_) => of_mode("cluster"),
        Part::Sentinels => of_mode("sentinel"),
    }
}

fn of_mode(mode: &str) -> Vec<String> {
    vec!["--mode".to_owned(), mode.to_owned()]
}

fn agent() -> String {
    format!("{AGENT_DIR}/agent")
}

fn loopback(ipv6: bool) -> &'static str {
    if ipv6 { "::1" } else { "127.0.0.1" }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_cluster, mk_failover, mk_referring, mk_sentinel, mk_topology};
    use super::*;

    const PARTS: [Part; 3] = [Part::Data, Part::Shard(0), Part::Sentinels];

    /// Value of a flag in a command.
    fn flag<'a>(command: &'a Value, name: &str) -> Option<&'a str> {
        let words: Vec<_> = command.as_array()?.iter().filter_map(Value::as_str).collect();
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    }

    #[test]
    fn what_the_kubelet_runs_needs_no_expansion() {
        for part in PARTS {
            for ipv6 in [false, true] {
                let commands = [Some(readiness(part, ipv6)), Some(liveness(part, ipv6)), pre_stop(&mk_failover(), part, ipv6)];
                for command in commands.into_iter().flatten() {
                    assert!(!command.to_string().contains("$("), "{command}");
                    assert!(command.to_string().contains(if ipv6 { "\"::1\"" } else { "\"127.0.0.1\"" }), "{command}");
                }
            }
        }
    }

    #[test]
    fn the_agent_is_told_what_the_server_is() {
        for (topology, part, serves, stops, port) in [
            (mk_topology(), Part::Data, None, None, "6379"),
            (mk_failover(), Part::Data, None, Some("failover"), "6379"),
            (mk_referring(), Part::Data, None, Some("failover"), "6379"),
            (mk_cluster(), Part::Shard(2), Some("cluster"), Some("cluster"), "6379"),
            (mk_failover(), Part::Sentinels, Some("sentinel"), None, "26379"),
            (mk_sentinel(), Part::Sentinels, Some("sentinel"), None, "26379"),
        ] {
            let serve = serve(&topology, part);
            assert_eq!((flag(&serve, "--mode"), flag(&serve, "--port")), (serves, Some(port)), "{serve}");
            for probe in [readiness(part, false), liveness(part, false)] {
                let command = &probe["exec"]["command"];
                assert_eq!((flag(command, "--mode"), flag(command, "--port")), (serves, Some(port)), "{command}");
            }
            let hook = pre_stop(&topology, part, false);
            assert_eq!(hook.as_ref().and_then(|hook| flag(&hook["exec"]["command"], "--mode")), stops, "{hook:?}");
        }
    }

    #[test]
    fn a_sentinel_is_known_by_instance_and_place() {
        let serve = serve(&mk_failover(), Part::Sentinels);
        assert_eq!(flag(&serve, "--identity"), Some("22222222-0000-0000-0000-000000000002.$(POD_NAME)"));
        for part in [Part::Data, Part::Shard(0)] {
            assert_eq!(flag(&super::serve(&mk_topology(), part), "--identity"), None);
        }
    }

    #[test]
    fn the_hook_leaves_the_server_time_to_stop() {
        const SHUTDOWN_TIMEOUT_MS: u32 = 10_000;
        const { assert!(HOOK_GRACE_MS + SHUTDOWN_TIMEOUT_MS < GRACE_SECONDS * 1000) };
    }

    #[test]
    fn the_agent_gives_up_before_the_kubelet_does() {
        for part in PARTS {
            for probe in [readiness(part, false), liveness(part, false)] {
                let timeout_ms: u64 = flag(&probe["exec"]["command"], "--timeout-ms").unwrap().parse().unwrap();
                assert!(timeout_ms < probe["timeoutSeconds"].as_u64().unwrap() * 1000);
            }
        }
    }
}
