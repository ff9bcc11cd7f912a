//! Each architecture on the mock host: created, its primary killed, recovered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use rustix::process::Signal;
use serde_json::json;
use support::{World, primaries, valkey};
use vko_apiserver::{Key, Store};
use vko_mock::bed::NAMESPACE;

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_set_becomes_ready_and_outlives_its_primary() {
    outlives_its_primary("replica", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_becomes_ready_and_outlives_its_primary() {
    outlives_its_primary("failover", 2).await;
}

async fn outlives_its_primary(arch: &str, members: u32) {
    let world = World::new().await;
    world.bed.apply(valkey(arch, json!({"replicasOfShard": members}))).unwrap();
    world.ready("ready").await;
    let before = world.bed.api.read(primaries);
    assert_eq!(before.len(), 1, "{before:?}");
    world.bed.signal(&before[0], Signal::KILL).unwrap();
    let after = world.primary_but(&before[0]).await;
    world.ready("ready again").await;
    assert_eq!(world.bed.api.read(primaries), [after]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_becomes_ready_and_outlives_a_primary() {
    let world = World::new().await;
    world.bed.apply(valkey("cluster", json!({"shards": 3, "replicasOfShard": 2}))).unwrap();
    world.ready("ready").await;
    let before = world.bed.api.read(primaries);
    assert_eq!(before.len(), 3, "{before:?}");
    // A key that only its replica has after the kill: nothing is saved. `{a}` is of slot 15495, the third shard's.
    assert_eq!(world.ask(&before[2], "cluster", &["SET", "{a}", "1"]).as_deref(), Ok("+OK"));
    world.bed.signal(&before[2], Signal::KILL).unwrap();
    let replaced = |store: &Store| {
        let now = primaries(store);
        now.into_iter().find(|pod| pod != &before[2] && pod.starts_with("drc-demo-2-"))
    };
    let after = world.until("its replica leads", replaced).await;
    world.ready("ready again").await;
    assert_eq!(world.ask(&after, "cluster", &["GET", "{a}"]).as_deref(), Ok("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_primary_hands_its_role_and_data_over_and_comes_back_elsewhere() {
    let world = World::new().await;
    world.bed.apply(valkey("replica", json!({"replicasOfShard": 2}))).unwrap();
    world.ready("ready").await;
    let before = world.bed.api.read(primaries).remove(0);
    let address = world.bed.running(&before).unwrap().ip;
    assert_eq!(world.ask(&before, "failover", &["SET", "a", "1"]).as_deref(), Ok("+OK"));
    world.bed.delete(&Key::new("pods", NAMESPACE, &before)).unwrap();
    let after = world.primary_but(&before).await;
    assert_eq!(world.ask(&after, "failover", &["GET", "a"]).as_deref(), Ok("1"), "the hook waits for the replica");
    world.ready("ready again").await;
    let back = world.bed.running(&before).unwrap();
    assert_ne!(back.ip, address, "a new pod has a new address");
    assert_eq!(world.bed.api.read(primaries), [after]);
}
