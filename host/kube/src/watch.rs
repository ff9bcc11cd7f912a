//! One watch: list, follow, and know at any time how fresh the cache is.
//!
//! # Why not kube's `watcher`
//! It hides bookmarks and reconnects, so a quiet watch can't be told from a dead one, and whoever acts on a cache must know. It
//! also waits without bound for the answer to a list or to the start of a watch, which a paused or unreachable server never
//! gives.
//!
//! # Guarantees
//! 1. While the API server can be reached, [`Caches::age`] stays below [`CACHE_AGE_MAX`]: the watch proves to be alive by an
//!    event, a bookmark (a server sends one about every minute, but promises nothing), the end that the server gives it, or its
//!    start. After [`SILENCE`] without any of these it is started anew from where it was, which is the cheapest question there
//!    is.
//! 2. While it can't be reached the age grows, and the cache keeps what it knew.
//! 3. Nothing is lost: a watch goes on from the last version it saw. If that has expired (410), everything is listed again, and
//!    what disappeared in between is removed and announced.
//! 4. An error is logged when a watch begins to fail and when it has recovered, not at each try. Each try is counted.
//!
//! # Flow
//! 1. List in pages of [`PAGE`].
//! 2. Follow from the list's version until the server ends it, it is silent, or it fails.
//! 3. Ended or silent: follow again at once. Failed: wait, then follow again; expired: from 1.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{ObjectList, Request, Status};
use serde_json::Value;
use vko_core::object::{Object, ObjectId};

use crate::cache::{Caches, version};
use crate::counters::Counters;
use crate::selection::Selection;
use crate::{error, path, prune};

/// Objects per page of a list. The first page is the peak of memory that the allocator keeps: 600 pods cost 24 MB in pages of 50,
/// 52 MB in pages of 500. Streaming lists cost 17 MB, but where they are off (Kubernetes 1.31, 1.33) a watch that asks for one
/// fails for ever.
const PAGE: u32 = 50;
/// Deadline of a page: large Secrets over a slow line.
const LIST_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline of the first line of the answer to a watch.
const START_DEADLINE: Duration = Duration::from_secs(10);
/// A watch that says nothing for so long is asked by being started anew. Longer than the minute between two bookmarks, so that it
/// costs nothing where they come. On a quiet Kubernetes 1.35 half of the watches got theirs after 60 s, and half none within 70
/// s.
pub const SILENCE: Duration = Duration::from_secs(70);
/// Age that a cache doesn't exceed while the API server can be reached: silence, then a start with its deadline, and some air. A
/// view that is older is stale.
pub const CACHE_AGE_MAX: Duration = Duration::from_secs(85);
/// After so many seconds the server ends a watch. Each watch adds a few of its own, lest all of them start anew together.
const WATCH_SECONDS: u32 = 240;
const WATCH_SECONDS_APART: u32 = 5;
/// A watch that the server ends earlier than this counts as failed: else it would be started in a tight loop.
const SHORTEST: Duration = Duration::from_secs(1);
/// Pause after the first failure, doubled by each further one up to [`PAUSE_MAX`]: a restarted API server is back in some
/// seconds, and ten watches don't hurt it.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Why a list or a watch ended early. The variant is the metric label.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The version is too old: list again.
    #[error("the version has expired; listing again")]
    Expired,
    /// The API server can't be reached, or says no.
    #[error(transparent)]
    Api(#[from] vko_core::world::ApiError),
    /// It ended at once.
    #[error("the API server ends the watch as soon as it has started")]
    EndedAtOnce,
    /// An answer without what a list or an object must have.
    #[error("an answer without {0}")]
    Incomplete(&'static str),
}

impl WatchError {
    fn outcome(&self) -> &'static str {
        match self {
            Self::Expired => "Expired",
            Self::Api(api) => error::outcome(api),
            Self::EndedAtOnce => "EndedAtOnce",
            Self::Incomplete(_) => "Incomplete",
        }
    }
}

/// Keeps one selection of the caches up to date.
pub(crate) struct Watch {
    pub(crate) client: Client,
    pub(crate) caches: Arc<Caches>,
    pub(crate) counters: Arc<Counters>,
    /// Which selection of the caches.
    pub(crate) index: usize,
    pub(crate) selection: Selection,
    /// The zero of the caches' clock.
    pub(crate) origin: Instant,
}

impl Watch {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut position: Option<String> = None;
        let mut failures = 0_u32;
        loop {
            let (verb, result) = match position.take() {
                None => ("list", self.list().await.map(|listed| position = Some(listed))),
                Some(mut from) => {
                    let result = self.follow(&mut from).await;
                    position = (!matches!(result, Err(WatchError::Expired))).then_some(from);
                    ("watch", result)
                }
            };
            let outcome = result.as_ref().map_or_else(WatchError::outcome, |()| "ok");
            self.counters.count(verb, self.selection.kind, outcome);
            let kind = self.selection.kind.name();
            match result {
                Ok(()) => {
                    if failures > 0 {
                        tracing::info!(kind, failures, "watch recovered");
                    }
                    failures = 0;
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::warn!(kind, %error, "watch failed; trying on");
                    }
                    tokio::time::sleep(pause(failures)).await;
                    failures = failures.saturating_add(1);
                }
            }
        }
    }

    /// Lists everything into the caches; returns the version from which to follow.
    async fn list(&self) -> Result<String, WatchError> {
        let request = Request::new(path::collection(self.selection.kind, self.selection.namespace.as_deref()));
        let mut seen = BTreeSet::new();
        let mut params =
            ListParams { label_selector: self.selection.label_selector(), limit: Some(PAGE), ..ListParams::default() };
        loop {
            let page = request.list(&params).map_err(|error| self.failed(&kube::Error::BuildRequest(error), LIST_DEADLINE))?;
            let page: ObjectList<Value> = self.within(LIST_DEADLINE, self.client.request(page)).await?;
            for item in page.items {
                let object = self.prune(item);
                seen.insert(self.id(&object)?);
                self.caches.put(self.index, self.selection.kind, object);
            }
            if let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) {
                params.continue_token = Some(next);
                continue;
            }
            let listed = page.metadata.resource_version.unwrap_or_default();
            if listed.is_empty() {
                return Err(WatchError::Incomplete("metadata.resourceVersion"));
            }
            self.caches.listed(self.index, &seen, listed.parse().unwrap_or(0), self.origin.elapsed());
            return Ok(listed);
        }
    }

    /// Follows from a version, which moves along. `Ok` when the server ended it in time, or when it fell silent.
    async fn follow(&self, from: &mut String) -> Result<(), WatchError> {
        let request = Request::new(path::collection(self.selection.kind, self.selection.namespace.as_deref()));
        let apart = WATCH_SECONDS_APART.saturating_mul(u32::try_from(self.index).unwrap_or(0));
        let params = WatchParams {
            label_selector: self.selection.label_selector(),
            timeout: Some(WATCH_SECONDS + apart),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request =
            request.watch(&params, from).map_err(|error| self.failed(&kube::Error::BuildRequest(error), START_DEADLINE))?;
        let events = self.within(START_DEADLINE, self.client.request_events::<Value>(request)).await?;
        let mut events = std::pin::pin!(events);
        let started = Instant::now();
        self.alive();
        loop {
            match tokio::time::timeout(SILENCE, events.try_next()).await {
                // Dropping the stream closes its connection; `run` starts the next.
                Err(_) => return Ok(()),
                Ok(Ok(None)) if started.elapsed() < SHORTEST => return Err(WatchError::EndedAtOnce),
                Ok(Ok(None)) => {
                    self.alive();
                    return Ok(());
                }
                Ok(Ok(Some(event))) => self.take(event, from)?,
                Ok(Err(error)) => return Err(self.failed(&error, SILENCE)),
            }
        }
    }

    /// One event into the caches.
    fn take(&self, event: WatchEvent<Value>, from: &mut String) -> Result<(), WatchError> {
        let kind = self.selection.kind;
        let reached = match event {
            WatchEvent::Error(status) => return Err(self.refused(&status, SILENCE)),
            WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let object = self.prune(object);
                self.id(&object)?;
                let reached = object.resource_version().to_owned();
                self.caches.put(self.index, kind, object);
                reached
            }
            WatchEvent::Deleted(object) => {
                let object = self.prune(object);
                self.caches.remove(self.index, &self.id(&object)?, version(&object));
                object.resource_version().to_owned()
            }
        };
        if reached.is_empty() {
            return Err(WatchError::Incomplete("metadata.resourceVersion"));
        }
        self.caches.reached(self.index, reached.parse().unwrap_or(0));
        *from = reached;
        self.alive();
        Ok(())
    }

    fn alive(&self) {
        self.caches.alive(self.index, self.origin.elapsed());
    }

    fn prune(&self, object: Value) -> Object {
        Object::new(prune::prune(self.selection.kind, object))
    }

    fn id(&self, object: &Object) -> Result<ObjectId, WatchError> {
        if object.name().is_empty() {
            return Err(WatchError::Incomplete("metadata.name"));
        }
        Ok(ObjectId::new(self.selection.kind, object.namespace(), object.name()))
    }

    async fn within<T>(&self, deadline: Duration, request: impl Future<Output = kube::Result<T>>) -> Result<T, WatchError> {
        match tokio::time::timeout(deadline, request).await {
            Ok(answer) => answer.map_err(|error| self.failed(&error, deadline)),
            Err(_) => Err(vko_core::world::ApiError::Timeout(deadline).into()),
        }
    }

    fn failed(&self, error: &kube::Error, deadline: Duration) -> WatchError {
        match error {
            kube::Error::Api(status) => self.refused(status, deadline),
            error => error::classify(self.selection.kind, error, deadline).into(),
        }
    }

    fn refused(&self, status: &Status, deadline: Duration) -> WatchError {
        if status.code == 410 { WatchError::Expired } else { error::by_status(self.selection.kind, status, deadline).into() }
    }
}

/// How long to wait after so many failures in a row before.
fn pause(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound() {
        let pauses: Vec<_> = [0, 1, 2, 5, 6, u32::MAX].into_iter().map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 8000, 8000, 8000]);
    }

    #[test]
    fn the_age_of_a_quiet_watch_is_bounded() {
        assert!(SILENCE + START_DEADLINE + PAUSE_MIN < CACHE_AGE_MAX);
        assert!(SILENCE > Duration::from_secs(60), "bookmarks come every minute");
    }
}
