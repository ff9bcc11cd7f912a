//! `serve`: becomes the server.
//!
//! # Guarantees
//! - No credential is on disk, in arguments or in the environment, and no process of ours is left (but see [`crate::pipe`] for a
//!   configuration beyond 1 MiB).
//! - Without a complete configuration nothing starts; the container ends with code 1 and the kubelet tries again.
//!
//! # Assumptions
//! `valkey-server -` takes its whole configuration from stdin. It doesn't remember what was changed at run time, so each start
//! renders what the mounted files say by then.
//!
//! # Flow
//! 1. Read the files, render.
//! 2. Fill a pipe and put it on stdin.
//! 3. Environment: `PATH`, `TZ` and `LC_ALL=C` (an unknown locale ends servers of 8.1 and before). Data files are the server's alone.
//! 4. `exec`.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::Mode;

use crate::args::Serve;
use crate::files::{self, FileError};
use crate::pipe::{self, PipeError};
use crate::render::{self, Inputs, RenderError};

/// Why no server runs.
#[derive(Debug)]
pub(crate) enum ServeError {
    /// A mounted file.
    File(FileError),
    /// The content of one.
    Render(RenderError),
    /// `--data` isn't text that a configuration can hold.
    DataPathNotText(PathBuf),
    /// The way to the server.
    Pipe(PipeError),
    /// The server's binary can't be run.
    ServerNotStarted(PathBuf, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Render(error) => error.fmt(f),
            Self::DataPathNotText(path) => write!(f, "--data {}: not UTF-8", path.display()),
            Self::Pipe(error) => error.fmt(f),
            Self::ServerNotStarted(path, error) => {
                write!(f, "can't run {}: {error}; the image must hold a Valkey server there", path.display())
            }
        }
    }
}

/// Becomes the server. Comes back only to say why not.
///
/// # Errors
/// See [`ServeError`].
pub(crate) fn serve(start: &Serve) -> Result<(), ServeError> {
    let configuration = configuration(start)?;
    let stdin = pipe::filled(configuration.as_bytes()).map_err(ServeError::Pipe)?;
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let mut server = Command::new(&start.server);
    server.arg("-").stdin(Stdio::from(stdin)).env_clear().env("LC_ALL", "C");
    for name in ["PATH", "TZ"] {
        if let Some(value) = std::env::var_os(name) {
            server.env(name, value);
        }
    }
    Err(ServeError::ServerNotStarted(start.server.clone(), server.exec()))
}

fn configuration(start: &Serve) -> Result<String, ServeError> {
    let conf = files::text(&start.conf, "valkey.conf").map_err(ServeError::File)?;
    let word = files::text(&start.conf, &start.start_file).map_err(ServeError::File)?;
    let users = files::text(&start.accounts, "users.acl").map_err(ServeError::File)?;
    let replication = files::password(&start.accounts, "replication").map_err(ServeError::File)?;
    let data = start.data.to_str().ok_or_else(|| ServeError::DataPathNotText(start.data.clone()))?;
    let inputs =
        Inputs { conf: &conf, start: &word, users: &users, replication: &replication, ip: start.ip, port: start.port, data };
    render::render(&inputs).map_err(ServeError::Render)
}
