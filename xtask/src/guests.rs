//! Builds policies as components.
//!
//! # Guarantees
//! 1. The same sources, compiler and std give the same bytes in every clone: all paths in them are remapped.
//! 2. A file is replaced as a whole, and only when its bytes changed, so that what embeds it is rebuilt only then.
//!
//! # Assumptions
//! A policy is a library with a feature `component`; nothing else in its manifest speaks of wasm, so the same crate is a library
//! of other policies and of tests.
//!
//! # Flow, for each package
//! 1. `cargo rustc --crate-type cdylib --features component` for wasm32 in the profile `guest` makes a core module.
//! 2. wit-component makes a component of it and validates it.
//! 3. The component goes to `<target>/guests/<package>.wasm`, or, of a crate outside this workspace, into its folder; size and
//!    SHA-256 are printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// The policies of this repository.
const PACKAGES: [&str; 5] = ["vko-replica", "vko-failover", "vko-cluster", "vko-misbehave", "vko-zone-averse"];
const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "guest";

/// What is built.
struct Crate {
    name: String,
    /// Of its manifest.
    folder: PathBuf,
    /// Where its component goes.
    into: PathBuf,
}

/// Builds these policies, or all of this repository. Each is a package of the workspace, or the folder of a crate outside it.
pub(crate) fn build(workspace: &Workspace, policies: &[&str]) -> Result<()> {
    let toolchain = Toolchain::find(workspace)?;
    let policies = if policies.is_empty() { &PACKAGES } else { policies };
    for policy in policies.iter().map(|named| find(workspace, named)) {
        let policy = policy?;
        let module = compile(workspace, &toolchain, &policy)?;
        let module = std::fs::read(&module).with_context(|| format!("{} can't be read", module.display()))?;
        let component =
            encode(&module).with_context(|| format!("{} can't be made a component; does it export a policy?", policy.name))?;
        std::fs::create_dir_all(&policy.into).with_context(|| format!("{} can't be made", policy.into.display()))?;
        let file = policy.into.join(format!("{}.wasm", policy.name));
        let changed = replace(&file, &component)?;
        let news = if changed { "new" } else { "unchanged" };
        println!("{:>8} bytes  sha256 {}  {} ({news})", component.len(), sha256(&component), file.display());
    }
    Ok(())
}

fn find(workspace: &Workspace, named: &str) -> Result<Crate> {
    if !named.contains('/') {
        return Ok(Crate { name: named.into(), folder: workspace.root.clone(), into: workspace.target.join("guests") });
    }
    let folder = Path::new(named).canonicalize().with_context(|| format!("the folder {named} isn't there"))?;
    let outside = Workspace::of(&folder).with_context(|| format!("{named} is no crate"))?;
    let package = outside.packages.first().filter(|_| outside.packages.len() == 1);
    let name = package.with_context(|| format!("{named} is no single crate"))?.name.clone();
    Ok(Crate { name, into: folder.clone(), folder })
}

fn compile(workspace: &Workspace, toolchain: &Toolchain, policy: &Crate) -> Result<PathBuf> {
    // Of its own for each std: cargo doesn't notice a changed sysroot of the same compiler version.
    let target = workspace.target.join(format!("guests-{}", toolchain.key));
    let status = Command::new(&toolchain.cargo)
        .current_dir(&policy.folder)
        .args(["rustc", "--quiet", "--package", &policy.name, "--lib", "--crate-type", "cdylib", "--features", "component"])
        .args(["--target", TARGET, "--profile", PROFILE, "--target-dir"])
        .arg(&target)
        // Flags for the host would take the place of these.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", remaps(workspace, toolchain)?)
        .status()
        .with_context(|| format!("{} can't be run", toolchain.cargo.display()))?;
    ensure!(status.success(), "the build of {} for {TARGET} failed, see above", policy.name);
    Ok(target.join(TARGET).join(PROFILE).join(format!("{}.wasm", policy.name.replace('-', "_"))))
}

/// Paths in panic messages would say where a clone lies, and make its bytes differ.
fn remaps(workspace: &Workspace, toolchain: &Toolchain) -> Result<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let registry = home.context("neither CARGO_HOME nor a home folder is set")?.join("registry/src");
    let mut pairs = vec![(workspace.root.display().to_string(), "/policies"), (registry.display().to_string(), "/registry")];
    if !toolchain.std_source.is_empty() {
        pairs.push((toolchain.std_source.clone(), "/rust"));
    }
    for (path, _) in &pairs {
        ensure!(
            !path.contains(char::is_whitespace),
            "'{path}' holds white space, which compiler flags can't; use another folder"
        );
    }
    Ok(pairs.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect::<Vec<_>>().join(" "))
}

fn encode(module: &[u8]) -> Result<Vec<u8>> {
    wit_component::ComponentEncoder::default().validate(true).module(module)?.encode()
}

/// Whether it had to.
fn replace(file: &Path, bytes: &[u8]) -> Result<bool> {
    if std::fs::read(file).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let temporary = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&temporary, bytes).with_context(|| format!("{} can't be written", temporary.display()))?;
    std::fs::rename(&temporary, file).with_context(|| format!("{} can't be replaced", file.display()))?;
    Ok(true)
}

fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
