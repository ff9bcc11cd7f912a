//! Steps at the servers of a cluster.
//!
//! # Guarantees
//! 1. A server is known by the id on its own line of CLUSTER NODES. Addresses there may be other ones, for clients of another
//!    network.
//! 2. What the step relies on is read from the server itself just before, and what it brought about just after.

mod membership;
mod slots;
mod take_over;

pub use self::membership::{forget, meet, replicate, reset_empty};
pub(crate) use self::slots::slot_set;
pub use self::slots::{bump_epoch, own, settle};
pub use self::take_over::{owner_does_not_lead, take_over};

use vko_model::cluster::{ClusterInfo, ClusterNodes, Node};

use crate::command::{Command, Reply};
use crate::execute::ExecuteError;
use crate::site::{DANGEROUS_DEADLINE, Site};
use crate::world::World;

/// All that a server believes.
pub(super) async fn nodes<W: World>(site: &Site<W>, pod: &str) -> Result<ClusterNodes, ExecuteError> {
    let (name, _) = site.target(pod)?;
    read(&name, site.send(pod, Command::ClusterNodes).await?)
}

/// The same on a new connection: a change of role ends the connections of before.
pub(super) async fn nodes_fresh<W: World>(site: &Site<W>, pod: &str) -> Result<ClusterNodes, ExecuteError> {
    let (name, target) = site.target(pod)?;
    let reply = site.world.call_fresh(&target, Command::ClusterNodes, DANGEROUS_DEADLINE).await;
    read(&name, reply.map_err(|error| ExecuteError::ServerRefused { pod: name.clone(), error })?)
}

fn read(name: &str, reply: Reply) -> Result<ClusterNodes, ExecuteError> {
    let Reply::Text(text) = reply else {
        return Err(ExecuteError::NotVerified(format!("{name} did not say what it believes of its cluster")));
    };
    ClusterNodes::parse(&text).map_err(|error| ExecuteError::NotVerified(format!("{name}: {error}")))
}

/// A server's own line.
pub(super) fn myself(view: &ClusterNodes) -> Result<&Node, ExecuteError> {
    view.myself().ok_or_else(|| ExecuteError::NotVerified("a server does not say which node it is".into()))
}

/// What a server says in CLUSTER INFO.
///
/// # Errors
/// The server's.
pub(crate) async fn info<W: World>(site: &Site<W>, pod: &str) -> Result<ClusterInfo, ExecuteError> {
    let (name, _) = site.target(pod)?;
    match site.send(pod, Command::ClusterProbe).await? {
        Reply::ClusterProbe { cluster, .. } => Ok(ClusterInfo::parse(&cluster)),
        _ => Err(ExecuteError::NotVerified(format!("{name} did not say how its cluster is"))),
    }
}
