//! A roll whose operator is killed after each of its effects, one run for each: another one ends the roll, and nothing is lost.
//! In quick runs after every fifth.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use vko_mock::Images;
use vko_mock::scenario::run;
use vko_script::Scenario;
use vko_script::folder::Expect;

/// Side by side: servers mostly wait for time to pass.
const AT_ONCE: usize = 6;
/// Effects of a roll of three members, from the start of the operator that sees it on. No more are asked for than there surely
/// are: an operator that has nothing left to do never comes to the effect after which it is to end.
const EFFECTS: u64 = 60;
/// In quick runs one of so many.
const EACH: usize = 5;

/// From the line before to the newest one, by an operator that ends right after so many effects.
fn scenario(effects: u64) -> Scenario {
    let spec = json!({"version": "8.1", "arch": "replica", "replicas": {"replicasOfShard": 3},
        "resources": {"limits": {"memory": "64Mi"}}, "storage": {"capacity": "1Gi"}});
    let valkey =
        json!({"apiVersion": "rds.valkey.buf.red/v1alpha1", "kind": "Valkey", "metadata": {"name": "demo"}, "spec": spec});
    let object = json!({"resource": "valkeys.rds.valkey.buf.red", "name": "demo"});
    let steps = json!([
        {"apply": "manifest.yaml"},
        {"wait": {"ready": "demo"}},
        {"writes": {"on": "demo"}},
        {"writes": {"acks": 50}},
        {"remember": {"all": "servers"}},
        {"operator": {"becomes": "stopped"}},
        {"patch": {"object": object, "with": {"spec": {"version": "9.1"}}}},
        {"operator": {"name": "operator-1", "becomes": {"started-to-die-after": effects}}},
        {"wait": {"operator-ended": "operator-1"}},
        {"operator": {"name": "operator-2", "becomes": "started"}},
        {"wait": {"replaced": "$all"}},
        {"wait": {"calm": "demo"}},
        {"writes": {"acks": 50}},
        {"writes": {"verify": "planned"}},
    ]);
    Scenario {
        name: format!("a roll, killed after {effects} effects"),
        steps: serde_json::from_value(steps).unwrap(),
        expect: Expect { about: "a killed operator".into(), no_events: vec!["DataLost".into()], ..Expect::default() },
        manifests: BTreeMap::from([("manifest.yaml".into(), vec![valkey])]),
    }
}

/// One by its number (`VKO_CASE`); all in full runs.
fn chosen() -> Vec<u64> {
    match std::env::var("VKO_CASE") {
        Ok(one) => vec![one.parse().unwrap()],
        Err(_) => (1..=EFFECTS).step_by(if support::is_full_run() { 1 } else { EACH }).collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_goes_on_wherever_its_operator_was_killed() {
    let (images, places) = (Images::of_environment().unwrap(), Arc::new(Semaphore::new(AT_ONCE)));
    let mut running = JoinSet::new();
    for effects in chosen() {
        let (images, places) = (images.clone(), places.clone());
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            run::run(&scenario(effects), &images, &support::policies()).await.map(|report| (effects, report))
        });
    }
    let mut failures = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended.unwrap() {
            Ok((effects, report)) => {
                println!("killed after {effects} effects: {:.1} s, {} writes kept", report.took.as_secs_f64(), report.acks)
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
