//! The configuration that the host gives a data server or a Sentinel, as far as it holds no secret and no address.
//!
//! # Guarantees
//! 1. One rendering: sorted, every value through [`quote`]; equal inputs give equal text.
//! 2. Nobody but the host sets a directive of [`HOST_OWNED`], and the values here are in the form in which CONFIG GET repeats
//!    them.
//! 3. Every directive and value that the host sets exists on every line, so the text doesn't depend on the line and an upgrade
//!    doesn't change it. The one exception is [`HAND_OVER_AT_STOP`].
//!
//! # Assumptions
//! The agent in the pod adds what only a start knows (`bind`, `port`, `dir`, credentials, `user` lines, `replicaof`).

use std::collections::BTreeMap;

use crate::accounts::ServerRole;
use crate::version::Line;

/// Why a configuration can't be rendered. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A directive that is the host's or the agent's.
    #[error("directive '{name}' can't be set: {why}; remove it")]
    DirectiveOwned {
        /// The directive.
        name: String,
        /// Whose it is, and why.
        why: &'static str,
    },
    /// A name with other characters than directives have.
    #[error("{0:?} is no name of a directive: lower-case letters, digits and '-' are")]
    DirectiveNameInvalid(String),
    /// A value that would end its line.
    #[error("the value of directive '{0}' has a line break or a control character; remove it")]
    DirectiveValueInvalid(String),
}

impl ConfigError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::DirectiveOwned { .. } => "DirectiveOwned",
            Self::DirectiveNameInvalid(_) => "DirectiveNameInvalid",
            Self::DirectiveValueInvalid(_) => "DirectiveValueInvalid",
        }
    }
}

/// `min-replicas-max-lag`, in seconds: a fenced primary acknowledges nothing from this + 2 s after the last word of its replicas.
/// 5 had no false alarm with replicas paused for 3 s; 2 had them at each such pause.
pub const FENCE_MAX_LAG_S: u64 = 5;

/// The same in milliseconds, as observations and the ledger count.
pub const FENCE_MAX_LAG_MS: u64 = FENCE_MAX_LAG_S * 1000;

/// What the host sets on every data server, with the reason. They don't hang on the spec.
pub const HOST_SET: &[(&str, &str, &str)] = &[
    ("min-replicas-max-lag", "5", "bound of the fence, see FENCE_MAX_LAG_S; min-replicas-to-write itself is set and lifted live"),
    (
        "protected-mode",
        "no",
        "clients come from other pods; accounts protect the server, and no account is open unless asked for",
    ),
    ("repl-diskless-sync", "yes", "a full sync needs no room on the primary's volume"),
    (
        "repl-diskless-sync-delay",
        "0",
        "the default waits 5 s for further replicas before each full sync, in which a fence blocks writes",
    ),
    ("repl-ping-replica-period", "1", "a lost link shows within a second or two; fence and readiness rest on it"),
    ("replica-read-only", "yes", "a writable replica would hold writes that the next sync throws away"),
    (
        "tcp-keepalive",
        "5",
        "a primary that was frozen finds its replicas' dead connections closed instead of acknowledging writes for seconds",
    ),
];

/// What the host sets on the nodes of a cluster as well.
pub const CLUSTER_SET: &[(&str, &str, &str)] = &[
    (
        "cluster-allow-replica-migration",
        "no",
        "a primary whose last slot has gone would make itself a replica elsewhere, and a replica would leave its shard",
    ),
    ("cluster-config-file", "nodes.conf", "what the node knows of the cluster and its own id lie beside its data"),
    ("cluster-enabled", "yes", "the architecture"),
    ("cluster-port", "16379", "without it a later change to TLS would announce another port than the one that is listened on"),
];

/// What the host sets on Sentinels. Whom they monitor is told them live.
pub const SENTINEL_SET: &[(&str, &str, &str)] = &[
    ("protected-mode", "no", "clients come from other pods; accounts protect the Sentinel"),
    ("tcp-keepalive", "5", "connections of clients that are gone end soon"),
];

/// `shutdown-on-sigterm` from 9.x on, of the nodes of a cluster: a primary that is stopped hands over to a replica. A net below
/// the operator's and the hook's own hand-over, which are quicker: for a pod that is stopped by others while its hook can't run.
pub const HAND_OVER_AT_STOP: (&str, &str) = ("shutdown-on-sigterm", "failover");

/// `cluster-node-timeout` in ms, unless a spec sets it: a primary that dies is replaced after about 7 s. With 2 s it takes 3 s,
/// and a slow disk or a fork is taken for a death.
pub const CLUSTER_NODE_TIMEOUT_MS: u64 = 5000;

/// Directives that are not for specs and policies, with the reason. Those of [`HOST_SET`], [`CLUSTER_SET`] and
/// [`SENTINEL_SET`] are added to these.
pub const HOST_OWNED: &[(&str, &str)] = &[
    ("aclfile", "accounts are rendered by the operator"),
    ("appenddirname", "the place of the data is the operator's"),
    ("appendfilename", "the place of the data is the operator's"),
    ("bind", "the pod's address is known at its start only"),
    ("cluster-announce-bus-port", "the announced address is chosen by spec.access"),
    ("cluster-announce-client-ipv4", "the announced address is chosen by spec.access"),
    ("cluster-announce-client-ipv6", "the announced address is chosen by spec.access"),
    ("cluster-announce-client-port", "the announced address is chosen by spec.access"),
    ("cluster-announce-client-tls-port", "the announced address is chosen by spec.access"),
    ("cluster-announce-hostname", "the announced address is chosen by spec.access"),
    ("cluster-announce-ip", "the announced address is chosen by spec.access"),
    ("cluster-announce-port", "the announced address is chosen by spec.access"),
    ("cluster-announce-tls-port", "the announced address is chosen by spec.access"),
    ("cluster-config-file", "the architecture is chosen by spec.arch"),
    ("cluster-enabled", "the architecture is chosen by spec.arch"),
    ("cluster-replica-no-failover", "roles are given by the operator"),
    ("cluster-slave-no-failover", "it is an old name of cluster-replica-no-failover; roles are given by the operator"),
    ("daemonize", "the server is the container's process"),
    ("dbfilename", "the place of the data is the operator's"),
    ("dir", "the place of the data is the operator's"),
    ("enable-debug-command", "DEBUG can lose data"),
    ("enable-module-command", "modules are loaded at the start only"),
    ("enable-protected-configs", "the place of the data is the operator's"),
    ("include", "there are no other files in the pod"),
    ("loadmodule", "modules are chosen by spec.modules"),
    ("logfile", "the log is the container's output"),
    ("masterauth", "the replication account is the operator's"),
    ("masteruser", "the replication account is the operator's"),
    ("min-replicas-to-write", "it is the fence, set and lifted by the operator"),
    ("min-slaves-max-lag", "it is an old name of min-replicas-max-lag, which is the operator's"),
    ("min-slaves-to-write", "it is an old name of min-replicas-to-write, which is the operator's"),
    ("pidfile", "the server is the container's process"),
    ("port", "the port is fixed at 6379"),
    ("primaryauth", "the replication account is the operator's"),
    ("primaryuser", "the replication account is the operator's"),
    ("rename-command", "the operator needs commands under their names; deny them by an account's rules"),
    ("repl-ping-slave-period", "it is an old name of repl-ping-replica-period, which is the operator's"),
    ("replica-announce-ip", "the announced address is chosen by spec.access"),
    ("replica-announce-port", "the announced address is chosen by spec.access"),
    ("replicaof", "roles are given by the operator"),
    ("requirepass", "the default user's password is in its Secret"),
    ("sentinel", "Sentinels are told live whom they monitor and how"),
    ("shutdown-on-sigterm", "how a server stops is the operator's"),
    ("slave-announce-ip", "the announced address is chosen by spec.access"),
    ("slave-announce-port", "the announced address is chosen by spec.access"),
    ("slave-read-only", "it is an old name of replica-read-only, which is the operator's"),
    ("slaveof", "roles are given by the operator"),
    ("supervised", "the server is the container's process"),
    ("tls-port", "TLS is not served yet"),
    ("unixsocket", "there are no local clients in the pod"),
    ("user", "accounts are rendered by the operator"),
];

/// What a data server's configuration is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConf<'a> {
    /// What the server is there for; a Sentinel has [`sentinel_conf`].
    pub role: ServerRole,
    /// The server's line.
    pub line: Line,
    /// Whether the data lies on a claim, so that it outlives the pod.
    pub on_claim: bool,
    /// The container's memory limit in bytes; without one `maxmemory` stays unlimited and the backlog the server's default.
    pub memory_limit: Option<u64>,
    /// Directives beyond the host's, by name. They win over the defaults (persistence, memory), never over what is owned.
    pub settings: &'a BTreeMap<String, String>,
}

/// All directives by name, as rendered.
///
/// # Errors
/// [`ConfigError`] names the first setting that can't be used.
pub fn directives(conf: &ServerConf<'_>) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut all = BTreeMap::new();
    let mut put = |name: &str, value: String| all.insert(name.to_owned(), value);
    if conf.on_claim {
        // Every write of more than a second ago survives a crash; a restart loads it again and needs nobody's copy.
        put("appendonly", "yes".to_owned());
        put("appendfsync", "everysec".to_owned());
        // Snapshots beside it would fork and write everything twice.
        put("save", String::new());
    } else {
        // The data outlives a crash of the process, not the pod: the server's own save points are enough, without the writing of
        // an AOF.
        put("appendonly", "no".to_owned());
        put("save", "3600 1 300 100 60 10000".to_owned());
    }
    if let Some(limit) = conf.memory_limit {
        let policy = conf.settings.get("maxmemory-policy").map(String::as_str);
        put("maxmemory", max_memory(limit, policy).to_string());
        put("repl-backlog-size", backlog_size(limit).to_string());
    }
    if conf.role == ServerRole::Cluster {
        put("cluster-node-timeout", CLUSTER_NODE_TIMEOUT_MS.to_string());
    }
    for (name, value) in conf.settings {
        check(name, value)?;
        put(name, value.clone());
    }
    let cluster: &[_] = if conf.role == ServerRole::Cluster { CLUSTER_SET } else { &[] };
    for (name, value, _) in HOST_SET.iter().chain(cluster) {
        put(name, (*value).to_owned());
    }
    if conf.role == ServerRole::Cluster && conf.line >= Line::V9_1 {
        put(HAND_OVER_AT_STOP.0, HAND_OVER_AT_STOP.1.to_owned());
    }
    Ok(all)
}

/// The text of valkey.conf, without secrets.
///
/// # Errors
/// [`ConfigError`] names the first setting that can't be used.
pub fn server_conf(conf: &ServerConf<'_>) -> Result<String, ConfigError> {
    Ok(text(&directives(conf)?))
}

/// The text of sentinel.conf, without secrets and without anything that it monitors.
///
/// # Errors
/// [`ConfigError`] names the first setting that can't be used.
pub fn sentinel_conf(settings: &BTreeMap<String, String>) -> Result<String, ConfigError> {
    let mut all = BTreeMap::new();
    for (name, value) in settings {
        check(name, value)?;
        all.insert(name.clone(), value.clone());
    }
    all.extend(SENTINEL_SET.iter().map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned())));
    Ok(text(&all))
}

fn text(directives: &BTreeMap<String, String>) -> String {
    directives.iter().map(|(name, value)| format!("{name} {}\n", quote(value))).collect()
}

/// A setting from outside: a plain name that isn't owned, a value of one line.
fn check(name: &str, value: &str) -> Result<(), ConfigError> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        return Err(ConfigError::DirectiveNameInvalid(name.to_owned()));
    }
    let owned = HOST_OWNED.iter().find(|(owned, _)| *owned == name).map(|(_, why)| *why);
    let all_set = [HOST_SET, CLUSTER_SET, SENTINEL_SET];
    let set = all_set.into_iter().flatten().find(|(set, _, _)| *set == name).map(|(_, _, why)| *why);
    if let Some(why) = owned.or(set) {
        return Err(ConfigError::DirectiveOwned { name: name.to_owned(), why });
    }
    if value.chars().any(char::is_control) {
        return Err(ConfigError::DirectiveValueInvalid(name.to_owned()));
    }
    Ok(())
}

/// `maxmemory` in bytes for a memory limit: 0.7 of it, so that copy-on-write of a save, replication and client buffers and
/// fragmentation fit below the limit and the container isn't killed. With an explicit `noeviction` 0.8: a full server then
/// refuses writes, where one that evicts rewrites its pages all the time, so that a save copies more.
pub fn max_memory(limit_bytes: u64, policy: Option<&str>) -> u64 {
    let tenths = if policy == Some("noeviction") { 8 } else { 7 };
    // In this order nothing overflows.
    limit_bytes / 10 * tenths + limit_bytes % 10 * tenths / 10
}

/// `repl-backlog-size` in bytes for a memory limit: 1 %, so that a replica that was away shortly gets a partial resync; between 1
/// MiB (a smaller one ends within a second under load) and 256 MiB (more only costs memory: a full resync is as quick then).
pub fn backlog_size(limit_bytes: u64) -> u64 {
    (limit_bytes / 100).clamp(1 << 20, 256 << 20)
}

/// A value as one word of the server's configuration grammar: as it is where that is safe, else in double quotes with escapes.
pub fn quote(value: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | '%' | '+' | ',' | '*' | '=');
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
