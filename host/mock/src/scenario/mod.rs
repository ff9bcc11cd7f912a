//! Scenarios: folders that say what a person applies, what happens, and what must hold. The oracles ([`crate::oracle`]) look on
//! all the time.
//!
//! # Flow of a run
//! 1. A bed, an operator of the given policies, the recorders.
//! 2. The script's steps, one after the other; each waits for an event or a state with a deadline.
//! 3. All faults end. The declared state must be reached, and then the operator must be at rest.
//! 4. What was expected, and what the oracles say of all that was recorded.
//!
//! # Rooms
//! [`folder`] reads and writes folders; [`step`] is what a script can say; [`target`] whom it means; [`run`] runs it; [`seed`]
//! draws one.

mod act;
mod client;
pub mod folder;
pub mod run;
pub mod seed;
pub mod step;
pub mod target;
mod wait;

pub use folder::{FolderError, Scenario};
pub use run::{Failure, Report};

/// The instance that is meant where none is named.
pub const INSTANCE: &str = "demo";
