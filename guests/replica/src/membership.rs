//! How many members there are, how they start, and what becomes of removed ones.
//!
//! # Guarantees
//! 1. No second member is added before the first one is known to start following nobody: else a restart would be a second
//!    primary.
//! 2. No member is removed that is the primary, while a hand-over is under way, or without which no synced copy remains where
//!    there should be one; the fence is lowered before.
//! 3. A claim is deleted only if the spec says so, the ledger knows it as a member's, its pod is gone, and the data lives
//!    elsewhere.
//!
//! # Assumptions
//! The host applies the workload as desired and refreshes the mounted start mode (`start-mode-mounted:<pod>` says what is
//! mounted).
//!
//! # Flow
//! Out: [`size`] keeps one member and asks for `named`; once it is mounted, it asks for all. In: [`shrink`] moves the role to a
//! member that stays, lowers the fence; then [`size`] asks for fewer; then [`leftovers`] deletes claims, and one member starts
//! `alone` again. Beside Sentinels both by turns, until the primary is one that stays.

use vko_sdk::plan;
use vko_sdk::planning::{Budget, Desired, HandOver, Operation, Purpose, Service, ServiceKind, StartMode, Track, Workload};

use crate::candidates::{Preferences, best, eligible};
use crate::decision::{BY_ITSELF, Block, Cause, Decision, LATER_MS, PRIMARY, SOON_MS, bound_step};
use crate::fence::{setting, synced, wanted_min};
use crate::lines;
use crate::primary::{Writer, writer};
use crate::view::{Member, View};

/// How long (ms) a hand-over may hold writes back before the host takes it back.
pub const HAND_OVER_MS: u64 = 10_000;

/// How many members the workload shall have now, and how they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Members.
    pub members: u32,
    /// Start mode.
    pub start: StartMode,
}

/// What to ask for now. `primary`: the accepted one.
pub fn size(view: &View<'_>, primary: Option<&Member<'_>>) -> Size {
    let (declared, current) = (view.spec.replicas, view.current);
    let named = |members| Size { members, start: StartMode::Named };
    match (current, declared) {
        (2.., _) if lines::are_mixed(view) => named(current),
        (0, 1) => Size { members: 1, start: StartMode::Alone },
        (0, _) => named(declared),
        (1, 1) if may_start_alone(view, primary) => Size { members: 1, start: StartMode::Alone },
        (1, 1) => named(1),
        (1, _) if mounted(view, 0) => named(declared),
        (1, _) => named(1),
        _ if declared >= current => named(declared),
        _ => named(primary.filter(|p| shrink_obstacle(view, p).is_none()).map_or(current, |p| staying(view, p))),
    }
}

/// One member starts as a primary by itself once no other one is left: and if it is none, naming it comes first.
fn may_start_alone(view: &View<'_>, primary: Option<&Member<'_>>) -> bool {
    let others = view.members.iter().any(|m| m.ordinal > 0 && m.pod.is_some());
    let follows = view.members.first().is_some_and(|m| m.unnamed());
    !others && !follows && primary.is_none_or(|p| p.ordinal == 0)
}

/// Whether the pod at that place has `named` mounted.
fn mounted(view: &View<'_>, ordinal: u32) -> bool {
    let Some(uid) = view.members.iter().find(|m| m.ordinal == ordinal).and_then(|m| m.uid()) else { return false };
    view.observed.pods.iter().any(|pod| pod.uid == uid && pod.mounted_start == Some(StartMode::Named))
}

/// How many members stay at the next step: as many as are declared. Beside Sentinels, while the primary is one that is to go, as
/// many as it takes to keep it: they choose its successor by their own order, again and again one that is to go as well. Without
/// the members behind it, each choice is nearer to those that stay.
fn staying(view: &View<'_>, primary: &Member<'_>) -> u32 {
    let declared = view.spec.replicas;
    if view.authority.is_some() { declared.max(primary.ordinal + 1).min(view.current) } else { declared }
}

/// What stands between the primary and fewer members.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Obstacle {
    /// A hand-over is under way, the primary is ending, or another member may be one.
    Busy,
    /// The primary is on a member that is to go.
    RoleGoes,
    /// None of the members that stay is synced.
    NoCopyStays,
    /// The fence asks for more replicas than stay.
    FenceTooHigh(u32),
}

fn shrink_obstacle(view: &View<'_>, primary: &Member<'_>) -> Option<Obstacle> {
    let stay = staying(view, primary);
    let copies = view.members.iter().filter(|m| m.ordinal < stay && synced(primary, m)).count();
    let another = view.members.iter().any(|m| m.ordinal != primary.ordinal && writer(view, m) != Writer::No);
    let recorded = view.observed.ledger.formed == Some(true) && view.last.is_some_and(|l| l.ordinal == primary.ordinal);
    if view.failover_under_way() || primary.terminating() || !primary.fresh() || another || !recorded {
        return Some(Obstacle::Busy);
    }
    if primary.ordinal >= stay || stay == view.current {
        return Some(Obstacle::RoleGoes);
    }
    if stay > 1 && copies == 0 {
        return Some(Obstacle::NoCopyStays);
    }
    let min = wanted_min(stay, copies);
    let now = primary.facts_now().map_or(0, |f| f.fence.min_replicas);
    (now > min).then_some(Obstacle::FenceTooHigh(min))
}

/// How many members the fence counts with: as many as will stay, once nothing but the fence stands in the way of removing the
/// others.
pub fn counted(view: &View<'_>, primary: &Member<'_>) -> u32 {
    if view.current <= view.spec.replicas || lines::are_mixed(view) {
        return view.current;
    }
    match shrink_obstacle(view, primary) {
        None | Some(Obstacle::FenceTooHigh(_)) => staying(view, primary),
        Some(Obstacle::Busy | Obstacle::RoleGoes | Obstacle::NoCopyStays) => view.current,
    }
}

/// What prepares the removal of members.
pub fn shrink(view: &View<'_>, primary: &Member<'_>, preferences: &Preferences<'_>) -> Decision {
    if view.current <= view.spec.replicas || lines::are_mixed(view) {
        return Decision::default();
    }
    match shrink_obstacle(view, primary) {
        None | Some(Obstacle::FenceTooHigh(_)) => Decision::look(SOON_MS),
        Some(Obstacle::Busy) => {
            let message = "who is the primary is changing or not certain: members are removed after that".to_owned();
            Decision::wait(Block::new(&view.workload, Cause::ShrinkWaits, message, BY_ITSELF))
        }
        Some(Obstacle::NoCopyStays) => {
            let message =
                format!("no member below {} is synced with {}: none is removed before", staying(view, primary), primary.name);
            let remedy = "repair the members that stay (kubectl describe pod), or raise spec.replicas again";
            Decision { look_again: LATER_MS, ..Decision::wait(Block::new(&view.workload, Cause::ShrinkWaits, message, remedy)) }
        }
        Some(Obstacle::RoleGoes) => move_role(view, primary, preferences),
    }
}

/// Moves the role to a member that stays.
fn move_role(view: &View<'_>, primary: &Member<'_>, preferences: &Preferences<'_>) -> Decision {
    let stays = |m: &&Member<'_>| m.ordinal < view.spec.replicas && eligible(m) && synced(primary, m);
    let staying: Vec<_> = view.members.iter().filter(stays).collect();
    let target = best(view, &staying, preferences);
    let Some(target) = target else {
        let message = format!("{} is to go, but no member that stays is synced to take its role", primary.name);
        let remedy = "repair the members that stay (kubectl describe pod), or raise spec.replicas again";
        return Decision::wait(Block::new(&view.workload, Cause::ShrinkWaits, message, remedy));
    };
    let unready = |m: &&Member<'_>| m.ordinal != primary.ordinal && m.pod.is_some() && (!m.ready() || m.terminating());
    if let Some(other) = view.members.iter().find(unready) {
        let message = format!("{} is not ready: {} keeps its role until then", other.name, primary.name);
        let remedy = "repair that member (kubectl describe pod), or raise spec.replicas again";
        return Decision::wait(Block::new(&view.workload, Cause::ShrinkWaits, message, remedy));
    }
    let reason = format!("{} is to be removed; {} stays and is synced", primary.name, target.name);
    hand_over(view, primary, target, reason)
}

/// The role goes to a replica that is in sync, without the fence.
pub fn hand_over(view: &View<'_>, primary: &Member<'_>, target: &Member<'_>, reason: String) -> Decision {
    let (Some(from), Some(to)) = (primary.uid(), target.uid()) else { return Decision::look(SOON_MS) };
    let monitor = view.authority.as_ref().map_or_else(String::new, |a| a.monitor.clone());
    let operation = HandOver { primary: from.into(), replica: to.into(), monitor, timeout: HAND_OVER_MS };
    let mut step = bound_step(view, primary, Operation::HandOver(operation), reason);
    step.expects.push(plan::follows(to, from));
    let mut steps = Vec::new();
    if primary.facts_now().is_some_and(|f| f.fence.min_replicas > 0) {
        steps.push(bound_step(view, primary, setting(from, 0), "a planned hand-over runs without the fence".into()));
    }
    steps.push(step);
    Decision::act(plan::track(PRIMARY, steps))
}

/// What a look waits for before it adds members.
pub fn growth(view: &View<'_>) -> Decision {
    if view.current > 1 && view.current != view.spec.replicas && lines::are_mixed(view) {
        let message = "server lines are mixed: members are added or removed when all are of one".to_owned();
        return Decision::wait(Block::new(&view.workload, Cause::ShrinkWaits, message, BY_ITSELF));
    }
    if view.current != 1 || view.spec.replicas == 1 || mounted(view, 0) {
        return Decision::default();
    }
    let message = "the running pod must learn first that a restart follows nobody; members are added then".to_owned();
    Decision::wait(Block::new(&view.workload, Cause::StartModePending, message, BY_ITSELF))
}

/// Deletes the claims of removed members, where the spec asks for it.
pub fn leftovers(view: &View<'_>, primary: &Member<'_>) -> Decision {
    let keep = view.spec.storage.as_ref().is_none_or(|s| s.retain_after_deleted);
    let declared = view.spec.replicas;
    let copies = view.members.iter().filter(|m| m.ordinal < declared && synced(primary, m)).count();
    let safe = primary.ordinal < declared && primary.fresh() && !primary.terminating() && (declared == 1 || copies > 0);
    if keep || view.current > declared || !safe {
        return Decision::default();
    }
    let gone = view.members.iter().filter(|m| m.ordinal >= declared && m.pod.is_none());
    let tracks: Vec<Track> = gone.filter_map(|m| delete_claim(view, primary, m)).collect();
    if tracks.is_empty() { Decision::default() } else { Decision::act_all(tracks) }
}

fn delete_claim(view: &View<'_>, primary: &Member<'_>, member: &Member<'_>) -> Option<Track> {
    let claim =
        member.claim.filter(|c| view.observed.ledger.members.iter().any(|m| m.workload == view.workload && m.claim == c.uid))?;
    let reason = format!("{} was removed, and the spec doesn't keep claims; {} holds the data", member.name, primary.name);
    let mut step = plan::step(Operation::DeleteClaim(claim.uid.clone()), reason);
    step.expects.push(plan::is_primary(primary.uid()?));
    Some(plan::track(&claim.name, vec![step]))
}

/// What should exist.
pub fn desired(view: &View<'_>, size: Size) -> Vec<Desired> {
    let workload = &view.workload;
    let service = |name: String, kind| Desired::Service(Service { name, kind, workload: workload.clone() });
    vec![
        service(workload.clone(), ServiceKind::Governing),
        service(format!("{workload}-readwrite"), ServiceKind::Writer),
        service(format!("{workload}-readonly"), ServiceKind::Readers),
        Desired::Budget(Budget { workload: workload.clone(), max_unavailable: 1 }),
        Desired::Workload(Workload {
            name: workload.clone(),
            purpose: Purpose::Data,
            shard: 0,
            members: size.members,
            start: size.start,
            settings: Vec::new(),
            labels: Vec::new(),
        }),
    ]
}
