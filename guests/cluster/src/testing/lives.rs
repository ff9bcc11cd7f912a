//! Worlds in whatever state, by a seed.

use vko_sdk::slots;

use super::{State, World};

/// Small, and the same on every machine.
pub(super) struct Dice(u64);

impl Dice {
    /// The same seed, the same numbers.
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| _ = dice.below(2));
        dice
    }

    /// Less than `n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

/// A cluster whose creation stopped anywhere: some introduced, some slots given, some replicas told.
pub fn half_made(seed: u64) -> World {
    let dice = &mut Dice::new(seed);
    let (shards, members) = (3 + dice.below(3) as u32, 1 + dice.below(3) as u32);
    let mut world = World::new(shards, members);
    let count = world.servers.len() as u64;
    for _ in 0..dice.below(count * 2) {
        let (a, b) = (dice.below(count) as usize, dice.below(count) as usize);
        let (from, to) = (world.servers[a].id.clone(), world.servers[b].id.clone());
        if a != b {
            world.servers[a].known.insert(to, dice.below(4) > 0);
            if dice.below(3) > 0 {
                world.servers[b].known.insert(from, true);
            }
        }
    }
    for shard in 0..shards {
        let ordinal = dice.below(u64::from(members)) as u32;
        if dice.below(2) == 0 {
            let epoch = dice.below(5);
            let owner = world.at(shard, ordinal);
            (owner.slots, owner.epoch) = (slots::share(shard, shards), epoch);
            world.formed = Some(true);
        }
    }
    if dice.below(2) == 0 {
        world.pass();
    }
    world
}

/// A cluster in which each shard has lost nothing, or something of which a copy is left.
pub fn wounded(seed: u64) -> World {
    let dice = &mut Dice::new(seed.wrapping_add(1 << 32));
    let (shards, members) = (3 + dice.below(3) as u32, 2 + dice.below(2) as u32);
    let mut world = World::healthy(shards, members);
    for shard in 0..shards {
        let ordinal = dice.below(u64::from(members)) as u32;
        match dice.below(5) {
            0 => world.replace(shard, ordinal, false),
            1 => world.replace(shard, ordinal, true),
            2 => world.at(shard, ordinal).state = State::Ended,
            3 => world.at(shard, 0).state = State::Held,
            _ => {}
        }
    }
    world
}
