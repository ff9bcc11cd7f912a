//! The fence of a serving primary: it refuses writes by itself once it hears too few replicas, so that a silent one can be
//! replaced.
//!
//! # Guarantees
//! 1. The fence asks for as many replicas as a majority leaves outside (floor(members / 2)), but never for more than are synced:
//!    a primary alone writes on. The price: a primary that falls silent with a lowered fence isn't replaced until its end is
//!    certain.
//! 2. It is lowered at once and raised again as soon as replicas are synced.
//!
//! # Assumptions
//! The host writes it into the ledger first, then sets it, then reads it back.

use vko_sdk::observation::{AttachedReplica, ServerFacts, Upstream};
use vko_sdk::plan;
use vko_sdk::planning::{FenceSetting, Operation, Track};

use crate::view::{Member, Standing, View};

/// Lag (ms) up to which an attached replica counts as streaming: it acknowledges once a second.
pub const LAG_MAX_MS: u64 = 2_000;

/// Sets a fence, or lifts it (0).
pub fn setting(pod: &str, min_replicas: u32) -> Operation {
    Operation::Fence(FenceSetting { pod: pod.into(), min_replicas })
}

/// Whether a replica is synced, by its own word and its primary's: each alone was seen to be wrong at some moment of a sync.
pub fn synced(primary: &Member<'_>, member: &Member<'_>) -> bool {
    let (Some(uid), Some(of)) = (member.uid(), primary.uid()) else { return false };
    let Standing::Replica(facts, link) = member.standing else { return false };
    let own = member.follows(of) && link.up && !link.syncing && facts.offset > 0;
    own && primary.facts_now().is_some_and(|f| f.replicas.iter().any(|r| streams(r, uid)))
}

fn streams(replica: &AttachedReplica, uid: &str) -> bool {
    let it = matches!(&replica.pod, Upstream::Pod(pod) if pod == uid);
    it && replica.online && replica.offset > 0 && replica.lag <= LAG_MAX_MS
}

/// How many replicas the fence should ask for when the data set has so many members, of whose replicas so many are synced.
pub fn wanted_min(members: u32, synced: usize) -> u32 {
    (members / 2).min(u32::try_from(synced).unwrap_or(u32::MAX))
}

/// The step that brings the fence to what it should be; nothing if it is so, on the server and in the ledger.
pub fn keep(view: &View<'_>, primary: &Member<'_>, members: u32) -> Option<Track> {
    let (uid, facts) = (primary.uid()?, primary.facts_now()?);
    // Who is about to end is no replica any more in a moment.
    let counted = || view.members.iter().filter(|m| m.ordinal < members && !m.terminating());
    let replicas = counted().filter(|m| synced(primary, m)).count();
    // What the primary itself hears decides whether writes go on: replicas that only we can't reach are no reason to lower it.
    let heard = counted().filter(|m| m.uid().is_some_and(|uid| facts.replicas.iter().any(|r| streams(r, uid)))).count();
    // Where others decide who replaces a silent primary, a fence only stops writes.
    let min = match view.authority {
        Some(_) => 0,
        None => wanted_min(members, replicas).max(facts.fence.min_replicas.min(wanted_min(members, heard))),
    };
    if is_set(view, uid, facts, min) {
        return None;
    }
    let now = facts.fence.min_replicas;
    let reason = if view.authority.is_some() {
        "Sentinels decide who replaces a silent primary: no fence is needed".to_owned()
    } else if min < now {
        format!("only {replicas} replica(s) are synced: writes shall go on with fewer")
    } else {
        format!("{replicas} replica(s) are synced: the primary shall refuse writes once it hears fewer than {min}")
    };
    let step = plan::step(setting(uid, min), reason);
    let expects = vec![plan::same_run(uid, &facts.run_id), plan::is_primary(uid)];
    Some(plan::track("fence", vec![vko_sdk::planning::Step { expects, ..step }]))
}

fn is_set(view: &View<'_>, uid: &str, facts: &ServerFacts, min: u32) -> bool {
    let mut records = view.observed.ledger.fences.iter().filter(|f| f.pod == uid && f.run_id == facts.run_id);
    let recorded = match min {
        0 => records.all(|f| f.min_replicas == 0),
        // Replicas were detached under it: a fence that is set anew forgets that, so that the next silence starts its own clock.
        _ => records.any(|f| f.min_replicas == min && f.detached_at == 0),
    };
    facts.fence.min_replicas == min && recorded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    #[test]
    fn a_majority_but_never_more_than_are_synced() {
        let table = [(1, 0, 0), (2, 1, 1), (2, 0, 0), (3, 2, 1), (3, 1, 1), (3, 0, 0), (5, 4, 2), (5, 1, 1), (4, 3, 2)];
        for (members, synced, expected) in table {
            assert_eq!(wanted_min(members, synced), expected, "{members} members, {synced} synced");
        }
    }

    #[test]
    fn under_an_authority_there_is_none() {
        let mut scene = Scene::healthy("x", 3);
        let lifted = |scene: &Scene| {
            let view = scene.view().under(crate::view::Authority { monitor: "m".into(), named: None });
            keep(&view, &view.members[0], 3).map(|t| t.steps[0].operation.clone())
        };
        assert_eq!(lifted(&scene), Some(setting("uid-x-0", 0)), "one that is there is lifted");
        assert_eq!(lifted(scene.unfence(0)), None, "none is raised");
    }

    #[test]
    fn when_the_fence_moves() {
        type Change = fn(&mut Scene) -> &mut Scene;
        // Three members, all synced, the fence at 1 on the server and in the ledger.
        let table: &[(&str, Change, Option<u32>)] = &[
            ("as it should be", |s| s, None),
            ("one replica is away", |s| s.silence(2), None),
            ("both are out of our reach, but the primary hears them", |s| s.silence(1).silence(2), None),
            ("both are away", |s| s.kill(1).kill(2).lag(1, 9_000).lag(2, 9_000), Some(0)),
            ("both sync", |s| s.set_syncing(1).set_syncing(2), Some(0)),
            ("the primary says that one lags", |s| s.lag(1, 9_000).lag(2, 9_000), Some(0)),
            ("not set yet", |s| s.unfence(0), Some(1)),
            ("its replicas were detached once", |s| s.detached(0, 60_000), Some(1)),
            ("on the server only", |s| s.forget_fences(), Some(1)),
            ("recorded for another run", |s| s.forget_fences().fence_run(0, "older", 1), Some(1)),
            ("set, but a person lifted it", |s| s.facts(0, |f| f.fence.min_replicas = 0), Some(1)),
            ("higher than it should be", |s| s.fence(0, 2), Some(1)),
        ];
        for (case, change, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            let view = scene.view();
            let track = keep(&view, &view.members[0], 3);
            assert_eq!(track.map(|t| t.steps[0].operation.clone()), expected.map(|min| setting("uid-x-0", min)), "{case}");
        }
    }
}
