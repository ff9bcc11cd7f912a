//! The agent: the operator's helper inside a pod. One small static binary; it knows nothing of Kubernetes and keeps nothing
//! running.
//!
//! - `install DEST` copies it into the pod (init container).
//! - `serve` renders the configuration for this start into a pipe and becomes the server.
//! - `probe live|ready` answers the kubelet.
//! - `hook pre-stop` hands the primary role over before the server stops.
//! - `tied PID PROGRAM...` becomes a program that ends with its starter: outside of pods.
//!
//! Everything it needs comes by flags and mounted files; README.md is the contract of those files.
//!
//! # Exit codes
//! 0: done. 1: it failed, or the answer is no; one line on stderr says what was wrong, where, and what to do. 2: wrong arguments.

mod args;
mod attempt;
mod files;
mod handover;
mod hold;
mod hook;
mod info;
mod install;
mod pipe;
mod probe;
mod render;
mod resp;
mod sentinel;
mod sentinels;
mod serve;
mod tied;

use std::fmt::Display;
use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("agent: {error}\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Install { destination } => finish(install::install(&destination)),
        Command::Serve(start) => finish(serve::serve(&start)),
        Command::Tied { starter, words } => finish(tied::become_tied(starter, &words)),
        Command::Feed => finish(pipe::feed()),
        Command::Live(probe) => finish(probe::live(&probe)),
        Command::Ready(probe) => finish(probe::ready(&probe)),
        Command::PreStop(stop) => match hook::pre_stop(&stop) {
            Ok(outcome) => {
                eprintln!("agent: {outcome}");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        },
    }
}

fn finish(result: Result<(), impl Display>) -> ExitCode {
    result.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

fn failed(error: &impl Display) -> ExitCode {
    eprintln!("agent: {error}");
    ExitCode::FAILURE
}
