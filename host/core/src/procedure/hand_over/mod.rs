//! Planned hand-over, per architecture in the way that lost no acknowledged write in any trial under load.
//!
//! # Guarantees
//! 1. No acknowledged write is lost: the role moves only when the replica has all of them and writes are held back.
//! 2. It ends: each way has a bound of its own, after which writes go on somewhere.
//! 3. `OK` is only "request accepted": roles are read on new connections.

mod cluster;
mod failover;
mod replica;

use vko_model::info::{AttachedReplica, Info, ReplicaState, Role};
use vko_wit::common::Architecture;
use vko_wit::observation::Observed;
use vko_wit::planning::HandOver;

use crate::execute::ExecuteError;
use crate::ledger::Member;
use crate::site::Site;
use crate::world::{Target, World};

/// How old (s) a replica's acknowledgement may be: it gives one a second.
const LAG_MAX_S: u64 = 2;

/// Hands the primary's role over.
///
/// # Errors
/// [`ExecuteError::NotVerified`] says who has the role then, or what is unclear.
pub async fn run<W: World>(site: &Site<W>, observed: &Observed, order: &HandOver) -> Result<(), ExecuteError> {
    match observed.instance.architecture {
        Architecture::Replica => replica::run(site, observed, order).await,
        Architecture::Failover => failover::run(site, observed, order).await,
        Architecture::Cluster => cluster::run(site, observed, order).await,
    }
}

/// Who has the role now, and by which history.
async fn note_primary<W: World>(site: &Site<W>, observed: &Observed, primary: Member) -> Result<(), ExecuteError> {
    let info = site.look(&primary.pod).await.ok();
    let history = info.and_then(|info| info.replid.map(|id| (id, info.primary_offset.unwrap_or(0))));
    let now = site.world.unix_ms();
    let change = |ledger: &mut crate::ledger::Ledger| {
        ledger.set_last_primary(primary);
        if let Some((replid, offset)) = history {
            ledger.note_lineage(&replid, offset, now);
        }
    };
    Ok(site.store.appoint(&observed.ledger.last_primary, change).await?)
}

/// Whether a replica has been in sync, is, and its primary hears it: the servers don't check it, and an empty replica that takes
/// over takes the data with it.
fn in_step(primary: &Info, replica: &Info, target: &Target) -> bool {
    let link = replica.role == Some(Role::Replica)
        && replica.link_up == Some(true)
        && replica.sync_in_progress == Some(false)
        && replica.loading != Some(true)
        && replica.replica_offset.is_some_and(|offset| offset > 0);
    let streams = |attached: &AttachedReplica| {
        let here = attached.ip.parse() == Ok(target.ip) && attached.port == target.port;
        let heard = attached.offset.is_some_and(|offset| offset > 0) && attached.lag_seconds.is_some_and(|lag| lag <= LAG_MAX_S);
        here && heard && attached.state == ReplicaState::Online
    };
    primary.role == Some(Role::Primary) && link && primary.replicas.iter().any(streams)
}
