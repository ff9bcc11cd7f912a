//! Hours of faults on one instance, in an order that a seed decides. Only in the soak tier.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::settings::{Tier, tier};
use vko_e2e::strike::{delete_primary, kill_all, kill_primary, on};
use vko_e2e::{Result, bed, figure, operator, skipped, space};

/// Unless `VKO_SOAK_MINUTES` says otherwise.
const MINUTES: u64 = 110;

const FAULTS: [&str; 5] = ["container-killed", "pod-deleted", "node-lost", "partition-primary", "all-pods"];

#[test]
fn faults_for_hours() -> Result {
    if tier()? != Tier::Soak || !bed::is_here() {
        return skipped("hours of faults; ./dev test --soak");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed: u64 = std::env::var("VKO_SEED").map_or(Ok(now), |seed| seed.parse())?;
    let minutes: u64 = std::env::var("VKO_SOAK_MINUTES").map_or(Ok(MINUTES), |minutes| minutes.parse())?;
    figure("soak: seed (VKO_SEED)", seed);
    let _operator = operator::alone()?;
    space::with("soak", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted { claims: true, apart: true, ..Wanted::default() })?;
        let end = Instant::now() + Duration::from_secs(minutes * 60);
        let (mut state, mut rounds) = (seed, 0);
        while Instant::now() < end {
            // Knuth's multiplier: the same seed, the same faults.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let fault = FAULTS[usize::try_from(state >> 33)? % FAULTS.len()];
            round(&instance, fault).map_err(|error| error.context(format!("round {rounds}: {fault}, seed {seed}")))?;
            rounds += 1;
        }
        figure("soak: faults", rounds);
        assert!(rounds > 0, "not one round");
        Ok(())
    })
}

fn round(instance: &Instance, fault: &str) -> Result {
    on(instance, 3, fault, |instance, primary, writer| match fault {
        "container-killed" => kill_primary(instance, primary, writer),
        "pod-deleted" => delete_primary(instance, primary, writer),
        "node-lost" => {
            let lost = bed::kill_node(&primary.node)?;
            instance.wait_primary_other_than(primary)?;
            lost.end()
        }
        "partition-primary" => {
            let cut = bed::partition(&primary.node)?;
            instance.wait_primary_other_than(primary)?;
            cut.end()
        }
        _ => kill_all(instance, &instance.pods()?),
    })?;
    // The next round's numbers begin anew, and memory does not fill up.
    let answer: String = instance.writer()?.ask(&["FLUSHALL"])?;
    assert_eq!(answer, "OK");
    Ok(())
}
