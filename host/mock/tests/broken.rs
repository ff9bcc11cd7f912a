//! Policies that are wrong in one way each, on the mock host: the guard refuses the step, or an oracle sees what follows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::task::JoinSet;
use vko_core::policy::{GuestError, Policy, PolicyInfo};
use vko_mock::Images;
use vko_mock::scenario::folder::Expect;
use vko_mock::scenario::{Scenario, run};
use vko_run::Policies;
use vko_wit::observation::{Observed, Reach, Role};
use vko_wit::planning::{Operation, Phase, Plan, PolicyError, Step, Track, Violation, Writer};

/// What a broken policy makes of a right plan.
type Tamper = fn(&Memory, &Observed, &mut Plan);

/// What a policy must not have.
#[derive(Default)]
struct Memory {
    calls: AtomicU64,
    first: Mutex<Option<Plan>>,
}

struct Broken {
    right: Arc<dyn Policy>,
    memory: Memory,
    tamper: Tamper,
}

impl Policy for Broken {
    fn info(&self) -> &PolicyInfo {
        self.right.info()
    }

    fn decide(&self, observed: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        let mut decided = self.right.decide(observed)?;
        if let Ok(plan) = &mut decided {
            (self.tamper)(&self.memory, observed, plan);
        }
        Ok(decided)
    }

    fn validate(&self, spec: &str, previous: &str) -> Result<Vec<Violation>, GuestError> {
        self.right.validate(spec, previous)
    }
}

fn policies(tamper: Tamper) -> Policies {
    let mut policies = support::policies();
    let broken = |right: &Arc<dyn Policy>| Arc::new(Broken { right: right.clone(), memory: Memory::default(), tamper });
    policies.built_in = policies.built_in.iter().map(|right| broken(right) as Arc<dyn Policy>).collect();
    policies
}

fn wants(plan: &mut Plan, subject: &str, operation: Operation) {
    let step = Step { operation, reason: "broken on purpose".into(), expects: Vec::new(), consent: String::new() };
    plan.tracks.push(Track { subject: subject.into(), steps: vec![step] });
}

/// Pods whose servers answer as replicas, once all are there.
fn replicas(observed: &Observed) -> Vec<String> {
    let is_replica = |role: &Role| matches!(role, Role::Replica(_));
    let answers = observed.servers.iter().filter(|server| matches!(server.reach, Reach::Answered));
    let found = answers.filter(|server| server.facts.as_ref().is_some_and(|facts| is_replica(&facts.role)));
    let found: Vec<String> = found.map(|server| server.pod.clone()).collect();
    if observed.ledger.formed == Some(true) && found.len() >= 2 { found } else { Vec::new() }
}

fn is_ready(plan: &Plan) -> bool {
    matches!(plan.status.phase, Phase::Ready)
}

/// How a broken policy is caught.
#[derive(Debug, Clone, Copy)]
enum Caught {
    /// The guard refuses by that rule, and nothing happens to the instance.
    ByRule(&'static str),
    /// The run fails, and says so.
    ByOracle(&'static str),
}

struct Case {
    name: &'static str,
    arch: &'static str,
    tamper: Tamper,
    /// Beside the creation.
    script: &'static str,
    caught: Caught,
}

fn cases() -> Vec<Case> {
    let replica = |name, tamper, script, caught| Case { name, arch: "replica", tamper, script, caught };
    vec![
        replica("promotes the wrong replica", promotes_another, "[]", Caught::ByRule("PromotionWithoutEvidence")),
        replica("restarts two members", restarts_two, "[]", Caught::ByRule("SecondDisruption")),
        replica("deletes a claim", deletes_a_claim, "[]", Caught::ByRule("ClaimInUse")),
        replica("re-parents the primary", primary_follows, "[]", Caught::ByRule("OnlyCopy")),
        replica("asks for what is not carried out", unlisted, "[]", Caught::ByRule("OperationNotListed")),
        replica("follows a stale view", first_plan_for_ever, KILLED, Caught::ByOracle("no rest")),
        replica("never acts", never_acts, "[]", Caught::ByOracle("the declared state")),
        replica("says something else each time", restless, "[]", Caught::ByOracle("no rest")),
        replica("routes writers to a replica", wrong_writer, "[]", Caught::ByOracle("the client")),
        Case {
            name: "forgets a slot",
            arch: "cluster",
            tamper: forgets_a_slot,
            script: "[]",
            caught: Caught::ByOracle("the declared state"),
        },
    ]
}

const KILLED: &str = r#"[{"remember": {"old": "primary"}}, {"delete-pods": {"pods": "$old"}}, {"wait": {"gone": "$old"}}]"#;

fn promotes_another(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if let Some(replica) = replicas(observed).into_iter().next() {
        wants(plan, "broken", Operation::Promote(replica));
    }
}

fn restarts_two(memory: &Memory, observed: &Observed, plan: &mut Plan) {
    // Once: evicted for ever, they would never be ready again, and one at a time that is no harm.
    if !is_ready(plan) || memory.calls.fetch_add(1, Ordering::Relaxed) > 0 {
        return;
    }
    for (number, replica) in replicas(observed).into_iter().take(2).enumerate() {
        wants(plan, &format!("broken-{number}"), Operation::Evict(replica));
    }
}

fn deletes_a_claim(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if let Some(claim) = observed.claims.first().filter(|_| !replicas(observed).is_empty()) {
        wants(plan, "broken", Operation::DeleteClaim(claim.uid.clone()));
    }
}

fn primary_follows(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if let (Some(replica), Writer::Pod(writer)) = (replicas(observed).into_iter().next(), &plan.routing.writer) {
        let follow = vko_wit::planning::Follow { pod: writer.clone(), primary: replica };
        wants(plan, "broken", Operation::Follow(follow));
    }
}

fn unlisted(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if !replicas(observed).is_empty() {
        wants(plan, "broken", Operation::CancelJob("x".into()));
    }
}

fn first_plan_for_ever(memory: &Memory, _: &Observed, plan: &mut Plan) {
    let mut first = memory.first.lock().unwrap();
    if first.is_none() && is_ready(plan) {
        *first = Some(plan.clone());
    }
    if let Some(first) = &*first {
        *plan = first.clone();
    }
}

fn never_acts(_: &Memory, _: &Observed, plan: &mut Plan) {
    plan.tracks.clear();
}

fn restless(memory: &Memory, _: &Observed, plan: &mut Plan) {
    plan.status.message = format!("call {}", memory.calls.fetch_add(1, Ordering::Relaxed));
}

fn wrong_writer(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if let Some(replica) = replicas(observed).into_iter().next() {
        plan.routing.writer = Writer::Pod(replica);
    }
}

fn forgets_a_slot(_: &Memory, _: &Observed, plan: &mut Plan) {
    for step in plan.tracks.iter_mut().flat_map(|track| &mut track.steps) {
        if let Operation::OwnSlots(assignment) = &mut step.operation
            && let Some(range) = assignment.slots.iter_mut().find(|range| range.first == 0)
        {
            range.first = 1;
        }
    }
}

fn scenario(case: &Case) -> Scenario {
    let mut replicas = json!({"replicasOfShard": 3});
    if case.arch == "cluster" {
        replicas = json!({"shards": 3, "replicasOfShard": 1});
    }
    let spec = json!({"version": "9.1", "arch": case.arch, "replicas": replicas, "resources": {"limits": {"memory": "64Mi"}},
        "storage": {"capacity": "1Gi"}});
    let valkey =
        json!({"apiVersion": "rds.valkey.buf.red/v1alpha1", "kind": "Valkey", "metadata": {"name": "demo"}, "spec": spec});
    let mut steps = json!([{"apply": "manifest.yaml"}]);
    let script: Vec<serde_json::Value> = serde_json::from_str(case.script).unwrap();
    if let Caught::ByOracle("the client") = case.caught {
        steps.as_array_mut().unwrap().extend(vec![
            json!({"wait": {"pods": 3}}),
            json!({"writes": {"on": "demo"}}),
            json!({"writes": {"acks": 2000}}),
        ]);
    }
    if !script.is_empty() {
        steps.as_array_mut().unwrap().push(json!({"wait": {"ready": "demo"}}));
    }
    steps.as_array_mut().unwrap().extend(script);
    let expect = Expect { settles_within_seconds: Some(40), ..Expect::default() };
    Scenario {
        name: case.name.into(),
        steps: serde_json::from_value(steps).unwrap(),
        expect,
        manifests: BTreeMap::from([("manifest.yaml".into(), vec![valkey])]),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_broken_policy_is_caught_by_the_guard_or_by_an_oracle() {
    let images = Images::of_environment().unwrap();
    let (mut running, mut judged) = (JoinSet::new(), Vec::new());
    let full = std::env::var("VKO_TIER").is_ok_and(|tier| tier != "quick");
    let chosen = cases().into_iter().filter(|case| full || matches!(case.caught, Caught::ByRule("PromotionWithoutEvidence")));
    for case in chosen {
        let images = images.clone();
        running.spawn(async move {
            let (scenario, policies) = (scenario(&case), policies(case.tamper));
            let result = run::run(&scenario, &images, &policies).await;
            (case.name, case.caught, result)
        });
        if running.len() == 3 {
            judged.push(judge(running.join_next().await.unwrap().unwrap()));
        }
    }
    while let Some(ended) = running.join_next().await {
        judged.push(judge(ended.unwrap()));
    }
    let wrong: Vec<String> = judged.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn judge((name, caught, result): (&str, Caught, Result<run::Report, Box<run::Failure>>)) -> Result<(), String> {
    match (caught, result) {
        (Caught::ByRule(rule), Ok(report)) if report.events.contains(rule) => {
            println!("{name}: refused by {rule}, and nothing happened");
            Ok(())
        }
        (Caught::ByOracle(says), Err(failure)) if failure.what.contains(says) => {
            println!("{name}: {}", failure.what.lines().next().unwrap_or_default());
            Ok(())
        }
        (_, Ok(report)) => Err(format!("{name} was not caught: {report:?}")),
        (_, Err(failure)) => Err(format!("{name} was to be caught {caught:?}, but: {failure}")),
    }
}
