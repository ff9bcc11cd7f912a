//! Custom resources: what people write ([`Valkey`], [`Sentinel`], [`User`]), what the operator makes of it ([`Cluster`],
//! [`Failover`], and the [`Sentinel`] beside it), and the way from one to the other.
//!
//! No client and no I/O in here. Data flows one way:
//! 1. The API server checks what people write by the rules in [`rules`]: they are in the CRDs as CEL.
//! 2. [`translate::read`] takes the object as JSON; a status that an older or newer operator wrote does not matter.
//! 3. [`translate::translate`] checks the same rules again, because an object may have been stored before a rule existed, and
//!    resolves the rest (image, default capacity, affinity, Sentinels) into a [`TopologySpec`].
//! 4. [`translate::refused_changes`] says what of it must not reach a live instance.
//! 5. [`status`] and [`conditions`] are what the operator writes back.
//!
//! The CRDs as files come from [`crd::crds`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod affinity;
#[expect(unreachable_pub, reason = "KubeSchema expands to a pub struct inside of a function")]
#[allow(clippy::duplicated_attributes, reason = "columns of the same type are no duplicates")]
pub mod cluster;
pub mod conditions;
pub mod crd;
#[expect(unreachable_pub, reason = "KubeSchema expands to a pub struct inside of a function")]
#[allow(clippy::duplicated_attributes, reason = "columns of the same type are no duplicates")]
pub mod failover;
pub mod images;
pub mod names;
mod pods;
pub mod quantity;
pub mod rules;
mod schema;
#[expect(unreachable_pub, reason = "KubeSchema expands to a pub struct inside of a function")]
#[allow(clippy::duplicated_attributes, reason = "columns of the same type are no duplicates")]
pub mod sentinel;
#[expect(unreachable_pub, reason = "KubeSchema expands to a pub struct inside of a function")]
pub mod status;
#[expect(unreachable_pub, reason = "KubeSchema expands to a pub struct inside of a function")]
pub mod topology;
pub mod translate;
#[expect(unreachable_pub, reason = "KubeSchema expands to a pub struct inside of a function")]
#[allow(clippy::duplicated_attributes, reason = "columns of the same type are no duplicates")]
pub mod user;
pub mod validate;
#[expect(unreachable_pub, reason = "KubeSchema expands to a pub struct inside of a function")]
#[allow(clippy::duplicated_attributes, reason = "columns of the same type are no duplicates")]
pub mod valkey;

pub use cluster::{Cluster, ClusterSpec};
pub use failover::{Failover, FailoverSpec};
pub use images::Images;
pub use sentinel::{Sentinel, SentinelSpec};
pub use topology::TopologySpec;
pub use translate::{TranslateError, translate};
pub use user::{User, UserSpec};
pub use validate::{Violation, validate};
pub use valkey::{Valkey, ValkeySpec};

#[cfg(test)]
mod tests;
