//! Rules 5, 6 and 7: whose objects, which operations, which claims; and how far a workload shrinks.

use super::{Change, after, expect};
use crate::guard::guard;
use crate::guard::testing::{CALM, Scene, evict, mk_member, mk_plan, mk_workload, step, uid, verdict};
use vko_wit::observation::{LastPrimary, Role};
use vko_wit::planning::{Desired, ExtensionOperation, Operation, Purpose};

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
    let mut sentinels = mk_workload(1);
    sentinels.purpose = Purpose::Sentinel;
    let mut plan = mk_plan(Vec::new());
    plan.desired.push(Desired::Workload(sentinels));
    expect("a workload without data", &verdict(&guard(&plan, &Scene::healthy(3).0, CALM, &[])), "ok");
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
