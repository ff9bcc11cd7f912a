//! Watches: every change once and in order, from a version on; bookmarks; and what faults make of them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::path::{Query, Target};
use super::{Body, refused, respond};
use crate::fault::{Act, Asked};
use crate::refusal::Refusal;
use crate::selector::Selector;
use crate::server::ApiServer;
use crate::store::{Change, Event};

/// Between bookmarks; a real server sends one about every minute.
const BOOKMARK: Duration = Duration::from_secs(50);
/// After so long a watch ends if nobody says when; a real server takes 30 to 60 minutes.
const END: Duration = Duration::from_secs(1800);

/// One watch.
struct Watch {
    api: Arc<ApiServer>,
    client: String,
    target: Target,
    selector: Selector,
    position: u64,
    versions: watch::Receiver<u64>,
    lines: VecDeque<String>,
    ends: Instant,
    bookmarks: Option<Instant>,
    ended: bool,
}

/// Begins a watch.
pub(super) fn answer(api: Arc<ApiServer>, client: &str, target: &Target, query: &Query) -> Response<Body> {
    let selector = match Selector::parse(query.get("labelSelector").unwrap_or_default()) {
        Ok(selector) => selector,
        Err(refusal) => return refused(&refusal),
    };
    let from = query.get("resourceVersion").and_then(|version| version.parse().ok());
    let seconds = query.get("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).map_or(END, Duration::from_secs);
    let versions = api.versions();
    let mut watch = Watch {
        client: client.to_owned(),
        target: target.clone(),
        selector,
        position: from.unwrap_or(0),
        versions,
        lines: VecDeque::new(),
        ends: Instant::now() + seconds,
        bookmarks: query.is("allowWatchBookmarks", "true").then(|| Instant::now() + BOOKMARK),
        ended: false,
        api,
    };
    // Version 0 and none at all mean: as things stand, then on.
    if from.unwrap_or(0) == 0 {
        watch.list();
    }
    let body = stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), watch))
    });
    respond(200, StreamBody::new(body).boxed_unsync())
}

impl Watch {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.versions.borrow_and_update();
            self.fetch().await;
            if !self.lines.is_empty() || self.ended {
                continue;
            }
            let bookmark = self.bookmarks.unwrap_or(self.ends);
            tokio::select! {
                changed = self.versions.changed() => if changed.is_err() { return None },
                () = tokio::time::sleep_until(bookmark.min(self.ends)) => {
                    self.ended = Instant::now() >= self.ends;
                    self.bookmark();
                }
            }
        }
    }

    fn list(&mut self) {
        let (position, lines) = self.api.read(|store| {
            let namespace = Some(self.target.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let found = store.list(&self.target.resource, namespace).filter(|(_, object)| self.selector.matches(object));
            (store.version(), found.map(|(_, object)| line("ADDED", object)).collect())
        });
        (self.position, self.lines) = (position, lines);
    }

    fn bookmark(&mut self) {
        if self.bookmarks.is_none() {
            return;
        }
        self.bookmarks = Some(Instant::now() + BOOKMARK);
        let kind =
            self.api.read(|store| store.resource(&self.target.resource).ok().map(|kind| (kind.kind.clone(), kind.api_version())));
        let Some((kind, api_version)) = kind else { return };
        let metadata = json!({"resourceVersion": self.position.to_string()});
        self.lines.push_back(line("BOOKMARK", &json!({"kind": kind, "apiVersion": api_version, "metadata": metadata})));
    }

    /// Takes in what has happened since.
    async fn fetch(&mut self) {
        let found = self.api.read(|store| {
            let ours = |event: &&Event| {
                event.key.resource == self.target.resource
                    && (self.target.namespace.is_empty() || event.key.namespace == self.target.namespace)
            };
            let events: Vec<Event> = store.events_after(self.position)?.filter(ours).cloned().collect();
            Ok::<_, Refusal>((store.version(), events))
        });
        let (version, events) = match found {
            Ok(found) => found,
            Err(refusal) => return self.fail(&refusal),
        };
        for event in events {
            let Some(told) = self.told(&event) else { continue };
            let line = line(told, &event.object);
            let asked = Asked { verb: "watch", resource: &event.key.resource, name: &event.key.name, client: &self.client };
            match self.api.faults.strike(asked) {
                Some(Act::Drop | Act::Lose | Act::LoseAnswer) => {}
                Some(Act::Double) => self.lines.extend([line.clone(), line]),
                Some(Act::Delay { ms }) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    self.lines.push_back(line);
                }
                Some(Act::Expire | Act::Refuse { .. }) => return self.fail(&Refusal::expired(self.position, version)),
                // The event itself comes with the next watch, which begins before it.
                Some(Act::End | Act::Break) => {
                    self.ended = true;
                    return;
                }
                None | Some(Act::Stale { .. }) => self.lines.push_back(line),
            }
            self.position = event.version;
        }
        self.position = version;
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.lines.push_back(line("ERROR", &refusal.status()));
        self.ended = true;
    }

    /// What the change is to this watch: an object that doesn't match any more is gone.
    fn told(&self, event: &Event) -> Option<&'static str> {
        let before = event.before.as_ref().is_some_and(|before| self.selector.matches(before));
        let now = event.change != Change::Deleted && self.selector.matches(&event.object);
        match (before, now) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}
