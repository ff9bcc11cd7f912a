//! The core: observe, plan, guard, execute, report, over traits. It knows no Kubernetes client, no Redis client and no wasm engine.

pub mod command;
pub mod object;
pub mod policy;
pub mod secret;
pub mod world;
