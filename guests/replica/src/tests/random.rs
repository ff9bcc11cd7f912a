//! What holds for every observation, however odd: thousands of random ones, from a seed that is printed with a failure.

use std::collections::BTreeSet;

use vko_sdk::observation::{ContainerState, NodeState, Upstream};
use vko_sdk::planning::{Desired, Operation, Plan, Writer};

use crate::testing::{Scene, random_scene};
use crate::view::{Standing, View};
use crate::{decide, primary};

fn promoted(plan: &Plan) -> Vec<&str> {
    let operations = plan.tracks.iter().flat_map(|t| &t.steps).map(|s| &s.operation);
    operations.filter_map(|o| if let Operation::Promote(uid) = o { Some(uid.as_str()) } else { None }).collect()
}

fn check(scene: &Scene, seed: u64) -> Plan {
    let plan = decide(&scene.observed).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
    assert_eq!(plan, decide(&scene.observed).unwrap(), "seed {seed}: the same facts, another plan");
    check_words(scene, &plan, seed);
    let view = scene.view();
    if let Writer::Pod(uid) = &plan.routing.writer {
        let member = view.by_pod(uid).unwrap_or_else(|| panic!("seed {seed}: the writer isn't a pod of this instance"));
        let wrong = matches!(member.standing, Standing::Replica(..) | Standing::Dead | Standing::Starting | Standing::Absent);
        assert!(!wrong, "seed {seed}: the writer is proven wrong: {:?}", member.standing);
        let alone = view.current.max(view.spec.replicas) == 1;
        assert!(alone || !plan.routing.readers.contains(uid), "seed {seed}: the writer reads");
    }
    let promoted = promoted(&plan);
    assert!(promoted.len() <= 1, "seed {seed}: {promoted:?} are promoted at once");
    for uid in promoted {
        check_promotion(scene, uid, seed);
    }
    check_tracks(&plan, &view, seed);
    plan
}

/// A moment later the same is said in the same words: a countdown would be another status at each look, and each status wakes
/// one.
fn check_words(scene: &Scene, plan: &Plan, seed: u64) {
    let mut later = scene.observed.clone();
    later.now += 7;
    let later = decide(&later).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
    let words = |plan: &Plan| format!("{:?} {:?}", plan.status, plan.blocked);
    let without_numbers = |plan: &Plan| words(plan).replace(|c: char| c.is_ascii_digit(), "");
    if without_numbers(plan) == without_numbers(&later) {
        assert_eq!(words(plan), words(&later), "seed {seed}: the words count down");
    }
}

/// Tracks are independent, each step says why, nobody is told to follow anybody but a primary, and no primary is removed.
fn check_tracks(plan: &Plan, view: &View<'_>, seed: u64) {
    let subjects: BTreeSet<_> = plan.tracks.iter().map(|t| &t.subject).collect();
    assert_eq!(subjects.len(), plan.tracks.len(), "seed {seed}: two tracks of one subject");
    assert!(plan.tracks.iter().all(|t| !t.steps.is_empty() && t.steps.iter().all(|s| !s.reason.is_empty())), "seed {seed}");
    let followed = plan.tracks.iter().flat_map(|t| &t.steps).filter_map(|s| match &s.operation {
        Operation::Follow(f) => Some(f),
        _ => None,
    });
    for follow in followed {
        let to = view.by_pod(&follow.primary).map(|m| m.standing);
        assert!(matches!(to, Some(Standing::Primary(_))) && follow.pod != follow.primary, "seed {seed}: {follow:?}");
    }
    let workload = plan.desired.iter().find_map(|d| if let Desired::Workload(w) = d { Some(w.members) } else { None }).unwrap();
    let kept = view.primaries().iter().all(|p| p.ordinal < workload || p.ordinal >= view.current);
    assert!(workload >= view.current || kept, "seed {seed}: a member that answers as a primary is removed");
}

/// A promotion has evidence that nobody else may acknowledge writes.
fn check_promotion(scene: &Scene, uid: &str, seed: u64) {
    let view = scene.view();
    let target = view.by_pod(uid).unwrap_or_else(|| panic!("seed {seed}: promotes a stranger"));
    assert!(target.fresh() && !target.terminating(), "seed {seed}: promotes {:?}", target.standing);
    assert_ne!(view.observed.ledger.formed, None, "seed {seed}: promotes without a ledger or a consent");
    for other in view.members.iter().filter(|m| m.ordinal != target.ordinal) {
        let Some(pod) = other.pod else { continue };
        let ended =
            pod.container != ContainerState::Running || matches!(pod.node_state, NodeState::Gone | NodeState::OutOfService);
        assert!(ended || !matches!(other.standing, Standing::Primary(_)), "seed {seed}: {} answers as a primary", other.name);
        let last = view.last.is_some_and(|l| l.pod == pod.uid);
        if last && !ended && matches!(other.standing, Standing::Silent(_) | Standing::Refusing(_)) {
            let fence = primary::fence_of(&view, other, other.facts_known());
            let closed = fence.and_then(|f| primary::closed_at(&f)).is_some_and(|at| at <= view.observed.now);
            assert!(closed, "seed {seed}: the last primary {} is silent and not fenced for certain", other.name);
        }
        if let Standing::Replica(_, link) = other.standing
            && other.fresh()
            && link.up
            && link.last_io.is_some_and(|io| io + 3_000 < view.observed.environment.fence_max_lag)
            && let Upstream::Pod(up) = &link.primary
        {
            let hears = view.by_pod(up).is_some_and(|m| !matches!(m.standing, Standing::Replica(..)));
            assert!(!hears, "seed {seed}: {} hears a primary", other.name);
        }
    }
}

#[test]
fn every_observation_gives_a_sane_plan() {
    let (mut promotions, mut waits, mut steps) = (0, 0, 0);
    for seed in 1..=40_000_u64 {
        let plan = check(&random_scene(seed), seed);
        promotions += promoted(&plan).len();
        waits += plan.blocked.len();
        steps += plan.tracks.len();
    }
    // The checks are worth something only if the plans are about something.
    assert!(promotions > 1_000 && waits > 1_000 && steps > 5_000, "{promotions} promotions, {waits} waits, {steps} tracks");
}

#[test]
fn odd_texts_and_numbers_do_not_panic() {
    let mut scene = Scene::healthy("x", 3);
    scene.observed.now = 0;
    scene.observed.pods[1].ordinal = u32::MAX;
    scene.observed.instance.status = "{[".into();
    scene.observed.objects[0].status = r#"{"replicas":18446744073709551615}"#.into();
    scene.facts(0, |f| (f.offset, f.uptime, f.second_offset) = (u64::MAX, u64::MAX, u64::MAX));
    scene.shrink(u32::MAX);
    let plan = decide(&scene.observed).expect("a plan");
    assert_eq!(plan.routing.writer, Writer::Pod("uid-x-0".into()));
}
