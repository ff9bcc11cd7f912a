//! Detaching a replica: the quick half of a fence. Once no replica that we can reach follows the old primary, the time runs after
//! which it acknowledges nothing any more.
//!
//! # Flow
//! 1. REPLICAOF to nobody.
//! 2. Read back.
//! 3. Ask every server that answers whom it follows.
//! 4. Note the time in the record of each fence whose primary nobody follows (afterwards, since only a later time is safe). Whom
//!    this pod followed before doesn't matter: after a crash between 1 and 4 it follows nobody already.

use crate::command::Command;
use crate::execute::{ExecuteError, step::points_at};
use crate::ledger::Fence;
use crate::site::Site;
use crate::world::{Target, World};
use vko_model::info::{Info, Role};
use vko_model::replication::is_nobody;

/// Detaches a pod's server from whatever it follows.
///
/// # Errors
/// What the server said, or that it still follows.
pub async fn run<W: World>(site: &Site<W>, pod: &str) -> Result<(), ExecuteError> {
    let (name, target) = site.target(pod)?;
    site.send(pod, Command::ReplicaOfNobody { loopback: loopback(&target) }).await?;
    let info = site.look(pod).await?;
    if info.role != Some(Role::Replica) || !follows_nobody(&info) {
        return Err(ExecuteError::NotVerified(format!("{name} still follows somebody")));
    }
    note_detached(site).await
}

fn loopback(target: &Target) -> std::net::IpAddr {
    if target.ip.is_ipv4() { std::net::Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() }
}

fn follows_nobody(info: &Info) -> bool {
    info.primary().is_some_and(|address| is_nobody(&address))
}

/// Asks everybody who answers; a silent one is the guard's business (it counts those against the fence's height).
async fn note_detached<W: World>(site: &Site<W>) -> Result<(), ExecuteError> {
    let open = |fence: &&Fence| fence.detached_at == 0;
    let primaries: Vec<String> = site.store.ledger().await.fences.iter().filter(open).map(|fence| fence.pod.clone()).collect();
    if primaries.is_empty() {
        return Ok(());
    }
    let mut followed = Vec::new();
    for (uid, ..) in site.all_targets() {
        // The newest answer may be a look's of a moment ago: only one of now counts.
        if let Ok(info) = site.look(&uid).await {
            let upstream =
                primaries.iter().filter(|primary| site.target(primary).is_ok_and(|(_, target)| points_at(&info, &target)));
            followed.extend(upstream.cloned());
        }
    }
    let now = site.world.unix_ms();
    let left = |fence: &Fence| fence.detached_at == 0 && primaries.contains(&fence.pod) && !followed.contains(&fence.pod);
    Ok(site
        .store
        .change(|ledger| ledger.fences.iter_mut().filter(|fence| left(fence)).for_each(|fence| fence.detached_at = now))
        .await?)
}
