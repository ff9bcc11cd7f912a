//! A typed command as the words of the protocol.

use redis::Cmd;
use vko_core::command::{Command, ConfigValue};
use vko_model::replication::NOBODY_PORT;

/// Sections that a full look needs. Naming them leaves out the long ones (command statistics, latencies, errors).
const FULL_SECTIONS: [&str; 7] = ["server", "clients", "memory", "persistence", "stats", "replication", "keyspace"];

/// Sections that tell whether anything has changed.
const LIGHT_SECTIONS: [&str; 4] = ["server", "replication", "persistence", "keyspace"];

/// The words. Values go as words of their own: nothing in them can become another command.
pub(crate) fn words(command: &Command) -> Cmd {
    match command {
        Command::LightProbe => cmd(&["INFO"], LIGHT_SECTIONS),
        Command::FullInfo => cmd(&["INFO"], FULL_SECTIONS),
        Command::Role => cmd(&["ROLE"], [] as [&str; 0]),
        Command::ConfigGet(names) => cmd(&["CONFIG", "GET"], names),
        Command::ConfigSet(pairs) => cmd(&["CONFIG", "SET"], pairs.iter().flat_map(|(name, value)| [name.as_str(), text(value)])),
        Command::AclList => cmd(&["ACL", "LIST"], [] as [&str; 0]),
        Command::AclSetUser { name, rules } => cmd(&["ACL", "SETUSER", name], rules),
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
        Command::BackgroundSave => cmd(&["BGSAVE"], [] as [&str; 0]),
    }
}

/// What must not appear in an error's text, though the server may repeat it there.
pub(crate) fn secrets(command: &Command) -> Vec<String> {
    match command {
        Command::ConfigSet(pairs) => pairs
            .iter()
            .filter_map(|(_, value)| match value {
                ConfigValue::Credential(secret) => Some(secret.reveal().to_owned()),
                ConfigValue::Text(_) => None,
            })
            .collect(),
        Command::AclSetUser { rules, .. } => {
            rules.iter().filter_map(|rule| rule.strip_prefix(['#', '!', '>', '<'])).map(str::to_owned).collect()
        }
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

    fn sent(command: &Command) -> Vec<String> {
        let word = |arg: Arg<&[u8]>| match arg {
            Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => panic!("a word of no text"),
        };
        words(command).args_iter().map(word).collect()
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
            (Command::AclList, &["ACL", "LIST"]),
            (
                Command::AclSetUser { name: "probe".into(), rules: vec!["reset".into(), "+ping".into()] },
                &["ACL", "SETUSER", "probe", "reset", "+ping"],
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
            assert_eq!(sent(&command), expected, "{}", command.name());
        }
    }

    #[test]
    fn secrets_are_known_by_where_they_stand() {
        let set = Command::ConfigSet(vec![
            ("masteruser".into(), ConfigValue::Text("replication".into())),
            ("masterauth".into(), ConfigValue::Credential(Secret::new("hunter2"))),
        ]);
        assert_eq!(secrets(&set), ["hunter2"]);
        let user = Command::AclSetUser { name: "probe".into(), rules: vec!["reset".into(), "#abc".into(), "+ping".into()] };
        assert_eq!(secrets(&user), ["abc"]);
        assert!(secrets(&Command::Role).is_empty());
    }
}
