//! What a policy author needs. A policy is one type with three functions, the same code natively (for tests) and as a component.
//!
//! # A whole policy
//! ```
//! use vko_sdk::planning::{Phase, Status};
//! use vko_sdk::{ModuleInfo, Observed, Plan, Policy, PolicyError, Violation, plan};
//!
//! struct Quiet;
//!
//! impl Policy for Quiet {
//!     fn describe() -> ModuleInfo {
//!         ModuleInfo {
//!             name: "quiet".into(),
//!             architecture: vko_sdk::common::Architecture::Replica,
//!             version: env!("CARGO_PKG_VERSION").into(),
//!             server_lines: vec!["9.1".into()],
//!             description: "Looks and asks for nothing.".into(),
//!         }
//!     }
//!     fn validate(_spec: String, _previous: String) -> Vec<Violation> {
//!         Vec::new()
//!     }
//!     fn decide(observed: Observed) -> Result<Plan, PolicyError> {
//!         vko_sdk::log::info(&format!("{} servers", observed.servers.len()));
//!         Ok(plan::holding(Status { phase: Phase::Ready, message: String::new(), conditions: vec![], details: "{}".into() }))
//!     }
//! }
//!
//! vko_sdk::export_policy!(Quiet);
//! ```
//! In `Cargo.toml` the crate stays a plain library; `cargo xtask guests` builds the component (it passes `--crate-type cdylib`
//! and `--features component`). A policy that other policies use as a library exports under that feature only:
//! `#[cfg(feature = "component")] vko_sdk::export_policy!(Quiet);`
//!
//! # What holds for every policy
//! 1. `decide` is a pure function of the observation: no clock (the time is `observed.now`), no randomness, no files, no network,
//!    no memory of earlier calls. Every call runs in fresh memory; what must be remembered is in the ledger and in `recent`.
//! 2. `Option::None` means unknown, and unknown is never no. A policy that isn't sure returns no tracks and says in `blocked`
//!    what it waits for; one that lacks a fact altogether returns [`PolicyError::Insufficient`], which is nobody's fault.
//! 3. A pod's UID is its identity; names and addresses are none. Every UID in a plan must be one of the observation.
//! 4. Each step says in `expects` what must still hold when it is sent. The host reads it again then, and drops the step
//!    otherwise.
//! 5. The host's guard recomputes the evidence for every dangerous step and refuses what it can't support. A refusal is in
//!    `recent`.
//! 6. Limits of a call: 64 MiB of memory, 1 s, an answer of 4 MiB, 16 KiB of log. Whoever passes one loses the call: the last
//!    good version of the policy governs that instance at once.
//! 7. Texts that the interface calls `json` must parse; `status.details` must be an object.
//!
//! # What is here
//! - the types of the boundary: [`common`], [`observation`], [`planning`], [`Policy`], [`ModuleInfo`];
//! - [`log`]: the only import; natively it writes into a capture that a test opened, or nowhere;
//! - [`facts`]: reads those that have no field of their own yet;
//! - [`lookup`]: finds pods, servers and claims; [`plan`]: builds plans and steps; [`slots`]: sets of slots as ranges; [`spec`]:
//!   reads JSON;
//! - [`export_policy!`](crate::export_policy): makes a component of a policy.
//!
//! None of it knows an architecture: what to do is the policy's own.

pub mod log;
pub mod lookup;
pub mod plan;
pub mod slots;
pub mod spec;

pub use vko_wit as wit;
pub use vko_wit::exports::valkey::policy::decisions::{Guest as Policy, ModuleInfo};
pub use vko_wit::observation::Observed;
pub use vko_wit::planning::{Plan, PolicyError, Violation};
pub use vko_wit::{common, facts, observation, planning};

/// Exports a [`Policy`] from a component. Natively it is nothing, so that a test binary can hold several policies.
///
/// Before each call it sets a panic hook that logs: on wasm32 the message of a panic is lost otherwise, the trap says only that
/// code was reached which should not be.
#[macro_export]
macro_rules! export_policy {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Exported;
            impl $crate::Policy for Exported {
                fn describe() -> $crate::ModuleInfo {
                    $crate::log::hook_panics();
                    <$policy as $crate::Policy>::describe()
                }
                fn validate(spec: String, previous: String) -> Vec<$crate::Violation> {
                    $crate::log::hook_panics();
                    <$policy as $crate::Policy>::validate(spec, previous)
                }
                fn decide(observed: $crate::Observed) -> Result<$crate::Plan, $crate::PolicyError> {
                    $crate::log::hook_panics();
                    <$policy as $crate::Policy>::decide(observed)
                }
            }
    $crate::wit::export!(Exported with_types_in $crate::wit);
        };
    };
}
