//! What the folders of `tests/scenarios` say, and what it means: whom a step strikes, when a wait is over, what must hold at the
//! end. Hosts carry it out: the mock host (`host/mock`), and where a folder is marked the test bed (`tests/e2e`).
//!
//! # Guarantees
//! 1. A folder means the same on each host: it is read here alone, and what is asked of objects is asked here, by a [`View`].
//! 2. A folder that is marked for the test bed has no step and no expectation that a real cluster can't carry out ([`bed`]).
//!
//! # Rooms
//! [`folder`] reads and writes folders; [`step`] is what a script can say; [`target`] whom it means; [`wait`] what it waits for;
//! [`outcome`] and [`ending`] what must hold at the end; [`bed`] what a real cluster can do.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod bed;
pub mod ending;
pub mod folder;
pub mod outcome;
pub mod step;
pub mod target;
pub mod wait;

pub use folder::{FolderError, Scenario};

use serde_json::Value;

/// The instance that is meant where none is named.
pub const INSTANCE: &str = "demo";

/// Resource of what people write.
pub const VALKEYS: &str = "valkeys.rds.valkey.buf.red";
/// Resource of Sentinels, which can stand alone.
pub const SENTINELS: &str = "sentinels.valkey.buf.red";

/// The objects of the instances' namespace, as they are at one moment. Resources as in `pods`, `statefulsets.apps`.
pub trait View {
    /// One of them.
    fn get(&self, resource: &str, name: &str) -> Option<&Value>;
    /// All of a kind, by name.
    fn all(&self, resource: &'static str) -> Vec<&Value>;
}
