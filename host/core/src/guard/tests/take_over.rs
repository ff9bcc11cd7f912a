//! Rules 2 and 3 in a cluster: when a replica may take its shard over.

use super::{Change, after, expect, syncing, terminating};

use crate::guard::testing::{Scene, by_consent, mk_belief, step, track, uid};
use crate::testing::node_id;
use vko_wit::observation::{NodeState, Upstream};
use vko_wit::planning::{ClusterTakeover, Operation, Takeover};

fn take_over(replica: u32, mode: Takeover) -> Operation {
    Operation::TakeOver(ClusterTakeover { replica: uid(replica), mode })
}

#[test]
fn by_votes() {
    // Member 1 shall take over from member 0.
    let table: &[(&str, Change, &str)] = &[
        ("the primary answers", |s| s, "drc-x-0-0 answers as a primary"),
        ("the primary is silent", |s| s.silence(0), "not proven dead"),
        ("the primary's container ended", |s| s.kill(0), "ok"),
        ("the primary's pod is gone", |s| s.lose(0), "ok"),
        ("the primary's machine is off", |s| node(s.silence(0), NodeState::OutOfService), "ok"),
        ("the primary's machine is silent", |s| node(s.silence(0), NodeState::Silent), "not proven dead"),
        ("the primary is held back", |s| s.hold(0), "ok"),
        ("the primary waits for an answer before it starts", |s| s.refuse(0, "HELD waiting: nobody answers"), "not proven dead"),
        ("the primary refuses the login", |s| s.refuse(0, "NOAUTH"), "not proven dead"),
        ("the primary's successor runs and was never heard", |s| successor(s), "not proven dead"),
        ("two of three primaries are dead", |s| s.kill(0).kill(2), "1 of 3 primaries answer: there are no votes"),
        ("it is silent, too", |s| s.kill(0).silence(1), "drc-x-0-1 does not answer"),
        ("it is terminating", |s| terminating(s.kill(0)), "is terminating"),
        ("it is in a sync", |s| syncing(s.kill(0)), "in the middle of a sync"),
        ("it was never in sync", |s| never(s.kill(0)), "was never in sync"),
        ("it is of another history", |s| other_history(s.kill(0)), "is not of the history of drc-x-0-0"),
        ("it has not learned the slots", |s| unlearned(s.kill(0)), "has not learned all slots of drc-x-0-0"),
        ("it is nobody's replica by most views", |s| masterless(s.kill(0)), "do not see drc-x-0-1 as the replica of an owner"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(take_over(1, Takeover::Force))), expected);
    }
}

#[test]
fn without_votes() {
    let table: &[(&str, Change, &str)] = &[
        ("two of three are dead", |s| s.kill(0).kill(2), "ok"),
        ("one of three is dead", |s| s.kill(0), "2 of 3 primaries answer: they must be asked"),
        ("two of three are silent", |s| s.silence(0).silence(2), "not proven dead"),
        ("it is dead, another one is silent", |s| s.kill(0).silence(2), "ok"),
        ("all are held back", |s| s.hold(0).hold(2).hold(4), "ok"),
    ];
    for (case, change, expected) in table {
        expect(case, &after(Scene::cluster(), *change).ask(step(take_over(1, Takeover::Takeover))), expected);
    }
    let mut scene = Scene::cluster();
    scene.kill(0).kill(2);
    let both = [1, 3].map(|replica| track(&replica.to_string(), vec![step(take_over(replica, Takeover::Takeover))])).to_vec();
    expect("two shards at once", &scene.ask_all(both), "another shard is taken over without votes");
}

#[test]
fn by_the_best_copy() {
    // A third member of the first shard, a replica like member 1.
    let mut scene = Scene::cluster();
    let mut third = scene.pod(1).clone();
    (third.uid, third.name, third.ordinal) = (uid(6), "drc-x-0-2".into(), 2);
    let mut server = scene.server(1).clone();
    server.pod = uid(6);
    scene.0.instance.spec = r#"{"replicas":{"shards":3,"replicasOfShard":3}}"#.into();
    scene.0.pods.push(third);
    scene.0.servers.push(server);
    scene.kill(0);
    expect("equal", &scene.ask(step(take_over(1, Takeover::Force))), "ok");
    scene.facts(6).offset = 1 << 30;
    expect("behind", &scene.ask(step(take_over(1, Takeover::Force))), "drc-x-0-2 has more of the same history");
    let token = "promote-data-loss:drc-x-0-1:1";
    scene.consent(token);
    expect("behind, by consent", &scene.ask(by_consent(take_over(1, Takeover::Force), token)), "ok");
    scene.facts(6).offset = 1_000;
    scene.facts(1).keys = 0;
    expect("empty", &scene.ask(step(take_over(1, Takeover::Force))), "drc-x-0-1 is empty and drc-x-0-2 holds data");
    scene.0.servers.iter_mut().for_each(|server| server.age = 500);
    scene.server(0).reach = vko_wit::observation::Reach::Answered;
    expect("a consent is no death", &scene.ask(by_consent(take_over(1, Takeover::Force), token)), "answers as a primary");
}

fn node(scene: &mut Scene, state: NodeState) -> &mut Scene {
    scene.pod(0).node_state = state;
    scene
}

fn successor(scene: &mut Scene) -> &mut Scene {
    scene.replace(0);
    scene.peer(0).pod = Upstream::Nobody;
    scene
}

fn never(scene: &mut Scene) -> &mut Scene {
    scene.facts(1).offset = 0;
    scene
}

fn other_history(scene: &mut Scene) -> &mut Scene {
    scene.facts(1).replid = "else".into();
    scene
}

fn unlearned(scene: &mut Scene) -> &mut Scene {
    let belief = mk_belief(node_id(0), Vec::new());
    scene.cluster_of(1).differs.push(belief);
    scene
}

fn masterless(scene: &mut Scene) -> &mut Scene {
    scene.peer(1).replica_of.clear();
    scene
}
