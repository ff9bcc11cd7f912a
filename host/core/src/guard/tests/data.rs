//! Rule 1: nothing is thrown away that nobody else has.

use super::{Change, after, expect};
use crate::guard::testing::{Scene, by_consent, evict, follow, hand_over, step, uid};
use vko_wit::observation::{AttachedReplica, DataOrigin, LastPrimary, Role, Upstream};
use vko_wit::planning::{FenceSetting, Operation};

#[test]
fn whom_a_member_may_follow() {
    // Member 2 of three shall follow member 0, the accepted primary.
    let table: &[(&str, Change, &str)] = &[
        ("it waits to be named", |s| s.detach(2), "ok"),
        ("it came back with a file", |s| s.restart(2, 0), "ok"),
        ("the primary is silent", |s| s.detach(2).silence(0), "does not answer as a primary"),
        ("the primary is not the ledger's", not_accepted, "not the primary that the ledger names"),
        ("the ledger's primary is a replica", |s| s.detach(0).detach(2), "does not answer as a primary"),
        ("the primary's history is unknown", |s| unknown_history(s.restart(2, 0)), "replication history is unknown"),
        ("the primary's history is unknown, nothing to lose", |s| unknown_history(s.empty(2)), "ok"),
        (
            "the primary's history is unknown, it doesn't answer",
            |s| unknown_history(s.silence(2)),
            "does not answer and may hold data",
        ),
        ("the primary began empty, it came back with data", |s| began_empty(s.restart(2, 0)), "the primary began empty"),
        ("the primary was emptied by its users", |s| emptied(s.restart(2, 0)), "ok"),
        ("it is a primary with writes of its own", |s| other_primary(s), "holds writes that the accepted one lacks"),
        ("it was a primary and wrote nothing more", |s| superseded(s), "ok"),
        ("it was a primary under a closed fence", |s| other_primary(s.fence(2, 1, 9_000)), "ok"),
        ("it was a primary under a fence that never closed", |s| other_primary(s.fence(2, 1, 0)), "holds writes"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::healthy(3), *change).ask(step(follow(2, 0))), expected);
    }
    expect("itself", &Scene::healthy(3).ask(step(follow(0, 0))), "can't follow itself");
    let mut scene = Scene::healthy(3);
    other_primary(&mut scene).consent("discard-writes:rfr-x-2:1");
    expect("by consent", &scene.ask(by_consent(follow(2, 0), "discard-writes:rfr-x-2:1")), "ok");
    expect("by another's consent", &scene.ask(by_consent(follow(2, 0), "discard-writes:rfr-x-1:1")), "holds writes");
}

#[test]
fn who_may_be_evicted() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("a replica", 1, |s| s, "ok"),
        ("the primary", 0, |s| s, "hand its role over first"),
        ("the last primary while it is silent", 0, |s| s.silence(0), "hand its role over first"),
        ("the last primary, dead, nobody took over", 0, |s| s.kill(0), "may hold the only copy"),
        ("a replica while the primary is silent", 1, |s| s.silence(0), "may hold the only copy"),
        ("a replica while another one leads than the ledger's", 1, |s| second_primary(s.silence(0)), "may hold the only copy"),
        ("the former primary after a hand-over", 0, |s| handed_over(s), "ok"),
    ];
    for (case, member, change, expected) in table {
        expect(case, &after(Scene::healthy(3), *change).ask(step(evict(*member))), expected);
    }
    let mut scene = Scene::healthy(1);
    scene.consent("restart-data-loss:rfr-x-0:1");
    expect("the sole member by consent", &scene.ask(by_consent(evict(0), "restart-data-loss:rfr-x-0:1")), "ok");
    expect("the sole member", &scene.ask(step(evict(0))), "hand its role over first");
}

#[test]
fn who_may_be_deleted_by_force() {
    let table: &[(&str, Change, &str)] = &[
        ("runs", |s| s, "not proven dead"),
        ("silent", |s| s.silence(1), "not proven dead"),
        ("its container ended", |s| s.kill(1), "ok"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::healthy(3), *change).ask(step(Operation::ForceDelete(uid(1)))), expected);
    }
}

#[test]
fn a_hand_over_needs_both_in_step() {
    let table: &[(&str, Change, &str)] = &[
        ("in sync", |s| s, "ok"),
        ("the primary is silent", |s| s.silence(0), "does not answer as a primary"),
        ("the replica is silent", |s| s.silence(1), "does not answer now"),
        ("the replica is terminating", |s| change_pod(s, |p| p.terminating_for = 1), "is terminating"),
        ("its link is down", |s| change_link(s, |l| l.up = false), "not in sync"),
        ("it syncs", |s| change_link(s, |l| l.syncing = true), "not in sync"),
        ("the primary doesn't list it", |s| change_primary(s, |f| f.replicas.clear()), "not in sync"),
        ("the primary lists it as syncing", |s| change_primary(s, |f| f.replicas[0].online = false), "not in sync"),
        ("it lags", |s| change_primary(s, |f| f.replicas[0].lag = 2_001), "not in sync"),
        ("it acknowledged nothing yet", |s| change_primary(s, |f| f.replicas[0].offset = 0), "not in sync"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::healthy(2), *change).ask(step(hand_over(0, 1))), expected);
    }
}

#[test]
fn only_replicas_of_a_silent_primary_are_detached() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("its primary answers", 1, |s| s, "follows rfr-x-0, which answers"),
        ("its primary is silent", 1, |s| s.silence(0), "ok"),
        ("it follows nobody", 1, |s| s.detach(1), "ok"),
        ("it is silent itself", 1, |s| s.silence(1), "does not answer now"),
        ("it is the primary", 0, |s| s, "is a primary"),
    ];
    for (case, member, change, expected) in table {
        expect(case, &after(Scene::healthy(3), *change).ask(step(Operation::Detach(uid(*member)))), expected);
    }
}

#[test]
fn only_a_primary_is_fenced() {
    let fence = |ordinal| step(Operation::Fence(FenceSetting { pod: uid(ordinal), min_replicas: 1 }));
    expect("the primary", &Scene::healthy(2).ask(fence(0)), "ok");
    expect("a replica", &Scene::healthy(2).ask(fence(1)), "does not answer as a primary");
}

fn not_accepted(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.last_primary = LastPrimary::Members(vec![crate::guard::testing::mk_member(1)]);
    scene.detach(2)
}

fn unknown_history(scene: &mut Scene) -> &mut Scene {
    scene.facts(0).replid = "h9".into();
    scene
}

fn began_empty(scene: &mut Scene) -> &mut Scene {
    (scene.facts(0).keys, scene.facts(0).origin) = (0, DataOrigin::Empty);
    scene
}

fn emptied(scene: &mut Scene) -> &mut Scene {
    (scene.facts(0).keys, scene.facts(0).origin) = (0, DataOrigin::Sync);
    scene
}

fn other_primary(scene: &mut Scene) -> &mut Scene {
    let facts = scene.facts(2);
    (facts.role, facts.replid, facts.second_replid) = (Role::Primary, "h2".into(), "h1".into());
    (facts.second_offset, facts.offset) = (500, 600);
    scene
}

fn superseded(scene: &mut Scene) -> &mut Scene {
    let facts = scene.facts(2);
    (facts.role, facts.offset) = (Role::Primary, 900);
    scene
}

fn second_primary(scene: &mut Scene) -> &mut Scene {
    scene.facts(2).role = Role::Primary;
    scene
}

fn handed_over(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.last_primary = LastPrimary::Members(vec![crate::guard::testing::mk_member(1)]);
    let streams = [uid(0), uid(2)].map(|pod| AttachedReplica { pod: Upstream::Pod(pod), online: true, offset: 1_000, lag: 0 });
    (scene.facts(1).role, scene.facts(1).replicas) = (Role::Primary, streams.into());
    scene.follow(0, 1).follow(2, 1)
}

fn change_pod(scene: &mut Scene, change: fn(&mut vko_wit::observation::Pod)) -> &mut Scene {
    change(scene.pod(1));
    scene
}

fn change_link(scene: &mut Scene, change: fn(&mut vko_wit::observation::ReplicaLink)) -> &mut Scene {
    change(scene.link(1));
    scene
}

fn change_primary(scene: &mut Scene, change: fn(&mut vko_wit::observation::ServerFacts)) -> &mut Scene {
    change(scene.facts(0));
    scene
}

#[test]
fn who_may_be_evicted_of_a_cluster() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("a replica", 1, |s| s, "ok"),
        ("an owner of slots", 0, |s| s, "drc-x-0-0 owns slots"),
        ("an owner that is silent", 0, |s| s.silence(0), "owns slots"),
        ("a replica whose primary is silent", 1, |s| s.silence(0), "may hold the only copy"),
        ("a replica whose primary is gone", 1, |s| s.lose(0), "may hold the only copy"),
        ("the former primary", 0, |s| former_owner(s.elect(1)), "ok"),
    ];
    for (case, member, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(evict(*member))), expected);
    }
}

fn former_owner(scene: &mut Scene) -> &mut Scene {
    scene.follow(0, 1)
}

#[test]
fn a_hand_over_in_a_cluster_needs_slots_and_votes() {
    let table: &[(&str, Change, &str)] = &[
        ("in sync", |s| s, "ok"),
        ("its offset is still zero", offset_zero, "not in sync"),
        ("two of three primaries are silent", |s| s.silence(2).silence(4), "no votes"),
        ("it owns no slots", no_slots, "owns no slots"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(hand_over(0, 1))), expected);
    }
}

fn offset_zero(scene: &mut Scene) -> &mut Scene {
    scene.facts(0).replicas[0].offset = 0;
    scene
}

fn no_slots(scene: &mut Scene) -> &mut Scene {
    scene.peer(0).slots.clear();
    scene
}
