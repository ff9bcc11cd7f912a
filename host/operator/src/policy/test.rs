//! `policy test`: whether a module conforms.

use std::time::{Duration, Instant};

use vko_core::policy::Policy;
use vko_core::trial::conformance::{Broken, Judged, Scene, judge};
use vko_engine::limits::{LOG_BYTES_MAX, LOG_CUT};

use super::listen::listening;
use super::scenes::scenes;
use super::{admitted, named, print_indented};
use crate::args::TestOptions;

/// Lines of the policy's log that are shown of a scene in which it broke something: the last ones.
const LOG_LINES_SHOWN: usize = 5;
/// Longer lines are cut: they are there to be recognised.
const LOG_CHARS_SHOWN: usize = 200;
/// Names of scenes that come by the hundred begin so: told of only where something is broken.
const RANDOM: &str = "random";

/// Judges and reports; whether the module conforms.
pub(super) fn test(options: &TestOptions) -> anyhow::Result<bool> {
    let policy = admitted(&options.module)?;
    let mut scenes = scenes(policy.info().architecture, &options.annotations)?;
    scenes.retain(|scene| scene.name.contains(&options.scene));
    anyhow::ensure!(!scenes.is_empty(), "no scene's name contains '{}'; without --scene all are listed", options.scene);
    println!("{}\n", named(&*policy));
    let (mut broken, mut slowest) = (0, (Duration::ZERO, ""));
    for scene in &scenes {
        let (judged, log) = tried(&*policy, scene);
        if judged.took > slowest.0 {
            slowest = (judged.took, &scene.name);
        }
        broken += usize::from(!judged.broken.is_empty());
        print(scene, &judged, &log);
    }
    let random = scenes.iter().filter(|scene| scene.name.starts_with(RANDOM)).count();
    println!();
    println!("{} scenes ({random} of them random): {} kept, {broken} broken", scenes.len(), scenes.len() - broken);
    println!("slowest: {:.1?} in '{}'", slowest.0, slowest.1);
    Ok(broken == 0)
}

fn tried(policy: &dyn Policy, scene: &Scene) -> (Judged, Vec<String>) {
    let begun = Instant::now();
    let (mut judged, log) = listening(|| judge(policy, scene, &|| begun.elapsed()));
    if log.iter().any(|line| line.ends_with(LOG_CUT)) {
        judged.broken.push(Broken {
            rule: "LogCut".into(),
            why: format!("it logs more than {LOG_BYTES_MAX} bytes in a call; what comes after is dropped"),
            remedy: "log what a person would want to know of this decision, not each thing that was looked at",
        });
    }
    (judged, log)
}

fn print(scene: &Scene, judged: &Judged, log: &[String]) {
    if judged.broken.is_empty() {
        if !scene.name.starts_with(RANDOM) {
            println!("ok      {}", scene.name);
            print_indented(&judged.plan, 8);
        }
        return;
    }
    println!("BROKEN  {}", scene.name);
    print_indented(&judged.plan, 8);
    for Broken { rule, why, remedy } in &judged.broken {
        println!("        breaks {rule}: {why}\n        do: {remedy}");
    }
    for line in &log[log.len().saturating_sub(LOG_LINES_SHOWN)..] {
        println!("        its log: {}", line.chars().take(LOG_CHARS_SHOWN).collect::<String>());
    }
}
