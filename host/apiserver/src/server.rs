//! The store and its controllers under one lock, and word of every new version.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::controllers;
use crate::fault::Faults;
use crate::requests::Requests;
use crate::store::Store;

/// An API server. Shared; the way in over a network is [`crate::http::serve`].
#[derive(Debug)]
pub struct ApiServer {
    store: Mutex<Store>,
    versions: watch::Sender<u64>,
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
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
