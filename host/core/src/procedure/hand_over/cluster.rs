//! Planned hand-over in a cluster: `CLUSTER FAILOVER` at the replica, which holds the primary's writes back until it has
//! everything.
//!
//! # Flow
//! 1. What the server doesn't check is read again: the replica is in step, and its primary's offset isn't zero.
//! 2. CLUSTER FAILOVER, whose answer may be lost. It stays armed for 5 s and may fire late, so nothing else is begun before.
//! 3. Wait until every server that answers sees the new owner: the next election would be denied before.
//! 4. Ledger.
//!
//! The server's own bound is fixed at 5 s on older lines, so a shorter one can't be asked for.

use std::time::Duration;

use vko_model::cluster::ClusterNodes;
use vko_model::slots::SlotSet;
use vko_wit::observation::Observed;
use vko_wit::planning::HandOver;

use super::in_step;
use crate::command::{ClusterFailover, Command};
use crate::execute::ExecuteError;
use crate::execute::step::member;
use crate::procedure::cluster::{myself, nodes, nodes_fresh};
use crate::procedure::{POLL, answering};
use crate::site::Site;
use crate::world::{ServerError, World};

/// For how long an accepted request stays armed (5 s), and a second for the word to spread.
const LIMIT: Duration = Duration::from_secs(6);

/// The shard that changes hands.
struct Shard {
    old: String,
    new: String,
    slots: SlotSet,
}

pub(super) async fn run<W: World>(site: &Site<W>, observed: &Observed, order: &HandOver) -> Result<(), ExecuteError> {
    let new_primary = member(observed, &order.replica)?;
    let shard = ready(site, order).await?;
    match site.send(&order.replica, Command::ClusterFailover(ClusterFailover::Coordinated)).await {
        Ok(_) => {}
        // It may have been accepted, and may fire for as long as it is armed.
        Err(ExecuteError::ServerRefused { error: ServerError::Silent(_) | ServerError::Lost(_), .. }) => {}
        Err(error) => return Err(error),
    }
    let slow = disagreeing(site, &shard).await;
    let (replica, _) = site.target(&order.replica)?;
    let took_over = nodes_fresh(site, &order.replica).await.is_ok_and(|view| shard.is_led_anew(&view));
    if !took_over {
        let (primary, _) = site.target(&order.primary)?;
        return Err(ExecuteError::NotVerified(format!("{replica} did not take over from {primary} in time")));
    }
    site.store.appoint(&observed.ledger.last_primary, |ledger| ledger.set_last_primary(new_primary)).await?;
    match slow.first() {
        None => Ok(()),
        Some(name) => Err(ExecuteError::NotVerified(format!("{replica} has taken over, but {name} does not see it yet"))),
    }
}

/// Both as they must be, read now.
async fn ready<W: World>(site: &Site<W>, order: &HandOver) -> Result<Shard, ExecuteError> {
    let (name, target) = site.target(&order.replica)?;
    let (primary, replica) = (site.look(&order.primary).await?, site.look(&order.replica).await?);
    if primary.primary_offset.is_none_or(|offset| offset == 0) || !in_step(&primary, &replica, &target) {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to be in step with its primary")));
    }
    let (view, own) = (nodes(site, &order.primary).await?, nodes(site, &order.replica).await?);
    let (old, new) = (myself(&view)?, myself(&own)?);
    if new.replica_of.as_deref() != Some(old.id.as_str()) || old.slots.is_empty() {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to be the replica of an owner of slots")));
    }
    Ok(Shard { old: old.id.clone(), new: new.id.clone(), slots: old.slots.clone() })
}

/// Asks the servers that answer until all of them see the new owner; names those that don't when the time is over.
async fn disagreeing<W: World>(site: &Site<W>, shard: &Shard) -> Vec<String> {
    let end = site.world.monotonic() + LIMIT;
    let mut open = answering(site);
    loop {
        let mut left = Vec::new();
        for (uid, name) in open {
            // One that stops answering is none that must agree; the new owner itself is read again at the end.
            if nodes_fresh(site, &uid).await.is_ok_and(|view| !shard.is_seen_by(&view)) {
                left.push((uid, name));
            }
        }
        if left.is_empty() || site.world.monotonic() >= end {
            return left.into_iter().map(|(_, name)| name).collect();
        }
        open = left;
        site.world.sleep(POLL).await;
    }
}

impl Shard {
    /// Whether the new one is a primary that owns the slots.
    fn is_led_anew(&self, view: &ClusterNodes) -> bool {
        view.get(&self.new).is_some_and(|node| node.is_primary() && self.slots.difference(&node.slots).is_empty())
    }

    fn is_seen_by(&self, view: &ClusterNodes) -> bool {
        self.is_led_anew(view) && view.get(&self.old).is_some_and(|node| node.replica_of.as_deref() == Some(self.new.as_str()))
    }
}
