//! Addresses of pods: 127.x.y.z, each used once before any is used again.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers that have been given out in this process; tests share it as they share the loopback.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Addresses of one process.
const OWN: u32 = 254;

/// An address that no pod of this process has had before, as long as there are any, and that other processes don't use.
pub fn next() -> Ipv4Addr {
    of(std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// 127.128.0.0/9 by process: the lower half has the machine's own services and other tests.
fn of(process: u32, number: u32) -> Ipv4Addr {
    let [.., high, low] = process.to_be_bytes();
    let last = u8::try_from(number % OWN + 1).unwrap_or(1);
    Ipv4Addr::new(127, 128 | high & 0x7f, low, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_by_table() {
        for (process, number, expected) in
            [(0, 0, "127.128.0.1"), (513, 253, "127.130.1.254"), (513, 254, "127.130.1.1"), (65_535, 0, "127.255.255.1")]
        {
            assert_eq!(of(process, number).to_string(), expected);
        }
        assert_ne!(next(), next());
    }
}
