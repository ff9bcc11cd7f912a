//! The engine: settings of wasmtime, admission, and a component compiled once for each digest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use vko_core::policy::{Admit, AdmitError, Expected, Policy};
use wasmtime::{Config, OptLevel};

use crate::limits::COMPONENT_BYTES_MAX;
use crate::pack;
use crate::ticker::Ticker;
use crate::v0;

/// Admits components and runs them. Cheap to share; one for each process is enough.
pub struct Engine {
    runtime: Arc<Runtime>,
    /// Compiled components by digest, for as long as a policy made of them lives. The lock is held while one compiles, so that
    /// the same component never compiles twice side by side and compiling never takes more than one component's memory.
    compiled: Mutex<HashMap<String, Weak<v0::Compiled>>>,
    compilations: AtomicU64,
}

/// What every policy of an engine shares. It outlives the [`Engine`] for as long as one of its policies lives.
pub(crate) struct Runtime {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) ticker: Ticker,
    pub(crate) linker: v0::Linker,
}

/// Why there is no engine. The variant is the metric label and the reason in the log.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refuses these settings on this machine.
    #[error("the wasm engine can't be set up on this machine: {0}")]
    EngineUnavailable(String),
    /// The thread of the deadlines' clock can't be started.
    #[error("the thread that keeps policies' deadlines can't be started: {0}; raise the limit of threads")]
    EngineClockUnavailable(std::io::Error),
}

impl Engine {
    /// An engine with the limits of [`crate::limits`].
    ///
    /// # Errors
    /// The machine can't run wasm code, or can't start a thread.
    pub fn new() -> Result<Self, EngineError> {
        let unavailable = |error: wasmtime::Error| EngineError::EngineUnavailable(format!("{error:#}"));
        let engine = wasmtime::Engine::new(&config()).map_err(unavailable)?;
        let linker = v0::linker(&engine).map_err(unavailable)?;
        let ticker = Ticker::start(engine.weak()).map_err(EngineError::EngineClockUnavailable)?;
        Ok(Self {
            runtime: Arc::new(Runtime { engine, ticker, linker }),
            compiled: Mutex::default(),
            compilations: AtomicU64::new(0),
        })
    }

    /// What a component promises by itself, for packing it: its own description and its digest.
    ///
    /// # Errors
    /// It is too large, no component, or no policy of this interface.
    pub fn describe(&self, component: &[u8]) -> Result<Expected, AdmitError> {
        check_size(component)?;
        let sha256 = sha256(component);
        Ok(self.compile(&sha256, component)?.promise(sha256))
    }

    /// Admits a component by what it promises itself: one that is built in, or a file that nobody packed. It is compiled once
    /// (nothing compiled outlives a [`describe`](Self::describe) that nobody admits after).
    ///
    /// # Errors
    /// As [`describe`](Self::describe), and those of admission.
    pub fn admit_as_described(&self, component: &[u8]) -> Result<Arc<dyn Policy>, AdmitError> {
        check_size(component)?;
        let sha256 = sha256(component);
        let compiled = self.compile(&sha256, component)?;
        let expected = compiled.promise(sha256);
        Ok(Arc::new(v0::ComponentPolicy::new(Arc::clone(&self.runtime), compiled, &expected)?))
    }

    /// How often this engine compiled a component.
    pub fn compilations(&self) -> u64 {
        self.compilations.load(Ordering::Relaxed)
    }

    fn compile(&self, digest: &str, component: &[u8]) -> Result<Arc<v0::Compiled>, AdmitError> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.retain(|_, component| component.strong_count() > 0);
        if let Some(known) = compiled.get(digest).and_then(Weak::upgrade) {
            return Ok(known);
        }
        self.compilations.fetch_add(1, Ordering::Relaxed);
        let new = Arc::new(v0::compile(&self.runtime, component)?);
        compiled.insert(digest.to_owned(), Arc::downgrade(&new));
        Ok(new)
    }
}

impl Admit for Engine {
    fn admit(&self, expected: &Expected, component: &[u8]) -> Result<Arc<dyn Policy>, AdmitError> {
        if expected.interface != vko_wit::INTERFACE {
            let (theirs, ours) = (&expected.interface, vko_wit::INTERFACE);
            let text = format!("it is made for '{theirs}', this operator speaks '{ours}'; build it against that version");
            return Err(AdmitError::PolicyInterfaceMismatch(text));
        }
        check_size(component)?;
        let found = sha256(component);
        if found != expected.sha256 {
            return Err(AdmitError::PolicyDigestMismatch { expected: expected.sha256.clone(), found });
        }
        let compiled = self.compile(&found, component)?;
        let policy = v0::ComponentPolicy::new(Arc::clone(&self.runtime), compiled, expected)?;
        Ok(Arc::new(policy))
    }

    fn unpack(&self, config_map: &serde_json::Value) -> Result<(Expected, Vec<u8>), AdmitError> {
        pack::unpack(config_map)
    }
}

fn check_size(component: &[u8]) -> Result<(), AdmitError> {
    if component.len() <= COMPONENT_BYTES_MAX {
        return Ok(());
    }
    let text = format!("{} bytes, at most {COMPONENT_BYTES_MAX}; build it with opt-level \"s\", lto and strip", component.len());
    Err(AdmitError::PolicyMalformed(text))
}

fn config() -> Config {
    let mut config = Config::new();
    config
        // A deadline by the clock. Fuel would count instructions too, at 6 to 28 % of every call.
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(true)
        // Policies are stripped, so frames have no names; the panic hook says where it was.
        .wasm_backtrace_max_frames(None)
        // One answer for one observation on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        // What no compiler asks for by default is off: less to trust.
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_tail_call(false);
    config
}

/// Lower-case SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
