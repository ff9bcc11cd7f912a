//! Whole plans, then what holds for every observation.

mod plans;
mod random;
