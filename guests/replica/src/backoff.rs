//! Backing off without a memory: what became of recent steps is in the observation.

use vko_sdk::lookup::{misses_in_a_row, operation_name, recent};
use vko_sdk::observation::{Observed, OutcomeKind};
use vko_sdk::planning::Track;

use crate::decision::{Block, Decision, sooner};

/// Longest wait (ms) between two tries of the same step.
pub const WAIT_MAX_MS: u64 = 30_000;
/// How long (ms) after a step was done its effect is in the observation at the latest: the host asks its servers at once.
pub const SEEN_MS: u64 = 250;

/// Takes out what the host can't do and what failed lately. `lacks`: the cause of what waits for another host.
pub fn settle<C: Clone>(observed: &Observed, mut decision: Decision<C>, lacks: C) -> Decision<C> {
    let can = &observed.environment.capabilities;
    let lacking = |t: &Track| t.steps.iter().map(|s| operation_name(&s.operation)).find(|name| !can.iter().any(|c| c == name));
    for track in &decision.tracks {
        if let Some(name) = lacking(track) {
            let message = format!("this operator doesn't carry out '{name}', which {} needs", track.subject);
            let remedy = "upgrade the operator, or pin an older policy";
            decision.blocks.push(Block::new(&track.subject, lacks.clone(), message, remedy));
        }
    }
    decision.tracks.retain(|t| lacking(t).is_none());
    let (tracks, wait) = hold(decision.tracks, observed);
    Decision { look_again: sooner(decision.look_again, wait), tracks, ..decision }
}

/// Splits tracks into those that may go on, and the wait (ms) until the first of the others may; 0 if none is held.
pub fn hold(tracks: Vec<Track>, observed: &Observed) -> (Vec<Track>, u64) {
    let mut soonest = 0;
    let free = tracks
        .into_iter()
        .filter(|track| {
            let wait =
                track.steps.iter().map(|s| wait_ms(observed, operation_name(&s.operation), &track.subject)).max().unwrap_or(0);
            if wait > 0 {
                soonest = if soonest == 0 { wait } else { wait.min(soonest) };
            }
            wait == 0
        })
        .collect();
    (free, soonest)
}

/// How long (ms) the next try of that operation on that subject waits: 1, 2, 4 .. 30 s after the newest of misses in a row. A
/// step that was done and is wanted again all the same waits, too: first until its effect can have been seen, then as if it had
/// missed. Without this a step that succeeds and changes nothing is asked for at every look.
pub fn wait_ms(observed: &Observed, operation: &str, subject: &str) -> u64 {
    let Some(newest) = recent(observed, operation, subject) else { return 0 };
    let (row, first) = match misses_in_a_row(observed, operation, subject) {
        0 => (successes_in_a_row(observed, operation, subject), SEEN_MS),
        misses => (misses, 1_000),
    };
    let wait = match u32::try_from(row).unwrap_or(u32::MAX) {
        0 => 0,
        1 => first,
        row => 1_000_u64 << (row - 1).min(5),
    };
    wait.min(WAIT_MAX_MS).saturating_sub(newest.age)
}

/// How often, counted from the newest, that was done: each at most so long after the one before that it can have been a
/// repetition.
fn successes_in_a_row(observed: &Observed, operation: &str, subject: &str) -> usize {
    let outcomes = observed.recent.iter().filter(|outcome| outcome.operation == operation && outcome.subject == subject);
    let mut before = 0;
    let repeated = outcomes.take_while(|outcome| {
        let close = outcome.age.saturating_sub(before) <= WAIT_MAX_MS + 1_000;
        before = outcome.age;
        close && outcome.outcome == OutcomeKind::Done
    });
    repeated.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, mk_outcome};

    #[test]
    fn waits_double_from_the_newest_miss_on() {
        let failed = |age| mk_outcome("follow", "a", OutcomeKind::Failed("x".into()), age);
        let done = |age| mk_outcome("follow", "a", OutcomeKind::Done, age);
        let other = |age| mk_outcome("follow", "b", OutcomeKind::Failed("x".into()), age);
        let table = [
            ("nothing happened", vec![], 0),
            ("the last one went well, just now", vec![done(10), failed(20)], 240),
            ("the last one went well", vec![done(250), failed(300)], 0),
            ("done twice, and wanted again", vec![done(0), done(400)], 2_000),
            ("done four times, and wanted again", vec![done(1_000), done(5_000), done(7_000), done(7_400)], 7_000),
            ("done twice, long apart", vec![done(250), done(60_000)], 0),
            ("done again and again", vec![done(5_000); 40], 25_000),
            ("one miss just now", vec![failed(0)], 1_000),
            ("one miss, half the wait is over", vec![failed(400)], 600),
            ("one miss, long ago", vec![failed(1_000)], 0),
            ("three misses", vec![failed(0), failed(9), failed(20)], 4_000),
            ("misses before a success don't count", vec![failed(0), done(9), failed(20)], 1_000),
            ("many misses", vec![failed(5_000); 40], 25_000),
            ("another subject", vec![other(0)], 0),
            (
                "refused and dropped count alike",
                vec![mk_outcome("follow", "a", OutcomeKind::Dropped("x".into()), 0), failed(1)],
                2_000,
            ),
        ];
        for (case, recent, expected) in table {
            let mut observed = Scene::new("x", 1).observed;
            observed.recent = recent;
            assert_eq!(wait_ms(&observed, "follow", "a"), expected, "{case}");
        }
    }
}
