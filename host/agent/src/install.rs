//! `install DEST`: copies this binary into the volume that the server's container runs it from. Written beside and renamed, so a
//! restarted init container never leaves half a file, and a running one is not written into.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The copy failed.
#[derive(Debug)]
pub(crate) struct InstallFailed(PathBuf, io::Error);

impl fmt::Display for InstallFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't install to {}: {}; the volume must be mounted and writable there", self.0.display(), self.1)
    }
}

/// Copies the running binary, mode 0755.
///
/// # Errors
/// The volume isn't there, read-only or full.
pub(crate) fn install(destination: &Path) -> Result<(), InstallFailed> {
    let copy = || {
        let mut beside = destination.as_os_str().to_owned();
        beside.push(".new");
        // The link and not its target: a binary that was replaced meanwhile has no name any more, but can still be read.
        fs::copy("/proc/self/exe", &beside)?;
        fs::set_permissions(&beside, Permissions::from_mode(0o755))?;
        fs::rename(&beside, destination)
    };
    copy().map_err(|error| InstallFailed(destination.to_owned(), error))
}
