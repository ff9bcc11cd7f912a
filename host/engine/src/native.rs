//! A policy built into the host: the same code as its component, called directly.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use vko_core::policy::{GuestError, Policy, PolicyInfo};
use vko_wit::exports::valkey::policy::decisions::Guest;
use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Violation};

use crate::answer;

/// Lets a native policy take a component's place. Answers are checked as a component's are and a panic ends as a trap would; time
/// and memory are not bounded, so it is for policies that come with the operator.
pub struct NativePolicy<G> {
    info: PolicyInfo,
    guest: PhantomData<fn() -> G>,
}

impl<G: Guest + 'static> NativePolicy<G> {
    /// Asks the policy to describe itself.
    pub fn new() -> Self {
        let said = G::describe();
        let info = PolicyInfo {
            name: said.name,
            architecture: said.architecture,
            version: said.version,
            digest: "native".into(),
            server_lines: said.server_lines,
        };
        Self { info, guest: PhantomData }
    }
}

impl<G: Guest + 'static> Default for NativePolicy<G> {
    fn default() -> Self {
        Self::new()
    }
}

impl<G: Guest + 'static> Policy for NativePolicy<G> {
    fn info(&self) -> &PolicyInfo {
        &self.info
    }

    fn decide(&self, observed: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        let answer = guarded(|| G::decide(observed.clone()))?;
        if let Ok(plan) = &answer {
            answer::check(plan, observed).map_err(GuestError::PolicyOutputInvalid)?;
        }
        Ok(answer)
    }

    fn validate(&self, spec: &str, previous: &str) -> Result<Vec<Violation>, GuestError> {
        guarded(|| G::validate(spec.to_owned(), previous.to_owned()))
    }
}

/// A policy's functions have no state that a panic could leave half changed.
fn guarded<R>(call: impl FnOnce() -> R) -> Result<R, GuestError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        GuestError::PolicyTrapped(text.unwrap_or("a panic without a text").to_owned())
    })
}
