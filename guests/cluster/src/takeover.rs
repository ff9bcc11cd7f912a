//! A shard whose primary is away.
//!
//! # Guarantees
//! 1. Nobody is told to take over from a primary that may be alive: dead is a container that ended, a pod or node that is gone,
//!    or a server that our agent holds back. Silent is not dead.
//! 2. While a majority of primaries answers, votes decide (force). Without one, one shard at a time takes over by itself: each
//!    success may restore the majority, and then the servers elect.
//! 3. A replica without data takes over only by consent.
//! 4. Who takes over knows all the slots that it takes over: a server accepts the order without, and then has the role and none.
//!
//! # Assumptions
//! One owner for each hand-over: the hook of an ending pod; the agent of a server that it holds while a majority is there; the
//! servers' own election for a primary that ended and may be back in a moment.
//!
//! # Flow
//! 1. What is known of the owner of the shard's slots.
//! 2. The best replica: it follows the owner, was synced, and has the highest offset.
//! 3. None: data that may return is waited for; a shard that is lost goes by consent.

use vko_replica::consent::{self, Kind};
use vko_replica::decision::{BY_ITSELF, SOON_MS};
use vko_replica::view::Standing;
use vko_sdk::observation::{ContainerState, DataOrigin, OutcomeKind, Peer, Role, ServerFacts};
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{ClusterTakeover, Expectation, Operation, Step, Takeover};
use vko_sdk::slots;

use crate::Shared;
use crate::cause::{Block, Cause, Decision};
use crate::creation::own;
use crate::steps::Steps;
use crate::view::{Node, Shard, View};

/// How long (ms) after a takeover the next one waits: the others elect within a second once a majority is back.
pub const PAUSE_MS: u64 = 3_000;

/// What is known of an owner that doesn't answer as the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    /// Its pod or node is gone, or another server fills its place: it doesn't come back as it was.
    Gone,
    /// Its container ended; the same pod may start it again.
    Ended,
    /// The agent holds it back: its data lies behind a replica's.
    Held,
    /// It starts or loads.
    Starting,
    /// It ends by its own hook, or changes roles.
    Changing,
    /// No answer, or errors.
    Silent,
}

/// The replacement of a shard's primary, if it needs one. `alone`: no other shard takes over without votes in
/// this look.
pub fn replace<'a>(
    view: &View<'a>,
    shard: &Shard<'a>,
    owner: &'a Peer,
    able: &[&Node<'a>],
    alone: &mut bool,
    steps: &mut Steps,
) -> Decision {
    let Some(away) = away(view, shard, owner) else { return Decision::default() };
    if let Some(decision) = claimed(view, shard, owner) {
        return decision;
    }
    let majority = view.majority();
    let (learned, others): (Vec<_>, Vec<_>) = able.iter().copied().partition(|n| view.knows_slots_of(n, owner));
    let best = best(view, shard, owner, &learned);
    let name = view.by_id(&owner.id).map_or_else(|| format!("the last primary of {}", shard.workload), |n| n.member.name.clone());
    let wait = |cause, message, remedy| Decision::wait(Block::new(&shard.workload, cause, message, remedy));
    match (away, majority, best) {
        (Away::Changing | Away::Starting, ..) => {
            wait(Cause::ElectionUnderWay, format!("{name} starts, ends or changes its role"), BY_ITSELF)
        }
        (Away::Held, true, Some(_)) => wait(Cause::HeldPrimary, format!("{name} waits for a replica to take over"), BY_ITSELF),
        (Away::Ended, true, Some(_)) => wait(
            Cause::ElectionUnderWay,
            format!("{name} ended; the others elect a replica, or it comes back with its data"),
            BY_ITSELF,
        ),
        (Away::Ended, true, None) if !crashes(view, owner) => {
            wait(Cause::ElectionUnderWay, format!("{name} ended, and comes back with its data"), BY_ITSELF)
        }
        (Away::Silent, true, Some(_)) => wait(
            Cause::PrimarySilent,
            format!("{name} gives no answer; the others elect a replica if they miss it, too"),
            BY_ITSELF,
        ),
        (Away::Silent, true, None) => wait(
            Cause::PrimarySilent,
            format!("{name} gives no answer, may be alive, and no replica of it can be elected"),
            "bring it back into reach, or make its end certain: delete its pod and see it gone",
        ),
        (Away::Silent, false, _) => wait(
            Cause::PrimarySilent,
            format!("{name} gives no answer, may be alive, and no majority of primaries is left to vote"),
            "bring it back into reach, or make its end certain: delete its pod and see it gone",
        ),
        (Away::Gone, true, Some(replica)) => {
            let reason =
                format!("{name} is gone; {} is its best replica, and a majority of primaries can vote", replica.member.name);
            steps.add(replica, take_over(replica, Takeover::Force, reason));
            Decision::default()
        }
        (_, false, Some(replica)) => {
            if *alone && settled(view) {
                *alone = false;
                let reason = format!(
                    "{name} is dead and no majority of primaries is left to vote; {} is its best replica",
                    replica.member.name
                );
                steps.add(replica, take_over(replica, Takeover::Takeover, reason));
                return Decision::default();
            }
            wait(Cause::ElectionUnderWay, format!("{name} is dead; another shard takes over first"), BY_ITSELF)
        }
        (_, _, None) => match self::best(view, shard, owner, &others) {
            Some(replica) => wait(
                Cause::DataMayReturn,
                format!(
                    "{} has the data, but never learned from {name} which slots are its, and can't take them over",
                    replica.member.name
                ),
                "bring the lost primary back; or delete the replica's pod, and consent to go on without the data",
            ),
            None => lost(view, shard, owner, &name, &learned, steps),
        },
    }
}

/// Another member of the shard says that it owns its slots.
fn claimed(view: &View<'_>, shard: &Shard<'_>, owner: &Peer) -> Option<Decision> {
    let claims = |n: &&Node<'_>| {
        let other = n.says.is_some() && n.id != Some(owner.id.as_str());
        other && !slots::common(view.claims(n), &owner.slots).is_empty()
    };
    let heir = shard.nodes.iter().find(claims)?;
    if view.knows(heir, &owner.id) != Some(true) {
        // Who was never its replica is in dispute with it, and that is said there.
        return Some(Decision::look(SOON_MS));
    }
    let message = format!("{} has taken over; the others learn of it", heir.member.name);
    Some(Decision::wait(Block::new(&shard.workload, Cause::ElectionUnderWay, message, BY_ITSELF)))
}

/// Whether the owner's container ends again and again, or can't be started.
fn crashes(view: &View<'_>, owner: &Peer) -> bool {
    view.by_id(&owner.id).and_then(|n| n.member.pod).is_some_and(|p| !p.waiting.is_empty())
}

fn away(view: &View<'_>, shard: &Shard<'_>, owner: &Peer) -> Option<Away> {
    let Some(node) = view.by_id(&owner.id) else {
        // One that never said its id may be the owner.
        let mut unheard = shard.nodes.iter().filter(|n| n.unidentified()).map(Node::held).collect::<Vec<_>>();
        unheard.sort_unstable();
        return Some(match unheard.first() {
            None => Away::Gone,
            Some(true) => Away::Held,
            Some(false) => Away::Silent,
        });
    };
    let ended = node.member.pod.is_some_and(|p| p.container == ContainerState::Terminated);
    Some(match node.member.standing {
        Standing::Primary(_) => return None,
        Standing::Replica(..) => Away::Changing,
        _ if node.gone() => Away::Gone,
        _ if node.member.terminating() && !ended => Away::Changing,
        Standing::Dead => Away::Ended,
        Standing::Refusing(_) if node.held() => Away::Held,
        // It hasn't compared its data with anybody's yet, and may have more than all others.
        Standing::Refusing(reason) if reason.starts_with("HELD") => Away::Starting,
        Standing::Starting | Standing::Loading { .. } => Away::Starting,
        Standing::Absent => Away::Gone,
        Standing::Refusing(_) | Standing::Silent(_) => Away::Silent,
    })
}

/// The replica that should take over: of those that were synced, the one that got furthest.
fn best<'v, 'a>(view: &View<'a>, shard: &'v Shard<'a>, owner: &Peer, able: &[&Node<'a>]) -> Option<&'v Node<'a>> {
    let follows = |n: &&Node<'a>| view.replicates(n) == owner.id && view.peer(n).is_some_and(|p| p.replica_of == owner.id);
    let candidates = shard.nodes.iter().filter(|n| able.iter().any(|a| a.id == n.id)).filter(follows);
    let lost =
        view.by_id(&owner.id).filter(|n| !n.held()).and_then(|n| n.member.facts_known()).filter(|f| f.role == Role::Primary);
    let descends = |f: &ServerFacts| lost.is_none_or(|l| f.replid == l.replid || f.second_replid == l.replid);
    let synced = candidates.filter(|n| match n.member.standing {
        Standing::Replica(facts, link) => {
            let once = facts.origin == DataOrigin::Sync || n.member.ready() || facts.keys > 0;
            !link.syncing && facts.offset > 0 && once && descends(facts)
        }
        _ => false,
    });
    synced.max_by_key(|n| (n.keys() > Some(0), n.member.facts_now().map_or(0, |f| f.offset), u32::MAX - n.member.ordinal))
}

/// Nobody has the data now.
fn lost<'a>(view: &View<'a>, shard: &Shard<'a>, owner: &Peer, name: &str, able: &[&Node<'a>], steps: &mut Steps) -> Decision {
    let returns = shard.nodes.iter().find(|n| may_return(view, n, owner));
    let held = view.by_id(&owner.id).filter(|n| n.held());
    let (cause, message, remedy) = match returns {
        _ if held.is_some() => (
            Cause::HeldPrimary,
            format!("{name} has less data than a replica that can't take over now"),
            "bring the replica back into reach; or delete the pod of that primary, which then starts with the data that it has",
        ),
        Some(node) => (
            Cause::DataMayReturn,
            format!("{name} is away, no replica can take over, and {} may come back with the data", node.member.name),
            "see why it doesn't start (kubectl describe pod); or consent to go on without its data",
        ),
        None => (
            Cause::ShardLost,
            format!("{name} is gone and no member of {} has its data any more", shard.workload),
            "restore the data elsewhere; or consent to go on with the named member, empty",
        ),
    };
    let block = Block::new(&shard.workload, cause, message, remedy);
    let heir = shard.nodes.iter().filter(|n| able.iter().any(|a| a.id == n.id) && n.id != Some(owner.id.as_str()));
    let whole = |n: &&Node<'a>| !matches!(n.member.standing, Standing::Replica(_, link) if link.syncing);
    let heir = heir
        .filter(|n| view.claims(n).is_empty())
        .filter(whole)
        .min_by_key(|n| (view.replicates(n) != owner.id, n.member.ordinal));
    let Some(heir) = heir else { return Decision::wait(block) };
    // Whoever wasn't heard yet may be the one that owns these slots.
    if view.nodes().any(Node::unidentified) {
        return Decision::wait(block);
    }
    let follows = view.replicates(heir) == owner.id;
    // A claim wins by its epoch, and that one is the highest only of those that the server has heard of.
    if !follows && !heir.says.is_some_and(|says| says.epoch >= owner.config_epoch && !view.alone(heir)) {
        return Decision::wait(block);
    }
    let kind = if follows { Kind::PromoteDataLoss } else { Kind::SlotsDataLoss };
    let token = consent::token(view.observed, kind, &heir.member.name, &[heir.uid(), &owner.id]);
    if !consent::given(view.observed, &token) {
        return Decision::wait(block.or_consent(token));
    }
    let reason = format!("a person consents to go on with {} and without the data of {name}", heir.member.name);
    let text = format!("{} got the slots of {} by consent: {}", heir.member.name, shard.workload, block.message);
    if follows {
        let mode = if view.majority() { Takeover::Force } else { Takeover::Takeover };
        steps.add(heir, take_over(heir, mode, reason).consented(token));
    } else {
        steps.add(heir, own(heir, &owner.slots, reason.clone()).consented(token));
        steps.add(
            heir,
            plan::step(Operation::BumpEpoch(heir.uid().into()), format!("{reason}: its word outweighs the lost one's")),
        );
    }
    Decision { data_lost: Some(text), ..Decision::default() }
}

/// A shard that had a primary, and whose slots nobody owns now: its servers lost their own memory of the cluster. Where data may
/// be left, consent is asked for the member with the most keys; where they lived with pods that are gone, the shard starts anew.
pub fn unowned<'a>(view: &View<'a>, shard: &Shard<'a>, able: &[&Node<'a>], all: &mut Shared<'a>, steps: &mut Steps) -> Decision {
    let slots = slots::minus(&shard.planned, &all.taken);
    let awaited = shard.nodes.iter().find(|n| n.says.is_none() && n.member.pod.is_some());
    let (cause, message) = match awaited {
        Some(node) => (
            Cause::DataMayReturn,
            format!(
                "nobody owns the slots of {}, which had a primary; {} doesn't answer and may be it",
                shard.workload, node.member.name
            ),
        ),
        None => (Cause::ShardLost, format!("nobody owns the slots of {}, which had a primary", shard.workload)),
    };
    let remedy = "restore the members' volumes; or consent to go on with the named member and the keys that it has";
    let block = Block::new(&shard.workload, cause, message, remedy);
    let free = able.iter().copied().filter(|n| matches!(n.member.standing, Standing::Primary(_)) && view.claims(n).is_empty());
    // It was named and the host ended before it gave the slots: the same node, and nobody holds a key.
    let nothing = |n: &Node<'_>| n.keys() == Some(0) || (n.member.pod.is_none() && n.member.claim.is_none());
    let appointed = free.clone().find(|n| view.was_named(shard, n)).filter(|_| shard.nodes.iter().all(nothing));
    if let Some(node) = appointed.filter(|_| !slots.is_empty()) {
        let reason = format!("{} was named the primary of {} and got no slots; all is empty", node.member.name, shard.workload);
        steps.add(node, own(node, &slots, reason).expecting(Expectation::DataSetEmpty(node.uid().into())));
        return Decision::default();
    }
    // Nobody could bring anything back: a person has nothing to decide.
    let nothing_left = shard.nodes.iter().all(|n| n.says.is_some() && n.keys() == Some(0) && n.member.claim.is_none());
    let first = all.spread.best(free.clone()).filter(|_| nothing_left && !slots.is_empty());
    if let Some(node) = first {
        all.spread.chosen(shard, node);
        let text = format!("the data of {} went with its pods; it starts anew with {}, empty", shard.workload, node.member.name);
        steps.add(node, own(node, &slots, text.clone()).expecting(Expectation::DataSetEmpty(node.uid().into())));
        return Decision { data_lost: Some(text), ..Decision::default() };
    }
    let heir = free.max_by_key(|n| (n.keys(), u32::MAX - n.member.ordinal)).filter(|_| !slots.is_empty());
    let Some(heir) = heir else { return Decision::wait(block) };
    let token = consent::token(view.observed, Kind::SlotsDataLoss, &heir.member.name, &[heir.uid(), "unowned"]);
    if !consent::given(view.observed, &token) {
        return Decision::wait(block.or_consent(token));
    }
    let reason = format!("a person consents to give {} the slots of {}", heir.member.name, shard.workload);
    steps.add(heir, own(heir, &slots, reason).consented(token));
    Decision::default()
}

/// Whether a member may come back with the data of this shard.
fn may_return(view: &View<'_>, node: &Node<'_>, owner: &Peer) -> bool {
    if node.says.is_some() {
        // It answers: what it has is seen. A sync that the owner's end cut short left nothing whole.
        return false;
    }
    let recorded = view.observed.ledger.members.iter().any(|m| m.pod == node.uid() || Some(m.node_id.as_str()) == node.id);
    let claim = node.member.claim.is_some_and(|c| c.node_exists != Some(false) && c.phase != "Lost" && c.phase != "Pending");
    let restarts = node.member.pod.is_some() && !node.gone() && (recorded || node.id == Some(owner.id.as_str()));
    claim || restarts || matches!(node.member.standing, Standing::Loading { .. } | Standing::Silent(_) | Standing::Refusing(_))
}

/// Whether the last takeover, of whatever shard, has had its time.
fn settled(view: &View<'_>) -> bool {
    let recent = view.observed.recent.iter().filter(|o| o.operation == "take-over" && o.outcome == OutcomeKind::Done);
    recent.map(|o| o.age).min().is_none_or(|age| age >= PAUSE_MS)
}

fn take_over(replica: &Node<'_>, mode: Takeover, reason: String) -> Step {
    let step = plan::step(Operation::TakeOver(ClusterTakeover { replica: replica.uid().into(), mode }), reason);
    let Some(facts) = replica.member.facts_now() else { return step };
    step.expecting(plan::same_run(replica.uid(), &facts.run_id)).expecting(plan::offset_at_least(replica.uid(), facts.offset))
}
