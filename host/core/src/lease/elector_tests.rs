//! The elector against a Lease in memory, on a clock that the test moves.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot, watch};

use super::{DURATION, Elector, LeaseOptions, LeaseState, RENEW, Transition};
use crate::object::{Kind, Object, ObjectId};
use crate::world::{ApiError, Change, Clock, Delete, EventNote, Kube, UnixMs};

/// What happens to the requests of one operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Up,
    /// No answer, and nothing happens.
    Hangs,
    /// It happens, but the answer is lost.
    AnswersLost,
}

/// The API server: one Lease.
#[derive(Default)]
struct Store {
    lease: Mutex<Option<Value>>,
    version: Mutex<u64>,
    requests: Mutex<Vec<String>>,
}

impl Store {
    fn write(&self, mut lease: Value) -> Object {
        let mut version = self.version.lock().unwrap();
        *version += 1;
        lease["metadata"]["resourceVersion"] = json!(version.to_string());
        *self.lease.lock().unwrap() = Some(lease.clone());
        Object::new(lease)
    }
    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        lease.as_ref().map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    }
}

/// One operator's world.
struct Fake {
    name: &'static str,
    store: Arc<Store>,
    link: Mutex<Link>,
    clock: watch::Sender<Duration>,
}

impl Fake {
    async fn request<T>(&self, verb: &str, act: impl FnOnce() -> Result<T, ApiError> + Send) -> Result<T, ApiError> {
        let link = *self.link.lock().unwrap();
        self.store.requests.lock().unwrap().push(format!("{} {verb}", self.name));
        match link {
            Link::Up => act(),
            Link::Hangs => pending().await,
            Link::AnswersLost => {
                let _ = act();
                pending().await
            }
        }
    }
    fn set(&self, link: Link) {
        *self.link.lock().unwrap() = link;
    }
}

impl Clock for Fake {
    fn unix_ms(&self) -> UnixMs {
        1_764_632_359_000 + u64::try_from(self.monotonic().as_millis()).unwrap()
    }
    fn monotonic(&self) -> Duration {
        *self.clock.borrow()
    }
    async fn sleep(&self, time: Duration) {
        let target = self.monotonic() + time;
        self.clock.subscribe().wait_for(|now| *now >= target).await.unwrap();
    }
    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn unused<T>() -> Result<T, ApiError> {
    Err(ApiError::Invalid("the elector doesn't use this verb".to_owned()))
}

impl Kube for Fake {
    fn cached(&self, _: &ObjectId) -> Option<Object> {
        None
    }
    fn cached_of(&self, _: Kind, _: &str, _: &str) -> Vec<Object> {
        Vec::new()
    }
    fn cached_all(&self, _: Kind) -> Vec<Object> {
        Vec::new()
    }
    fn cache_age(&self, _: Kind) -> Option<Duration> {
        None
    }
    fn changes(&self) -> broadcast::Receiver<Change> {
        broadcast::channel(1).1
    }
    async fn get(&self, _: &ObjectId) -> Result<Option<Object>, ApiError> {
        self.request("get", || Ok(self.store.lease.lock().unwrap().clone().map(Object::new))).await
    }
    async fn create(&self, object: &Value) -> Result<Object, ApiError> {
        self.request("create", || {
            if self.store.lease.lock().unwrap().is_some() {
                return Err(ApiError::AlreadyExists("lease".to_owned()));
            }
            Ok(self.store.write(object.clone()))
        })
        .await
    }
    async fn replace(&self, object: &Value) -> Result<Object, ApiError> {
        self.request("replace", || {
            let live = self.store.lease.lock().unwrap().clone().ok_or(ApiError::NotFound("lease".to_owned()))?;
            if live["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                return Err(ApiError::Conflict("lease".to_owned()));
            }
            Ok(self.store.write(object.clone()))
        })
        .await
    }
    async fn apply(&self, _: &Value) -> Result<Object, ApiError> {
        unused()
    }
    async fn replace_status(&self, _: &Value) -> Result<Object, ApiError> {
        unused()
    }
    async fn merge(&self, _: &ObjectId, _: &Value) -> Result<Object, ApiError> {
        unused()
    }
    async fn delete(&self, _: &ObjectId, _: Delete) -> Result<(), ApiError> {
        unused()
    }
    async fn evict(&self, _: &str, _: &str, _: &str) -> Result<(), ApiError> {
        unused()
    }
    async fn event(&self, _: &Object, _: EventNote) {}
}

/// An operator that takes part.
struct Operator {
    world: Arc<Fake>,
    state: LeaseState,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

/// The scene: one API server, one clock.
struct Scene {
    store: Arc<Store>,
    clock: watch::Sender<Duration>,
}

impl Scene {
    fn new() -> Self {
        Self { store: Arc::new(Store::default()), clock: watch::Sender::new(Duration::from_secs(1000)) }
    }

    async fn start(&self, name: &'static str) -> Operator {
        let world = Arc::new(Fake { name, store: self.store.clone(), link: Mutex::new(Link::Up), clock: self.clock.clone() });
        let options = LeaseOptions { namespace: "ns".into(), name: "lease".into(), identity: name.into() };
        let (elector, state) = Elector::new(world.clone(), options);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(elector.run(async move {
            let _ = stopped.await;
        }));
        settle().await;
        Operator { world, state, stop: Some(stop), task }
    }

    /// Moves the clock in small steps, and lets all tasks act at each; `check` holds at each.
    async fn pass(&self, time: Duration, check: impl Fn()) {
        let end = *self.clock.borrow() + time;
        while *self.clock.borrow() < end {
            self.clock.send_modify(|now| *now += Duration::from_millis(250));
            settle().await;
            check();
        }
    }
}

/// Lets every task run until it waits for the clock. All run on this thread, and none needs more than a few turns.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn now_is(operator: &Operator) -> Transition {
    *operator.state.transitions().borrow()
}

#[tokio::test]
async fn the_first_creates_and_renews_quietly_and_the_second_waits() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    let b = scene.start("b").await;
    assert_eq!(now_is(&a), Transition::Acquired { term: 1, after_ungraceful: false });
    assert_eq!(a.state.held_since(), Some(Duration::from_secs(1000)));
    scene
        .pass(Duration::from_secs(60), || {
            assert!(a.state.remaining() > DURATION - RENEW - Duration::from_secs(1), "{:?}", a.state);
            assert!(!b.state.is_leader());
        })
        .await;
    assert_eq!(now_is(&b), Transition::Standby);
    assert_eq!(b.state.held_since(), None);
    let requests = scene.store.requests.lock().unwrap().clone();
    let count = |what: &str| requests.iter().filter(|request| request.as_str() == what).count();
    assert_eq!((count("a get"), count("a create"), count("a replace")), (1, 1, 12), "one renewal every 5 s and nothing else");
    assert_eq!((count("b create"), count("b replace")), (0, 0), "a standby only reads");
}

#[tokio::test]
async fn what_it_covers_leaves_the_margin() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    a.world.set(Link::Hangs);
    scene.pass(Duration::from_secs(5), || {}).await;
    assert_eq!(a.state.remaining(), Duration::from_secs(10));
    assert!(a.state.covers(Duration::from_millis(7999)));
    assert!(!a.state.covers(Duration::from_secs(8)), "8 s and the margin end just when the hold does");
}

#[tokio::test]
async fn a_graceful_stop_hands_over_at_the_next_look() {
    let scene = Scene::new();
    let mut a = scene.start("a").await;
    let b = scene.start("b").await;
    a.stop.take().unwrap().send(()).unwrap();
    settle().await;
    assert!(a.task.is_finished());
    assert_eq!(now_is(&a), Transition::Lost { term: 1 });
    assert_eq!(scene.store.holder(), "");
    scene.pass(super::POLL, || assert!(!a.state.is_leader())).await;
    assert_eq!(now_is(&b), Transition::Acquired { term: 1, after_ungraceful: false });
    assert_eq!(scene.store.lease.lock().unwrap().as_ref().unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test]
async fn a_successor_waits_out_a_killed_holder_and_is_told() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    let b = scene.start("b").await;
    a.task.abort();
    settle().await;
    scene.pass(Duration::from_millis(14_750), || assert!(!b.state.is_leader(), "the old hold lasts")).await;
    scene.pass(super::POLL, || {}).await;
    assert_eq!(now_is(&b), Transition::Acquired { term: 1, after_ungraceful: true });
    assert!(!a.state.is_leader(), "the handle of the dead ends by the clock alone");
}

#[tokio::test]
async fn never_two_while_one_is_cut_off() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    let b = scene.start("b").await;
    scene.pass(Duration::from_secs(12), || {}).await;
    a.world.set(Link::Hangs);
    scene.pass(Duration::from_secs(40), || assert!(!(a.state.is_leader() && b.state.is_leader()))).await;
    assert_eq!(now_is(&a), Transition::Lost { term: 1 }, "announced while a request hangs");
    assert_eq!(now_is(&b), Transition::Acquired { term: 1, after_ungraceful: true });
    a.world.set(Link::Up);
    scene.pass(Duration::from_secs(40), || assert!(!a.state.is_leader())).await;
    assert!(b.state.is_leader());
}

#[tokio::test]
async fn lost_answers_neither_prolong_the_hold_nor_end_it_for_good() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    a.world.set(Link::AnswersLost);
    scene.pass(DURATION, || {}).await;
    assert_eq!(now_is(&a), Transition::Lost { term: 1 }, "the server has its renewals, but it never heard so");
    a.world.set(Link::Up);
    scene.pass(Duration::from_secs(6), || {}).await;
    assert_eq!(
        now_is(&a),
        Transition::Acquired { term: 2, after_ungraceful: true },
        "nobody else held it; its own old commands count"
    );
}

#[tokio::test]
async fn a_lease_taken_by_force_ends_the_hold_at_the_next_renewal() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    let mut forced = scene.store.lease.lock().unwrap().clone().unwrap();
    forced["spec"]["holderIdentity"] = json!("somebody");
    scene.store.write(forced);
    scene.pass(RENEW, || {}).await;
    assert_eq!(now_is(&a), Transition::Lost { term: 1 });
}

#[tokio::test]
async fn an_edit_by_somebody_else_costs_a_look_and_not_the_hold() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    let mut edited = scene.store.lease.lock().unwrap().clone().unwrap();
    edited["metadata"]["labels"]["note"] = json!("seen");
    scene.store.write(edited);
    scene.pass(Duration::from_secs(20), || assert!(a.state.is_leader())).await;
    assert_eq!(now_is(&a), Transition::Acquired { term: 1, after_ungraceful: false });
    assert_eq!(scene.store.lease.lock().unwrap().as_ref().unwrap()["metadata"]["labels"]["note"], "seen", "and is kept");
}

#[tokio::test]
async fn a_deleted_lease_is_made_anew_by_its_holder() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    let b = scene.start("b").await;
    *scene.store.lease.lock().unwrap() = None;
    scene.pass(Duration::from_secs(30), || assert!(a.state.is_leader() && !b.state.is_leader())).await;
    assert_eq!(scene.store.holder(), "a");
}

#[tokio::test]
async fn alone_it_is_held_for_ever() {
    let scene = Scene::new();
    let a = scene.start("a").await;
    let alone = LeaseState::alone(a.world.clone());
    scene.pass(Duration::from_secs(60), || assert!(alone.covers(Duration::from_secs(86_400)))).await;
    assert_eq!(*alone.transitions().borrow(), Transition::Acquired { term: 1, after_ungraceful: false });
}
