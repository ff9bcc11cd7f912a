//! One call: a fresh store, an instance of its own, the bounds, and what became of it as a typed error.
//!
//! # Guarantees
//! Immutable and shareable: a call reads the compiled component and changes nothing that another call sees. So calls of one
//! policy run side by side, a failed one leaves nothing behind, and the same observation gets the same answer whatever was called
//! before.
//!
//! # Flow
//! 1. The clock runs while the call does. The deadline counts from before the instance is made: its start code is the policy's
//!    too.
//! 2. Store and instance are made, the function is called, the answer is copied out under its bound.
//! 3. A failure is classified: by its cause where wasmtime gives one, by the stage where it doesn't.

use std::sync::Arc;

use vko_core::policy::GuestError;
use wasmtime::{Store, Trap};

use super::host::{Host, MemoryFull};
use super::{World, WorldPre};
use crate::engine::Runtime;
use crate::limits::{ANSWER_BYTES_MAX, CALL_DEADLINE_MS, MEMORY_BYTES_MAX, TICK_MS};

/// What a call needs.
pub(super) struct Call<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) ready: &'a WorldPre<Host>,
    pub(super) label: &'a Arc<str>,
}

/// How far a call had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Instantiating,
    Calling,
}

impl Call<'_> {
    /// Makes an instance and calls it.
    pub(super) fn run<R>(&self, call: impl FnOnce(&World, &mut Store<Host>) -> wasmtime::Result<R>) -> Result<R, GuestError> {
        let _running = self.runtime.ticker.run();
        let mut store = Store::new(&self.runtime.engine, Host::new(Arc::clone(self.label)));
        store.limiter(|host| host);
        store.set_hostcall_fuel(ANSWER_BYTES_MAX);
        // One tick more: the first may come at once.
        store.set_epoch_deadline(CALL_DEADLINE_MS / TICK_MS + 1);
        store.epoch_deadline_trap();
        let failure = match self.ready.instantiate(&mut store) {
            Ok(world) => match call(&world, &mut store) {
                Ok(answer) => return Ok(answer),
                Err(error) => classify(&error, Stage::Calling, &store.data().last_error),
            },
            Err(error) => classify(&error, Stage::Instantiating, &store.data().last_error),
        };
        Err(failure)
    }
}

/// What wasmtime says, without a type, when an answer passes its bound. A test holds it against the real thing.
const ANSWER_TOO_LARGE: &str = "fuel allocated for hostcalls has been exhausted";

fn classify(error: &wasmtime::Error, stage: Stage, last_error: &str) -> GuestError {
    if error.downcast_ref::<MemoryFull>().is_some() {
        return GuestError::PolicyOutOfMemory(MEMORY_BYTES_MAX);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return GuestError::PolicyDeadline(CALL_DEADLINE_MS),
        Some(trap) if last_error.is_empty() => return GuestError::PolicyTrapped(trap.to_string()),
        // The panic's own words say more than "unreachable".
        Some(_) => return GuestError::PolicyTrapped(last_error.to_owned()),
        None => {}
    }
    let text = format!("{error:#}");
    match stage {
        Stage::Calling if text.contains(ANSWER_TOO_LARGE) => GuestError::PolicyOutputTooLarge(ANSWER_BYTES_MAX),
        // Not a trap and yet an error: the answer can't be read (text that isn't UTF-8, a case that doesn't exist, a list out of
        // bounds).
        Stage::Calling => GuestError::PolicyOutputInvalid(text),
        Stage::Instantiating => GuestError::PolicyNotCallable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified_by_cause_then_by_stage() {
        let cases: [(&str, wasmtime::Error, Stage, &str, GuestError); 8] = [
            ("the clock", Trap::Interrupt.into(), Stage::Calling, "", GuestError::PolicyDeadline(CALL_DEADLINE_MS)),
            (
                "the clock, in start code",
                Trap::Interrupt.into(),
                Stage::Instantiating,
                "",
                GuestError::PolicyDeadline(CALL_DEADLINE_MS),
            ),
            (
                "memory, behind contexts",
                wasmtime::Error::new(MemoryFull).context("while growing"),
                Stage::Calling,
                "",
                GuestError::PolicyOutOfMemory(MEMORY_BYTES_MAX),
            ),
            (
                "a panic with its words",
                Trap::UnreachableCodeReached.into(),
                Stage::Calling,
                "panicked at x.rs:1",
                GuestError::PolicyTrapped("panicked at x.rs:1".into()),
            ),
            (
                "a trap without words",
                Trap::StackOverflow.into(),
                Stage::Calling,
                "",
                GuestError::PolicyTrapped(Trap::StackOverflow.to_string()),
            ),
            (
                "too large an answer",
                wasmtime::Error::msg(format!("too much data: {ANSWER_TOO_LARGE}")),
                Stage::Calling,
                "",
                GuestError::PolicyOutputTooLarge(ANSWER_BYTES_MAX),
            ),
            (
                "an answer that can't be read",
                wasmtime::Error::msg("invalid utf-8"),
                Stage::Calling,
                "an older line",
                GuestError::PolicyOutputInvalid("invalid utf-8".into()),
            ),
            (
                "no instance",
                wasmtime::Error::msg("too many instances"),
                Stage::Instantiating,
                "",
                GuestError::PolicyNotCallable("too many instances".into()),
            ),
        ];
        for (name, error, stage, last_error, expected) in cases {
            assert_eq!(classify(&error, stage, last_error), expected, "{name}");
        }
    }
}
