//! A policy on trial, before it governs anything: on decisions that a live operator recorded ([`replay`]) and on scenes that are
//! made to try it ([`conformance`]). Nothing is executed, nothing is remembered.
//!
//! # Guarantees
//! 1. The guard judges as it would in the loop, on a view that is fresh and with the Lease.
//! 2. Nothing panics on data: a journal of another version, a cut one, or no journal at all is an error that says which line.

pub mod conformance;
mod difference;
pub mod record;
pub mod replay;
mod words;

pub use difference::Difference;
pub use words::{plan_in_words, time};

use crate::guard::Circumstances;

/// A view that speaks against nothing.
const CALM: Circumstances = Circumstances { lease: true, fresh: true, cut_off: false, current: true };

#[cfg(test)]
mod tests;
