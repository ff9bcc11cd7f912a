//! Typed administration of Valkey servers: [`Administration`] implements [`vko_core::world::Servers`].
//!
//! The only crate that speaks the server's protocol. What may be sent is [`vko_core::command::Command`], nothing else.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod administration;
mod answers;
mod connection;
mod errors;
mod subscription;
mod words;

pub use administration::Administration;
