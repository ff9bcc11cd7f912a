//! End-to-end tests of the operator on a real Kubernetes: the harness. Each file of `tests/` is a subject.
//!
//! # What a test may rely on
//! 1. Each test has a namespace of its own, which enforces the "restricted" Pod Security Standard. Which files and which tests of
//!    a file run side by side, ./dev says; one that touches what others share (the operator, nodes, policies) has the cluster for
//!    itself ([`operator::alone`]), whatever runs beside.
//! 2. Waiting is for an event (a watch of the API, a connection that answers), with a deadline that fails with what was last
//!    seen.
//! 3. A fault is undone when its guard is dropped, also when the test fails.
//! 4. A failing test prints the instance's status, events and pods, and what the operator said last.
//!
//! # Assumptions
//! The environment of `./dev test` (see [`settings`]). On a cluster of one's own (`KUBECONFIG`) pods and Services must be
//! reachable from here; tests that need the test bed say "skipped" there.
//!
//! Times are printed as figures ([`figure`]) and never asserted; other tests may have run meanwhile, so that `tests/bench`
//! measures.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test reports on its standard output")]

pub mod bed;
pub mod command;
pub mod inside;
pub mod instance;
pub mod kubectl;
pub mod observe;
pub mod operator;
pub mod scenario;
pub mod search;
pub mod settings;
pub mod space;
pub mod strike;

pub use vko_clients::{Result, entrance, figure, losses, server, wait, writer};

/// Prints why a test did not run. Not a pass in disguise: the line is collected like a figure.
pub fn skipped(why: &str) -> Result {
    println!("skipped: {why}");
    Ok(())
}
