//! Rule 3: who may still acknowledge writes. Member 1 is to take over.

use super::{Change, after, expect};
use crate::guard::testing::{Scene, promote, step};
use vko_wit::common::{Address, StartMode};
use vko_wit::observation::{ContainerState, Failure, NodeState, Reach, Role, Upstream};

/// Long enough for a fence of 5 s max-lag: 7 s and a moment.
const CLOSED: u64 = 7_001;

#[test]
fn the_last_primary_must_have_ended_or_be_fenced() {
    let table: &[(&str, Change, &str)] = &[
        ("it answers as the primary", |s| s, "answers as a primary"),
        ("its container ended", |s| s.kill(0), "ok"),
        ("it ended, and its replicas' links still look up", |s| s.kill(0), "ok"),
        ("its node is gone", |s| node(s.silence(0), NodeState::Gone), "ok"),
        ("its node is out of service", |s| node(s.silence(0), NodeState::OutOfService), "ok"),
        ("its node is silent", |s| node(s.silence(0), NodeState::Silent), "no fence"),
        ("its node is silent, the last word of the kubelet was: terminated", |s| node(s.kill(0), NodeState::Silent), "ok"),
        ("its pod is gone", |s| s.remove(0), "ok"),
        ("another pod fills its place", |s| s.replace(0), "ok"),
        ("another pod fills its place, ready and never heard", |s| ready(s.replace(0)), "was never heard"),
        ("it answers and follows nobody", |s| s.detach(0), "ok"),
        ("it loads, and follows nobody", |s| loads(s.detach(0)), "ok"),
        ("it loads, and was the primary", loads, "does not answer"),
        ("it answers with an error", refuses, "does not answer"),
        ("it has no address", |s| no_address(s.silence(0)), "ok"),
        ("its answer is seconds old", |s| aged(s, 6_001), "does not answer"),
        ("silent", |s| s.silence(0), "no fence of this run"),
        (
            "its container ended, but it starts as a primary by itself",
            |s| mounted(s.kill(0), StartMode::Alone),
            "starts again as a primary",
        ),
        ("its container ended, and it starts following nobody", |s| mounted(s.kill(0), StartMode::Named), "ok"),
    ];
    for (case, change, expected) in table {
        let scene = after(Scene::healthy(3), *change);
        expect(case, &scene.ask(step(promote(1))), expected);
    }
}

#[test]
fn a_fence_counts_when_it_is_closed_for_certain() {
    // Three members; 0 is silent, 1 and 2 were detached.
    let table: &[(&str, Change, &str)] = &[
        ("closed", |s| s.fence(0, 1, CLOSED), "ok"),
        ("closes in a moment", |s| s.fence(0, 1, 6_999), "takes effect in 1 ms"),
        ("not detached yet", |s| s.fence(0, 1, 0), "not known to be detached"),
        ("lifted", |s| s.fence(0, 0, CLOSED), "no fence of this run"),
        ("of another run", |s| fence_run(s.fence(0, 1, CLOSED), "older"), "no fence of this run"),
        ("of no run", |s| fence_run(s.fence(0, 1, CLOSED), ""), "no fence of this run"),
        ("the operator is new and never heard it", |s| s.fence(0, 1, CLOSED).unhear(0), "ok"),
        (
            "a replica that is no member was attached to it",
            |s| stranger(s.fence(0, 1, CLOSED)),
            "a replica that is no member may still",
        ),
        ("the same, but the fence asks for two", |s| stranger(s.fence(0, 2, CLOSED)), "ok"),
        ("one follows again", |s| s.fence(0, 1, CLOSED).follow(2, 0), "rfr-x-2 still follows it"),
        ("one follows again, its link is down", |s| link_down(s.fence(0, 1, CLOSED).follow(2, 0)), "rfr-x-2 still follows it"),
        ("the candidate itself follows", |s| s.fence(0, 1, CLOSED).follow(1, 0), "rfr-x-1 still follows it"),
        ("one is silent: it may follow", |s| s.fence(0, 1, CLOSED).silence(2), "rfr-x-2 may still follow it"),
        ("one is silent, but the fence asks for two", |s| s.fence(0, 2, CLOSED).silence(2), "ok"),
        ("one is dead", |s| s.fence(0, 1, CLOSED).kill(2), "ok"),
        ("one is gone", |s| s.fence(0, 1, CLOSED).remove(2), "ok"),
        ("rubbish in the ledger", |s| rubbish(s.fence(0, 1, CLOSED)), "takes effect in"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.silence(0).detach(1).detach(2);
        expect(case, &after(scene, *change).ask(step(promote(1))), expected);
    }
}

fn stranger(scene: &mut Scene) -> &mut Scene {
    scene.facts(0).replicas[0].pod = Upstream::Other(Address { host: "10.9.9.9".into(), port: 6379 });
    scene
}

/// Member 2 is silent, and member 0, the last primary, is no more.
#[test]
fn whom_a_hook_may_have_handed_the_role_to() {
    let table: &[(&str, Change, &str)] = &[
        ("the primary's container ended: that runs no hook", |s| s.kill(0), "ok"),
        ("the primary's node is gone", |s| node(s.silence(0), NodeState::Gone), "ok"),
        ("the primary's pod is gone", |s| s.remove(0), "rfr-x-2 may have been handed the role"),
        ("the primary's pod was replaced", |s| s.replace(0), "rfr-x-2 may have been handed the role"),
        ("the primary's pod is ending", |s| ending(s.kill(0)), "rfr-x-2 may have been handed the role"),
        (
            "the successor's server runs since, and began later",
            |s| began(s.replace(0), 9_000),
            "rfr-x-2 may have been handed the role",
        ),
        ("the successor's server ran when it was last heard", |s| began(s.replace(0), 11_000), "ok"),
        ("its link was down", |s| unlinked(s.remove(0)), "ok"),
        ("it followed nobody", |s| s.detach(2).remove(0), "ok"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.silence(2);
        expect(case, &after(scene, *change).ask(step(promote(1))), expected);
    }
}

fn ending(scene: &mut Scene) -> &mut Scene {
    scene.pod(0).terminating_for = 1_000;
    scene
}

fn unlinked(scene: &mut Scene) -> &mut Scene {
    scene.link(2).up = false;
    scene
}

/// The pod in the last primary's place answers, following nobody, and runs for so long (ms).
fn began(scene: &mut Scene, uptime: u64) -> &mut Scene {
    let mut facts = crate::guard::testing::mk_facts(0);
    (facts.uptime, facts.keys) = (uptime, 0);
    facts.role = crate::guard::testing::replica_of(Upstream::Nobody);
    let server = scene.server(0);
    (server.reach, server.age, server.facts) = (Reach::Answered, 500, Some(facts));
    scene
}

#[test]
fn as_many_silent_members_as_the_fence_asks_for_keep_it_open() {
    // (members, height of the fence, silent ones beside the primary, allowed)
    let table = [
        (2, 1, 0, true),
        (3, 1, 0, true),
        (3, 1, 1, false),
        (5, 2, 0, true),
        (5, 2, 1, true),
        (5, 2, 2, false),
        (5, 2, 3, false),
    ];
    for (members, height, silent, allowed) in table {
        let mut scene = Scene::healthy(members);
        scene.silence(0).fence(0, height, CLOSED);
        for ordinal in 1..members {
            scene.detach(ordinal);
        }
        for n in 1..=silent {
            scene.silence(members - n);
        }
        let found = scene.ask(step(promote(1)));
        assert_eq!(found == "ok", allowed, "{silent} of {members} silent under a fence of {height}: {found}");
    }
}

#[test]
fn a_silent_member_may_have_become_the_primary_unseen() {
    // The last primary by the ledger is dead; member 2 is silent.
    let table: &[(&str, Change, &str)] = &[
        ("a replica by its last word", |s| s, "ok"),
        ("a primary by its last word", |s| primary(s), "last said that it is a primary"),
        ("a primary by its last word, ended", |s| primary(s).kill(2), "ok"),
        ("never heard, and ready", |s| s.unhear(2), "was never heard"),
        ("never heard, and not ready", |s| unready(s.unhear(2)), "ok"),
        ("never heard, and still to start", |s| starting(s.unhear(2)), "ok"),
        ("heard, though the kubelet says that it is still to start", |s| starting(primary(s)), "last said that it is a primary"),
        ("the candidate follows it", |s| s.follow(1, 2), "is followed by others"),
        ("the candidate's history goes on under a new name", moved_on, "made a primary unseen"),
    ];
    for (case, change, expected) in table {
        let mut scene = Scene::healthy(3);
        scene.kill(0).silence(2);
        expect(case, &after(scene, *change).ask(step(promote(1))), expected);
    }
}

fn node(scene: &mut Scene, state: NodeState) -> &mut Scene {
    scene.pod(0).node_state = state;
    scene
}

fn ready(scene: &mut Scene) -> &mut Scene {
    scene.pod(0).ready = true;
    scene
}

fn unready(scene: &mut Scene) -> &mut Scene {
    scene.pod(2).ready = false;
    scene
}

fn starting(scene: &mut Scene) -> &mut Scene {
    scene.pod(2).container = ContainerState::Starting;
    scene
}

fn loads(scene: &mut Scene) -> &mut Scene {
    scene.server(0).reach = Reach::Loading(Some(7));
    scene
}

fn refuses(scene: &mut Scene) -> &mut Scene {
    scene.server(0).reach = Reach::Refused(Failure { lasting: 1, reason: "BUSY".into() });
    scene
}

fn no_address(scene: &mut Scene) -> &mut Scene {
    scene.pod(0).addresses.clear();
    scene
}

fn aged(scene: &mut Scene, age: u64) -> &mut Scene {
    scene.server(0).age = age;
    scene
}

fn fence_run<'a>(scene: &'a mut Scene, run: &str) -> &'a mut Scene {
    scene.0.ledger.fences[0].run_id = run.into();
    scene
}

fn rubbish(scene: &mut Scene) -> &mut Scene {
    let fence = &mut scene.0.ledger.fences[0];
    (fence.detached_at, fence.max_lag) = (u64::MAX, u64::MAX);
    scene
}

fn link_down(scene: &mut Scene) -> &mut Scene {
    scene.link(2).up = false;
    scene
}

fn primary(scene: &mut Scene) -> &mut Scene {
    scene.facts(2).role = Role::Primary;
    scene
}

fn moved_on(scene: &mut Scene) -> &mut Scene {
    let facts = scene.facts(1);
    (facts.replid, facts.second_replid) = ("h2".into(), "h1".into());
    scene
}

/// What a restart of the first member's container reads.
fn mounted(scene: &mut Scene, mode: StartMode) -> &mut Scene {
    scene.0.pods.iter_mut().filter(|pod| pod.ordinal == 0).for_each(|pod| pod.mounted_start = Some(mode));
    scene
}
