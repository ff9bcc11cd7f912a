//! The core: observe, plan, guard, execute, report, over traits. It knows no Kubernetes client, no Redis client and no wasm engine.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod command;
pub mod composite;
pub mod diff;
pub mod lease;
pub mod object;
pub mod policy;
pub mod render;
pub mod secret;
pub mod settings;
pub mod world;
