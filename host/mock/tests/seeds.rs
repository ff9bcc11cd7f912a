//! Scenarios drawn by seeds. In full runs (`VKO_TIER=full`) fresh seeds for ten minutes (`VKO_SEED_MINUTES`); a failing one is
//! written as a folder, and the command that repeats it is printed. `VKO_SEED=N` runs one, `VKO_SEED_TIMES` (1 to 20) times,
//! and says how often it fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use support::twin::{self, Compared};
use tokio::task::JoinSet;
use vko_mock::Images;
use vko_mock::scenario::{run, seed};

/// Side by side: servers mostly wait for time to pass.
const AT_ONCE: usize = 3;
/// The seed of quick runs: one that takes little and shows that drawn scenarios run at all.
const QUICK: u64 = 1_796_207_595_010;
/// Observations on which both builds of the policies are compared, at least: in full runs, and in quick ones, which take seconds.
const COMPARED: [usize; 2] = [10_000, 1_500];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; it must be a number")))
}

/// Runs seeds side by side until there are none, or `end` is reached; returns those that failed and how many ran.
async fn run_all(mut seeds: impl Iterator<Item = u64>, end: Option<Instant>, compared: &Arc<Compared>) -> (Vec<u64>, usize) {
    let (images, policies) = (Images::of_environment().unwrap(), twin::policies(compared));
    let (mut running, mut failed, mut ran) = (JoinSet::new(), Vec::new(), 0);
    loop {
        while running.len() < AT_ONCE && end.is_none_or(|end| Instant::now() < end) {
            let Some(seed) = seeds.next() else { break };
            let (images, policies) = (images.clone(), policies.clone());
            running.spawn(async move {
                let scenario = seed::draw(seed);
                let result = run::run(&scenario, &images, &policies).await;
                (seed, scenario, result)
            });
        }
        let Some(ended) = running.join_next().await else { return (failed, ran) };
        let (seed, scenario, result) = ended.unwrap();
        ran += 1;
        match result {
            Ok(report) => println!("{}: {:.1} s", scenario.expect.about, report.took.as_secs_f64()),
            Err(failure) => {
                let folder = std::env::temp_dir().join("vko-seeds").join(&scenario.name);
                scenario.write(&folder).unwrap();
                println!(
                    "{}: FAILED\n{failure}\nwritten to {}; to repeat it up to 20 times:",
                    scenario.expect.about,
                    folder.display()
                );
                println!("VKO_SEED={seed} VKO_SEED_TIMES=20 cargo test --workspace --test seeds -- --nocapture");
                failed.push(seed);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drawn_scenarios_end_as_they_should() {
    let compared = Arc::new(Compared::default());
    let (failed, ran) = if let Some(seed) = number("VKO_SEED") {
        let times = usize::try_from(number("VKO_SEED_TIMES").unwrap_or(1).clamp(1, 20)).unwrap();
        run_all(std::iter::repeat_n(seed, times), None, &compared).await
    } else if support::is_full_run() {
        let minutes = number("VKO_SEED_MINUTES").unwrap_or(10);
        let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() * 1000;
        run_all(first.., Some(Instant::now() + Duration::from_secs(minutes * 60)), &compared).await
    } else {
        run_all([QUICK].into_iter(), None, &compared).await
    };
    println!("figure: seeds = {ran}, of which failed {}", failed.len());
    let compared = tokio::task::spawn_blocking(move || {
        compared.complete(COMPARED[usize::from(!support::is_full_run())]);
        compared.report();
    });
    compared.await.unwrap();
    assert!(failed.is_empty(), "of {ran} runs {} failed: {failed:?}", failed.len());
}
