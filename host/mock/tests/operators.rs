//! The operator's own faults on the mock host: killed, out of reach, misled by watches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use rustix::process::Signal;
use serde_json::json;
use support::{World, policies, primaries, valkey};
use vko_apiserver::fault::{Act, Fault};
use vko_mock::Operator;

fn fault(verb: &str, resource: &str, after: u32, act: Act) -> Fault {
    Fault { verb: verb.into(), resource: resource.into(), name: String::new(), client: String::new(), after, times: 1, act }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_finishes_what_a_killed_operator_began() {
    let mut world = World::new().await;
    world.bed.apply(valkey("replica", json!({"replicasOfShard": 2}))).unwrap();
    world.until("the first pod", |store| store.list("pods", None).next().map(drop)).await;
    let successor = Operator::start(&world.bed, "operator-1", policies()).await.unwrap();
    // Dropped it releases nothing: the successor waits out the Lease.
    drop(std::mem::replace(&mut world.operator, successor));
    world.ready("ready by the successor").await;
    let before = world.bed.api.read(primaries);
    world.bed.signal(&before[0], Signal::KILL).unwrap();
    world.primary_but(&before[0]).await;
    world.ready("ready again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_lost_answers_only_cost_time() {
    let world = World::new().await;
    for (after, act) in [
        (0, Act::Refuse { code: 429 }),
        (1, Act::Refuse { code: 500 }),
        (2, Act::Break),
        (1, Act::Refuse { code: 409 }),
        (3, Act::Break),
    ] {
        for verb in ["apply", "create", "replace", "merge"] {
            world.bed.api.faults.add(fault(verb, "", after, act.clone()));
        }
    }
    for act in [Act::Double, Act::End, Act::Expire] {
        world.bed.api.faults.add(fault("watch", "pods", 2, act));
    }
    world.bed.apply(valkey("replica", json!({"replicasOfShard": 2}))).unwrap();
    world.ready("ready").await;
    assert_eq!(world.bed.api.read(primaries).len(), 1);
}
