//! The scenes of `policy test`: those that the tests of the built-in policies are made of.

use anyhow::Context;
use vko_core::trial::conformance::{Need, Scene};
use vko_replica::testing as shown;
use vko_wit::common::{Architecture, Pair};

/// The scenes of an architecture, each with these annotations on its instance.
///
/// # Errors
/// An annotation isn't `KEY=VALUE`, or its key is none that policies see.
pub(super) fn scenes(architecture: Architecture, annotations: &[String]) -> anyhow::Result<Vec<Scene>> {
    let pairs = annotations.iter().map(|text| pair(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let exhibits = match architecture {
        Architecture::Replica => shown::gallery(),
        Architecture::Failover => vko_failover::testing::gallery(),
        Architecture::Cluster => vko_cluster::testing::gallery(),
    };
    let scene = |exhibit: shown::Exhibit| {
        let mut observed = exhibit.observed;
        observed.instance.annotations.extend(pairs.iter().cloned());
        Scene { name: exhibit.name, observed, need: need(exhibit.need) }
    };
    Ok(exhibits.into_iter().map(scene).collect())
}

fn need(need: shown::Need) -> Need {
    match need {
        shown::Need::Safety => Need::Safety,
        shown::Need::Rest => Need::Rest,
        shown::Need::Act => Need::Act,
    }
}

fn pair(text: &str) -> anyhow::Result<Pair> {
    let (key, value) = text.split_once('=').with_context(|| format!("'{text}' is no annotation: write KEY=VALUE"))?;
    let seen = key.split_once('/').is_some_and(|(domain, _)| domain == "buf.red" || domain.ends_with(".buf.red"));
    anyhow::ensure!(seen, "the annotation '{key}' is none that a policy sees: those under buf.red are observed");
    Ok(Pair { key: key.into(), value: value.into() })
}
