//! Steps of a cluster: what is done, in which order, what is verified, and what an end after any effect leaves.

use std::sync::Arc;

use vko_model::cluster::ClusterNodes;
use vko_wit::observation::Observed;
use vko_wit::planning::{
    ClusterTakeover, EpochOf, Expectation, HandOver, Operation, PairOfPods, Replication, Settled, SlotAssignment, SlotSettlement,
    Takeover,
};

use crate::command::{Command, Reply};
use crate::execute::{ExecuteError, step};
use crate::guard::testing::{Scene, mk_peer, slots, step as mk_step, uid};
use crate::ledger::Ledger;
use crate::site::Site;
use crate::testing::{FakeWorld, mk_cluster_site, node_id, topology_id};

async fn run(site: &Site<FakeWorld>, operation: Operation) -> Result<(), ExecuteError> {
    step::run(site, &observed_at(site).await, &mk_step(operation)).await
}

/// With the ledger as it is.
async fn observed_at(site: &Site<FakeWorld>) -> Observed {
    let mut observed = observed();
    observed.ledger = site.store.ledger().await.observed();
    observed
}

fn observed() -> Observed {
    Scene::cluster().0
}

fn meet(pod: u32, peer: u32) -> Operation {
    Operation::Meet(PairOfPods { pod: uid(pod), peer: uid(peer) })
}

fn own(pod: u32) -> Operation {
    Operation::OwnSlots(SlotAssignment { pod: uid(pod), slots: slots(pod / 2) })
}

fn replicate(pod: u32, primary: u32) -> Operation {
    Operation::Replicate(Replication { pod: uid(pod), primary: node_id(primary) })
}

fn take_over(replica: u32, mode: Takeover) -> Operation {
    Operation::TakeOver(ClusterTakeover { replica: uid(replica), mode })
}

fn hand_over() -> Operation {
    Operation::HandOver(HandOver { primary: uid(0), replica: uid(1), monitor: String::new(), timeout: 5_000 })
}

/// Nodes that a server sees as owners.
async fn owners(site: &Site<FakeWorld>, pod: u32) -> Vec<String> {
    let Ok(Reply::Text(text)) = site.send(&uid(pod), Command::ClusterNodes).await else { panic!("member {pod} says nothing") };
    let nodes = ClusterNodes::parse(&text).unwrap().nodes;
    nodes.into_iter().filter(|node| !node.slots.is_empty()).map(|node| node.id).collect()
}

#[tokio::test]
async fn a_cluster_is_made_step_by_step() {
    let (world, site) = mk_cluster_site(false);
    for peer in 1..6 {
        run(&site, meet(0, peer)).await.unwrap();
    }
    for pod in [0, 2, 4] {
        run(&site, own(pod)).await.unwrap();
        run(&site, replicate(pod + 1, pod)).await.unwrap();
    }
    assert_eq!(owners(&site, 5).await, [node_id(0), node_id(2), node_id(4)]);
    assert!((0..6).all(|pod| world.node(&uid(pod)).knows.len() == 6));
    let ledger = site.store.ledger().await;
    assert!((0..3).all(|shard| ledger.is_last_primary(&format!("drc-x-{shard}"), 0)));
    assert_eq!(ledger.last_primary.iter().find(|member| member.workload == "drc-x-0").unwrap().node_id, node_id(0));
    world.effects();
    // Again, as after an answer that was lost: nothing more is to be done.
    run(&site, own(0)).await.unwrap();
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn slots_are_in_the_ledger_before_they_are_given() {
    let (world, site) = mk_cluster_site(false);
    site.store.change(|ledger| ledger.formed = Some(false)).await.unwrap();
    world.effects();
    run(&site, own(0)).await.unwrap();
    assert_eq!(world.effects(), ["status x", "drc-x-0-0: cluster-addslots"]);
    assert_eq!(site.store.ledger().await.formed, Some(true));
}

#[tokio::test]
async fn slots_that_have_an_owner_are_not_given_away() {
    let (world, site) = mk_cluster_site(true);
    let operation = Operation::OwnSlots(SlotAssignment { pod: uid(2), slots: slots(0) });
    assert!(run(&site, operation).await.unwrap_err().is_dropped());
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn slots_of_a_node_that_failed_are_taken_one_by_one() {
    let (world, site) = mk_cluster_site(true);
    // The first shard lost both members; member 2's server is the one that takes its slots.
    world.change(&uid(0), |server| server.silent = true);
    let few = vec![vko_wit::common::SlotRange { first: 0, last: 2 }];
    run(&site, Operation::OwnSlots(SlotAssignment { pod: uid(2), slots: few })).await.unwrap();
    assert_eq!(world.effects()[1..], ["drc-x-1-0: cluster-setslot-node"; 3]);
    run(&site, Operation::BumpEpoch(uid(2))).await.unwrap();
    assert_eq!(world.node(&uid(2)).epoch, 4, "above all others");
}

#[tokio::test]
async fn an_owner_of_slots_is_no_replica_and_is_not_reset() {
    let (world, site) = mk_cluster_site(true);
    assert!(run(&site, replicate(2, 0)).await.unwrap_err().is_dropped());
    assert!(run(&site, Operation::ResetEmpty(uid(2))).await.unwrap_err().is_dropped());
    assert!(run(&site, Operation::ResetEmpty(uid(1))).await.unwrap_err().is_dropped(), "a replica that is in service");
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn an_empty_server_loses_its_identity() {
    let (world, site) = mk_cluster_site(false);
    run(&site, Operation::ResetEmpty(uid(1))).await.unwrap();
    assert_ne!(world.node(&uid(1)).id, node_id(1));
    world.change(&uid(3), |server| server.ignores.push("cluster-reset-hard"));
    assert!(matches!(run(&site, Operation::ResetEmpty(uid(3))).await, Err(ExecuteError::NotVerified(_))));
}

#[tokio::test]
async fn a_ghost_is_forgotten_everywhere() {
    let (world, site) = mk_cluster_site(true);
    world.state().ghosts.insert(node_id(9), vko_model::slots::SlotSet::default());
    for pod in 0..6 {
        world.change(&uid(pod), |server| _ = server.node.as_mut().unwrap().knows.insert(node_id(9)));
    }
    run(&site, Operation::Forget(node_id(9))).await.unwrap();
    assert!((0..6).all(|pod| !world.node(&uid(pod)).knows.contains(&node_id(9))));
    assert_eq!(world.effects().len(), 6);
    assert!(run(&site, Operation::Forget(node_id(1))).await.unwrap_err().is_dropped(), "a server that answers under that id");
}

#[tokio::test]
async fn open_slots_are_closed() {
    let (world, site) = mk_cluster_site(true);
    world.change(&uid(0), |server| server.node.as_mut().unwrap().open.push((7, "->-", node_id(2))));
    let slots = vec![vko_wit::common::SlotRange { first: 7, last: 7 }];
    for (owner, command) in [(Settled::Stable, "stable"), (Settled::Node(node_id(0)), "node")] {
        run(&site, Operation::SettleSlots(SlotSettlement { pod: uid(0), slots: slots.clone(), owner })).await.unwrap();
        assert_eq!(world.effects(), [format!("drc-x-0-0: cluster-setslot-{command}")]);
    }
    assert!(world.node(&uid(0)).open.is_empty());
}

#[tokio::test]
async fn a_hand_over_ends_when_all_see_the_new_owner() {
    let (world, site) = mk_cluster_site(true);
    run(&site, hand_over()).await.unwrap();
    assert_eq!(world.effects(), ["drc-x-0-1: cluster-failover", "status x"]);
    assert_eq!(owners(&site, 4).await, [node_id(1), node_id(2), node_id(4)]);
    assert!(site.store.ledger().await.is_last_primary("drc-x-0", 1));
}

#[tokio::test]
async fn what_the_server_does_not_check_is_checked() {
    type Case = (&'static str, fn(&FakeWorld));
    let cases: [Case; 4] = [
        ("the primary's offset is zero", |world| world.change(&uid(0), |server| server.offset = 0)),
        ("the replica's is", |world| world.change(&uid(1), |server| server.offset = 0)),
        ("the primary hears nobody", |world| world.change(&uid(1), |server| server.upstream = Some("10.0.0.9".parse().unwrap()))),
        ("the primary is a replica by now", |world| {
            world.change(&uid(0), |server| server.upstream = Some("10.0.0.2".parse().unwrap()))
        }),
    ];
    for (case, change) in cases {
        let (world, site) = mk_cluster_site(true);
        change(&world);
        let error = run(&site, hand_over()).await.unwrap_err();
        assert!(error.is_dropped(), "{case}: {error}");
        assert_eq!(world.effects(), Vec::<String>::new(), "{case}");
    }
}

#[tokio::test]
async fn a_hand_over_that_never_fires_is_no_success() {
    let (world, site) = mk_cluster_site(true);
    world.change(&uid(1), |server| server.stuck = true);
    let error = run(&site, hand_over()).await.unwrap_err();
    assert!(error.to_string().contains("did not take over"), "{error}");
    assert!(!site.store.ledger().await.is_last_primary("drc-x-0", 1));
}

#[tokio::test]
async fn a_take_over_is_in_the_ledger_first() {
    for (mode, command) in [(Takeover::Force, "force"), (Takeover::Takeover, "takeover")] {
        let (world, site) = mk_cluster_site(true);
        world.change(&uid(0), |server| server.silent = true);
        run(&site, take_over(1, mode)).await.unwrap();
        assert_eq!(world.effects(), ["status x".to_owned(), format!("drc-x-0-1: cluster-failover-{command}")]);
        assert!(site.store.ledger().await.is_last_primary("drc-x-0", 1));
    }
}

#[tokio::test]
async fn nothing_is_taken_over_from_one_that_leads() {
    let (world, site) = mk_cluster_site(true);
    assert!(run(&site, take_over(1, Takeover::Takeover)).await.unwrap_err().is_dropped());
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn whoever_takes_over_knows_all_slots() {
    let (world, site) = mk_cluster_site(true);
    world.change(&uid(1), |server| server.node.as_mut().unwrap().unlearned = "7".parse().unwrap());
    world.change(&uid(0), |server| server.silent = true);
    let mut observed = observed_at(&site).await;
    observed.agreed_view = vec![mk_peer(0)];
    let error = step::run(&*site, &observed, &mk_step(take_over(1, Takeover::Force))).await.unwrap_err();
    assert!(error.is_dropped() && error.to_string().contains("to know all slots of its primary"), "{error}");
    assert_eq!(world.effects(), ["status x"], "nothing but the ledger");
}

#[tokio::test]
async fn epochs_are_read_again() {
    let (world, site) = mk_cluster_site(true);
    for (epoch, holds) in [(3, true), (2, false)] {
        let mut step = mk_step(Operation::BumpEpoch(uid(0)));
        step.expects.push(Expectation::Epoch(EpochOf { pod: uid(0), epoch }));
        world.effects();
        assert_eq!(step::run(&*site, &observed_at(&site).await, &step).await.is_ok(), holds, "{epoch}");
        assert_eq!(world.effects().len(), usize::from(holds));
        world.change(&uid(0), |server| server.node.as_mut().unwrap().epoch = 1);
    }
}

/// The world before an operation.
fn begin(name: &str) -> (Arc<FakeWorld>, Arc<Site<FakeWorld>>) {
    let (world, site) = mk_cluster_site(!matches!(name, "meet" | "own slots" | "reset"));
    if name == "take over" {
        world.change(&uid(0), |server| server.silent = true);
    }
    (world, site)
}

/// Each owner of slots is known to the ledger, or to all others; nothing that held keys has lost them.
fn check(world: &FakeWorld, formed: bool, case: &str) {
    let ledger = Ledger::read(world.object(&topology_id()).unwrap().get("status"));
    let mut slots = 0;
    for number in 0..6 {
        let (server, node) = (world.server(&uid(number)), world.node(&uid(number)));
        slots += u32::from(node.slots.count());
        assert!(node.slots.is_empty() || node.replica_of.is_none(), "{case}: {} owns slots as a replica", server.name);
        assert!(node.slots.is_empty() || ledger.formed == Some(true), "{case}: slots are owned and the ledger knows of nothing");
        assert!(!formed || server.keys == 10, "{case}: {} lost its keys", server.name);
    }
    assert!(!formed || slots == 16_384, "{case}: slots without an owner, or with two");
}

#[tokio::test]
async fn an_end_after_any_effect_leaves_a_legal_state() {
    let cases: [(&str, Operation); 6] = [
        ("meet", meet(0, 1)),
        ("own slots", own(0)),
        ("reset", Operation::ResetEmpty(uid(1))),
        ("replicate", replicate(1, 0)),
        ("take over", take_over(1, Takeover::Force)),
        ("hand over", hand_over()),
    ];
    for (name, operation) in cases {
        let (world, site) = begin(name);
        run(&site, operation.clone()).await.unwrap();
        let effects = world.effects();
        let formed = !matches!(name, "meet" | "own slots" | "reset");
        check(&world, formed, name);
        for end in 0..effects.len() {
            let (world, site) = begin(name);
            world.state().ends_after = Some(end);
            let case = format!("{name}, ended after {end} of {effects:?}");
            assert!(run(&site, operation.clone()).await.is_err(), "{case}: it went on");
            check(&world, formed, &case);
        }
    }
}
