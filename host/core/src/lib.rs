//! The core: observe, plan, guard, execute, report, over traits. It knows no Kubernetes client, no Redis client and no wasm
//! engine.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod accounts;
pub mod adopt;
pub mod allowance;
pub mod beliefs;
pub mod command;
pub mod composite;
pub mod detached;
pub mod diff;
pub mod execute;
pub mod faulty;
pub mod former;
pub mod governor;
pub mod guard;
pub mod instance;
pub mod journal;
pub mod lease;
pub mod ledger;
pub mod manager;
pub mod memory;
pub mod metrics;
pub mod object;
pub mod observe;
pub mod orphan;
pub mod outcomes;
pub mod policy;
pub mod probe;
pub mod procedure;
pub mod refresh;
pub mod registry;
pub mod render;
pub mod report;
pub mod secret;
pub mod settings;
pub mod site;
pub mod store;
#[cfg(test)]
mod testing;
pub mod trial;
pub mod workloads;
pub mod world;
