//! Servers that claim the same slots and don't know each other.
//!
//! # Guarantees
//! 1. What is found is every pair of nodes of which one, by its own word, and the other, by its own or the others', own the same
//!    slot, of which one holds keys or may hold some, and that don't know each other for certain.
//! 2. Two servers are kept apart if one may know, or know somebody who knows, one of such a pair, and the other one the other.
//!
//! # Assumptions
//! Once both sides know each other the higher epoch wins, and the other side deletes its keys of those slots, whoever has the
//! data. That is so even if the winner failed long ago: a server that lost its `nodes.conf` claims the slots of its keys under a
//! new id with epoch 0, and gives them to the dead node that it was.

use std::collections::BTreeSet;

use vko_sdk::common::SlotRange;
use vko_sdk::slots;

use crate::cause::{Block, Cause};
use crate::view::{Node, View};

/// Who claims slots.
#[derive(Debug, Clone, Copy)]
struct Claimant<'v, 'a> {
    id: &'a str,
    /// Its place; none if the node is no member's now.
    node: Option<&'v Node<'a>>,
    slots: &'a [SlotRange],
}

/// Two that must not learn of each other.
#[derive(Debug, Clone, Copy)]
pub struct Dispute<'v, 'a> {
    one: Claimant<'v, 'a>,
    other: Claimant<'v, 'a>,
}

/// All of them. There are none as a rule, which takes one pass to see.
pub fn disputes<'v, 'a>(view: &'v View<'a>) -> Vec<Dispute<'v, 'a>> {
    let members = view.nodes().filter_map(|node| Some(Claimant { id: node.id?, node: Some(node), slots: view.claims(node) }));
    let strangers = view.peers.values().filter(|p| view.by_id(&p.id).is_none());
    let gone = strangers.map(|p| Claimant { id: p.id.as_str(), node: None, slots: &p.slots });
    let claimants: Vec<Claimant<'v, 'a>> = members.chain(gone).filter(|c| !c.slots.is_empty()).collect();
    if apart(&claimants) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, one) in claimants.iter().enumerate() {
        for other in &claimants[index + 1..] {
            let filled = |c: &Claimant<'_, '_>| c.node.is_some_and(|n| n.keys() != Some(0));
            let known = knows(view, one, other) || knows(view, other, one);
            if !known && (filled(one) || filled(other)) && meet(one.slots, other.slots) {
                found.push(Dispute { one: *one, other: *other });
            }
        }
    }
    found
}

/// Whether nobody claims what another one claims.
fn apart(claimants: &[Claimant<'_, '_>]) -> bool {
    let mut all: Vec<SlotRange> = claimants.iter().flat_map(|c| c.slots.iter().copied()).collect();
    all.sort_unstable_by_key(|range| (range.first, range.last));
    all.windows(2).all(|pair| pair[0].last < pair[1].first)
}

fn meet(one: &[SlotRange], other: &[SlotRange]) -> bool {
    one.iter().any(|a| other.iter().any(|b| a.first <= b.last && b.first <= a.last))
}

/// For certain.
fn knows(view: &View<'_>, one: &Claimant<'_, '_>, other: &Claimant<'_, '_>) -> bool {
    one.node.is_some_and(|node| view.knows(node, other.id) == Some(true))
}

/// The dispute that these two would bring to a decision if they were introduced.
pub fn between<'d, 'v, 'a>(
    view: &View<'a>,
    disputes: &'d [Dispute<'v, 'a>],
    hub: &Node<'a>,
    node: &Node<'a>,
) -> Option<&'d Dispute<'v, 'a>> {
    let (ours, theirs) = (acquaintance(view, disputes, hub)?, acquaintance(view, disputes, node)?);
    disputes.iter().find(|dispute| {
        let (one, other) = (dispute.one.id, dispute.other.id);
        let split = |a: &BTreeSet<&str>, b: &BTreeSet<&str>| a.contains(one) && b.contains(other);
        split(&ours, &theirs) || split(&theirs, &ours)
    })
}

/// Whom a server may know, directly or by others; nothing where nothing is disputed.
fn acquaintance<'a>(view: &View<'a>, disputes: &[Dispute<'_, '_>], node: &Node<'a>) -> Option<BTreeSet<&'a str>> {
    if disputes.is_empty() {
        return None;
    }
    let mut known: BTreeSet<&str> = node.id.into_iter().collect();
    let mut fresh: Vec<&str> = known.iter().copied().collect();
    while let Some(id) = fresh.pop() {
        let Some(node) = view.by_id(id) else { continue };
        let reached = view.peers.keys().copied().filter(|other| view.knows(node, other) != Some(false));
        for other in reached {
            // One whose word isn't heard is known and leads no further: what it knows, those who know it know too.
            if known.insert(other) && view.by_id(other).is_some_and(|n| n.says.is_some()) {
                fresh.push(other);
            }
        }
    }
    Some(known)
}

impl Dispute<'_, '_> {
    /// What a person is asked to decide.
    pub fn block(&self) -> Block {
        let (one, other) = match (self.one.node, self.other.node) {
            (None, _) => (&self.other, &self.one),
            _ => (&self.one, &self.other),
        };
        let name = |c: &Claimant<'_, '_>| c.node.map_or_else(|| format!("the node {}", c.id), |n| n.member.name.clone());
        let both = slots::text(&slots::common(one.slots, other.slots));
        let (subject, id) = (name(one), other.id);
        if other.node.is_some() {
            let message = format!("{subject} and {} both own the slots {both}, and they don't know each other", name(other));
            let remedy = "save what is needed from the one that is wrong, then delete its pod and claim: joined, the higher epoch would win";
            return Block::new(&subject, Cause::SlotsClaimedTwice, message, remedy);
        }
        let message = format!(
            "{subject} holds keys in the slots {both}, which the others give to the node {id}, no member any more: once introduced to \
             them it would delete these keys"
        );
        let remedy = format!(
            "to keep the keys, send CLUSTER FORGET {id} to every other member; to give them up, delete the pod and the claim of {subject}"
        );
        Block::new(&subject, Cause::SlotsClaimedTwice, message, &remedy)
    }
}
