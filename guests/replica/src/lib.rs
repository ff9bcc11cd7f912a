//! The built-in policy of the replica architecture: one data set, one primary, up to four replicas, no Sentinel. The operator
//! promotes on evidence.
//!
//! # Guarantees
//! 1. Pure: the same observation gives the same plan. Nothing panics on data.
//! 2. At most one writer is routed to, by observed roles; a promotion is asked for only when nobody else may acknowledge writes.
//! 3. Unknown is never no, silent is never dead, and what may hold data is waited for until a person says otherwise.
//! 4. A quiet instance gets no tracks and no look before the next event.
//!
//! # Assumptions
//! The host renders objects, keeps labels by the routing, writes the ledger before each act, reads expectations again before it
//! sends, and guards: this policy is the first of two opinions.
//!
//! # Flow
//! 1. [`spec`] reads what people want, [`view`] sorts what was observed.
//! 2. [`primary`] says who is the primary. Nobody: [`creation`] or [`promotion`]. Somebody: [`followers`], [`fence`],
//!    [`membership`], [`roll`].
//! 3. [`routing`] and [`status`] follow from the observation alone; [`backoff`] holds steps that failed lately.
//!
//! Other policies reuse all of it by [`decide_with`], or its parts: the failover policy puts Sentinels before [`promotion`] and
//! beside the rest ([`act`], [`conclude`], [`view::Authority`]). The decisions in prose: docs/replica-decisions.md.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod backoff;
pub mod candidates;
pub mod consent;
pub mod creation;
pub mod decision;
pub mod fence;
pub mod followers;
pub mod lines;
pub mod membership;
pub mod primary;
pub mod promotion;
pub mod roll;
pub mod routing;
pub mod spec;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod unknown;
pub mod view;

use std::fmt::Debug;

use vko_sdk::common::Architecture;
use vko_sdk::{ModuleInfo, Observed, Plan, Policy, PolicyError, Violation};

pub use crate::candidates::Preferences;
use crate::decision::{BY_ITSELF, Block, Cause, Decision, LATER_MS, PRIMARY, SOON_MS, sooner};
use crate::primary::{Accepted, accept};
use crate::status::{Beside, Picture};
use crate::view::{Member, View};

/// The policy.
pub struct ReplicaPolicy;

#[cfg(all(target_arch = "wasm32", feature = "component"))]
vko_sdk::export_policy!(ReplicaPolicy);

impl Policy for ReplicaPolicy {
    fn describe() -> ModuleInfo {
        ModuleInfo {
            name: "replica".into(),
            architecture: Architecture::Replica,
            version: env!("CARGO_PKG_VERSION").into(),
            server_lines: vec!["7.2".into(), "8.1".into(), "9.1".into()],
            description: "One primary with up to four replicas; the operator promotes on evidence, without Sentinel.".into(),
        }
    }

    fn validate(spec: String, previous: String) -> Vec<Violation> {
        spec::validate(&spec, &previous)
    }

    fn decide(observed: Observed) -> Result<Plan, PolicyError> {
        decide_with(&observed, &Preferences::default())
    }
}

/// The plan for an observation.
///
/// # Errors
/// [`PolicyError::Insufficient`]: of another architecture, or a spec out of range; the instance stays as it is.
/// [`PolicyError::Internal`]: the spec isn't what this policy reads.
pub fn decide(observed: &Observed) -> Result<Plan, PolicyError> {
    decide_with(observed, &Preferences::default())
}

/// The plan for an observation, under preferences of a policy that is built on this one.
///
/// # Errors
/// As [`decide`].
pub fn decide_with(observed: &Observed, preferences: &Preferences<'_>) -> Result<Plan, PolicyError> {
    if observed.instance.architecture != Architecture::Replica {
        return Err(PolicyError::Insufficient("this policy governs the replica architecture only".into()));
    }
    let view = View::new(observed, spec::read(&observed.instance.spec)?);
    let accepted = accept(&view);
    let wish = || act(&view, &accepted, preferences, &promotion::succeed);
    Ok(conclude(&view, &accepted, wish, Beside::default()))
}

/// Who succeeds while nobody answers as a primary: [`promotion::succeed`], or what a policy that is built on this one puts before
/// it.
pub type Succession<'s, C> = dyn Fn(&View<'_>, &Preferences<'_>) -> Decision<C> + 's;

/// The plan of a data set. `wish`: what should be done; it isn't asked while the instance is paused or deleted. `beside`: what
/// another policy adds.
pub fn conclude<C: Debug + Clone + From<Cause>>(
    view: &View<'_>,
    accepted: &Accepted<'_, '_>,
    wish: impl FnOnce() -> Decision<C>,
    beside: Beside,
) -> Plan {
    let primary = accepted.primary();
    let hands_off = view.observed.instance.deleting || view.observed.instance.paused;
    let wished = if hands_off { Decision::default() } else { wish() };
    let decision = backoff::settle(view.observed, wished, Cause::HostLacksOperation.into());
    let picture = Picture::new(view, primary, &decision, &beside);
    let look_again = if hands_off || picture.ready() {
        decision.look_again
    } else {
        sooner(decision.look_again, if primary.is_some() { LATER_MS } else { SOON_MS })
    };
    let status = picture.status();
    let mut desired = Vec::new();
    if !hands_off {
        desired = membership::desired(view, membership::size(view, primary));
        desired.extend(beside.desired);
    }
    let routing = routing::route(view, primary);
    let Decision { tracks, blocks, .. } = decision;
    let blocked = blocks.into_iter().map(Block::publish).collect();
    Plan { status, desired, routing, tracks, blocked, look_again, extensions: Vec::new() }
}

/// The row of the table that applies.
pub fn act<C: From<Cause>>(
    view: &View<'_>,
    accepted: &Accepted<'_, '_>,
    preferences: &Preferences<'_>,
    succeed: &Succession<'_, C>,
) -> Decision<C> {
    let formed = view.observed.ledger.formed;
    let decision: Decision = match accepted {
        Accepted::Undecided(several) => followers::undecided(several),
        _ if formed.is_none() => unknown::hold(view, preferences),
        Accepted::Nobody if formed == Some(false) => creation::create(view, preferences),
        Accepted::Nobody => {
            let decision = succeed(view, preferences);
            let idle = decision.tracks.is_empty();
            return if idle { decision.and(roll::revive(view).widen()) } else { decision };
        }
        Accepted::One(primary) => serve(view, primary, &[], preferences),
        Accepted::OneOf(primary, others) => serve(view, primary, others, preferences),
        Accepted::Unrecorded(one) => {
            let last = view.last_member().map_or("the last primary", |m| m.name.as_str());
            let message = format!("{} answers as a primary, but {last} may still acknowledge writes", one.name);
            let remedy = "bring the other one back into reach, or make its end certain: delete its pod and see it gone";
            Decision::wait(Block::new(PRIMARY, Cause::TwoPrimaries, message, remedy))
        }
        Accepted::Empty(empty) => {
            let message = format!("{} answers as a primary but holds nothing, while other members may hold the data", empty.name);
            let remedy = "delete its pod: it comes back following nobody, and the data decides";
            Decision::wait(Block::new(PRIMARY, Cause::EmptyPrimary, message, remedy))
        }
    };
    decision.widen()
}

/// A primary serves: the others follow it, the fence fits, members are what people want.
fn serve(view: &View<'_>, primary: &Member<'_>, others: &[&Member<'_>], preferences: &Preferences<'_>) -> Decision {
    // A hand-over has one owner. In a drain that is the hook of the ending pod: what it did will show as roles.
    if view.failover_under_way() || primary.terminating() {
        let message = format!("{} hands its role over or is about to end", primary.name);
        return Decision::wait(Block::new(PRIMARY, Cause::HandOverUnderWay, message, BY_ITSELF));
    }
    if !recorded(view, primary) {
        // The host writes an observed primary and its lineage down before anybody is told to follow it.
        // Most often it has done so before this look: what remains is one that it can't tell from a stranger.
        let message =
            format!("{} answers as the primary, but the ledger doesn't know it nor its replication history", primary.name);
        let remedy =
            "bring all members back into reach; or, if it is the wrong one, delete its pod: it comes back following nobody";
        return Decision::wait(Block::new(PRIMARY, Cause::PrimaryUnproven, message, remedy));
    }
    let beside = if others.is_empty() { Decision::default() } else { followers::reconcile(view, primary, others) };
    let mut decision = beside.and(followers::gather(view, primary));
    if others.is_empty() {
        decision = decision.and(membership::growth(view)).and(membership::shrink(view, primary, preferences));
        let roll = roll::roll(view, primary, !decision.tracks.is_empty(), preferences);
        // One member belongs to one track: who is replaced needs no primary first.
        decision.tracks.retain(|track| roll.tracks.iter().all(|other| other.subject != track.subject));
        decision = decision.and(roll).and(membership::leftovers(view, primary));
    }
    let role_moves = decision.tracks.iter().any(|t| t.subject == PRIMARY || roll::disturbs(view, t));
    if let Some(track) = fence::keep(view, primary, membership::counted(view, primary)).filter(|_| !role_moves) {
        decision = decision.and(Decision::act(track));
    }
    if primary.fresh() || decision.tracks.is_empty() {
        return decision;
    }
    Decision { tracks: Vec::new(), ..decision.and(Decision::look(SOON_MS)) }
}

/// Whether the ledger knows this primary and its lineage.
pub fn recorded(view: &View<'_>, primary: &Member<'_>) -> bool {
    let named = view.last.is_some_and(|l| l.ordinal == primary.ordinal);
    named && primary.facts_now().is_some_and(|f| view.lineage(&f.replid).is_some() || view.lineage(&f.second_replid).is_some())
}

#[cfg(test)]
mod tests;
