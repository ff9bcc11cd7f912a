//! Custom resources.

pub mod names;
