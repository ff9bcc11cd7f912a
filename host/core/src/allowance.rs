//! How often something may be written that a policy, or the world, may make differ each time: a token bucket.
//!
//! Many at once are fine (a creation reports each of its steps); without end they would be load on the API server that nobody
//! asked for. What is held back is written later in its newest form, or dropped where only the newest counts.

use std::time::Duration;

/// So many at once, and one more each so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// At once, at most. At least 1.
    pub burst: u32,
    /// One more becomes due each so often.
    pub each: Duration,
}

/// What is left of a [`Rate`].
///
/// It is kept as the time at which all of it is there again (a virtual schedule, as in ITU-T I.371's generic cell rate
/// algorithm), so nothing has to count while nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    rate: Rate,
    whole_at: Duration,
}

impl Allowance {
    /// All of it is there.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, whole_at: Duration::ZERO }
    }

    /// For how long nothing may be written yet. `now` is monotonic.
    pub fn wait(&self, now: Duration) -> Duration {
        let room = self.rate.each.saturating_mul(self.rate.burst.saturating_sub(1));
        self.whole_at.saturating_sub(now).saturating_sub(room)
    }

    /// Notes that something was written.
    pub fn spend(&mut self, now: Duration) {
        self.whole_at = self.whole_at.max(now).saturating_add(self.rate.each);
    }

    /// Whether all of it is there again, so that nothing has to be remembered.
    pub fn is_whole(&self, now: Duration) -> bool {
        self.whole_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, Rate};
    use std::time::Duration;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn how_long_the_next_one_waits() {
        let cases: [(&str, &[u64], u64, u64); 7] = [
            ("the first", &[], 0, 0),
            ("the last of a burst", &[0, 0], 0, 0),
            ("one beyond it", &[0, 0, 0], 0, 2),
            ("one beyond it, a second later", &[0, 0, 0], 1, 1),
            ("one became due", &[0, 0, 0], 2, 0),
            ("in its pace for ever", &[0, 2, 4, 6, 8, 10, 12], 14, 0),
            ("a long rest saves no more than a burst", &[100, 100, 100], 100, 2),
        ];
        for (name, spent, now, expected) in cases {
            let mut allowance = Allowance::new(Rate { burst: 3, each: seconds(2) });
            spent.iter().for_each(|at| allowance.spend(seconds(*at)));
            assert_eq!(allowance.wait(seconds(now)), seconds(expected), "{name}");
        }
    }

    #[test]
    fn when_it_is_whole_again() {
        let mut allowance = Allowance::new(Rate { burst: 2, each: seconds(2) });
        assert!(allowance.is_whole(seconds(0)));
        allowance.spend(seconds(10));
        assert!(!allowance.is_whole(seconds(11)) && allowance.is_whole(seconds(12)));
    }
}
