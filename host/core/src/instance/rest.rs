//! How long an instance rests between two looks: a large one, woken by each of its servers, would look without a pause.
//!
//! # Guarantees
//! 1. No instance keeps more than about half of one processor busy with looking.
//! 2. One whose looks are light looks at once when it is woken, but for [`LOOKS`]: whatever its policy answers, it doesn't write
//!    more often than that for long.
//! 3. A wake during a rest is met after it, at most [`REST_MAX`] later.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use crate::allowance::Rate;

/// Looks at one instance. What a look writes wakes the next one: a policy whose answers flap (another label each time, another
/// message) would else write as fast as the API server answers. A creation takes 10 to 15 looks in its first second, and an
/// instance at work up to seven a second.
pub(super) const LOOKS: Rate = Rate { burst: 60, each: Duration::from_millis(400) };

/// Work that is too little to rest from. A look at an instance of six servers takes about a millisecond.
const LIGHT_MAX: Duration = Duration::from_millis(10);
/// The longest rest: what a failover may be late by, however slow the machine is. The work of a look at 640 servers, each of
/// another mind, is about 200 ms.
const REST_MAX: Duration = Duration::from_secs(1);

/// How long to rest after a look that took so much work, from its end on.
pub(super) fn rest(worked: Duration) -> Duration {
    if worked <= LIGHT_MAX { Duration::ZERO } else { worked.min(REST_MAX) }
}

/// The future's output, and how long it worked: waiting (for the API server, for servers, for other threads) doesn't count.
pub(super) async fn worked<F: Future>(future: F, now: impl Fn() -> Duration) -> (F::Output, Duration) {
    let mut future = pin!(future);
    let mut worked = Duration::ZERO;
    let output = poll_fn(|context| {
        let begun = now();
        let polled = future.as_mut().poll(context);
        worked += now().saturating_sub(begun);
        polled
    })
    .await;
    (output, worked)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_look_is_rested_from_by_its_work() {
        let ms = Duration::from_millis;
        let table = [
            ("nothing to do", ms(0), ms(0)),
            ("six servers", ms(2), ms(0)),
            ("just light enough", LIGHT_MAX, ms(0)),
            ("64 servers", ms(15), ms(15)),
            ("640 servers", ms(205), ms(205)),
            ("640 servers on a machine that is busy with others", ms(9_000), REST_MAX),
        ];
        for (case, took, expected) in table {
            assert_eq!(rest(took), expected, "{case}");
        }
    }

    #[tokio::test]
    async fn waiting_is_no_work() {
        let clock = Cell::new(0);
        let pass = |seconds| clock.set(clock.get() + seconds);
        let look = async {
            pass(2);
            tokio::task::yield_now().await;
            pass(3);
            "looked"
        };
        let others = async { pass(60) };
        let (looked, ()) = tokio::join!(worked(look, || Duration::from_secs(clock.get())), others);
        assert_eq!((looked, clock.get()), (("looked", Duration::from_secs(5)), 65));
    }
}
