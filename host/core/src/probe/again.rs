//! Asking a server anew out of turn, wholly, and waiting for its answer: after a step the next look must not start from what was
//! before it.
//!
//! # Guarantees
//! 1. An answer counts only if its question was asked after [`Again::ask`].
//! 2. Whoever isn't asked at all, or not any more, is not waited for.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The servers and Sentinels that can be asked, by the key of their target.
#[derive(Debug, Default)]
pub struct Again(Mutex<BTreeMap<String, Line>>);

#[derive(Debug)]
struct Line {
    wanted: watch::Sender<u64>,
    answered: watch::Receiver<u64>,
}

/// The other end of a line: whoever asks.
pub(super) struct Turn {
    wanted: watch::Receiver<u64>,
    answered: watch::Sender<u64>,
}

impl Again {
    /// Somebody asks that server from now on.
    pub(super) fn register(&self, key: &str) -> Turn {
        let ((wanted, asks), (tells, answered)) = (watch::channel(0), watch::channel(0));
        self.lines().insert(key.to_owned(), Line { wanted, answered });
        Turn { wanted: asks, answered: tells }
    }

    /// Has these asked, and waits until each has answered, or has given no answer.
    pub async fn ask(&self, keys: &[String]) {
        let mut waits = Vec::new();
        for key in keys {
            let lines = self.lines();
            let Some(line) = lines.get(key) else { continue };
            let mut number = 0;
            line.wanted.send_modify(|wanted| {
                *wanted += 1;
                number = *wanted;
            });
            waits.push((number, line.answered.clone()));
        }
        for (number, mut answered) in waits {
            // An error: nobody asks any more.
            let _ = answered.wait_for(|last| *last >= number).await;
        }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// The newest wish, and whether it is still to be met.
    pub(super) fn wish(&mut self) -> (u64, bool) {
        let wanted = *self.wanted.borrow_and_update();
        (wanted, wanted > *self.answered.borrow())
    }

    /// A wish was met.
    pub(super) fn meet(&self, wish: u64) {
        self.answered.send_replace(wish);
    }

    /// Waits for a wish; for ever where nobody can have one any more.
    pub(super) async fn wished(&mut self) {
        if self.wanted.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn an_answer_to_a_question_of_before_does_not_count() {
        let again = Arc::new(Again::default());
        let mut turn = again.register("p");
        let (before, _) = turn.wish();
        let asking = tokio::spawn({
            let again = again.clone();
            async move { again.ask(&["p".into(), "never heard of".into()]).await }
        });
        turn.wished().await;
        turn.meet(before);
        tokio::task::yield_now().await;
        assert!(!asking.is_finished(), "that question was asked before the step ended");
        let (now, open) = turn.wish();
        assert!(open);
        turn.meet(now);
        asking.await.unwrap();
        assert!(!turn.wish().1, "met");
    }

    #[tokio::test]
    async fn who_is_gone_is_not_waited_for() {
        let again = Again::default();
        drop(again.register("p"));
        again.ask(&["p".into()]).await;
    }
}
