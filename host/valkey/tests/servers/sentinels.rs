//! Sentinels that are told with the typed commands whom to monitor: what they say, what they do, and with which rights.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use vko_core::command::{Command, ConfigValue, Reply, SentinelEvent};
use vko_core::secret::Secret;
use vko_core::world::{ServerError, Servers};
use vko_model::accounts::{Account, ServerRole, setuser_rules};
use vko_model::info::Role;
use vko_model::replication::promotable;
use vko_model::sentinel::{KnownReplica, Monitored, Peer, SentinelInfo};
use vko_model::{Info, Line};
use vko_valkey::Administration;

use crate::support::{LONG, Server, call, eventually, eventually_async, hashes, password};

const NAME: &str = "mymaster";
/// How often a Sentinel asks a primary for its replicas.
const ASKED_AGAIN: Duration = Duration::from_secs(10);

/// A primary with a replica, and Sentinels.
struct Watched {
    line: Line,
    primary: Server,
    replica: Server,
    sentinels: Vec<Server>,
    servers: Administration,
}

impl Watched {
    fn start(line: Line, sentinels: usize) -> Self {
        let primary = Server::start_as(ServerRole::Failover, line, "repl-diskless-sync-delay 0");
        let follow = format!("repl-diskless-sync-delay 0\nreplicaof 127.0.0.1 {}", primary.port);
        let replica = Server::start_as(ServerRole::Failover, line, &follow);
        let sentinels = (0..sentinels).map(|_| Server::start_as(ServerRole::Sentinel, line, "")).collect();
        let all = Self { line, primary, replica, sentinels, servers: Administration::new() };
        eventually("the replica is synced", || {
            let info = all.primary.info();
            promotable(&all.replica.info(), info.replicas.first()).is_ok()
        });
        all
    }

    async fn ask(&self, sentinel: usize, command: Command) -> Result<Reply, ServerError> {
        call(&self.servers, &self.sentinels[sentinel].target("operator"), command).await
    }

    async fn order(&self, sentinel: usize, command: Command) {
        let name = command.name();
        assert_eq!(self.ask(sentinel, command).await, Ok(Reply::Done), "{} {name}", self.line);
    }

    async fn monitor(&self, down_after_ms: u64) {
        for sentinel in 0..self.sentinels.len() {
            let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
            // As the host does: until all is set, nobody reaches the quorum.
            self.order(sentinel, Command::SentinelMonitor { name: NAME.into(), ip, port: self.primary.port, quorum: 1_000 })
                .await;
            let text = |value: &str| ConfigValue::Text(value.to_owned());
            let options = vec![
                ("auth-user".to_owned(), text("sentinel")),
                ("auth-pass".to_owned(), ConfigValue::Credential(Secret::new(password("sentinel")))),
                ("down-after-milliseconds".to_owned(), text(&down_after_ms.to_string())),
                ("quorum".to_owned(), text("1")),
            ];
            self.order(sentinel, Command::SentinelSet { name: NAME.into(), options }).await;
        }
    }

    async fn monitored(&self, sentinel: usize) -> Option<Monitored> {
        self.maps(sentinel, Command::SentinelMasters).await.iter().find_map(Monitored::read)
    }

    async fn maps(&self, sentinel: usize, command: Command) -> Vec<std::collections::BTreeMap<String, String>> {
        match self.ask(sentinel, command).await {
            Ok(Reply::Maps(maps)) => maps,
            other => panic!("{}: {other:?}", self.line),
        }
    }

    /// Waits until each knows the replica and the others.
    async fn acquainted(&self) {
        eventually_async("Sentinels and replicas are known", async || {
            let others = u32::try_from(self.sentinels.len() - 1).unwrap();
            for sentinel in 0..self.sentinels.len() {
                let known = self.monitored(sentinel).await.unwrap();
                if (known.other_sentinels, known.replicas) != (Some(others), Some(1)) {
                    return false;
                }
                let replicas = self.maps(sentinel, Command::SentinelReplicas(NAME.into())).await;
                let replica = replicas.iter().find_map(KnownReplica::read).unwrap();
                if replica.link_up != Some(true) || replica.run_id.is_none() {
                    return false;
                }
            }
            true
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_are_told_and_tell() {
    for line in Line::ALL {
        let watched = Watched::start(line, 3);
        let Ok(Reply::SentinelProbe { server, sentinel, id }) = watched.ask(0, Command::SentinelProbe).await else {
            panic!("{line}: no probe")
        };
        assert!(Info::parse(&server).run_id.is_some(), "{line}: {server}");
        assert_eq!(
            SentinelInfo::parse(&sentinel),
            SentinelInfo { tilt: Some(false), masters: Some(0), monitored: vec![] },
            "{line}"
        );
        let mut events = watched.servers.subscribe(&watched.sentinels[0].target("operator")).await.unwrap();
        let began = Instant::now();
        watched.monitor(60_000).await;
        watched.acquainted().await;
        let took = began.elapsed();
        println!("{line}: told of a primary that has its replica, Sentinels know all after {took:?}");
        assert!(took < ASKED_AGAIN, "{line}: only when they asked the primary a second time: {took:?}");

        let again = Command::SentinelMonitor { name: NAME.into(), ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 1, quorum: 1 };
        let again = watched.ask(0, again).await;
        assert!(matches!(again, Err(ServerError::Refused { .. })), "{line}: {again:?}");
        let monitored = watched.monitored(0).await.unwrap();
        assert_eq!((monitored.quorum, monitored.address.port), (Some(1), watched.primary.port), "{line}");
        assert_eq!(monitored.options["down-after-milliseconds"], "60000", "{line}");
        assert!(!monitored.health.unwrap().is_down() && monitored.failover_state.is_none(), "{line}: {monitored:?}");
        assert!(!format!("{monitored:?}").contains(&password("sentinel")), "{line}");
        let peers: Vec<_> = watched.maps(1, Command::SentinelPeers(NAME.into())).await.iter().filter_map(Peer::read).collect();
        assert!(peers.iter().any(|peer| peer.id.as_deref() == Some(id.as_str())), "{line}: {peers:?}");
        let quorum = watched.ask(0, Command::SentinelCheckQuorum(NAME.into())).await;
        assert!(matches!(&quorum, Ok(Reply::Text(text)) if text.starts_with("OK 3 usable")), "{line}: {quorum:?}");

        watched.order(0, Command::SentinelFailover(NAME.into())).await;
        let switched = switch(&mut events).await;
        assert!(switched.message.ends_with(&format!("127.0.0.1 {}", watched.replica.port)), "{line}: {switched:?}");
        assert_eq!(watched.replica.info().role, Some(Role::Primary), "{line}");
        eventually_async("all follow the switch", async || {
            let mut ports = Vec::new();
            for sentinel in 0..3 {
                ports.push(watched.monitored(sentinel).await.unwrap().address.port);
            }
            ports == [watched.replica.port; 3]
        })
        .await;
        let epoch = watched.monitored(0).await.unwrap().config_epoch;
        assert!(epoch > monitored.config_epoch, "{line}: {epoch:?}");

        watched.order(0, Command::SentinelReset(NAME.into())).await;
        watched.order(0, Command::SentinelRemove(NAME.into())).await;
        assert_eq!(watched.monitored(0).await, None, "{line}");
    }
}

async fn switch(events: &mut tokio::sync::mpsc::Receiver<SentinelEvent>) -> SentinelEvent {
    let switched = async {
        loop {
            let event = events.recv().await.expect("the subscription should last");
            if event.channel == "+switch-master" {
                return event;
            }
        }
    };
    tokio::time::timeout(LONG, switched).await.expect("no switch was published")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_ends_with_its_sentinel_and_with_all_connections() {
    for line in Line::ALL {
        let servers = Administration::new();
        let sentinel = Server::start_as(ServerRole::Sentinel, line, "");
        let target = sentinel.target("operator");
        let mut first = servers.subscribe(&target).await.unwrap();
        servers.close_all();
        let ended = tokio::time::timeout(LONG, first.recv()).await;
        assert_eq!(ended, Ok(None), "{line}: all connections were closed");
        let mut second = servers.subscribe(&target).await.unwrap();
        let subscribed = || format!("{:?}", sentinel.run(&["CLIENT", "LIST", "TYPE", "pubsub"])).contains("valkey-operator");
        assert!(subscribed(), "{line}");
        let third = servers.subscribe(&target).await.unwrap();
        drop(third);
        let count = || format!("{:?}", sentinel.run(&["CLIENT", "LIST", "TYPE", "pubsub"])).matches("valkey-operator").count();
        eventually("nobody listens to the third any more", || count() == 1);
        drop(sentinel);
        let ended = tokio::time::timeout(LONG, second.recv()).await;
        assert_eq!(ended, Ok(None), "{line}: the Sentinel has gone");
    }
}

/// Takes several rights away.
fn without_all(server: &Server, rights: &[&str]) {
    let rules: Vec<_> =
        Account::Sentinel.rules(server.role, server.line).into_iter().filter(|rule| !rights.contains(rule)).collect();
    let words = setuser_rules("sentinel", &rules, &hashes("sentinel"), false).unwrap();
    server.run(&["ACL", "SETUSER", "sentinel"].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>());
}

/// Waits until each of the rights was asked for.
fn until_denied(server: &Server, rights: &[&str]) {
    let wanted: BTreeSet<_> = rights.iter().map(|right| right.trim_start_matches(['+', '&']).to_owned()).collect();
    let mut missing = Vec::new();
    eventually(&format!("{:?} {}: {rights:?} are asked for", server.role, server.line), || {
        let denied: BTreeSet<_> = server.denied("sentinel").into_iter().collect();
        missing = wanted.difference(&denied).cloned().collect();
        missing.is_empty()
    });
}

/// All that a Sentinel does at a data server, in three parts, since each rests on the one before.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_ask_data_servers_for_each_of_their_rights() {
    let watching = ["+ping", "+info", "+publish", "+subscribe", "+client|setname"];
    let channel = ["&__sentinel__:hello"];
    let promoting = ["+multi", "+slaveof", "+config|rewrite", "+client|kill", "+exec"];
    for line in Line::ALL {
        let rules = Account::Sentinel.rules(ServerRole::Failover, line);
        let rights: BTreeSet<_> = rules.iter().filter(|rule| rule.starts_with(['+', '&'])).copied().collect();
        assert_eq!(rights, [&watching[..], &channel, &promoting].concat().into_iter().collect(), "{line}");
        let watched = Watched::start(line, 1);
        for part in [&watching[..], &channel] {
            without_all(&watched.primary, part);
            if part == watching {
                watched.monitor(60_000).await;
            }
            until_denied(&watched.primary, part);
        }
        without_all(&watched.primary, &[]);
        watched.acquainted().await;
        without_all(&watched.replica, &promoting);
        watched.order(0, Command::SentinelFailover(NAME.into())).await;
        until_denied(&watched.replica, &promoting);
        assert_eq!(watched.replica.info().role, Some(Role::Replica), "{line}: nobody is promoted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_ask_each_other_for_each_of_their_rights() {
    let found = ["+ping", "+publish", "+client|setname"];
    let channel = ["&__sentinel__:hello"];
    let vote = ["+sentinel|is-master-down-by-addr"];
    for line in Line::ALL {
        let rules = Account::Sentinel.rules(ServerRole::Sentinel, line);
        let rights: BTreeSet<_> = rules.iter().filter(|rule| rule.starts_with(['+', '&'])).copied().collect();
        assert_eq!(rights, [&found[..], &channel, &vote].concat().into_iter().collect(), "{line}");
        let mut watched = Watched::start(line, 2);
        watched.monitor(1000).await;
        watched.acquainted().await;
        without_all(&watched.sentinels[1], &found);
        watched.sentinels[1].run(&["CLIENT", "KILL", "USER", "sentinel"]);
        until_denied(&watched.sentinels[1], &found);
        without_all(&watched.sentinels[1], &channel);
        until_denied(&watched.sentinels[1], &channel);
        without_all(&watched.sentinels[1], &vote);
        let elsewhere = Server::start_as(ServerRole::Failover, line, "");
        drop(std::mem::replace(&mut watched.primary, elsewhere));
        until_denied(&watched.sentinels[1], &vote);
    }
}

#[test]
fn a_login_that_is_refused_makes_no_subscription() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let sentinel = Server::start_as(ServerRole::Sentinel, Line::V9_1, "");
        let mut target = sentinel.target("operator");
        target.credential.password = Secret::new("another");
        let refused = Administration::new().subscribe(&target).await;
        assert!(matches!(refused, Err(ServerError::Login(_))));
    });
}
