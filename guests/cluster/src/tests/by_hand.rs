//! What somebody else did to the servers: identities lost, clusters joined, slots taken away or left open.

use vko_sdk::observation::{OpenSlots, Outcome, OutcomeKind};
use vko_sdk::slots;

use super::{describe, plan};
use crate::testing::{State, World};

/// Another server in that place, with the keys and, of the slots, those in which they are: its `nodes.conf` is gone.
fn forget_itself(world: &mut World, shard: u32, ordinal: u32) {
    world.replace(shard, ordinal, false);
    let server = world.at(shard, ordinal);
    (server.keys, server.slots) = (10, slots::parse("5,77").unwrap());
}

#[test]
fn a_server_that_lost_its_identity_keeps_its_keys() {
    let mut world = World::healthy(3, 1);
    forget_itself(&mut world, 0, 0);
    let asked = plan(&world);
    assert_eq!(describe(&asked), "wait drc-x-0-0", "introduced it would delete its keys in favour of the node that it was");
    assert!(asked.blocked[0].remedy.contains("CLUSTER FORGET node-0-0-1"), "{}", asked.blocked[0].remedy);
    // A person forgets the former node at the others.
    world.others.clear();
    assert_eq!(describe(&plan(&world)), "meet 1-0-1 0-0-2");
    let meet = plan(&world);
    meet.tracks.iter().flat_map(|t| &t.steps).for_each(|s| assert!(world.apply(s)));
    world.pass();
    let rest = plan(&world);
    assert_eq!(rest.look_again, crate::PATIENT_MS, "a person's time");
    assert_eq!(describe(&rest), "wait drc-x-0 or slots-data-loss drc-x-0-0");
    world.consents = vec![rest.blocked[0].token.clone()];
    assert_eq!(describe(&plan(&world)), "own 0-0-2 0-4,6-76,78-5460 by consent");
}

#[test]
fn with_a_successor_that_serves_the_data_it_is_for_a_person_too() {
    let mut world = World::healthy(3, 2);
    let former = world.at(0, 0).clone();
    forget_itself(&mut world, 0, 0);
    world.pass();
    assert!(!world.at(0, 1).slots.is_empty(), "the replica was elected");
    assert_eq!(describe(&plan(&world)), "wait drc-x-0-0");
    assert!(world.others.contains_key(&former.id));
}

/// Two clusters of the same instance that never heard of each other: shard 0 to 2 by ordinal 0, and the same by ordinal 1, with
/// ordinal 2 replicating that one.
fn two_halves() -> World {
    let mut world = World::healthy(3, 3);
    let ids: Vec<(u32, String)> = world.servers.iter().map(|s| (s.ordinal, s.id.clone())).collect();
    for server in &mut world.servers {
        let side = |ordinal: u32| ordinal == 0;
        server.known.retain(|id, _| ids.iter().any(|(ordinal, other)| other == id && side(*ordinal) == side(server.ordinal)));
        if server.ordinal == 1 {
            (server.replica_of, server.slots, server.epoch) = (String::new(), slots::share(server.shard, 3), 9);
        }
        if server.ordinal == 2 {
            server.replica_of = format!("node-{}-1-1", server.shard);
        }
    }
    world
}

#[test]
fn halves_with_keys_are_not_joined_by_anybodys_introduction() {
    let mut world = two_halves();
    assert!(plan(&world).tracks.is_empty(), "{}", describe(&plan(&world)));
    assert!(plan(&world).blocked.iter().any(|b| b.reason.contains("don't know each other")));
    world.servers.iter_mut().for_each(|s| s.keys = 0);
    assert!(describe(&plan(&world)).contains("meet"), "empty ones may be: the epochs decide");
}

#[test]
fn strangers_stop_those_that_know_them() {
    let mut world = World::healthy(3, 2);
    world.others.insert("stranger".into(), (true, vec![]));
    world.unaware = world.servers.iter().filter(|s| s.shard != 2).map(|s| s.id.clone()).collect();
    assert_eq!(describe(&plan(&world)), "wait drc-x-2-0; wait drc-x-2-1");
    world.at(0, 0).state = State::NoPod;
    assert_eq!(describe(&plan(&world)), "force 0-1-1; wait drc-x-2-0; wait drc-x-2-1", "the others go on");
    world.at(0, 0).state = State::Up;
    world.unaware.clear();
    assert_eq!(describe(&plan(&world)), "wait cluster");
}

#[test]
fn slots_that_nobody_owns_any_more_are_given_back() {
    let take = |world: &mut World| {
        world.at(1, 0).slots = slots::minus(&slots::share(1, 3), &slots::parse("6000-6001").unwrap());
    };
    let mut world = World::healthy(3, 2);
    take(&mut world);
    let asked = plan(&world);
    assert_eq!(describe(&asked), "wait drc-x-1 or slots-data-loss drc-x-1-0");
    world.consents = vec![asked.blocked[0].token.clone()];
    assert_eq!(describe(&plan(&world)), "own 1-0-1 6000-6001 by consent");
    world.consents.clear();
    world.at(2, 1).state = State::Silent;
    assert_eq!(describe(&plan(&world)), "wait drc-x-1", "a silent one may own them");
    let mut empty = World::healthy(3, 2);
    take(&mut empty);
    empty.servers.iter_mut().for_each(|s| s.keys = 0);
    assert_eq!(describe(&plan(&empty)), "own 1-0-1 6000-6001", "no key anywhere");
}

#[test]
fn a_primary_that_was_reset_gets_its_slots_back() {
    // The others still see it as their owner; it knows nobody.
    let mut world = World::healthy(3, 2);
    world.servers.iter_mut().for_each(|s| s.keys = 0);
    let mut observed = world.observe();
    let id = world.at(0, 0).id.clone();
    let own = observed.agreed_view.iter().find(|p| p.id == id).cloned().unwrap();
    let belief = vko_sdk::observation::Belief {
        id,
        known: true,
        replica_of: String::new(),
        config_epoch: own.config_epoch,
        linked: true,
        suspected: false,
        failed: false,
        slots: Vec::new(),
    };
    let server = observed.servers.iter_mut().find(|s| s.pod == "uid-0-0-1").unwrap();
    let cluster = &mut server.facts.as_mut().unwrap().cluster[0];
    (cluster.differs, cluster.differences) = (vec![belief], 1);
    assert_eq!(describe(&crate::decide(&observed).unwrap()), "own 0-0-1 0-5460");
}

/// What the replica in that place of the first shard sees: the primary, and no slots of it.
fn joined_a_moment_ago(observed: &mut vko_sdk::Observed, ordinal: u32) {
    let owner = observed.agreed_view.iter().find(|p| p.id == "node-0-0-1").unwrap();
    let belief = vko_sdk::observation::Belief {
        id: owner.id.clone(),
        known: true,
        replica_of: String::new(),
        config_epoch: owner.config_epoch,
        linked: false,
        suspected: true,
        failed: false,
        slots: Vec::new(),
    };
    let server = observed.servers.iter_mut().find(|s| s.pod == format!("uid-0-{ordinal}-1")).unwrap();
    let cluster = &mut server.facts.as_mut().unwrap().cluster[0];
    cluster.differs.retain(|b| b.id != belief.id);
    cluster.differs.push(belief);
}

#[test]
fn whoever_takes_over_knows_what() {
    let mut world = World::healthy(3, 3);
    world.at(0, 0).state = State::NoPod;
    let mut observed = world.observe();
    assert_eq!(describe(&crate::decide(&observed).unwrap()), "force 0-1-1");
    joined_a_moment_ago(&mut observed, 1);
    assert_eq!(describe(&crate::decide(&observed).unwrap()), "force 0-2-1", "the other one does");
    joined_a_moment_ago(&mut observed, 2);
    let nobody = crate::decide(&observed).unwrap();
    assert_eq!(describe(&nobody), "wait drc-x-0");
    assert!(
        nobody.blocked[0].reason.contains("never learned from the last primary of drc-x-0 which slots"),
        "{}",
        nobody.blocked[0].reason
    );
}

#[test]
fn open_slots_are_closed_before_anything_else() {
    let mut world = World::healthy(3, 2);
    let member = world.at(0, 1);
    (member.replica_of, member.synced, member.keys) = (String::new(), false, 0);
    let mut observed = world.observe();
    let open = |observed: &mut vko_sdk::Observed, uid: &str| {
        let server = observed.servers.iter_mut().find(|s| s.pod == uid).unwrap();
        let marks = OpenSlots { slots: slots::parse("7").unwrap(), peer: "node-1-0-1".into() };
        server.facts.as_mut().unwrap().cluster[0].importing.push(marks);
    };
    open(&mut observed, "uid-0-1-1");
    let said = describe(&crate::decide(&observed).unwrap());
    assert!(said.contains("SettleSlots") && !said.contains("replicate"), "REPLICATE would be refused for ever: {said}");
    let mut observed = World::healthy(3, 2).observe();
    open(&mut observed, "uid-0-0-1");
    assert_eq!(describe(&crate::decide(&observed).unwrap()), "wait drc-x-0-0", "keys may lie on both sides");
}

#[test]
fn a_consent_to_give_slots_waits_until_the_heir_has_heard_of_the_epochs() {
    let mut world = World::healthy(3, 1);
    world.replace(0, 0, false);
    assert_eq!(describe(&plan(&world)), "meet 1-0-1 0-0-2; wait drc-x-0", "its claim would fall back to the dead owner");
    let steps = plan(&world).tracks;
    steps.iter().flat_map(|t| &t.steps).for_each(|s| assert!(world.apply(s)));
    world.recent.push(Outcome { operation: "meet".into(), subject: "drc-x-0-0".into(), outcome: OutcomeKind::Done, age: 0 });
    world.pass();
    assert_eq!(describe(&plan(&world)), "wait drc-x-0 or slots-data-loss drc-x-0-0");
}

#[test]
fn a_consent_that_was_used_up_in_vain_is_asked_for_anew() {
    let mut world = World::healthy(3, 2);
    (0..2).for_each(|ordinal| world.replace(0, ordinal, false));
    let meets = plan(&world).tracks;
    meets.iter().flat_map(|t| &t.steps).for_each(|s| assert!(world.apply(s)));
    world.pass();
    let first = plan(&world).blocked[0].token.clone();
    let mut observed = world.observe();
    observed.ledger.consents_used.push(first.clone());
    let asked = crate::decide(&observed).unwrap().blocked[0].token.clone();
    assert!(asked.starts_with(&first) && asked != first, "{asked}");
    observed.instance.consents = vec![asked];
    assert!(describe(&crate::decide(&observed).unwrap()).contains("own 0-0-2 0-5460 by consent"));
}
