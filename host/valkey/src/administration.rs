//! The servers of the real world.
//!
//! # Guarantees
//! 1. One lasting connection per pod and credential, made by the first call that needs it; calls that come meanwhile share the
//!    dial.
//! 2. A command is sent at most once. After silence, a lost connection, a refused login or an answer that makes no sense the
//!    connection is dropped, and the next call dials anew.
//! 3. A call ends within its deadline, dialling included.
//! 4. [`Administration::close_all`] ends calls that are under way, too: their commands may have happened. It ends subscriptions.
//!
//! # Assumptions
//! A command of the typed list answers soon; none blocks the connection that others use.
//!
//! # Flow of a call
//! 1. Take the connection, or the dial that is under way, or start one.
//! 2. Send, wait for the answer, the deadline, or the end of all connections, whichever is first.
//! 3. Type the answer; drop the connection if its state is in doubt.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use vko_core::command::{Command, Reply, SentinelEvent};
use vko_core::world::{ServerError, Servers, Target};

use crate::{answers, connection, errors, subscription, words};

/// What two calls must have in common to share a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    pod: String,
    ip: IpAddr,
    port: u16,
    user: String,
    /// Hash, so that the map holds no password.
    password: String,
}

impl Key {
    fn of(target: &Target) -> Self {
        Self {
            pod: target.pod.clone(),
            ip: target.ip,
            port: target.port,
            user: target.credential.user.clone(),
            password: target.credential.password.acl_hash(),
        }
    }
}

/// A dial that several calls wait for; once it is done, the connection that they share.
type Dial = Shared<BoxFuture<'static, Result<MultiplexedConnection, ServerError>>>;

/// A connection of the map. The number tells it from a successor under the same key.
struct Lasting {
    number: u64,
    dial: Dial,
}

/// Typed administration of Valkey servers over the network.
pub struct Administration {
    lasting: Mutex<HashMap<Key, Lasting>>,
    numbers: AtomicU64,
    /// Counts how often everything was closed; calls under way wait for its change.
    closings: watch::Sender<u64>,
}

impl Default for Administration {
    fn default() -> Self {
        Self::new()
    }
}

impl Administration {
    /// No connections yet. They are made, and used, within a Tokio runtime.
    pub fn new() -> Self {
        Self { lasting: Mutex::default(), numbers: AtomicU64::new(0), closings: watch::Sender::new(0) }
    }

    fn lasting(&self) -> MutexGuard<'_, HashMap<Key, Lasting>> {
        // Entries are put in and taken out whole: a panic elsewhere leaves nothing half-done.
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection for a target, or the dial that will make it.
    fn take(&self, key: &Key, target: &Target) -> (u64, Dial) {
        let mut lasting = self.lasting();
        if let Some(found) = lasting.get(key) {
            return (found.number, found.dial.clone());
        }
        // A rotated password or a new address leaves no connection of the old one behind.
        lasting.retain(|other, _| other.pod != key.pod || other.user != key.user);
        let dial = dialling(target.clone());
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        lasting.insert(key.clone(), Lasting { number, dial: dial.clone() });
        (number, dial)
    }

    /// Takes a connection out of use, unless a successor has its place already.
    fn drop_connection(&self, key: &Key, number: u64) {
        let mut lasting = self.lasting();
        if lasting.get(key).is_some_and(|found| found.number == number) {
            lasting.remove(key);
        }
    }

    /// Work that ends by its deadline, or when everything is closed.
    async fn bounded(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<Reply, ServerError>>,
    ) -> Result<Reply, ServerError> {
        let mut closings = self.closings.subscribe();
        tokio::select! {
            outcome = tokio::time::timeout(deadline, work) => outcome.unwrap_or(Err(ServerError::Silent(deadline))),
            _ = closings.changed() => Err(ServerError::Lost("the operator closed all its connections".to_owned())),
        }
    }
}

impl Servers for Administration {
    async fn call(&self, target: &Target, command: Command, deadline: Duration) -> Result<Reply, ServerError> {
        let key = Key::of(target);
        let (number, dial) = self.take(&key, target);
        // A dial that failed is nobody's any more, whatever the server said: a server that is held, or loads, says so in answer
        // to the login, and would have said it for ever.
        let dialled = async { dial.await.inspect_err(|_| self.drop_connection(&key, number)) };
        let outcome = self.bounded(deadline, async { send(dialled.await?, &command, deadline).await }).await;
        if let Err(error) = &outcome {
            tracing::debug!(pod = target.pod, command = command.name(), %error, "no usable answer");
            if errors::ends_connection(error) {
                self.drop_connection(&key, number);
            }
        }
        outcome
    }

    async fn call_fresh(&self, target: &Target, command: Command, deadline: Duration) -> Result<Reply, ServerError> {
        // The connection is dropped, and so closed, with the last of its handles: at the end of this call.
        self.bounded(deadline, async { send(connection::dial(target).await?, &command, deadline).await }).await
    }

    async fn subscribe(&self, target: &Target) -> Result<mpsc::Receiver<SentinelEvent>, ServerError> {
        subscription::subscribe(target, self.closings.subscribe()).await
    }

    fn forget(&self, pods_gone: &[String]) {
        self.lasting().retain(|key, _| !pods_gone.contains(&key.pod));
    }

    fn close_all(&self) {
        self.lasting().clear();
        self.closings.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Dials in a task of its own, so that a caller who gives up doesn't stop the dial that others wait for; it ends with the last of
/// them.
fn dialling(target: Target) -> Dial {
    let task = tokio::spawn(async move { connection::dial(&target).await });
    let end = AbortOnDrop(task.abort_handle());
    let dial = async move {
        let _end = end;
        task.await.unwrap_or_else(|_| Err(ServerError::Lost("the dial was given up".to_owned())))
    };
    dial.boxed().shared()
}

/// Ends a task that nobody waits for any more; nothing if it has ended.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a command and types its answer.
async fn send(mut connection: MultiplexedConnection, command: &Command, deadline: Duration) -> Result<Reply, ServerError> {
    let failed = |failure| errors::error(&failure, deadline, &words::secrets(command));
    let words = words::words(command);
    // A server's error replies come as values.
    let values = connection.send_packed_commands(&words, 0, words.len()).await.map_err(failed)?;
    answers::reply(command, values, failed)
}
