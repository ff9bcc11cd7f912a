//! The world as the core sees it: Kubernetes verbs on dynamic objects, typed commands to servers, and a clock.
//!
//! The cut is as low as the API verbs, so that every conflict, every lost answer and every crash point exists in each world that
//! implements it: `host/kube` with `host/valkey` (a real cluster) and the mock host (memory, real server processes).
//!
//! # Guarantees an implementation gives
//! 1. Cached reads cost no request. They may be stale; [`Kube::cache_age`] says how stale at most.
//! 2. Each write is one request, tried once, with a deadline of its own. `Err(ApiError::Timeout)` means that it may have
//!    happened.
//! 3. A command is sent once on the server's one lasting connection, or on a new one. `ServerError::Silent` after the command was
//!    written means that it may have happened.
//! 4. Nothing is logged that a [`Secret`](crate::secret::Secret) holds.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

use crate::command::{Command, Reply, SentinelEvent};
use crate::object::{Kind, Object, ObjectId};
use crate::secret::Secret;

/// Milliseconds since the Unix epoch.
pub type UnixMs = u64;

/// Why a request to the API server failed. The variant is the metric label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 409 with reason Conflict: the object is another one by now, or a precondition failed. Observe again.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 409 with reason AlreadyExists.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 404.
    #[error("not found: {0}")]
    NotFound(String),
    /// 403: a right is missing (see the chart's ClusterRole), or an admission plugin said no.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// 400 or 422: the server refuses what we sent; sending it again won't help.
    #[error("invalid: {0}")]
    Invalid(String),
    /// 429: later. For an eviction: a disruption budget says no.
    #[error("too many requests: {0}")]
    TooManyRequests(String),
    /// No answer within the deadline. It may have happened.
    #[error("no answer from the API server within {0:?}")]
    Timeout(Duration),
    /// The API server can't be reached or answers 5xx.
    #[error("API server unavailable: {0}")]
    Unavailable(String),
}

/// Something happened to an object that the caches hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The object.
    pub id: ObjectId,
    /// The instance that it belongs to (label `buf.red/name`); for a Valkey or topology object its own name; empty for nodes.
    pub instance: String,
}

/// What a delete is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// Precondition: the object that was observed and no successor of the same name.
    pub uid: String,
    /// `Some(0)` is a force-delete of a pod; `None` leaves it to the object.
    pub grace_seconds: Option<u32>,
    /// Whether dependents stay ("Orphan") or go in the background.
    pub orphan: bool,
}

/// An event for people. Reason is the name of an error variant or of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNote {
    /// CamelCase, from a closed list.
    pub reason: String,
    /// What happened and what to do, in one or two sentences.
    pub note: String,
    /// Warning or Normal.
    pub warning: bool,
}

/// Kubernetes: verbs on dynamic objects.
pub trait Kube: Send + Sync + 'static {
    /// An object from the watch cache.
    fn cached(&self, id: &ObjectId) -> Option<Object>;
    /// The objects of one instance (label `buf.red/name`) in a namespace, sorted by name, from the watch cache.
    fn cached_of(&self, kind: Kind, namespace: &str, instance: &str) -> Vec<Object>;
    /// All cached objects of a kind, sorted by namespace and name.
    fn cached_all(&self, kind: Kind) -> Vec<Object>;
    /// How old the cache of a kind may be: time since its watch last proved to be alive. `None` before the first full list.
    fn cache_age(&self, kind: Kind) -> Option<Duration>;
    /// Changes of cached objects, as they arrive. A receiver that lags looks at everything again.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// Reads from the API server, past the cache.
    fn get(&self, id: &ObjectId) -> impl Future<Output = Result<Option<Object>, ApiError>> + Send;
    /// Server-side apply of the object (forced, field manager `valkey-operator`).
    fn apply(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send;
    /// Creates; never overwrites.
    fn create(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send;
    /// PUT under the `metadata.resourceVersion` in the object.
    fn replace(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send;
    /// PUT of the status subresource under the `metadata.resourceVersion` in the object.
    fn replace_status(&self, object: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send;
    /// JSON merge patch. Preconditions are written into the patch (`metadata.uid`, `metadata.resourceVersion`).
    fn merge(&self, id: &ObjectId, patch: &Value) -> impl Future<Output = Result<Object, ApiError>> + Send;
    /// Deletes with preconditions. An object that is gone already is `Ok`.
    fn delete(&self, id: &ObjectId, delete: Delete) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// Evicts a pod by the Eviction API, bound to its UID.
    fn evict(&self, namespace: &str, pod: &str, uid: &str) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// Publishes an event; series are folded. A failure is nobody's problem but the log's.
    fn event(&self, regarding: &Object, note: EventNote) -> impl Future<Output = ()> + Send;
}

/// An account to log in with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// ACL user.
    pub user: String,
    /// Its password.
    pub password: Secret,
}

/// Where a server listens and who is asked. Equal targets share one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Pod UID: identity of the connection. A new pod is a new connection, whatever its address.
    pub pod: String,
    /// Where to dial.
    pub ip: IpAddr,
    /// Port.
    pub port: u16,
    /// Who we are there.
    pub credential: Credential,
}

/// Why a command brought no usable answer. The variant is the metric label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Nothing came back in time. If the command was sent, it may have happened.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// The connection was refused or reset: nobody listens, or the process ended.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The server loads its data set.
    #[error("loading its data set")]
    Loading,
    /// Wrong or missing credentials (WRONGPASS, NOAUTH).
    #[error(
        "the server refuses the operator's login: {0}; put the password that the server started with back into the account's Secret, \
         or restart the pod"
    )]
    Login(String),
    /// The account lacks a right (NOPERM).
    #[error("a right is missing: {0}")]
    NoPermission(String),
    /// Any other error reply: code and text.
    #[error("{code} {text}")]
    Refused {
        /// First word of the reply (ERR, BUSY, MISCONF, NOREPLICAS ...).
        code: String,
        /// The rest.
        text: String,
    },
    /// An answer of a form that the command doesn't have.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
}

/// Valkey servers and Sentinels.
pub trait Servers: Send + Sync + 'static {
    /// Sends one command on the target's lasting connection (made when there is none) and waits for the answer.
    fn call(
        &self,
        target: &Target,
        command: Command,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply, ServerError>> + Send;
    /// The same on a connection made for this call: where the answer must be of the server as it is now, not of a connection's
    /// past (roles after a hand-over), or where the command blocks.
    fn call_fresh(
        &self,
        target: &Target,
        command: Command,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply, ServerError>> + Send;
    /// What a Sentinel publishes from now on, over a connection of its own, until the returned receiver is dropped. The receiver
    /// ends when the connection does. Events wake, they prove nothing: whoever doesn't fetch them in time misses some.
    fn subscribe(&self, target: &Target) -> impl Future<Output = Result<mpsc::Receiver<SentinelEvent>, ServerError>> + Send;
    /// Closes the connections to these pods (UIDs): they are gone. Those of subscriptions end by themselves.
    fn forget(&self, pods_gone: &[String]);
    /// Closes all connections, subscriptions too: after the Lease was lost.
    fn close_all(&self);
}

/// Time.
pub trait Clock: Send + Sync + 'static {
    /// Wall clock. Only for what people and other processes read.
    fn unix_ms(&self) -> UnixMs;
    /// A clock that only goes forward, for ages and deadlines.
    fn monotonic(&self) -> Duration;
    /// Waits.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
    /// Random bytes, for passwords.
    fn random(&self, bytes: &mut [u8]);
}

/// All of it.
pub trait World: Kube + Servers + Clock {}
impl<T: Kube + Servers + Clock> World for T {}

/// A world that is shared.
pub type Shared<W> = Arc<W>;
