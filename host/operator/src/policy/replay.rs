//! `policy replay`: a recorded journal against another module.

use std::io::Read;

use anyhow::Context;
use vko_core::policy::Policy;
use vko_core::trial::record::{Record, Recorded};
use vko_core::trial::replay::{Different, Replayed, replay as show};
use vko_core::trial::time;

use super::{admitted, named, print_indented};
use crate::args::ReplayOptions;

/// Replays and reports; whether all plans are the same.
pub(super) fn replay(options: &ReplayOptions) -> anyhow::Result<bool> {
    let shown = options.journal.display();
    let bytes = read(options).with_context(|| format!("{shown} can't be read"))?;
    // A journal that was cut in the middle of a character is a cut one.
    let text = String::from_utf8_lossy(&bytes);
    let record = Record::read(&text).with_context(|| format!("{shown} can't be replayed"))?;
    let policy = admitted(&options.module)?;
    fits(&record, &*policy)?;
    announce(&record, &*policy);
    let mut different = 0;
    for recorded in &record.decisions {
        if let Replayed::Different(two) = show(&*policy, recorded) {
            different += 1;
            print(recorded, &two);
        }
    }
    let all = record.decisions.len();
    println!("{all} decisions replayed: {} the same, {different} different", all - different);
    Ok(different == 0)
}

fn read(options: &ReplayOptions) -> std::io::Result<Vec<u8>> {
    if options.journal.as_os_str() != "-" {
        return std::fs::read(&options.journal);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A policy of another architecture would say of each decision that it lacks facts.
fn fits(record: &Record, policy: &dyn Policy) -> anyhow::Result<()> {
    let (info, recorded) = (policy.info(), record.decisions.first().map(|first| first.observed.instance.architecture));
    let told = |architecture| format!("{architecture:?}").rsplit("::").next().unwrap_or_default().to_lowercase();
    anyhow::ensure!(
        recorded.is_none_or(|architecture| architecture == info.architecture),
        "{} governs the architecture {}, the journal is of an instance of {}",
        info.name,
        told(info.architecture),
        recorded.map(told).unwrap_or_default(),
    );
    Ok(())
}

fn announce(record: &Record, policy: &dyn Policy) {
    let [first, .., last] = record.decisions.as_slice() else {
        if let [only] = record.decisions.as_slice() {
            println!("one decision on {} at {}", instance(only), time(only.at));
        }
        return println!("against {}\n", named(policy));
    };
    println!("{} decisions on {}, {} to {}", record.decisions.len(), instance(first), time(first.at), time(last.at));
    if record.without > 0 {
        println!("{} more are without their observations: older ones are dropped when they are large", record.without);
    }
    println!("against {}\n", named(policy));
}

fn instance(recorded: &Recorded) -> String {
    format!("{}/{}", recorded.observed.instance.namespace, recorded.observed.instance.name)
}

fn print(recorded: &Recorded, two: &Different) {
    println!("line {}, {}: DIFFERENT", recorded.line, time(recorded.at));
    let digest: String = recorded.digest.chars().take(12).collect();
    println!("  {} ({digest}) decided:", recorded.policy);
    print_indented(&two.before, 4);
    println!("  the module decides:");
    print_indented(&two.after, 4);
    if let Some(first) = &two.first {
        println!("  differs in: {}", first.parts.join(", "));
        println!("  first at {}: {}", first.path, first.before);
        println!("  {:>width$}: {}", "now", first.after, width = "first at ".len() + first.path.len());
    }
    two.refused.iter().for_each(|why| println!("  {why}"));
    println!();
}
