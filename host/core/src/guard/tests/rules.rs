//! The rules as a whole: each of them refuses something, and what a refusal stops.

use std::collections::BTreeSet;

use crate::guard::testing::{CALM, Scene, evict, follow, mk_plan, promote, step, track, uid};
use crate::guard::{Circumstances, RULES, guard};
use crate::testing::sentinel_id;
use vko_wit::planning::{Operation, SentinelName, Step};

fn name_of(scene: &Scene, circumstances: Circumstances, step: Step) -> &'static str {
    let guarded = guard(&mk_plan(vec![track("t", vec![step])]), &scene.0, circumstances, &[]);
    assert!(guarded.tracks.is_empty(), "nothing is sent of a track whose first step is refused");
    guarded.refusals.first().map_or("ok", |refusal| refusal.name)
}

#[test]
fn each_rule_refuses_something() {
    let mut lame = Scene::healthy(3);
    lame.pod(2).ready = false;
    let mut claims = Scene::healthy(3);
    claims.claims(3);
    let failover = SentinelName { sentinel: sentinel_id(0), name: "mymaster".into() };
    let stale = Circumstances { fresh: false, ..CALM };
    let refused: BTreeSet<_> = [
        name_of(&Scene::healthy(3), stale, step(evict(1))),
        name_of(&Scene::healthy(3), CALM, step(Operation::ResetEmpty(uid(1)))),
        name_of(&Scene::healthy(3), CALM, step(evict(9))),
        name_of(&Scene::healthy(3), CALM, step(evict(0))),
        name_of(&Scene::healthy(3), CALM, step(promote(1))),
        name_of(&lame, CALM, step(evict(1))),
        name_of(&Scene::watched(), CALM, step(Operation::SentinelFailover(failover))),
        name_of(&claims, CALM, step(Operation::DeleteClaim("claim-1".into()))),
    ]
    .into();
    assert_eq!(refused, RULES.iter().map(|rule| rule.name).collect());
}

#[test]
fn nothing_dangerous_may_be_sent() {
    let table = [
        ("without the Lease", Circumstances { lease: false, ..CALM }),
        ("on a stale view", Circumstances { fresh: false, ..CALM }),
        ("while cut off", Circumstances { cut_off: true, ..CALM }),
        ("for a spec that moved on", Circumstances { current: false, ..CALM }),
    ];
    let mut waiting = Scene::healthy(3);
    waiting.detach(2);
    for (case, circumstances) in table {
        for operation in [follow(2, 0), evict(1), Operation::DropClients(uid(0))] {
            let guarded = guard(&mk_plan(vec![track("t", vec![step(operation)])]), &waiting.0, circumstances, &[]);
            assert!(guarded.tracks.is_empty(), "{case}");
            assert!(guarded.refusals.iter().all(|r| r.rule == 10 && !r.blames_policy()), "{case}: the weather blames nobody");
        }
        let guarded = guard(&mk_plan(vec![track("t", vec![step(Operation::Save(uid(1)))])]), &waiting.0, circumstances, &[]);
        assert_eq!(guarded.tracks.len(), 1, "{case}: a save harms nothing");
    }
}

#[test]
fn a_refusal_ends_its_own_track_and_no_other() {
    let mut scene = Scene::healthy(3);
    scene.detach(2);
    let plan = mk_plan(vec![
        track("a", vec![step(Operation::Save(uid(0))), step(promote(1)), step(Operation::Save(uid(1)))]),
        track("b", vec![step(follow(2, 0))]),
        track("c", vec![step(evict(0)), step(Operation::Save(uid(0)))]),
    ]);
    let guarded = guard(&plan, &scene.0, CALM, &[]);
    let left: Vec<_> = guarded.tracks.iter().map(|track| (track.subject.as_str(), track.steps.len())).collect();
    assert_eq!(left, [("a", 1), ("b", 1)]);
    let refused: Vec<_> = guarded.refusals.iter().map(|r| (r.subject.as_str(), r.operation, r.rule)).collect();
    assert_eq!(refused, [("a", "promote", 2), ("c", "evict", 1)]);
    assert!(guarded.refusals.iter().all(crate::guard::Refusal::blames_policy));
}

#[test]
fn a_running_track_goes_on_as_it_was_admitted() {
    let plan = mk_plan(vec![track("a", vec![step(evict(0))])]);
    let guarded = guard(&plan, &Scene::healthy(3).0, CALM, &[track("a", vec![step(Operation::Save(uid(0)))])]);
    assert!(guarded.refusals.is_empty());
    assert_eq!(guarded.tracks, [track("a", Vec::new())], "wanted, so it isn't stopped; its new steps are ignored");
}
