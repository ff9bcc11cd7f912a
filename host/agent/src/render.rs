//! The configuration of one start, as text.
//!
//! # Guarantees
//! - Pure: files' contents and flags in, text or an error out. Nothing is guessed: no start file, no user lines or an unknown
//!   word in them is an error, and the server doesn't start.
//! - One writer per directive: what the agent renders may not stand in `valkey.conf`, and nothing there may load further files.
//! - Cut short, the text starts nothing: it opens with `port 0`, and the port follows in quotes as the very last line. A server
//!   that gets less than all of it finds an unbalanced quote or no port to listen on, and exits. So no account can be missing in
//!   a server that serves.
//! - Users come by hash; the only password in the text is the one that this server logs in to its primary with.
//!
//! # Assumptions
//! The server takes the last of repeated single-valued directives (true for all lines), and a `user default` line replaces what
//! the default user may do from the start on.
//!
//! # Flow
//! 1. `port 0`, then `valkey.conf` as it is.
//! 2. Where to listen, where data are, how to log in to a primary.
//! 3. `named`: follow nobody, read-only, until the operator names the primary. In a cluster: the address that peers are told,
//!    since the one that they see may be another's (a node that translates addresses).
//! 4. `user` lines, the port.

use std::fmt;
use std::fmt::Write;
use std::net::IpAddr;

use crate::args::{local_address, loopback};

/// The file that everything else is added to.
pub(crate) const CONF: &str = "valkey.conf";

/// Directives that it may not hold: the agent's own, their other spellings, and those that open another way in (further
/// files, a second source of accounts).
const RESERVED: [&str; 17] = [
    "aclfile",
    "bind",
    "bind-source-addr",
    "cluster-announce-ip",
    "daemonize",
    "dir",
    "include",
    "masterauth",
    "masteruser",
    "port",
    "primaryauth",
    "primaryuser",
    "replicaof",
    "requirepass",
    "slaveof",
    "unixsocket",
    "user",
];

/// How a server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The only member: as a primary, with its own data.
    Alone,
    /// One of several: following nobody, read-only, so that an empty restart never wipes its replicas.
    Named,
    /// A node of a cluster: its role is in its own `nodes.conf`.
    Cluster,
}

/// What a configuration is made of.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Content of `valkey.conf`.
    pub(crate) conf: &'a str,
    /// How it starts.
    pub(crate) start: Start,
    /// Content of `users.acl`.
    pub(crate) users: &'a str,
    /// Password of the account `replication`.
    pub(crate) replication: &'a str,
    /// The pod's address.
    pub(crate) ip: IpAddr,
    /// Client port.
    pub(crate) port: u16,
    /// The server's working directory.
    pub(crate) data: &'a str,
}

/// Why no configuration could be made. Lines count from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RenderError {
    /// Neither `alone` nor `named`.
    StartUnknown(String),
    /// A directive that only the agent renders: the file, the line, the name.
    DirectiveReserved(&'static str, usize, String),
    /// A line that doesn't begin with a directive's name.
    LineMalformed(&'static str, usize),
    /// A line of `users.acl` that isn't `user NAME ...`.
    UserMalformed(usize),
    /// A rule that carries a password in clear.
    UserPasswordInClear(usize, String),
    /// No line for the default user: everybody would be let in.
    UserDefaultMissing,
    /// NUL or, in a value, a line break.
    CharacterForbidden(&'static str),
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartUnknown(found) => {
                write!(f, "the start file says {found:?}; it must say 'alone' or 'named', and the server doesn't start before")
            }
            Self::DirectiveReserved(file, line, name) => {
                write!(f, "{file}:{line}: '{name}' is rendered by the agent; take the line out")
            }
            Self::LineMalformed(file, line) => write!(f, "{file}:{line}: doesn't begin with the name of a directive"),
            Self::UserMalformed(line) => write!(f, "users.acl:{line}: isn't of the form 'user NAME RULE...'"),
            Self::UserPasswordInClear(line, user) => {
                write!(f, "users.acl:{line}: user '{user}' has a password in clear; give its hash as #<sha256>")
            }
            Self::UserDefaultMissing => {
                f.write_str("users.acl: no line for 'default'; without one everybody could log in, so the server doesn't start")
            }
            Self::CharacterForbidden(input) => write!(f, "{input} holds NUL or a line break that the configuration can't take"),
        }
    }
}

/// The configuration of this start.
///
/// # Errors
/// Says which input is wrong; then no server may start.
pub(crate) fn render(inputs: &Inputs<'_>) -> Result<String, RenderError> {
    let Inputs { conf, start, users, ip, port, .. } = *inputs;
    let names = directives(CONF, conf, &RESERVED)?;
    check_users(users)?;
    let data = quote(inputs.data).ok_or(RenderError::CharacterForbidden("the data folder's path"))?;
    let password = quote(inputs.replication).ok_or(RenderError::CharacterForbidden("the password of 'replication'"))?;

    let mut text = String::with_capacity(conf.len() + users.len() + 512);
    text.push_str("port 0\n");
    push_lines(&mut text, conf);
    push_address(&mut text, &names, ip);
    // Writing to a String can't fail.
    let _ = write!(text, "dir {data}\nmasteruser replication\nmasterauth {password}\n");
    let _ = match start {
        Start::Alone => Ok(()),
        Start::Named => writeln!(text, "replicaof {} 1", loopback(ip)),
        Start::Cluster => writeln!(text, "cluster-announce-ip {ip}"),
    };
    push_lines(&mut text, users);
    let _ = writeln!(text, "port \"{port}\"");
    Ok(text)
}

/// Where it listens and, for servers side by side on one machine, where it dials from: peers take the address that they see.
/// `names` are the directives that there are already.
pub(crate) fn push_address(text: &mut String, names: &[String], ip: IpAddr) {
    if !names.iter().any(|name| name == "protected-mode") {
        // Debian's builds have it on and would refuse every peer.
        text.push_str("protected-mode no\n");
    }
    let local = local_address(ip);
    let _ = if local == ip { writeln!(text, "bind {ip}\nbind-source-addr {ip}") } else { writeln!(text, "bind {ip} {local}") };
}

/// Reads the start file.
///
/// # Errors
/// It says neither `alone` nor `named`.
pub(crate) fn parse_start(text: &str) -> Result<Start, RenderError> {
    match text.trim() {
        "alone" => Ok(Start::Alone),
        "named" => Ok(Start::Named),
        // Shortened: a wrong file may be of any size.
        other => Err(RenderError::StartUnknown(other.chars().take(40).collect())),
    }
}

/// A word of the configuration's grammar that stands for exactly this text; `None` if no line can hold it.
pub(crate) fn quote(value: &str) -> Option<String> {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        match character {
            '\0' | '\n' | '\r' => return None,
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Some(quoted)
}

/// The value of a directive, without quotes; the last one counts, as for the server.
pub(crate) fn value<'a>(conf: &'a str, name: &str) -> Option<&'a str> {
    let value = conf.lines().rev().find_map(|line| {
        let (word, value) = line.trim().split_once(char::is_whitespace)?;
        word.eq_ignore_ascii_case(name).then_some(value.trim())
    });
    value.map(|value| value.trim_matches(['"', '\'']))
}

/// The names of the directives in a file, in lower case.
///
/// # Errors
/// One of them is reserved, or a line is none.
pub(crate) fn directives(file: &'static str, conf: &str, reserved: &[&str]) -> Result<Vec<String>, RenderError> {
    if conf.contains('\0') {
        return Err(RenderError::CharacterForbidden(file));
    }
    let mut names = Vec::new();
    for (line, name) in first_words(conf) {
        // Quotes and escapes would be another spelling of a reserved name.
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return Err(RenderError::LineMalformed(file, line));
        }
        let name = name.to_ascii_lowercase();
        if reserved.contains(&name.as_str()) {
            return Err(RenderError::DirectiveReserved(file, line, name));
        }
        names.push(name);
    }
    Ok(names)
}

/// Only `user` lines, only hashes, and the default user is among them.
///
/// # Errors
/// Names the line that is wrong.
pub(crate) fn check_users(users: &str) -> Result<(), RenderError> {
    if users.contains('\0') {
        return Err(RenderError::CharacterForbidden("users.acl"));
    }
    let mut default = false;
    for (number, word) in first_words(users) {
        let line = users.lines().nth(number - 1).unwrap_or_default();
        let mut words = line.split_whitespace().skip(1);
        let Some(name) = words.next().filter(|_| word == "user") else { return Err(RenderError::UserMalformed(number)) };
        let in_clear = |rule: &str| rule.trim_start_matches(['"', '\'', '(']).starts_with(['>', '<']);
        if words.any(in_clear) {
            return Err(RenderError::UserPasswordInClear(number, name.to_owned()));
        }
        default |= name == "default";
    }
    if default { Ok(()) } else { Err(RenderError::UserDefaultMissing) }
}

/// Line number and first word of each line that isn't empty or a comment.
pub(crate) fn first_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, line.split_whitespace().next()?)))
        .filter(|(_, word)| !word.starts_with('#'))
}

/// Whole lines, the last one ended.
pub(crate) fn push_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
