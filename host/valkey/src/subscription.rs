//! What a Sentinel publishes, as it happens.
//!
//! # Guarantees
//! 1. A subscription has a connection of its own: a Sentinel that publishes much holds nobody's answer back.
//! 2. When the connection ends, the receiver does; when the receiver is dropped, the connection ends.
//! 3. Whoever doesn't fetch events in time misses some and holds no memory, and gets one that says so: those that wait may be
//!    about other data sets.
//!
//! # Assumptions
//! An event is a hint. What is true is asked.
//!
//! # Flow
//! 1. Dial, with a place for what comes unasked.
//! 2. Subscribe to the channels that tell of changes.
//! 3. Hold the connection until it ends, the receiver is dropped, or everything is closed. Meanwhile tell of what was missed.

use std::sync::Arc;

use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};
use vko_core::command::SentinelEvent;
use vko_core::world::{ServerError, Target};
use vko_model::sentinel::CHANNELS;

use crate::connection;

/// Events that wait to be fetched. A failover publishes about twenty.
const WAITING_MAX: usize = 64;

/// Subscribes. `closings` changes when everything is to be closed.
///
/// # Errors
/// As for a call: the dial, the login, or a missing right.
pub(crate) async fn subscribe(
    target: &Target,
    mut closings: watch::Receiver<u64>,
) -> Result<mpsc::Receiver<SentinelEvent>, ServerError> {
    let (events, receiver) = mpsc::channel(WAITING_MAX);
    let (ended, mut end) = watch::channel(());
    let (waiting, missed) = (events.downgrade(), Arc::new(Notify::new()));
    let full = missed.clone();
    let push = move |info: PushInfo| -> Result<(), ()> {
        if info.kind == PushKind::Disconnection {
            ended.send_replace(());
        }
        match (event(info), waiting.upgrade()) {
            (Some(event), Some(events)) => {
                if let Err(TrySendError::Full(_)) = events.try_send(event) {
                    full.notify_one();
                }
            }
            (Some(_), None) => return Err(()),
            (None, _) => {}
        }
        Ok(())
    };
    let connection = connection::dial_for_events(target, CHANNELS, push).await?;
    tracing::debug!(pod = target.pod, "subscribed");
    tokio::spawn(async move {
        tokio::select! {
            _ = end.changed() => {}
            () = events.closed() => {}
            _ = closings.changed() => {}
            () = tell_missed(&events, &missed) => {}
        }
        drop(connection);
    });
    Ok(receiver)
}

/// Says that some were missed as soon as there is room for it, each time. Ends with the receiver.
async fn tell_missed(events: &mpsc::Sender<SentinelEvent>, missed: &Notify) {
    loop {
        missed.notified().await;
        if events.send(SentinelEvent::missed()).await.is_err() {
            return;
        }
    }
}

/// A published message; `None` for what else comes unasked.
fn event(info: PushInfo) -> Option<SentinelEvent> {
    if info.kind != PushKind::Message {
        return None;
    }
    let mut words = info.data.into_iter().map(|value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    });
    Some(SentinelEvent { channel: words.next()??, message: words.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_is_slow_is_told_that_it_missed_some() {
        let (events, mut receiver) = mpsc::channel(1);
        let missed = Arc::new(Notify::new());
        let other = SentinelEvent { channel: "+sdown".into(), message: "master other 10.0.0.1 6379".into() };
        events.try_send(other.clone()).unwrap();
        missed.notify_one();
        let telling = tokio::spawn({
            let (events, missed) = (events.clone(), missed.clone());
            async move { tell_missed(&events, &missed).await }
        });
        assert_eq!(receiver.recv().await, Some(other));
        assert_eq!(receiver.recv().await, Some(SentinelEvent::missed()));
        drop(receiver);
        missed.notify_one();
        telling.await.unwrap();
    }

    #[test]
    fn messages_are_events_and_nothing_else_is() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let event_of = |kind, data| event(PushInfo { kind, data });
        let message = "master mymaster 10.0.0.1 6379";
        let expected = SentinelEvent { channel: "+sdown".into(), message: message.into() };
        assert_eq!(event_of(PushKind::Message, vec![bulk("+sdown"), bulk(message)]), Some(expected));
        let nothing = [
            ("a confirmation", PushKind::Subscribe, vec![bulk("+sdown"), Value::Int(1)]),
            ("the end", PushKind::Disconnection, vec![]),
            ("cut off", PushKind::Message, vec![bulk("+sdown")]),
            ("no text", PushKind::Message, vec![bulk("+sdown"), Value::Int(1)]),
            ("bytes that are no text", PushKind::Message, vec![bulk("+sdown"), Value::BulkString(vec![0xff])]),
        ];
        for (name, kind, data) in nothing {
            assert_eq!(event_of(kind, data), None, "{name}");
        }
    }
}
