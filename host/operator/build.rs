//! Embeds the built-in policies: components that `cargo xtask guests` has built. With the feature `native` nothing is embedded and the
//! policies' native builds take their place.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=VKO_GUESTS");
    if env::var_os("CARGO_FEATURE_NATIVE").is_some() {
        return;
    }
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    match component(&out) {
        Some(from) => {
            println!("cargo::rerun-if-changed={}", from.display());
            if let Err(error) = fs::copy(&from, out.join("replica.wasm")) {
                println!("cargo::error=the built-in policy {} can't be copied: {error}", from.display());
            }
        }
        None => println!(
            "cargo::error=the built-in policies are not built: run 'cargo xtask guests' first (or build with --features native)"
        ),
    }
}

/// Where `cargo xtask guests` puts it: the folder that VKO_GUESTS names, else `guests` in the target folder.
fn component(out: &Path) -> Option<PathBuf> {
    let named = env::var_os("VKO_GUESTS").map(PathBuf::from);
    let beside = out.ancestors().map(|folder| folder.join("guests"));
    named.into_iter().chain(beside).map(|folder| folder.join("vko-replica.wasm")).find(|file| file.is_file())
}
