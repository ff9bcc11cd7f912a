//! `probe live` and `probe ready`.
//!
//! # Guarantees
//! - Live: the process answers. Any answer counts, also an error: a server that loads, syncs, follows nobody, runs a long script
//!   or refuses our login must not be restarted for it.
//! - Ready: it is the primary, or has been synced in this run of the process; and it isn't loading. A synced replica stays ready
//!   when its primary is lost: losing the primary must not empty the read-only Service. A primary of a cluster is ready only
//!   while the cluster is (`cluster_state`); a server whose start is held back is alive and not ready.
//! - A Sentinel is ready when it answers a login: what it knows is the operator's concern.
//!
//! # Assumptions
//! `--run` outlives a restart of the container (a memory volume of the pod). The note in it holds a run id, which each process
//! draws anew, so a note of an earlier process counts for nothing.
//!
//! # Flow (ready)
//! 1. One connection: AUTH, `INFO server replication persistence`, in a cluster `CLUSTER INFO`; of a Sentinel only `PING`.
//! 2. [`decide`]: by the fields and the note.
//! 3. Synced for the first time: write the note, whole, before saying ready.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::args::{Mode, Probe, local_address};
use crate::files::{self, FileError};
use crate::info;
use crate::resp::{self, Reply, RespError};

/// The account.
const USER: &str = "probe";
/// Name of the note.
const NOTE: &str = "synced";

/// Why a probe says no.
#[derive(Debug)]
pub(crate) enum ProbeError {
    /// The password's file.
    File(FileError),
    /// No answer.
    Server(RespError),
    /// An answer, and it isn't ready.
    NotReady(NotReady),
    /// The note that it has been synced can't be written. Said at once, because without it readiness would end with the first
    /// lost link.
    NoteNotWritten(PathBuf, io::Error),
}

/// Why a server isn't ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// It loads its data set.
    Loading,
    /// It waits to be told whom to follow.
    FollowsNobody,
    /// A replica that hasn't been synced since the process started.
    NotSynced,
    /// A primary in a cluster that isn't whole, or that it can't reach a majority of.
    ClusterDown,
    /// INFO lacks this field.
    FieldMissing(&'static str),
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Server(error @ RespError::Held(..)) => write!(f, "not ready: {error}"),
            Self::Server(error) => error.fmt(f),
            Self::NotReady(NotReady::Loading) => f.write_str("not ready: loading its data set"),
            Self::NotReady(NotReady::FollowsNobody) => {
                f.write_str("not ready: follows nobody until the operator names the primary")
            }
            Self::NotReady(NotReady::NotSynced) => f.write_str("not ready: a replica that hasn't been synced in this run yet"),
            Self::NotReady(NotReady::ClusterDown) => {
                f.write_str("not ready: a primary that sees the cluster as failed (cluster_state), and so refuses commands")
            }
            Self::NotReady(NotReady::FieldMissing(name)) => write!(f, "not ready: INFO has no '{name}'"),
            Self::NoteNotWritten(path, error) => {
                write!(f, "not ready: can't write {}: {error}; check the pod's volumes", path.display())
            }
        }
    }
}

/// Says that a server is ready.
#[derive(Debug, PartialEq, Eq)]
enum Ready<'a> {
    /// As it was.
    Still,
    /// Synced, and not noted yet: note this run id.
    Synced(&'a str),
}

/// Whether the process answers.
///
/// # Errors
/// It doesn't.
pub(crate) fn live(probe: &Probe) -> Result<(), ProbeError> {
    let server = SocketAddr::new(local_address(probe.ip), probe.port);
    let deadline = Instant::now() + probe.timeout;
    // Without the password it is NOAUTH that we hear: an answer as good as any.
    let replies = match files::password(&probe.accounts, USER) {
        Ok(password) => resp::exchange(server, &[&["AUTH", USER, &password], &["PING"]], deadline),
        Err(_) => resp::exchange(server, &[&["PING"]], deadline),
    };
    replies.map(|_| ()).map_err(ProbeError::Server)
}

/// Whether it may get traffic.
///
/// # Errors
/// Says why not.
pub(crate) fn ready(probe: &Probe) -> Result<(), ProbeError> {
    let server = SocketAddr::new(local_address(probe.ip), probe.port);
    let deadline = Instant::now() + probe.timeout;
    let password = files::password(&probe.accounts, USER).map_err(ProbeError::File)?;
    let ask = |commands: &[&[&str]]| resp::ask_all(server, USER, &password, commands, deadline).map_err(ProbeError::Server);
    let info: &[&str] = &["INFO", "server", "replication", "persistence"];
    let replies = match probe.mode {
        Mode::Sentinel => ask(&[&["PING"]])?,
        Mode::Cluster => ask(&[info, &["CLUSTER", "INFO"]])?,
        Mode::Data | Mode::Failover => ask(&[info])?,
    };
    let info = match replies.as_slice() {
        [Reply::Simple(_)] => return Ok(()),
        [Reply::Text(info)] => info.clone(),
        // Both are lines of fields, and no name is in both.
        [Reply::Text(info), Reply::Text(cluster)] => format!("{info}\r\n{cluster}"),
        // While it loads it answers INFO and refuses the other.
        [Reply::Text(info), Reply::Error(text)] if text.starts_with("LOADING") => info.clone(),
        [.., Reply::Error(text)] | [Reply::Error(text), ..] => {
            return Err(ProbeError::Server(RespError::CommandRefused(server, text.clone())));
        }
        _ => return Err(ProbeError::Server(RespError::ReplyInvalid(server, "no text to INFO"))),
    };
    // No note, or an unreadable one: not synced so far.
    let noted = files::text(&probe.run, NOTE).ok();
    match decide(&info, probe.mode, noted.as_deref()).map_err(ProbeError::NotReady)? {
        Ready::Still => Ok(()),
        Ready::Synced(run_id) => {
            note(&probe.run, run_id).map_err(|error| ProbeError::NoteNotWritten(probe.run.join(NOTE), error))
        }
    }
}

/// The decision, from INFO (in a cluster with CLUSTER INFO behind it) and the run id noted last.
fn decide<'a>(info: &'a str, mode: Mode, noted: Option<&str>) -> Result<Ready<'a>, NotReady> {
    let field = |name| info::field(info, name).ok_or(NotReady::FieldMissing(name));
    if field("loading")? != "0" {
        return Err(NotReady::Loading);
    }
    if field("role")? == "master" {
        return if mode == Mode::Cluster && field("cluster_state")? != "ok" {
            Err(NotReady::ClusterDown)
        } else {
            Ok(Ready::Still)
        };
    }
    if follows_nobody(field("master_host")?, field("master_port")?) {
        return Err(NotReady::FollowsNobody);
    }
    let run_id = field("run_id")?;
    if noted == Some(run_id) {
        return Ok(Ready::Still);
    }
    // The link counts as up only when the first sync is through and loaded; both are asked because each was wrong at some moment.
    if field("master_link_status")? == "up" && field("master_sync_in_progress")? == "0" {
        Ok(Ready::Synced(run_id))
    } else {
        Err(NotReady::NotSynced)
    }
}

/// `replicaof <loopback> 1`, the address where nobody listens.
fn follows_nobody(host: &str, port: &str) -> bool {
    port == "1" && host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Beside and renamed: a probe that is killed leaves no half note. Two probes at once write the same.
fn note(run: &Path, run_id: &str) -> io::Result<()> {
    let beside = run.join(format!("{NOTE}.{}", std::process::id()));
    fs::write(&beside, run_id).and_then(|()| fs::rename(&beside, run.join(NOTE)))
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
