//! Who owns which slots.

use vko_model::cluster::ClusterNodes;
use vko_model::slots::{Range, SlotSet};
use vko_wit::common::SlotRange;
use vko_wit::observation::Observed;
use vko_wit::planning::{Settled, SlotAssignment, SlotSettlement, Step};

use super::{info, myself, nodes};
use crate::command::Command;
use crate::execute::{ExecuteError, step};
use crate::site::Site;
use crate::world::World;

/// What is still to be done for a server to own its slots: those that nobody has, and those of a node that the server sees as
/// failed.
struct Missing {
    free: SlotSet,
    orphaned: SlotSet,
    id: String,
}

/// Gives slots to a server. The ledger says `formed` and names the shard's primary before it can take a write.
///
/// # Errors
/// It is no primary, or somebody owns one of the slots; or what the server said.
pub async fn own<W: World>(
    site: &Site<W>,
    observed: &Observed,
    wanted_step: &Step,
    order: &SlotAssignment,
) -> Result<(), ExecuteError> {
    let (name, _) = site.target(&order.pod)?;
    let wanted = set(&order.slots)?;
    missing(&nodes(site, &order.pod).await?, &wanted, &name)?;
    let member = step::member(observed, &order.pod)?;
    let change = |ledger: &mut crate::ledger::Ledger| {
        ledger.formed = Some(true);
        ledger.set_last_primary(member);
    };
    site.store.appoint(&observed.ledger.last_primary, change).await?;
    step::check(site, wanted_step).await?;
    // Gossip may have brought another owner since.
    let missing = missing(&nodes(site, &order.pod).await?, &wanted, &name)?;
    if !missing.free.is_empty() {
        let ranges = missing.free.ranges().iter().map(|range| (range.first(), range.last())).collect();
        site.send(&order.pod, Command::ClusterAddSlots(ranges)).await?;
    }
    for slot in missing.orphaned.iter() {
        site.send(&order.pod, Command::ClusterSetSlotNode { slot, node: missing.id.clone() }).await?;
    }
    let view = nodes(site, &order.pod).await?;
    if wanted.difference(&myself(&view)?.slots).is_empty() {
        return Ok(());
    }
    Err(ExecuteError::NotVerified(format!("{name} does not own all of its slots")))
}

fn missing(view: &ClusterNodes, wanted: &SlotSet, name: &str) -> Result<Missing, ExecuteError> {
    let own = myself(view)?;
    if !own.is_primary() {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to be a primary")));
    }
    let missing = wanted.difference(&own.slots);
    let mut orphaned = SlotSet::default();
    for other in view.nodes.iter().filter(|node| !node.myself) {
        let theirs = missing.intersection(&other.slots);
        if !theirs.is_empty() && !other.failed && !other.no_address {
            return Err(ExecuteError::ExpectationFailed(format!("{name} to know no owner of slots {theirs}, not {}", other.id)));
        }
        orphaned = orphaned.union(&theirs);
    }
    Ok(Missing { free: missing.difference(&orphaned), orphaned, id: own.id.clone() })
}

/// Closes open slots.
///
/// # Errors
/// What the server said, or that a slot is still open or another's.
pub async fn settle<W: World>(site: &Site<W>, order: &SlotSettlement) -> Result<(), ExecuteError> {
    let (name, _) = site.target(&order.pod)?;
    let slots = set(&order.slots)?;
    for slot in slots.iter() {
        let command = match &order.owner {
            Settled::Stable => Command::ClusterSetSlotStable(slot),
            Settled::Node(node) => Command::ClusterSetSlotNode { slot, node: node.clone() },
        };
        site.send(&order.pod, command).await?;
    }
    let view = nodes(site, &order.pod).await?;
    let open = myself(&view)?.open.iter().any(|open| slots.contains(open.slot));
    let owned = match &order.owner {
        Settled::Stable => true,
        Settled::Node(node) => view.get(node).is_some_and(|node| slots.difference(&node.slots).is_empty()),
    };
    if owned && !open {
        return Ok(());
    }
    Err(ExecuteError::NotVerified(format!("{name} does not see slots {slots} as settled")))
}

/// Makes a server's claim to its slots win over older ones.
///
/// # Errors
/// What the server said, or that its epoch didn't rise.
pub async fn bump_epoch<W: World>(site: &Site<W>, pod: &str) -> Result<(), ExecuteError> {
    let (name, _) = site.target(pod)?;
    let before = info(site, pod).await?.current_epoch;
    site.send(pod, Command::ClusterBumpEpoch).await?;
    let after = info(site, pod).await?.my_epoch;
    // It stays as it is where it is the highest already.
    if before.is_some_and(|before| after.is_some_and(|after| after >= before)) {
        return Ok(());
    }
    Err(ExecuteError::NotVerified(format!("{name} has config epoch {after:?}, not one above {before:?}")))
}

pub(super) fn set(ranges: &[SlotRange]) -> Result<SlotSet, ExecuteError> {
    slot_set(ranges).map_err(|bad| ExecuteError::OperationUnknown(format!("slots {} to {}", bad.first, bad.last)))
}

/// Ranges of the boundary as a set; the error is the one that is none.
pub(crate) fn slot_set(ranges: &[SlotRange]) -> Result<SlotSet, SlotRange> {
    let range = |range: &SlotRange| Range::new(range.first, range.last).ok_or(*range);
    ranges.iter().map(range).collect::<Result<Vec<_>, _>>().map(|ranges| ranges.into_iter().collect())
}
