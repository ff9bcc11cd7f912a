//! Compound procedures: more than one command, each an effect of its own, in the order in which a crash between any two does no harm.

pub mod detach;
pub mod fence;
pub mod hand_over;
pub mod promote;

#[cfg(test)]
mod tests;
