//! `local`: becomes the program that is the operator on one machine. It lies beside this one, and not in images.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

/// Its name.
const PROGRAM: &str = "valkey-operator-local";

/// Becomes it; comes back only to say why not.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program's folder isn't known")?.with_file_name(PROGRAM);
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("{} can't be run; './dev build' makes it, images don't hold it", program.display()))
}
