//! What holds for every observation, however odd: random scenes under random Sentinels, from a seed that is printed with a
//! failure.

use std::collections::BTreeSet;

use vko_replica::view::{Standing, View};
use vko_sdk::Policy;
use vko_sdk::observation::{ContainerState, NodeState};
use vko_sdk::planning::{Operation, Plan, Writer};

use crate::FailoverPolicy;
use crate::group::moves_role;
use crate::testing::{Watched, random_watched};

fn role_steps(plan: &Plan) -> Vec<&Operation> {
    let steps = plan.tracks.iter().flat_map(|t| &t.steps).map(|s| &s.operation);
    steps.filter(|o| matches!(o, Operation::Promote(_) | Operation::SentinelFailover(_) | Operation::HandOver(_))).collect()
}

fn check(watched: &Watched, seed: u64) -> Plan {
    let decide = || FailoverPolicy::decide(watched.scene.observed.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
    let plan = decide();
    assert_eq!(plan, decide(), "seed {seed}: the same facts, another plan");
    let view = watched.view();
    if let Writer::Pod(uid) = &plan.routing.writer {
        let member = view.by_pod(uid).unwrap_or_else(|| panic!("seed {seed}: the writer isn't a pod of this instance"));
        let wrong = matches!(member.standing, Standing::Replica(..) | Standing::Dead | Standing::Starting | Standing::Absent);
        assert!(!wrong, "seed {seed}: the writer is proven wrong: {:?}", member.standing);
    }
    let subjects: BTreeSet<_> = plan.tracks.iter().map(|t| &t.subject).collect();
    assert_eq!(subjects.len(), plan.tracks.len(), "seed {seed}: two tracks of one subject");
    assert!(plan.tracks.iter().all(|t| !t.steps.is_empty() && t.steps.iter().all(|s| !s.reason.is_empty())), "seed {seed}");
    assert!(role_steps(&plan).len() <= 1, "seed {seed}: {:?}", role_steps(&plan));
    check_role(watched, &view, &plan, seed);
    check_sentinels(watched, &plan, seed);
    plan
}

/// The role is moved only while no Sentinel does so, and never away from somebody who may hold it.
fn check_role(watched: &Watched, view: &View<'_>, plan: &Plan, seed: u64) {
    let formed = view.observed.ledger.formed == Some(true);
    let group = watched.group();
    let moving = group.seats.iter().any(|s| s.monitor.is_some_and(|m| moves_role(&m.failover_state)));
    assert!(role_steps(plan).is_empty() || !formed || !moving, "seed {seed}: the role is moved during a failover");
    let lost = role_steps(plan).into_iter().any(|o| matches!(o, Operation::Promote(_) | Operation::SentinelFailover(_)));
    if !lost {
        return;
    }
    for member in &view.members {
        let Some(pod) = member.pod else { continue };
        let ended =
            pod.container != ContainerState::Running || matches!(pod.node_state, NodeState::Gone | NodeState::OutOfService);
        assert!(ended || !matches!(member.standing, Standing::Primary(_)), "seed {seed}: {} answers as a primary", member.name);
        let last = view.last.is_some_and(|l| l.pod == pod.uid);
        let open = matches!(member.standing, Standing::Silent(_) | Standing::Refusing(_));
        assert!(ended || !last || !open, "seed {seed}: the last primary {} may merely be silent", member.name);
    }
}

/// One Sentinel at a time loses its monitor; none is told anything during a failover, in TILT, or on old facts.
fn check_sentinels(watched: &Watched, plan: &Plan, seed: u64) {
    let steps = plan.tracks.iter().flat_map(|t| &t.steps).map(|s| &s.operation);
    let told: Vec<(&str, &str)> = steps
        .filter_map(|o| match o {
            Operation::Monitor(m) => Some(("monitor", m.sentinel.as_str())),
            Operation::Unmonitor(m) => Some(("unmonitor", m.sentinel.as_str())),
            Operation::SetMonitor(m) => Some(("set", m.sentinel.as_str())),
            Operation::SentinelFailover(m) => Some(("failover", m.sentinel.as_str())),
            _ => None,
        })
        .collect();
    assert!(told.iter().filter(|(what, _)| *what == "unmonitor").count() <= 1, "seed {seed}: {told:?}");
    let group = watched.group();
    for (_, id) in told {
        let seat = group.seats.iter().find(|s| s.steerable() == Some(id));
        let seat = seat.unwrap_or_else(|| panic!("seed {seed}: {id} can't be told anything"));
        assert!(!seat.monitor.is_some_and(|m| moves_role(&m.failover_state)), "seed {seed}: {id} carries a failover out");
    }
}

#[test]
fn every_observation_gives_a_sane_plan() {
    let (mut orders, mut promotions, mut told, mut waits) = (0, 0, 0, 0);
    for seed in 1..=40_000_u64 {
        let plan = check(&random_watched(seed), seed);
        for operation in role_steps(&plan) {
            match operation {
                Operation::SentinelFailover(_) => orders += 1,
                _ => promotions += 1,
            }
        }
        told += plan.tracks.iter().filter(|t| t.subject.starts_with("rfs-") || t.subject.starts_with("10.")).count();
        waits += plan.blocked.len();
    }
    // The checks are worth something only if the plans are about something.
    assert!(
        orders > 500 && promotions > 500 && told > 2_000 && waits > 1_000,
        "{orders} orders, {promotions} promotions, {told} Sentinels told, {waits} waits"
    );
}

#[test]
fn odd_texts_and_numbers_do_not_panic() {
    let mut watched = Watched::healthy("x", 3);
    watched.scene.observed.now = 0;
    watched.says(0, 1, u64::MAX).aged(1, u64::MAX).failing_over(2, "\u{0}");
    watched.scene.observed.sentinels[0].id.clear();
    watched.scene.observed.instance.spec =
        r#"{"replicas":3,"sentinel":{"replicas":4294967295,"quorum":4294967295,"monitorConfig":{"down-after-milliseconds":"x"}}}"#
            .into();
    let plan = FailoverPolicy::decide(watched.scene.observed).expect("a plan");
    assert_eq!(plan.routing.writer, Writer::Pod("uid-x-0".into()));
}
