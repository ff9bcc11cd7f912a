//! Random scenes, for properties that hold for every observation. Hosts can hold their guard against the same ones.

use super::Scene;

/// Random numbers: small, and the same on every machine.
pub struct XorShift(u64);

impl XorShift {
    /// Numbers of a seed.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds give neighbouring first numbers: the first few are thrown away.
        let mut rng = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| {
            rng.below(2);
        });
        rng
    }

    /// One of 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (n.max(1) as u64)).unwrap_or(0)
    }

    /// Once in so many times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// An instance of one to five members after up to five random events: new or formed, with or without claims. The same seed gives
/// the same scene.
pub fn random_scene(seed: u64) -> Scene {
    let rng = &mut XorShift::new(seed);
    let members = 1 + u32::try_from(rng.below(5)).unwrap_or(0);
    let mut scene = if rng.one_in(4) { Scene::new("x", members) } else { Scene::healthy("x", members) };
    if rng.one_in(2) {
        scene.with_claims();
    }
    for _ in 0..rng.below(6) {
        let (i, j) = (rng.below(members as usize), rng.below(members as usize));
        disturb(rng, &mut scene, i, j);
    }
    scene
}

fn disturb(rng: &mut XorShift, scene: &mut Scene, i: usize, j: usize) {
    let offset = [0, 1, 500, 1_000, 5_000, u64::MAX][rng.below(6)];
    match rng.below(30) {
        0 => scene.kill(i),
        1 => scene.lose_node(i),
        2 => scene.remove_pod(i),
        3 => scene.replace_pod(i),
        4 => scene.silence(i),
        5 => scene.unhear(i),
        6 => scene.unready(i),
        7 => scene.restart(i, ["snapshot", "append-only-file", "empty"][rng.below(3)]),
        8 => scene.demote(i, j),
        9 => scene.follow(i, j),
        10 => scene.set_syncing(i),
        11 => scene.lag(i, 9_000),
        12 => scene.detach(i),
        13 => scene.rise(i),
        14 => scene.move_on(i),
        15 => scene.refuse(i, "BUSY"),
        16 => scene.load(i, j.is_multiple_of(2)),
        17 => scene.wait_start(i),
        18 => scene.terminate(i),
        19 => scene.age(i, 4_000 * (j as u64 + 1)),
        20 => scene.fence(i, u32::try_from(j).unwrap_or(0)),
        21 => scene.detached(i, 3_000 * (j as u64 + 1)),
        22 => scene.forget_primary(),
        23 => scene.forget_all(),
        24 => scene.best_offset(offset),
        25 => scene.facts(i, |f| f.offset = offset),
        26 => scene.want(u32::try_from(j + 1).unwrap_or(0)),
        27 => scene.lose_volume(i),
        28 => scene.facts(i, |f| f.failover_state = "failover-in-progress".into()),
        _ => scene.still_hears(i),
    };
}
