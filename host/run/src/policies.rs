//! The policies: those that are built in, and who admits others.

use std::sync::Arc;

use vko_core::policy::{Admit, AdmitError, Policy};
use vko_engine::{Engine, EngineError};

/// Why there are no policies.
#[derive(Debug, thiserror::Error)]
pub enum PoliciesError {
    /// The engine doesn't start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A broken build.
    #[error("the built-in {policy} policy was not admitted: {error}; build the operator anew")]
    BuiltInRefused {
        /// Which.
        policy: &'static str,
        /// Why.
        error: AdmitError,
    },
}

/// What decides.
#[derive(Clone)]
pub struct Policies {
    /// The built-in ones.
    pub built_in: Vec<Arc<dyn Policy>>,
    /// Who admits others.
    pub admit: Arc<dyn Admit>,
}

impl Policies {
    /// The built-in ones, ready to decide. Compiling blocks: call it where that is allowed.
    ///
    /// # Errors
    /// The engine doesn't start, or a built-in is broken.
    pub fn built_in() -> Result<Self, PoliciesError> {
        let engine = Engine::new()?;
        Ok(Self { built_in: built_in(&engine)?, admit: Arc::new(engine) })
    }
}

#[cfg(not(feature = "native"))]
fn built_in(engine: &Engine) -> Result<Vec<Arc<dyn Policy>>, PoliciesError> {
    let components: [(&str, &[u8]); 3] = [
        ("replica", include_bytes!(concat!(env!("OUT_DIR"), "/replica.wasm"))),
        ("failover", include_bytes!(concat!(env!("OUT_DIR"), "/failover.wasm"))),
        ("cluster", include_bytes!(concat!(env!("OUT_DIR"), "/cluster.wasm"))),
    ];
    let admit = |(policy, component): (&'static str, &[u8])| {
        let admitted = engine.admit_as_described(component);
        admitted.map_err(|error| PoliciesError::BuiltInRefused { policy, error })
    };
    components.into_iter().map(admit).collect()
}

#[cfg(feature = "native")]
fn built_in(_: &Engine) -> Result<Vec<Arc<dyn Policy>>, PoliciesError> {
    Ok(vec![
        Arc::new(vko_engine::NativePolicy::<vko_replica::ReplicaPolicy>::new()),
        Arc::new(vko_engine::NativePolicy::<vko_failover::FailoverPolicy>::new()),
        Arc::new(vko_engine::NativePolicy::<vko_cluster::ClusterPolicy>::new()),
    ])
}
