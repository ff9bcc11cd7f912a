//! What the watches and our own writes have brought, as one store: pure, events in, state and announcements out.
//!
//! # Guarantees
//! 1. An object is never replaced by an older version of itself: a write's answer that arrives before the watch's event stays.
//! 2. A deleted object doesn't come back by a late answer: an answer that is no newer than what the watch has already passed is
//!    dropped when the object isn't there.
//! 3. A change is announced exactly when [`same`] says that something differs.
//! 4. A fresh list removes what it lacks, but nothing that is newer than the list.
//!
//! # Assumptions
//! resourceVersions of one resource compare as numbers; one that isn't a number counts as 0, so that only the watch decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use vko_api::names;
use vko_core::object::{Kind, Object, ObjectId};
use vko_core::world::Change;

use crate::prune::same;
use crate::selection::Selection;

/// Announcements that a slow receiver may fall behind by before it has to look at everything again.
const CHANGES: usize = 4096;

/// All cached objects.
#[derive(Debug)]
pub struct Caches {
    selections: Vec<Selection>,
    state: RwLock<State>,
    changes: broadcast::Sender<Change>,
    /// Watches that have not been listed yet.
    unlisted: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<ObjectId, Entry>,
    /// Names by kind, namespace and instance.
    index: BTreeMap<(Kind, String, String), BTreeSet<String>>,
    /// By position of the selection.
    streams: Vec<Stream>,
}

#[derive(Debug)]
struct Entry {
    object: Object,
    version: u64,
    /// Which watch keeps it up to date.
    selection: usize,
}

#[derive(Debug, Clone, Default)]
struct Stream {
    /// Up to which version the watch has told us everything.
    position: u64,
    listed: bool,
    /// When it last proved to be alive.
    alive: Duration,
}

impl Caches {
    /// Empty caches of these selections.
    pub fn new(selections: Vec<Selection>) -> Self {
        let streams = vec![Stream::default(); selections.len()];
        Self {
            unlisted: watch::Sender::new(selections.len()),
            state: RwLock::new(State { streams, ..State::default() }),
            changes: broadcast::Sender::new(CHANGES),
            selections,
        }
    }

    /// What is watched.
    pub fn selections(&self) -> &[Selection] {
        &self.selections
    }

    /// An object.
    pub fn get(&self, id: &ObjectId) -> Option<Object> {
        self.read().objects.get(id).map(|entry| entry.object.clone())
    }

    /// The objects of an instance, sorted by name.
    pub fn of(&self, kind: Kind, namespace: &str, instance: &str) -> Vec<Object> {
        let state = self.read();
        let names = state.index.get(&(kind, namespace.to_owned(), instance.to_owned()));
        let ids = names.into_iter().flatten().map(|name| ObjectId::new(kind, namespace, name.as_str()));
        ids.filter_map(|id| state.objects.get(&id)).map(|entry| entry.object.clone()).collect()
    }

    /// All objects of a kind, sorted by namespace and name.
    pub fn all(&self, kind: Kind) -> Vec<Object> {
        let state = self.read();
        let from = state.objects.range(ObjectId::new(kind, "", "")..);
        from.take_while(|(id, _)| id.kind == kind).map(|(_, entry)| entry.object.clone()).collect()
    }

    /// Time since the watches of a kind last proved to be alive: the longest, when there are several. `None` before all of them
    /// were listed, and for a kind that isn't watched.
    pub fn age(&self, kind: Kind, now: Duration) -> Option<Duration> {
        let state = self.read();
        let streams = self.selections.iter().zip(&state.streams).filter(|(selection, _)| selection.kind == kind);
        let ages = streams.map(|(_, stream)| stream.listed.then(|| now.saturating_sub(stream.alive)));
        ages.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Announcements, from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Returns when every watch has been listed once.
    pub async fn synced(&self) {
        // The sender lives as long as `self`.
        let _ = self.unlisted.subscribe().wait_for(|count| *count == 0).await;
    }

    /// The watch has proved to be alive.
    pub fn alive(&self, selection: usize, now: Duration) {
        if let Some(stream) = self.write().streams.get_mut(selection) {
            stream.alive = now;
        }
    }

    /// The watch has told us everything up to this version (a bookmark).
    pub fn reached(&self, selection: usize, version: u64) {
        if let Some(stream) = self.write().streams.get_mut(selection) {
            stream.position = stream.position.max(version);
        }
    }

    /// An item of a list or an event of a watch: added or modified.
    pub fn put(&self, selection: usize, kind: Kind, object: Object) {
        let version = version(&object);
        let id = ObjectId::new(kind, object.namespace(), object.name());
        let mut state = self.write();
        if state.objects.get(&id).is_some_and(|known| known.version > version) {
            return;
        }
        self.store(&mut state, id, Entry { object, version, selection });
    }

    /// An event of a watch: deleted, or no longer selected.
    pub fn remove(&self, selection: usize, id: &ObjectId, version: u64) {
        let mut state = self.write();
        if state.objects.get(id).is_some_and(|known| known.selection == selection && known.version <= version) {
            self.drop_entry(&mut state, id);
        }
    }

    /// A list is complete: `seen` is all that there was at `version`.
    pub fn listed(&self, selection: usize, seen: &BTreeSet<ObjectId>, version: u64, now: Duration) {
        let mut state = self.write();
        let gone =
            |(id, entry): &(&ObjectId, &Entry)| entry.selection == selection && entry.version <= version && !seen.contains(*id);
        let gone: Vec<_> = state.objects.iter().filter(gone).map(|(id, _)| id.clone()).collect();
        for id in &gone {
            self.drop_entry(&mut state, id);
        }
        let Some(stream) = state.streams.get_mut(selection) else { return };
        stream.position = stream.position.max(version);
        stream.alive = now;
        if !std::mem::replace(&mut stream.listed, true) {
            self.unlisted.send_modify(|count| *count = count.saturating_sub(1));
        }
    }

    /// The answer to a write of ours. It is taken when a watch selects the object and the answer is newer than what that watch
    /// has brought: so the next look doesn't act a second time on a stale view.
    pub fn absorb(&self, kind: Kind, object: &Object) {
        let Some(selection) = self.selections.iter().position(|selection| selection.matches(kind, object)) else { return };
        let version = version(object);
        let id = ObjectId::new(kind, object.namespace(), object.name());
        let mut state = self.write();
        let known = match (state.objects.get(&id), state.streams.get(selection)) {
            (Some(entry), _) => entry.version,
            (None, Some(stream)) => stream.position,
            (None, None) => return,
        };
        if version > known {
            self.store(&mut state, id, Entry { object: object.clone(), version, selection });
        }
    }

    fn store(&self, state: &mut State, id: ObjectId, entry: Entry) {
        let instance = instance(id.kind, &entry.object).to_owned();
        let previous = state.objects.get(&id);
        if previous.is_some_and(|known| same(&known.object.0, &entry.object.0)) {
            state.objects.insert(id, entry);
            return;
        }
        let before = previous.map(|known| instance_of(&id, known)).filter(|before| *before != instance);
        if let Some(before) = before {
            state.unindex(&id, &before);
            self.announce(&id, before);
        }
        state.index.entry((id.kind, id.namespace.clone(), instance.clone())).or_default().insert(id.name.clone());
        state.objects.insert(id.clone(), entry);
        self.announce(&id, instance);
    }

    fn drop_entry(&self, state: &mut State, id: &ObjectId) {
        if let Some(entry) = state.objects.remove(id) {
            let instance = instance_of(id, &entry);
            state.unindex(id, &instance);
            self.announce(id, instance);
        }
    }

    /// Under the lock, so that announcements come in the order of the changes; sending never waits.
    fn announce(&self, id: &ObjectId, instance: String) {
        // No receiver: nobody needs to know.
        let _ = self.changes.send(Change { id: id.clone(), instance });
    }

    // A panic while the lock was held can't leave more than one half-written entry, which the next event mends.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unindex(&mut self, id: &ObjectId, instance: &str) {
        let key = (id.kind, id.namespace.clone(), instance.to_owned());
        if let Some(names) = self.index.get_mut(&key) {
            names.remove(&id.name);
            if names.is_empty() {
                self.index.remove(&key);
            }
        }
    }
}

/// The version as a number; 0 when it isn't one.
pub fn version(object: &Object) -> u64 {
    object.resource_version().parse().unwrap_or(0)
}

/// Whom a change concerns.
fn instance(kind: Kind, object: &Object) -> &str {
    match kind {
        kind if kind.is_instance() => object.name(),
        Kind::Node => "",
        _ => object.label(names::INSTANCE),
    }
}

fn instance_of(id: &ObjectId, entry: &Entry) -> String {
    instance(id.kind, &entry.object).to_owned()
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
