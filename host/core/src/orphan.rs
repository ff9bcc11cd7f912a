//! A hand-over that nobody owns any more: the operator or the hook that began it is gone, the server has given its role away, and
//! the replica doesn't take it (it stands still, or came back under another address). The server's own TIMEOUT doesn't fire then,
//! so without help there is no primary for ever.
//!
//! # Guarantees
//! 1. Only the last primary of the ledger is helped, and only while nobody else answers as a primary.
//! 2. Whoever began it has had more than its time: one that is our own, or the hook's of a pod that is ending, is left alone.
//!
//! # Flow
//! 1. [`Orphans::find`] at each look: who is in such a state, and for how long now.
//! 2. [`take_back`]: may we act, does nobody else lead, FAILOVER ABORT.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use vko_wit::observation::{LastPrimary, Observed, Pod, Reach, Role, Server};
use vko_wit::planning::{Operation, Track};

use crate::command::Command;
use crate::execute::ExecuteError;
use crate::procedure::promote::nobody_else_leads;
use crate::site::Site;
use crate::world::World;

/// A hand-over ends within 5 s or is taken back a second later, by the operator and by the hook alike; the rest is for their last
/// commands.
const OWNED_AT_MOST: Duration = Duration::from_secs(15);
/// Answers older than this (ms) say nothing about now.
const ANSWER_AGE_MAX_MS: u64 = 6_000;
/// What the server says once it has given its role away.
const GIVEN_AWAY: &str = "failover-in-progress";

/// Since when (monotonic) which run of a server has been in that state.
#[derive(Debug, Default)]
pub struct Orphans(Mutex<Option<(String, Duration)>>);

impl Orphans {
    /// The pod whose hand-over has to be taken back now. `running` are our own tracks.
    pub fn find(&self, observed: &Observed, running: &[Track], now: Duration) -> Option<String> {
        let ours = running.iter().flat_map(|track| &track.steps).any(|step| matches!(step.operation, Operation::HandOver(_)));
        let stuck = observed.servers.iter().find(|server| !ours && is_stuck(observed, server));
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((server, run)) = stuck.and_then(|server| Some((server, &server.facts.as_ref()?.run_id))) else {
            *since = None;
            return None;
        };
        match since.as_ref() {
            Some((known, at)) if known == run => {
                (now.saturating_sub(*at) >= OWNED_AT_MOST && nobody_leads(observed)).then(|| server.pod.clone())
            }
            _ => {
                *since = Some((run.clone(), now));
                None
            }
        }
    }
}

fn is_stuck(observed: &Observed, server: &Server) -> bool {
    let pod = observed.pods.iter().find(|pod| pod.uid == server.pod);
    let facts = server.facts.as_ref().filter(|_| answers(server));
    let given_away = facts.is_some_and(|facts| facts.failover_state == GIVEN_AWAY && matches!(facts.role, Role::Replica(_)));
    given_away && pod.is_some_and(|pod| pod.terminating_for == 0 && was_last(observed, pod))
}

fn answers(server: &Server) -> bool {
    server.reach == Reach::Answered && server.age <= ANSWER_AGE_MAX_MS
}

fn was_last(observed: &Observed, pod: &Pod) -> bool {
    match &observed.ledger.last_primary {
        LastPrimary::Members(members) => members.iter().any(|last| last.pod == pod.uid),
        LastPrimary::None => false,
    }
}

fn nobody_leads(observed: &Observed) -> bool {
    let leads = |server: &Server| answers(server) && server.facts.as_ref().is_some_and(|facts| facts.role == Role::Primary);
    !observed.servers.iter().any(leads)
}

/// Takes it back: the server is the primary again, and writes at once.
///
/// # Errors
/// We may not act, somebody leads by now, or what the server said.
pub async fn take_back<W: World>(site: &Site<W>, pod: &str) -> Result<(), ExecuteError> {
    site.may_act()?;
    nobody_else_leads(site, pod).await?;
    site.send(pod, Command::FailoverAbort).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::{self, Scene, hand_over, step, track, uid};
    use crate::testing::mk_site;

    /// Member 0 has given its role away to member 1, which doesn't take it.
    fn stuck() -> Scene {
        let mut scene = Scene::healthy(3);
        scene.follow(0, 1).silence(1).facts(0).failover_state = GIVEN_AWAY.into();
        scene
    }

    fn found(change: impl Fn(&mut Scene), running: &[Track], after: u64) -> Option<String> {
        let (orphans, mut scene) = (Orphans::default(), stuck());
        change(&mut scene);
        assert_eq!(orphans.find(&scene.0, running, Duration::from_secs(100)), None, "the first look only begins to count");
        orphans.find(&scene.0, running, Duration::from_secs(100 + after))
    }

    #[test]
    fn whose_hand_over_is_taken_back() {
        type Change = fn(&mut Scene);
        let cases: [(&str, Change, u64, bool); 8] = [
            ("for longer than anybody owns it", |_| {}, 15, true),
            ("not that long yet", |_| {}, 14, false),
            ("it is ending: its hook owns it", |s| s.pod(0).terminating_for = 1, 60, false),
            ("somebody leads", |s| s.facts(2).role = Role::Primary, 60, false),
            ("it doesn't answer", |s| _ = s.silence(0), 60, false),
            ("it has its role still, and waits for the replica", |s| s.facts(0).role = Role::Primary, 60, false),
            (
                "another is the primary by the ledger",
                |s| s.0.ledger.last_primary = LastPrimary::Members(vec![testing::mk_member(1)]),
                60,
                false,
            ),
            ("it is over", |s| s.facts(0).failover_state = "no-failover".into(), 60, false),
        ];
        for (case, change, after, expected) in cases {
            assert_eq!(found(change, &[], after), expected.then(|| uid(0)), "{case}");
        }
        assert_eq!(found(|_| {}, &[track("primary", vec![step(hand_over(0, 1))])], 60), None, "it is our own");
    }

    #[test]
    fn another_run_counts_anew() {
        let (orphans, mut scene) = (Orphans::default(), stuck());
        orphans.find(&scene.0, &[], Duration::ZERO);
        scene.facts(0).run_id = "another".into();
        assert_eq!(orphans.find(&scene.0, &[], Duration::from_secs(20)), None);
        assert_eq!(orphans.find(&scene.0, &[], Duration::from_secs(40)), Some(uid(0)));
    }

    #[tokio::test]
    async fn the_role_is_back_unless_somebody_took_it() {
        for taken in [false, true] {
            let (world, site) = mk_site(3);
            world.change(&uid(0), |server| (server.upstream, server.failover) = ("10.0.0.2".parse().ok(), GIVEN_AWAY.into()));
            world.change(&uid(1), |server| (server.silent, server.upstream) = (!taken, None));
            assert_eq!(take_back(&*site, &uid(0)).await.is_err(), taken);
            assert_eq!(world.server(&uid(0)).is_primary(), !taken, "never two");
            site.set_cut_off(true);
            world.effects();
            assert!(take_back(&*site, &uid(0)).await.is_err());
            assert_eq!(world.effects(), Vec::<String>::new());
        }
    }
}
