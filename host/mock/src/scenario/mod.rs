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
//! What folders say is read by [`vko_script`], for this host and the test bed alike. [`run`] runs it; [`seed`] draws one;
//! [`view`] is the store as scripts look at it.

mod act;
mod client;
pub mod run;
pub mod seed;
pub mod view;

pub use run::{Failure, Report};
