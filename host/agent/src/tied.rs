//! `tied`: becomes a program that ends when whoever started it ends. For servers side by side on one machine, without a kubelet:
//! an owner that is killed can't end them any more, so the kernel does.
//!
//! # Guarantees
//! The program gets SIGKILL when its starter's thread ends; if the starter has ended before, it doesn't start at all.
//!
//! # Assumptions
//! 1. The signal outlives `exec` (it is lost by set-uid programs only, which servers aren't).
//! 2. It is sent when the *thread* ends that started us: a starter uses one that lives as long as itself.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};

/// Why no program runs.
#[derive(Debug)]
pub(crate) enum TiedError {
    /// The kernel won't send the signal.
    NotTied(rustix::io::Errno),
    /// Our parent isn't the process that started us: that one has ended.
    StarterGone,
    /// The program can't be run.
    NotStarted(String, io::Error),
}

impl fmt::Display for TiedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTied(error) => write!(f, "the program can't be tied to its starter: {error}"),
            Self::StarterGone => f.write_str("the starter has ended; nothing is started"),
            Self::NotStarted(program, error) => write!(f, "can't run {program}: {error}"),
        }
    }
}

/// Becomes the program. Comes back only to say why not.
///
/// # Errors
/// See [`TiedError`].
pub(crate) fn become_tied(starter: i32, words: &[String]) -> Result<(), TiedError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(TiedError::NotTied)?;
    // Asked only now: had it ended before, no signal would come.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(starter) {
        return Err(TiedError::StarterGone);
    }
    let (program, arguments) = words.split_first().map_or(("", &[][..]), |(program, rest)| (program.as_str(), rest));
    Err(TiedError::NotStarted(program.to_owned(), Command::new(program).args(arguments).exec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_starter_that_is_gone_nothing_starts() {
        let nobody = i32::MAX;
        assert!(matches!(become_tied(nobody, &["/bin/true".to_owned()]), Err(TiedError::StarterGone)));
    }
}
