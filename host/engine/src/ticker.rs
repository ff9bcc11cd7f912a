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

/// Name of the thread; the kernel keeps 15 characters.
const THREAD: &str = "policy-clock";

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
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn({
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
        // A call that starts notifies too; the wait goes on for what is left of the tick, so that no run of short calls stops the
        // clock.
        let tick = Duration::from_millis(TICK_MS);
        (state, _) = shared.changed.wait_timeout_while(state, tick, |state| !state.ended).unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of this process with the clock's name.
    fn clocks() -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        tasks.filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == THREAD)).count()
    }

    #[test]
    fn a_call_that_never_ends_is_interrupted_and_the_thread_ends_with_the_ticker() -> wasmtime::Result<()> {
        let engine = wasmtime::Engine::new(wasmtime::Config::new().epoch_interruption(true))?;
        let ticker = Ticker::start(engine.weak())?;
        // (module (func (loop (br 0))) (start 0))
        let module = wasmtime::Module::new(
            &engine,
            b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x08\x01\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b",
        )?;
        for _ in 0..3 {
            let _running = ticker.run();
            let mut store = wasmtime::Store::new(&engine, ());
            store.set_epoch_deadline(2);
            let ended = wasmtime::Instance::new(&mut store, &module, &[]);
            let trap = ended.err().and_then(|error| error.downcast_ref::<wasmtime::Trap>().copied());
            assert_eq!(trap, Some(wasmtime::Trap::Interrupt));
        }
        assert_eq!(clocks(), 1);
        drop(ticker);
        assert_eq!(clocks(), 0);
        Ok(())
    }
}
