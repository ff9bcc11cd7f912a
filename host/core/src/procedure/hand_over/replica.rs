//! Planned hand-over in replica architecture: `FAILOVER TO`, which holds writes back until the replica has everything (lost
//! nothing in 10 of 10 trials under load on each line).
//!
//! # Guarantees
//! 1. No acknowledged write is lost: the server itself waits for equal offsets before it gives the role away.
//! 2. It ends: the server's own TIMEOUT does not always fire (with equal offsets and a frozen replica the primary demotes itself
//!    and stays without a role), so our clock sends FAILOVER ABORT, after which the old primary writes again.
//!
//! # Flow
//! 1. The replica loses the fence of an earlier life, in the ledger first.
//! 2. FAILOVER TO, whose answer may be lost.
//! 3. Wait until the old one follows the new one and the new one is a primary.
//! 4. Ledger. When the time is over: ABORT unless the replica is a primary, wait for the old role, report.

use std::time::Duration;

use vko_model::info::Role;
use vko_wit::observation::Observed;
use vko_wit::planning::HandOver;

use super::note_primary;
use crate::command::Command;
use crate::execute::ExecuteError;
use crate::execute::step::{member, points_at};
use crate::procedure::promote::no_fence;
use crate::procedure::{POLL, is_primary, until};
use crate::site::Site;
use crate::world::{ServerError, Target, World};

/// A replica acknowledges once a second, so a healthy hand-over ends within about a second; five leave room for a loaded machine
/// and hold clients' writes back no longer than they would wait anyway.
const TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// What our clock allows beyond the server's.
const MARGIN: Duration = Duration::from_secs(1);

/// See [`super::run`]; an error of its own is that it was aborted.
pub(super) async fn run<W: World>(site: &Site<W>, observed: &Observed, order: &HandOver) -> Result<(), ExecuteError> {
    let new_primary = member(observed, &order.replica)?;
    let (_, replica) = site.target(&order.replica)?;
    let timeout = Duration::from_millis(order.timeout).clamp(POLL, TIMEOUT_MAX);
    site.store.change(|ledger| ledger.drop_fence(&order.replica)).await?;
    site.send(&order.replica, no_fence()).await?;
    let command = Command::FailoverTo { ip: replica.ip, port: replica.port, timeout_ms: crate::observe::millis(timeout) };
    match site.send(&order.primary, command).await {
        Ok(_) => {}
        // It may have been accepted: only waiting and ABORT bring a state that is known.
        Err(ExecuteError::ServerRefused { error: ServerError::Silent(_) | ServerError::Lost(_), .. }) => {}
        Err(error) => return Err(error),
    }
    if finished(site, order, &replica, timeout + MARGIN).await {
        return note_primary(site, observed, new_primary).await;
    }
    abort(site, order, &replica).await
}

/// Waits until both roles have changed.
async fn finished<W: World>(site: &Site<W>, order: &HandOver, replica: &Target, limit: Duration) -> bool {
    until(site, limit, || async {
        let old = site.look(&order.primary).await;
        let demoted = old.is_ok_and(|info| {
            info.role == Some(Role::Replica) && points_at(&info, replica) && info.failover_state.as_deref() == Some("no-failover")
        });
        demoted && is_primary(site, replica).await
    })
    .await
}

/// Takes the hand-over back, unless the replica has the role already and only the old primary hasn't learnt of it: then there
/// would be two.
async fn abort<W: World>(site: &Site<W>, order: &HandOver, target: &Target) -> Result<(), ExecuteError> {
    let (name, _) = site.target(&order.primary)?;
    let (replica, _) = site.target(&order.replica)?;
    if is_primary(site, target).await {
        return Err(ExecuteError::NotVerified(format!("{replica} is the primary, but {name} does not follow it yet")));
    }
    let aborted = site.send(&order.primary, Command::FailoverAbort).await;
    let state = match site.look(&order.primary).await {
        Ok(info) if info.role == Some(Role::Primary) => "it is primary again and takes writes",
        Ok(_) => "it has not taken its role back yet",
        Err(_) => "it does not answer",
    };
    let how = if aborted.is_ok() { "was aborted" } else { "had ended by itself" };
    Err(ExecuteError::NotVerified(format!("the hand-over from {name} to {replica} did not finish in time and {how}; {state}")))
}
