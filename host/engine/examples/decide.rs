//! How long a decision takes, native and in the sandbox: `cargo run -p vko-engine --example decide -- <component>`. Without an
//! argument it takes `vko-misbehave.wasm` (which holds) of the folder that VKO_GUESTS names. A policy of the cluster architecture
//! is shown clusters, up to 128 shards of 5, quiet and not made yet; and after them the observations in the files that further
//! arguments name (the example `look` of `host/core` writes some).

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vko_cluster::ClusterPolicy;
use vko_cluster::testing::World;
use vko_core::policy::Policy;
use vko_engine::{Engine, NativePolicy};
use vko_misbehave::Misbehave;
use vko_wit::common::Architecture;
use vko_wit::observation::Observed;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let file = file.or_else(|| Some(PathBuf::from(std::env::var_os("VKO_GUESTS")?).join("vko-misbehave.wasm")));
    let file = file.ok_or("name a component, or the folder of components in VKO_GUESTS")?;
    let component = std::fs::read(&file)?;
    let engine = Engine::new()?;
    let started = Instant::now();
    let policy = engine.admit_as_described(&component)?;
    let info = policy.info();
    println!("{} {}: {} bytes, admitted in {:?}", info.name, info.version, component.len(), started.elapsed());
    let mut scenes = scenes(policy.info().architecture);
    for file in std::env::args_os().skip(2).map(PathBuf::from) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        scenes.push((name, serde_json::from_slice(&std::fs::read(&file)?)?));
    }
    match policy.info().architecture {
        Architecture::Cluster => measure("native", &NativePolicy::<ClusterPolicy>::new(), &scenes)?,
        _ => measure("native, misbehave", &NativePolicy::<Misbehave>::new(), &scenes)?,
    }
    measure("sandbox", &*policy, &scenes)
}

/// What the policy is shown, by name.
fn scenes(architecture: Architecture) -> Vec<(String, Observed)> {
    if architecture == Architecture::Cluster {
        let sizes = [(3, 2), (32, 2), (128, 5)];
        let quiet = sizes.map(|(s, m)| (format!("{s} x {m}, quiet"), World::healthy(s, m).observe()));
        let new = sizes.map(|(s, m)| (format!("{s} x {m}, new"), World::new(s, m).observe()));
        return quiet.into_iter().chain(new).collect();
    }
    [1, 6, 64, 640].map(|servers| (format!("{servers} servers"), sample::observed(servers))).to_vec()
}

/// Decisions of each scene.
const RUNS: usize = 401;

/// What 99 of 100 decisions on so many servers shall take at most.
const fn target(servers: usize) -> Duration {
    if servers <= 6 { Duration::from_millis(1) } else { Duration::from_millis(10) }
}

fn measure(name: &str, policy: &dyn Policy, scenes: &[(String, Observed)]) -> Result<(), Box<dyn Error>> {
    for (scene, observed) in scenes {
        let mut times: Vec<Duration> = Vec::new();
        let mut said = String::new();
        for _ in 0..RUNS {
            let started = Instant::now();
            let answer = policy.decide(observed)?;
            times.push(started.elapsed());
            // It holds, of so many servers, and says why: that was a decision too.
            said = answer.err().map(|word| format!("  {word:?}")).unwrap_or_default();
        }
        times.sort();
        let (median, p99) = (times[RUNS / 2], times[RUNS * 99 / 100]);
        let target = target(observed.servers.len());
        let verdict = if p99 <= target { "met" } else { "MISSED" };
        println!(
            "{name:<18} {scene:>15}: min {:>9.1?}  median {median:>9.1?}  p99 {p99:>9.1?}  (target {target:?}: {verdict}){said}",
            times[0]
        );
    }
    Ok(())
}
