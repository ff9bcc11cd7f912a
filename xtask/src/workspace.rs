//! What cargo says of this workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The workspace that `cargo xtask` was called in.
pub(crate) struct Workspace {
    /// Folder of the top `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// Its own packages.
    pub(crate) packages: Vec<Package>,
}

/// A package with what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Name.
    pub(crate) name: String,
    /// Folder within the workspace, with `/` between the parts.
    pub(crate) folder: String,
    /// Names of its normal and build dependencies, each with the features that this package asks for.
    pub(crate) dependencies: Vec<(String, Vec<String>)>,
    /// Whether it takes the workspace's lints as they are.
    pub(crate) inherits_lints: bool,
}

impl Workspace {
    /// Asks cargo. The folder comes from the environment of this run, not of this build: clones may share a target folder.
    pub(crate) fn load() -> Result<Self> {
        Self::of(Path::new("."))
    }

    /// The workspace around another folder.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let output = cargo()
            .current_dir(folder)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("cargo metadata can't be run")?;
        ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata wrote no JSON")?;
        let path = |key: &str| metadata[key].as_str().map(PathBuf::from).with_context(|| format!("cargo metadata has no {key}"));
        let root = path("workspace_root")?;
        let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let packages = packages.iter().map(|package| read_package(package, &root)).collect::<Result<_>>()?;
        Ok(Self { target: path("target_directory")?, root, packages })
    }
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn read_package(package: &Value, root: &Path) -> Result<Package> {
    let name = package["name"].as_str().context("a package without a name")?.to_owned();
    let manifest = PathBuf::from(package["manifest_path"].as_str().context("a package without a manifest")?);
    let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root).ok());
    let folder = folder.with_context(|| format!("{name} lies outside the workspace"))?.to_string_lossy().replace('\\', "/");
    let text = std::fs::read_to_string(&manifest).with_context(|| format!("{} can't be read", manifest.display()))?;
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let dependencies = dependencies.iter().filter(|dependency| dependency["kind"].as_str() != Some("dev"));
    let dependencies = dependencies.map(|dependency| {
        let features = dependency["features"].as_array().map(Vec::as_slice).unwrap_or_default();
        let features = features.iter().filter_map(|feature| feature.as_str().map(String::from)).collect();
        (dependency["name"].as_str().unwrap_or_default().to_owned(), features)
    });
    Ok(Package { name, folder, dependencies: dependencies.collect(), inherits_lints: text.contains("[lints]\nworkspace = true") })
}
