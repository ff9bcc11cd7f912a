use vko_sdk::common::StartMode;

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

fn three() -> Scene {
    Scene::healthy("x", 3)
}

fn three_with_claims() -> Scene {
    let mut scene = three();
    scene.with_claims();
    scene
}

#[test]
fn the_primary_answers() {
    check(
        three,
        &[
            ("as declared", |s| s, "-"),
            ("a replica restarted", |s| s.restart(1, "snapshot"), "follow rfr-x-1 rfr-x-0"),
            ("a replica restarted empty", |s| s.restart(1, "empty"), "follow rfr-x-1 rfr-x-0"),
            (
                "replicas were detached, then the primary came back",
                |s| s.detach(1).detach(2).lag(1, 9_000).lag(2, 9_000),
                "follow rfr-x-1 rfr-x-0; follow rfr-x-2 rfr-x-0; fence rfr-x-0 0",
            ),
            ("a replica follows another replica", |s| s.demote(2, 1), "follow rfr-x-2 rfr-x-0"),
            ("a replica is silent", |s| s.silence(1), "-"),
            ("a replica that ends is left alone", |s| s.detach(1).terminate(1), "-"),
            ("a replica's facts are old", |s| s.restart(1, "snapshot").age(1, 4_000), "-"),
            ("the primary ends: the hook owns the hand-over", |s| s.restart(1, "snapshot").terminate(0), "wait HandOverUnderWay"),
            (
                "a hand-over is under way",
                |s| s.restart(1, "snapshot").facts(0, |f| f.failover_state = "waiting-for-sync".into()),
                "wait HandOverUnderWay",
            ),
            (
                "the hook handed over, the host hasn't written it down",
                |s| s.rise(1).demote(0, 1).terminate(0),
                "wait PrimaryUnproven",
            ),
            ("the hook handed over; the old one still runs", |s| s.promote(1).demote(0, 1).terminate(0).follow(2, 1), "-"),
            (
                "the hook handed over; another one follows the old",
                |s| s.promote(1).demote(0, 1).terminate(0),
                "follow rfr-x-2 rfr-x-1",
            ),
            ("the hook handed over; the old one is gone", |s| s.promote(1).remove_pod(0).follow(2, 1), "-"),
            (
                "one rose that nobody recorded, and the last primary is silent",
                |s| s.rise(1).silence(0).follow(2, 1),
                "wait TwoPrimaries",
            ),
        ],
    );
}

#[test]
fn the_primary_is_dead() {
    check(
        three_with_claims,
        &[
            ("another replica's word is old: it is asked again first", |s| s.kill(0).age(2, 4_000), "-"),
            ("ended by the kubelet, but its server answered a moment ago: look again", |s| s.kill(0).age(0, 500), "-"),
            ("container ended", |s| s.kill(0), "promote rfr-x-1"),
            ("pod gone", |s| s.remove_pod(0), "promote rfr-x-1"),
            ("node gone", |s| s.lose_node(0), "promote rfr-x-1"),
            ("another pod starts in its place", |s| s.replace_pod(0), "promote rfr-x-1"),
            ("the best offset goes first", |s| s.kill(0).facts(2, |f| f.offset = 1_200), "promote rfr-x-2"),
            ("the best doesn't answer: the next one", |s| s.kill(0).facts(2, |f| f.offset = 1_200).silence(2), "promote rfr-x-1"),
            (
                "a node that is silent is no dead one",
                |s| s.silence(0).pod(0, |p| p.node_state = vko_sdk::observation::NodeState::Silent),
                "detach rfr-x-1; detach rfr-x-2",
            ),
            ("gone by the API, but a replica hears it", |s| s.remove_pod(0).hears_stranger(2), "wait PrimaryStillHeard"),
            ("no replica was synced: its claim comes back", |s| s.kill(0).set_syncing(1).set_syncing(2), "wait NoCandidate"),
            (
                "replicas restarted: its claim comes back",
                |s| s.kill(0).restart(1, "append-only-file").restart(2, "append-only-file"),
                "wait DataMayReturn rfr-x-1",
            ),
            (
                "the same by consent",
                |s| s.kill(0).restart(1, "append-only-file").restart(2, "append-only-file").consent_to_all(),
                "promote rfr-x-1 by consent, data lost",
            ),
            ("replicas are far behind: its claim comes back", |s| s.kill(0).best_offset(1 << 30), "wait DataMayReturn rfr-x-1"),
            (
                "its volume is gone with its node",
                |s| s.remove_pod(0).lose_volume(0).restart(1, "append-only-file").restart(2, "empty"),
                "promote rfr-x-1, data lost",
            ),
            (
                "its volume is gone, but another one isn't back yet",
                |s| s.remove_pod(0).lose_volume(0).restart(1, "empty").wait_start(2),
                "wait DataMayReturn rfr-x-1",
            ),
            ("a silent member may be a primary that nobody recorded", |s| s.kill(0).silence(1).unhear(1), "wait PrimarySilent"),
            (
                "a failed hook left the role in the air",
                |s| s.kill(0).facts(1, |f| f.failover_state = "failover-in-progress".into()),
                "wait HandOverUnderWay",
            ),
        ],
    );
}

#[test]
fn the_primary_is_dead_without_claims() {
    check(
        three,
        &[
            ("container ended", |s| s.kill(0), "promote rfr-x-1"),
            (
                "container ended, no synced replica: the pod keeps its data",
                |s| s.kill(0).restart(1, "empty").restart(2, "empty"),
                "wait DataMayReturn rfr-x-1",
            ),
            (
                "pod gone, no synced replica, one has data",
                |s| s.remove_pod(0).restart(1, "empty").restart(2, "snapshot"),
                "promote rfr-x-2, data lost",
            ),
            (
                "pod gone, nobody has data",
                |s| s.remove_pod(0).restart(1, "empty").restart(2, "empty"),
                "promote rfr-x-1, data lost",
            ),
            (
                "pod gone, a new one isn't asked yet",
                |s| s.replace_pod(0).restart(1, "empty").restart(2, "empty"),
                "wait DataMayReturn rfr-x-1",
            ),
            (
                "pod gone, a new one is empty, too",
                |s| s.replace_pod(0).answer_empty(0).restart(1, "empty").restart(2, "empty"),
                "promote rfr-x-0, data lost",
            ),
            (
                "the only data is in a copy that syncs: it is not overwritten",
                |s| s.restart(0, "empty").set_syncing(1).restart(2, "empty"),
                "wait DataMayReturn rfr-x-0",
            ),
            (
                "the only data is in a copy that ends",
                |s| s.restart(0, "empty").restart(1, "append-only-file").terminate(1).restart(2, "empty"),
                "wait DataMayReturn rfr-x-0",
            ),
            (
                "pod gone, a new one is empty, one replica has data",
                |s| s.replace_pod(0).answer_empty(0).restart(1, "empty").restart(2, "append-only-file"),
                "promote rfr-x-2, data lost",
            ),
            (
                "pod gone, a silent replica may have data",
                |s| s.remove_pod(0).restart(1, "empty").silence(2),
                "wait DataMayReturn rfr-x-1",
            ),
            ("all pods are gone", |s| s.remove_pod(0).remove_pod(1).remove_pod(2), "wait NoCandidate"),
        ],
    );
}

#[test]
fn the_primary_was_restarted() {
    check(
        three_with_claims,
        &[
            ("a synced replica wins", |s| s.restart(0, "append-only-file"), "promote rfr-x-1"),
            ("also while it still loads", |s| s.load(0, true), "promote rfr-x-1"),
            ("loading, role unknown: it may come up as the primary", |s| s.load(0, false), "wait PrimarySilent"),
            (
                "also over one that is back with everything",
                |s| s.restart(0, "snapshot").facts(0, |f| f.offset = 5_000),
                "promote rfr-x-1",
            ),
            (
                "no synced replica: it gets its role back",
                |s| s.restart(0, "append-only-file").set_syncing(1).set_syncing(2),
                "promote rfr-x-0",
            ),
            (
                "no synced replica, the others are away: it has its file",
                |s| s.restart(0, "append-only-file").kill(1).kill(2),
                "promote rfr-x-0",
            ),
            (
                "it came back empty, a replica has its file",
                |s| s.restart(0, "empty").restart(1, "append-only-file").restart(2, "empty"),
                "promote rfr-x-1, data lost",
            ),
            ("it came back empty, others may have more", |s| s.restart(0, "empty").kill(1).kill(2), "wait DataMayReturn rfr-x-0"),
            (
                "its snapshot is old and a replica that ran through is silent",
                |s| s.restart(0, "snapshot").best_offset(1 << 30).silence(1).set_syncing(2),
                "wait DataMayReturn rfr-x-0",
            ),
            (
                "nobody but it is left, with an old snapshot",
                |s| {
                    s.restart(0, "snapshot")
                        .facts(0, |f| f.offset = 1)
                        .best_offset(1 << 30)
                        .restart(1, "empty")
                        .restart(2, "empty")
                },
                "promote rfr-x-0, data lost",
            ),
        ],
    );
}

#[test]
fn all_were_restarted_at_once() {
    fn all(s: &mut Scene, origin: &str) {
        s.restart(0, origin).restart(1, origin).restart(2, origin);
    }
    fn snapshots() -> Scene {
        let mut scene = three_with_claims();
        all(&mut scene, "snapshot");
        scene
    }
    fn files() -> Scene {
        let mut scene = three_with_claims();
        all(&mut scene, "append-only-file");
        scene
    }
    check(
        snapshots,
        &[
            ("snapshots of one lineage, all equal", |s| s, "promote rfr-x-0"),
            ("the best offset wins, whoever was the primary", |s| s.facts(2, |f| f.offset = 1_500), "promote rfr-x-2"),
            ("the last primary isn't back", |s| s.wait_start(0), "wait DataMayReturn rfr-x-1"),
            ("facts are old", |s| s.age(0, 4_000).age(1, 4_000).age(2, 4_000), "wait AnswersTooOld"),
        ],
    );
    check(
        files,
        &[
            ("append-only files have no lineage: the last primary's wins", |s| s, "promote rfr-x-0"),
            ("the last primary's file wins over more keys", |s| s.facts(2, |f| f.keys = 99), "promote rfr-x-0"),
            ("the last primary isn't back", |s| s.remove_pod(0), "wait DataMayReturn rfr-x-1"),
            (
                "the last primary isn't back, by consent",
                |s| s.remove_pod(0).consent_to_all(),
                "promote rfr-x-1 by consent, data lost",
            ),
            (
                "the last primary's volume is gone: two copies that can't be compared",
                |s| s.remove_pod(0).lose_volume(0),
                "wait LineagesDiffer rfr-x-1",
            ),
            ("the same by consent", |s| s.remove_pod(0).lose_volume(0).consent_to_all(), "promote rfr-x-1 by consent, data lost"),
            ("the ledger names nobody", |s| s.forget_primary(), "wait LineagesDiffer rfr-x-0"),
        ],
    );
}

#[test]
fn the_primary_is_silent() {
    check(
        three,
        &[
            ("no fence: silent is not dead", |s| s.silence(0).unfence(0), "wait PrimarySilent"),
            ("a fence of another run", |s| s.silence(0).fence_run(0, "older", 1), "wait PrimarySilent"),
            ("it answers with an error: it lives", |s| s.refuse(0, "BUSY"), "wait PrimarySilent"),
            ("a replica hears it", |s| s.silence(0).still_hears(2), "wait PrimaryStillHeard"),
            ("fenced: its replicas are detached", |s| s.silence(0), "detach rfr-x-1; detach rfr-x-2"),
            ("one is detached, one isn't yet", |s| s.silence(0).detach(1).detached(0, 100), "detach rfr-x-2"),
            ("detached, the host hasn't recorded it", |s| s.silence(0).detach(1).detach(2), "detach rfr-x-1; detach rfr-x-2"),
            ("detached just now", |s| s.silence(0).detach(1).detach(2).detached(0, 6_999), "wait FenceClosing"),
            ("the fence has closed", |s| s.silence(0).detach(1).detach(2).detached(0, 7_000), "promote rfr-x-1"),
            ("a replica that is no member is attached to it", |s| s.silence(0).stranger(0), "wait PrimarySilent"),
            ("another replica is silent, too: no majority", |s| s.silence(0).silence(2), "wait TooManySilent"),
            ("another replica is dead", |s| s.silence(0).kill(2), "detach rfr-x-1"),
            ("no replica was synced", |s| s.silence(0).set_syncing(1).set_syncing(2), "wait NoCandidate"),
            ("it is silent and its pod is ending", |s| s.silence(0).unfence(0).terminate(0), "wait PrimarySilent"),
            ("its container ended meanwhile", |s| s.silence(0).detach(1).detach(2).detached(0, 100).kill(0), "promote rfr-x-1"),
            ("all are silent", |s| s.silence(0).silence(1).silence(2), "wait NoCandidate"),
        ],
    );
    check(
        || Scene::healthy("x", 5),
        &[
            (
                "five: one silent replica doesn't matter",
                |s| s.silence(0).silence(4),
                "detach rfr-x-1; detach rfr-x-2; detach rfr-x-3",
            ),
            ("five: two do", |s| s.silence(0).silence(4).silence(3), "wait TooManySilent"),
        ],
    );
    check(|| Scene::healthy("x", 2), &[("two: the same", |s| s.silence(0), "detach rfr-x-1")]);
}

#[test]
fn two_answer_as_primaries() {
    check(
        three,
        &[
            (
                "fenced before: the old one follows",
                |s| s.detached(0, 60_000).promote(1).follow(2, 1).facts(0, |f| f.offset = 9_000),
                "drop-clients rfr-x-0, follow rfr-x-0 rfr-x-1",
            ),
            (
                "it holds nothing more",
                |s| s.forget_fences().promote(1).follow(2, 1),
                "drop-clients rfr-x-0, follow rfr-x-0 rfr-x-1",
            ),
            (
                "it wrote on, unfenced",
                |s| s.forget_fences().promote(1).follow(2, 1).facts(0, |f| f.offset = 9_000),
                "wait TwoPrimaries rfr-x-0",
            ),
            (
                "the same by consent",
                |s| s.forget_fences().promote(1).follow(2, 1).facts(0, |f| f.offset = 9_000).consent_to_all(),
                "drop-clients rfr-x-0, follow rfr-x-0 rfr-x-1 by consent",
            ),
            ("one rose beside the recorded one and is idle", |s| s.rise(1), "drop-clients rfr-x-1, follow rfr-x-1 rfr-x-0"),
            (
                "one rose beside the recorded one and was written to",
                |s| s.rise(1).facts(1, |f| f.offset = 9_000),
                "wait TwoPrimaries rfr-x-1",
            ),
            ("the ledger names neither", |s| s.rise(1).forget_primary(), "wait TwoPrimaries"),
            (
                "a consent for another run is none",
                |s| {
                    s.forget_fences().promote(1).follow(2, 1).facts(0, |f| f.offset = 9_000);
                    s.observed.instance.consents = vec!["discard-writes:rfr-x-0:00000000".into()];
                    s
                },
                "wait TwoPrimaries rfr-x-0",
            ),
        ],
    );
}

#[test]
fn a_primary_that_holds_nothing() {
    check(
        three_with_claims,
        &[
            (
                "an empty stranger leads while the data is elsewhere",
                |s| s.restart(1, "empty").facts(1, |f| f.role = vko_sdk::observation::Role::Primary).kill(0),
                "wait EmptyPrimary",
            ),
            (
                "the primary began empty; one comes back with data",
                |s| s.restart(1, "append-only-file").facts(0, |f| f.keys = 0),
                "wait WritesWouldBeLost rfr-x-1",
            ),
            (
                "the same by consent",
                |s| s.restart(1, "append-only-file").facts(0, |f| f.keys = 0).consent_to_all(),
                "follow rfr-x-1 rfr-x-0 by consent",
            ),
        ],
    );
}

#[test]
fn nobody_ever_held_a_key() {
    fn all(s: &mut Scene, origin: &str) {
        s.restart(0, origin).restart(1, origin).restart(2, origin);
    }
    fn empty() -> Scene {
        let mut scene = three_with_claims();
        all(&mut scene, "empty");
        scene.held(Some(false));
        scene
    }
    check(
        empty,
        &[
            ("all are back, with nothing to lose", |s| s, "promote rfr-x-0"),
            ("nobody knows whether there was something", |s| s.held(None), "promote rfr-x-0, data lost"),
            ("there was something", |s| s.held(Some(true)), "promote rfr-x-0, data lost"),
            ("one holds a key that nobody saw before", |s| s.facts(1, |f| f.keys = 1), "promote rfr-x-1, data lost"),
            ("one isn't back: what it holds nobody knows", |s| s.wait_start(2), "wait DataMayReturn rfr-x-0"),
        ],
    );
}

#[test]
fn the_ledger_was_lost() {
    check(
        three_with_claims,
        &[
            ("all agree: the host writes it anew", |s| s.forget_all(), "-"),
            ("a replica is away", |s| s.forget_all().silence(2), "wait LedgerLost"),
            ("a member's claim has no pod", |s| s.remove_pod(2).forget_all(), "wait LedgerLost"),
            ("a replica follows nobody: nothing is done", |s| s.detach(1).forget_all(), "wait LedgerLost"),
            ("the primary is dead: nothing is promoted", |s| s.kill(0).forget_all(), "wait LedgerLost rfr-x-1"),
            ("by consent", |s| s.kill(0).forget_all().consent_to_all(), "promote rfr-x-1 by consent, data lost"),
            ("by consent, but the silent one may lead", |s| s.silence(0).forget_all().consent_to_all(), "wait PrimarySilent"),
            (
                "all restarted empty: it is not created anew",
                |s| s.restart(0, "empty").restart(1, "empty").restart(2, "empty").forget_all(),
                "wait LedgerLost rfr-x-0",
            ),
        ],
    );
}

#[test]
fn a_single_member() {
    check(
        || Scene::alone("x"),
        &[
            ("serves", |s| s, "-"),
            ("container ended: it comes back by itself", |s| s.kill(0), "wait NoCandidate"),
            ("silent", |s| s.silence(0), "wait NoCandidate"),
            ("it was started to be named", |s| s.restart(0, "append-only-file"), "promote rfr-x-0"),
            ("it came back empty, by itself", |s| s.facts(0, |f| (f.keys, f.replid) = (0, "new".into())), "wait PrimaryUnproven"),
        ],
    );
}

#[test]
fn members_out() {
    check(
        || Scene::alone("x"),
        &[
            ("one must learn first that a restart follows nobody", |s| s.want(3), "wait StartModePending"),
            ("an older mode is mounted", |s| s.want(3).mounted(0, StartMode::Alone), "wait StartModePending"),
            ("it has learnt", |s| s.want(3).mounted(0, StartMode::Named), "-"),
        ],
    );
    check(three, &[("from three on there is nothing to prepare", |s| s.want(5), "-")]);
}

#[test]
fn members_in() {
    check(
        three,
        &[
            ("the primary stays, the fence fits", |s| s.want(2), "-"),
            ("to one: the fence is lifted first", |s| s.want(1), "fence rfr-x-0 0"),
            (
                "the primary is to go: its role moves first",
                |s| s.serve_from(2).fence(2, 1).want(2),
                "fence rfr-x-2 0, hand-over rfr-x-2 rfr-x-0",
            ),
            (
                "the primary is to go, the only one that stays is away",
                |s| s.serve_from(2).fence(2, 1).want(1).silence(0),
                "wait ShrinkWaits",
            ),
            (
                "the primary is to go, the one that stays ends",
                |s| s.serve_from(2).fence(2, 1).want(1).terminate(0),
                "wait ShrinkWaits",
            ),
            ("nobody that stays is synced", |s| s.want(2).set_syncing(1), "wait ShrinkWaits"),
            (
                "the primary dies meanwhile: one that stays takes over",
                |s| s.serve_from(2).want(2).kill(2).facts(1, |f| f.offset = 2_000),
                "promote rfr-x-1",
            ),
            ("the primary dies and only one that was to go is synced", |s| s.want(1).kill(0), "promote rfr-x-1"),
        ],
    );
    check(
        three_with_claims,
        &[
            ("claims of removed members go", |s| s.want(2).shrink(2).remove_pod(2), "delete-claim claim-2"),
            ("not before the pod is gone", |s| s.want(2).shrink(2), "-"),
            ("not before the workload is smaller", |s| s.want(2).remove_pod(2), "-"),
            ("not if the spec keeps them", |s| s.spec_storage(true).want(2).shrink(2).remove_pod(2), "-"),
            ("not without a synced copy", |s| s.want(2).shrink(2).remove_pod(2).silence(1), "-"),
            ("not if the ledger doesn't know them", |s| s.want(2).shrink(2).remove_pod(2).forget_members(), "-"),
            ("not while nobody leads", |s| s.want(2).shrink(2).remove_pod(2).kill(0), "promote rfr-x-1"),
        ],
    );
}
