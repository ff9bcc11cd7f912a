//! Rule 1 in a cluster: who may be given slots, and whose claim may win.

use super::{Change, after, claims, expect, keyless, owner};
use crate::guard::testing::{Scene, by_consent, slots, step, track, uid};
use crate::testing::node_id;
use vko_wit::common::SlotRange;
use vko_wit::observation::{OpenSlots, Role};
use vko_wit::planning::{Operation, Settled, SlotAssignment, SlotSettlement};

fn own(pod: u32, slots: Vec<SlotRange>) -> Operation {
    Operation::OwnSlots(SlotAssignment { pod: uid(pod), slots })
}

fn settle(pod: u32, owner: Settled) -> Operation {
    Operation::SettleSlots(SlotSettlement { pod: uid(pod), slots: slots(0), owner })
}

#[test]
fn who_may_be_given_slots_at_creation() {
    // Member 0 shall own the first third.
    let table: &[(&str, Change, &str)] = &[
        ("nobody owns anything", |s| s, "ok"),
        ("it is silent", |s| s.silence(0), "does not answer now"),
        ("it is a replica", |s| s.follow(0, 1), "is a replica"),
        ("another member of the shard is not up yet", |s| s.unhear(1), "ok"),
        ("another member of the shard holds keys", |s| keys(s, 1), "drc-x-0-1 holds data of this shard"),
        ("a member of another shard holds keys", |s| keys(s, 3), "ok"),
        ("another one claims one of the slots", |s| claims(s, 4), "drc-x-2-0 claims some of the slots"),
        ("most see another owner", |s| owner(s, 4), "drc-x-2-0 owns some of the slots"),
        ("an older claim has not been asked", |s| older_claim(s), "is older than this instance"),
        ("a stranger may be known", |s| s.stranger(), "may know the node"),
        ("the ledger is lost", |s| forgotten(s), "unknown whether this instance was ever formed"),
        ("other shards are led already", |s| formed(s), "ok"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::unformed_cluster(), *change).ask(step(own(0, slots(0)))), expected);
    }
}

#[test]
fn who_may_be_given_slots_again() {
    // The shard of members 0 and 1 was led before; member 0 came back with nothing.
    let table: &[(&str, Change, &str)] = &[
        ("its replica holds the data", |s| back_empty(s), "drc-x-0-1 holds data of this shard"),
        ("its replica is silent", |s| back_empty(s).silence(1), "drc-x-0-1 does not answer and may hold data"),
        ("its replica is empty, too", |s| keyless(back_empty(s), 1), "ok"),
        ("its replica is gone with all it had", |s| back_empty(s).lose(1), "ok"),
        ("its replica is gone and left a claim", |s| claim(back_empty(s).lose(1)), "may hold data"),
        ("it owns them already", |s| s.lose(1), "ok"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(own(0, slots(0)))), expected);
    }
}

#[test]
fn a_person_may_give_the_data_up_but_not_make_two_owners() {
    let token = "slots-data-loss:drc-x-1-0:1";
    let wanted = || by_consent(own(2, slots(0)), token);
    let table: &[(&str, Change, &str)] = &[
        ("the owner answers", |s| s, "drc-x-0-0 owns some of the slots and is not proven dead"),
        ("the owner is silent", |s| s.silence(0), "not proven dead"),
        ("the owner's container ended", |s| s.kill(0), "ok"),
        ("the owner's pod is gone", |s| s.lose(0), "ok"),
        ("the owner is held back", |s| s.hold(0), "ok"),
        ("somebody else claims them", |s| claims(s.lose(0), 4), "claims some of the slots"),
        ("it has not heard of the owner's epoch", |s| newborn(s.lose(0)), "has not heard of the epoch"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::cluster();
        scene.consent(token);
        expect(case, &after(scene, *change).ask(wanted()), expected);
    }
    let mut scene = Scene::cluster();
    scene.lose(0);
    expect("without it", &scene.ask(step(own(2, slots(0)))), "owns some of the slots");
}

#[test]
fn ranges_are_ranges() {
    let range = |first, last| SlotRange { first, last };
    let table = [
        (vec![], "names no slots"),
        (vec![range(9, 3)], "9 to 3 is no range of slots"),
        (vec![range(0, 16_384)], "no range of slots"),
        (vec![range(0, 9), range(9, 12)], "names slots twice"),
    ];
    for (slots, expected) in table {
        expect(expected, &Scene::unformed_cluster().ask(step(own(0, slots))), expected);
    }
}

#[test]
fn one_owner_for_each_shard() {
    let scene = Scene::unformed_cluster();
    let all = |pods: [u32; 2]| pods.map(|pod| track(&pod.to_string(), vec![step(own(pod, slots(pod / 2)))])).to_vec();
    expect("of two shards", &scene.ask_all(all([0, 2])), "ok");
    expect("of one", &scene.ask_all(all([0, 1])), "drc-x-0-0 is made the primary of this shard already");
}

#[test]
fn an_open_slot_is_closed_as_most_see_it() {
    let to_owner = Settled::Node(node_id(0));
    let table: &[(&str, Settled, Change, &str)] = &[
        ("for its owner", to_owner.clone(), open, "ok"),
        ("left as it was", Settled::Stable, open, "ok"),
        ("the other end is silent", Settled::Stable, |s| open(s).silence(2), "drc-x-1-0, the other end, does not answer"),
        ("for somebody else", Settled::Node(node_id(2)), open, "most servers do not see drc-x-1-0 as the owner"),
        ("for a silent one", to_owner, |s| open(s).silence(0), "does not answer now"),
    ];
    for (case, owner, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(settle(0, owner.clone()))), expected);
    }
}

#[test]
fn whose_claim_may_win() {
    let bump = || step(Operation::BumpEpoch(uid(0)));
    let table: &[(&str, Change, &str)] = &[
        ("it sees itself as most do", |s| s, "ok"),
        ("it is silent", |s| s.silence(0), "does not answer as a primary"),
        ("it is a replica", |s| s.follow(0, 1), "does not answer as a primary"),
        ("it was replaced and does not know it yet", |s| claims(s.elect(1), 0), "its claim must not win"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(bump()), expected);
    }
    let mut scene = Scene::unformed_cluster();
    claims(&mut scene, 0);
    expect("after it was given slots", &scene.ask_all(vec![track("t", vec![step(own(0, slots(0))), bump()])]), "ok");
}

fn keys(scene: &mut Scene, number: u32) -> &mut Scene {
    scene.facts(number).keys = 5;
    scene
}

fn newborn(scene: &mut Scene) -> &mut Scene {
    scene.cluster_of(2).epoch = 0;
    scene
}

fn older_claim(scene: &mut Scene) -> &mut Scene {
    let scene = claim(scene.unhear(1));
    scene.0.claims.iter_mut().filter(|claim| claim.ordinal == 1).for_each(|claim| claim.before_instance = true);
    scene
}

fn claim(scene: &mut Scene) -> &mut Scene {
    let claim = crate::guard::testing::mk_claim(1);
    scene.0.claims.push(vko_wit::observation::Claim { workload: "drc-x-0".into(), ..claim });
    scene
}

fn forgotten(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.formed = None;
    scene
}

fn formed(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.formed = Some(true);
    scene
}

fn back_empty(scene: &mut Scene) -> &mut Scene {
    let facts = scene.facts(0);
    (facts.keys, facts.role) = (0, Role::Primary);
    scene.peer(0).slots.clear();
    scene
}

fn open(scene: &mut Scene) -> &mut Scene {
    scene.cluster_of(0).migrating.push(OpenSlots { slots: slots(0), peer: node_id(2) });
    scene
}
