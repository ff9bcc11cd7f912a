//! Claims' disks: folders of this machine, or disks of a size of their own, which can be full.
//!
//! # Assumptions
//! A disk of a size of its own is a mount. Whoever asks for it may mount, in a mount namespace of his own: what a killed process
//! leaves goes with that.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// What fills a full disk.
const FILLER: &str = ".filler";

/// The disks of a kubelet, a folder each by the claim's UID.
#[derive(Debug)]
pub(super) struct Disks {
    root: PathBuf,
    /// Of the next ones; zero: as large as the machine's.
    mib: AtomicU64,
    mounted: Mutex<BTreeSet<PathBuf>>,
}

impl Disks {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, mib: AtomicU64::new(0), mounted: Mutex::default() }
    }

    /// The next disks have so many MiB.
    pub(super) fn size(&self, mib: u64) {
        self.mib.store(mib, Ordering::Relaxed);
    }

    /// The disk of a claim; it is made where it isn't there yet.
    pub(super) fn of(&self, claim: &str) -> io::Result<PathBuf> {
        let (disk, mib) = (self.root.join(claim), self.mib.load(Ordering::Relaxed));
        if disk.is_dir() {
            return Ok(disk);
        }
        fs::create_dir_all(&disk)?;
        if mib > 0 {
            let size = std::ffi::CString::new(format!("size={mib}m"))?;
            mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), Some(size.as_c_str()))?;
            self.lock().insert(disk.clone());
        }
        Ok(disk)
    }

    /// Nothing more can be written to it.
    pub(super) fn fill(&self, claim: &str) -> io::Result<()> {
        let disk = self.root.join(claim);
        if !self.lock().contains(&disk) {
            let why = format!("{} is as large as this machine's disk; 'small-disks' must come before it is made", disk.display());
            return Err(io::Error::other(why));
        }
        let mut filler = fs::File::options().append(true).create(true).open(disk.join(FILLER))?;
        for block in [&[0; 1 << 16][..], &[0]] {
            while filler.write_all(block).is_ok() {}
        }
        Ok(())
    }

    /// There is room on all of them again.
    pub(super) fn clear(&self) {
        // One that isn't filled has none.
        self.lock().iter().for_each(|disk| drop(fs::remove_file(disk.join(FILLER))));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before their folder is removed.
    pub(super) fn unmount(&self) {
        for disk in std::mem::take(&mut *self.lock()) {
            if let Err(error) = unmount(&disk, UnmountFlags::DETACH) {
                tracing::warn!(disk = %disk.display(), %error, "a disk stays mounted");
            }
        }
    }
}
