//! Random scenes under random Sentinels.

use vko_replica::testing::{XorShift, random_scene};

use super::Watched;

/// A random scene of a data set under Sentinels that up to five random events have met. The same seed gives the same.
pub fn random_watched(seed: u64) -> Watched {
    let rng = &mut XorShift::new(seed ^ 0x5e47);
    let mut watched = Watched::over(random_scene(seed));
    if rng.one_in(8) {
        watched.refer();
    }
    for _ in 0..rng.below(5) {
        let (i, j) = (rng.below(3), rng.below(5));
        match rng.below(14) {
            0 => watched.mute(i),
            1 => watched.tilt(i),
            2 => watched.blank(i),
            3 => watched.drop_sentinel(i),
            4 => watched.restart_sentinel(i),
            5 => watched.says(i, j, 4 + u64::try_from(j).unwrap_or(0)),
            6 => watched.says_stranger(i),
            7 => watched.failing_over(i, ["wait_start", "wait_promotion", "reconf_slaves"][j % 3]),
            8 => watched.objectively_down(i),
            9 => watched.knows_none(i),
            10 => watched.aged(i, 1_000 * u64::try_from(j).unwrap_or(0)),
            11 => watched.priority(j, 0),
            12 => watched.quorum(i, 3),
            _ => watched.stuck(i),
        };
    }
    watched
}
