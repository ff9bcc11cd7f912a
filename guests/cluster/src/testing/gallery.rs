//! Scenes to try a policy of the cluster architecture on, by what happened; see the replica policy's.

use vko_replica::testing::{Exhibit, Need};

use super::{State, World, half_made, wounded};

type Change = fn(&mut World);

const ACT: &[(&str, Change)] = &[
    ("a new server is in a replica's place", |w| w.replace(0, 1, false)),
    ("the same, introduced", |w| {
        w.replace(0, 1, false);
        let id = w.at(0, 0).id.clone();
        w.at(0, 1).known.insert(id, true);
        w.pass();
    }),
    ("a primary's pod is gone, its replica is synced", |w| w.at(0, 0).state = State::NoPod),
    ("two primaries ended: no majority elects", |w| (w.at(1, 0).state, w.at(2, 0).state) = (State::Ended, State::Ended)),
    ("an empty member follows nobody", |w| {
        (w.at(0, 1).replica_of, w.at(0, 1).synced, w.at(0, 1).keys) = (String::new(), false, 0);
    }),
];

const SAFETY: &[(&str, Change)] = &[
    ("a primary's container ended: the others elect", |w| w.at(0, 0).state = State::Ended),
    ("a primary is silent", |w| w.at(0, 0).state = State::Silent),
    ("a primary's agent holds it", |w| w.at(0, 0).state = State::Held),
    ("two primaries are silent: they may live", |w| (w.at(0, 0).state, w.at(1, 0).state) = (State::Silent, State::Silent)),
    ("two primaries are held", |w| (w.at(0, 0).state, w.at(1, 0).state) = (State::Held, State::Held)),
    ("a primary is gone, and its replica never synced", |w| {
        w.at(0, 0).state = State::NoPod;
        (w.at(0, 1).keys, w.at(0, 1).synced) = (0, false);
    }),
    ("a shard is gone, its claims are not", |w| {
        w.claims = true;
        (w.at(0, 0).state, w.at(0, 1).state) = (State::NoPod, State::NoPod);
    }),
    ("both members of a shard were replaced, empty", |w| {
        w.replace(0, 0, false);
        w.replace(0, 1, false);
    }),
    ("a member with keys follows nobody", |w| (w.at(0, 1).replica_of, w.at(0, 1).synced) = (String::new(), false)),
    ("a member owns the slots of another shard", |w| {
        w.at(0, 1).slots = std::mem::take(&mut w.at(1, 0).slots);
        w.at(0, 1).replica_of.clear();
    }),
    ("a stranger is known", |w| _ = w.others.insert("stranger".into(), (true, vec![]))),
    ("all were restarted at once", |w| w.restart_all()),
    ("the ledger was lost", |w| w.formed = None),
];

/// Random worlds of each sort beside the named ones.
const RANDOM: u64 = 150;

fn exhibit(name: &str, world: &World, need: Need) -> Exhibit {
    Exhibit { name: name.into(), observed: world.observe(), need }
}

/// All scenes, in the order in which they are worth reading.
pub fn gallery() -> Vec<Exhibit> {
    let mut all = vec![
        exhibit("created: all answer and know nobody", &World::new(3, 2), Need::Act),
        exhibit("as declared", &World::healthy(3, 2), Need::Rest),
        exhibit("as declared, without replicas", &World::healthy(3, 1), Need::Rest),
        exhibit("as declared, 128 shards of 5: the largest there is", &World::healthy(128, 5), Need::Rest),
    ];
    for (need, rows) in [(Need::Act, ACT), (Need::Safety, SAFETY)] {
        all.extend(rows.iter().map(|(name, change)| {
            let mut world = World::healthy(3, 2);
            change(&mut world);
            exhibit(name, &world, need)
        }));
    }
    all.extend((1..=RANDOM).map(|seed| exhibit(&format!("random creation {seed}"), &half_made(seed), Need::Safety)));
    all.extend((1..=RANDOM).map(|seed| exhibit(&format!("random wounds {seed}"), &wounded(seed), Need::Safety)));
    all
}
