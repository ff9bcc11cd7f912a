//! Valkey as data: versions, INFO, replication, clusters and their slots, Sentinels, accounts, configuration, addresses.
//!
//! Guarantees: no I/O, no Kubernetes, no wasm, no clock; nothing here panics on data, whatever a server says; a field that a
//! server doesn't show is `None`, never a default. Host and policies use it alike.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod accounts;
pub mod acl;
pub mod address;
pub mod cluster;
pub mod config;
pub mod info;
pub mod replication;
pub mod sentinel;
pub mod slots;
pub mod version;

pub use address::Address;
pub use info::Info;
pub use version::{Line, Version};
