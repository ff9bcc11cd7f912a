//! The cargo that can build for wasm32, as `xtask/wasm-toolchain.sh` finds or makes it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// What the script says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// The cargo to call.
    pub(crate) cargo: PathBuf,
    /// Key of compiler and std: each has a target folder of its own.
    pub(crate) key: String,
    /// Prefix of std's source paths, to be remapped; empty when there is none.
    pub(crate) std_source: String,
}

impl Toolchain {
    /// Runs the script; the first time on a machine it may download and build for minutes, which it tells on stderr.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self> {
        let script = workspace.root.join("xtask/wasm-toolchain.sh");
        // Its own rustc decides, not the one that runs this xtask: RUSTUP_TOOLCHAIN of a `cargo +nightly xtask` is kept.
        let output = Command::new(&script)
            .current_dir(&workspace.root)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("{} can't be run", script.display()))?;
        ensure!(output.status.success(), "{} failed; its last line says why", script.display());
        parse(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Reads `export NAME='value' NAME='value' ...`.
fn parse(text: &str) -> Result<Toolchain> {
    let value = |name: &str| {
        let start = text.find(&format!(" {name}='")).with_context(|| format!("wasm-toolchain.sh did not print {name}"))?;
        let rest = &text[start + name.len() + 3..];
        let end = rest.find('\'').with_context(|| format!("wasm-toolchain.sh did not close {name}"))?;
        Ok::<_, anyhow::Error>(rest[..end].to_owned())
    };
    Ok(Toolchain { cargo: value("WASM_CARGO")?.into(), key: value("WASM_TOOLCHAIN")?, std_source: value("WASM_STD_SRC")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_line_is_read() {
        let text = "export WASM_CARGO='/c/cargo' WASM_TOOLCHAIN='0123' WASM_STD_SRC=''\n";
        let expected = Toolchain { cargo: "/c/cargo".into(), key: "0123".into(), std_source: String::new() };
        assert_eq!(parse(text).ok(), Some(expected));
    }

    #[test]
    fn a_line_that_lacks_something_is_named() {
        for (text, lacks) in
            [("", "WASM_CARGO"), ("export WASM_CARGO='x'", "WASM_TOOLCHAIN"), ("export WASM_CARGO='x", "close WASM_CARGO")]
        {
            let error = parse(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(lacks), "{text}: {error}");
        }
    }
}
