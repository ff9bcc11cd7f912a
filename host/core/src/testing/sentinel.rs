//! Sentinels in the world in memory: they watch, agree with each other at once, and fail over when they are told to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::State;
use crate::command::{Command, ConfigValue, Reply};
use crate::world::{ServerError, Target};

/// One Sentinel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FakeSentinel {
    /// Name, for what is noted.
    pub(crate) name: String,
    /// What it watches.
    pub(crate) monitors: BTreeMap<String, FakeMonitor>,
    /// It gives no answer.
    pub(crate) silent: bool,
    /// A failover that it is told to make stays where it is.
    pub(crate) stuck: bool,
    /// Commands of these names change nothing, though they are answered.
    pub(crate) ignores: Vec<&'static str>,
}

/// What a Sentinel holds of one data set.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FakeMonitor {
    /// The primary's address.
    pub(crate) ip: Option<IpAddr>,
    /// Options as they were set, credentials in clear.
    pub(crate) options: BTreeMap<String, String>,
    /// Config epoch.
    pub(crate) epoch: u64,
    /// `none`, `wait_start` ...
    pub(crate) failover: String,
}

impl FakeMonitor {
    /// It watches that address with a quorum of 2.
    pub(crate) fn of(ip: &str) -> Self {
        let options = BTreeMap::from([("quorum".to_owned(), "2".to_owned())]);
        Self { ip: Some(ip.parse().unwrap()), options, epoch: 1, failover: String::new() }
    }
}

fn refused(text: &str) -> ServerError {
    ServerError::Refused { code: "ERR".into(), text: text.into() }
}

impl State {
    /// What a Sentinel does, if the target is one that answers.
    pub(super) fn ask_sentinel(&mut self, target: &Target, command: &Command, deadline: Duration) -> Result<Reply, ServerError> {
        let sentinel = self.sentinels.get(&target.pod).filter(|sentinel| !sentinel.silent);
        let Some(sentinel) = sentinel.cloned().filter(|_| !self.has_ended()) else { return Err(ServerError::Silent(deadline)) };
        let name = command.name();
        if command.is_effect() {
            self.effect(format!("{}: {name}", sentinel.name)).map_err(|_| ServerError::Silent(deadline))?;
        }
        if sentinel.ignores.contains(&name) { Ok(Reply::Done) } else { self.obey_as_sentinel(&target.pod, command) }
    }

    fn obey_as_sentinel(&mut self, id: &str, command: &Command) -> Result<Reply, ServerError> {
        let others = self.sentinels.len() - 1;
        let sentinel = self.sentinels.get_mut(id).unwrap();
        match command {
            Command::SentinelMasters => {
                return Ok(Reply::Maps(sentinel.monitors.iter().map(|(name, monitor)| shown(name, monitor, others)).collect()));
            }
            Command::SentinelMonitor { name, ip, quorum, .. } => {
                if sentinel.monitors.contains_key(name) {
                    return Err(refused("Duplicate master name"));
                }
                let mut monitor = FakeMonitor { ip: Some(*ip), ..FakeMonitor::default() };
                monitor.options.insert("quorum".into(), quorum.to_string());
                sentinel.monitors.insert(name.clone(), monitor);
            }
            Command::SentinelRemove(name) => {
                sentinel.monitors.remove(name).ok_or_else(|| refused("No such master with that name"))?;
            }
            Command::SentinelReset(name) => {
                sentinel.monitors.get(name).ok_or_else(|| refused("No such master with that name"))?;
            }
            Command::SentinelSet { name, options } => {
                let monitor = sentinel.monitors.get_mut(name).ok_or_else(|| refused("No such master with that name"))?;
                let text = |value: &ConfigValue| match value {
                    ConfigValue::Text(text) => text.clone(),
                    ConfigValue::Credential(secret) => secret.reveal().to_owned(),
                };
                monitor.options.extend(options.iter().map(|(key, value)| (key.clone(), text(value))));
            }
            Command::SentinelProbe => {
                let line = |(at, (name, monitor)): (usize, (&String, &FakeMonitor))| {
                    let ip = monitor.ip.map(|ip| ip.to_string()).unwrap_or_default();
                    format!("master{at}:name={name},status=ok,address={ip}:6379,slaves=0,sentinels={}\r\n", others + 1)
                };
                let sentinel = sentinel.monitors.iter().enumerate().map(line).collect();
                return Ok(Reply::SentinelProbe { server: "run_id:r\r\n".into(), sentinel, id: id.to_owned() });
            }
            Command::SentinelReplicas(_) | Command::SentinelPeers(_) => return Ok(Reply::Maps(Vec::new())),
            Command::SentinelCheckQuorum(_) => {}
            Command::SentinelFailover(name) => return self.sentinel_failover(id, name),
            _ => return Err(refused("unknown command")),
        }
        Ok(Reply::Done)
    }

    /// The first replica, by its pod, gets the role; all Sentinels name it. The old primary is not told.
    fn sentinel_failover(&mut self, id: &str, name: &str) -> Result<Reply, ServerError> {
        let stuck = self.sentinels[id].stuck;
        let monitor = self.sentinels.get_mut(id).unwrap().monitors.get_mut(name);
        let monitor = monitor.ok_or_else(|| refused("No such master with that name"))?;
        if stuck {
            monitor.failover = "wait_start".into();
            return Ok(Reply::Done);
        }
        let old = monitor.ip;
        let chosen = self.servers.values_mut().find(|server| server.upstream == old && !server.silent);
        let Some(chosen) = chosen else {
            return Err(ServerError::Refused { code: "NOGOODSLAVE".into(), text: "No suitable replica to promote".into() });
        };
        chosen.take_the_role();
        let ip = Some(chosen.ip);
        for monitor in self.sentinels.values_mut().filter_map(|sentinel| sentinel.monitors.get_mut(name)) {
            (monitor.ip, monitor.epoch) = (ip, monitor.epoch + 1);
        }
        for server in self.servers.values_mut().filter(|server| server.upstream == old) {
            server.upstream = ip;
        }
        Ok(Reply::Done)
    }
}

/// As SENTINEL MASTERS shows it: no credentials.
fn shown(name: &str, monitor: &FakeMonitor, others: usize) -> BTreeMap<String, String> {
    let mut map = monitor.options.clone();
    map.retain(|key, _| !key.starts_with("auth-"));
    let pairs = [
        ("name", name.to_owned()),
        ("ip", monitor.ip.map(|ip| ip.to_string()).unwrap_or_default()),
        ("port", "6379".into()),
        ("runid", "r".into()),
        ("flags", "master".into()),
        ("num-other-sentinels", others.to_string()),
        ("config-epoch", monitor.epoch.to_string()),
    ];
    map.extend(pairs.map(|(key, value)| (key.to_owned(), value)));
    if !monitor.failover.is_empty() {
        map.insert("failover-state".into(), monitor.failover.clone());
    }
    map
}
