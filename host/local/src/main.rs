//! `valkey-operator local`: the operator on this machine, without Kubernetes. The API server is in memory, pods are processes,
//! the operator is the one that clusters have, with its built-in policies ([`vko_mock`]).
//!
//! It is a program of its own, beside the operator's, which becomes it: an image has no use for a Kubernetes in memory, which
//! would make the operator's program a seventh larger.
//!
//! # Guarantees
//! 1. One process owns a world: `up`. It runs in the foreground, and when it ends, however it ends, its servers end.
//! 2. Who else is on this machine reaches nothing of it but the servers' ports, where passwords count: folders and the socket are
//!    the owner's alone, the API server wants a token that only its operator has. (kubectl sends none without TLS, so it is no
//!    way in.)
//! 3. No password is printed.
//! 4. Data on claims outlives the owner; the next `up` on the folder finds it. `down --delete-data` deletes it, and `delete` of
//!    an instance whose spec doesn't retain it.
//!
//! # Rooms
//! [`args`] is the command line; [`folder`] the state folder and who owns it; [`servers`] what can run; [`manifest`] what people
//! write, whatever its [`form`]; [`delete`] what of it shall go; [`world`] what runs; [`view`] how it stands, [`changes`] what of
//! it changed, [`connect`] how to use it; [`control`] the way from the other commands ([`client`]) to the owner; [`up`] the owner
//! itself.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line answers")]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod changes;
mod client;
mod connect;
mod control;
mod delete;
mod folder;
mod form;
mod manifest;
mod servers;
mod up;
mod view;
mod world;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::folder::Folder;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("valkey-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    let folder = Folder::at(&args.place)?;
    match args.command {
        Command::Up(up) => tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(up::up(folder, up)),
        Command::Status(status) => client::status(&folder, &status),
        Command::Apply(apply) => client::apply(&folder, &apply),
        Command::Delete(delete) => client::delete(&folder, delete),
        Command::Kill(kill) => client::kill(&folder, kill),
        Command::Down(down) => client::down(&folder, &down),
    }
}
