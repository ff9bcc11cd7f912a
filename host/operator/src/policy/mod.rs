//! `policy`: what authors of policies need, on their own machine: nothing here talks to a cluster.
//!
//! # Guarantees
//! Exit codes of `replay` and `test`: 0 the same plans, or all rules kept; 1 other plans, or a rule broken; 2 it can't be told (a
//! file that can't be read, a module that isn't admitted, a journal that is none), and the message says why.

mod listen;
mod new;
mod pack;
mod replay;
mod scenes;
mod test;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use vko_core::policy::Policy;
use vko_engine::Engine;

use crate::args::PolicyCommand;

/// Different, or broken.
const NO: u8 = 1;
/// It can't be told.
const UNKNOWN: u8 = 2;

/// Runs one of them.
pub(crate) fn run(command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::New(options) => new::write(options).map(|()| ExitCode::SUCCESS),
        PolicyCommand::Pack(options) => pack::pack(options).map(|()| ExitCode::SUCCESS),
        PolicyCommand::Replay(options) => Ok(verdict(replay::replay(options))),
        PolicyCommand::Test(options) => Ok(verdict(test::test(options))),
    }
}

fn verdict(told: anyhow::Result<bool>) -> ExitCode {
    match told {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NO),
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::from(UNKNOWN)
        }
    }
}

/// Reads and admits a component.
fn admitted(file: &Path) -> anyhow::Result<Arc<dyn Policy>> {
    let shown = file.display();
    let component = std::fs::read(file).with_context(|| format!("{shown} can't be read"))?;
    let engine = Engine::new()?;
    engine.admit_as_described(&component).with_context(|| format!("{shown} is no policy that would be admitted"))
}

/// A policy in words.
fn named(policy: &dyn Policy) -> String {
    let info = policy.info();
    format!("{} {} (sha256 {})", info.name, info.version, info.digest)
}

/// Lines under a heading.
fn print_indented(lines: &[String], by: usize) {
    lines.iter().for_each(|line| println!("{:by$}{line}", ""));
}
