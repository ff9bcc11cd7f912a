//! Rules 5, 6 and 7: whose objects, which operations, which claims; and how far a workload shrinks.

use super::{Change, after, expect};
use crate::guard::testing::{CALM, Scene, evict, mk_belief, mk_member, mk_plan, mk_workload, slots, step, uid, verdict};
use crate::guard::{Circumstances, View, guard, members_now};
use crate::testing::node_id;
use vko_wit::observation::{LastPrimary, Role};
use vko_wit::planning::{Desired, ExtensionOperation, Operation, Purpose, Workload};

#[test]
fn only_operations_of_this_host() {
    let extension = Operation::Extension(ExtensionOperation { name: "flush".into(), pod: uid(0), arguments: "{}".into() });
    for operation in
        [extension, Operation::ResetEmpty(uid(1)), Operation::Forget("n".into()), Operation::ReloadCertificates(uid(0))]
    {
        expect("unknown", &Scene::healthy(2).ask(step(operation)), "OperationNotListed");
    }
}

#[test]
fn only_operations_of_the_architecture() {
    let slots = || vko_wit::planning::SlotMove { source: uid(0), target: uid(2), slots: crate::guard::testing::slots(0) };
    for operation in [
        crate::guard::testing::promote(1),
        crate::guard::testing::follow(1, 0),
        Operation::Detach(uid(1)),
        Operation::MoveSlots(slots()),
    ] {
        expect("in a cluster", &Scene::cluster().ask(step(operation)), "OperationNotListed");
    }
    expect("beside Sentinels", &Scene::watched().ask(step(Operation::BumpEpoch(uid(0)))), "of the failover architecture");
}

#[test]
fn only_objects_of_this_instance() {
    expect(
        "a stranger's pod",
        &Scene::healthy(2).ask(step(evict(7))),
        "ObjectNotOwned: no pod of this instance has the UID uid-7",
    );
    expect("a stranger's claim", &Scene::healthy(2).ask(step(Operation::DeleteClaim("c".into()))), "ObjectNotOwned: no claim");
    expect("to follow a stranger", &Scene::healthy(2).ask(step(crate::guard::testing::follow(1, 7))), "ObjectNotOwned");
}

#[test]
fn a_claim_goes_when_nothing_needs_it() {
    // Three members were two more once: claims 3 and 4 are left over. Claim 3 is asked for.
    let table: &[(&str, Change, &str)] = &[
        ("left over", |s| s, "ok"),
        ("the spec keeps claims", |s| spec(s, r#"{"replicas":3,"storage":{"retainAfterDeleted":true}}"#), "retainAfterDeleted"),
        ("the spec says nothing of it", |s| spec(s, r#"{"replicas":3}"#), "retainAfterDeleted"),
        ("the spec can't be read", |s| spec(s, "rubbish"), "member 3 is wanted"),
        ("its member is wanted", |s| spec(s, r#"{"replicas":4}"#), "member 3 is wanted"),
        ("its member is wanted, but its node is gone", |s| lost(spec(s, r#"{"replicas":4}"#)), "ok"),
        ("whether its node is gone is unknown", |s| unknown(spec(s, r#"{"replicas":4}"#)), "member 3 is wanted"),
        ("a pod uses it", |s| used(s), "rfr-x-3 uses it"),
        ("it is the last primary's", |s| last(s, 3), "belongs to the last primary"),
        ("the primary is silent", |s| s.silence(0), "no primary answers"),
        ("a primary answers that the ledger doesn't name", |s| last(s, 1), "no primary answers"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.claims(5);
        expect(case, &after(scene, *change).ask(step(Operation::DeleteClaim("claim-3".into()))), expected);
    }
}

#[test]
fn a_claim_of_a_shard_stays_while_an_owner_of_slots_is_in_no_pod() {
    let mut scene = Scene::cluster();
    scene.claims(1);
    let claim = scene.0.claims.last_mut().unwrap();
    (claim.workload, claim.ordinal) = ("drc-x-0".into(), 2);
    let delete = step(Operation::DeleteClaim(claim.uid.clone()));
    expect("left over", &scene.ask(delete.clone()), "ok");
    scene.0.pods.retain(|pod| pod.uid != uid(4));
    expect("an owner has no pod", &scene.ask(delete), "owns slots and is in no pod");
}

#[test]
fn how_far_a_workload_shrinks() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("grows", 5, |s| s, "ok"),
        ("stays", 3, |s| s, "ok"),
        ("the primary stays", 1, |s| s, "ok"),
        ("the primary is silent", 2, |s| s.silence(0), "ShrinkOverData: 3 members hold"),
        ("the primary would go", 2, |s| moved(s), "ShrinkOverData: 3 members hold"),
        ("all pods are gone, the last primary's place would go", 2, |s| moved(s).remove(0).remove(1).remove(2), "3 members hold"),
        ("nothing is known of it", 2, |s| forgotten(s), "3 members hold"),
        ("it was never formed", 1, |s| unformed(s), "ok"),
    ];
    for (case, members, change, expected) in table {
        let scene = after(Scene::healthy(3), *change);
        let mut plan = mk_plan(Vec::new());
        plan.desired.push(Desired::Workload(mk_workload(*members)));
        expect(case, &verdict(&guard(&plan, &scene.0, CALM, &[])), expected);
    }
}

#[test]
fn shards_and_sentinels_shrink_by_other_rules() {
    let shard = |members: u32| Workload { name: "drc-x-0".into(), ..mk_workload(members) };
    let sentinels = |members: u32| Workload { name: "rfs-x".into(), purpose: Purpose::Sentinel, ..mk_workload(members) };
    let table: Vec<(&str, Scene, Workload, &str)> = vec![
        ("a shard loses its replica", Scene::cluster(), shard(1), "ok"),
        ("the replica owns slots", after(Scene::cluster(), |s| s.elect(1)), shard(1), "ShrinkOverData: 2 members hold"),
        (
            "the replica owns slots by its own word",
            after(Scene::cluster(), claims_slots),
            shard(1),
            "ShrinkOverData: 2 members hold",
        ),
        ("Sentinels, as many as there are", Scene::watched(), sentinels(3), "ok"),
        ("more Sentinels", Scene::watched(), sentinels(5), "ok"),
        ("fewer Sentinels", Scene::watched(), sentinels(2), "ShrinkOverData: 3 Sentinels count on each other"),
        ("Sentinels that are not there yet", Scene::healthy(3), sentinels(1), "ok"),
    ];
    for (case, scene, workload, expected) in table {
        let mut plan = mk_plan(Vec::new());
        plan.desired.push(Desired::Workload(workload));
        expect(case, &verdict(&guard(&plan, &scene.0, CALM, &[])), expected);
    }
}

#[test]
fn nobody_leaves_by_a_plan_that_may_be_too_old() {
    // Three members, two are wanted; then as many as there are, and more.
    let table: &[(&str, Circumstances, u32, (u32, bool))] = &[
        ("calm", CALM, 2, (2, false)),
        ("without the Lease", Circumstances { lease: false, ..CALM }, 2, (3, true)),
        ("on an old view", Circumstances { fresh: false, ..CALM }, 2, (3, true)),
        ("cut off", Circumstances { cut_off: true, ..CALM }, 2, (3, true)),
        ("the spec has moved on", Circumstances { current: false, ..CALM }, 2, (3, true)),
        ("nobody would leave", Circumstances { current: false, ..CALM }, 3, (3, false)),
        ("somebody comes", Circumstances { current: false, ..CALM }, 5, (5, false)),
    ];
    for (case, circumstances, members, expected) in table {
        let scene = Scene::healthy(3);
        assert_eq!(members_now(&mk_workload(*members), &View::new(&scene.0, *circumstances)), *expected, "{case}");
    }
}

/// Member 1 says that it owns the first slots, and nobody else says so.
fn claims_slots(scene: &mut Scene) -> &mut Scene {
    let own = mk_belief(node_id(1), slots(0));
    scene.cluster_of(1).differs.push(own);
    scene
}

fn spec<'a>(scene: &'a mut Scene, spec: &str) -> &'a mut Scene {
    scene.0.instance.spec = spec.into();
    scene
}

fn lost(scene: &mut Scene) -> &mut Scene {
    scene.0.claims[3].node_exists = Some(false);
    scene
}

fn unknown(scene: &mut Scene) -> &mut Scene {
    scene.0.claims[3].node_exists = None;
    scene
}

fn used(scene: &mut Scene) -> &mut Scene {
    scene.0.pods.push(crate::guard::testing::mk_pod(3));
    scene
}

fn last(scene: &mut Scene, ordinal: u32) -> &mut Scene {
    scene.0.ledger.last_primary = LastPrimary::Members(vec![mk_member(ordinal)]);
    scene
}

fn moved(scene: &mut Scene) -> &mut Scene {
    scene.facts(2).role = Role::Primary;
    last(scene.follow(0, 2).follow(1, 2), 2)
}

fn forgotten(scene: &mut Scene) -> &mut Scene {
    (scene.0.ledger.last_primary, scene.0.ledger.formed) = (LastPrimary::None, None);
    scene
}

fn unformed(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.formed = Some(false);
    scene
}
