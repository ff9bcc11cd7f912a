//! The store and its controllers under one lock, and word of every new version.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::controllers;
use crate::disk::{Disk, Saved};
use crate::fault::Faults;
use crate::requests::Requests;
use crate::store::Store;

/// An API server. Shared; the way in over a network is [`crate::http::serve`].
#[derive(Debug)]
pub struct ApiServer {
    store: Mutex<Store>,
    versions: watch::Sender<u64>,
    disk: Mutex<Option<Disk>>,
    /// What goes wrong between clients and this server.
    pub faults: Faults,
    /// What clients asked it to change.
    pub requests: Requests,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self {
            store: Mutex::default(),
            versions: watch::Sender::new(0),
            disk: Mutex::default(),
            faults: Faults::default(),
            requests: Requests::default(),
        }
    }
}

impl ApiServer {
    /// Without objects.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// With the objects of an earlier one.
    pub fn restored(saved: Saved) -> Arc<Self> {
        let api = Self::default();
        api.lock().restore(saved);
        Arc::new(api)
    }

    /// Keeps the objects in a file, those of now and all changes to come: see [`crate::disk`].
    ///
    /// # Errors
    /// The file can't be written.
    pub fn keep(&self, path: &Path) -> io::Result<()> {
        let store = self.lock();
        let disk = Disk::begin(path, &store)?;
        *self.lock_disk() = Some(disk);
        Ok(())
    }

    /// Leaves the file as it is by now.
    pub fn keep_no_more(&self) {
        drop(self.lock_disk().take());
    }

    /// Reads.
    pub fn read<T>(&self, act: impl FnOnce(&Store) -> T) -> T {
        act(&self.lock())
    }

    /// Writes, and lets the controllers come to rest.
    pub fn write<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.lock();
        store.now_ms = now_ms();
        let result = act(&mut store);
        controllers::run(&mut store);
        let version = store.version();
        if let Some(disk) = self.lock_disk().as_mut()
            && let Err(error) = disk.follow(&store)
        {
            // The next write tries again, with all that is missing.
            tracing::error!(%error, "objects can't be kept on disk: is it full?");
        }
        drop(store);
        self.versions.send_if_modified(|known| std::mem::replace(known, version) != version);
        result
    }

    /// The time, as objects say it.
    pub fn now(&self) -> String {
        crate::json::time(now_ms())
    }

    /// The newest version, as it moves.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
    }

    // Objects are replaced whole: a panic while the lock was held leaves none half-written.
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
