//! The world of a real cluster: `vko_core::world::Kube` over kube-rs, and the machine's clock.
//!
//! # Guarantees
//! 1. Cached reads cost no request, and no request is made but what a caller asks for and the watches.
//! 2. Each write is one request, tried once, with a deadline of [`REQUEST_DEADLINE`]. kube's own retry (15 tries, up to 1000 s
//!    apart, for writes, too) is off.
//! 3. What a successful write answers is in the cache before the call returns, unless the watch has already brought something
//!    newer: a caller reads its own writes.
//! 4. A change is announced only when something differs that the core reads. A node's heartbeat, another manager's field
//!    ownership or a resourceVersion alone wake nobody.
//! 5. An object looks the same wherever it comes from: watch, list, answer to a write, `get`. See [`prune`].
//! 6. Errors about Secrets never carry the API server's text about their content.
//!
//! # Assumptions
//! - The resourceVersions of one resource are comparable as numbers (promised from Kubernetes 1.35, true of every etcd-backed API
//!   server before). One that isn't a number is never taken for newer: the watch alone brings news then.
//!
//! # Rooms
//! [`connect`] finds the cluster, checks that it serves our kinds and starts the watches; [`selection`] says what is watched;
//! [`watch`] lists and follows; [`prune`] and [`cache`] are the pure part behind it; [`verbs`] writes; [`events`] tells people.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cache;
pub mod clock;
pub mod connect;
mod counters;
pub mod error;
mod events;
mod path;
pub mod prune;
pub mod selection;
pub mod verbs;
pub mod watch;

pub use clock::SystemClock;
pub use connect::{ConnectError, KubeWorld, Options};
pub use counters::Count;
pub use verbs::REQUEST_DEADLINE;
pub use watch::CACHE_AGE_MAX;
