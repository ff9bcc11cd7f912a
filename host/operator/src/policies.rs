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

    let components: [(&str, &[u8]); 3] = [
        ("replica", include_bytes!(concat!(env!("OUT_DIR"), "/replica.wasm"))),
        ("failover", include_bytes!(concat!(env!("OUT_DIR"), "/failover.wasm"))),
        ("cluster", include_bytes!(concat!(env!("OUT_DIR"), "/cluster.wasm"))),
    ];
    let admit = |(name, component): (&str, &[u8])| {
        let expected = engine.describe(component).with_context(|| format!("the built-in {name} policy can't be read"))?;
        engine.admit(&expected, component).with_context(|| format!("the built-in {name} policy was not admitted"))
    };
    components.into_iter().map(admit).collect()
}

/// The built-in policies' native builds.
///
/// # Errors
/// None; the form is that of the other build.
#[cfg(feature = "native")]
pub(crate) fn built_in(_: &Engine) -> anyhow::Result<Vec<Arc<dyn Policy>>> {
    Ok(vec![
        Arc::new(vko_engine::NativePolicy::<vko_replica::ReplicaPolicy>::new()),
        Arc::new(vko_engine::NativePolicy::<vko_failover::FailoverPolicy>::new()),
        Arc::new(vko_engine::NativePolicy::<vko_cluster::ClusterPolicy>::new()),
    ])
}
