//! What may be replaced in a roll, and in which direction.

use vko_wit::common::Architecture;
use vko_wit::facts;
use vko_wit::observation::{ContainerState, LastPrimary, Role, TemplateState};
use vko_wit::planning::Operation;

use super::{Change, after, expect};
use crate::guard::testing::{Scene, evict, hand_over, mk_member, step, track};

const OLD: u32 = 8;

/// Three members, with volumes, in an upgrade from 8.1 to 9.1: member 2 is done, the others aren't.
fn rolling() -> Scene {
    let mut scene = Scene::healthy(3);
    scene.claims(3);
    scene.0.instance.spec = r#"{"replicas":3,"version":"9.1","storage":{}}"#.into();
    for ordinal in [0, 1] {
        old(&mut scene, ordinal);
        scene.pod(ordinal).template = TemplateState::SpecChanged;
    }
    scene
}

/// The same upgrade, taken back: member 2 alone isn't of the template in force.
fn taken_back() -> Scene {
    let mut scene = rolling();
    scene.0.instance.spec = r#"{"replicas":3,"version":"8.1","storage":{}}"#.into();
    scene.0.extensions.extend(facts::mk_tried_line(Some("9.1")));
    [0, 1].into_iter().for_each(|ordinal| scene.pod(ordinal).template = TemplateState::Current);
    scene.pod(2).template = TemplateState::SpecChanged;
    scene
}

fn old(scene: &mut Scene, ordinal: u32) -> &mut Scene {
    scene.facts(ordinal).version.major = OLD;
    scene
}

fn looping(scene: &mut Scene, ordinal: u32) -> &mut Scene {
    scene.replace(ordinal).pod(ordinal).container = ContainerState::Terminated;
    scene
}

fn handed_over(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.last_primary = LastPrimary::Members(vec![mk_member(2)]);
    let mut streams = std::mem::take(&mut scene.facts(0).replicas);
    streams[1].pod = vko_wit::observation::Upstream::Pod("uid-0".into());
    (scene.facts(2).role, scene.facts(2).replicas) = (Role::Primary, streams);
    scene.follow(0, 2).follow(1, 2)
}

#[test]
fn one_after_the_other_while_all_others_are_in_sync() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("the next one", 1, |s| s, "ok"),
        ("one that is done already", 2, |s| s, "of the template in force: others go first"),
        ("one that is done, all are of one line", 2, |s| old(s, 2), "ok"),
        ("the last one isn't ready", 1, not_ready, "rfr-x-2 is not ready"),
        ("the last one syncs", 1, syncing, "rfr-x-2 is not in sync"),
        ("its link is down", 1, unlinked, "rfr-x-2 is not in sync"),
        ("the primary doesn't hear it", 1, unheard, "rfr-x-2 is not in sync"),
        ("it follows nobody", 1, |s| s.detach(2), "rfr-x-2 is not in sync"),
        ("it is silent", 1, |s| s.silence(2), "rfr-x-2 is not in sync"),
        ("it is missing", 1, |s| s.remove(2), "rfr-x-2 is missing"),
        ("it isn't wanted any more", 1, |s| wanted(s.remove(2), 2), "ok"),
        ("it isn't made yet", 1, |s| set_of(s.remove(2), 2), "ok"),
        ("one that isn't ready itself", 1, |s| broken(s, 1), "ok"),
        ("one that isn't ready and of the template in force", 2, |s| broken(s, 2), "ok"),
        ("the former primary", 0, handed_over, "ok"),
        ("the primary", 0, |s| s, "hand its role over first"),
        ("the primary is silent", 1, |s| s.silence(0), "may hold the only copy"),
    ];
    for (case, member, change, expected) in table {
        expect(case, &after(rolling(), *change).ask(step(evict(*member))), expected);
    }
}

#[test]
fn the_role_goes_towards_the_template_in_force() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("to one that is done", 2, |s| s, "ok"),
        ("to one that is to be replaced", 1, |s| s, "isn't of the template in force"),
        ("all are of one line", 1, |s| old(s, 2), "ok"),
    ];
    for (case, heir, change, expected) in table {
        expect(case, &after(rolling(), *change).ask(step(hand_over(0, *heir))), expected);
    }
}

#[test]
fn a_lone_member_goes_if_its_volume_has_everything() {
    let table: &[(&str, Change, &str)] = &[
        ("it appends to its volume", |s| s, "ok"),
        ("it takes snapshots only", |s| appends(s, Some(false)), "hand its role over first"),
        ("whether it appends is unknown", |s| appends(s, None), "hand its role over first"),
        ("it has no volume", no_claims, "hand its role over first"),
        ("its volume isn't bound", |s| phase(s, "Lost"), "hand its role over first"),
        ("its disk is full", full, "hand its role over first"),
        ("it is silent", |s| s.silence(0), "hand its role over first"),
        ("more are wanted", |s| wanted(s, 2), "hand its role over first"),
        ("beside Sentinels", sentinels, "hand its role over first"),
        ("its server can't start, its data is on the volume", |s| s.kill(0), "ok"),
        ("the same without a volume", |s| no_claims(s.kill(0)), "may hold the only copy"),
        ("it never ran", never_ran, "ok"),
        ("it never ran, and has no volume", |s| no_claims(never_ran(s)), "ok"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(1);
        scene.claims(1);
        scene.facts(0).extensions = facts::mk_appends(Some(true));
        expect(case, &after(scene, *change).ask(step(evict(0))), expected);
    }
}

#[test]
fn who_begins_anew_when_an_upgrade_is_taken_back() {
    let empty = |member: u32| vec![step(Operation::DeleteClaim(format!("claim-{member}"))), step(evict(member))];
    let table: &[(&str, u32, Change, &str)] = &[
        ("one that runs the newer line", 2, |s| s, "ok"),
        ("one that never answered and isn't ready", 2, |s| looping(s, 2), "ok"),
        ("one that is ready and wasn't asked yet", 2, |s| s.unhear(2), "can read it"),
        ("one that runs the line that is wanted", 1, |s| s, "can read it"),
        ("the primary", 0, |s| s, "is the primary"),
        ("the last primary, dead", 0, |s| looping(s, 0), "is the primary"),
        ("the primary is silent", 2, |s| s.silence(0), "not in sync"),
        ("the primary is silent, it isn't ready", 2, |s| looping(s.silence(0), 2), "no primary answers"),
        ("another one isn't in sync", 2, syncing_1, "rfr-x-1 is not in sync"),
        ("another one isn't in sync, it isn't ready itself", 2, |s| looping(syncing_1(s), 2), "ok"),
        ("nothing newer was tried", 2, |s| tried(s, None), "rfr-x-2 uses it"),
        ("what was tried is wanted", 2, |s| tried(s, Some("8.1")), "rfr-x-2 uses it"),
        ("beside Sentinels", 2, sentinels, "rfr-x-2 uses it"),
    ];
    for (case, member, change, expected) in table {
        let scene = after(taken_back(), *change);
        let mut steps = empty(*member);
        if scene.0.pods.iter().any(|pod| pod.uid == format!("new-{member}")) {
            steps[1] = step(Operation::Evict(format!("new-{member}")));
        }
        expect(case, &scene.ask_all(vec![track("t", steps)]), expected);
    }
    let mut scene = taken_back();
    scene.facts(1).version.major = 9;
    let both = vec![track("a", empty(2)), track("b", empty(1))];
    expect("two at once", &scene.ask_all(both), "rfr-x-2 is disturbed by this plan already");
}

fn not_ready(scene: &mut Scene) -> &mut Scene {
    scene.pod(2).ready = false;
    scene
}

fn broken(scene: &mut Scene, ordinal: u32) -> &mut Scene {
    scene.pod(ordinal).ready = false;
    scene.link(ordinal).up = false;
    scene
}

fn syncing(scene: &mut Scene) -> &mut Scene {
    scene.link(2).syncing = true;
    scene
}

fn syncing_1(scene: &mut Scene) -> &mut Scene {
    scene.link(1).syncing = true;
    scene
}

fn unlinked(scene: &mut Scene) -> &mut Scene {
    scene.link(2).up = false;
    scene
}

fn unheard(scene: &mut Scene) -> &mut Scene {
    scene.facts(0).replicas.pop();
    scene
}

fn wanted(scene: &mut Scene, members: u32) -> &mut Scene {
    scene.0.instance.spec = format!(r#"{{"replicas":{members},"version":"9.1"}}"#);
    scene
}

fn set_of(scene: &mut Scene, members: u32) -> &mut Scene {
    scene.0.objects = vec![vko_wit::observation::Object {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: "rfr-x".into(),
        uid: "set".into(),
        age: 1_000,
        deleting: false,
        members: Some(members),
        status: "null".into(),
    }];
    scene
}

fn appends(scene: &mut Scene, appends: Option<bool>) -> &mut Scene {
    scene.facts(0).extensions = facts::mk_appends(appends);
    scene
}

fn no_claims(scene: &mut Scene) -> &mut Scene {
    scene.0.claims.clear();
    scene
}

fn phase<'a>(scene: &'a mut Scene, phase: &str) -> &'a mut Scene {
    scene.0.claims[0].phase = phase.into();
    scene
}

fn full(scene: &mut Scene) -> &mut Scene {
    scene.facts(0).cannot_write = Some(vko_wit::observation::DiskFile::AppendOnlyFile);
    scene
}

fn sentinels(scene: &mut Scene) -> &mut Scene {
    scene.0.instance.architecture = Architecture::Failover;
    scene
}

fn never_ran(scene: &mut Scene) -> &mut Scene {
    scene.unhear(0).pod(0).container = ContainerState::Starting;
    scene.pod(0).ready = false;
    scene
}

fn tried<'a>(scene: &'a mut Scene, line: Option<&str>) -> &'a mut Scene {
    scene.0.extensions = facts::mk_tried_line(line);
    scene
}
