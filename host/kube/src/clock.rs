//! The machine's clock and random numbers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom, SystemRandom};
use vko_core::world::{Clock, UnixMs};

/// `CLOCK_MONOTONIC` for ages and deadlines: steps of the wall clock don't touch it. It stands still while a machine is
/// suspended, as does everything else on it; what that means for a hold of the Lease is the connections' business, which break.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: Instant,
    random: SystemRandom,
}

impl SystemClock {
    /// Starts counting now.
    pub fn new() -> Self {
        Self { origin: Instant::now(), random: SystemRandom::new() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn unix_ms(&self) -> UnixMs {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn random(&self, bytes: &mut [u8]) {
        if self.random.fill(bytes).is_err() {
            // Going on would make passwords that anybody can guess. The kernel's generator can't fail on a machine that has
            // booted.
            tracing::error!("the kernel gives no random numbers; stopping, since passwords are made of them");
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_fills_all_of_it() {
        let clock = SystemClock::new();
        let mut bytes = [0_u8; 64];
        clock.random(&mut bytes);
        // Each half is zero by chance once in 2^256.
        assert!(bytes[..32].iter().any(|byte| *byte != 0) && bytes[32..].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn monotonic_never_goes_back() {
        let clock = SystemClock::new();
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
    }
}
