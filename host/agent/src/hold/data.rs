//! What a server will have after it has loaded its own files.
//!
//! # Guarantees
//! - Only what the server would load counts: with `appendonly yes` that is the AOF, and an RDB beside it is never looked at by
//!   it.
//! - Nothing is read but the manifest's presence and the first 4 KiB of an RDB.
//!
//! # Assumptions
//! - An RDB begins with its auxiliary fields, and among them names its lineage (`repl-id`) and how far in it it goes
//!   (`repl-offset`). A primary that never had a replica writes none.
//! - An AOF names neither; it holds every write up to the last second, also after a kill.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::render::value;

/// The fields stand in the first 250 bytes.
const HEAD_BYTES: u64 = 4096;

/// What is there to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Own {
    /// A log of every write.
    Aof,
    /// A snapshot; `None` if it doesn't name its lineage.
    Rdb(Option<Position>),
    /// No data.
    Nothing,
}

/// A place in a lineage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// Replication id, 40 characters.
    pub(crate) lineage: String,
    /// Replication offset, bytes of the stream.
    pub(crate) offset: u64,
}

/// Looks into the data folder, by the names in the configuration.
///
/// # Errors
/// A file is there and can't be read: with it and without it are not the same.
pub(crate) fn look(data: &Path, conf: &str) -> Result<Own, (PathBuf, io::Error)> {
    let name = |directive, default| value(conf, directive).filter(|name| !name.is_empty()).unwrap_or(default);
    if value(conf, "appendonly").is_some_and(|word| word.eq_ignore_ascii_case("yes")) {
        let file = name("appendfilename", "appendonly.aof");
        let manifest = data.join(name("appenddirname", "appendonlydir")).join(format!("{file}.manifest"));
        // The one file of before 7.0 is taken over at the start.
        let there = size(&manifest)?.max(size(&data.join(file))?);
        return Ok(if there > 0 { Own::Aof } else { Own::Nothing });
    }
    let path = data.join(name("dbfilename", "dump.rdb"));
    let mut head = Vec::new();
    match File::open(&path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Own::Nothing),
        Err(error) => Err((path, error)),
        Ok(0) => Ok(Own::Nothing),
        Ok(_) => Ok(Own::Rdb(position(&head))),
    }
}

/// Bytes of a file; 0 if it isn't there.
fn size(path: &Path) -> Result<u64, (PathBuf, io::Error)> {
    match path.metadata() {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err((path.to_owned(), error)),
    }
}

/// The position in an RDB's auxiliary fields.
fn position(head: &[u8]) -> Option<Position> {
    // `REDIS0011` and before, `VALKEY080` and later: nine bytes both.
    let mut rest = head.strip_prefix(b"REDIS").or_else(|| head.strip_prefix(b"VALKEY"))?;
    rest = rest.get(if head.starts_with(b"REDIS") { 4 } else { 3 }..)?;
    let (mut lineage, mut offset) = (None, None);
    while let Some((0xfa, fields)) = rest.split_first().map(|(kind, fields)| (*kind, fields)) {
        let (name, after) = string(fields)?;
        let (field, after) = string(after)?;
        rest = after;
        match name.as_deref() {
            Some("repl-id") => lineage = field,
            Some("repl-offset") => offset = field.and_then(|digits| digits.parse().ok()),
            _ => {}
        }
    }
    Some(Position { lineage: lineage.filter(|id| id.len() == 40)?, offset: offset? })
}

/// A string of the RDB format and what follows; the string is `None` if it is compressed or not text, which none is that is
/// needed.
fn string(bytes: &[u8]) -> Option<(Option<String>, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    // Whole numbers instead of text, little-endian, of 1, 2 or 4 bytes.
    let number = |length: usize| {
        let (digits, rest) = rest.split_at_checked(length)?;
        let mut all = if digits.last()? & 0x80 == 0 { [0; 4] } else { [0xff; 4] };
        all[..length].copy_from_slice(digits);
        Some((Some(i32::from_le_bytes(all).to_string()), rest))
    };
    match first {
        0xc0 => number(1),
        0xc1 => number(2),
        0xc2 => number(4),
        0xc3 => {
            let (packed, rest) = length(rest)?;
            let (_, rest) = length(rest)?;
            Some((None, rest.get(packed..)?))
        }
        _ => {
            let (length, rest) = length(bytes)?;
            let (text, rest) = rest.split_at_checked(length)?;
            Some((String::from_utf8(text.to_vec()).ok(), rest))
        }
    }
}

/// A length: 6, 14 or 32 bits.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [first, rest @ ..] if first >> 6 == 0 => Some((usize::from(*first), rest)),
        [first, second, rest @ ..] if first >> 6 == 1 => Some((usize::from(first & 0x3f) << 8 | usize::from(*second), rest)),
        [0x80, a, b, c, d, rest @ ..] => Some((u32::from_be_bytes([*a, *b, *c, *d]) as usize, rest)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
