//! Policies that are wrong in one way each, on the mock host: the guard refuses the step, or an oracle sees what follows. Where
//! the guard leaves no policy a way to what an oracle is for, the world is wrong: it breaks what the guard builds upon.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use vko_core::policy::{GuestError, Policy, PolicyInfo};
use vko_mock::Images;
use vko_mock::oracle::Oracle;
use vko_mock::scenario::run;
use vko_run::Policies;
use vko_script::Scenario;
use vko_script::folder::Expect;
use vko_wit::common::Pair;
use vko_wit::observation::{Observed, OutcomeKind, Reach, Role};
use vko_wit::planning::{
    Desired, FenceSetting, Operation, Phase, Plan, PolicyError, SentinelName, Step, Track, Violation, Writer,
};

/// What a broken policy makes of a right plan.
type Tamper = fn(&Memory, &Observed, &mut Plan);

/// What a policy must not have.
#[derive(Default)]
struct Memory {
    calls: AtomicU64,
    first: Mutex<Option<Plan>>,
    /// The replicas as they were when it might go: who ends doesn't answer as one any more.
    replicas: Mutex<Vec<String>>,
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

/// Whether the script has come to [`GO`]. Looks can't be counted: how many there are by then is the world's.
fn is_told_to_go(observed: &Observed) -> bool {
    observed.instance.annotations.iter().any(|annotation| annotation.key == ANNOTATION)
}

fn is_done(observed: &Observed, subject: &str) -> bool {
    observed.recent.iter().any(|recent| recent.subject == subject && recent.outcome == OutcomeKind::Done)
}

/// How a broken policy is caught.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Caught {
    /// The guard refuses by that rule, and nothing happens to the instance.
    Rule(&'static str),
    /// The run fails, and this oracle is among those that say so.
    Oracle(Oracle),
    /// The run fails with these words: the declared state, or rest, is never reached, or a write is missing.
    Run(&'static str),
}

struct Case {
    name: &'static str,
    arch: &'static str,
    tamper: Tamper,
    /// Beside the creation.
    script: &'static str,
    /// Beside the bound.
    expect: fn(&mut Expect),
    caught: Caught,
}

fn cases() -> Vec<Case> {
    let of = |arch| move |name, tamper, script, caught| Case { name, arch, tamper, script, expect: |_| {}, caught };
    let (replica, failover, cluster) = (of("replica"), of("failover"), of("cluster"));
    let kept = |expect: &mut Expect| expect.lives_kept = serde_json::from_value(json!("$all")).unwrap();
    vec![
        replica("promotes the wrong replica", promotes_another, "[]", Caught::Rule("PromotionWithoutEvidence")),
        replica("restarts two members", restarts_two, "[]", Caught::Rule("SecondDisruption")),
        replica("deletes a claim", deletes_a_claim, "[]", Caught::Rule("ClaimInUse")),
        replica("re-parents the primary", primary_follows, "[]", Caught::Rule("OnlyCopy")),
        replica("asks for what is not carried out", unlisted, "[]", Caught::Rule("OperationNotListed")),
        replica("evicts somebody else's pod", evicts_a_stranger, "[]", Caught::Rule("ObjectNotOwned")),
        replica("drops members", drops_members, "[]", Caught::Rule("ShrinkOverData")),
        failover("fails over from a primary that serves", fails_over, "[]", Caught::Rule("SentinelMajority")),
        replica("acts while the operator is cut off", acts_unseeing, CUT_OFF, Caught::Rule("StaleView")),
        replica("follows a stale view", first_plan_for_ever, KILLED, Caught::Oracle(Oracle::OneWriter)),
        replica("never acts", never_acts, "[]", Caught::Run("the declared state")),
        replica("says something else each time", restless, "[]", Caught::Run("no rest")),
        replica("routes writers to a replica", wrong_writer, WRITTEN, Caught::Run("the client")),
        cluster("forgets a slot", forgets_a_slot, "[]", Caught::Run("the declared state")),
        replica("fences the primary for good", fences, "[]", Caught::Oracle(Oracle::OneWriter)),
        replica("says something else without end", breathless, "[]", Caught::Run("no rest")),
        replica("routes writers to nobody each second time", flaps, "[]", Caught::Run("no rest")),
        Case { expect: kept, ..replica("evicts for nothing", evicts_one, REMEMBERED, Caught::Oracle(Oracle::Lives)) },
        replica(
            "evicts one after the other, nobody sees and no budget keeps them",
            evicts_all,
            UNSEEN,
            Caught::Oracle(Oracle::Disruptions),
        ),
        replica("asks for one thing by many tracks", evicts_one_by_many_tracks, NOBODY_MAY_GO, Caught::Oracle(Oracle::Storm)),
        replica("somebody lets a member start alone, no operator looks", |_, _, _| {}, ALONE, Caught::Oracle(Oracle::TwoWriters)),
        replica("somebody deletes a password", |_, _, _| {}, DELETED, Caught::Oracle(Oracle::Deleted)),
        Case {
            expect: |expect| expect.ends_as_created = true,
            ..replica("remembers what was declared before", by_generation, CHANGED, Caught::Oracle(Oracle::Ending))
        },
        Case {
            expect: |expect| expect.events = vec!["NeverWritten".into()],
            ..replica("says nothing", |_, _, _| {}, "[]", Caught::Oracle(Oracle::Events))
        },
    ]
}

#[test]
fn each_rule_and_each_oracle_has_a_case() {
    let rules = vko_core::guard::RULES.iter().map(|rule| rule.name).chain(["ShrinkOverData"]);
    let wanted = rules.map(Caught::Rule).chain(Oracle::ALL.iter().copied().map(Caught::Oracle));
    let bare: Vec<Caught> = wanted.filter(|wanted| !cases().iter().any(|case| case.caught == *wanted)).collect();
    assert!(bare.is_empty(), "nothing is caught by {bare:?}");
}

const CUT_OFF: &str = r#"[{"wait": {"ready": "demo"}}, {"operator": {"becomes": {"cut-off-from": "servers"}}}, {"wait": {"event": "OperatorCutOff"}}, {"hold": 5}]"#;
const WRITTEN: &str = r#"[{"wait": {"pods": 3}}, {"writes": {"on": "demo"}}, {"writes": {"acks": 2000}}]"#;
/// A step of these scripts alone: the policy is told that it may go, by [`go`].
const GO: &str = "go";
const ANNOTATION: &str = "buf.red/go";
const REMEMBERED: &str = r#"[{"wait": {"ready": "demo"}}, {"remember": {"all": "servers"}}, "go"]"#;
/// Whoever ends stays away: its successor finds no node.
const UNSEEN: &str = r#"[{"wait": {"ready": "demo"}}, {"node": {"of": "pods", "becomes": "cordoned"}},
    {"api-fault": {"verb": "apply", "resource": "poddisruptionbudgets.policy", "times": 1000, "act": {"refuse": {"code": 500}}}},
    {"api-fault": {"verb": "watch", "resource": "pods", "times": 1000, "act": "drop"}},
    {"delete": {"object": {"resource": "poddisruptionbudgets.policy", "name": "rfr-demo"}}},
    "go", {"hold": 10}]"#;
const NOBODY_MAY_GO: &str = r#"[{"wait": {"ready": "demo"}},
    {"api-fault": {"verb": "evict", "resource": "pods", "times": 100000, "act": {"refuse": {"code": 429}}}},
    "go", {"hold": 10}]"#;
const ALONE: &str = r#"[{"wait": {"ready": "demo"}}, {"operator": {"becomes": "killed"}},
    {"patch": {"object": {"resource": "configmaps", "name": "rfr-demo"}, "with": {"data": {"start": "alone"}}}},
    {"signal": {"pods": "replica", "signal": "KILL"}}, {"hold": 8}]"#;
const DELETED: &str = r#"[{"wait": {"ready": "demo"}},
    {"delete": {"object": {"resource": "secrets", "name": "failover-acl-demo-default-secret"}}}]"#;
const CHANGED: &str = r#"[{"wait": {"ready": "demo"}},
    {"patch": {"object": {"resource": "valkeys.rds.valkey.buf.red", "name": "demo"}, "with": {"spec": {"replicas": {"replicasOfShard": 2}}}}},
    {"wait": {"pods": 2}}]"#;

const KILLED: &str = r#"[{"wait": {"ready": "demo"}}, {"remember": {"old": "primary"}}, {"delete-pods": {"pods": "$old"}}, {"wait": {"gone": "$old"}}]"#;

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

fn evicts_a_stranger(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if !replicas(observed).is_empty() {
        wants(plan, "broken", Operation::Evict("a-pod-of-others".into()));
    }
}

fn drops_members(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if let Writer::Pod(_) = &plan.routing.writer
        && !replicas(observed).is_empty()
    {
        for desired in &mut plan.desired {
            if let Desired::Workload(workload) = desired {
                workload.members = 0;
            }
        }
    }
}

fn fails_over(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if let Some(sentinel) = observed.sentinels.first().filter(|_| is_ready(plan)) {
        let name = SentinelName { sentinel: sentinel.id.clone(), name: "mymaster".into() };
        wants(plan, "broken", Operation::SentinelFailover(name));
    }
}

fn acts_unseeing(_: &Memory, observed: &Observed, plan: &mut Plan) {
    let silent = |reach: &Reach| matches!(reach, Reach::Silent(lasting) if *lasting > 0);
    if let Some(server) = observed.servers.iter().find(|server| silent(&server.reach)) {
        wants(plan, "broken", Operation::DropClients(server.pod.clone()));
    }
}

/// Higher than there are replicas; the right policy would lower it again.
fn fences(_: &Memory, observed: &Observed, plan: &mut Plan) {
    const HIGH: u32 = 9;
    plan.tracks.retain(|track| track.steps.iter().all(|step| !matches!(step.operation, Operation::Fence(_))));
    // What was shown stays: the right policy speaks of the step that it never gets.
    plan.status.conditions.retain(|condition| condition.kind != "Progressing");
    let Writer::Pod(writer) = plan.routing.writer.clone() else { return };
    let server = observed.servers.iter().find(|server| server.pod == writer);
    let height = server.and_then(|server| server.facts.as_ref()).map_or(HIGH, |facts| facts.fence.min_replicas);
    if is_ready(plan) && height != HIGH {
        wants(plan, "broken", Operation::Fence(FenceSetting { pod: writer, min_replicas: HIGH }));
    }
}

fn breathless(memory: &Memory, observed: &Observed, plan: &mut Plan) {
    restless(memory, observed, plan);
    plan.look_again = 1;
}

fn flaps(memory: &Memory, _: &Observed, plan: &mut Plan) {
    if memory.calls.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
        plan.routing.writer = Writer::None;
    }
    plan.look_again = 1;
}

fn evicts_one(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if is_told_to_go(observed)
        && !is_done(observed, "broken")
        && let Some(replica) = replicas(observed).into_iter().next()
    {
        wants(plan, "broken", Operation::Evict(replica));
    }
}

fn evicts_all(memory: &Memory, observed: &Observed, plan: &mut Plan) {
    if !is_told_to_go(observed) {
        return;
    }
    let mut all = memory.replicas.lock().unwrap();
    if all.is_empty() {
        *all = replicas(observed);
    }
    let mut subjects = all.iter().enumerate().map(|(number, replica)| (format!("broken-{number}"), replica));
    if let Some((subject, replica)) = subjects.find(|(subject, _)| !is_done(observed, subject)) {
        wants(plan, &subject, Operation::Evict(replica.clone()));
    }
}

/// Looks have a rate. What one plan asks for has none, but that the engine takes no plan that asks twice: it doesn't see this
/// one.
fn evicts_one_by_many_tracks(_: &Memory, observed: &Observed, plan: &mut Plan) {
    if let Some(replica) = replicas(observed).into_iter().next().filter(|_| is_told_to_go(observed)) {
        (0..20).for_each(|number| wants(plan, &format!("broken-{number}"), Operation::Evict(replica.clone())));
    }
}

fn by_generation(_: &Memory, observed: &Observed, plan: &mut Plan) {
    for desired in plan.desired.iter_mut().filter(|_| observed.instance.generation > 1) {
        if let Desired::Workload(workload) = desired {
            workload.settings.push(Pair { key: "maxmemory-samples".into(), value: "7".into() });
        }
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

fn go() -> Value {
    let annotated = json!({"metadata": {"annotations": {ANNOTATION: "x"}}});
    json!({"patch": {"object": {"resource": "valkeys.rds.valkey.buf.red", "name": "demo"}, "with": annotated}})
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
    let mut steps = vec![json!({"apply": "manifest.yaml"})];
    let script: Vec<Value> = serde_json::from_str(case.script).unwrap();
    steps.extend(script.into_iter().map(|step| if step == GO { go() } else { step }));
    let mut expect = Expect { settles_within_seconds: Some(40), ..Expect::default() };
    (case.expect)(&mut expect);
    Scenario {
        name: case.name.into(),
        steps: serde_json::from_value(steps.into()).unwrap(),
        expect,
        manifests: BTreeMap::from([("manifest.yaml".into(), vec![valkey])]),
    }
}

/// One by name (`VKO_CASE`); all of them in full runs, one in others.
fn chosen() -> Vec<Case> {
    let (named, full) = (std::env::var("VKO_CASE").ok(), support::is_full_run());
    let is_chosen = |case: &Case| match &named {
        Some(name) => case.name == name,
        None => full || matches!(case.caught, Caught::Rule("PromotionWithoutEvidence")),
    };
    let chosen: Vec<Case> = cases().into_iter().filter(is_chosen).collect();
    assert!(!chosen.is_empty(), "no case is called {named:?}");
    chosen
}

#[tokio::test(flavor = "multi_thread")]
async fn every_broken_policy_is_caught_by_the_guard_or_by_an_oracle() {
    let images = Images::of_environment().unwrap();
    let (mut running, mut judged) = (JoinSet::new(), Vec::new());
    for case in chosen() {
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
        (Caught::Rule(rule), Ok(report)) if report.events.contains(rule) => {
            println!("{name}: refused by {rule}, and nothing happened");
            Ok(())
        }
        (Caught::Run(_), Err(failure)) if failure.violations.iter().any(|seen| seen.oracle == Oracle::Storm) => {
            Err(format!("the host lets {name} ask for the same again and again: {failure}"))
        }
        (Caught::Run(says), Err(failure)) if failure.what.contains(says) => {
            println!("{name}: {}", failure.what.lines().next().unwrap_or_default());
            Ok(())
        }
        (Caught::Oracle(oracle), Err(failure)) if failure.violations.iter().any(|seen| seen.oracle == oracle) => {
            let seen = failure.violations.iter().find(|seen| seen.oracle == oracle).map(ToString::to_string);
            println!("{name}: {}", seen.unwrap_or_default());
            Ok(())
        }
        (_, Ok(report)) => Err(format!("{name} was not caught: {report:?}")),
        (_, Err(failure)) => Err(format!("{name} was to be caught {caught:?}, but: {failure}")),
    }
}
