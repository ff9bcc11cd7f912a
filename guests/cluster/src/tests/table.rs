//! Named cases: what was left, what is decided.

use vko_sdk::planning::{Phase, Truth};
use vko_sdk::{Policy, PolicyError};

use super::{describe, plan};
use crate::testing::{State, World};

type Change = fn(&mut World);

fn decided(make: fn() -> World, change: Change) -> String {
    let mut world = make();
    change(&mut world);
    describe(&plan(&world))
}

#[test]
fn creation() {
    let table: &[(&str, Change, &str)] = &[
        (
            "all answer and know nobody",
            |_| {},
            "own 0-0-1 0-5460; own 1-0-1 5461-10922; meet 0-0-1 1-0-1; own 2-0-1 10923-16383; meet 0-0-1 2-0-1",
        ),
        (
            "one isn't there: the others begin",
            |w| w.at(1, 0).state = State::NoPod,
            "own 0-0-1 0-5460; own 2-0-1 10923-16383; meet 0-0-1 2-0-1",
        ),
        (
            "one runs and is silent: it may hold slots",
            |w| w.at(1, 0).state = State::Silent,
            "own 0-0-1 0-5460; own 2-0-1 10923-16383; meet 0-0-1 2-0-1; wait drc-x-1",
        ),
        (
            "one holds keys",
            |w| w.at(2, 0).keys = 7,
            "own 0-0-1 0-5460; own 1-0-1 5461-10922; meet 0-0-1 1-0-1; meet 0-0-1 2-0-1; wait drc-x-2 or slots-data-loss drc-x-2-0",
        ),
        ("a stranger is known", |w| _ = w.others.insert("stranger".into(), (true, vec![])), "wait cluster"),
        ("the ledger was lost", |w| w.formed = None, "meet 0-0-1 1-0-1; meet 0-0-1 2-0-1; wait cluster"),
    ];
    for (case, change, expected) in table {
        assert_eq!(decided(|| World::new(3, 1), *change), *expected, "{case}");
    }
}

#[test]
fn a_primary_is_away() {
    let table: &[(&str, Change, &str)] = &[
        ("nothing happened", |_| {}, "-"),
        ("its container ended: it comes back, or the others elect", |w| w.at(0, 0).state = State::Ended, "wait drc-x-0"),
        ("it is silent", |w| w.at(0, 0).state = State::Silent, "wait drc-x-0"),
        ("its agent holds it: the agent asks for votes", |w| w.at(0, 0).state = State::Held, "wait drc-x-0"),
        ("its pod is gone", |w| w.at(0, 0).state = State::NoPod, "force 0-1-1"),
        (
            "its agent holds it, and the replica that has more is silent",
            |w| (w.at(0, 0).state, w.at(0, 1).state) = (State::Held, State::Silent),
            "wait drc-x-0 for a person",
        ),
        (
            "it is silent, and so is its replica",
            |w| (w.at(0, 0).state, w.at(0, 1).state) = (State::Silent, State::Silent),
            "wait drc-x-0 for a person",
        ),
        (
            "it ended, and its replica is gone: it comes back",
            |w| (w.at(0, 0).state, w.at(0, 1).state) = (State::Ended, State::NoPod),
            "wait drc-x-0",
        ),
        (
            "two are held: nobody can vote",
            |w| (w.at(0, 0).state, w.at(1, 0).state) = (State::Held, State::Held),
            "takeover 0-1-1; wait drc-x-1",
        ),
        ("two ended", |w| (w.at(1, 0).state, w.at(2, 0).state) = (State::Ended, State::Ended), "takeover 1-1-1; wait drc-x-2"),
        (
            "two are silent: they may live",
            |w| (w.at(0, 0).state, w.at(1, 0).state) = (State::Silent, State::Silent),
            "wait drc-x-0; wait drc-x-1",
        ),
        (
            "gone, and the replica never synced",
            |w| {
                w.at(0, 0).state = State::NoPod;
                (w.at(0, 1).keys, w.at(0, 1).synced) = (0, false);
            },
            "wait drc-x-0 or promote-data-loss drc-x-0-1",
        ),
        (
            "both members of a shard were replaced",
            |w| {
                w.replace(0, 0, false);
                w.replace(0, 1, false);
            },
            "meet 1-0-1 0-0-2; meet 1-0-1 0-1-2; wait drc-x-0",
        ),
        (
            "gone, and its claim may bring it back",
            |w| {
                w.claims = true;
                w.at(0, 0).state = State::NoPod;
                w.at(0, 1).state = State::NoPod;
            },
            "wait drc-x-0",
        ),
    ];
    for (case, change, expected) in table {
        let mut world = World::healthy(3, 2);
        change(&mut world);
        let plan = plan(&world);
        let waits_for_a_person = plan.blocked.first().is_some_and(|b| b.remedy != vko_replica::decision::BY_ITSELF);
        let (expected, person) = expected.strip_suffix(" for a person").map_or((*expected, false), |text| (text, true));
        assert_eq!(describe(&plan), expected, "{case}");
        assert!(!person || waits_for_a_person, "{case}: nobody is told what to do");
    }
}

#[test]
fn members_that_are_not_in_their_place() {
    let table: &[(&str, Change, &str)] = &[
        ("a new server in a replica's place", |w| w.replace(0, 1, false), "meet 0-0-1 0-1-2"),
        (
            "the same, introduced",
            |w| {
                w.replace(0, 1, false);
                let id = w.at(0, 0).id.clone();
                w.at(0, 1).known.insert(id, true);
                w.pass();
            },
            "replicate 0-1-2 node-0-0-1; forget node-0-1-1",
        ),
        (
            "a replica under a wrong primary, empty",
            |w| {
                (w.at(0, 1).replica_of, w.at(0, 1).keys, w.at(0, 1).synced) = ("node-1-0-1".into(), 0, false);
            },
            "replicate 0-1-1 node-0-0-1",
        ),
        (
            "a member with keys and without slots",
            |w| {
                (w.at(0, 1).replica_of, w.at(0, 1).synced) = (String::new(), false);
            },
            "wait drc-x-0-1",
        ),
        (
            "an empty one that follows nobody",
            |w| {
                (w.at(0, 1).replica_of, w.at(0, 1).synced, w.at(0, 1).keys) = (String::new(), false, 0);
            },
            "replicate 0-1-1 node-0-0-1",
        ),
        (
            "a member of the shard owns the slots of another one, too",
            |w| {
                w.at(0, 1).slots = std::mem::take(&mut w.at(1, 0).slots);
                w.at(0, 1).replica_of.clear();
            },
            "wait drc-x-0; wait drc-x-1",
        ),
    ];
    for (case, change, expected) in table {
        assert_eq!(decided(|| World::healthy(3, 2), *change), *expected, "{case}");
    }
}

#[test]
fn a_lost_shard_goes_on_by_consent() {
    let mut world = World::healthy(3, 2);
    world.replace(0, 0, false);
    world.replace(0, 1, false);
    let meets = plan(&world).tracks;
    meets.iter().flat_map(|t| &t.steps).for_each(|s| assert!(world.apply(s)));
    world.pass();
    let asked = plan(&world);
    world.consents = asked.blocked.iter().map(|b| b.token.clone()).collect();
    let given = plan(&world);
    assert_eq!(
        describe(&given),
        "own 0-0-2 0-5460 by consent; bump 0-0-2; forget node-0-1-1",
        "slots, and an epoch that outweighs the lost one's"
    );
    assert!(given.status.conditions.iter().any(|c| c.kind == "DataLost" && c.state == Truth::Yes));
}

#[test]
fn what_went_with_all_pods_is_given_up_and_what_may_be_left_is_not() {
    let gone: Change = |w| {
        for (shard, ordinal) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
            w.replace(shard, ordinal, false);
        }
        w.others.clear();
    };
    let table: [(&str, Change, bool); 4] = [
        ("data lived with the pods", |_| {}, true),
        ("on claims", |w| w.claims = true, false),
        ("a member isn't back yet", |w| w.at(0, 1).state = State::NoPod, false),
        ("a member came with keys", |w| w.at(0, 1).keys = 7, false),
    ];
    for (case, change, anew) in table {
        let mut world = World::healthy(3, 2);
        gone(&mut world);
        change(&mut world);
        let plan = plan(&world);
        let lost = plan.status.conditions.iter().any(|c| c.kind == "DataLost" && c.state == Truth::Yes);
        let owns = describe(&plan).contains("own 0-0-2 0-5460");
        assert_eq!(owns, anew, "{case}: {}", describe(&plan));
        assert!(lost || !anew, "{case}: people are told");
    }
}

#[test]
fn what_people_see() {
    let healthy = plan(&World::healthy(3, 2));
    assert_eq!((healthy.status.phase, healthy.status.message.as_str()), (Phase::Ready, "3 shards, 6 members, all slots served"));
    let details: serde_json::Value = serde_json::from_str(&healthy.status.details).unwrap();
    assert_eq!(details["clusterStatus"], "InService");
    assert_eq!(details["shards"][1]["slots"][0], serde_json::json!({"slots": "5461-10922", "status": "SlotAssigned"}));
    assert_eq!(details["nodes"][0]["slots"], "0-5460");
    assert_eq!((&details["nodes"][1]["role"], &details["nodes"][1]["masterRef"]), (&"replica".into(), &"drc-x-0-0".into()));
    assert_eq!(healthy.desired.len(), 1 + 3 * 3, "a Service, a budget and a workload for each shard, and the Service of all");

    let mut world = World::healthy(3, 2);
    world.at(0, 0).state = State::Silent;
    world.at(1, 0).state = State::Silent;
    let silent = plan(&world);
    let ready = silent.status.conditions.iter().find(|c| c.kind == "Ready").unwrap();
    assert_eq!((ready.state, ready.reason.as_str()), (Truth::Unknown, "PrimarySilent"));
    let stalled = silent.status.conditions.iter().find(|c| c.kind == "Stalled").unwrap();
    assert!(stalled.message.contains("make its end certain"), "{}", stalled.message);

    let new = plan(&World::new(3, 2));
    assert_eq!(new.status.phase, Phase::Initializing);
    assert!(serde_json::from_str::<serde_json::Value>(&new.status.details).unwrap()["clusterStatus"] == "OutOfService");
}

#[test]
fn who_comes_last_of_many_new_addresses_is_told_as_well() {
    for (uptime, meets) in [(1_000, false), (crate::join::HEAL_MS - 1, false), (crate::join::HEAL_MS, true), (600_000, true)] {
        let mut world = World::healthy(3, 2);
        let late = world.at(1, 1);
        late.known.values_mut().for_each(|linked| *linked = false);
        let (id, uid) = (late.id.clone(), late.uid());
        world.servers.iter_mut().filter_map(|server| server.known.get_mut(&id)).for_each(|linked| *linked = false);
        let mut observed = world.observe();
        let itself = observed.servers.iter_mut().filter(|server| server.pod == uid);
        itself.filter_map(|server| server.facts.as_mut()).for_each(|facts| facts.uptime = uptime);
        let told = describe(&crate::decide(&observed).unwrap()).contains("meet 0-0-1 1-1-1");
        assert_eq!(told, meets, "{uptime} ms after its start");
    }
}

#[test]
fn a_first_ok_is_not_believed() {
    // A server says that the cluster is fine for a while after each start, linked or not.
    let mut world = World::healthy(3, 2);
    world.restart_all();
    let mut observed = world.observe();
    for facts in observed.servers.iter_mut().filter_map(|s| s.facts.as_mut()) {
        facts.cluster[0].state_ok = true;
    }
    let plan = crate::decide(&observed).unwrap();
    assert_ne!(plan.status.phase, Phase::Ready);
}

#[test]
fn what_it_can_not_decide_it_says() {
    let mut observed = World::healthy(3, 2).observe();
    observed.instance.paused = true;
    let paused = crate::decide(&observed).unwrap();
    assert!(paused.tracks.is_empty() && paused.desired.is_empty() && paused.status.phase == Phase::Paused);
    observed.instance.spec = r#"{"replicas":{"shards":2,"replicasOfShard":2}}"#.into();
    assert!(matches!(crate::decide(&observed), Err(PolicyError::Insufficient(text)) if text.contains("2 shards")));
    observed.instance.spec = "{".into();
    assert!(matches!(crate::decide(&observed), Err(PolicyError::Internal(_))));
    observed.instance.architecture = vko_sdk::common::Architecture::Replica;
    assert!(matches!(crate::ClusterPolicy::decide(observed), Err(PolicyError::Insufficient(_))));
    assert_eq!(crate::ClusterPolicy::describe().name, "cluster");
}
