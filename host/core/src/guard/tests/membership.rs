//! Rule 1 in a cluster: who is acquainted with whom, who is forgotten, who follows whom.

use super::{Change, after, claims, expect, keyless, owner, terminating};
use crate::guard::testing::{Scene, by_consent, mk_belief, slots, step, uid};
use crate::testing::node_id;
use vko_wit::observation::{OpenSlots, Role, Upstream};
use vko_wit::planning::{Operation, PairOfPods, Replication};

fn meet(pod: u32, peer: u32) -> Operation {
    Operation::Meet(PairOfPods { pod: uid(pod), peer: uid(peer) })
}

fn replicate(pod: u32, primary: u32) -> Operation {
    Operation::Replicate(Replication { pod: uid(pod), primary: node_id(primary) })
}

#[test]
fn who_may_meet() {
    let table: &[(&str, Change, &str)] = &[
        ("all well: it teaches an address", |s| s, "ok"),
        ("the peer is silent", |s| s.silence(1), "drc-x-0-1 does not say now whom it knows"),
        ("it is silent itself", |s| s.silence(0), "drc-x-0-0 does not say now"),
        ("the peer is terminating", terminating, "is terminating"),
        ("a living stranger is in every view", |s| s.stranger(), "is alive and no pod of this instance"),
        ("only others know the stranger", |s| unknown_to(s.stranger(), &[0, 1]), "ok"),
        ("the peer knows the stranger", |s| unknown_to(s.stranger(), &[0]), "drc-x-0-1 may know the node"),
        ("the stranger is dead", |s| dead(s.stranger()), "ok"),
        ("the stranger is a member's former self", |s| former(s.stranger()), "ok"),
        ("the peer has keys in slots of its dead former self", forgetful, "drc-x-0-1 holds keys in slots that the node"),
        ("the same without keys", |s| keyless(forgetful(s), 1), "ok"),
        ("the same, of whom the other one never heard", |s| unknown_to(forgetful(s), &[0]), "ok"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(meet(0, 1))), expected);
    }
    expect("at the beginning", &Scene::unformed_cluster().ask(step(meet(0, 5))), "ok");
    expect("itself", &Scene::cluster().ask(step(meet(0, 0))), "can't meet itself");
}

#[test]
fn what_may_be_forgotten() {
    let table: &[(&str, u32, Change, &str)] = &[
        ("a ghost without slots", 1, |s| s.lose(1), "ok"),
        ("a node whose pod answers", 1, |s| s, "whose pod is there"),
        ("a node whose pod is silent", 1, |s| s.silence(1), "whose pod is there"),
        ("a node whose pod is dead", 1, |s| s.kill(1), "whose pod is there"),
        ("a node that owns slots", 0, |s| s.lose(0), "owns slots"),
        ("alive elsewhere", 1, |s| linked(s.lose(1)), "is alive"),
        ("a member has not said its id", 1, |s| nameless(s.lose(1), 3), "has not said its id"),
        ("its successor has not said its id", 1, |s| nameless(s, 1), "has not said its id"),
        ("its claim waits for the next pod", 1, |s| claimed(s.lose(1), 1), "may bring that node back"),
        ("others' claims wait, it had none", 1, |s| claimed(s.lose(1).lose(3), 3), "ok"),
        (
            "the ledger never knew it, somebody's claim waits",
            1,
            |s| unknown(claimed(s.lose(1).lose(3), 3)),
            "may bring that node back",
        ),
    ];
    for (case, node, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(Operation::Forget(node_id(*node)))), expected);
    }
}

#[test]
fn who_may_be_reset() {
    // Member 1, a replica whose link is down, or a stranger.
    let table: &[(&str, Change, &str)] = &[
        ("an empty newcomer", |s| newcomer(s, 1), "ok"),
        ("a replica in service", |s| s, "holds 10 keys"),
        ("an empty replica in service", |s| keyless(s, 1), "is a replica in service"),
        ("an empty newcomer that is silent", |s| newcomer(s, 1).silence(1), "does not answer now"),
        ("it claims slots", |s| claims(newcomer(s, 1), 1), "owns slots"),
        ("most see it as an owner", |s| owner(newcomer(s, 1), 1), "owns slots"),
        ("slots are on their way to it", |s| importing(newcomer(s, 1), 1), "owns slots, or is about to"),
        ("somebody follows it", |s| followed(newcomer(s, 1), 1), "follows drc-x-0-1"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(Operation::ResetEmpty(uid(1)))), expected);
    }
}

#[test]
fn who_may_become_a_replica() {
    // Member 1 shall follow member 0.
    let table: &[(&str, Change, &str)] = &[
        ("it does already", |s| s, "ok"),
        ("an empty newcomer", |s| newcomer(s, 1), "ok"),
        ("the primary is silent", |s| newcomer(s, 1).silence(0), "drc-x-0-0 does not answer as a primary now"),
        ("it is silent", |s| s.silence(1), "drc-x-0-1 does not answer now"),
        ("a stranger with keys of its own", |s| with_keys(newcomer(s, 1)), "holds 5 keys that drc-x-0-0 may lack"),
        ("the former primary, which has written nothing more", |s| former_primary(s), "ok"),
        ("the former primary with writes of its own", |s| with_keys(newcomer(former_primary(s), 1)), "may lack"),
        ("it claims slots", |s| claims(newcomer(s, 1), 1), "owns slots"),
        ("slots are on their way to it", |s| importing(newcomer(s, 1), 1), "owns slots, or is about to"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(replicate(1, 0))), expected);
    }
    expect("an owner of slots", &Scene::cluster().ask(step(replicate(2, 0))), "drc-x-1-0 owns slots");
    expect(
        "by consent, an owner still not",
        &consented("drc-x-1-0").ask(by_consent(replicate(2, 0), "discard-writes:drc-x-1-0:1")),
        "owns",
    );
    let mut scene = consented("drc-x-0-1");
    with_keys(newcomer(&mut scene, 1));
    expect("by consent", &scene.ask(by_consent(replicate(1, 0), "discard-writes:drc-x-0-1:1")), "ok");
    expect("of a node that nobody is", &Scene::cluster().ask(step(replicate(1, 9))), "no pod of this instance has the node id");
    expect("of a replica", &Scene::cluster().ask(step(replicate(5, 1))), "does not answer as a primary");
}

fn consented(pod: &str) -> Scene {
    let mut scene = Scene::cluster();
    scene.consent(&format!("discard-writes:{pod}:1"));
    scene
}

fn unknown_to<'a>(scene: &'a mut Scene, members: &[u32]) -> &'a mut Scene {
    for member in members {
        let belief = vko_wit::observation::Belief { known: false, ..mk_belief(node_id(77), Vec::new()) };
        scene.cluster_of(*member).differs.push(belief);
    }
    scene
}

fn dead(scene: &mut Scene) -> &mut Scene {
    let peer = scene.peer(77);
    (peer.failed, peer.linked_by) = (true, 0);
    scene
}

/// Member 1 came back without its nodes.conf: it claims the slots of its keys, which the others give to a node that is gone.
fn forgetful(scene: &mut Scene) -> &mut Scene {
    dead(scene.stranger()).peer(77).slots = slots(0);
    scene.peer(0).slots.clear();
    scene.facts(1).role = Role::Primary;
    scene.cluster_of(1).differs.push(mk_belief(node_id(1), slots(0)));
    unknown_to(scene, &[1])
}

fn former(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.members[3].node_id = node_id(77);
    scene
}

fn linked(scene: &mut Scene) -> &mut Scene {
    let peer = scene.peer(1);
    (peer.failed, peer.linked_by) = (false, 3);
    scene
}

/// Another pod in its place, which was never heard.
fn nameless(scene: &mut Scene, number: u32) -> &mut Scene {
    scene.replace(number);
    let peer = scene.peer(number);
    (peer.pod, peer.failed, peer.linked_by) = (Upstream::Nobody, true, 0);
    scene
}

fn claimed(scene: &mut Scene, number: u32) -> &mut Scene {
    let claim = crate::guard::testing::mk_claim(number);
    let (workload, ordinal) = (format!("drc-x-{}", number / 2), number % 2);
    scene.0.claims.push(vko_wit::observation::Claim { workload, ordinal, ..claim });
    scene
}

fn unknown(scene: &mut Scene) -> &mut Scene {
    scene.0.ledger.members.clear();
    scene
}

/// It lost everything and came back as a node that owns nothing.
fn newcomer(scene: &mut Scene, number: u32) -> &mut Scene {
    let facts = scene.facts(number);
    (facts.keys, facts.offset, facts.role) = (0, 0, Role::Primary);
    facts.replid = format!("own-{number}");
    let peer = scene.peer(number);
    peer.replica_of.clear();
    scene
}

fn with_keys(scene: &mut Scene) -> &mut Scene {
    scene.facts(1).keys = 5;
    scene
}

/// Member 0 was promoted out of its history.
fn former_primary(scene: &mut Scene) -> &mut Scene {
    let facts = scene.facts(0);
    facts.replid = "h-new".into();
    (facts.second_replid, facts.second_offset) = ("h-0".into(), 2_000);
    scene.facts(1).role = Role::Primary;
    scene.peer(1).replica_of.clear();
    scene
}

fn importing(scene: &mut Scene, number: u32) -> &mut Scene {
    scene.cluster_of(number).importing.push(OpenSlots { slots: slots(0), peer: node_id(0) });
    scene
}

fn followed(scene: &mut Scene, number: u32) -> &mut Scene {
    scene.peer(5).replica_of = node_id(number);
    scene
}
