//! Slots of a shard that has its primary, and that nobody owns: taken away by hand, or by a reset of the primary.
//!
//! # Guarantees
//! 1. Nothing is given while a server that may own it hasn't been heard, or while a slot is on its way.
//! 2. A slot of a cluster that holds keys is given by consent: they may lie with another member, or be gone.

use vko_replica::consent::{self, Kind};
use vko_replica::view::Standing;
use vko_sdk::common::SlotRange;
use vko_sdk::observation::Peer;
use vko_sdk::plan::StepExt;
use vko_sdk::slots;

use crate::cause::{Block, Cause};
use crate::creation::own;
use crate::steps::Steps;
use crate::view::{Node, Shard, View, open};

/// Gives the primary what its shard lacks, or says what that waits for.
pub fn complete<'a>(
    view: &View<'a>,
    shard: &Shard<'a>,
    owner: &'a Peer,
    able: &[&Node<'a>],
    taken: &[SlotRange],
    steps: &mut Steps,
) -> Option<Block> {
    let primary = able.iter().copied().find(|n| n.id == Some(owner.id.as_str()))?;
    let orphans = orphans(view, shard, owner, primary, taken);
    // Who isn't introduced yet may hear of an owner.
    let busy = steps.touches(primary) || view.alone(primary) || view.nodes().any(|n| !open(n).is_empty());
    if orphans.is_empty() || busy || !matches!(primary.member.standing, Standing::Primary(_)) {
        return None;
    }
    let (name, text) = (&primary.member.name, slots::text(&orphans));
    let block = |message, remedy| Some(Block::new(&shard.workload, Cause::SlotsUnowned, message, remedy));
    if let Some(node) = view.nodes().find(|n| n.member.pod.is_some() && !n.says.is_some_and(crate::view::complete)) {
        let message = format!("nobody owns the slots {text}; {} may, and hasn't said all that it owns", node.member.name);
        return block(message, "see why it doesn't answer (kubectl describe pod)");
    }
    let reason = format!("nobody owns the slots {text} any more; {name} is the primary of their shard");
    if view.nodes().all(|n| n.says.is_none() || n.keys() == Some(0)) {
        steps.add(primary, own(primary, &orphans, reason));
        return None;
    }
    let token = consent::token(view.observed, Kind::SlotsDataLoss, name, &[primary.uid(), &owner.id, &text]);
    if consent::given(view.observed, &token) {
        steps.add(primary, own(primary, &orphans, format!("a person consents: {reason}")).consented(token));
        return None;
    }
    let remedy =
        "give them back by hand to the member that has their keys (CLUSTER ADDSLOTS); or consent to give them to the named one";
    block(reason, remedy).map(|block| block.or_consent(token))
}

/// Slots that the shard was created with or that others give to its primary, and that nobody claims.
fn orphans(view: &View<'_>, shard: &Shard<'_>, owner: &Peer, primary: &Node<'_>, taken: &[SlotRange]) -> Vec<SlotRange> {
    let own = view.claims(primary);
    let denied = slots::minus(&owner.slots, own);
    let lost = slots::minus(&shard.planned, taken);
    if denied.is_empty() {
        return lost;
    }
    // It may have heard of another owner before the others have.
    let heard = primary.says.into_iter().flat_map(|says| &says.differs).filter(|b| b.id != owner.id);
    let others = view.nodes().filter(|n| n.id != primary.id).flat_map(|n| view.claims(n).iter().copied());
    let claimed: Vec<SlotRange> = heard.flat_map(|b| b.slots.iter().copied()).chain(others).collect();
    slots::normal(&[lost, slots::minus(&denied, &claimed)].concat())
}
