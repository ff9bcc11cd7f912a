//! The built-in policies.

use std::sync::Arc;

use vko_core::policy::Policy;
use vko_engine::Engine;

/// The built-in policies, compiled.
///
/// # Errors
/// A built-in that doesn't compile is a broken build.
#[cfg(not(feature = "native"))]
pub(crate) fn built_in(engine: &Engine) -> anyhow::Result<Vec<Arc<dyn Policy>>> {
    use anyhow::Context;
    use vko_core::policy::Admit;

    let component = include_bytes!(concat!(env!("OUT_DIR"), "/replica.wasm"));
    let expected = engine.describe(component).context("the built-in replica policy can't be read")?;
    Ok(vec![engine.admit(&expected, component).context("the built-in replica policy was not admitted")?])
}

/// The built-in policies' native builds.
///
/// # Errors
/// None; the form is that of the other build.
#[cfg(feature = "native")]
pub(crate) fn built_in(_: &Engine) -> anyhow::Result<Vec<Arc<dyn Policy>>> {
    Ok(vec![Arc::new(vko_engine::NativePolicy::<vko_replica::ReplicaPolicy>::new())])
}
