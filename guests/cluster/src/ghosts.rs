//! Nodes that are gone for good are forgotten; slots that a move left open are closed.
//!
//! # Guarantees
//! 1. A node is forgotten only when another node fills its place, or, of one that no record names, when every place is filled by
//!    a known node; when all say that it failed; and when it owns nothing and nobody replicates it.
//! 2. An open slot is closed only at servers that hold no keys: elsewhere keys may lie on both sides.

use vko_replica::view::Standing;
use vko_sdk::observation::Peer;
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Operation, Settled, SlotSettlement};
use vko_sdk::slots;

use crate::cause::{Block, Cause};
use crate::steps::Steps;
use crate::view::{Node, View, complete, open, recorded};

/// Most nodes that are forgotten in one look.
pub const FORGET_MAX: usize = 8;

/// Forgets nodes that nobody needs any more.
pub fn forget(view: &View<'_>, steps: &mut Steps) {
    if !view.nodes().all(|n| n.says.is_none_or(complete) && !n.unidentified()) {
        return;
    }
    for peer in view.peers.values().filter(|p| useless(view, p) && replaced(view, p)).take(FORGET_MAX) {
        let reason = format!("the node {} failed, owns nothing, and its place is filled by another one", peer.id);
        steps.add_about(format!("forget {}", peer.id), plan::step(Operation::Forget(peer.id.clone()), reason));
    }
}

/// Failed by all accounts, without slots and replicas.
fn useless(view: &View<'_>, peer: &Peer) -> bool {
    let quiet = peer.failed && peer.linked_by == 0 && !peer.handshake && peer.slots.is_empty();
    let followed = || view.nodes().any(|n| view.replicates(n) == peer.id);
    let defended = || {
        let beliefs = view.nodes().filter_map(|n| n.says).flat_map(|s| s.differs.iter().filter(|b| b.id == peer.id && b.known));
        beliefs.into_iter().any(|b| !b.failed || b.linked || !b.slots.is_empty())
    };
    quiet && view.by_id(&peer.id).is_none() && !followed() && !defended()
}

/// Whether another node fills its place for certain.
fn replaced(view: &View<'_>, peer: &Peer) -> bool {
    let filled = |n: &Node<'_>| n.says.is_some() && !view.alone(n) && view.peer(n).is_some_and(|p| !p.failed);
    match recorded(view.observed, &peer.id) {
        Some(record) => {
            let place = view.shards.iter().find(|s| s.workload == record.workload);
            place.and_then(|s| s.nodes.iter().find(|n| n.member.ordinal == record.ordinal)).is_some_and(filled)
        }
        None => view.nodes().all(filled),
    }
}

/// Closes slots that nobody moves any more.
pub fn settle(view: &View<'_>, able: &[&Node<'_>], steps: &mut Steps) -> Option<Block> {
    let moving = !view.observed.jobs.is_empty();
    let mut block = None;
    for node in able.iter().copied().filter(|n| !moving && !open(n).is_empty()) {
        let text = slots::text(&open(node));
        if node.keys() == Some(0) && both_lead(view, node) && !steps.touches(node) {
            let run = node.member.facts_now().map_or(String::new(), |f| f.run_id.clone());
            let operation = SlotSettlement { pod: node.uid().into(), slots: open(node), owner: Settled::Stable };
            let step = plan::step(Operation::SettleSlots(operation), format!("a move left the slots {text} open, without keys"));
            steps.add(node, step.expecting(plan::same_run(node.uid(), &run)));
        } else if block.is_none() {
            let message =
                format!("the slots {text} are open at {}, which holds keys: a move was begun and not ended", node.member.name);
            let remedy =
                "end the move that was begun by hand, or close the slots (CLUSTER SETSLOT .. STABLE) where their keys are";
            block = Some(Block::new(&node.member.name, Cause::SlotsOpen, message, remedy));
        }
    }
    block
}

/// Whether it and the other ends of its open slots answer as primaries.
fn both_lead(view: &View<'_>, node: &Node<'_>) -> bool {
    let leads = |n: &Node<'_>| matches!(n.member.standing, Standing::Primary(_));
    let mut peers = node.says.into_iter().flat_map(|s| s.importing.iter().chain(&s.migrating)).map(|o| o.peer.as_str());
    leads(node) && peers.all(|id| view.by_id(id).is_some_and(leads))
}
