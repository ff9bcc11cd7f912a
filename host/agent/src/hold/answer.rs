//! Answers clients while the server isn't started: `-HELD reason` to every command.
//!
//! # Guarantees
//! - As many answers as commands, so that who sends several at once isn't left waiting, and knows that nobody is dead.
//! - Nothing is done for anybody, but for one: after a login with the hook's password SHUTDOWN ends the hold. A process that is
//!   the first of its container is deaf to SIGTERM, and a pod that waits must end when it is told to.
//! - Bounded: connections, bytes, and how long one may say nothing.
//!
//! # Assumptions
//! Sockets are closed when another program takes the process's place; the server can listen at once then.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::args::local_address;
use crate::resp::HELD;

/// Clients at a time: the operator, probes, the node's replicas, and some that were not told yet. Others are closed at once.
const CLIENTS_MAX: usize = 128;
/// Most that is kept of a command that isn't complete.
const COMMAND_BYTES_MAX: usize = 64 << 10;
/// A client that says nothing for so long is closed.
const IDLE: Duration = Duration::from_secs(30);

/// What all clients share.
struct Shared {
    reason: Mutex<String>,
    clients: AtomicUsize,
    password: String,
}

/// The listeners; they live until the process becomes another.
pub(crate) struct Answering {
    shared: Arc<Shared>,
    /// Says when the hold is to end.
    pub(crate) ended: Receiver<()>,
}

impl Answering {
    /// Listens where the server will.
    ///
    /// # Errors
    /// The address, and why nobody can listen there.
    pub(crate) fn start(ip: IpAddr, port: u16, password: &str) -> Result<Self, (SocketAddr, io::Error)> {
        let shared = Shared { reason: Mutex::default(), clients: AtomicUsize::new(0), password: password.to_owned() };
        let shared = Arc::new(shared);
        let (end, ended) = channel();
        let mut addresses = vec![ip, local_address(ip)];
        addresses.dedup();
        for ip in addresses {
            let address = SocketAddr::new(ip, port);
            let listener = TcpListener::bind(address).map_err(|error| (address, error))?;
            let (shared, end) = (shared.clone(), end.clone());
            thread::spawn(move || accept(&listener, &shared, &end));
        }
        Ok(Self { shared, ended })
    }

    /// What is answered from now on. Line breaks would end the answer.
    pub(crate) fn say(&self, reason: &str) {
        *self.shared.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason.replace(['\r', '\n'], " ");
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, end: &Sender<()>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Out of descriptors, most likely: clients must go first.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if shared.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            shared.clients.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (shared, end) = (shared.clone(), end.clone());
        thread::spawn(move || {
            // A client that is gone is nobody's trouble.
            let _ = serve(stream, &shared, &end);
            shared.clients.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn serve(mut stream: TcpStream, shared: &Shared, end: &Sender<()>) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    let mut hook = false;
    let mut pending = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        pending.extend_from_slice(&chunk[..read]);
        let mut answers = String::new();
        while let Some((words, used)) = command(&pending).map_err(|()| io::ErrorKind::InvalidData)? {
            pending.drain(..used);
            if words.is_empty() {
                continue;
            }
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            match words.as_slice() {
                [auth, user, password] if auth.eq_ignore_ascii_case(b"AUTH") && *user == b"hook" => {
                    hook = *password == shared.password.as_bytes();
                }
                [shutdown, ..] if hook && shutdown.eq_ignore_ascii_case(b"SHUTDOWN") => {
                    // The other end may have ended already.
                    let _ = end.send(());
                }
                _ => {}
            }
            answers += &format!("-{HELD} {}\r\n", shared.reason.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if pending.len() > COMMAND_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.write_all(answers.as_bytes())?;
    }
}

/// A command's words and how many bytes it takes.
type Command = (Vec<Vec<u8>>, usize);

/// The first command; `None` if it isn't complete yet. Without words for an empty line.
fn command(bytes: &[u8]) -> Result<Option<Command>, ()> {
    let line = |from: usize| {
        let end = from + bytes.get(from..)?.iter().position(|byte| *byte == b'\n')?;
        let text = &bytes[from..end];
        Some((text.strip_suffix(b"\r").unwrap_or(text), end + 1))
    };
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<usize>().ok()).ok_or(());
    let Some((first, mut at)) = line(0) else { return Ok(None) };
    let Some(count) = first.strip_prefix(b"*") else {
        let words = first.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return Ok(Some((words.map(<[u8]>::to_vec).collect(), at)));
    };
    let mut words = Vec::new();
    for _ in 0..number(count)? {
        let Some((length, from)) = line(at) else { return Ok(None) };
        let length = number(length.strip_prefix(b"$").ok_or(())?)?;
        if length > COMMAND_BYTES_MAX {
            return Err(());
        }
        let Some(word) = bytes.get(from..from + length) else { return Ok(None) };
        if bytes.len() < from + length + 2 {
            return Ok(None);
        }
        words.push(word.to_vec());
        at = from + length + 2;
    }
    Ok(Some((words, at)))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
