//! A replica takes its shard over without its primary's help.
//!
//! # Guarantees
//! The ledger names the new primary before it may take a write, and the old one's role is asked after that, last before the
//! order.
//!
//! # Assumptions
//! The guard has seen that the old primary is dead or held back, and whether the other primaries can vote.
//!
//! # Flow
//! 1. Ledger.
//! 2. The step's expectations; that the replica knows all slots that its primary has by the view that most share; and
//!    [`owner_does_not_lead`], last before the command.
//! 3. CLUSTER FAILOVER FORCE, which asks for votes, or TAKEOVER, which doesn't.
//! 4. Wait until the replica owns the slots. FORCE is only accepted at first, and its election may fail.

use std::time::Duration;

use vko_model::slots::SlotSet;
use vko_wit::observation::Observed;
use vko_wit::planning::{ClusterTakeover, Step, Takeover};

use super::{myself, nodes, nodes_fresh, slots};
use crate::command::{ClusterFailover, Command};
use crate::execute::{ExecuteError, step};
use crate::procedure::{answering, until};
use crate::site::Site;
use crate::world::{ServerError, World};

/// An accepted request stays armed for 5 s; measured, votes take tens of milliseconds.
const LIMIT: Duration = Duration::from_secs(6);

/// Makes a replica its shard's primary.
///
/// # Errors
/// [`ExecuteError::NotVerified`] when it didn't win in time; the next look tells.
pub async fn take_over<W: World>(
    site: &Site<W>,
    observed: &Observed,
    wanted: &Step,
    order: &ClusterTakeover,
) -> Result<(), ExecuteError> {
    let (name, _) = site.target(&order.replica)?;
    let member = step::member(observed, &order.replica)?;
    let change = |ledger: &mut crate::ledger::Ledger| {
        ledger.formed = Some(true);
        ledger.set_last_primary(member);
    };
    site.store.appoint(&observed.ledger.last_primary, change).await?;
    step::check(site, wanted).await?;
    let (owner, slots) = shard(site, &order.replica).await?;
    if !agreed_slots(observed, &owner)?.difference(&slots).is_empty() {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to know all slots of its primary")));
    }
    let how = match order.mode {
        Takeover::Force => ClusterFailover::Force,
        Takeover::Takeover => ClusterFailover::Takeover,
    };
    match site.send(&order.replica, Command::ClusterFailover(how)).await {
        Ok(_) => {}
        // It may have been accepted.
        Err(ExecuteError::ServerRefused { error: ServerError::Silent(_) | ServerError::Lost(_), .. }) => {}
        Err(error) => return Err(error),
    }
    let leads = until(site, LIMIT, || async {
        let view = nodes_fresh(site, &order.replica).await;
        view.is_ok_and(|view| view.myself().is_some_and(|own| own.is_primary() && slots.difference(&own.slots).is_empty()))
    });
    if leads.await { Ok(()) } else { Err(ExecuteError::NotVerified(format!("{name} has not taken its shard over"))) }
}

/// The owner that a replica follows, and its slots.
async fn shard<W: World>(site: &Site<W>, replica: &str) -> Result<(String, SlotSet), ExecuteError> {
    let (name, _) = site.target(replica)?;
    let view = nodes(site, replica).await?;
    let owner = myself(&view)?.replica_of.as_ref().and_then(|id| view.get(id)).filter(|owner| !owner.slots.is_empty());
    let found = owner.map(|owner| (owner.id.clone(), owner.slots.clone()));
    found.ok_or_else(|| ExecuteError::ExpectationFailed(format!("{name} to be the replica of an owner of slots")))
}

/// Slots of an owner by the view that most share. The replica's own view may lack some: the server doesn't mind, and leaves them.
fn agreed_slots(observed: &Observed, owner: &str) -> Result<SlotSet, ExecuteError> {
    let agreed = observed.agreed_view.iter().find(|peer| peer.id == owner);
    agreed.map_or(Ok(SlotSet::default()), |peer| slots::set(&peer.slots))
}

/// Asks the servers that answered when they were last asked whether one of them is the owner that this replica follows, and still
/// a primary.
///
/// # Errors
/// [`ExecuteError::ExpectationFailed`] names it.
pub async fn owner_does_not_lead<W: World>(site: &Site<W>, replica: &str) -> Result<(), ExecuteError> {
    let (owner, _) = shard(site, replica).await?;
    for (uid, name) in answering(site).into_iter().filter(|(uid, _)| uid != replica) {
        let Ok(view) = nodes_fresh(site, &uid).await else { continue };
        if view.myself().is_some_and(|own| own.id == owner && own.is_primary()) {
            return Err(ExecuteError::ExpectationFailed(format!("{name} to be no primary")));
        }
    }
    Ok(())
}
