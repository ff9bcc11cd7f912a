//! A numbered-writes client for the inside of a node that is cut off: run by `testbed exec NODE`, it writes to a pod until its
//! standard input ends, and says then how much was acknowledged and when last.
//!
//! usage: VKO_PASSWORD=... vko-writer ADDRESS:PORT
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use std::io::Read;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use vko_e2e::Result;
use vko_e2e::server::Login;
use vko_e2e::writer::{Pace, Writer};

fn main() -> Result {
    let address = std::env::args().nth(1).context("usage: vko-writer ADDRESS:PORT")?.parse().context("no ADDRESS:PORT")?;
    let password = std::env::var("VKO_PASSWORD").context("VKO_PASSWORD is not set")?;
    let writer = Writer::start_named(Login { address, user: String::new(), password }, "inside", Pace::default());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let record = writer.stop()?;
    let last = record.acks.last().map_or(0, |ack| unix_ms(ack.at));
    println!("{} {last} {}", record.acks.len(), record.errors);
    Ok(())
}

/// A moment of the forward-going clock, on the wall clock.
fn unix_ms(at: Instant) -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(at.elapsed()).as_millis()
}
