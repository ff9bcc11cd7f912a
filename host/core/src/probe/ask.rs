//! What one server is asked: lightly as a rule, and wholly when the light answer is news.
//!
//! # Flow
//! 1. The light probe of its kind.
//! 2. If that differs from the one before in anything but what moves on its own, or something is wrong, or ten minutes are over:
//!    the rest (what it believes of the cluster; what it monitors).
//!
//! A server that answers the first and not the second counts as one that doesn't answer: half an answer would mix two moments.

use std::sync::Arc;
use std::time::Duration;

use vko_model::cluster::{ClusterInfo, ClusterNodes};
use vko_model::info::{Info, Role};
use vko_model::sentinel::{KnownReplica, Monitored, Peer, SentinelInfo};

use super::{Asked, DEADLINE, Subject, light_probe};
use crate::command::{Command, Reply};
use crate::memory::{Answer, MonitorAnswer, SentinelAnswer};
use crate::world::{ServerError, Target, World};

/// A full answer is good for so long, if nothing tells of a change: what no digest shows (a ghost that is being met, say) is seen
/// by then.
const WHOLE_AGE_MAX: Duration = Duration::from_secs(600);
/// While something is wrong a full answer is good for this time for each node that it lists: a cluster of six is asked at each
/// probe, one of 640 every 19 s, so that a disaster doesn't fill the operator's time with reading the same 640 lines from 640
/// servers.
const WHOLE_AGE_PER_NODE: Duration = Duration::from_millis(30);

/// What tells that a server of a cluster has news.
type ClusterKey = (Option<String>, Option<Role>, ClusterInfo, u64);

/// Asks one server.
pub(super) struct Prober<W> {
    pub(super) world: Arc<W>,
    pub(super) subject: Subject,
    cut_sessions: bool,
    cluster: Option<(ClusterKey, Duration)>,
    sentinel: Option<(SentinelAnswer, Duration)>,
}

impl<W: World> Prober<W> {
    pub(super) fn new(world: Arc<W>, subject: Subject, cut_sessions: bool) -> Self {
        // To Sentinels elsewhere others may log in under the same name, whatever that is: their sessions are theirs.
        let cut_sessions = cut_sessions && !subject.shared;
        Self { world, subject, cut_sessions, cluster: None, sentinel: None }
    }

    /// Asks once. `alert`: something is wrong, or somebody says that something has changed. `whole`: all of it, however lately it
    /// was asked.
    pub(super) async fn ask(&mut self, alert: bool, whole: bool) -> Result<Answer, ServerError> {
        if self.cut_sessions {
            self.call(Command::KillUser(self.subject.target.credential.user.clone())).await?;
            self.cut_sessions = false;
        }
        if whole {
            (self.cluster, self.sentinel) = (None, None);
        }
        match self.subject.asked.clone() {
            Asked::Data => light_probe(&*self.world, &self.subject.target).await.map(Answer::from),
            Asked::Cluster => self.ask_cluster(alert).await,
            Asked::Sentinel(monitor) => self.ask_sentinel(monitor.as_deref(), alert).await,
        }
    }

    async fn call(&self, command: Command) -> Result<Reply, ServerError> {
        self.world.call(&self.subject.target, command, DEADLINE).await
    }

    async fn ask_cluster(&mut self, alert: bool) -> Result<Answer, ServerError> {
        let (info, cluster, slots_digest) = match self.call(Command::ClusterProbe).await? {
            Reply::ClusterProbe { info, cluster, slots_digest } => {
                (Info::parse(&info), ClusterInfo::parse(&cluster), slots_digest)
            }
            other => return Err(unexpected(&other)),
        };
        let key = (info.run_id.clone(), info.role, cluster, slots_digest);
        let now = self.world.monotonic();
        let age_max = if alert { WHOLE_AGE_PER_NODE * cluster.known_nodes.unwrap_or(1) } else { WHOLE_AGE_MAX };
        let known = self.cluster.as_ref().is_some_and(|(known, at)| *known == key && now.saturating_sub(*at) < age_max);
        // It answers nothing of the cluster while it loads.
        let nodes = if known || info.loading == Some(true) { None } else { Some(self.nodes().await?) };
        if nodes.is_some() {
            self.cluster = Some((key, now));
        }
        Ok(Answer::Cluster(Box::new(info), cluster, slots_digest, nodes))
    }

    async fn nodes(&self) -> Result<ClusterNodes, ServerError> {
        match self.call(Command::ClusterNodes).await? {
            Reply::Text(text) => ClusterNodes::parse(&text).map_err(|error| ServerError::Unexpected(error.to_string())),
            other => Err(unexpected(&other)),
        }
    }

    async fn ask_sentinel(&mut self, monitor: Option<&str>, alert: bool) -> Result<Answer, ServerError> {
        let (world, target) = (self.world.clone(), self.subject.target.clone());
        let light = light_sentinel(&*world, &target, monitor).await?;
        let now = world.monotonic();
        let fresh = |at: &Duration| !alert && now.saturating_sub(*at) < WHOLE_AGE_MAX;
        if self.sentinel.as_ref().is_some_and(|(known, at)| *known == light && fresh(at)) {
            return Ok(Answer::Sentinel(light, None));
        }
        let monitors = match monitor {
            Some(name) => monitors(&*world, &target, name).await?,
            None => Vec::new(),
        };
        self.sentinel = Some((light.clone(), now));
        Ok(Answer::Sentinel(light, Some(monitors)))
    }
}

/// All that a Sentinel says of a data set.
///
/// # Errors
/// The Sentinel's.
pub(crate) async fn whole_sentinel<W: World>(world: &W, target: &Target, monitor: &str) -> Result<Answer, ServerError> {
    let light = light_sentinel(world, target, Some(monitor)).await?;
    Ok(Answer::Sentinel(light, Some(monitors(world, target, monitor).await?)))
}

/// The light answer, of which only this data set counts: it may watch a thousand others, and what happens to them is no news
/// here.
async fn light_sentinel<W: World>(world: &W, target: &Target, monitor: Option<&str>) -> Result<SentinelAnswer, ServerError> {
    match world.call(target, Command::SentinelProbe, DEADLINE).await? {
        Reply::SentinelProbe { server, sentinel, id } => {
            let run_id = Info::parse(&server).run_id.unwrap_or_default();
            let mut info = SentinelInfo::parse(&sentinel);
            info.monitored.retain(|line| Some(line.name.as_str()) == monitor);
            info.masters = None;
            Ok(SentinelAnswer { id, run_id, info })
        }
        other => Err(unexpected(&other)),
    }
}

/// The data set as it watches it, if it does.
async fn monitors<W: World>(world: &W, target: &Target, name: &str) -> Result<Vec<MonitorAnswer>, ServerError> {
    let watched = maps(world, target, Command::SentinelMasters, Monitored::read).await?;
    let Some(monitored) = watched.into_iter().find(|monitored| monitored.name == name) else { return Ok(Vec::new()) };
    let name = || name.to_owned();
    let mut replicas = maps(world, target, Command::SentinelReplicas(name()), KnownReplica::read).await?;
    replicas.iter_mut().for_each(|replica| replica.offset = None);
    replicas.sort_by(|one, other| one.address.cmp(&other.address));
    let mut peers = maps(world, target, Command::SentinelPeers(name()), Peer::read).await?;
    peers.sort_by(|one, other| (&one.id, &one.address).cmp(&(&other.id, &other.address)));
    let quorum_reached = match world.call(target, Command::SentinelCheckQuorum(name()), DEADLINE).await {
        Ok(_) => Some(true),
        Err(ServerError::Refused { code, .. }) if code == "NOQUORUM" => Some(false),
        // The name is gone since it was listed, or a right is missing: not known is not no.
        Err(ServerError::Refused { .. } | ServerError::NoPermission(_)) => None,
        Err(error) => return Err(error),
    };
    Ok(vec![MonitorAnswer { monitored, quorum_reached, replicas, peers }])
}

async fn maps<W: World, T>(
    world: &W,
    target: &Target,
    command: Command,
    read: impl Fn(&std::collections::BTreeMap<String, String>) -> Option<T>,
) -> Result<Vec<T>, ServerError> {
    match world.call(target, command, DEADLINE).await? {
        Reply::Maps(maps) => Ok(maps.iter().filter_map(read).collect()),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> ServerError {
    ServerError::Unexpected(format!("{reply:?}"))
}
