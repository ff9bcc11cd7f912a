//! Rule 2: whose copy may become the primary's. Member 1 is the candidate; the last primary is dead unless a case says otherwise.

use super::{Change, after, expect, syncing, terminating};
use crate::guard::testing::{Scene, by_consent, follow, promote, step, track};
use vko_wit::observation::{LastPrimary, NodeState, Reach, Role};

const BEHIND: u64 = 1 << 21;

#[test]
fn the_candidate_itself() {
    let table: &[(&str, Change, &str)] = &[
        ("synced", |s| s, "ok"),
        ("terminating", terminating, "is terminating"),
        ("silent", |s| s.silence(1), "does not answer now"),
        ("in a sync", syncing, "in the middle of a sync"),
        ("on a lost node", lost_node, "node of rfr-x-1 is lost"),
        ("link down since the primary died", link_down, "ok"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.kill(0);
        expect(case, &after(scene, *change).ask(step(promote(1))), expected);
    }
}

#[test]
fn copies_of_a_formed_instance() {
    let table: &[(&str, Change, &str)] = &[
        ("of the newest history", |s| s, "ok"),
        ("of an older history, a newer copy answers", older, "rfr-x-2 has a synced copy"),
        (
            "behind what is known to exist, a whole copy answers",
            |s| best(s.restart(1, 900), 2).kill(0),
            "has more of the same history",
        ),
        (
            "behind what is known to exist, another copy is silent",
            |s| best(s.restart(1, 900), 2).silence(2),
            "rfr-x-0 does not answer and may hold data",
        ),
        (
            "restarted with a file, the last primary is back with more in its file",
            |s| farther(s.restart(1, 1_000).restart(0, 1_000)),
            "rfr-x-0 has more",
        ),
        ("it streamed, the last primary is back with more in its file", |s| farther(s.restart(0, 1_000)), "ok"),
        ("its link broke when the primary died", |s| cut_off(s, 10_000), "ok"),
        ("its link broke long before, another's did not", |s| cut_off(s, 60_000), "rfr-x-2 has a synced copy"),
        ("its link broke long before, the primary may come back", |s| cut_off(s, 60_000).kill(2), "rfr-x-0 does not answer"),
        (
            "its link broke long before, behind a fence that was lifted since",
            |s| cut_off(s.unhear(0), 60_000).kill(2),
            "rfr-x-0 does",
        ),
        (
            "its link broke long before this operator began, a fence is on record",
            |s| cut_off(s.unhear(0).fence(0, 1, 0), 60_000),
            "ok",
        ),
        ("its link broke when the primary's server was started again", |s| cut_off(back(s, 49_000), 60_000), "ok"),
        (
            "its link broke long before the primary's server was started again",
            |s| cut_off(back(s, 45_000), 60_000),
            "rfr-x-2 has a synced copy",
        ),
        ("promoted out of the newest history by a hook", promoted_by_hook, "ok"),
        ("an append-only file beside a synced copy", |s| s.restart(1, 0), "rfr-x-2 has a synced copy"),
        ("an append-only file, the last primary may come back", |s| s.restart(1, 0).restart(2, 0), "rfr-x-0 does not answer"),
        (
            "an append-only file, the last primary's pod is gone without a claim",
            |s| s.restart(1, 0).restart(2, 0).remove(0),
            "ok",
        ),
        (
            "an append-only file, the last primary's claim is there",
            |s| s.restart(1, 0).restart(2, 0).remove(0).claims(3),
            "claim valkey-data-rfr-x-0",
        ),
        ("the claim's node is gone", |s| volume_lost(s.restart(1, 0).restart(2, 0).remove(0).claims(3)), "ok"),
        ("the claim is lost", |s| claim_lost(s.restart(1, 0).restart(2, 0).remove(0).claims(3)), "ok"),
        (
            "a claim of a member that was removed long ago",
            |s| s.restart(1, 0).restart(2, 0).replace(0).remove(0).claims(5).last_gone(),
            "ok",
        ),
        ("the last primary's node is gone, no claim", |s| node_gone(s.restart(1, 0).restart(2, 0)), "ok"),
        ("empty while another holds data", |s| s.empty(1).restart(2, 0).remove(0), "rfr-x-1 is empty and rfr-x-2 holds data"),
        ("all empty, nothing may come back", |s| s.empty(1).empty(2).remove(0), "ok"),
        ("all empty, one is silent", |s| s.empty(1).silence(2).detach(2).remove(0), "rfr-x-2 does not answer"),
        ("the ledger was lost", unknown, "unknown whether this instance was ever formed"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.kill(0);
        expect(case, &after(scene, *change).ask(step(promote(1))), expected);
    }
}

#[test]
fn the_last_primary_itself_wins_unless_a_synced_copy_exists() {
    let table: &[(&str, Change, &str)] = &[
        ("back with an append-only file, the others restarted too", |s| s.restart(0, 0).restart(1, 0).restart(2, 0), "ok"),
        (
            "back with an append-only file, one ran through",
            |s| s.restart(0, 0).detach(1).restart(2, 0),
            "rfr-x-1 has a synced copy",
        ),
        ("back with an append-only file, the others are silent", |s| s.restart(0, 0).silence(1).silence(2), "ok"),
        ("back with an append-only file, one was cut off long before", |s| cut_off(s.restart(0, 0).restart(2, 0), 60_000), "ok"),
        ("appointed, and its naming was cut short", |s| appointed(s), "ok"),
        ("the same, but another holds data", |s| filled(appointed(s)), "rfr-x-0 is empty and rfr-x-2 holds data"),
        ("back with nothing, the others are silent", |s| s.empty(0).silence(1).silence(2), "does not answer and may hold data"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::healthy(3), *change).ask(step(promote(0))), expected);
    }
}

#[test]
fn the_first_primary() {
    // Three empty members, following nobody; member 1 is named.
    let table: &[(&str, Change, &str)] = &[
        ("all empty", |s| s, "ok"),
        ("another holds data", |s| fill(s, 2, "old", 5), "rfr-x-2 holds data"),
        ("it alone holds data", |s| fill(s, 1, "old", 5), "ok"),
        ("all hold data of one history", |s| fill(fill(s, 1, "old", 5), 2, "old", 4), "ok"),
        (
            "another holds more of the same history",
            |s| fill(fill(s, 1, "old", 5), 2, "old", 5 + BEHIND),
            "has more of the same history",
        ),
        ("append-only files", |s| fill(fill(s, 1, "own-1", 0), 2, "own-2", 0), "rfr-x-2 holds data"),
        ("a claim of its own time doesn't answer", |s| s.claims(3).remove(2), "ok"),
        ("an older claim doesn't answer", |s| older_claim(s.claims(3).remove(2)), "older than this instance"),
        ("an older claim's member answers: empty", |s| older_claim(s.claims(3)), "ok"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::unformed(3), *change).ask(step(promote(1))), expected);
    }
}

#[test]
fn a_consent_names_kind_and_target_and_was_given() {
    let token = "promote-data-loss:rfr-x-1:cafe";
    let table: &[(&str, &str, &str, &str)] = &[
        ("given", token, token, "ok"),
        ("not given", token, "", "has a synced copy"),
        ("given for another", "promote-data-loss:rfr-x-2:cafe", "promote-data-loss:rfr-x-2:cafe", "has a synced copy"),
        ("given for something else", "discard-writes:rfr-x-1:cafe", "discard-writes:rfr-x-1:cafe", "has a synced copy"),
        ("not claimed by the step", "", token, "has a synced copy"),
    ];
    for (case, claimed, given, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.kill(0).restart(1, 0).consent(given);
        expect(case, &scene.ask(by_consent(promote(1), claimed)), expected);
    }
    let mut scene = Scene::healthy(3);
    scene.silence(0).consent(token);
    expect("no consent overrules a primary that may write", &scene.ask(by_consent(promote(1), token)), "no fence");
}

#[test]
fn never_two_promotions() {
    let mut scene = Scene::healthy(3);
    scene.kill(0);
    let both = vec![track("a", vec![step(promote(1))]), track("b", vec![step(promote(2))])];
    expect("in one plan", &scene.ask_all(both), "rfr-x-1 is made the primary already");
    let one = crate::guard::testing::mk_plan(vec![track("b", vec![step(promote(2))])]);
    let running = [track("a", vec![step(promote(1))])];
    let guarded = crate::guard::guard(&one, &scene.0, crate::guard::testing::CALM, &running);
    expect("while another one runs", &crate::guard::testing::verdict(&guarded), "rfr-x-1 is made the primary already");
    let in_order = vec![track("a", vec![step(promote(1)), step(follow(2, 1))])];
    expect("following in the same track", &scene.ask_all(in_order), "ok");
    let side_by_side = vec![track("a", vec![step(promote(1))]), track("b", vec![step(follow(2, 1))])];
    expect("following in another track", &scene.ask_all(side_by_side), "not the primary that the ledger names");
}

impl Scene {
    /// The ledger's last primary was member 1 itself.
    fn last_gone(&mut self) -> &mut Self {
        self.0.ledger.last_primary = LastPrimary::Members(vec![crate::guard::testing::mk_member(1)]);
        self
    }
}

fn lost_node(scene: &mut Scene) -> &mut Scene {
    scene.pod(1).node_state = NodeState::OutOfService;
    scene
}

fn link_down(scene: &mut Scene) -> &mut Scene {
    scene.link(1).up = false;
    scene
}

/// Formed by the ledger, but nobody ever led: the operator ended between its word and the server's. Member 2's pod hasn't
/// started.
fn appointed(scene: &mut Scene) -> &mut Scene {
    scene.empty(0).empty(1).claims(3).unhear(2).pod(2).ready = false;
    scene.0.ledger.lineages.clear();
    scene
}

fn filled(scene: &mut Scene) -> &mut Scene {
    let mut facts = crate::guard::testing::mk_facts(2);
    facts.role = crate::guard::testing::replica_of(vko_wit::observation::Upstream::Nobody);
    let server = scene.server(2);
    (server.reach, server.age, server.facts) = (Reach::Answered, 500, Some(facts));
    scene
}

/// Its link has been down for so long (ms), and it lacks what was written since.
fn cut_off(scene: &mut Scene, ms: u64) -> &mut Scene {
    let facts = scene.facts(1);
    facts.offset = 950;
    let Role::Replica(link) = &mut facts.role else { panic!("member 1 is a replica") };
    link.down_for = Some(ms);
    scene
}

/// The last primary's server ran anew for so long when it was heard last, 10 s ago, without data.
fn back(scene: &mut Scene, ms: u64) -> &mut Scene {
    scene.empty(0).facts(0).uptime = ms;
    scene
}

fn older(scene: &mut Scene) -> &mut Scene {
    let mut old = scene.0.ledger.lineages[0].clone();
    old.replid = "h0".into();
    scene.0.ledger.lineages.push(old);
    scene.facts(1).replid = "h0".into();
    scene
}

/// The ledger knows of more than the candidate has; member 2 has all of it.
fn best(scene: &mut Scene, whole: u32) -> &mut Scene {
    scene.0.ledger.lineages[0].best_offset = BEHIND * 2;
    scene.facts(whole).offset = BEHIND * 2;
    scene
}

fn promoted_by_hook(scene: &mut Scene) -> &mut Scene {
    let facts = scene.remove(2).facts(1);
    (facts.replid, facts.second_replid) = ("h2".into(), "h1".into());
    scene
}

fn farther(scene: &mut Scene) -> &mut Scene {
    let server = scene.server(0);
    (server.reach, server.age) = (Reach::Answered, 500);
    scene.facts(0).offset = BEHIND * 2;
    scene.remove(2)
}

fn volume_lost(scene: &mut Scene) -> &mut Scene {
    scene.0.claims[0].node_exists = Some(false);
    scene
}

fn claim_lost(scene: &mut Scene) -> &mut Scene {
    scene.0.claims[0].phase = "Lost".into();
    scene
}

fn node_gone(scene: &mut Scene) -> &mut Scene {
    scene.pod(0).node_state = NodeState::Gone;
    scene
}

fn unknown(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.formed = None;
    scene.0.ledger.lineages.clear();
    scene
}

fn fill<'a>(scene: &'a mut Scene, ordinal: u32, replid: &str, offset: u64) -> &'a mut Scene {
    let facts = scene.facts(ordinal);
    (facts.replid, facts.offset, facts.keys) = (replid.into(), offset, 10);
    scene
}

fn older_claim(scene: &mut Scene) -> &mut Scene {
    scene.0.claims.iter_mut().filter(|claim| claim.ordinal == 2).for_each(|claim| claim.before_instance = true);
    scene
}
