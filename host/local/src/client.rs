//! The commands that talk to the owner.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, bail};

use crate::args::{ApplyOptions, DeleteOptions, DownOptions, KillOptions, Output, StatusOptions};
use crate::control::{Reply, Request};
use crate::delete::Doomed;
use crate::folder::{Folder, FolderError};
use crate::view::{self, View};

/// Between two looks for an owner: there is no event for a socket that isn't there.
const NOBODY: Duration = Duration::from_millis(50);

/// `status`.
pub(crate) fn status(folder: &Folder, options: &StatusOptions) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(options.wait.unwrap_or(0));
    let stream = connect_until(folder, end)?;
    let wait_s = options.wait.map(|_| end.saturating_duration_since(Instant::now()).as_secs());
    let view = match exchange(folder, stream, &Request::Status { wait_s })? {
        Reply::View(view) => view,
        other => return said(other),
    };
    match options.output {
        Output::Json => say(&serde_json::to_string_pretty(&view)?),
        Output::Text => say(&view::written(&view)),
    }
    if options.wait.is_some() && !view.is_settled() { bail!("{}", unsettled(&view)) } else { Ok(()) }
}

/// Writes lines. A reader that has gone, `head` say, is no reason to panic.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// What `--wait` waited for in vain.
fn unsettled(view: &View) -> String {
    let waiting = view.instances.iter().filter(|instance| !instance.settled);
    let told = waiting.map(|instance| match instance.ready {
        true => format!("still at work: {}: {}", instance.title(), instance.work()),
        false => format!("not ready: {}: {}", instance.title(), instance.message),
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "not ready: there is no instance".to_owned() } else { told.join("; ") }
}

/// `apply`.
pub(crate) fn apply(folder: &Folder, options: &ApplyOptions) -> anyhow::Result<()> {
    said(ask(folder, &Request::Apply { files: texts_of(&options.files)? })?)
}

/// `delete`.
pub(crate) fn delete(folder: &Folder, options: DeleteOptions) -> anyhow::Result<()> {
    let what = match (options.kind, options.object) {
        (Some(kind), Some(name)) => Doomed::Named { kind, name, namespace: options.namespace },
        _ => Doomed::Files(texts_of(&options.files)?),
    };
    said(ask(folder, &Request::Delete { what, wait_s: options.wait })?)
}

/// Manifests' names and texts.
pub(crate) fn texts_of(files: &[PathBuf]) -> anyhow::Result<Vec<(String, String)>> {
    files.iter().map(|file| text_of(file)).collect()
}

/// A manifest's name and text.
fn text_of(file: &Path) -> anyhow::Result<(String, String)> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("standard input can't be read")?;
        return Ok(("standard input".to_owned(), text));
    }
    let text = fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    Ok((file.display().to_string(), text))
}

/// `kill`.
pub(crate) fn kill(folder: &Folder, options: KillOptions) -> anyhow::Result<()> {
    said(ask(folder, &Request::Kill { pod: options.pod, signal: options.signal })?)
}

/// `down`.
pub(crate) fn down(folder: &Folder, options: &DownOptions) -> anyhow::Result<()> {
    match connect(folder) {
        Ok(stream) => {
            let mut until_it_ends = stream.try_clone()?;
            let reply = exchange(folder, stream, &Request::Down { delete_data: options.delete_data })?;
            io::copy(&mut until_it_ends, &mut io::sink()).context("the owner's end can't be waited for")?;
            said(reply)
        }
        Err(FolderError::NobodyThere(_)) if options.delete_data && folder.path().exists() => {
            folder.hold()?.delete()?;
            say(&format!("{} is deleted", folder.path().display()));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn said(reply: Reply) -> anyhow::Result<()> {
    match reply {
        Reply::Done(lines) => {
            lines.iter().for_each(|line| say(line));
            Ok(())
        }
        Reply::Refused(why) => bail!("{}", why.join("\n")),
        Reply::View(_) => bail!("the owner answers something else than was asked; is it of another version?"),
    }
}

fn ask(folder: &Folder, request: &Request) -> anyhow::Result<Reply> {
    exchange(folder, connect(folder)?, request)
}

/// Connects to an owner that may be starting.
fn connect_until(folder: &Folder, end: Instant) -> Result<UnixStream, FolderError> {
    loop {
        match connect(folder) {
            Err(FolderError::NobodyThere(_)) if Instant::now() < end => std::thread::sleep(NOBODY),
            connected => return connected,
        }
    }
}

fn connect(folder: &Folder) -> Result<UnixStream, FolderError> {
    let socket = folder.socket();
    UnixStream::connect(&socket).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => FolderError::NobodyThere(folder.path().into()),
        _ => FolderError::Unusable { path: socket, error },
    })
}

fn exchange(folder: &Folder, mut stream: UnixStream, request: &Request) -> anyhow::Result<Reply> {
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.is_empty() {
        bail!("the owner of {} ended before it answered", folder.path().display());
    }
    serde_json::from_str(&line).context("the owner's answer can't be read; is it of another version?")
}
