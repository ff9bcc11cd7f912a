//! Who belongs to the cluster, and who follows whom in it.

use std::time::Duration;

use vko_api::names::CLUSTER_PORT;
use vko_model::info::Role;
use vko_wit::planning::{PairOfPods, Replication};

use super::{myself, nodes};
use crate::command::Command;
use crate::execute::ExecuteError;
use crate::procedure::{answering, until};
use crate::site::Site;
use crate::world::World;

/// Two servers that can reach each other shake hands within about a second.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// What a server is told of itself shows at once.
const SHOWS_WITHIN: Duration = Duration::from_secs(2);

/// Acquaints two servers, or tells the first where the second is now.
///
/// # Errors
/// What the server said, or that no link came about.
pub async fn meet<W: World>(site: &Site<W>, pair: &PairOfPods) -> Result<(), ExecuteError> {
    let (name, _) = site.target(&pair.pod)?;
    let (peer_name, peer) = site.target(&pair.peer)?;
    let id = myself(&nodes(site, &pair.peer).await?)?.id.clone();
    site.send(&pair.pod, Command::ClusterMeet { ip: peer.ip, port: peer.port, bus_port: CLUSTER_PORT }).await?;
    let linked = until(site, HANDSHAKE, || async {
        let view = nodes(site, &pair.pod).await;
        view.is_ok_and(|view| view.get(&id).is_some_and(|node| node.linked && !node.handshake))
    });
    if linked.await {
        Ok(())
    } else {
        Err(ExecuteError::NotVerified(format!("{name} has no link to {peer_name} after CLUSTER MEET")))
    }
}

/// Takes a node out of every server's view. One that doesn't answer now learns it by gossip.
///
/// # Errors
/// A server refused (a replica can't forget its primary), or still knows it.
pub async fn forget<W: World>(site: &Site<W>, node: &str) -> Result<(), ExecuteError> {
    let servers = answering(site);
    for (uid, name) in &servers {
        let view = nodes(site, uid).await?;
        if myself(&view)?.id == node {
            return Err(ExecuteError::ExpectationFailed(format!("{name} to be another node than {node}")));
        }
        if view.get(node).is_some_and(|known| !known.slots.is_empty()) {
            return Err(ExecuteError::ExpectationFailed(format!("{name} to know of no slots of the node {node}")));
        }
    }
    for (uid, _) in &servers {
        site.send(uid, Command::ClusterForget(node.to_owned())).await?;
    }
    for (uid, name) in &servers {
        if nodes(site, uid).await?.get(node).is_some() {
            return Err(ExecuteError::NotVerified(format!("{name} still knows the node {node}")));
        }
    }
    Ok(())
}

/// Makes a server the replica of a node.
///
/// # Errors
/// It owns slots by now, or doesn't know that primary; or what the server said.
pub async fn replicate<W: World>(site: &Site<W>, order: &Replication) -> Result<(), ExecuteError> {
    let (name, _) = site.target(&order.pod)?;
    let view = nodes(site, &order.pod).await?;
    if !myself(&view)?.slots.is_empty() {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to own no slots")));
    }
    if !view.get(&order.primary).is_some_and(|node| node.is_primary() && !node.handshake) {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to know the node {} as a primary", order.primary)));
    }
    site.send(&order.pod, Command::ClusterReplicate(order.primary.clone())).await?;
    let follows = until(site, SHOWS_WITHIN, || async {
        let view = nodes(site, &order.pod).await;
        view.is_ok_and(|view| view.myself().is_some_and(|own| own.replica_of.as_deref() == Some(order.primary.as_str())))
    });
    if follows.await {
        return Ok(());
    }
    Err(ExecuteError::NotVerified(format!("{name} is not the replica of the node {} after CLUSTER REPLICATE", order.primary)))
}

/// Takes an empty server's identity, so that it can join as a new one.
///
/// # Errors
/// It holds keys, owns slots or is followed by now; or what the server said.
pub async fn reset_empty<W: World>(site: &Site<W>, pod: &str) -> Result<(), ExecuteError> {
    let (name, _) = site.target(pod)?;
    let view = nodes(site, pod).await?;
    let own = myself(&view)?;
    let alone = own.slots.is_empty() && own.open.is_empty() && view.replicas_of(&own.id).next().is_none();
    if !alone {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to own no slots and have no replicas")));
    }
    let info = site.look(pod).await?;
    // A replica that is filled meanwhile would be wiped without a word.
    let filling = info.role == Some(Role::Replica) && (info.link_up != Some(false) || info.sync_in_progress != Some(false));
    if info.keys != Some(0) || info.loading == Some(true) || filling {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to be empty")));
    }
    let former = own.id.clone();
    site.send(pod, Command::ClusterResetHard).await?;
    let view = nodes(site, pod).await?;
    if myself(&view)?.id != former && view.nodes.len() == 1 {
        return Ok(());
    }
    Err(ExecuteError::NotVerified(format!("{name} is still the node {former} after CLUSTER RESET")))
}
