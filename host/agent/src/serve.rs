//! `serve`: becomes the server.
//!
//! # Guarantees
//! - No credential is on disk, in arguments or in the environment, and no process of ours is left (but see [`crate::pipe`] for a
//!   configuration beyond 1 MiB, and [`crate::sentinel`] for the file in memory that a Sentinel needs).
//! - Without a complete configuration nothing starts; the container ends with code 1 and the kubelet tries again.
//! - A node of a cluster doesn't start before nothing is lost by it ([`crate::hold`]).
//!
//! # Assumptions
//! `valkey-server -` takes its whole configuration from stdin. It doesn't remember what was changed at run time, so each start
//! renders what the mounted files say by then.
//!
//! # Flow
//! 1. Read the files, render. In a cluster: wait until it may start, and render again, since that may have taken long.
//! 2. Fill a pipe and put it on stdin; for a Sentinel, write the file beside the old one and rename it.
//! 3. Environment: `PATH`, `TZ` and `LC_ALL=C` (an unknown locale ends servers of 8.1 and before). Files are the server's alone.
//! 4. `exec`.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::Mode as FileMode;

use crate::args::{Mode, Serve};
use crate::files::{self, FileError};
use crate::hold::{self, Ended, HoldError};
use crate::pipe::{self, PipeError};
use crate::render::{self, Inputs, RenderError};
use crate::sentinel;

/// Why no server runs.
#[derive(Debug)]
pub(crate) enum ServeError {
    /// A mounted file.
    File(FileError),
    /// The content of one.
    Render(RenderError),
    /// `--data` isn't text that a configuration can hold.
    DataPathNotText(PathBuf),
    /// It can't be decided whether it may start.
    Hold(HoldError),
    /// The way to the server.
    Pipe(PipeError),
    /// A Sentinel's file.
    FileNotWritten(PathBuf, io::Error),
    /// The server's binary can't be run.
    ServerNotStarted(PathBuf, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Render(error) => error.fmt(f),
            Self::DataPathNotText(path) => write!(f, "--data {}: not UTF-8", path.display()),
            Self::Hold(error) => error.fmt(f),
            Self::Pipe(error) => error.fmt(f),
            Self::FileNotWritten(path, error) => write!(f, "can't write {}: {error}; check the pod's volumes", path.display()),
            Self::ServerNotStarted(path, error) => {
                write!(f, "can't run {}: {error}; the image must hold a Valkey server there", path.display())
            }
        }
    }
}

/// Becomes the server. Comes back only to say why not, or because the pod stops before the server could start.
///
/// # Errors
/// See [`ServeError`].
pub(crate) fn serve(start: &Serve) -> Result<(), ServeError> {
    rustix::process::umask(FileMode::RWXG | FileMode::RWXO);
    if start.mode == Mode::Sentinel {
        let file = sentinel_file(start)?;
        return become_server(start, Command::new(&start.server).arg(file).arg("--sentinel").stdin(Stdio::null()));
    }
    let mut configuration = configuration(start)?;
    if start.mode == Mode::Cluster {
        let conf = files::text(&start.conf, render::CONF).map_err(ServeError::File)?;
        if hold::until_safe(start, &conf).map_err(ServeError::Hold)? == Ended::Stop {
            return Ok(());
        }
        configuration = self::configuration(start)?;
    }
    let stdin = pipe::filled(configuration.as_bytes()).map_err(ServeError::Pipe)?;
    become_server(start, Command::new(&start.server).arg("-").stdin(Stdio::from(stdin)))
}

fn become_server(start: &Serve, server: &mut Command) -> Result<(), ServeError> {
    server.env_clear().env("LC_ALL", "C");
    for name in ["PATH", "TZ"] {
        if let Some(value) = std::env::var_os(name) {
            server.env(name, value);
        }
    }
    Err(ServeError::ServerNotStarted(start.server.clone(), server.exec()))
}

fn configuration(start: &Serve) -> Result<String, ServeError> {
    let read = |name: &str| files::text(&start.conf, name).map_err(ServeError::File);
    let conf = read(render::CONF)?;
    let how = match start.mode {
        Mode::Cluster => render::Start::Cluster,
        _ => render::parse_start(&read(&start.start_file)?).map_err(ServeError::Render)?,
    };
    let users = files::text(&start.accounts, "users.acl").map_err(ServeError::File)?;
    let replication = files::password(&start.accounts, "replication").map_err(ServeError::File)?;
    let data = data_path(start)?;
    let inputs =
        Inputs { conf: &conf, start: how, users: &users, replication: &replication, ip: start.ip, port: start.port, data };
    render::render(&inputs).map_err(ServeError::Render)
}

/// Writes a Sentinel's file, whole or not at all.
fn sentinel_file(start: &Serve) -> Result<PathBuf, ServeError> {
    let before = match files::text(&start.data, sentinel::CONF) {
        Err(FileError::FileUnreadable(_, error)) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other.map_err(ServeError::File)?,
    };
    let inputs = sentinel::Inputs {
        conf: &files::text(&start.conf, sentinel::CONF).map_err(ServeError::File)?,
        users: &files::text(&start.accounts, "users.acl").map_err(ServeError::File)?,
        password: &files::password(&start.accounts, "sentinel").map_err(ServeError::File)?,
        identity: &start.identity,
        ip: start.ip,
        port: start.port,
        data: data_path(start)?,
        before: &before,
    };
    let text = sentinel::render(&inputs).map_err(ServeError::Render)?;
    let path = start.data.join(sentinel::CONF);
    let beside = start.data.join(format!("{}.new", sentinel::CONF));
    let write = || {
        // One that was left half-written may be of another's making.
        let removed = fs::remove_file(&beside);
        if removed.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            return removed;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes()).and_then(|()| fs::rename(&beside, &path))
    };
    write().map_err(|error| ServeError::FileNotWritten(path.clone(), error))?;
    Ok(path)
}

fn data_path(start: &Serve) -> Result<&str, ServeError> {
    start.data.to_str().ok_or_else(|| ServeError::DataPathNotText(start.data.clone()))
}
