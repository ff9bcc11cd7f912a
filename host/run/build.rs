//! Embeds the built-in policies: components that `cargo xtask guests` has built. With the feature `native` nothing is embedded
//! and the policies' native builds take their place.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The built-in policies, one for each architecture.
const POLICIES: [&str; 3] = ["replica", "failover", "cluster"];

fn main() {
    println!("cargo::rerun-if-env-changed=VKO_GUESTS");
    if env::var_os("CARGO_FEATURE_NATIVE").is_some() {
        return;
    }
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    for policy in POLICIES {
        embed(policy, &out);
    }
}

fn embed(policy: &str, out: &Path) {
    let Some(from) = component(policy, out) else {
        println!(
            "cargo::error=the built-in policy '{policy}' is not built: run 'cargo xtask guests' first (or build with --features vko-run/native)"
        );
        return;
    };
    println!("cargo::rerun-if-changed={}", from.display());
    if let Err(error) = fs::copy(&from, out.join(format!("{policy}.wasm"))) {
        println!("cargo::error=the built-in policy {} can't be copied: {error}", from.display());
    }
}

/// Where `cargo xtask guests` puts it: the folder that VKO_GUESTS names, else `guests` in the target folder.
fn component(policy: &str, out: &Path) -> Option<PathBuf> {
    let named = env::var_os("VKO_GUESTS").map(PathBuf::from);
    let beside = out.ancestors().map(|folder| folder.join("guests"));
    named.into_iter().chain(beside).map(|folder| folder.join(format!("vko-{policy}.wasm"))).find(|file| file.is_file())
}
