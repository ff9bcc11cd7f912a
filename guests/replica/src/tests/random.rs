//! What holds for every observation, however odd: thousands of random ones, from a seed that is printed with a failure.

use std::collections::BTreeSet;

use vko_sdk::observation::{ContainerState, NodeState, Upstream};
use vko_sdk::planning::{Desired, Operation, Plan, Writer};

use crate::testing::Scene;
use crate::view::{Standing, View};
use crate::{decide, primary};

/// Small, and the same on every machine.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (n.max(1) as u64)).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn random_scene(rng: &mut XorShift) -> Scene {
    let members = 1 + u32::try_from(rng.below(5)).unwrap();
    let mut scene = if rng.one_in(4) { Scene::new("x", members) } else { Scene::healthy("x", members) };
    if rng.one_in(2) {
        scene.with_claims();
    }
    for _ in 0..rng.below(6) {
        let (i, j) = (rng.below(members as usize), rng.below(members as usize));
        disturb(rng, &mut scene, i, j);
    }
    scene
}

fn disturb(rng: &mut XorShift, scene: &mut Scene, i: usize, j: usize) {
    let offset = [0, 1, 500, 1_000, 5_000, u64::MAX][rng.below(6)];
    match rng.below(30) {
        0 => scene.kill(i),
        1 => scene.lose_node(i),
        2 => scene.remove_pod(i),
        3 => scene.replace_pod(i),
        4 => scene.silence(i),
        5 => scene.unhear(i),
        6 => scene.unready(i),
        7 => scene.restart(i, ["snapshot", "append-only-file", "empty"][rng.below(3)]),
        8 => scene.demote(i, j),
        9 => scene.follow(i, j),
        10 => scene.set_syncing(i),
        11 => scene.lag(i, 9_000),
        12 => scene.detach(i),
        13 => scene.rise(i),
        14 => scene.move_on(i),
        15 => scene.refuse(i, "BUSY"),
        16 => scene.load(i, j.is_multiple_of(2)),
        17 => scene.wait_start(i),
        18 => scene.terminate(i),
        19 => scene.age(i, 4_000 * (j as u64 + 1)),
        20 => scene.fence(i, u32::try_from(j).unwrap()),
        21 => scene.detached(i, 3_000 * (j as u64 + 1)),
        22 => scene.forget_primary(),
        23 => scene.forget_all(),
        24 => scene.best_offset(offset),
        25 => scene.facts(i, |f| f.offset = offset),
        26 => scene.want(u32::try_from(j + 1).unwrap()),
        27 => scene.lose_volume(i),
        28 => scene.facts(i, |f| f.failover_state = "failover-in-progress".into()),
        _ => scene.still_hears(i),
    };
}

fn promoted(plan: &Plan) -> Vec<&str> {
    let operations = plan.tracks.iter().flat_map(|t| &t.steps).map(|s| &s.operation);
    operations.filter_map(|o| if let Operation::Promote(uid) = o { Some(uid.as_str()) } else { None }).collect()
}

fn check(scene: &Scene, seed: u64) -> Plan {
    let plan = decide(&scene.observed).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
    assert_eq!(plan, decide(&scene.observed).unwrap(), "seed {seed}: the same facts, another plan");
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
        // Neighbouring seeds give neighbouring first numbers: the first few are thrown away.
        let mut rng = XorShift(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..4).for_each(|_| {
            rng.below(2);
        });
        let plan = check(&random_scene(&mut rng), seed);
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
