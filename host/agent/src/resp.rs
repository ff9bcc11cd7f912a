//! Commands to a server, over one connection that is made for them.
//!
//! # Guarantees
//! - Everything is bounded: the time for connecting, writing and reading together by one deadline, a reply by size, depth and
//!   length.
//! - A new connection each time: an answer is the server's as it is now, not that of a connection from before a change of role.
//!
//! # Assumptions
//! RESP2 (no HELLO), which all lines speak to a new connection. The address is a literal one; no name is looked up.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Largest sum of replies. INFO has some 2 KiB; CLUSTER NODES of a thousand nodes, which is as large as clusters get, 200 KiB.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// First word of what an agent answers to every command while it holds the server's start back.
pub(crate) const HELD: &str = "HELD";
/// ROLE has lists in a list.
const DEPTH_MAX: usize = 4;
/// More elements than bytes can't come; this keeps a length that lies from reserving memory.
const ELEMENTS_MAX: usize = 1024;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// `+OK`.
    Simple(String),
    /// `-CODE text`.
    Error(String),
    /// A number.
    Integer(i64),
    /// A text. Bytes that aren't UTF-8 are replaced: nothing that is read here holds any.
    Text(String),
    /// Nothing.
    Nil,
    /// A list.
    List(Vec<Reply>),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum RespError {
    /// Nobody listens there, or it can't be reached, in time or at all. No command was sent.
    ConnectionRefused(SocketAddr, io::Error),
    /// No complete answer before the deadline. The commands may have been taken.
    ServerSilent(SocketAddr),
    /// The connection ended first.
    ConnectionLost(SocketAddr, io::Error),
    /// Bytes that aren't RESP2, or more than the limits.
    ReplyInvalid(SocketAddr, &'static str),
    /// An agent answers that holds its server's start back, and says why.
    Held(SocketAddr, String),
    /// The login was refused.
    LoginRefused(SocketAddr, String),
    /// Any other error reply.
    CommandRefused(SocketAddr, String),
}

impl fmt::Display for RespError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionRefused(server, error) => write!(f, "no connection to {server}: {error}"),
            Self::ServerSilent(server) => write!(f, "no answer from {server} in time"),
            Self::ConnectionLost(server, error) => write!(f, "connection to {server} lost: {error}"),
            Self::ReplyInvalid(server, what) => write!(f, "{server} answers {what}; is it a Valkey server?"),
            Self::Held(server, why) => write!(f, "the server at {server} isn't started yet: {why}"),
            Self::LoginRefused(server, text) => write!(f, "{server} refuses the login: {text}"),
            Self::CommandRefused(server, text) => write!(f, "{server} answers: {text}"),
        }
    }
}

/// Sends all commands at once and waits for as many replies. Fewer come back if the server closes the connection after some: one
/// that has no room for another client does so after an error.
///
/// # Errors
/// No connection, no complete answer before the deadline, or nonsense.
pub(crate) fn exchange(server: SocketAddr, commands: &[&[&str]], deadline: Instant) -> Result<Vec<Reply>, RespError> {
    let silent = || RespError::ServerSilent(server);
    let left = || Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    // Also when the time runs out: nothing was sent, which is more than silence says.
    let mut stream = TcpStream::connect_timeout(&server, left().ok_or_else(silent)?)
        .map_err(|error| RespError::ConnectionRefused(server, error))?;
    let lost = |error| RespError::ConnectionLost(server, error);
    let invalid = |what| RespError::ReplyInvalid(server, what);
    // Timeouts of a socket may not be zero.
    let bounded = |stream: &TcpStream, left: Duration| {
        let left = left.max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left))).map_err(lost)
    };
    bounded(&stream, left().ok_or_else(silent)?)?;
    // Its error is looked at later: a server that closed at once may have said why.
    let written = stream.write_all(&encode(commands));

    let mut buffer = Vec::new();
    let mut replies = Vec::new();
    let mut used = 0;
    let mut chunk = [0; 4096];
    loop {
        while let Some((reply, length)) = parse(&buffer[used..], 0).map_err(invalid)? {
            used += length;
            replies.push(reply);
            if replies.len() == commands.len() {
                return Ok(replies);
            }
        }
        if buffer.len() > REPLY_BYTES_MAX {
            return Err(invalid("more than can be right"));
        }
        bounded(&stream, left().ok_or_else(silent)?)?;
        let ended = match stream.read(&mut chunk) {
            Ok(0) => written.err().unwrap_or_else(|| ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer.extend_from_slice(&chunk[..read]);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err(silent()),
            Err(error) => error,
        };
        return if replies.is_empty() { Err(lost(ended)) } else { Ok(replies) };
    }
}

/// Commands as an account, all sent at once. What each is answered, an error too, is the caller's to read.
///
/// # Errors
/// As [`exchange`], and for a refused login. A server that has no more to say than the answer to the login is lost.
pub(crate) fn ask_all(
    server: SocketAddr,
    user: &str,
    password: &str,
    commands: &[&[&str]],
    deadline: Instant,
) -> Result<Vec<Reply>, RespError> {
    let login: &[&str] = &["AUTH", user, password];
    let all: Vec<&[&str]> = [&[login], commands].concat();
    let mut replies = exchange(server, &all, deadline)?.into_iter();
    if let Some(Reply::Error(text)) = replies.next() {
        return Err(match text.strip_prefix(HELD) {
            Some(why) => RespError::Held(server, why.trim_start().to_owned()),
            None => RespError::LoginRefused(server, text),
        });
    }
    let replies: Vec<Reply> = replies.collect();
    let lost = || RespError::ConnectionLost(server, ErrorKind::UnexpectedEof.into());
    if replies.len() == commands.len() { Ok(replies) } else { Err(lost()) }
}

/// One command as an account.
///
/// # Errors
/// As [`ask_all`], and for a refused command.
pub(crate) fn ask(
    server: SocketAddr,
    user: &str,
    password: &str,
    command: &[&str],
    deadline: Instant,
) -> Result<Reply, RespError> {
    match ask_all(server, user, password, &[command], deadline)?.pop() {
        Some(Reply::Error(text)) => Err(RespError::CommandRefused(server, text)),
        Some(reply) => Ok(reply),
        None => Err(RespError::ConnectionLost(server, ErrorKind::UnexpectedEof.into())),
    }
}

/// The bytes of commands, one behind the other.
fn encode(commands: &[&[&str]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in commands {
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in *words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

/// The first reply and its length in bytes; `None` when it isn't complete yet.
fn parse(bytes: &[u8], depth: usize) -> Result<Option<(Reply, usize)>, &'static str> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let Some((kind, line)) = bytes[..end].split_first() else { return Err("an empty line") };
    let line = std::str::from_utf8(line).map_err(|_| "a line that isn't text")?;
    let after = end + 2;
    let number = || line.parse::<i64>().map_err(|_| "a malformed number");
    let reply = match kind {
        b'+' => Reply::Simple(line.to_owned()),
        b'-' => Reply::Error(line.to_owned()),
        b':' => Reply::Integer(number()?),
        b'$' | b'*' if number()? == -1 => Reply::Nil,
        b'$' => {
            let length = usize::try_from(number()?).ok().filter(|length| *length <= REPLY_BYTES_MAX).ok_or("a text too long")?;
            let Some(body) = bytes.get(after..after + length + 2) else { return Ok(None) };
            let text = body.strip_suffix(b"\r\n").ok_or("a text without its end")?;
            return Ok(Some((Reply::Text(String::from_utf8_lossy(text).into_owned()), after + length + 2)));
        }
        b'*' => return parse_list(bytes, after, number()?, depth),
        _ => return Err("something that isn't RESP2"),
    };
    Ok(Some((reply, after)))
}

fn parse_list(bytes: &[u8], start: usize, length: i64, depth: usize) -> Result<Option<(Reply, usize)>, &'static str> {
    let length = usize::try_from(length).ok().filter(|length| *length <= ELEMENTS_MAX).ok_or("a list too long")?;
    if depth == DEPTH_MAX {
        return Err("lists too deep");
    }
    let mut elements = Vec::new();
    let mut at = start;
    for _ in 0..length {
        let Some((element, used)) = parse(&bytes[at..], depth + 1)? else { return Ok(None) };
        elements.push(element);
        at += used;
    }
    Ok(Some((Reply::List(elements), at)))
}

#[cfg(test)]
#[path = "resp_tests.rs"]
mod tests;
