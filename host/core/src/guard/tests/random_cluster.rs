//! Any observation of a cluster and any plan: what the guard admits takes no slots from an owner that is alive and makes no
//! second one.

use std::collections::BTreeMap;

use super::random::Dice;
use crate::guard::guard;
use crate::guard::testing::{CALM, Scene, evict, hand_over, mk_belief, mk_plan, slots, step, track, uid};
use crate::testing::node_id;
use vko_wit::observation::{Reach, Role};
use vko_wit::planning::{ClusterTakeover, Operation, PairOfPods, Replication, SlotAssignment, Takeover};

fn scene(dice: &mut Dice) -> Scene {
    let mut scene = if dice.one_in(4) { Scene::unformed_cluster() } else { Scene::cluster() };
    if dice.one_in(6) {
        scene.0.ledger.formed = None;
    }
    for number in 0..6 {
        let other = dice.member(5);
        match dice.roll(14) {
            0 => _ = scene.silence(number),
            1 => _ = scene.kill(number),
            2 => _ = scene.replace(number),
            3 => _ = scene.hold(number),
            4 => scene.facts(number).keys = 0,
            5 => scene.facts(number).role = Role::Primary,
            6 => scene.peer(number).slots.clear(),
            7 => scene.peer(number).slots = slots(dice.member(2)),
            8 => scene.cluster_of(number).differs.push(mk_belief(node_id(number), slots(dice.member(2)))),
            9 => scene.peer(number).replica_of = node_id(other),
            10 => scene.facts(number).offset = 1 << 30,
            11 => _ = scene.lose(number),
            _ => {}
        }
    }
    scene
}

fn operation(dice: &mut Dice) -> Operation {
    let (a, b) = (dice.member(5), dice.member(5));
    let mode = if dice.one_in(2) { Takeover::Force } else { Takeover::Takeover };
    match dice.roll(10) {
        0 => evict(a),
        1 => Operation::Forget(node_id(a)),
        2 => Operation::ResetEmpty(uid(a)),
        3 => Operation::Replicate(Replication { pod: uid(a), primary: node_id(b) }),
        4 | 5 => Operation::OwnSlots(SlotAssignment { pod: uid(a), slots: slots(b / 2) }),
        6 | 7 => Operation::TakeOver(ClusterTakeover { replica: uid(a), mode }),
        8 => Operation::Meet(PairOfPods { pod: uid(a), peer: uid(b) }),
        _ => hand_over(a, a + 1),
    }
}

/// Whether a pod's server answers as a primary, by the scene itself.
fn leads(scene: &Scene, pod: &str) -> bool {
    let server = scene.0.servers.iter().find(|server| server.pod == pod);
    server.is_some_and(|server| {
        server.reach == Reach::Answered && server.facts.as_ref().is_some_and(|facts| facts.role == Role::Primary)
    })
}

/// The nodes that most see as owners of one of these slots.
fn owners(scene: &Scene, wanted: &[vko_wit::common::SlotRange]) -> Vec<u32> {
    let owns = |number: &u32| {
        let peer = scene.0.agreed_view.iter().find(|peer| peer.id == node_id(*number));
        peer.is_some_and(|peer| peer.slots.iter().any(|range| wanted.contains(range)))
    };
    (0..6).filter(owns).collect()
}

fn check(scene: &Scene, operation: &Operation, case: &str) {
    let all: Vec<_> = (0..3).flat_map(slots).collect();
    let is_owner = |pod: &String| owners(scene, &all).into_iter().any(|number| uid(number) == *pod);
    match operation {
        Operation::Replicate(order) => assert!(!is_owner(&order.pod), "{case}: an owner becomes a replica"),
        Operation::ResetEmpty(pod) => {
            assert!(!is_owner(pod), "{case}: an owner is reset");
            let facts = scene.0.servers.iter().find(|server| server.pod == *pod).and_then(|server| server.facts.as_ref());
            assert_eq!(facts.map(|facts| facts.keys), Some(0), "{case}: a server with data is reset");
        }
        Operation::Forget(node) => {
            let running = scene.0.pods.iter().any(|pod| (0..6).any(|number| pod.uid == uid(number) && *node == node_id(number)));
            assert!(!running, "{case}: a member is forgotten");
        }
        Operation::OwnSlots(assignment) => {
            let others = owners(scene, &assignment.slots).into_iter().find(|number| uid(*number) != assignment.pod);
            assert_eq!(others, None, "{case}: slots get a second owner");
        }
        Operation::TakeOver(order) => {
            let replica = (0..6).find(|number| uid(*number) == order.replica).unwrap();
            let own = scene.0.agreed_view.iter().find(|peer| peer.id == node_id(replica)).unwrap();
            let owner = (0..6).find(|number| node_id(*number) == own.replica_of).unwrap();
            assert!(!leads(scene, &uid(owner)), "{case}: taken over from one that leads");
        }
        _ => {}
    }
}

#[test]
fn no_plan_makes_two_owners() {
    let mut admitted: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 1..=20_000_u64 {
        let mut dice = Dice::new(seed);
        let scene = scene(&mut dice);
        let steps = |dice: &mut Dice| (0..=dice.roll(2)).map(|_| step(operation(dice))).collect();
        let plan = mk_plan((0..=dice.roll(3)).map(|n| track(&n.to_string(), steps(&mut dice))).collect());
        let mut heirs: BTreeMap<String, String> = BTreeMap::new();
        for step in guard(&plan, &scene.0, CALM, &[]).tracks.iter().flat_map(|track| &track.steps) {
            let case = format!("seed {seed}: {:?}", step.operation);
            *admitted.entry(crate::execute::names::operation(&step.operation)).or_default() += 1;
            check(&scene, &step.operation, &case);
            let heir = match &step.operation {
                Operation::TakeOver(order) => &order.replica,
                Operation::OwnSlots(assignment) => &assignment.pod,
                Operation::HandOver(order) => &order.replica,
                _ => continue,
            };
            let workload = scene.0.pods.iter().find(|pod| pod.uid == *heir).unwrap().workload.clone();
            let first = heirs.entry(workload).or_insert_with(|| heir.clone());
            assert_eq!(first, heir, "{case}: two primaries of one shard");
        }
    }
    for name in ["evict", "forget", "reset-empty", "replicate", "own-slots", "take-over", "meet", "hand-over"] {
        assert!(admitted.get(name).is_some_and(|count| *count > 10), "the dice must bring {name} that is allowed: {admitted:?}");
    }
}
