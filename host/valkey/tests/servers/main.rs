//! Against real servers of each line: accounts, rights, replication, clusters, Sentinels, configuration,
//! INFO.
//!
//! The servers come from the folder in `VALKEY_SERVERS` (`tests/testbed/testbed servers` makes it): `9.1/valkey-server`,
//! `8.1/valkey-server`, `7.2/valkey-server`. They listen on the loopback only.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accounts;
mod clusters;
mod configuration;
mod facts;
mod operator;
mod replication;
mod sentinels;
mod support;
