//! Detaching a replica: the quick half of a fence. Once no replica that we can reach follows the old primary, the time runs after which it
//! acknowledges nothing any more.
//!
//! # Flow
//! 1. REPLICAOF to nobody. 2. Read back. 3. Ask every other server that answers whether it still follows the old primary. 4. If none does,
//! note the time in the fence's record (afterwards, since only a later time is safe).

use vko_model::info::{Info, Role};
use vko_wit::observation::{Observed, Role as ObservedRole, Upstream};

use crate::command::Command;
use crate::execute::{ExecuteError, step::points_at};
use crate::site::Site;
use crate::world::{Target, World};

/// Detaches a pod's server from whatever it follows.
///
/// # Errors
/// What the server said, or that it still follows.
pub async fn run<W: World>(site: &Site<W>, observed: &Observed, pod: &str) -> Result<(), ExecuteError> {
    let (name, target) = site.target(pod)?;
    site.send(pod, Command::ReplicaOfNobody { loopback: loopback(&target) }).await?;
    let info = site.look(pod).await?;
    if info.role != Some(Role::Replica) || !follows_nobody(&info) {
        return Err(ExecuteError::NotVerified(format!("{name} still follows somebody")));
    }
    match primary_of(observed, pod) {
        Some(primary) => note_if_last(site, &primary).await,
        None => Ok(()),
    }
}

fn loopback(target: &Target) -> std::net::IpAddr {
    if target.ip.is_ipv4() { std::net::Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() }
}

fn follows_nobody(info: &Info) -> bool {
    info.primary().and_then(|address| address.ip()).is_some_and(|ip| ip.is_loopback())
}

fn primary_of(observed: &Observed, pod: &str) -> Option<String> {
    let facts = observed.servers.iter().find(|s| s.pod == pod)?.facts.as_ref()?;
    match &facts.role {
        ObservedRole::Replica(link) => match &link.primary {
            Upstream::Pod(primary) => Some(primary.clone()),
            _ => None,
        },
        ObservedRole::Primary => None,
    }
}

/// Asks everybody who answers; a silent one is the guard's business (it counts those against the fence's height).
async fn note_if_last<W: World>(site: &Site<W>, primary: &str) -> Result<(), ExecuteError> {
    let Ok((_, upstream)) = site.target(primary) else { return Ok(()) };
    for (uid, ..) in site.all_targets() {
        if uid != primary && site.look(&uid).await.is_ok_and(|info| points_at(&info, &upstream)) {
            return Ok(());
        }
    }
    let now = site.world.unix_ms();
    Ok(site
        .store
        .change(|ledger| {
            for fence in ledger.fences.iter_mut().filter(|f| f.pod == primary && f.detached_at == 0) {
                fence.detached_at = now;
            }
        })
        .await?)
}
