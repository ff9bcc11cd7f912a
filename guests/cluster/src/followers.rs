//! The other members of a shard replicate its primary.
//!
//! # Guarantees
//! 1. Only a member that holds nothing, or a replica whose history the primary shares, is told to replicate; a copy of something
//!    else goes by consent.
//! 2. An owner of slots is never told to replicate.
//!
//! # Assumptions
//! A primary that lost its slots to a higher epoch becomes a replica by itself.

use vko_replica::consent::{self, Kind};
use vko_replica::decision::BY_ITSELF;
use vko_replica::primary::lacks_nothing_of;
use vko_replica::view::Standing;
use vko_sdk::observation::{Peer, ReplicaLink, ServerFacts, Upstream};
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Expectation, Operation, Replication, Step};

use crate::cause::{Block, Cause};
use crate::steps::Steps;
use crate::view::{Node, Shard, View, open};

/// How long (ms) a replica's link may be down before it is told again whom to replicate: the bus needs about a second to learn a
/// new address, and servers from 8.1 on then follow by themselves.
pub const LINK_DOWN_MS: u64 = 5_000;

/// Brings a shard's members behind its primary.
pub fn gather<'a>(view: &View<'a>, shard: &Shard<'a>, owner: &'a Peer, able: &[&Node<'a>], steps: &mut Steps) -> Vec<Block> {
    let Some(primary) = view.by_id(&owner.id).filter(|n| n.able()) else { return Vec::new() };
    if !matches!(primary.member.standing, Standing::Primary(_)) {
        return Vec::new();
    }
    let others = shard.nodes.iter().filter(|n| n.id != primary.id && able.iter().any(|a| a.id == n.id));
    others.filter_map(|node| join(view, primary, owner, node, steps)).collect()
}

fn join<'a>(view: &View<'a>, primary: &Node<'a>, owner: &'a Peer, node: &Node<'a>, steps: &mut Steps) -> Option<Block> {
    let introduced = view.knows(node, &owner.id) == Some(true) && node.id.and_then(|id| view.knows(primary, id)) == Some(true);
    // Slots on their way are settled first: a server that has some open is no replica to be.
    if !introduced || steps.touches(node) || !view.claims(node).is_empty() || !open(node).is_empty() {
        return None;
    }
    match node.member.standing {
        Standing::Primary(facts) if facts.keys == 0 => {
            let reason = format!("{} owns no slots; {} is the primary of its shard", node.member.name, primary.member.name);
            steps.add(node, replicate(node, primary, owner, reason).expecting(Expectation::DataSetEmpty(node.uid().into())));
            None
        }
        Standing::Primary(facts) => {
            let message = format!(
                "{} owns no slots and holds {} keys; it becomes a replica once it learns who took over",
                node.member.name, facts.keys
            );
            let old = view.shard_by_id(&owner.id).is_some() && owned_before(view, node);
            let remedy =
                if old { BY_ITSELF } else { "save what is needed from it, then delete its pod and claim: it joins anew, empty" };
            Some(Block::new(&node.member.name, Cause::KeysWithoutSlots, message, remedy))
        }
        Standing::Replica(facts, link) if view.replicates(node) == owner.id => {
            // Before it has found its primary on the bus it would only be sent to the old address again.
            if stuck(link, facts, primary) && view.reaches(node, &owner.id) {
                let reason = format!("the link of {} points at an address that its primary left", node.member.name);
                steps.add(node, replicate(node, primary, owner, reason));
            }
            None
        }
        Standing::Replica(facts, _) => change(view, primary, owner, node, facts, steps),
        _ => None,
    }
}

/// A replica of somebody else than its shard's primary.
fn change<'a>(
    view: &View<'a>,
    primary: &Node<'a>,
    owner: &Peer,
    node: &Node<'a>,
    facts: &ServerFacts,
    steps: &mut Steps,
) -> Option<Block> {
    let of = view.by_id(view.replicates(node)).map_or("a node that is gone", |n| n.member.name.as_str());
    let reason = format!("{} replicates {of}; {} is the primary of its shard", node.member.name, primary.member.name);
    if facts.keys == 0 || primary.member.facts_now().is_some_and(|p| lacks_nothing_of(p, facts)) {
        steps.add(node, replicate(node, primary, owner, reason));
        return None;
    }
    let run = primary.member.facts_now().map_or("", |f| &f.run_id);
    let token = consent::token(view.observed, Kind::DiscardWrites, &node.member.name, &[node.uid(), &facts.run_id, run]);
    if consent::given(view.observed, &token) {
        let reason = format!("a person consents to discard what {} holds; {reason}", node.member.name);
        steps.add(node, replicate(node, primary, owner, reason).consented(token));
        return None;
    }
    let message = format!("{reason}, and the {} keys that it holds are of another history", facts.keys);
    let remedy = "save what is needed from it, then consent: it will be synced anew";
    Some(Block::new(&node.member.name, Cause::WritesWouldBeLost, message, remedy).or_consent(token))
}

/// Whether a replica follows an address of its primary's past (7.2 keeps it for ever).
fn stuck(link: &ReplicaLink, facts: &ServerFacts, primary: &Node<'_>) -> bool {
    let elsewhere = match &link.primary {
        Upstream::Pod(uid) => uid != primary.uid(),
        Upstream::Other(_) => true,
        Upstream::Nobody => false,
    };
    elsewhere && !link.up && !link.syncing && link.down_for.unwrap_or(facts.uptime) >= LINK_DOWN_MS
}

/// Whether the ledger knows this node as a primary: it lost its slots to a replica.
fn owned_before(view: &View<'_>, node: &Node<'_>) -> bool {
    node.id.is_some_and(|id| crate::view::recorded(view.observed, id).is_some())
}

fn replicate(node: &Node<'_>, primary: &Node<'_>, owner: &Peer, reason: String) -> Step {
    let operation = Operation::Replicate(Replication { pod: node.uid().into(), primary: owner.id.clone() });
    let run = node.member.facts_now().map_or(String::new(), |f| f.run_id.clone());
    plan::step(operation, reason).expecting(plan::same_run(node.uid(), &run)).expecting(plan::is_primary(primary.uid()))
}
