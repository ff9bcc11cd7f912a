//! Events for people (events.k8s.io/v1). The same note about the same object within [`SERIES`] is one event with a count.
//!
//! kube's Recorder folds by reason and keeps the first note: a second, different reason to wait would show the first one's text.
//! Here the note belongs to what is folded.
//!
//! Notes about one object with one reason are written at [`RATE`] (client-go's recorders bound them alike): a note may differ
//! each time, and a count that goes up is a request as well. What is beyond that is in the operator's log only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use serde_json::{Value, json};
use vko_api::names;
use vko_core::allowance::{Allowance, Rate};
use vko_core::object::{Kind, Object};
use vko_core::world::{ApiError, EventNote};

use crate::connect::KubeWorld;

/// For so long after the last one the same event is counted up, as kubectl and the API conventions expect.
const SERIES: Duration = Duration::from_secs(360);
/// The API's bound on a note, in bytes.
const NOTE_BYTES: usize = 1024;
/// Series that are remembered; beyond it all are forgotten, and the next ones become events of their own.
const SERIES_MAX: usize = 1024;

/// By object and reason, so that what is told often hides nothing else.
const RATE: Rate = Rate { burst: 25, each: Duration::from_secs(60) };

/// Remembers which events can be counted up, and how many there were.
pub(crate) struct Events {
    /// Reporting instance: the operator's pod.
    reporter: String,
    began: Instant,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    series: HashMap<Key, Series>,
    /// By uid and reason.
    allowances: HashMap<(String, String), Allowance>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    reason: String,
    note: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Series {
    name: String,
    count: u32,
    last: Instant,
}

impl Events {
    pub(crate) fn new(reporter: String) -> Self {
        Self { reporter, began: Instant::now(), told: Mutex::default() }
    }

    /// Writes the event, or counts it up. A failure is logged, nothing else.
    pub(crate) async fn publish(&self, world: &KubeWorld, regarding: &Object, note: EventNote) {
        let Some(kind) = Kind::from_name(regarding.text("/kind")) else { return };
        let key = Key { uid: regarding.uid().to_owned(), reason: note.reason.clone(), note: bounded(&note.note, NOTE_BYTES) };
        let now = Instant::now();
        let name = format!("{}.{:x}", regarding.name(), Timestamp::now().as_nanosecond());
        let Some(series) = self.next(&key, name, now) else {
            tracing::warn!(
                reason = note.reason,
                object = regarding.name(),
                note = note.note,
                "too many events; this one is not written"
            );
            return;
        };
        if let Err(error) = self.send(world, kind, regarding, &note, &key.note, &series).await {
            // It may be gone (events live an hour); the next one is written anew.
            self.lock().series.remove(&key);
            tracing::warn!(%error, reason = note.reason, object = regarding.name(), "an event could not be written");
        }
    }

    async fn send(
        &self,
        world: &KubeWorld,
        kind: Kind,
        regarding: &Object,
        note: &EventNote,
        text: &str,
        series: &Series,
    ) -> Result<(), ApiError> {
        let namespace = if kind.namespaced() { regarding.namespace() } else { "default" };
        let events = Request::new(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"));
        let invalid = |error: kube::core::request::Error| ApiError::Invalid(error.to_string());
        let request = if series.count > 1 {
            let patch = json!({"series": {"count": series.count, "lastObservedTime": micro_now()}});
            events.patch(&series.name, &PatchParams::default(), &Patch::Merge(&patch)).map_err(invalid)?
        } else {
            let body = self.body(namespace, regarding, note, text, &series.name);
            events.create(&PostParams::default(), body.to_string().into_bytes()).map_err(invalid)?
        };
        world.exchange("event", kind, world.client.request::<Value>(request)).await.map(drop)
    }

    fn body(&self, namespace: &str, regarding: &Object, note: &EventNote, text: &str, name: &str) -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "namespace": namespace, "name": name },
            "eventTime": micro_now(),
            "type": if note.warning { "Warning" } else { "Normal" },
            "reason": bounded(&note.reason, 128),
            "action": "Reconcile",
            "note": text,
            "reportingController": names::OPERATOR,
            "reportingInstance": bounded(&self.reporter, 128),
            "regarding": {
                "apiVersion": regarding.text("/apiVersion"),
                "kind": regarding.text("/kind"),
                "namespace": regarding.namespace(),
                "name": regarding.name(),
                "uid": regarding.uid(),
                "resourceVersion": regarding.resource_version(),
            },
        })
    }

    /// The event to write now: a new one, or the known one with a higher count. None: there were too many.
    fn next(&self, key: &Key, name: String, now: Instant) -> Option<Series> {
        let mut told = self.lock();
        let elapsed = now.saturating_duration_since(self.began);
        told.forget(now, elapsed);
        let allowance = told.allowances.entry((key.uid.clone(), key.reason.clone())).or_insert_with(|| Allowance::new(RATE));
        if !allowance.wait(elapsed).is_zero() {
            return None;
        }
        allowance.spend(elapsed);
        let series = told.series.entry(key.clone()).or_insert(Series { name, count: 0, last: now });
        series.count = series.count.saturating_add(1);
        series.last = now;
        Some(series.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn forget(&mut self, now: Instant, elapsed: Duration) {
        self.series.retain(|_, series| now.saturating_duration_since(series.last) < SERIES);
        if self.series.len() >= SERIES_MAX {
            self.series.clear();
        }
        self.allowances.retain(|_, allowance| !allowance.is_whole(elapsed));
    }
}

/// At most so many bytes, cut between characters and marked as cut.
fn bounded(text: &str, bytes: usize) -> String {
    const CUT: &str = "...";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes.saturating_sub(CUT.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &text[..end])
}

/// RFC 3339 with exactly six decimals.
fn micro_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(reason: &str, note: &str) -> Key {
        Key { uid: "u".to_owned(), reason: reason.to_owned(), note: note.to_owned() }
    }

    #[test]
    fn folds_only_the_same_note() {
        let events = Events::new("pod".to_owned());
        let start = Instant::now();
        let next = |reason: &str, note: &str, name: &str, after: u64| {
            let series = events.next(&key(reason, note), name.to_owned(), start + Duration::from_secs(after)).unwrap();
            (series.name, series.count)
        };
        assert_eq!(next("Blocked", "waits for a", "e1", 0), ("e1".to_owned(), 1));
        assert_eq!(next("Blocked", "waits for a", "e2", 10), ("e1".to_owned(), 2), "counted up");
        assert_eq!(next("Blocked", "waits for b", "e3", 20), ("e3".to_owned(), 1), "another text is another event");
        assert_eq!(next("Blocked", "waits for a", "e4", 370), ("e4".to_owned(), 1), "after six quiet minutes it is a new one");
    }

    #[test]
    fn notes_that_differ_each_time_are_written_at_a_bounded_rate() {
        let events = Events::new("pod".to_owned());
        let start = Instant::now();
        let next = |reason: &str, note: u32, after: Duration| {
            events.next(&key(reason, &note.to_string()), "e".to_owned(), start + after)
        };
        for number in 0..RATE.burst {
            assert!(next("Blocked", number, Duration::ZERO).is_some(), "{number}");
        }
        assert_eq!(next("Blocked", 0, Duration::ZERO), None, "a count that goes up is a request too");
        assert!(next("DataLost", 0, Duration::ZERO).is_some(), "nothing hides another reason");
        let later = RATE.each + Duration::from_secs(1);
        assert!(next("Blocked", 100, later).is_some(), "one became due");
        assert_eq!(next("Blocked", 101, later), None, "one");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let events = Events::new("pod".to_owned());
        let now = Instant::now();
        for number in 0..=SERIES_MAX {
            events.next(&key(&number.to_string(), "n"), "e".to_owned(), now);
        }
        assert!(events.lock().series.len() <= SERIES_MAX);
        events.next(&key("r", "n"), "e".to_owned(), now + RATE.each * RATE.burst);
        assert_eq!(events.lock().allowances.len(), 1, "what has its whole allowance again needs no entry");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(bounded("short", 10), "short");
        assert_eq!(bounded("0123456789ab", 10), "0123456...");
        assert_eq!(bounded("äöüäöü", 10), "äöü...", "seven bytes would cut a character in two");
        assert!(bounded(&"ä".repeat(1000), NOTE_BYTES).len() <= NOTE_BYTES);
    }
}
