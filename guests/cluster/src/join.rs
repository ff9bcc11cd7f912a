//! Members learn of each other; strangers are kept out.
//!
//! # Guarantees
//! 1. Only members are introduced to each other. A server that knows a living node which is no member gets no command at all: two
//!    clusters that meet become one for good.
//! 2. Groups that claim the same slots are not joined while a side that may lose them holds keys ([`dispute`]).
//!
//! # Assumptions
//! A MEET teaches an address: a node that is known keeps its id and slots. One round is enough, gossip does the rest.
//!
//! # Flow
//! 1. The hub: a server that most others have a link to, of these the lowest id, so that each look has the same one.
//! 2. Whoever doesn't know the hub, or isn't known by it, is introduced; whoever has lost all links, too, once it had time to
//!    find the others by itself. If nobody has a link to anybody, all addresses are new: at once. That it comes late, when
//!    those before it are introduced already, changes only the few seconds.

use std::collections::BTreeSet;

use vko_replica::decision::BY_ITSELF;
use vko_sdk::observation::{OutcomeKind, Peer, Upstream};
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Operation, PairOfPods, Step};
use vko_sdk::{lookup, slots};

use crate::cause::{Block, Cause};
use crate::dispute;
use crate::steps::Steps;
use crate::view::{Node, View, recorded};

/// Introductions of one look: each costs both ends a handshake, and gossip spreads the rest.
pub const BATCH_MAX: usize = 64;
/// How long (ms) after its start a server has to find the others by itself, where somebody has links: it dials every address of
/// its file at once, and where one of them is right the links are up again 1.8 s after the start. Where all its addresses are
/// old nobody finds it.
pub const HEAL_MS: u64 = 2_500;
/// How long (ms) after its start a server may still be about to reach the nodes of its file: it dials each of them at once.
pub const STRANGER_MS: u64 = 5_000;
/// How long (ms) an introduction may take before it is repeated: a handshake needs some rounds of a tenth of a second each.
pub const HANDSHAKE_MS: u64 = 3_000;

/// Living nodes that are no members, whoever knows them.
fn foreign<'a>(view: &View<'a>) -> Vec<&'a Peer> {
    let alive = |p: &&&Peer| !p.failed && !p.handshake && p.linked_by > 0;
    view.peers.values().filter(alive).filter(|p| !ours(view, &p.id)).copied().collect()
}

/// Whether a node is or was a member. Of one that was never heard the address says so.
fn ours(view: &View<'_>, id: &str) -> bool {
    let at_a_pod = view.peers.get(id).is_some_and(|p| matches!(p.pod, Upstream::Pod(_)));
    at_a_pod || view.by_id(id).is_some() || recorded(view.observed, id).is_some()
}

/// A stranger that this server may know. Just after its start it can't tell yet which of the nodes in its file live.
fn stranger_to<'a>(view: &View<'a>, foreign: &[&'a Peer], node: &Node<'a>) -> Option<&'a str> {
    let known = foreign.iter().map(|p| p.id.as_str()).find(|id| view.knows(node, id) != Some(false));
    if known.is_some() || node.member.facts_now().is_none_or(|f| f.uptime >= STRANGER_MS) {
        return known;
    }
    let open = view.peers.values().filter(|p| !p.failed && !p.handshake);
    open.map(|p| p.id.as_str()).find(|id| view.knows(node, id) == Some(true) && !ours(view, id))
}

/// What waits because of strangers, and the members that know some: nothing is done to these.
pub struct Strangers<'a> {
    /// For a person.
    pub blocks: Vec<Block>,
    /// Their names.
    tainted: BTreeSet<&'a str>,
}

impl Strangers<'_> {
    /// Whether nobody knows any.
    pub fn none(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether that member knows one.
    pub fn taint(&self, node: &Node<'_>) -> bool {
        self.tainted.contains(node.uid())
    }
}

/// Who knows strangers.
pub fn strangers<'a>(view: &View<'a>) -> Strangers<'a> {
    let remedy =
        "find out whose they are; make them unreachable for this instance, or forget them (CLUSTER FORGET) on every member";
    let all = foreign(view);
    let mut found = Strangers { blocks: Vec::new(), tainted: BTreeSet::new() };
    for node in view.nodes().filter(|n| n.says.is_some()) {
        let Some(first) = stranger_to(view, &all, node) else { continue };
        found.tainted.insert(node.uid());
        let message = format!("{} knows the living node {first}, which is no member", node.member.name);
        found.blocks.push(Block::new(&node.member.name, Cause::ForeignNodes, message, remedy));
    }
    // Known to most it is the cluster's own trouble, and each member's name says nothing more.
    if let Some(first) = all.first().filter(|_| found.tainted.len() * 2 > view.answering as usize) {
        let message = format!("{} living node(s) are no members, {} first: clusters must not be joined", all.len(), first.id);
        found.blocks = vec![Block::new("cluster", Cause::ForeignNodes, message, remedy)];
    }
    found
}

/// Introduces members to the hub.
pub fn introduce<'v, 'a>(view: &'v View<'a>, able: &[&'v Node<'a>], steps: &mut Steps) -> Vec<Block> {
    let linked = |n: &Node<'_>| view.peer(n).map_or(0, |p| p.linked_by);
    let Some(hub) = able.iter().copied().min_by_key(|n| (u32::MAX - linked(n), n.id)) else { return Vec::new() };
    let all_new = able.iter().all(|n| view.alone(n));
    let disputes = dispute::disputes(view);
    let mut blocks: Vec<Block> = Vec::new();
    let mut room = BATCH_MAX;
    for node in able.iter().copied().filter(|n| n.id != hub.id) {
        let Some((pod, peer, why)) = missing(view, hub, node, all_new) else { continue };
        if let Some(dispute) = dispute::between(view, &disputes, hub, node) {
            let block = dispute.block();
            if !blocks.contains(&block) {
                blocks.push(block);
            }
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
    let had_time = node.member.facts_now().is_some_and(|f| f.uptime >= HEAL_MS);
    let lost = view.alone(node) && (all_new || had_time);
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

/// Slots that two servers claim though they know each other: the epochs settle it.
pub fn claimed_twice(view: &View<'_>) -> Option<Block> {
    for node in view.nodes().filter(|n| n.says.is_some()) {
        let own = view.claims(node);
        let agreed = view.peer(node).map_or(&[][..], |p| &p.slots);
        let more = slots::minus(own, agreed);
        if more.is_empty() {
            continue;
        }
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
