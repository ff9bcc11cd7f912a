//! The Valkey operator: main and command line. It wires the other crates and decides nothing.
#![allow(clippy::print_stdout, reason = "a command line answers on standard output")]

mod args;
mod http;
mod journal;
mod local;
mod metrics;
mod pack;
mod run;

use clap::Parser;

use crate::args::{Args, Command, PolicyCommand};

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Run(options) => runtime()?.block_on(run::run(*options)),
        Command::Policy { command: PolicyCommand::Pack(options) } => pack::pack(&options),
        Command::Local { arguments } => local::run(&arguments),
        Command::Journal(options) => runtime()?.block_on(journal::print(&options)),
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
