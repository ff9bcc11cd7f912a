//! The operator's account: every command of the typed list works with its rights, and each right is needed.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use vko_core::command::{ClusterFailover, Command, ConfigValue, Reply, RoleReply};
use vko_core::secret::Secret;
use vko_core::world::{ServerError, Servers};
use vko_model::Line;
use vko_model::accounts::{Account, ServerRole};
use vko_valkey::Administration;

use crate::accounts::without;
use crate::support::{LONG, Server, call, password};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// One command for each right beside the name of the connection.
fn one_for_each_right(role: ServerRole) -> Vec<(&'static str, Command)> {
    let everywhere = vec![("+client|kill", Command::KillUser("operator".into())), ("+client|setname", Command::LightProbe)];
    let data = vec![("+info", Command::LightProbe), ("+bgsave", Command::BackgroundSave)];
    let of_role = match role {
        ServerRole::Replica => replication(),
        ServerRole::Failover => {
            [replication(), vec![("+client|pause", Command::PauseWrites { time_ms: 1 }), ("+client|unpause", Command::Unpause)]]
                .concat()
        }
        ServerRole::Cluster => vec![
            ("+cluster|info", Command::ClusterProbe),
            ("+cluster|slots", Command::ClusterProbe),
            ("+cluster|nodes", Command::ClusterNodes),
            ("+cluster|meet", Command::ClusterMeet { ip: LOOPBACK, port: 1, bus_port: 2 }),
            ("+cluster|forget", Command::ClusterForget("x".into())),
            ("+cluster|replicate", Command::ClusterReplicate("x".into())),
            ("+cluster|addslotsrange", Command::ClusterAddSlots(vec![(1, 2)])),
            ("+cluster|setslot", Command::ClusterSetSlotStable(1)),
            ("+cluster|failover", Command::ClusterFailover(ClusterFailover::Coordinated)),
            ("+cluster|bumpepoch", Command::ClusterBumpEpoch),
            ("+cluster|reset", Command::ClusterResetHard),
        ],
        ServerRole::Sentinel => return [everywhere, one_for_each_right_at_a_sentinel()].concat(),
    };
    [everywhere, data, of_role].concat()
}

fn replication() -> Vec<(&'static str, Command)> {
    vec![
        ("+role", Command::Role),
        ("+config|get", Command::ConfigGet(vec!["maxmemory".into()])),
        ("+config|set", Command::ConfigSet(vec![("timeout".into(), ConfigValue::Text("0".into()))])),
        ("+replicaof", Command::ReplicaOfNobody { loopback: LOOPBACK }),
        ("+failover", Command::FailoverAbort),
    ]
}

fn one_for_each_right_at_a_sentinel() -> Vec<(&'static str, Command)> {
    let name = || "mymaster".to_owned();
    vec![
        ("+info", Command::SentinelProbe),
        ("+sentinel|myid", Command::SentinelProbe),
        ("+sentinel|masters", Command::SentinelMasters),
        ("+sentinel|replicas", Command::SentinelReplicas(name())),
        ("+sentinel|sentinels", Command::SentinelPeers(name())),
        ("+sentinel|ckquorum", Command::SentinelCheckQuorum(name())),
        ("+sentinel|monitor", Command::SentinelMonitor { name: name(), ip: LOOPBACK, port: 1, quorum: 1 }),
        ("+sentinel|remove", Command::SentinelRemove(name())),
        ("+sentinel|reset", Command::SentinelReset(name())),
        ("+sentinel|set", Command::SentinelSet { name: name(), options: vec![("quorum".into(), ConfigValue::Text("1".into()))] }),
        ("+sentinel|failover", Command::SentinelFailover(name())),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_right_is_needed_and_no_other() {
    for line in Line::ALL {
        for role in ServerRole::ALL {
            let server = Server::start_as(role, line, if role == ServerRole::Cluster { "cluster-enabled yes" } else { "" });
            each_right_of_a_server(&server).await;
        }
    }
}

async fn each_right_of_a_server(server: &Server) {
    let (role, line) = (server.role, server.line);
    let context = format!("{role:?} {line}");
    let target = server.target("operator");
    let table = one_for_each_right(role);
    let rules = Account::Operator.rules(role, line);
    let rights: BTreeSet<_> = rules.into_iter().filter(|rule| rule.starts_with('+') && *rule != "+subscribe").collect();
    assert_eq!(rights, table.iter().map(|(right, _)| *right).collect(), "{context}: one command for each right");
    for (right, command) in table {
        without(server, Account::Operator, right);
        // A new connection each time: the name is set at its start.
        let refused = Administration::new().call(&target, command, LONG).await;
        assert!(matches!(refused, Err(ServerError::NoPermission(_))), "{context} without {right}: {refused:?}");
    }
    if role == ServerRole::Sentinel {
        for right in ["+subscribe", "&*"] {
            without(server, Account::Operator, right);
            let refused = Administration::new().subscribe(&target).await;
            assert!(matches!(refused, Err(ServerError::NoPermission(_))), "{context} without {right}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_works() {
    for line in Line::ALL {
        // Of the failover architecture, whose operator may do the most.
        let (primary, replica) =
            (Server::start_as(ServerRole::Failover, line, ""), Server::start(line, "replicaof 127.0.0.1 1\n"));
        let servers = Administration::new();
        let (first, second) = (primary.target("operator"), replica.target("operator"));
        let follow = Command::ReplicaOf { ip: LOOPBACK, port: primary.port };
        let auth = ConfigValue::Credential(Secret::new(password("replication")));
        let done = [
            (&second, Command::ConfigSet(vec![("masterauth".into(), auth), ("timeout".into(), ConfigValue::Text("0".into()))])),
            (&second, follow.clone()),
            (&second, Command::ReplicaOfNobody { loopback: LOOPBACK }),
            (&second, Command::ReplicaOfNoOne),
            (&first, Command::PauseWrites { time_ms: 600_000 }),
            (&first, Command::Unpause),
            (&first, Command::BackgroundSave),
            (&first, Command::KillNormalClients),
            (&first, Command::KillUser("operator".into())),
        ];
        for (target, command) in done {
            let name = command.name();
            assert_eq!(call(&servers, target, command).await, Ok(Reply::Done), "{line} {name}");
        }
        let lone = call(&servers, &first, Command::Role).await;
        assert!(matches!(&lone, Ok(Reply::Role(RoleReply::Primary { replicas, .. })) if replicas.is_empty()), "{line}: {lone:?}");
        let none = call(&servers, &first, Command::FailoverAbort).await;
        assert!(matches!(&none, Err(ServerError::Refused { code, .. }) if code == "ERR"), "{line}: {none:?}");
        assert_eq!(call(&servers, &second, Command::ReplicaOfNobody { loopback: LOOPBACK }).await, Ok(Reply::Done), "{line}");
        match call(&servers, &second, Command::Role).await {
            Ok(Reply::Role(RoleReply::Replica { host, port, .. })) => {
                assert_eq!((host.as_str(), port), ("127.0.0.1", 1), "{line}")
            }
            other => panic!("{line}: {other:?}"),
        }
        let get = Command::ConfigGet(vec!["timeout".into(), "no-such-directive".into()]);
        assert_eq!(
            call(&servers, &first, get).await,
            Ok(Reply::Pairs([("timeout".to_owned(), "0".to_owned())].into())),
            "{line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sessions_of_the_account_end_and_this_one_stays() {
    for line in Line::ALL {
        let server = Server::start(line, "");
        let (mine, former) = (Administration::new(), Administration::new());
        let target = server.target("operator");
        assert!(call(&former, &target, Command::Role).await.is_ok(), "{line}");
        assert_eq!(call(&mine, &target, Command::KillUser("operator".into())).await, Ok(Reply::Done), "{line}");
        let cut = call(&former, &target, Command::ReplicaOfNoOne).await;
        assert!(matches!(cut, Err(ServerError::Lost(_))), "{line}: {cut:?}");
        assert!(call(&mine, &target, Command::Role).await.is_ok(), "{line}");
        let list = format!("{:?}", server.run(&["CLIENT", "LIST"]));
        assert!(list.contains("name=valkey-operator"), "{line}: {list}");
    }
}
