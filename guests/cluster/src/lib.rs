//! The built-in policy of the cluster architecture: 3 to 128 shards, each with one primary and up to four replicas. It creates a
//! cluster and keeps it alive; the number of shards and members is what it was created with.
//!
//! # Guarantees
//! 1. Pure: the same observation gives the same plan. Nothing panics on data.
//! 2. No slot is given twice, no owner of slots is told to replicate, and no server that knows a living stranger is told
//!    anything.
//! 3. Unknown is never no, silent is never dead, and what may hold data is waited for until a person says otherwise.
//! 4. A quiet cluster gets no tracks and no look before the next event.
//!
//! # Assumptions
//! The host writes the ledger before each act, reads expectations again before it sends, and guards: this policy is the first of
//! two opinions. The servers elect among themselves while a majority of primaries is alive; a server's agent holds it back while
//! a replica has more of its data.
//!
//! # Flow
//! 1. [`spec`] reads what people want, [`view`] sorts what was observed.
//! 2. [`join`]: members learn of each other. Nothing is done to whoever knows strangers, or to join who is in [`dispute`].
//! 3. Each shard by itself: [`creation`] gives it slots, [`followers`] brings its members behind its primary, [`takeover`]
//!    replaces one that is away, [`orphans`] gives back slots that nobody owns any more.
//! 4. [`ghosts`] clears what is left over. [`status`] follows from the observation alone.
//!
//! The decisions in prose: docs/cluster-decisions.md.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cause;
pub mod creation;
pub mod desired;
pub mod dispute;
pub mod followers;
pub mod ghosts;
pub mod join;
pub mod orphans;
pub mod spec;
pub mod spread;
pub mod status;
pub mod steps;
pub mod takeover;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod view;

use vko_replica::backoff;
use vko_replica::decision::{BY_ITSELF, LATER_MS, SOON_MS, sooner};
use vko_sdk::common::{Architecture, SlotRange};
use vko_sdk::observation::Peer;
use vko_sdk::planning::{Routing, Writer};
use vko_sdk::{ModuleInfo, Observed, Plan, Policy, PolicyError, Violation};

use crate::cause::{Block, Cause, Decision};
use crate::spread::Spread;
use crate::status::Picture;
use crate::steps::Steps;
use crate::view::{Node, Shard, View};

/// Pace (ms) while everything waits for a person.
pub const PATIENT_MS: u64 = 10_000;

/// The policy.
pub struct ClusterPolicy;

#[cfg(all(target_arch = "wasm32", feature = "component"))]
vko_sdk::export_policy!(ClusterPolicy);

impl Policy for ClusterPolicy {
    fn describe() -> ModuleInfo {
        ModuleInfo {
            name: "cluster".into(),
            architecture: Architecture::Cluster,
            version: env!("CARGO_PKG_VERSION").into(),
            server_lines: vec!["7.2".into(), "8.1".into(), "9.1".into()],
            description: "Shards with one primary and up to four replicas; created, joined and kept alive on evidence.".into(),
        }
    }

    fn validate(spec: String, previous: String) -> Vec<Violation> {
        spec::validate(&spec, &previous)
    }

    fn decide(observed: Observed) -> Result<Plan, PolicyError> {
        decide(&observed)
    }
}

/// The plan for an observation.
///
/// # Errors
/// [`PolicyError::Insufficient`]: of another architecture, or a spec out of range; the instance stays as it is.
/// [`PolicyError::Internal`]: the spec isn't what this policy reads.
pub fn decide(observed: &Observed) -> Result<Plan, PolicyError> {
    if observed.instance.architecture != Architecture::Cluster {
        return Err(PolicyError::Insufficient("this policy governs the cluster architecture only".into()));
    }
    let view = View::new(observed, spec::read(&observed.instance.spec)?);
    let hands_off = observed.instance.deleting || observed.instance.paused;
    let wished = if hands_off { Decision::default() } else { act(&view) };
    let idle = wished.tracks.is_empty();
    let decision = backoff::settle(observed, wished, Cause::HostLacksOperation);
    let picture = Picture::new(&view, &decision);
    let look_again = match hands_off || picture.ready() {
        true => decision.look_again,
        false if idle && for_a_person(&decision) => PATIENT_MS,
        false => sooner(decision.look_again, if picture.in_service() { LATER_MS } else { SOON_MS }),
    };
    let status = picture.status();
    let desired = if hands_off { Vec::new() } else { desired::desired(&view) };
    let Decision { tracks, blocks, .. } = decision;
    let blocked = blocks.into_iter().map(Block::publish).collect();
    let routing = Routing { writer: Writer::None, readers: Vec::new() };
    Ok(Plan { status, desired, routing, tracks, blocked, look_again, extensions: Vec::new() })
}

/// Whether nothing goes on before a person has decided. Their word wakes the host, and so does any server.
fn for_a_person(decision: &Decision) -> bool {
    !decision.blocks.is_empty() && decision.blocks.iter().all(|block| block.remedy != BY_ITSELF)
}

/// What is to be done now.
fn act(view: &View<'_>) -> Decision {
    let strangers = join::strangers(view);
    let usable = |n: &Node<'_>| n.able() && !strangers.taint(n);
    let able: Vec<&Node<'_>> = view.nodes().filter(|n| usable(n)).collect();
    if able.is_empty() && !strangers.none() {
        return Decision { blocks: strangers.blocks, look_again: SOON_MS, ..Decision::default() };
    }
    let mut steps = Steps::default();
    let alone = strangers.none();
    let mut decision = Decision::default();
    let joining = if view.observed.ledger.formed.is_none() {
        decision.blocks.push(unknown());
        join::introduce(view, &able, &mut steps)
    } else {
        decision = shards(view, &usable, &mut steps);
        let joining = join::introduce(view, &able, &mut steps);
        // Every server is told to forget: those that know strangers, too.
        if alone {
            ghosts::forget(view, &mut steps);
        }
        decision.blocks.extend(ghosts::settle(view, &able, &mut steps));
        joining
    };
    decision.blocks.splice(0..0, strangers.blocks);
    decision.blocks.extend(joining);
    decision.blocks.extend(join::claimed_twice(view));
    decision.tracks = steps.tracks();
    if !decision.tracks.is_empty() || !decision.blocks.is_empty() {
        decision.look_again = sooner(decision.look_again, SOON_MS);
    }
    decision
}

fn unknown() -> Block {
    let message =
        "the ledger was lost: whether this cluster ever held data is unknown; members are introduced to each other, no more";
    let remedy = "bring all members back into reach: the ledger is written anew when all slots have one owner";
    Block::new("cluster", Cause::LedgerLost, message.into(), remedy)
}

fn shards(view: &View<'_>, usable: &dyn Fn(&Node<'_>) -> bool, steps: &mut Steps) -> Decision {
    let mut all = Shared { taken: view.taken(), alone: true, spread: Spread::new(view) };
    let mut decision = Decision::default();
    for shard in &view.shards {
        let able: Vec<&Node<'_>> = shard.nodes.iter().filter(|n| usable(n)).collect();
        decision = decision.and(one(view, shard, &able, &mut all, steps));
    }
    decision
}

/// What the shards of one look have in common.
pub struct Shared<'a> {
    /// Slots that anybody owns.
    pub taken: Vec<SlotRange>,
    /// Whether no shard is taken over yet.
    pub alone: bool,
    /// Where primaries are.
    pub spread: Spread<'a>,
}

/// One shard. `able`: its members that may be told something.
fn one<'a>(view: &View<'a>, shard: &Shard<'a>, able: &[&Node<'a>], all: &mut Shared<'a>, steps: &mut Steps) -> Decision {
    let from = |blocks: Vec<Block>| Decision { blocks, ..Decision::default() };
    match (shard.owner(), shard.owners.as_slice()) {
        (Some(owner), _) => {
            let replaced = takeover::replace(view, shard, owner, able, &mut all.alone, steps);
            let followed = followers::gather(view, shard, owner, able, steps);
            let whole = orphans::complete(view, shard, owner, able, &all.taken, steps);
            replaced.and(from(followed)).and(from(whole.into_iter().collect()))
        }
        // Introduced to each other they settle it, or it is said there why they can't be.
        (None, owners) if unacquainted(view, owners) => Decision::look(SOON_MS),
        (None, [first, ..]) => {
            let message = format!("{} nodes of {} own slots, {} first", shard.owners.len(), shard.workload, first.id);
            let remedy = "move the slots of one to the other; until then nobody is told to replicate either";
            from(vec![Block::new(&shard.workload, Cause::SeveralOwners, message, remedy)])
        }
        (None, []) if shard.nodes.iter().any(|n| !view.claims(n).is_empty()) => {
            let message = format!("a member of {} owns slots, and the others don't know it yet", shard.workload);
            from(vec![Block::new(&shard.workload, Cause::MembersAwaited, message, BY_ITSELF)])
        }
        (None, []) if view.had_primary(shard) => takeover::unowned(view, shard, able, all, steps),
        (None, []) => from(creation::create(view, shard, able, all, steps).into_iter().collect()),
    }
}

/// Whether an owner that answers may not know another one.
fn unacquainted(view: &View<'_>, owners: &[&Peer]) -> bool {
    let heard = owners.iter().filter_map(|owner| view.by_id(&owner.id)).filter(|node| node.says.is_some());
    heard.into_iter().any(|node| owners.iter().any(|other| view.knows(node, &other.id) != Some(true)))
}

#[cfg(test)]
mod tests;
