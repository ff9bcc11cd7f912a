//! The Valkey operator: main and command line. It wires the other crates and decides nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line answers on standard output")]

mod args;
mod http;
mod journal;
mod local;
mod metrics;
mod policy;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().command {
        Command::Run(options) => runtime()?.block_on(run::run(*options))?,
        Command::Policy { command } => return policy::run(&command),
        Command::Local { arguments } => local::run(&arguments)?,
        Command::Journal(options) => runtime()?.block_on(journal::print(&options))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
