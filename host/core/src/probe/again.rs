//! Asking servers out of turn: everybody, because something has happened, or some, whose answers are waited for.
//!
//! # Guarantees
//! 1. An answer counts only if its question was asked after [`Again::ask`].
//! 2. Whoever isn't asked at all, or not any more, is not waited for.
//! 3. A wish that comes while a question is under way is met by another one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::world::Clock;

/// How much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The light probe, and more where its answer is news.
    Lightly,
    /// All of it: after a step the next look must not start from what was before it.
    Wholly,
}

/// The servers and Sentinels that can be asked, by the key of their target.
#[derive(Debug, Default)]
pub struct Again(Mutex<BTreeMap<String, Line>>);

#[derive(Debug)]
struct Line {
    wanted: watch::Sender<Wanted>,
    answered: watch::Receiver<u64>,
}

/// The wishes for one server, counted.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted {
    newest: u64,
    /// The newest one that wanted all of it.
    wholly: u64,
}

/// The other end of a line: whoever asks.
pub(super) struct Turn {
    wanted: watch::Receiver<Wanted>,
    answered: watch::Sender<u64>,
}

/// What is wished when a question begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    number: u64,
    /// `None`: nothing out of turn.
    pub(super) depth: Option<Depth>,
}

impl Again {
    /// Somebody asks that server from now on; the first question is wished for.
    pub(super) fn register(&self, key: &str) -> Turn {
        let ((wanted, asks), (tells, answered)) = (watch::channel(Wanted { newest: 1, wholly: 0 }), watch::channel(0));
        self.lines().insert(key.to_owned(), Line { wanted, answered });
        Turn { wanted: asks, answered: tells }
    }

    /// Forgets those that nobody asks any more.
    pub(crate) fn keep_only(&self, keys: &[String]) {
        self.lines().retain(|key, _| keys.contains(key));
    }

    /// Has everybody asked, and waits for nobody.
    pub fn ask_all(&self) {
        self.lines().values().for_each(|line| {
            line.wish(Depth::Lightly);
        });
    }

    /// Has these asked, and waits until each has answered, or has given no answer; at most so long.
    pub async fn ask<C: Clock>(&self, clock: &C, keys: &[String], depth: Depth, within: Duration) {
        let waits: Vec<_> = {
            let lines = self.lines();
            keys.iter().filter_map(|key| lines.get(key)).map(|line| (line.wish(depth), line.answered.clone())).collect()
        };
        let all = async {
            for (number, mut answered) in waits {
                // An error: nobody asks any more.
                let _ = answered.wait_for(|last| *last >= number).await;
            }
        };
        tokio::select! {
            biased;
            () = all => {}
            () = clock.sleep(within) => {}
        }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn wish(&self, depth: Depth) -> u64 {
        let mut number = 0;
        self.wanted.send_modify(|wanted| {
            wanted.newest += 1;
            number = wanted.newest;
            if depth == Depth::Wholly {
                wanted.wholly = number;
            }
        });
        number
    }
}

impl Turn {
    /// What is still to be met.
    pub(super) fn wish(&mut self) -> Wish {
        let (Wanted { newest, wholly }, answered) = (*self.wanted.borrow_and_update(), *self.answered.borrow());
        let depth = match (wholly > answered, newest > answered) {
            (true, _) => Some(Depth::Wholly),
            (false, true) => Some(Depth::Lightly),
            (false, false) => None,
        };
        Wish { number: newest, depth }
    }

    /// A wish was met.
    pub(super) fn meet(&self, wish: Wish) {
        self.answered.send_replace(wish.number);
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
    use crate::testing::FakeWorld;
    use crate::world::UnixMs;

    /// Time doesn't pass.
    struct Stopped;

    impl Clock for Stopped {
        fn unix_ms(&self) -> UnixMs {
            0
        }
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep(&self, _time: Duration) -> impl Future<Output = ()> + Send {
            std::future::pending()
        }
        fn random(&self, _bytes: &mut [u8]) {}
    }

    /// Has these asked, beside the test, for as long as it takes.
    fn asking(again: &Arc<Again>, keys: &[&str]) -> tokio::task::JoinHandle<()> {
        let (again, keys) = (again.clone(), keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
        tokio::spawn(async move { again.ask(&Stopped, &keys, Depth::Wholly, Duration::from_secs(1)).await })
    }

    #[tokio::test]
    async fn an_answer_to_a_question_of_before_does_not_count() {
        let again = Arc::new(Again::default());
        let mut turn = again.register("p");
        let before = turn.wish();
        assert_eq!(before.depth, Some(Depth::Lightly), "the first question");
        let asking = asking(&again, &["p", "never heard of"]);
        turn.wished().await;
        turn.meet(before);
        tokio::task::yield_now().await;
        assert!(!asking.is_finished(), "that question was asked before the step ended");
        let now = turn.wish();
        assert_eq!(now.depth, Some(Depth::Wholly));
        turn.meet(now);
        asking.await.unwrap();
        assert_eq!(turn.wish().depth, None, "met");
    }

    #[test]
    fn how_much_is_asked() {
        use Depth::{Lightly, Wholly};
        let table: [(&str, &[Depth], Option<Depth>); 5] = [
            ("nothing out of turn", &[], None),
            ("a light wish", &[Lightly], Some(Lightly)),
            ("a whole one", &[Wholly], Some(Wholly)),
            ("a light one after it doesn't make it lighter", &[Wholly, Lightly], Some(Wholly)),
            ("a whole one after a light one", &[Lightly, Wholly], Some(Wholly)),
        ];
        for (case, wishes, expected) in table {
            let again = Again::default();
            let mut turn = again.register("p");
            let first = turn.wish();
            turn.meet(first);
            for depth in wishes {
                again.lines()["p"].wish(*depth);
            }
            let wish = turn.wish();
            assert_eq!(wish.depth, expected, "{case}");
            turn.meet(wish);
            assert_eq!(turn.wish().depth, None, "{case}: one question meets all of them");
        }
    }

    #[tokio::test]
    async fn who_is_gone_or_gives_no_answer_is_not_waited_for() {
        let again = Arc::new(Again::default());
        drop(again.register("p"));
        asking(&again, &["p"]).await.unwrap();
        let _silent = again.register("q");
        again.ask(&FakeWorld::default(), &["q".into()], Depth::Lightly, Duration::from_secs(1)).await;
        again.keep_only(&[]);
        asking(&again, &["q"]).await.unwrap();
    }

    #[tokio::test]
    async fn everybody_can_be_asked_without_waiting() {
        let again = Again::default();
        let mut turns = ["p", "q"].map(|key| again.register(key));
        for turn in &mut turns {
            let first = turn.wish();
            turn.meet(first);
        }
        again.ask_all();
        for turn in &mut turns {
            turn.wished().await;
            assert_eq!(turn.wish().depth, Some(Depth::Lightly));
        }
    }
}
