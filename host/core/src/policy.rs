//! Policies as the core sees them: a pure function with a name, a version and a digest. `host/engine` implements it with
//! wasmtime; a native build implements it directly.

use std::sync::Arc;

use vko_wit::common::Architecture;
use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Violation};

/// What a policy says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyInfo {
    /// Name.
    pub name: String,
    /// Which kind of instance it decides for.
    pub architecture: Architecture,
    /// Semantic version of the policy.
    pub version: String,
    /// Lower-case SHA-256 of the component; `native` for a native build.
    pub digest: String,
    /// Server lines that it knows.
    pub server_lines: Vec<String>,
}

/// The ways a guest can fail. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// It trapped: a panic, an access out of bounds, an overflow of its stack.
    #[error("the policy trapped: {0}")]
    PolicyTrapped(String),
    /// It ran past its deadline.
    #[error("the policy did not answer within {0} ms")]
    PolicyDeadline(u64),
    /// It asked for more memory than it may have.
    #[error("the policy asked for more than {0} bytes of memory")]
    PolicyOutOfMemory(usize),
    /// Its answer is larger than the bound.
    #[error("the policy's answer is larger than {0} bytes")]
    PolicyOutputTooLarge(usize),
    /// Its answer isn't valid (text that is no JSON where JSON is promised, a reference to a pod that was not observed ...).
    #[error("the policy's answer is invalid: {0}")]
    PolicyOutputInvalid(String),
    /// It couldn't be instantiated or called.
    #[error("the policy could not be called: {0}")]
    PolicyNotCallable(String),
}

impl GuestError {
    /// The variant's name: metric label, event reason, condition reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PolicyTrapped(_) => "PolicyTrapped",
            Self::PolicyDeadline(_) => "PolicyDeadline",
            Self::PolicyOutOfMemory(_) => "PolicyOutOfMemory",
            Self::PolicyOutputTooLarge(_) => "PolicyOutputTooLarge",
            Self::PolicyOutputInvalid(_) => "PolicyOutputInvalid",
            Self::PolicyNotCallable(_) => "PolicyNotCallable",
        }
    }
}

/// Why a module was not admitted. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// The ConfigMap lacks a field, or a field is malformed.
    #[error("the policy's manifest is wrong: {0}")]
    PolicyManifestInvalid(String),
    /// The component isn't the one that the manifest names.
    #[error("the component's SHA-256 is {found}, the manifest says {expected}; pack it again with 'valkey-operator policy pack'")]
    PolicyDigestMismatch {
        /// By the manifest.
        expected: String,
        /// Of the bytes.
        found: String,
    },
    /// Not a component, or one that the engine can't compile.
    #[error("the module can't be compiled: {0}")]
    PolicyMalformed(String),
    /// Another interface, another import than `log`, other types.
    #[error("the module doesn't fit the interface: {0}")]
    PolicyInterfaceMismatch(String),
    /// `describe` failed, or says something else than the manifest.
    #[error("the module's description doesn't match its manifest: {0}")]
    PolicyDescriptionMismatch(String),
}

impl AdmitError {
    /// The variant's name: metric label, event reason, condition reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PolicyManifestInvalid(_) => "PolicyManifestInvalid",
            Self::PolicyDigestMismatch { .. } => "PolicyDigestMismatch",
            Self::PolicyMalformed(_) => "PolicyMalformed",
            Self::PolicyInterfaceMismatch(_) => "PolicyInterfaceMismatch",
            Self::PolicyDescriptionMismatch(_) => "PolicyDescriptionMismatch",
        }
    }
}

/// A policy that was admitted. Immutable and shareable; each call sees a fresh store, nothing leaks from call to call. Calls
/// block for up to the deadline: use `spawn_blocking` or a thread of one's own.
pub trait Policy: Send + Sync + 'static {
    /// Name, version, digest.
    fn info(&self) -> &PolicyInfo;
    /// The plan for an observation.
    ///
    /// # Errors
    /// The outer error is the guest's failure; the inner one is its own word (it holds, nobody's fault).
    fn decide(&self, observed: &Observed) -> Result<Result<Plan, PolicyError>, GuestError>;
    /// Errors and warnings in a spec.
    ///
    /// # Errors
    /// The guest's failure.
    fn validate(&self, spec: &str, previous: &str) -> Result<Vec<Violation>, GuestError>;
}

/// Admits modules: digest, bounded compile, interface, `describe`.
pub trait Admit: Send + Sync + 'static {
    /// Compiles a component and checks it; blocking.
    ///
    /// # Errors
    /// Says what is wrong with the module.
    fn admit(&self, expected: &Expected, component: &[u8]) -> Result<Arc<dyn Policy>, AdmitError>;

    /// Takes manifest and component out of a ConfigMap.
    ///
    /// # Errors
    /// Says what is missing or malformed.
    fn unpack(&self, config_map: &serde_json::Value) -> Result<(Expected, Vec<u8>), AdmitError>;
}

/// What a manifest promises of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Policy's name.
    pub name: String,
    /// Its architecture.
    pub architecture: Architecture,
    /// Its version.
    pub version: String,
    /// Lower-case SHA-256 of the component's bytes.
    pub sha256: String,
    /// Interface, as in [`vko_wit::INTERFACE`].
    pub interface: String,
}
