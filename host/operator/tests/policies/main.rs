//! `policy new`, `test` and `replay`, by the binary: what authors of policies see. Components come from `cargo xtask guests`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod conformance;
mod guide;
mod replay;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const OPERATOR: &str = env!("CARGO_BIN_EXE_valkey-operator");

/// What a command said and how it ended.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

fn operator(arguments: &[&str]) -> Said {
    Command::new(OPERATOR).arg("policy").args(arguments).output().unwrap().into()
}

/// A component that is built.
fn component(package: &str) -> String {
    let folder = std::env::var_os("VKO_GUESTS").map(PathBuf::from).unwrap_or_else(|| {
        let target = Path::new(OPERATOR).ancestors().find(|folder| folder.join("guests").is_dir());
        target.expect("no components: run 'cargo xtask guests' first").join("guests")
    });
    let file = folder.join(format!("{package}.wasm"));
    assert!(file.is_file(), "{} isn't there: run 'cargo xtask guests' first", file.display());
    file.display().to_string()
}

/// A folder of a test's own; what an earlier run left is gone.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
