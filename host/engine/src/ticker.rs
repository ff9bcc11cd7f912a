//! The clock of deadlines: one thread that moves the engine's epoch on while calls run.
//!
//! # Guarantees
//! 1. While a [`Running`] lives, the epoch moves on every [`TICK_MS`]. While none does, the thread sleeps and costs nothing.
//! 2. The thread ends with the [`Ticker`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::EngineWeak;

use crate::limits::TICK_MS;

/// Owns the thread.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    ended: bool,
}

/// A call that runs: the clock ticks while it lives.
pub(crate) struct Running<'a>(&'a Shared);

impl Ticker {
    /// Starts the thread.
    pub(crate) fn start(engine: EngineWeak) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let thread = std::thread::Builder::new().name("policy-clock".into()).spawn({
            let shared = Arc::clone(&shared);
            move || tick(&shared, &engine)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Ticks until the result is dropped.
    pub(crate) fn run(&self) -> Running<'_> {
        self.shared.lock().running += 1;
        self.shared.changed.notify_all();
        Running(&self.shared)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It can't have panicked: it locks, waits and counts.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tick(shared: &Shared, engine: &EngineWeak) {
    let mut state = shared.lock();
    while !state.ended {
        if state.running == 0 {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        // A call that starts notifies too; the wait goes on for what is left of the tick, so that no run of short calls stops the clock.
        let tick = Duration::from_millis(TICK_MS);
        (state, _) = shared.changed.wait_timeout_while(state, tick, |state| !state.ended).unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
        }
    }
}
