//! Applications as tests need them, of whatever world: how they enter, the numbered-writes client, and the published bounds
//! that its record is held against. The end-to-end tests and the scenarios of the mock host use the same, so that a promise
//! means the same in both.
#![allow(clippy::print_stdout, reason = "a test reports on its standard output")]

pub mod entrance;
pub mod losses;
pub mod server;
pub mod wait;
pub mod writer;

/// What these return: `?` on everything, and the whole chain of causes is printed.
pub type Result<T = ()> = anyhow::Result<T>;

/// Prints a measured value in a form that can be collected.
pub fn figure(name: &str, value: impl std::fmt::Display) {
    println!("figure: {name} = {value}");
}
