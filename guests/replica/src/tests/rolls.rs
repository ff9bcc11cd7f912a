//! The rolling change by table.

use vko_sdk::planning::{Phase, Truth};

use crate::decide;
use crate::testing::{Scene, describe};
use crate::{Preferences, accept, act, promotion};

type Change = fn(&mut Scene) -> &mut Scene;
type Row = (&'static str, Change, &'static str);

fn check(make: fn() -> Scene, rows: &[Row]) {
    for (case, change, expected) in rows {
        let mut scene = make();
        change(&mut scene);
        let found = describe(&scene, |view| act(view, &accept(view), &Preferences::default(), &promotion::succeed));
        assert_eq!(found, *expected, "{case}");
    }
}

/// Three members, with volumes, whose pods are all of an older template.
fn three() -> Scene {
    let mut scene = Scene::healthy("x", 3);
    scene.with_claims().outdate_all();
    scene
}

/// The same, where the newest template was tried by member 2 and is taken back: 9.1 to 8.1.
fn taken_back() -> Scene {
    let mut scene = Scene::healthy("x", 3);
    scene.with_claims().want_line("8.1", Some("9.1")).version(0, 8, 1).version(1, 8, 1).outdate(2);
    scene
}

fn two() -> Scene {
    let mut scene = Scene::healthy("x", 2);
    scene.outdate_all();
    scene
}

fn lone() -> Scene {
    let mut scene = Scene::alone("x");
    scene.with_claims().outdate_all().appends(0, true);
    scene
}

#[test]
fn one_member_after_the_other() {
    check(
        three,
        &[
            ("all are of an older template: the highest ordinal first", |s| s, "evict rfr-x-2"),
            ("newer software alone replaces nobody", newer_software, "-"),
            ("one is done", |s| done(s, 2), "evict rfr-x-1"),
            ("all replicas are done: the role goes", |s| done(done(s, 2), 1), "fence rfr-x-0 0, hand-over rfr-x-0 rfr-x-1"),
            ("the role has gone: the former primary is last", |s| done(done(s.serve_from(1).fence(1, 1), 2), 1), "evict rfr-x-0"),
            ("another one is the primary", |s| s.serve_from(2).fence(2, 1), "evict rfr-x-1"),
            ("the template isn't in force yet", |s| s.template_is_older(), "-"),
            ("the last one terminates", |s| s.terminate(2), "wait RollWaits"),
            ("the last one isn't there yet", |s| s.remove_pod(2), "wait RollWaits"),
            ("the last one starts", |s| s.replace_pod(2), "wait RollWaits"),
            ("the last one syncs", |s| done(s.set_syncing(2).unready(2), 2), "wait RollWaits"),
            ("the last one isn't ready", |s| done(s.unready(2), 2), "wait RollWaits"),
            ("the last one is far behind", |s| far_behind(done(s, 2)), "wait RollWaits"),
            (
                "the last one must be told whom to follow first",
                |s| done(s.restart(2, "empty"), 2),
                "follow rfr-x-2 rfr-x-0; wait RollWaits",
            ),
            ("the last one is silent", |s| s.silence(2), "wait RollWaits"),
            ("the primary's pod isn't ready", |s| s.unready(0), "wait RollWaits"),
            ("its answer is old", |s| s.age(0, 4_000), "-"),
            ("the primary ends: its hook owns the hand-over", |s| s.terminate(0), "wait HandOverUnderWay"),
            ("the primary is dead: failover first", |s| s.kill(0), "promote rfr-x-1"),
            ("the primary is silent: failover first", |s| s.silence(0), "detach rfr-x-1; detach rfr-x-2"),
            ("two answer as primaries", |s| s.rise(1), "drop-clients rfr-x-1, follow rfr-x-1 rfr-x-0"),
            ("members are to be added first", |s| s.want(5), "wait RollWaits"),
            ("the fence isn't set", |s| s.unfence(0), "fence rfr-x-0 1"),
        ],
    );
}

#[test]
fn a_new_version_that_does_not_work_stops_at_the_first_member() {
    check(
        three,
        &[
            ("its image can't be had", |s| done(s.want_image(2), 2), "wait RollWaits"),
            ("it crashes", |s| done(s.crash(2), 2), "wait RollWaits"),
            ("it crashes, and yet another template is in force", |s| s.crash(2), "evict rfr-x-2"),
            ("it isn't ready, and yet another template is in force", |s| s.unready(2), "evict rfr-x-2"),
            ("it follows nobody, and yet another template is in force", |s| s.restart(2, "empty"), "evict rfr-x-2"),
            ("one that is out of service goes before the others", |s| s.crash(1), "evict rfr-x-1"),
            ("its node is gone: no eviction reaches it", |s| s.lose_node(2).unready(2), "wait RollWaits"),
        ],
    );
    let mut scene = three();
    done(scene.crash(2), 2);
    let plan = decide(&scene.observed).unwrap();
    let stalled = plan.status.conditions.iter().find(|c| c.kind == "Stalled").unwrap();
    assert_eq!((stalled.state, stalled.reason.as_str()), (Truth::Yes, "RollWaits"));
    assert!(
        stalled.message.contains("rfr-x-2 (CrashLoopBackOff)") && stalled.message.contains("take the change"),
        "{}",
        stalled.message
    );
}

#[test]
fn an_upgrade_that_is_taken_back() {
    check(
        taken_back,
        &[
            ("who runs the newer line begins anew", |s| s, "delete-claim claim-2, evict rfr-x-2"),
            ("who never answered begins anew", |s| s.crash(2), "delete-claim claim-2, evict rfr-x-2"),
            ("who runs the older line keeps its volume", |s| s.version(2, 8, 1), "evict rfr-x-2"),
            ("without volumes the pod alone goes", |s| no_claims(s), "evict rfr-x-2"),
            ("nothing newer was tried", |s| untried(s).crash(2), "evict rfr-x-2"),
            (
                "the role has gone already: who never left the older line leads first",
                |s| back(s.serve_from(2).fence(2, 1)),
                "fence rfr-x-2 0, hand-over rfr-x-2 rfr-x-0",
            ),
            (
                "of the template in force, and its volume can't be read",
                |s| done(s.crash(2), 2),
                "delete-claim claim-2, evict rfr-x-2",
            ),
            ("the same on a volume that is new", |s| done(s.crash(2).forget_members(), 2), "-"),
        ],
    );
}

#[test]
fn two_members_write_on_while_the_replica_is_replaced() {
    check(
        two,
        &[
            ("the fence would stop writes", |s| s, "fence rfr-x-0 0, evict rfr-x-1"),
            ("it is lowered already", |s| s.unfence(0), "evict rfr-x-1"),
            ("the replica terminates", |s| s.unfence(0).terminate(1), "wait RollWaits"),
            ("the replica is done", |s| done(s, 1), "fence rfr-x-0 0, hand-over rfr-x-0 rfr-x-1"),
        ],
    );
}

#[test]
fn a_lone_member() {
    check(
        lone,
        &[
            ("its volume has everything", |s| s, "evict rfr-x-0"),
            ("it takes snapshots only", |s| s.appends(0, false), "wait RollWaits rfr-x-0"),
            ("it has no volume", no_claims, "wait RollWaits rfr-x-0"),
            ("it has no volume, by consent", |s| no_claims(s).consent_to_all(), "evict rfr-x-0 by consent"),
            (
                "its disk is full",
                |s| s.facts(0, |f| f.cannot_write = Some(vko_sdk::observation::DiskFile::AppendOnlyFile)),
                "wait RollWaits rfr-x-0",
            ),
            ("it terminates", |s| s.terminate(0), "wait HandOverUnderWay"),
            ("more are wanted: they come first", |s| s.want(3), "wait StartModePending; wait RollWaits"),
            ("it can't start, and yet another template is in force", |s| s.crash(0), "evict rfr-x-0; wait NoCandidate"),
            ("it can't start on the template in force", |s| done(s.crash(0), 0), "wait NoCandidate"),
            ("it can't start, and its volume is gone", |s| s.crash(0).lose_volume(0), "wait NoCandidate"),
        ],
    );
}

#[test]
fn all_of_an_older_template_and_none_starts() {
    check(
        three,
        &[
            ("one at a time", |s| s.crash(0).crash(1).crash(2), "evict rfr-x-2; wait NoCandidate"),
            ("one is on its way", |s| s.crash(0).crash(1).replace_pod(2), "evict rfr-x-1; wait NoCandidate"),
            ("without volumes their data is in them", |s| no_claims(s.crash(0).crash(1).crash(2)), "wait NoCandidate"),
        ],
    );
}

#[test]
fn members_do_not_change_while_lines_are_mixed() {
    let mut scene = three();
    done(scene.version(0, 8, 1).version(1, 8, 1), 2).want(2);
    let found = describe(&scene, |view| act(view, &accept(view), &Preferences::default(), &promotion::succeed));
    assert_eq!(found, "evict rfr-x-1; wait ShrinkWaits");
    assert_eq!(crate::membership::size(&scene.view(), None).members, 3);
}

#[test]
fn ready_when_the_last_one_is_done() {
    let table: &[(&str, Change, &str, Phase)] = &[
        ("as declared", |s| done(done(done(s, 0), 1), 2), "AllMembersSynced", Phase::Ready),
        ("the spec isn't in force yet", |s| done(done(done(s, 0), 1), 2).template_is_older(), "Rolling", Phase::Rebalancing),
        ("nobody is done", |s| s, "Rolling", Phase::Rebalancing),
        ("one is left", |s| done(done(s, 2), 1), "Rolling", Phase::Rebalancing),
        ("one is away", |s| s.remove_pod(2), "MembersNotSynced", Phase::Rebalancing),
    ];
    for (case, change, reason, phase) in table {
        let mut scene = three();
        change(&mut scene);
        let plan = decide(&scene.observed).unwrap();
        let ready = plan.status.conditions.iter().find(|c| c.kind == "Ready").unwrap();
        assert_eq!((ready.reason.as_str(), plan.status.phase), (*reason, *phase), "{case}: {}", ready.message);
    }
}

fn done(scene: &mut Scene, i: usize) -> &mut Scene {
    scene.pod(i, |pod| pod.template = vko_sdk::observation::TemplateState::Current)
}

fn newer_software(scene: &mut Scene) -> &mut Scene {
    (0..3).fold(scene, |scene, i| scene.pod(i, |pod| pod.template = vko_sdk::observation::TemplateState::NewerSoftware))
}

fn far_behind(scene: &mut Scene) -> &mut Scene {
    scene.facts(0, |f| f.offset = 1 << 30)
}

fn no_claims(scene: &mut Scene) -> &mut Scene {
    scene.observed.claims.clear();
    scene
}

fn untried(scene: &mut Scene) -> &mut Scene {
    scene.observed.extensions.retain(|pair| pair.key != "ledger.tried-line");
    scene
}

/// Members 1 and 2 run the newer line, member 0 never did.
fn back(scene: &mut Scene) -> &mut Scene {
    scene.version(0, 8, 1).version(1, 9, 1).version(2, 9, 1).outdate(1).outdate(2)
}
