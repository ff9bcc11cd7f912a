//! The rolling change: members whose pods are of an older template are replaced, one at a time.
//!
//! # Guarantees
//! 1. Replicas first, the highest ordinal first; then the role goes to a replica of the newest template; the former primary last.
//! 2. A ready member goes only while all others are there, ready and in sync, and the fence holds without it. So a new version
//!    that doesn't work stops at the first member; members that are out of service already are replaced before.
//! 3. Where an upgrade is taken back, a replica that may have saved what the older line can't read begins anew ([`lines`]).
//! 4. A lone member goes only if its volume has everything, or by consent.
//! 5. Newer software of the operator alone replaces nobody.
//!
//! # Assumptions
//! The host puts the template of the newest spec in force at once; whoever is replaced gets it. A pod's stop loses nothing of a
//! server that appends to a file.
//!
//! # Flow
//! 1. [`obstacle`] says what is waited for, [`next`] who is next.
//! 2. A replica: lower the fence if it would bind without it, evict. The primary: hand over, which makes it a replica.
//! 3. [`revive`]: nobody answers at all, and the pods themselves are in the way.
//!
//! [`lines`]: crate::lines

use vko_sdk::facts;
use vko_sdk::observation::{ContainerState, NodeState, TemplateState};
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Operation, Track};

use crate::candidates::{Preferences, best, eligible};
use crate::consent::{self, Kind};
use crate::decision::{BY_ITSELF, Block, Cause, Decision, SOON_MS, bound_step};
use crate::fence::{setting, synced, wanted_min};
use crate::lines;
use crate::membership::hand_over;
use crate::status::why_missing;
use crate::view::{IN_FLIGHT_BYTES, Member, Standing, View};

/// A server that runs for so long (ms) and isn't in sync is looked after by a person, as far as a roll can tell.
const SYNCED_AFTER_MS: u64 = 60_000;

/// Whether a member's pod is of an older template than the one in force.
pub fn outdated(view: &View<'_>, member: &Member<'_>) -> bool {
    member.ordinal < view.current && member.pod.is_some_and(|pod| pod.template == TemplateState::SpecChanged)
}

/// Whether members are to be replaced; never where Sentinels decide too.
pub fn under_way(view: &View<'_>) -> bool {
    let older = facts::template_of_spec(view.observed, &view.workload) == Some(false);
    view.authority.is_none() && (older || view.members.iter().any(|m| outdated(view, m)))
}

/// What is done about a roll while a primary serves. `busy`: members are on the way to other roles or places.
pub fn roll(view: &View<'_>, primary: &Member<'_>, busy: bool, preferences: &Preferences<'_>) -> Decision {
    if !under_way(view) {
        return anew(view, primary).unwrap_or_default();
    }
    if facts::template_of_spec(view.observed, &view.workload) != Some(true) || !primary.fresh() {
        return Decision::look(SOON_MS);
    }
    if let Some(broken) = view.members.iter().rev().find(|m| m.ordinal != primary.ordinal && is_broken(view, m)) {
        let reason = format!("{} is not ready and of an older template", broken.name);
        return replace(view, primary, broken, reason);
    }
    if let Some(decision) = anew(view, primary) {
        return decision;
    }
    if view.current == 1 && view.spec.replicas == 1 {
        return lone(view, primary);
    }
    if let Some(block) = obstacle(view, primary) {
        return Decision::wait(block);
    }
    if busy {
        return Decision::look(SOON_MS);
    }
    next(view, primary, preferences)
}

/// All are well: the next one.
fn next(view: &View<'_>, primary: &Member<'_>, preferences: &Preferences<'_>) -> Decision {
    let replicas = || view.members.iter().filter(|m| m.ordinal != primary.ordinal && m.ordinal < view.current);
    let heirs: Vec<_> = replicas().filter(|m| !outdated(view, m) && eligible(m) && synced(primary, m)).collect();
    let heir = best(view, &heirs, preferences);
    let last = replicas().filter(|m| outdated(view, m)).max_by_key(|m| m.ordinal);
    // Back to the older line: it can read what the newer one sends only while nothing new is in it. Whoever never left it leads.
    let back = lines::is_newer_than_wanted(view, primary);
    match (heir, last) {
        (Some(heir), last) if outdated(view, primary) && (back || last.is_none()) => {
            let reason = format!("{} is to be replaced; {} is of the newest template and in sync", primary.name, heir.name);
            hand_over(view, primary, heir, reason)
        }
        (_, Some(member)) => evict_ready(view, primary, member),
        (_, None) => Decision::look(SOON_MS),
    }
}

fn evict_ready(view: &View<'_>, primary: &Member<'_>, member: &Member<'_>) -> Decision {
    let copies = view.members.iter().filter(|m| m.ordinal < view.current && synced(primary, m)).count();
    let without = wanted_min(view.current, copies.saturating_sub(1));
    let fence = primary.facts_now().map_or(0, |f| f.fence.min_replicas);
    if fence < without {
        return Decision::look(SOON_MS);
    }
    let reason = format!("{} is of an older template; all others are in sync", member.name);
    let mut decision = replace(view, primary, member, reason);
    let lowered = primary.uid().filter(|_| fence > without).map(|uid| {
        let why = format!("writes shall go on while {} is replaced", member.name);
        bound_step(view, primary, setting(uid, without), why)
    });
    decision.tracks.iter_mut().for_each(|track| {
        track.steps.splice(0..0, lowered.clone());
    });
    decision
}

/// Ends a replica's pod; its volume goes with it where the member has to begin anew.
fn replace(view: &View<'_>, primary: &Member<'_>, member: &Member<'_>, reason: String) -> Decision {
    let (Some(uid), Some(leads)) = (member.uid(), primary.uid()) else { return Decision::look(SOON_MS) };
    let mut steps = Vec::new();
    if let Some(claim) = member.claim.filter(|_| lines::may_be_unreadable(view, member)) {
        let why = format!(
            "{} may have saved what {} can't read: it begins anew, from {}",
            member.name, view.spec.version, primary.name
        );
        steps.push(plan::step(Operation::DeleteClaim(claim.uid.clone()), why));
    }
    steps.push(plan::step(Operation::Evict(uid.into()), reason));
    let ready = member.ready();
    let expecting = |step: vko_sdk::planning::Step| {
        let step = step.expecting(plan::is_primary(leads));
        if ready { step.expecting(plan::follows(uid, leads)) } else { step }
    };
    Decision::act(plan::track(&member.name, steps.into_iter().map(expecting).collect()))
}

/// One that is of the newest template, and whose volume its server can't read.
fn anew(view: &View<'_>, primary: &Member<'_>) -> Option<Decision> {
    if view.authority.is_some() {
        return None;
    }
    let stuck = |m: &&Member<'_>| m.ordinal != primary.ordinal && m.ordinal < view.current && lines::is_stuck_on_newer(view, m);
    let member = view.members.iter().find(stuck)?;
    let reason = format!("{} can't start with what a newer version saved", member.name);
    Some(replace(view, primary, member, reason))
}

/// The only member, and no more are wanted.
fn lone(view: &View<'_>, primary: &Member<'_>) -> Decision {
    let (Some(uid), Some(facts)) = (primary.uid(), primary.facts_now()) else { return Decision::look(SOON_MS) };
    if primary.terminating() {
        return Decision::look(SOON_MS);
    }
    let appends = facts::appends(facts) == Some(true) && facts.cannot_write.is_none();
    let volume = primary.claim.is_some_and(|claim| claim.phase == "Bound" && claim.node_exists != Some(false));
    let evict = |reason: String, consent: String| {
        let step = plan::step(Operation::Evict(uid.into()), reason).expecting(plan::same_run(uid, &facts.run_id));
        plan::track(&primary.name, vec![step.expecting(plan::is_primary(uid)).consented(consent)])
    };
    if volume && appends {
        return Decision::act(evict(
            format!("{} is of an older template; its volume has all its data", primary.name),
            String::new(),
        ));
    }
    let token = consent::token(view.observed, Kind::RestartDataLoss, &primary.name, &[uid, &facts.run_id]);
    if consent::given(view.observed, &token) {
        let reason = format!("{} is of an older template; a person consents to lose its data", primary.name);
        return Decision::act(evict(reason, token));
    }
    let message = format!("{} is the only member and has no volume that would keep its data over a restart", primary.name);
    let remedy =
        "add a member that takes over meanwhile (spec.replicas.replicasOfShard: 2), or give the consent, which loses all data";
    Decision::wait(Block::new(&view.workload, Cause::RollWaits, message, remedy).or_consent(token))
}

/// What the next member has to wait for.
fn obstacle(view: &View<'_>, primary: &Member<'_>) -> Option<Block> {
    let wait = |message: String, remedy: &str| Some(Block::new(&view.workload, Cause::RollWaits, message, remedy));
    if view.current != view.spec.replicas && !lines::are_mixed(view) {
        return wait("members are added or removed first".into(), BY_ITSELF);
    }
    let away = |m: &&Member<'_>| m.ordinal != primary.ordinal && !in_step(view, primary, m);
    let awaited: Vec<_> = view.members.iter().filter(away).collect();
    if awaited.is_empty() {
        return (!primary.ready()).then(|| {
            let message = format!("{} is the primary and its pod isn't ready", primary.name);
            Block::new(&view.workload, Cause::RollWaits, message, BY_ITSELF)
        });
    }
    let each: Vec<_> = awaited.iter().map(|m| format!("{} ({})", m.name, why_away(m))).collect();
    let message = format!("no further member is replaced before these are ready and in sync: {}", each.join(", "));
    let stuck = awaited.iter().any(|m| is_stuck(m));
    wait(
        message,
        if stuck { "see why (kubectl describe pod, kubectl logs); or take the change of the spec back" } else { BY_ITSELF },
    )
}

fn why_away(member: &Member<'_>) -> String {
    if member.pod.is_some() && !member.fresh() && member.facts_now().is_some() {
        "its answer is old".into()
    } else {
        why_missing(member)
    }
}

/// Whether a member that isn't the primary is as it should be; one that is to go must be gone.
fn in_step(view: &View<'_>, primary: &Member<'_>, member: &Member<'_>) -> bool {
    if member.ordinal >= view.current {
        return member.pod.is_none();
    }
    let offsets = primary.facts_now().zip(member.facts_now());
    let near = offsets.is_some_and(|(p, m)| m.offset.saturating_add(IN_FLIGHT_BYTES) >= p.offset);
    near && member.fresh() && member.ready() && !member.terminating() && synced(primary, member)
}

/// Out of service on an older template: replacing it disturbs nobody. One that merely gives no answer is none.
fn is_broken(view: &View<'_>, member: &Member<'_>) -> bool {
    let Some(pod) = member.pod.filter(|_| outdated(view, member)) else { return false };
    let reachable = pod.node.is_empty() || pod.node_state == NodeState::Alive;
    let silent = matches!(member.standing, Standing::Silent(_) | Standing::Primary(_));
    reachable && !silent && !pod.ready && !member.terminating()
}

/// Whether it takes more than time.
fn is_stuck(member: &Member<'_>) -> bool {
    let begins = ["", "PodInitializing", "ContainerCreating"];
    let waits = member.pod.is_some_and(|pod| !begins.contains(&pod.waiting.as_str()));
    waits || member.standing == Standing::Dead || member.facts_now().is_some_and(|f| f.uptime >= SYNCED_AFTER_MS)
}

/// Nobody answers as a primary, and nobody can take over: pods of an older template that run nothing are replaced, one at a time,
/// if what they hold isn't in them: else taking back what keeps them from starting would never reach them.
pub fn revive(view: &View<'_>) -> Decision {
    let template = facts::template_of_spec(view.observed, &view.workload) == Some(true);
    let Some(member) = view.members.iter().rev().find(|m| holds_nothing_itself(view, m)).filter(|_| template) else {
        return Decision::default();
    };
    let Some(uid) = member.uid().filter(|_| view.authority.is_none()) else { return Decision::default() };
    let reason = format!("{} runs nothing and is of an older template", member.name);
    Decision::act(plan::track(&member.name, vec![plan::step(Operation::Evict(uid.into()), reason)]))
}

fn holds_nothing_itself(view: &View<'_>, member: &Member<'_>) -> bool {
    let Some(pod) = member.pod.filter(|_| is_broken(view, member)) else { return false };
    let kept = member.claim.is_some_and(|claim| claim.node_exists != Some(false) && claim.phase != "Lost");
    match pod.container {
        ContainerState::Terminated => kept,
        ContainerState::Starting => member.facts_known().is_none() && (pod.restarts == 0 || kept),
        ContainerState::Running | ContainerState::Unknown => false,
    }
}

/// Whether a track takes a member out of service that is in it: the fence waits for it then.
pub fn disturbs(view: &View<'_>, track: &Track) -> bool {
    let ready = |uid: &str| view.by_pod(uid).is_some_and(Member::ready);
    track.steps.iter().any(|step| matches!(&step.operation, Operation::Evict(uid) if ready(uid)))
}
