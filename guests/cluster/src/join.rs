//! Members learn of each other; strangers are kept out.
//!
//! # Guarantees
//! 1. Only members are introduced to each other. A server that knows a living node which is no member gets no command at all: two clusters
//!    that meet become one for good.
//! 2. Groups that claim the same slots are not joined while a side that may lose them holds keys.
//!
//! # Assumptions
//! A MEET teaches an address: a node that is known keeps its id and slots. One round is enough, gossip does the rest.
//!
//! # Flow
//! 1. The hub: a server that most others have a link to, of these the lowest id, so that each look has the same one.
//! 2. Whoever doesn't know the hub, or isn't known by it, is introduced; whoever has lost all links, too, once it had time to
//!    find the others by itself. If nobody has a link to anybody, all addresses are new: at once.

use vko_replica::decision::BY_ITSELF;
use vko_sdk::observation::{OutcomeKind, Peer, Upstream};
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Operation, PairOfPods, Step};
use vko_sdk::{lookup, slots};

use crate::cause::{Block, Cause};
use crate::steps::Steps;
use crate::view::{Node, View, recorded};

/// Introductions of one look: each costs both ends a handshake, and gossip spreads the rest.
pub const BATCH_MAX: usize = 64;
/// How long (ms) the bus has to find the others by itself, where some link works: several rounds of its own attempts.
pub const HEAL_MS: u64 = 15_000;
/// How long (ms) after its start a server may still be about to reach the nodes of its file: it dials each of them at once.
pub const STRANGER_MS: u64 = 5_000;
/// How long (ms) an introduction may take before it is repeated: a handshake needs some rounds of a tenth of a second each.
pub const HANDSHAKE_MS: u64 = 3_000;

/// Living nodes of the agreed view that are no members.
pub fn foreign<'a>(view: &View<'a>) -> Vec<&'a Peer> {
    let alive = |p: &&&Peer| !p.failed && !p.handshake && p.linked_by > 0;
    view.peers.values().filter(alive).filter(|p| !ours(view, &p.id)).copied().collect()
}

/// Whether a node is or was a member. Of one that was never heard the address says so.
fn ours(view: &View<'_>, id: &str) -> bool {
    let at_a_pod = view.peers.get(id).is_some_and(|p| matches!(p.pod, Upstream::Pod(_)));
    at_a_pod || view.by_id(id).is_some() || recorded(view.observed, id).is_some()
}

/// Ids of strangers that this one server alone knows, and that live; just after its start it can't tell yet who does.
pub fn foreign_of<'a>(view: &View<'a>, node: &Node<'a>) -> Vec<&'a str> {
    let differs = node.says.map_or(&[][..], |s| &s.differs);
    let started = node.member.facts_now().is_some_and(|f| f.uptime < STRANGER_MS);
    let alive = differs.iter().filter(|b| b.known && !b.failed && (b.linked || started));
    let alive = alive.filter(|b| view.peers.get(b.id.as_str()).is_none_or(|p| !p.failed));
    alive.map(|b| b.id.as_str()).filter(|id| !ours(view, id)).collect()
}

/// What waits because of strangers: nothing is done to these members.
pub fn strangers(view: &View<'_>) -> Vec<Block> {
    let remedy =
        "find out whose they are; make them unreachable for this instance, or forget them (CLUSTER FORGET) on every member";
    let mut blocks = Vec::new();
    let all = foreign(view);
    if let Some(first) = all.first() {
        let message = format!("{} living node(s) are no members, {} first: clusters must not be joined", all.len(), first.id);
        blocks.push(Block::new("cluster", Cause::ForeignNodes, message, remedy));
    }
    for node in view.nodes() {
        if let Some(first) = foreign_of(view, node).first() {
            let message = format!("{} knows the living node {first}, which is no member", node.member.name);
            blocks.push(Block::new(&node.member.name, Cause::ForeignNodes, message, remedy));
        }
    }
    blocks
}

/// Introduces members to the hub.
pub fn introduce<'v, 'a>(view: &'v View<'a>, able: &[&'v Node<'a>], steps: &mut Steps) -> Vec<Block> {
    let linked = |n: &Node<'_>| view.peer(n).map_or(0, |p| p.linked_by);
    let Some(hub) = able.iter().copied().min_by_key(|n| (u32::MAX - linked(n), n.id)) else { return Vec::new() };
    let all_new = able.iter().all(|n| view.alone(n));
    let mut blocks = Vec::new();
    let mut room = BATCH_MAX;
    for node in able.iter().copied().filter(|n| n.id != hub.id) {
        let Some((pod, peer, why)) = missing(view, hub, node, all_new) else { continue };
        if let Some(block) = dispute(view, node) {
            blocks.push(block);
            continue;
        }
        if room == 0 || lately(view, &node.member.name) {
            continue;
        }
        room -= 1;
        let reason = format!("{} {why} {}", node.member.name, hub.member.name);
        steps.add(node, meet(pod, peer, reason));
    }
    blocks
}

/// Who should be told of whom, if anybody.
fn missing<'v, 'a>(
    view: &View<'a>,
    hub: &'v Node<'a>,
    node: &'v Node<'a>,
    all_new: bool,
) -> Option<(&'v Node<'a>, &'v Node<'a>, &'static str)> {
    let (hub_id, id) = (hub.id?, node.id?);
    if view.knows(hub, id) == Some(false) {
        return Some((hub, node, "isn't known to"));
    }
    if view.knows(node, hub_id) == Some(false) {
        return Some((node, hub, "doesn't know"));
    }
    // Where differences were cut off, what the hub knows is unknown; that nobody has a link to the other is known all the same.
    let settled = |n: &Node<'_>| n.member.facts_now().is_some_and(|f| f.uptime >= HEAL_MS);
    let lost = view.alone(node) && (all_new || (settled(hub) && settled(node)));
    lost.then_some((hub, node, "has no link to"))
}

fn meet(pod: &Node<'_>, peer: &Node<'_>, reason: String) -> Step {
    let operation = Operation::Meet(PairOfPods { pod: pod.uid().into(), peer: peer.uid().into() });
    let run = |n: &Node<'_>| n.member.facts_now().map_or(String::new(), |f| f.run_id.clone());
    plan::step(operation, reason)
        .expecting(plan::same_run(pod.uid(), &run(pod)))
        .expecting(plan::same_run(peer.uid(), &run(peer)))
}

/// Whether that member was introduced so lately that the handshake may be under way.
fn lately(view: &View<'_>, subject: &str) -> bool {
    let meet = lookup::recent(view.observed, "meet", subject);
    meet.is_some_and(|o| o.outcome == OutcomeKind::Done && o.age < HANDSHAKE_MS)
}

/// Slots of a newcomer that others own, too, while one of them holds keys: the higher epoch would win, whoever has the data.
fn dispute(view: &View<'_>, node: &Node<'_>) -> Option<Block> {
    let own = view.claims(node);
    if own.is_empty() {
        return None;
    }
    let rivals = view.nodes().filter(|n| n.id != node.id && !slots::common(view.claims(n), own).is_empty());
    let mut filled = rivals.filter(|n| n.keys() != Some(0) || node.keys() != Some(0));
    let rival = filled.next()?;
    let both = slots::text(&slots::common(view.claims(rival), own));
    let message =
        format!("{} and {} both own the slots {both}, and they don't know each other", node.member.name, rival.member.name);
    let remedy =
        "save what is needed from the one that is wrong, then delete its pod and claim: joined, the higher epoch would win";
    Some(Block::new(&node.member.name, Cause::SlotsClaimedTwice, message, remedy))
}

/// Slots that two servers claim though they know each other: the epochs settle it.
pub fn claimed_twice(view: &View<'_>) -> Option<Block> {
    for node in view.nodes().filter(|n| n.says.is_some()) {
        let own = view.claims(node);
        let agreed = view.peer(node).map_or(&[][..], |p| &p.slots);
        let more = slots::minus(own, agreed);
        let owned: Vec<_> = view
            .observed
            .agreed_view
            .iter()
            .filter(|p| Some(p.id.as_str()) != node.id)
            .flat_map(|p| p.slots.iter().copied())
            .collect();
        let both = slots::common(&more, &owned);
        if !both.is_empty() {
            let message = format!("{} claims the slots {} against the others", node.member.name, slots::text(&both));
            return Some(Block::new(&node.member.name, Cause::SlotsClaimedTwice, message, BY_ITSELF));
        }
    }
    None
}
