//! The operator, wired: its world, the Lease, the policies and the manager. There is this one way, for a cluster
//! (`host/operator`) and for the mock host (`host/mock`); they differ in where the API server is.
//!
//! # Guarantees
//! 1. The Lease is released only when nothing dangerous is under way.
//! 2. A part that ends unasked is told to whoever runs the operator: without its manager it would hold the Lease, look healthy
//!    and do nothing.
//! 3. Dropped, it ends as if it were killed: nothing is released.
//!
//! # Flow
//! 1. [`Policies::built_in`] compiles what is built in.
//! 2. [`Wired::new`] joins the parts; what serves them over HTTP can be set up by then.
//! 3. [`Wired::start`] runs elector and manager side by side.
//! 4. [`Operator::stop`]: the manager drops its instances first; then nothing dangerous is under way, and the Lease is released.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod operator;
mod policies;

use vko_core::composite::Composite;
use vko_kube::{KubeWorld, SystemClock};
use vko_valkey::Administration;

pub use operator::{Ended, Operator, Setup, Wired, journal};
pub use policies::{Policies, PoliciesError};

/// The real world: an API server, servers over the network, this machine's clock.
pub type RealWorld = Composite<KubeWorld, Administration, SystemClock>;

/// The real world behind an API server.
pub fn world(kube: KubeWorld) -> RealWorld {
    Composite { kube, servers: Administration::new(), clock: SystemClock::default() }
}
