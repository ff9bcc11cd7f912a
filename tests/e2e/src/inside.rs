//! A client inside a node, beside the server that the fault leaves alone with it.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

use crate::server::Login;
use crate::{Result, settings};

/// A running client.
#[derive(Debug)]
pub struct Inside {
    child: Child,
}

/// What it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Acknowledged writes.
    pub acks: u64,
    /// When the last of them was acknowledged, in Unix milliseconds.
    pub last_unix_ms: u64,
    /// Failed requests.
    pub errors: u64,
}

impl Inside {
    /// Starts it on a node. `program`: the `vko-writer` that cargo built with the test.
    ///
    /// # Errors
    /// It can't be run.
    pub fn start(program: &str, node: &str, login: &Login) -> Result<Self> {
        let mut command = Command::new(settings::required("VKO_TESTBED")?);
        command.args(["exec", node, program, &login.address.to_string()]).env("VKO_PASSWORD", &login.password);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("no client inside the node")?;
        Ok(Self { child })
    }

    /// Stops it by closing its standard input.
    ///
    /// # Errors
    /// It ended before, or said something else.
    pub fn stop(mut self) -> Result<Told> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.child.stdout.take().context("no output")?.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match numbers.as_slice() {
            [acks, last_unix_ms, errors] if status.success() => {
                Ok(Told { acks: *acks, last_unix_ms: *last_unix_ms, errors: *errors })
            }
            _ => bail!("the client inside the node ended with {status}: {text:?}"),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Ends by itself when its standard input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Now, on the wall clock that both clients share.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
