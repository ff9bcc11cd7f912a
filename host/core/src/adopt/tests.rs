//! What the ledger learns, and what it must not.

use vko_wit::observation::{LastPrimary, Role};

use super::{Lesson, Setting, lesson};
use crate::guard::testing::{Scene, mk_member};
use crate::ledger::Ledger;

type Change = fn(&mut Scene) -> &mut Scene;

/// The data set's members, and the rest of [`Setting`].
#[derive(Clone, Copy)]
struct Case {
    members: u32,
    alone: bool,
    at_rest: bool,
    asked_since: bool,
}

impl Case {
    fn setting(self) -> Setting {
        let members = [("rfr-x".to_owned(), self.members)].into();
        Setting { members, alone: self.alone, at_rest: self.at_rest, asked_since: self.asked_since }
    }
}

const THREE: Case = Case { members: 3, alone: false, at_rest: true, asked_since: true };
const ONE: Case = Case { members: 1, alone: true, at_rest: true, asked_since: true };

/// `-`, or the lesson in short.
fn short(scene: &Scene, setting: Case) -> String {
    match lesson(&scene.0, &setting.setting()) {
        None => "-".into(),
        Some(Lesson::Primary(member, replid, _)) => format!("primary {} {replid}", member.ordinal),
        Some(Lesson::Lineage(replid, _)) => format!("lineage {replid}"),
        Some(Lesson::Unformed) => "unformed".into(),
        Some(Lesson::Held) => "held".into(),
        Some(Lesson::Shards(members)) => format!("{} shards", members.len()),
        Some(Lesson::Formed(replid, offset)) => format!("formed {replid} {offset}"),
    }
}

#[test]
fn who_leads_now() {
    let table: &[(&str, Change, &str)] = &[
        ("the accepted primary", |s| s, "-"),
        ("the accepted primary under a new history", |s| history(s, 0, "h2", "h1"), "lineage h2"),
        ("a hook handed over", |s| hook(s).follow(0, 1), "primary 1 h2"),
        ("a hook handed over, then the old one ended", |s| hook(s).kill(0), "primary 1 h2"),
        ("a hook handed over, then the old pod went", |s| hook(s).remove(0), "primary 1 h2"),
        ("a hook handed over, then the old pod was replaced", |s| hook(s).replace(0), "primary 1 h2"),
        ("a hook handed over, the old one is silent", |s| hook(s).silence(0), "-"),
        ("two lead", hook, "-"),
        ("nobody leads", |s| s.detach(0), "-"),
        ("another leads in a history of its own", |s| stranger(s).follow(0, 1), "-"),
        ("another leads in a history of its own, and all follow", |s| stranger(s).follow(0, 1).follow(2, 1), "primary 1 h9"),
        ("a former primary is back while its successor died", former, "-"),
        ("two hand-overs unseen, all follow the last", |s| twice(s).follow(0, 1).follow(2, 1), "primary 1 h3"),
        ("two hand-overs unseen, the others were restarted", |s| twice(s.restart(0, 0).restart(2, 0)), "primary 1 h3"),
        ("the same, one is away", |s| twice(s.restart(0, 0).restart(2, 0)).silence(2), "-"),
        ("the same, one carries a known history", |s| twice(s.restart(0, 0).restart(2, 950)), "-"),
        ("the same, but it is empty", |s| emptied(twice(s.restart(0, 0).restart(2, 0))), "-"),
        ("two hand-overs unseen, one is away", |s| twice(s).follow(0, 1).follow(2, 1).silence(2), "-"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        change(&mut scene);
        assert_eq!(short(&scene, THREE), *expected, "{case}");
        assert_eq!(short(&scene, Case { asked_since: false, ..THREE }), "-", "{case}, as far as it was heard before the naming");
        if expected.starts_with("primary") {
            assert_eq!(short(&scene, Case { at_rest: false, ..THREE }), "-", "{case}, while somebody may be being promoted");
        }
    }
}

/// Another operator took member 0 for dead and promoted member 1; this one has read it in the ledger, and last asked the servers
/// before all that.
#[test]
fn what_was_heard_before_a_promotion_does_not_take_it_back() {
    let mut scene = Scene::healthy(3);
    let mut newer = scene.0.ledger.lineages[0].clone();
    newer.replid = "h2".into();
    scene.0.ledger.lineages.insert(0, newer);
    scene.0.ledger.last_primary = LastPrimary::Members(vec![mk_member(1)]);
    assert_eq!(short(&scene, Case { asked_since: false, ..THREE }), "-", "all follow member 0, as they last said");
    assert_eq!(short(&scene, THREE), "primary 0 h1", "they say so now");
}

#[test]
fn the_former_one_keeps_its_role_if_its_successor_never_took_it() {
    // The ledger names member 1, whose promotion never happened; member 0 leads on.
    let mut scene = Scene::healthy(3);
    scene.detach(1).detach(2);
    scene.0.ledger.last_primary = LastPrimary::Members(vec![mk_member(1)]);
    assert_eq!(short(&scene, THREE), "primary 0 h1");
    assert_eq!(short(&scene, Case { at_rest: false, ..THREE }), "-", "its promotion may be under way");
    assert_eq!(short(&scene, Case { asked_since: false, ..THREE }), "-", "another operator appointed it after they were asked");
    let mut restarted = scene.clone();
    history(&mut restarted, 1, "h2", "h1");
    assert_eq!(short(&restarted, THREE), "-", "it was a primary since");
    let mut ahead = scene.clone();
    ahead.facts(1).offset = 2_000;
    assert_eq!(short(&ahead, THREE), "-", "it has more");
    scene.silence(1);
    assert_eq!(short(&scene, THREE), "-", "it can't be asked");
}

#[test]
fn a_sole_member_that_starts_by_itself() {
    let mut scene = Scene::unformed(1);
    assert_eq!(short(&scene, ONE), "-", "it follows nobody");
    scene.facts(0).role = Role::Primary;
    assert_eq!(short(&scene, ONE), "primary 0 own-0");
    assert_eq!(short(&scene, Case { alone: false, ..ONE }), "-", "it should wait to be named");
    assert_eq!(short(&scene, Case { members: 3, ..ONE }), "-", "it isn't the only one");

    let mut successor = Scene::healthy(1);
    successor.0.ledger.last_primary = LastPrimary::Members(vec![crate::guard::testing::mk_member(0)]);
    history(&mut successor, 0, "own", "");
    successor.0.pods[0].uid = "new-0".into();
    successor.0.servers[0].pod = "new-0".into();
    assert_eq!(short(&successor, ONE), "primary 0 own");
}

#[test]
fn a_lost_ledger_is_written_anew_when_all_answer_and_agree() {
    let table: &[(&str, Change, &str)] = &[
        ("one leads and all follow", |s| s, "primary 0 h1"),
        ("one is silent", |s| s.silence(2), "-"),
        ("one pod is missing", |s| s.remove(2), "-"),
        ("a claim's member is missing", |s| s.claims(4), "-"),
        ("one doesn't follow", |s| s.detach(2), "-"),
        (
            "one's link is down",
            |s| {
                s.link(2).up = false;
                s
            },
            "-",
        ),
        ("two lead", hook, "-"),
        ("nobody leads, one history", |s| best(s.detach(0).detach(1).detach(2)), "formed h1 1500"),
        ("nobody leads, two histories", |s| stranger_waits(s.detach(0).detach(1)), "-"),
        ("nobody leads, append-only files", |s| s.restart(0, 0).restart(1, 0).restart(2, 0), "-"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        lose(&mut scene);
        change(&mut scene);
        assert_eq!(short(&scene, THREE), *expected, "{case}");
    }
    let mut scene = Scene::unformed(3);
    lose(&mut scene);
    assert_eq!(short(&scene, THREE), "unformed", "all wait, empty");
    assert_eq!(short(&scene, Case { members: 0, ..THREE }), "-", "how many there should be is unknown");
    scene.facts(1).keys = 1;
    assert_eq!(short(&scene, THREE), "-", "one holds data of no known history");
}

#[test]
fn the_first_key_that_is_seen() {
    let table: &[(&str, Option<bool>, Change, &str)] = &[
        ("none yet", Some(false), bare, "-"),
        ("one", Some(false), |s| s, "held"),
        ("known already", Some(true), |s| s, "-"),
        ("nobody knows what was before", None, bare, "-"),
        ("nobody knows what was before, and there is one", None, |s| s, "held"),
        ("said by one that is silent now", Some(false), |s| s.silence(0).silence(1).silence(2), "-"),
        ("whoever leads comes first", Some(false), |s| history(s, 0, "h2", "h1"), "lineage h2"),
    ];
    for (case, known, change, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.0.extensions = vko_wit::facts::mk_held(*known);
        change(&mut scene);
        assert_eq!(short(&scene, THREE), *expected, "{case}");
    }
    let mut ledger = Ledger { held: Some(false), ..Ledger::default() };
    Lesson::Held.learn(&mut ledger, 7);
    assert_eq!((ledger.held, ledger.formed), (Some(true), None));
}

fn bare(scene: &mut Scene) -> &mut Scene {
    (0..3).for_each(|i| scene.facts(i).keys = 0);
    scene
}

#[test]
fn what_is_learnt_is_written_down() {
    let mut ledger = Ledger::default();
    ledger.fences.push(crate::ledger::Fence { pod: "uid-1".into(), detached_at: 5, ..Default::default() });
    let mut scene = Scene::healthy(3);
    hook(&mut scene).follow(0, 1).claims(3);
    lesson(&scene.0, &THREE.setting()).unwrap().learn(&mut ledger, 7);
    assert_eq!((ledger.formed, ledger.lineages[0].replid.as_str()), (Some(true), "h2"));
    assert_eq!((ledger.last_primary[0].pod.as_str(), ledger.last_primary[0].claim.as_str()), ("uid-1", "claim-1"));
    assert_eq!(ledger.fences[0].detached_at, 0, "whoever leads has followers again");
    let mut unformed = Ledger::default();
    Lesson::Unformed.learn(&mut unformed, 7);
    assert_eq!((unformed.formed, unformed.held), (Some(false), Some(false)));
}

/// Member 1 was promoted out of `h1`.
fn hook(scene: &mut Scene) -> &mut Scene {
    scene.facts(1).role = Role::Primary;
    history(scene, 1, "h2", "h1")
}

fn emptied(scene: &mut Scene) -> &mut Scene {
    scene.facts(1).keys = 0;
    scene
}

fn twice(scene: &mut Scene) -> &mut Scene {
    scene.facts(1).role = Role::Primary;
    history(scene, 1, "h3", "h2")
}

fn stranger(scene: &mut Scene) -> &mut Scene {
    scene.facts(1).role = Role::Primary;
    history(scene, 1, "h9", "")
}

fn stranger_waits(scene: &mut Scene) -> &mut Scene {
    history(scene.detach(2), 2, "h9", "")
}

/// Member 1 took over from member 0 and wrote on (`h2`), then its container ended, just as member 0 came back.
fn former(scene: &mut Scene) -> &mut Scene {
    let mut newer = scene.0.ledger.lineages[0].clone();
    newer.replid = "h2".into();
    scene.0.ledger.lineages.insert(0, newer);
    scene.0.ledger.last_primary = LastPrimary::Members(vec![mk_member(1)]);
    history(scene.kill(1).detach(2), 2, "h2", "h1")
}

fn history<'a>(scene: &'a mut Scene, ordinal: u32, replid: &str, second: &str) -> &'a mut Scene {
    let facts = scene.facts(ordinal);
    (facts.replid, facts.second_replid) = (replid.into(), second.into());
    scene
}

fn best(scene: &mut Scene) -> &mut Scene {
    scene.facts(2).offset = 1_500;
    scene
}

fn lose(scene: &mut Scene) {
    scene.0.ledger.formed = None;
    scene.0.ledger.lineages.clear();
    scene.0.ledger.last_primary = LastPrimary::None;
}
