//! Hands a text to the process that takes our place, by a pipe on its stdin.
//!
//! # Guarantees
//! - The text is in the pipe, and its write end closed, before the server starts (but see 3). Once the server has read it nothing
//!   is left: the pipe is empty for everybody who opens `/proc/PID/fd/0` later (a memory file would show all of it).
//! - The pipe is no larger than needed: it stays booked while the server lives, and all users of a node share a budget per uid.
//!
//! # Assumptions
//! A pipe takes a text whole without a reader if its capacity is at least the text's length. The kernel grants up to 1 MiB
//! without a privilege, and less, down to two pages, when the user's budget is used up.
//!
//! # Flow
//! 1. Ask for the next power of two; look at what was granted.
//! 2. Write what fits, and if that is all, close.
//! 3. It isn't: start a feeder (`agent feed`), hand it the rest, and let it write while the server reads. It ends when all is
//!    read. It is the server's child then, which reaps it with its next own child (a save); until then it is a zombie of no size.
//!    Should it be killed half-way, the server has at least our first page, which [`crate::render`] makes harmless without the
//!    end.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::process::{Command, Stdio};

/// A page: less can't be booked.
const PIPE_BYTES_MIN: usize = 4096;
/// The kernel's default for unprivileged processes (`/proc/sys/fs/pipe-max-size`).
const PIPE_BYTES_MAX: usize = 1 << 20;

/// Why the text couldn't be handed over.
#[derive(Debug)]
pub(crate) enum PipeError {
    /// No pipe, or writing failed.
    PipeFailed(io::Error),
    /// The feeding child didn't start or didn't take the text.
    FeederFailed(io::Error),
}

impl fmt::Display for PipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PipeFailed(error) => write!(f, "can't pass the configuration by a pipe: {error}"),
            Self::FeederFailed(error) => write!(f, "can't start the process that feeds a large configuration: {error}"),
        }
    }
}

/// A reader that yields the text and then ends.
///
/// # Errors
/// The kernel refuses a pipe or a process.
pub(crate) fn filled(text: &[u8]) -> Result<PipeReader, PipeError> {
    let (reader, mut writer) = io::pipe().map_err(PipeError::PipeFailed)?;
    let capacity = granted(&writer, capacity_for(text.len())).map_err(PipeError::PipeFailed)?;
    let (now, later) = text.split_at(capacity.min(text.len()));
    writer.write_all(now).map_err(PipeError::PipeFailed)?;
    if !later.is_empty() {
        feed_by_child(later, writer).map_err(PipeError::FeederFailed)?;
    }
    Ok(reader)
}

/// The pipe to ask for; `None` when no pipe can hold the text.
fn capacity_for(bytes: usize) -> Option<usize> {
    let capacity = bytes.max(PIPE_BYTES_MIN).next_power_of_two();
    (capacity <= PIPE_BYTES_MAX).then_some(capacity)
}

/// Asks for a size and returns the one that the pipe has then. A refusal is no error: the size is what counts.
fn granted(writer: &PipeWriter, wanted: Option<usize>) -> io::Result<usize> {
    let asked = wanted.and_then(|wanted| rustix::pipe::fcntl_setpipe_size(writer, wanted).ok());
    asked.map_or_else(|| Ok(rustix::pipe::fcntl_getpipe_size(writer)?), Ok)
}

/// The text goes to the child's memory first, so that the child doesn't wait for us when we are the server already.
fn feed_by_child(text: &[u8], writer: PipeWriter) -> io::Result<()> {
    let mut child = Command::new("/proc/self/exe")
        .arg("feed")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(writer)
        .stderr(Stdio::inherit())
        .spawn()?;
    // Always there: it was asked for two lines above.
    child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text))
}

/// The feeding child: all of stdin, then all of it to stdout.
///
/// # Errors
/// The server ended before it had read all.
pub(crate) fn feed() -> Result<(), PipeError> {
    let mut text = Vec::new();
    let copy =
        io::stdin().read_to_end(&mut text).and_then(|_| io::stdout().lock().write_all(&text)).and_then(|()| io::stdout().flush());
    copy.map_err(PipeError::FeederFailed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_pipe_is_no_larger_than_needed() {
        let cases = [
            (0, Some(4096)),
            (4096, Some(4096)),
            (4097, Some(8192)),
            (100_000, Some(131_072)),
            (1 << 20, Some(1 << 20)),
            ((1 << 20) + 1, None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(capacity_for(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn what_fits_is_there_whole_and_then_it_ends() {
        for length in [0, 1, 4096, 70_000] {
            let mut read = Vec::new();
            filled(&vec![b'x'; length]).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read.len(), length);
        }
    }

    #[test]
    fn a_refused_size_shows_in_what_was_granted() {
        let (_reader, writer) = io::pipe().unwrap();
        // Far beyond what any kernel grants.
        assert!(granted(&writer, Some(1 << 30)).unwrap() < 1 << 30);
        assert_eq!(granted(&writer, Some(8192)).unwrap(), 8192);
        assert_eq!(granted(&writer, None).unwrap(), 8192);
    }
}
