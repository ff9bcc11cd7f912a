//! What the tests are told by the environment; `./dev test` sets all of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::Result;

/// How much is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Every run: each subject on the newest line.
    Quick,
    /// Everything about a subject: all server lines, all crash points.
    Full,
    /// Hours.
    Soak,
}

/// The tier (`VKO_TIER`; quick when unset).
///
/// # Errors
/// Another word.
pub fn tier() -> Result<Tier> {
    match std::env::var("VKO_TIER").as_deref() {
        Ok("quick") | Err(_) => Ok(Tier::Quick),
        Ok("full") => Ok(Tier::Full),
        Ok("soak") => Ok(Tier::Soak),
        Ok(other) => bail!("VKO_TIER is {other:?}; use quick, full or soak"),
    }
}

/// Server lines of a subject: 9.1 in the quick tier, all of them otherwise.
///
/// # Errors
/// See [`tier`].
pub fn lines() -> Result<&'static [&'static str]> {
    Ok(if tier()? == Tier::Quick { &["9.1"] } else { &["9.1", "8.1", "7.2"] })
}

/// Server lines of what runs in the full tier only: none in the quick tier.
///
/// # Errors
/// See [`tier`].
pub fn full_lines() -> Result<&'static [&'static str]> {
    if tier()? == Tier::Quick {
        crate::skipped("full tier only")?;
        return Ok(&[]);
    }
    lines()
}

/// A path or word that must be given.
///
/// # Errors
/// It isn't.
pub fn required(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set; run the tests by ./dev test"))
}

/// Kubeconfig of the cluster under test.
///
/// # Errors
/// `KUBECONFIG` is not set.
pub fn kubeconfig() -> Result<PathBuf> {
    Ok(required("KUBECONFIG")?.into())
}

/// The test bed's folder, if the cluster under test is the test bed.
pub fn bed_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("TESTBED_DIR")?);
    (kubeconfig().ok()? == folder.join("run/kubeconfig")).then_some(folder)
}

/// This package's manifests.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests")
}
