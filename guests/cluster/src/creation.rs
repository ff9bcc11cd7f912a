//! A shard that never had a primary gets its slots.
//!
//! # Guarantees
//! 1. Slots are given once: to a server that owns none, is empty, and only if nobody owns or claims any of them.
//! 2. What may hold data from before is waited for; keys without slots are never covered by an empty server without a person's
//!    word.
//!
//! # Assumptions
//! The host writes `formed` and the shard's first primary into the ledger before it gives slots. A server that takes slots by
//! itself bumps no epoch; equal epochs are told apart by the servers.
//!
//! # Flow, per shard, side by side
//! 1. Members that answer with keys, or that may hold some: wait, or go by consent.
//! 2. Of those that answer, the one that [`spread`](crate::spread) puts first gets the planned slots.

use vko_replica::consent::{self, Kind};
use vko_replica::decision::BY_ITSELF;
use vko_replica::view::Standing;
use vko_sdk::common::SlotRange;
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Expectation, Operation, SlotAssignment, Step};
use vko_sdk::slots;

use crate::Shared;
use crate::cause::{Block, Cause};
use crate::steps::Steps;
use crate::view::{Node, Shard, View};

/// Gives a shard its slots, or says what that waits for.
pub fn create<'a>(
    view: &View<'a>,
    shard: &Shard<'a>,
    able: &[&Node<'a>],
    all: &mut Shared<'a>,
    steps: &mut Steps,
) -> Option<Block> {
    let elsewhere = slots::common(&shard.planned, &all.taken);
    if !elsewhere.is_empty() {
        let message = format!("the slots {} of {} are owned by others", slots::text(&elsewhere), shard.workload);
        let remedy = "move them to a member of that shard, or create the instance anew";
        return Some(Block::new(&shard.workload, Cause::SlotsElsewhere, message, remedy));
    }
    let free = |n: &&Node<'a>| matches!(n.member.standing, Standing::Primary(_)) && view.claims(n).is_empty();
    let members = || able.iter().copied().filter(|n| shard.nodes.iter().any(|m| m.member.name == n.member.name));
    let filled = members().filter(free).filter(|n| n.keys() != Some(0)).max_by_key(|n| n.keys());
    let copy = shard.nodes.iter().find(|n| n.keys() > Some(0));
    let awaited = shard.nodes.iter().find(|n| unsure(n));
    if let Some(node) = filled {
        let keys = node.keys().unwrap_or(0);
        let message = format!("{} holds {keys} keys, but its node owns no slots", node.member.name);
        let remedy =
            "empty it or delete its pod and claim; or consent to give it the slots of its shard, with the keys that it has";
        return by_consent(shard, node, view, Block::new(&shard.workload, Cause::KeysWithoutSlots, message, remedy), steps);
    }
    if let Some(other) = copy {
        let message = format!("{} holds keys, and nobody owns the slots of its shard", other.member.name);
        let remedy = "see what it replicates; save what is needed, then delete its pod and claim";
        return Some(Block::new(&shard.workload, Cause::KeysWithoutSlots, message, remedy));
    }
    if let Some(other) = awaited {
        let old = old_claim(other);
        let message = match old {
            true => format!("the claim of {} is older than this instance and may hold slots and data", other.member.name),
            false => format!("{} runs, but what it holds isn't known yet", other.member.name),
        };
        let (cause, remedy) = match old {
            true => (Cause::RetainedData, "let its pod start, or delete the claim if it isn't needed"),
            false => (Cause::MembersAwaited, BY_ITSELF),
        };
        return Some(Block::new(&shard.workload, cause, message, remedy));
    }
    let node = all.spread.best(members().filter(free))?;
    if let Some(better) = all.spread.worth_a_wait(shard, node) {
        let message = format!("{} starts where there are fewer primaries than beside {}", better.member.name, node.member.name);
        return Some(Block::new(&shard.workload, Cause::MembersAwaited, message, BY_ITSELF));
    }
    all.spread.chosen(shard, node);
    let reason = format!("{} never had a primary; {} answers and is empty", shard.workload, node.member.name);
    let step = own(node, &shard.planned, reason).expecting(Expectation::DataSetEmpty(node.uid().into()));
    steps.add(node, step);
    None
}

fn by_consent(shard: &Shard<'_>, node: &Node<'_>, view: &View<'_>, block: Block, steps: &mut Steps) -> Option<Block> {
    let token = consent::token(view.observed, Kind::SlotsDataLoss, &node.member.name, &[node.uid(), "keys without slots"]);
    if !consent::given(view.observed, &token) {
        return Some(block.or_consent(token));
    }
    let reason = format!("a person consents to give {} the slots of its shard", node.member.name);
    steps.add(node, own(node, &shard.planned, reason).consented(token));
    None
}

/// Slots for a server, bound to its run and its role.
pub fn own(node: &Node<'_>, slots: &[SlotRange], reason: String) -> Step {
    let operation = Operation::OwnSlots(SlotAssignment { pod: node.uid().into(), slots: slots.to_vec() });
    let run = node.member.facts_now().map_or(String::new(), |f| f.run_id.clone());
    plan::step(operation, reason).expecting(plan::same_run(node.uid(), &run)).expecting(plan::is_primary(node.uid()))
}

/// Whether a member may hold slots or data that nobody has seen.
fn unsure(node: &Node<'_>) -> bool {
    if node.able() {
        return false;
    }
    let lives = !matches!(node.member.standing, Standing::Absent | Standing::Dead | Standing::Starting);
    lives || old_claim(node)
}

/// A claim from before the instance that nobody answers for, on a volume that isn't gone.
fn old_claim(node: &Node<'_>) -> bool {
    let claim = node.member.claim.filter(|c| c.node_exists != Some(false) && c.phase != "Pending");
    claim.is_some_and(|c| c.before_instance)
}
