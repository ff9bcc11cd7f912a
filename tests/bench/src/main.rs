//! Times, side by side in one run: ours against the same servers without an operator. `./dev bench SUBJECT` starts what it needs.
//!
//! # Guarantees
//! 1. A subject alternates between the things that it compares, so that a busy machine is busy for all of them.
//! 2. Figures only: nothing here passes or fails by a time.
#![allow(clippy::print_stdout, reason = "a bench reports on its standard output")]

mod bare;
mod label;
mod ready;
mod table;

use anyhow::bail;
use vko_e2e::Result;

const USAGE: &str = "subjects: ready (apply to Ready, each architecture), label (a Sentinel switch to the role label)";

fn main() -> Result {
    match std::env::args().nth(1).as_deref() {
        Some("ready") => ready::run(),
        Some("label") => label::run(),
        _ => bail!("{USAGE}"),
    }
}
