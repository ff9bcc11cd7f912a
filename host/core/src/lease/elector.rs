//! The task that creates, renews, takes and releases the Lease. What to do is decided by [`decide`](super::decide); this file
//! sends it.

use std::future::Future;
use std::time::Duration;

use serde_json::{Map, Value, json};
use vko_api::names;

use super::{Action, DURATION, LeaseState, POLL, RENEW, REQUEST, RETRY, Record, Sighting, decide};
use crate::object::{Kind, Object, ObjectId};
use crate::world::{ApiError, Clock, Kube, Shared};

/// Which Lease, and who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOptions {
    /// The operator's namespace.
    pub namespace: String,
    /// The Lease's name. Operators that serve different namespaces side by side use different ones.
    pub name: String,
    /// New in each start of the process: see [`LeaseOptions::identity`].
    pub identity: String,
}

impl LeaseOptions {
    /// An identity of this start of the process: the pod's name, for people, and 64 random bits.
    pub fn identity<C: Clock>(pod: &str, clock: &C) -> String {
        let mut bytes = [0_u8; 8];
        clock.random(&mut bytes);
        format!("{pod}_{}", crate::secret::hex(&bytes))
    }
}

/// What we know between rounds.
#[derive(Debug, Clone, Default)]
struct Memory {
    sighting: Option<Sighting>,
    /// The Lease as we wrote it last, while we hold it: the next renewal needs no read.
    own: Option<Object>,
}

/// What a round brought.
enum Verdict {
    /// A write that names us was confirmed.
    Held {
        /// Monotonic clock before it was sent.
        sent: Duration,
        after_ungraceful: bool,
    },
    /// Another holds it, for so long at most.
    Others(Duration),
}

/// Takes part in the election until it is stopped.
pub struct Elector<W> {
    world: Shared<W>,
    options: LeaseOptions,
    state: LeaseState,
    memory: Memory,
    term: u64,
    leading: bool,
    failing: bool,
}

impl<W: Kube + Clock> Elector<W> {
    /// An elector, not yet running, and the handle for everybody who acts.
    pub fn new(world: Shared<W>, options: LeaseOptions) -> (Self, LeaseState) {
        let state = LeaseState::new(world.clone());
        let elector =
            Self { world, options, state: state.clone(), memory: Memory::default(), term: 0, leading: false, failing: false };
        (elector, state)
    }

    /// Runs until `stop` is ready, then releases the Lease. Let `stop` be ready only when nothing dangerous is under way: a
    /// successor may act as soon as the release is written.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) {
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = self.round() => {}
            }
        }
        self.release().await;
    }

    /// One look and, when the decision is to write, one write; then the pause until the next.
    ///
    /// It may be dropped at any await (by `run`, and here by the end of the hold): the memory is then that of before, and a write
    /// that happened all the same is found by the next read.
    async fn round(&mut self) {
        let world = self.world.clone();
        let end = self.state.until();
        let attempt = attempt(&*world, &self.options, self.memory.clone(), self.leading);
        let outcome = tokio::select! {
            biased;
            () = at(&*world, end) => None,
            outcome = attempt => Some(outcome),
        };
        let pause = match outcome {
            None => {
                self.lose("its renewal could not be confirmed before the end of the hold");
                return;
            }
            Some((memory, verdict)) => {
                self.memory = memory;
                self.note(verdict)
            }
        };
        let end = self.state.until();
        tokio::select! {
            biased;
            () = at(&*world, end) => self.lose("its renewal could not be confirmed before the end of the hold"),
            () = world.sleep(pause) => {}
        }
    }

    /// Takes note of a round's outcome; returns the pause until the next.
    fn note(&mut self, verdict: Result<Verdict, ApiError>) -> Duration {
        if self.failing != verdict.is_err() {
            self.failing = verdict.is_err();
            match &verdict {
                Err(error) => tracing::warn!(%error, lease = self.options.name, "the Lease can't be read or written; trying on"),
                Ok(_) => tracing::info!(lease = self.options.name, "the Lease can be read and written again"),
            }
        }
        let now = self.world.monotonic();
        match verdict {
            Ok(Verdict::Held { sent, after_ungraceful }) => {
                let until = sent.saturating_add(DURATION);
                if self.leading {
                    self.state.extend(until);
                } else if until > now {
                    self.term += 1;
                    self.leading = true;
                    self.state.acquire(now, until, self.term, after_ungraceful);
                    tracing::info!(identity = self.options.identity, term = self.term, after_ungraceful, "acquired the Lease");
                }
                sent.saturating_add(RENEW).saturating_sub(now)
            }
            Ok(Verdict::Others(left)) => {
                if self.leading {
                    self.lose("another operator holds it");
                }
                left.min(POLL)
            }
            Err(_) if self.leading => RETRY,
            Err(_) => POLL,
        }
    }

    fn lose(&mut self, reason: &str) {
        self.memory.own = None;
        self.leading = false;
        self.state.lose(self.term);
        tracing::warn!(identity = self.options.identity, term = self.term, reason, "lost the Lease");
    }

    /// Stops acting, then says so: nobody may act on both sides of the write.
    async fn release(mut self) {
        if !self.leading {
            return;
        }
        let own = self.memory.own.take();
        self.lose("the operator stops");
        let Some(mut own) = own else { return };
        let mut released = within(&*self.world, self.world.replace(&emptied(&own, self.world.unix_ms()))).await;
        // A renewal that was under way when the stop came may have happened: then ours is an old version.
        let id = ObjectId::new(Kind::Lease, &self.options.namespace, &self.options.name);
        if matches!(released, Err(ApiError::Conflict(_)))
            && let Ok(Some(newer)) = within(&*self.world, self.world.get(&id)).await
            && Record::read(&newer).holder == self.options.identity
        {
            own = newer;
            released = within(&*self.world, self.world.replace(&emptied(&own, self.world.unix_ms()))).await;
        }
        match released {
            Ok(_) => tracing::info!(identity = self.options.identity, "released the Lease"),
            Err(error) => tracing::warn!(%error, "the Lease was not released: a successor waits until it has run out"),
        }
    }
}

/// Renews without a look while we lead; else, or when that is refused, looks and does what is decided.
async fn attempt<W: Kube + Clock>(
    world: &W,
    options: &LeaseOptions,
    mut memory: Memory,
    leading: bool,
) -> (Memory, Result<Verdict, ApiError>) {
    if leading && let Some(own) = memory.own.clone() {
        let sent = world.monotonic();
        match within(world, world.replace(&renewed(&own, world.unix_ms()))).await {
            Ok(object) => return held(memory, object, world, sent, false),
            // Beaten, or it was our own earlier write whose answer was lost. Reading tells.
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => memory.own = None,
            Err(error) => return (memory, Err(error)),
        }
    }
    let found = match within(world, world.get(&ObjectId::new(Kind::Lease, &options.namespace, &options.name))).await {
        Ok(found) => found,
        Err(error) => return (memory, Err(error)),
    };
    let now = world.monotonic();
    if let Some(lease) = &found {
        memory.sighting = Some(Sighting::next(memory.sighting.as_ref(), Record::read(lease), now));
    }
    let action = decide(found.is_some(), memory.sighting.as_ref(), &options.identity, now);
    let sent = world.monotonic();
    let (written, after_ungraceful) = match (action, &found) {
        (Action::Wait(left), _) => return (memory, Ok(Verdict::Others(left))),
        (Action::Create { after_ungraceful }, _) => {
            (within(world, world.create(&created(options, world.unix_ms()))).await, after_ungraceful)
        }
        (Action::Take { after_ungraceful }, Some(lease)) => {
            (within(world, world.replace(&taken(lease, options, world.unix_ms()))).await, after_ungraceful)
        }
        // It names us although we don't lead: an answer of ours was lost, or our hold ran out. Commands of then may be on their
        // way.
        (Action::Renew, Some(lease)) => (within(world, world.replace(&renewed(lease, world.unix_ms()))).await, !leading),
        (Action::Take { .. } | Action::Renew, None) => return (memory, Ok(Verdict::Others(RETRY))),
    };
    match written {
        Ok(object) => held(memory, object, world, sent, after_ungraceful),
        // Somebody wrote between our look and our renewal; the next look tells who.
        Err(error @ ApiError::Conflict(_)) if leading => (memory, Err(error)),
        // Another was faster. It holds, as far as we know, all of its duration from now.
        Err(ApiError::Conflict(_) | ApiError::AlreadyExists(_) | ApiError::NotFound(_)) => {
            (memory, Ok(Verdict::Others(DURATION)))
        }
        Err(error) => (memory, Err(error)),
    }
}

/// A confirmed write that names us.
fn held<W: Clock>(
    mut memory: Memory,
    object: Object,
    world: &W,
    sent: Duration,
    after_ungraceful: bool,
) -> (Memory, Result<Verdict, ApiError>) {
    memory.sighting = Some(Sighting { record: Record::read(&object), since: world.monotonic() });
    memory.own = Some(object);
    (memory, Ok(Verdict::Held { sent, after_ungraceful }))
}

/// Runs a request, [`REQUEST`] at most. When it is dropped it may have happened.
async fn within<C: Clock, T>(clock: &C, request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    tokio::select! {
        biased;
        answer = request => answer,
        () = clock.sleep(REQUEST) => Err(ApiError::Timeout(REQUEST)),
    }
}

/// Ready at that time of the monotonic clock; never for `None`.
async fn at<C: Clock>(clock: &C, time: Option<Duration>) {
    match time {
        Some(time) => clock.sleep(time.saturating_sub(clock.monotonic())).await,
        None => std::future::pending().await,
    }
}

fn created(options: &LeaseOptions, now: u64) -> Value {
    let time = micro_time(now);
    json!({
        "apiVersion": Kind::Lease.api_version(),
        "kind": Kind::Lease.name(),
        "metadata": {
            "namespace": options.namespace,
            "name": options.name,
            "labels": { names::MANAGED_BY: names::OPERATOR },
        },
        "spec": {
            "holderIdentity": options.identity,
            "leaseDurationSeconds": DURATION.as_secs(),
            "acquireTime": time,
            "renewTime": time,
            "leaseTransitions": 0,
        },
    })
}

fn renewed(lease: &Object, now: u64) -> Value {
    with_spec(lease, |spec| {
        spec.insert("renewTime".to_owned(), json!(micro_time(now)));
        spec.insert("leaseDurationSeconds".to_owned(), json!(DURATION.as_secs()));
    })
}

fn taken(lease: &Object, options: &LeaseOptions, now: u64) -> Value {
    let transitions = Record::read(lease).transitions.saturating_add(1);
    with_spec(lease, |spec| {
        spec.insert("holderIdentity".to_owned(), json!(options.identity));
        spec.insert("leaseDurationSeconds".to_owned(), json!(DURATION.as_secs()));
        spec.insert("acquireTime".to_owned(), json!(micro_time(now)));
        spec.insert("renewTime".to_owned(), json!(micro_time(now)));
        spec.insert("leaseTransitions".to_owned(), json!(transitions));
    })
}

fn emptied(lease: &Object, now: u64) -> Value {
    with_spec(lease, |spec| {
        // An empty text is refused by newer servers; client-go removes the field, too.
        spec.remove("holderIdentity");
        spec.insert("renewTime".to_owned(), json!(micro_time(now)));
    })
}

/// The Lease, with its resourceVersion, and a changed spec.
fn with_spec(lease: &Object, change: impl FnOnce(&mut Map<String, Value>)) -> Value {
    let mut body = lease.0.as_object().cloned().unwrap_or_default();
    let mut spec = match body.remove("spec") {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    change(&mut spec);
    body.insert("spec".to_owned(), Value::Object(spec));
    Value::Object(body)
}

/// RFC 3339 with exactly six decimals: MicroTime takes no other form.
fn micro_time(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_time_has_six_decimals() {
        assert_eq!(micro_time(1_764_632_359_120), "2025-12-01T23:39:19.120000Z");
        assert_eq!(micro_time(1_764_632_359_000), "2025-12-01T23:39:19.000000Z");
    }
}
