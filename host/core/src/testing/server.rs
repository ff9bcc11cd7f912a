//! The servers of the world in memory: roles, histories, the fence, hand-overs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::mpsc;
use vko_model::replication::NOBODY_PORT;

use super::{FakeNode, FakeWorld, State};
use crate::command::{Command, ConfigValue, Reply, RoleReply, SentinelEvent};
use crate::world::{ServerError, Servers, Target};

/// One server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FakeServer {
    /// Name of its pod, for what is noted.
    pub(crate) name: String,
    /// Address.
    pub(crate) ip: IpAddr,
    /// Run.
    pub(crate) run_id: String,
    /// Whom it follows; `None` for a primary. Loopback is nobody.
    pub(crate) upstream: Option<IpAddr>,
    /// History.
    pub(crate) replid: String,
    /// History before.
    pub(crate) second_replid: String,
    /// Offset in it.
    pub(crate) offset: u64,
    /// Keys.
    pub(crate) keys: u64,
    /// Directives.
    pub(crate) config: BTreeMap<String, String>,
    /// `no-failover` and the like.
    pub(crate) failover: String,
    /// What it is in a cluster.
    pub(crate) node: Option<FakeNode>,
    /// Until when (since the world began) it holds writes back.
    pub(crate) paused: Option<Duration>,
    /// It gives no answer.
    pub(crate) silent: bool,
    /// Hand-overs stay where they are: its replica stands still.
    pub(crate) stuck: bool,
    /// Commands of these names happen and bring no answer.
    pub(crate) answers_lost: Vec<&'static str>,
    /// Commands of these names change nothing, though they are answered.
    pub(crate) ignores: Vec<&'static str>,
}

impl FakeServer {
    /// A primary.
    pub(crate) fn primary(name: &str, ip: &str) -> Self {
        Self {
            name: name.into(),
            ip: ip.parse().unwrap(),
            run_id: format!("run-{name}"),
            upstream: None,
            replid: "h1".into(),
            second_replid: String::new(),
            offset: 1_000,
            keys: 10,
            config: BTreeMap::new(),
            failover: "no-failover".into(),
            node: None,
            paused: None,
            silent: false,
            stuck: false,
            answers_lost: Vec::new(),
            ignores: Vec::new(),
        }
    }

    /// A replica of that address.
    pub(crate) fn replica(name: &str, ip: &str, primary: &str) -> Self {
        Self { upstream: Some(primary.parse().unwrap()), ..Self::primary(name, ip) }
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.upstream.is_none()
    }

    /// Height of its fence.
    pub(crate) fn fence(&self) -> u32 {
        self.config.get("min-replicas-to-write").map_or(0, |text| text.parse().unwrap())
    }

    pub(super) fn take_the_role(&mut self) {
        if self.upstream.take().is_some() {
            self.second_replid = std::mem::replace(&mut self.replid, format!("h-of-{}", self.name));
        }
    }

    pub(super) fn info(&self) -> String {
        let mut text = format!("# Server\r\nvalkey_version:9.1.0\r\nrun_id:{}\r\nuptime_in_seconds:600\r\n", self.run_id);
        let role = if self.is_primary() { "master" } else { "slave" };
        let _ = write!(text, "# Persistence\r\nloading:0\r\n# Replication\r\nrole:{role}\r\n");
        if let Some(ip) = self.upstream {
            let (port, link) = if ip.is_loopback() { (NOBODY_PORT, "down") } else { (6379, "up") };
            let _ = write!(
                text,
                "master_host:{ip}\r\nmaster_port:{port}\r\nmaster_link_status:{link}\r\nmaster_sync_in_progress:0\r\n"
            );
            let _ = write!(text, "slave_repl_offset:{}\r\n", self.offset);
        }
        let _ = write!(text, "master_failover_state:{}\r\nmaster_replid:{}\r\n", self.failover, self.replid);
        let _ = write!(text, "master_replid2:{}\r\nmaster_repl_offset:{}\r\n", self.second_replid, self.offset);
        if self.fence() > 0 {
            let _ = write!(text, "min_slaves_good_slaves:0\r\n");
        }
        let _ = write!(text, "# Keyspace\r\ndb0:keys={},expires=0,avg_ttl=0\r\n", self.keys);
        text
    }

    fn role(&self) -> RoleReply {
        match self.upstream {
            None => RoleReply::Primary { offset: self.offset, replicas: Vec::new() },
            Some(ip) => RoleReply::Replica { host: ip.to_string(), port: 6379, state: "connected".into(), offset: 1 },
        }
    }
}

impl State {
    fn command(&mut self, target: &Target, command: &Command, deadline: Duration) -> Result<Reply, ServerError> {
        self.requests += 1;
        let name = command.name();
        let server = self.servers.get(&target.pod).filter(|server| !server.silent && server.ip == target.ip);
        let Some(server) = server.cloned().filter(|_| !self.has_ended()) else {
            return self.ask_sentinel(target, command, deadline);
        };
        if command.is_effect() {
            self.effect(format!("{}: {name}", server.name)).map_err(|_| ServerError::Silent(deadline))?;
        }
        let reply = match &server.node {
            _ if server.ignores.contains(&name) => Ok(Reply::Done),
            Some(_) => match self.obey_as_node(&target.pod, command) {
                Some(reply) => reply,
                None => self.obey(&target.pod, command),
            },
            None => self.obey(&target.pod, command),
        };
        if server.answers_lost.contains(&name) { Err(ServerError::Silent(deadline)) } else { reply }
    }

    fn obey(&mut self, pod: &str, command: &Command) -> Result<Reply, ServerError> {
        if let Command::FailoverTo { ip, .. } = command {
            return self.fail_over(pod, *ip);
        }
        let attached = self.attached(pod);
        let time = self.time;
        let server = self.servers.get_mut(pod).unwrap();
        Ok(match command {
            Command::PauseWrites { time_ms } => {
                server.paused = Some(time + Duration::from_millis(*time_ms));
                Reply::Done
            }
            Command::Unpause => {
                server.paused = None;
                Reply::Done
            }
            Command::LightProbe | Command::FullInfo => Reply::Text(server.info() + &attached),
            Command::Role => Reply::Role(server.role()),
            Command::ConfigGet(names) => {
                let of = |name: &String| (name.clone(), server.config.get(name).cloned().unwrap_or_else(|| "0".into()));
                Reply::Pairs(names.iter().map(of).collect())
            }
            Command::ConfigSet(pairs) => {
                let text = |value: &ConfigValue| match value {
                    ConfigValue::Text(text) => text.clone(),
                    ConfigValue::Credential(secret) => secret.reveal().to_owned(),
                };
                server.config.extend(pairs.iter().map(|(name, value)| (name.clone(), text(value))));
                Reply::Done
            }
            Command::ReplicaOf { ip, .. } => {
                server.upstream = Some(*ip);
                Reply::Done
            }
            Command::ReplicaOfNobody { loopback } => {
                server.upstream = Some(*loopback);
                Reply::Done
            }
            Command::ReplicaOfNoOne => {
                server.take_the_role();
                Reply::Done
            }
            Command::FailoverAbort => {
                (server.upstream, server.failover) = (None, "no-failover".into());
                Reply::Done
            }
            _ => Reply::Done,
        })
    }

    /// Lines of INFO on the replicas of a server: the ones that follow its address.
    pub(super) fn attached(&self, pod: &str) -> String {
        let ip = self.servers[pod].ip;
        let followers = self.servers.values().filter(|server| server.upstream == Some(ip) && !server.silent);
        let line = |(index, server): (usize, &FakeServer)| {
            format!("slave{index}:ip={},port=6379,state=online,offset={},lag=0\r\n", server.ip, server.offset)
        };
        followers.enumerate().map(line).collect()
    }

    /// A hand-over that works at once; one that is stuck leaves the primary without its role, as was measured.
    fn fail_over(&mut self, pod: &str, to: IpAddr) -> Result<Reply, ServerError> {
        let primary = self.servers.get_mut(pod).unwrap();
        if !primary.is_primary() {
            return Err(ServerError::Refused {
                code: "ERR".into(),
                text: "FAILOVER is not valid when server is a replica.".into(),
            });
        }
        primary.upstream = Some(to);
        if primary.stuck {
            primary.failover = "failover-in-progress".into();
            return Ok(Reply::Done);
        }
        self.servers.values_mut().filter(|server| server.ip == to).for_each(FakeServer::take_the_role);
        Ok(Reply::Done)
    }
}

impl Servers for FakeWorld {
    async fn call(&self, target: &Target, command: Command, deadline: Duration) -> Result<Reply, ServerError> {
        self.state().command(target, &command, deadline)
    }

    async fn call_fresh(&self, target: &Target, command: Command, deadline: Duration) -> Result<Reply, ServerError> {
        self.state().command(target, &command, deadline)
    }

    /// Nobody speaks: the connection ends at once.
    async fn subscribe(&self, _: &Target) -> Result<mpsc::Receiver<SentinelEvent>, ServerError> {
        Ok(mpsc::channel(1).1)
    }

    fn forget(&self, _: &[String]) {}

    fn close_all(&self) {}
}
