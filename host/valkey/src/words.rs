//! A typed command as the words of the protocol.

use redis::{Cmd, Pipeline};
use vko_core::command::{ClusterFailover, Command, ConfigValue};
use vko_model::replication::NOBODY_PORT;

/// Sections that a full look needs. Naming them leaves out the long ones (command statistics, latencies, errors).
const FULL_SECTIONS: [&str; 7] = ["server", "clients", "memory", "persistence", "stats", "replication", "keyspace"];

/// Sections that tell whether anything has changed.
const LIGHT_SECTIONS: [&str; 4] = ["server", "replication", "persistence", "keyspace"];

/// Nothing follows.
const END: [&str; 0] = [];

/// What is sent: one command of the protocol, or a few in one go, whose answers come together.
pub(crate) fn words(command: &Command) -> Pipeline {
    let mut sent = Pipeline::new();
    for cmd in commands(command) {
        sent.add_command(cmd);
    }
    sent
}

/// The words. Values go as words of their own: nothing in them can become another command.
fn commands(command: &Command) -> Vec<Cmd> {
    let one = match command {
        Command::LightProbe => cmd(&["INFO"], LIGHT_SECTIONS),
        Command::FullInfo => cmd(&["INFO"], FULL_SECTIONS),
        Command::Role => cmd(&["ROLE"], END),
        Command::ConfigGet(names) => cmd(&["CONFIG", "GET"], names),
        Command::ConfigSet(pairs) => cmd(&["CONFIG", "SET"], flat(pairs)),
        Command::ReplicaOf { ip, port } => cmd(&["REPLICAOF"], [ip.to_string(), port.to_string()]),
        Command::ReplicaOfNobody { loopback } => cmd(&["REPLICAOF"], [loopback.to_string(), NOBODY_PORT.to_string()]),
        Command::ReplicaOfNoOne => cmd(&["REPLICAOF"], ["NO", "ONE"]),
        Command::FailoverTo { ip, port, timeout_ms } => {
            cmd(&["FAILOVER", "TO"], [ip.to_string(), port.to_string(), "TIMEOUT".to_owned(), timeout_ms.to_string()])
        }
        Command::FailoverAbort => cmd(&["FAILOVER"], ["ABORT"]),
        Command::PauseWrites { time_ms } => cmd(&["CLIENT", "PAUSE"], [time_ms.to_string(), "WRITE".to_owned()]),
        Command::Unpause => cmd(&["CLIENT"], ["UNPAUSE"]),
        Command::KillNormalClients => cmd(&["CLIENT", "KILL"], ["TYPE", "normal", "SKIPME", "yes"]),
        Command::KillUser(name) => cmd(&["CLIENT", "KILL"], ["USER", name, "SKIPME", "yes"]),
        Command::BackgroundSave => cmd(&["BGSAVE"], END),

        Command::ClusterProbe => {
            return vec![cmd(&["INFO"], LIGHT_SECTIONS), cmd(&["CLUSTER", "INFO"], END), cmd(&["CLUSTER", "SLOTS"], END)];
        }
        Command::ClusterNodes => cmd(&["CLUSTER", "NODES"], END),
        Command::ClusterMeet { ip, port, bus_port } => {
            cmd(&["CLUSTER", "MEET"], [ip.to_string(), port.to_string(), bus_port.to_string()])
        }
        Command::ClusterForget(node) => cmd(&["CLUSTER", "FORGET"], [node]),
        Command::ClusterReplicate(node) => cmd(&["CLUSTER", "REPLICATE"], [node]),
        Command::ClusterAddSlots(ranges) => {
            cmd(&["CLUSTER", "ADDSLOTSRANGE"], ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]))
        }
        Command::ClusterSetSlotStable(slot) => cmd(&["CLUSTER", "SETSLOT", &slot.to_string()], ["STABLE"]),
        Command::ClusterSetSlotNode { slot, node } => cmd(&["CLUSTER", "SETSLOT", &slot.to_string()], ["NODE", node]),
        Command::ClusterFailover(ClusterFailover::Coordinated) => cmd(&["CLUSTER", "FAILOVER"], END),
        Command::ClusterFailover(ClusterFailover::Force) => cmd(&["CLUSTER", "FAILOVER"], ["FORCE"]),
        Command::ClusterFailover(ClusterFailover::Takeover) => cmd(&["CLUSTER", "FAILOVER"], ["TAKEOVER"]),
        Command::ClusterBumpEpoch => cmd(&["CLUSTER", "BUMPEPOCH"], END),
        Command::ClusterResetHard => cmd(&["CLUSTER", "RESET"], ["HARD"]),

        Command::SentinelProbe => {
            return vec![cmd(&["INFO"], ["server"]), cmd(&["INFO"], ["sentinel"]), cmd(&["SENTINEL", "MYID"], END)];
        }
        Command::SentinelMasters => cmd(&["SENTINEL", "MASTERS"], END),
        Command::SentinelReplicas(name) => cmd(&["SENTINEL", "REPLICAS"], [name]),
        Command::SentinelPeers(name) => cmd(&["SENTINEL", "SENTINELS"], [name]),
        Command::SentinelCheckQuorum(name) => cmd(&["SENTINEL", "CKQUORUM"], [name]),
        Command::SentinelMonitor { name, ip, port, quorum } => {
            cmd(&["SENTINEL", "MONITOR", name], [ip.to_string(), port.to_string(), quorum.to_string()])
        }
        Command::SentinelRemove(name) => cmd(&["SENTINEL", "REMOVE"], [name]),
        Command::SentinelReset(name) => cmd(&["SENTINEL", "RESET"], [name]),
        Command::SentinelFailover(name) => cmd(&["SENTINEL", "FAILOVER"], [name]),
        Command::SentinelSet { name, options } => cmd(&["SENTINEL", "SET", name], flat(options)),
    };
    vec![one]
}

/// Names and values in turn.
fn flat(pairs: &[(String, ConfigValue)]) -> impl Iterator<Item = &str> {
    pairs.iter().flat_map(|(name, value)| [name.as_str(), text(value)])
}

/// What must not appear in an error's text, though the server may repeat it there.
pub(crate) fn secrets(command: &Command) -> Vec<String> {
    match command {
        Command::ConfigSet(pairs) | Command::SentinelSet { options: pairs, .. } => pairs
            .iter()
            .filter_map(|(_, value)| match value {
                ConfigValue::Credential(secret) => Some(secret.reveal().to_owned()),
                ConfigValue::Text(_) => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn text(value: &ConfigValue) -> &str {
    match value {
        ConfigValue::Text(text) => text,
        ConfigValue::Credential(secret) => secret.reveal(),
    }
}

fn cmd(start: &[&str], rest: impl IntoIterator<Item = impl AsRef<str>>) -> Cmd {
    let mut cmd = Cmd::new();
    for word in start {
        cmd.arg(*word);
    }
    for word in rest {
        cmd.arg(word.as_ref());
    }
    cmd
}

#[cfg(test)]
mod tests {
    use redis::Arg;
    use vko_core::secret::Secret;

    use super::*;

    fn sent(command: &Command) -> Vec<Vec<String>> {
        let word = |arg: Arg<&[u8]>| match arg {
            Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => panic!("a word of no text"),
        };
        words(command).cmd_iter().map(|cmd| cmd.args_iter().map(word).collect()).collect()
    }

    #[test]
    fn every_command_has_its_words() {
        let v4 = "10.0.0.7".parse().unwrap();
        let v6 = "fd00::7".parse().unwrap();
        let cases: Vec<(Command, &[&str])> = vec![
            (Command::LightProbe, &["INFO", "server", "replication", "persistence", "keyspace"]),
            (Command::FullInfo, &["INFO", "server", "clients", "memory", "persistence", "stats", "replication", "keyspace"]),
            (Command::Role, &["ROLE"]),
            (Command::ConfigGet(vec!["maxmemory".into(), "save".into()]), &["CONFIG", "GET", "maxmemory", "save"]),
            (
                Command::ConfigSet(vec![
                    ("save".into(), ConfigValue::Text("3600 1".into())),
                    ("masterauth".into(), ConfigValue::Credential(Secret::new("a b\r\nFLUSHALL"))),
                ]),
                &["CONFIG", "SET", "save", "3600 1", "masterauth", "a b\r\nFLUSHALL"],
            ),
            (Command::ReplicaOf { ip: v6, port: 6379 }, &["REPLICAOF", "fd00::7", "6379"]),
            (Command::ReplicaOfNobody { loopback: "::1".parse().unwrap() }, &["REPLICAOF", "::1", "1"]),
            (Command::ReplicaOfNoOne, &["REPLICAOF", "NO", "ONE"]),
            (
                Command::FailoverTo { ip: v4, port: 6380, timeout_ms: 1500 },
                &["FAILOVER", "TO", "10.0.0.7", "6380", "TIMEOUT", "1500"],
            ),
            (Command::FailoverAbort, &["FAILOVER", "ABORT"]),
            (Command::PauseWrites { time_ms: 2000 }, &["CLIENT", "PAUSE", "2000", "WRITE"]),
            (Command::Unpause, &["CLIENT", "UNPAUSE"]),
            (Command::KillNormalClients, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]),
            (Command::KillUser("operator".into()), &["CLIENT", "KILL", "USER", "operator", "SKIPME", "yes"]),
            (Command::BackgroundSave, &["BGSAVE"]),
        ];
        for (command, expected) in cases {
            assert_eq!(sent(&command), [expected], "{}", command.name());
        }
    }

    #[test]
    fn every_command_to_a_cluster_has_its_words() {
        let node = || "07c37dfeb235213a872192d90877d0cd55635b91".to_owned();
        let v6 = "fd00::7".parse().unwrap();
        let cases: Vec<(Command, &[&str])> = vec![
            (Command::ClusterNodes, &["CLUSTER", "NODES"]),
            (Command::ClusterMeet { ip: v6, port: 6379, bus_port: 16379 }, &["CLUSTER", "MEET", "fd00::7", "6379", "16379"]),
            (Command::ClusterForget(node()), &["CLUSTER", "FORGET", "07c37dfeb235213a872192d90877d0cd55635b91"]),
            (Command::ClusterReplicate(node()), &["CLUSTER", "REPLICATE", "07c37dfeb235213a872192d90877d0cd55635b91"]),
            (
                Command::ClusterAddSlots(vec![(0, 5460), (16383, 16383)]),
                &["CLUSTER", "ADDSLOTSRANGE", "0", "5460", "16383", "16383"],
            ),
            (Command::ClusterSetSlotStable(7), &["CLUSTER", "SETSLOT", "7", "STABLE"]),
            (
                Command::ClusterSetSlotNode { slot: 7, node: node() },
                &["CLUSTER", "SETSLOT", "7", "NODE", "07c37dfeb235213a872192d90877d0cd55635b91"],
            ),
            (Command::ClusterFailover(ClusterFailover::Coordinated), &["CLUSTER", "FAILOVER"]),
            (Command::ClusterFailover(ClusterFailover::Force), &["CLUSTER", "FAILOVER", "FORCE"]),
            (Command::ClusterFailover(ClusterFailover::Takeover), &["CLUSTER", "FAILOVER", "TAKEOVER"]),
            (Command::ClusterBumpEpoch, &["CLUSTER", "BUMPEPOCH"]),
            (Command::ClusterResetHard, &["CLUSTER", "RESET", "HARD"]),
        ];
        for (command, expected) in cases {
            assert_eq!(sent(&command), [expected], "{}", command.name());
        }
    }

    #[test]
    fn every_command_to_a_sentinel_has_its_words() {
        let name = || "mymaster".to_owned();
        let v4 = "10.0.0.7".parse().unwrap();
        let cases: Vec<(Command, &[&str])> = vec![
            (Command::SentinelMasters, &["SENTINEL", "MASTERS"]),
            (Command::SentinelReplicas(name()), &["SENTINEL", "REPLICAS", "mymaster"]),
            (Command::SentinelPeers(name()), &["SENTINEL", "SENTINELS", "mymaster"]),
            (Command::SentinelCheckQuorum(name()), &["SENTINEL", "CKQUORUM", "mymaster"]),
            (
                Command::SentinelMonitor { name: name(), ip: v4, port: 6379, quorum: 2 },
                &["SENTINEL", "MONITOR", "mymaster", "10.0.0.7", "6379", "2"],
            ),
            (Command::SentinelRemove(name()), &["SENTINEL", "REMOVE", "mymaster"]),
            (Command::SentinelReset(name()), &["SENTINEL", "RESET", "mymaster"]),
            (Command::SentinelFailover(name()), &["SENTINEL", "FAILOVER", "mymaster"]),
            (
                Command::SentinelSet {
                    name: name(),
                    options: vec![
                        ("down-after-milliseconds".into(), ConfigValue::Text("5000".into())),
                        ("auth-pass".into(), ConfigValue::Credential(Secret::new("a b"))),
                    ],
                },
                &["SENTINEL", "SET", "mymaster", "down-after-milliseconds", "5000", "auth-pass", "a b"],
            ),
        ];
        for (command, expected) in cases {
            assert_eq!(sent(&command), [expected], "{}", command.name());
        }
    }

    #[test]
    fn probes_ask_all_in_one_go() {
        let cluster: [&[&str]; 3] =
            [&["INFO", "server", "replication", "persistence", "keyspace"], &["CLUSTER", "INFO"], &["CLUSTER", "SLOTS"]];
        assert_eq!(sent(&Command::ClusterProbe), cluster);
        let sentinel: [&[&str]; 3] = [&["INFO", "server"], &["INFO", "sentinel"], &["SENTINEL", "MYID"]];
        assert_eq!(sent(&Command::SentinelProbe), sentinel);
    }

    #[test]
    fn secrets_are_known_by_where_they_stand() {
        let set = Command::ConfigSet(vec![
            ("masteruser".into(), ConfigValue::Text("replication".into())),
            ("masterauth".into(), ConfigValue::Credential(Secret::new("hunter2"))),
        ]);
        assert_eq!(secrets(&set), ["hunter2"]);
        let options = vec![("auth-pass".into(), ConfigValue::Credential(Secret::new("hunter2")))];
        assert_eq!(secrets(&Command::SentinelSet { name: "mymaster".into(), options }), ["hunter2"]);
        assert!(secrets(&Command::Role).is_empty());
    }
}
