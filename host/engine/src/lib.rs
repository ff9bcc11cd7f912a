//! Runs policies: admits components, calls them within limits, and lets a native build take a component's place.
//!
//! # Guarantees
//! 1. A policy is immutable and shareable. Each call runs in a fresh store with an instance of its own: nothing that a call did,
//!    not even a trap in the middle of it, is there in the next one. A failed call needs no clean-up.
//! 2. A call ends: after its deadline at the latest, with at most [`limits::MEMORY_BYTES_MAX`] of memory, an answer of at most
//!    [`limits::ANSWER_BYTES_MAX`] and log lines of at most [`limits::LOG_BYTES_MAX`]. How it failed is a
//!    [`GuestError`](vko_core::policy::GuestError), and the engine is as healthy as before.
//! 3. A component can reach `valkey:policy/log` and nothing else: no clock, no files, no network, no randomness. Floating point
//!    gives the same bits on every machine. So equal observations get equal plans.
//! 4. What is admitted was compiled, instantiated and asked to describe itself. A component that doesn't fit the interface is
//!    refused at admission, not at the first call.
//!
//! # Assumptions
//! Calls block for up to the deadline and compiling blocks for up to seconds: both belong on a thread that may block. An idle
//! engine costs nothing: its clock ticks only while a call runs.
//!
//! # Flow
//! 1. [`pack::unpack`] reads a ConfigMap: what its manifest promises, and the component.
//! 2. [`Engine::admit`](vko_core::policy::Admit::admit) checks promise and component, and gives a
//!    [`Policy`](vko_core::policy::Policy).
//! 3. [`Policy::decide`](vko_core::policy::Policy::decide) converts the observation, makes store and instance, calls, converts
//!    the plan back, and checks that every UID and every JSON text in it is one.

mod answer;
mod engine;
pub mod limits;
mod native;
pub mod pack;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;
mod ticker;
mod v0;

pub use engine::{Engine, EngineError};
pub use native::NativePolicy;
