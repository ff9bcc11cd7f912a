//! Running programs.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};

use crate::Result;

/// How it ended: standard output if well.
///
/// # Errors
/// It can't be run, or ended with another code than 0: its standard error is in the message.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} can't be run"))?;
    finish(command, output)
}

/// The same with text on its standard input.
///
/// # Errors
/// As [`run`].
pub fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.with_context(|| format!("{command:?} can't be run"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).with_context(|| format!("{command:?} does not read its input"))?;
    }
    let output = child.wait_with_output().with_context(|| format!("{command:?} can't be waited for"))?;
    finish(command, output)
}

fn finish(command: &Command, output: Output) -> Result<String> {
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, errors.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
