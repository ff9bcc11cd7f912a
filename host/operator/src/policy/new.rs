//! `policy new`: a folder to begin a policy in. What it holds is `guests/examples/template`, which the tests of this repository
//! keep whole, with a manifest of its own.
//!
//! # Guarantees
//! Nothing that is there is overwritten.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::args::NewOptions;

const CODE: &str = include_str!("../../../../guests/examples/template/src/lib.rs");
/// Of the workspace: its profile for policies is the new crate's, too.
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");
const IGNORED: &str = "/target\n/*.wasm\n";
/// A crate's name and a ConfigMap's at once.
const NAME_MAX: usize = 63;

/// Makes the folder, in the working folder.
pub(super) fn write(options: &NewOptions) -> anyhow::Result<()> {
    let name = options.name.as_str();
    check(name)?;
    let folder = Path::new(name);
    let shown = options.checkout.display();
    let checkout = options.checkout.canonicalize().with_context(|| format!("the clone {shown} isn't there"))?;
    ensure!(checkout.join("guests/sdk/Cargo.toml").is_file(), "{shown} is no clone of this repository: it has no guests/sdk");
    ensure!(!folder.exists(), "{name} exists already; nothing was written");
    std::fs::create_dir_all(folder.join("src")).with_context(|| format!("{name} can't be made"))?;
    // The versions that this operator's own policies were built with.
    let lock = std::fs::read_to_string(checkout.join("Cargo.lock")).with_context(|| format!("{shown} has no Cargo.lock"))?;
    let manifest = manifest(name, &checkout);
    for (file, text) in [("Cargo.toml", &*manifest), ("Cargo.lock", &*lock), ("src/lib.rs", CODE), (".gitignore", IGNORED)] {
        std::fs::write(folder.join(file), text).with_context(|| format!("{name}/{file} can't be written"))?;
    }
    println!("{name}/: a policy of the replica architecture; src/lib.rs says what it does. Next: docs/policies.md");
    Ok(())
}

fn check(name: &str) -> anyhow::Result<()> {
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let good = letters && name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.ends_with('-');
    ensure!(good && name.len() <= NAME_MAX, "'{name}' is no name for a policy: use small letters, digits and dashes");
    Ok(())
}

fn manifest(name: &str, checkout: &Path) -> String {
    let guests = checkout.join("guests").display().to_string();
    let profile = WORKSPACE.split("[profile.guest]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default().trim();
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
vko-sdk = {{ path = "{guests}/sdk" }}
vko-replica = {{ path = "{guests}/replica" }}

[dev-dependencies]
vko-replica = {{ path = "{guests}/replica", features = ["testing"] }}

[features]
# Exports the policy when built for wasm32.
component = []

# Small, because a ConfigMap holds 1 MiB.
[profile.guest]
{profile}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_crates_and_config_maps() {
        for name in ["steady", "zone-averse-2", "a"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in ["", "Steady", "2nd", "a_b", "a-", "-a", "../a", "a/b", &"a".repeat(NAME_MAX + 1)] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_profile_is_that_of_built_in_policies() {
        let manifest = manifest("steady", Path::new("/repo"));
        for expected in ["name = \"steady\"", "path = \"/repo/guests/sdk\"", "inherits = \"release\"", "opt-level = \"s\""] {
            assert!(manifest.contains(expected), "{expected}: {manifest}");
        }
    }
}
