//! How long a decision takes, native and in the sandbox: `cargo run -p vko-engine --example decide -- <component>`. Without an argument it
//! takes `vko-misbehave.wasm` (which holds) of the folder that VKO_GUESTS names.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vko_core::policy::{Admit, Policy};
use vko_engine::{Engine, NativePolicy};
use vko_misbehave::Misbehave;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let file = file.or_else(|| Some(PathBuf::from(std::env::var_os("VKO_GUESTS")?).join("vko-misbehave.wasm")));
    let file = file.ok_or("name a component, or the folder of components in VKO_GUESTS")?;
    let component = std::fs::read(&file)?;
    let engine = Engine::new()?;
    let started = Instant::now();
    let promise = engine.describe(&component)?;
    let policy = engine.admit(&promise, &component)?;
    println!("{} {}: {} bytes, admitted in {:?}", promise.name, promise.version, component.len(), started.elapsed());
    measure("native, misbehave", &NativePolicy::<Misbehave>::new())?;
    measure("sandbox", &*policy)
}

fn measure(name: &str, policy: &dyn Policy) -> Result<(), Box<dyn Error>> {
    for servers in [1, 6, 64, 640] {
        let observed = sample::observed(servers);
        let mut times: Vec<Duration> = Vec::new();
        let mut said = String::new();
        for _ in 0..101 {
            let started = Instant::now();
            let answer = policy.decide(&observed)?;
            times.push(started.elapsed());
            // It holds, of so many servers, and says why: that was a decision too.
            said = answer.err().map(|word| format!("  {word:?}")).unwrap_or_default();
        }
        times.sort();
        println!(
            "{name:<18} {servers:>4} servers: min {:>9.1?}  median {:>9.1?}  max {:>9.1?}{said}",
            times[0], times[50], times[100]
        );
    }
    Ok(())
}
