//! A Kubernetes API server in memory, with the controllers that matter to an operator: what Kubernetes promises, without pods.
//!
//! It knows the rules of Kubernetes and nothing of this operator, so that whoever needs objects under those rules can have them:
//! the unit tests of the core (the store alone), the mock host (over HTTP, with real processes as pods).
//!
//! # Guarantees
//! 1. Each write is judged as the API server judges it: resourceVersion, UID and other preconditions, ownership of fields,
//!    schemas, finalizers; refusals carry the code and the reason that a real one sends.
//! 2. One write at a time; equal writes in equal order give equal objects, UIDs and versions. Nothing here is drawn by lot.
//! 3. A write that changes nothing moves no version and wakes nobody.
//! 4. Watches tell every change once and in order, from any version that is still known; one that isn't is 410.
//! 5. Controllers have come to rest before a write's answer is out.
//!
//! # Assumptions
//! 1. Clients are one's own: whoever has an entrance's token may do everything, and there is no admission plugin.
//! 2. CEL rules of custom resources aren't evaluated; types, bounds, enumerations, defaults and unknown fields are.
//! 3. StatefulSets are `Parallel` and `OnDelete`; others are treated as such.
//!
//! # Rooms
//! [`resource`] says what is served; [`store`] holds the objects and judges writes; [`fields`] and [`apply`] are field ownership;
//! [`validate`] the schemas; [`controllers`] what Kubernetes does by itself; [`server`] all of it under one lock, and [`http`]
//! the way in, with [`fault`]s by script and a record of [`requests`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod apply;
pub mod controllers;
mod defaults;
pub mod disk;
mod evict;
pub mod fault;
pub mod fields;
mod history;
pub mod http;
mod json;
pub mod refusal;
pub mod requests;
pub mod resource;
pub mod selector;
pub mod server;
pub mod store;
pub mod validate;

pub use json::merged;
pub use refusal::Refusal;
pub use resource::{Key, Resource};
pub use server::ApiServer;
pub use store::Store;
