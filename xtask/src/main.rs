//! The project's own build steps: `cargo xtask guests | convert | crds | check | tests`. Each says what it did; with `--check` it
//! changes nothing and fails when a generated file is stale.
//!
//! It runs in the dev profile and knows neither wasmtime nor a cluster, so that it is there within seconds of a fresh clone.

mod convert;
mod crds;
mod dependencies;
mod guests;
mod tests;
mod text;
mod toolchain;
mod workspace;

use anyhow::{Result, bail};
use workspace::Workspace;

const USAGE: &str = "usage: cargo xtask COMMAND
  guests [PACKAGE...]  build the policies as components (all without names) into <target>/guests
  guests FOLDER        the same with a policy's crate outside this workspace, into its folder (./ or /path)
  convert [--check]    generate the conversions between the boundary's types and wasmtime's
  crds [--check]       generate the custom resource definitions, for crds/ and the chart
  tests N ARG...       what 'cargo test ARG...' runs, N executables at once
  check                everything generated is fresh; the architecture's and the text's rules hold";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let workspace = Workspace::load()?;
    match words.as_slice() {
        ["guests", packages @ ..] => guests::build(&workspace, packages),
        ["convert"] => convert::write(&workspace, false),
        ["convert", "--check"] => convert::write(&workspace, true),
        ["crds"] => crds::write(false),
        ["crds", "--check"] => crds::write(true),
        ["tests", at_once, selection @ ..] => tests::run(&workspace, at_once, selection),
        ["check"] => check(&workspace),
        _ => bail!("{USAGE}"),
    }
}

/// All rules, so that one run names all that is wrong.
fn check(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for fresh in [convert::write(workspace, true), crds::write(true)] {
        wrong.extend(fresh.err().map(|error| format!("{error:#}")));
    }
    wrong.extend(dependencies::violations(&workspace.packages));
    wrong.extend(text::violations(workspace)?);
    if wrong.is_empty() {
        println!("check: {} packages and the text of all files keep the rules", workspace.packages.len());
        return Ok(());
    }
    bail!("{} rules broken:\n  {}", wrong.len(), wrong.join("\n  "))
}
