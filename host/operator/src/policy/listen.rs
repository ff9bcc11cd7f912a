//! What a policy logs, while a trial goes on: its author wants to see it beside what it broke.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Runs something that calls a policy on this thread; returns, beside its result, the lines that the policy logged.
pub(super) fn listening<R>(call: impl FnOnce() -> R) -> (R, Vec<String>) {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    let result = tracing::subscriber::with_default(subscriber, call);
    let heard = std::mem::take(&mut *lines.0.lock().unwrap_or_else(PoisonError::into_inner));
    (result, heard)
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        if line.of_policy {
            let text = format!("{} {}", event.metadata().level(), line.message);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }
}

#[derive(Default)]
struct Line {
    message: String,
    of_policy: bool,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "policy" => self.of_policy = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_says_is_heard_and_nothing_else() {
        let (result, lines) = listening(|| {
            tracing::warn!(policy = "p 1", "three replicas");
            tracing::warn!("something of the host's");
            7
        });
        assert_eq!((result, lines), (7, vec!["WARN three replicas".to_owned()]));
    }
}
