//! The others follow the primary; two that answer as primaries become one.
//!
//! # Guarantees
//! 1. A member is told to follow only a primary that answers, and never while a hand-over is under way.
//! 2. A second primary follows only if it holds nothing that the accepted one lacks, or was fenced before the role was taken from
//!    it; else a person decides.
//!
//! # Assumptions
//! The ledger names the accepted primary: it is written before the role is given.

use vko_sdk::observation::{DataOrigin, ServerFacts};
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Follow, Operation, Track};

use crate::consent::{self, Kind};
use crate::decision::{Block, Cause, Decision, SOON_MS, bound_step, names};
use crate::primary::lacks_nothing_of;
use crate::view::{Member, Standing, View};

/// Members that follow somebody else, or nobody, follow the primary.
pub fn gather(view: &View<'_>, primary: &Member<'_>) -> Decision {
    let strays = view.members.iter().filter(|m| m.ordinal < view.current && m.ordinal != primary.ordinal && !m.terminating());
    strays.filter(|m| m.fresh()).fold(Decision::default(), |decision, member| decision.and(join(view, primary, member)))
}

fn join(view: &View<'_>, primary: &Member<'_>, member: &Member<'_>) -> Decision {
    let (Some(uid), Standing::Replica(facts, _)) = (primary.uid(), member.standing) else { return Decision::default() };
    if member.follows(uid) {
        return Decision::default();
    }
    if let Some(known) = primary.facts_now().filter(|p| would_wipe(p, facts)) {
        let message =
            format!("{} is empty while {} holds {} keys: following would discard them", primary.name, member.name, facts.keys);
        return by_consent(view, primary, member, message, known);
    }
    let from = if member.unnamed() { "nobody".to_owned() } else { "another server".to_owned() };
    let reason = format!("{} follows {from}; {} is the primary", member.name, primary.name);
    let track = follow(view, primary, member, reason, String::new(), false);
    Decision::act_all(track)
}

/// A primary that began empty must not empty a member that came back with data of another lineage.
fn would_wipe(primary: &ServerFacts, member: &ServerFacts) -> bool {
    let loaded = matches!(member.origin, DataOrigin::Snapshot | DataOrigin::AppendOnlyFile);
    let known = member.replid == primary.replid || (!member.replid.is_empty() && member.replid == primary.second_replid);
    primary.keys == 0 && primary.origin == DataOrigin::Empty && member.keys > 0 && loaded && !known
}

/// The others that answer as primaries beside the accepted one.
pub fn reconcile(view: &View<'_>, primary: &Member<'_>, others: &[&Member<'_>]) -> Decision {
    let free = others.iter().filter(|m| !m.terminating() && m.fresh() && primary.fresh());
    free.fold(Decision::look(SOON_MS), |decision, member| decision.and(demote(view, primary, member)))
}

fn demote(view: &View<'_>, primary: &Member<'_>, member: &Member<'_>) -> Decision {
    let (Some(winner), Some(loser)) = (primary.facts_now(), member.facts_now()) else { return Decision::default() };
    let fenced = view
        .observed
        .ledger
        .fences
        .iter()
        .any(|f| Some(f.pod.as_str()) == member.uid() && f.run_id == loser.run_id && f.detached_at > 0 && f.min_replicas > 0);
    if fenced || lacks_nothing_of(winner, loser) {
        let why = if fenced { "it was fenced before" } else { "it holds nothing more" };
        let reason = format!("{} answers as a primary beside {}, which took over; {why}", member.name, primary.name);
        return Decision::act_all(follow(view, primary, member, reason, String::new(), true));
    }
    let message = format!(
        "{} and {} answer as primaries, and {} holds writes that the other lacks",
        primary.name, member.name, member.name
    );
    by_consent(view, primary, member, message, winner)
}

fn by_consent(view: &View<'_>, primary: &Member<'_>, member: &Member<'_>, message: String, winner: &ServerFacts) -> Decision {
    let run = member.facts_now().map_or("", |f| &f.run_id);
    let token = consent::token(
        view.observed,
        Kind::DiscardWrites,
        &member.name,
        &[member.uid().unwrap_or_default(), run, &winner.run_id],
    );
    if consent::given(view.observed, &token) {
        let reason = format!("a person consents to discard what {} alone holds", member.name);
        let was_primary = matches!(member.standing, Standing::Primary(_));
        return Decision::act_all(follow(view, primary, member, reason, token, was_primary));
    }
    let cause = if matches!(member.standing, Standing::Primary(_)) { Cause::TwoPrimaries } else { Cause::WritesWouldBeLost };
    let remedy = "save what is needed from the named member, then consent: it will be synced anew from the primary";
    Decision::wait(Block::new(&member.name, cause, message, remedy).or_consent(token))
}

/// Several answer as primaries, and the ledger speaks for none of them.
pub fn undecided(primaries: &[&Member<'_>]) -> Decision {
    let message = format!("{} answer as primaries, and the ledger names none of them", names(primaries));
    let remedy = "compare their data and stop the wrong one (kubectl delete pod): it comes back following nobody";
    Decision::wait(Block::new(crate::decision::PRIMARY, Cause::TwoPrimaries, message, remedy))
}

fn follow(
    view: &View<'_>,
    primary: &Member<'_>,
    member: &Member<'_>,
    reason: String,
    consent: String,
    drop_clients: bool,
) -> Option<Track> {
    let (to, uid) = (primary.uid()?.to_owned(), member.uid()?.to_owned());
    let mut steps = Vec::new();
    if drop_clients {
        let why = "its clients shall look the writer up again".to_owned();
        steps.push(bound_step(view, member, Operation::DropClients(uid.clone()), why));
    }
    let step = bound_step(view, member, Operation::Follow(Follow { pod: uid, primary: to.clone() }), reason);
    steps.push(step.expecting(plan::is_primary(&to)).consented(consent));
    Some(plan::track(&member.name, steps))
}
