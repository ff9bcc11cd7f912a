//! Tracks side by side.

use std::sync::{Arc, Mutex};

use vko_wit::observation::OutcomeKind;
use vko_wit::planning::{Operation, Track};

use super::{StepReport, Told, Tracks};
use crate::guard::testing::{step, track, uid};
use crate::site::Site;
use crate::testing::{FakeWorld, mk_site, observed};
use crate::world::Clock;

type Reports = Arc<Mutex<Vec<StepReport>>>;

fn listener() -> (Reports, Told) {
    let reports = Reports::default();
    let sink = reports.clone();
    (reports, Arc::new(move |report| sink.lock().unwrap().push(report)))
}

fn save(ordinal: u32) -> vko_wit::planning::Step {
    step(Operation::Save(uid(ordinal)))
}

async fn until_rest(site: &Arc<Site<FakeWorld>>, tracks: &mut Tracks) {
    while !tracks.running().is_empty() {
        site.wake.notified().await;
        tokio::task::yield_now().await;
    }
}

fn follow(tracks: &mut Tracks, site: &Arc<Site<FakeWorld>>, wanted: Vec<Track>, told: &Told) {
    tracks.follow(site, &Arc::new(observed(3)), wanted, told);
}

#[tokio::test]
async fn a_failed_step_ends_its_own_track() {
    let (world, site) = mk_site(3);
    world.change(&uid(1), |server| server.silent = true);
    let ((reports, told), mut tracks) = (listener(), Tracks::default());
    follow(&mut tracks, &site, vec![track("a", vec![save(1), save(2)]), track("b", vec![save(0), save(2)])], &told);
    until_rest(&site, &mut tracks).await;
    assert_eq!(world.effects(), ["rfr-x-0: bgsave", "rfr-x-2: bgsave"]);
    let mut ends: Vec<_> = reports.lock().unwrap().iter().map(|r| (r.subject.clone(), r.result.is_ok())).collect();
    ends.sort();
    assert_eq!(ends, [("a".into(), false), ("b".into(), true), ("b".into(), true)]);
    let recent = site.outcomes.recent(world.monotonic());
    assert_eq!(recent.iter().filter(|o| matches!(o.outcome, OutcomeKind::Failed(_))).count(), 1);
    assert_eq!(recent.iter().filter(|o| o.outcome == OutcomeKind::Done).count(), 2);
}

#[tokio::test]
async fn a_subject_that_runs_is_not_started_again() {
    let (world, site) = mk_site(3);
    let ((_, told), mut tracks) = (listener(), Tracks::default());
    follow(&mut tracks, &site, vec![track("a", vec![save(0)])], &told);
    follow(&mut tracks, &site, vec![track("a", vec![save(1)])], &told);
    assert_eq!(tracks.running(), [track("a", vec![save(0)])], "as it was started");
    until_rest(&site, &mut tracks).await;
    assert_eq!(world.effects(), ["rfr-x-0: bgsave"]);
    assert!(tracks.running().is_empty());
}

#[tokio::test]
async fn a_track_that_the_plan_lacks_stops_at_its_next_step() {
    let (world, site) = mk_site(3);
    let ((_, told), mut tracks) = (listener(), Tracks::default());
    follow(&mut tracks, &site, vec![track("a", vec![save(0)]), track("b", vec![save(1)])], &told);
    // Nothing has run yet: the tasks wait for this one to yield.
    follow(&mut tracks, &site, vec![track("b", Vec::new())], &told);
    until_rest(&site, &mut tracks).await;
    assert_eq!(world.effects(), ["rfr-x-1: bgsave"]);
}

#[tokio::test]
async fn nothing_more_is_sent_once_they_are_dropped() {
    let (world, site) = mk_site(3);
    let ((_, told), mut tracks) = (listener(), Tracks::default());
    follow(&mut tracks, &site, vec![track("a", vec![save(0)])], &told);
    drop(tracks);
    tokio::task::yield_now().await;
    assert_eq!(world.effects(), Vec::<String>::new());
}
