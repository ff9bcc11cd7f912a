//! Folders of `tests/scenarios` on a real Kubernetes: those that are marked for it (`bed` in expect.yaml), as the mock host runs
//! them, and with the same outcome.
//!
//! # Guarantees
//! 1. What steps and expectations mean is asked of `vko_script`, as on the mock host; here they are only carried out.
//! 2. No step is skipped: a marked folder with one that can't be done here isn't read at all. One whose faults take nodes of ours
//!    runs on the test bed alone, and says so elsewhere.
//! 3. All faults end with the script, also where it fails.
//!
//! # Assumptions
//! What the mock host's oracles ask of servers and of requests isn't asked here; the subjects `quiet` and `faults` do.
//!
//! # Flow of a run
//! 1. A namespace, and watches of what is in it ([`watched`]).
//! 2. The script's steps ([`act`]), one after the other.
//! 3. All faults end; the declared state must be reached.
//! 4. What was expected.

mod act;
pub mod watched;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use vko_script::bed::{OnBed, on_bed};
use vko_script::folder::Tier as Marked;
use vko_script::step::Step;
use vko_script::target::{self, Remembered};
use vko_script::{Scenario, VALKEYS, View, ending, outcome, wait};

use self::act::Client;
use self::watched::{Objects, Watched};
use crate::settings::Tier;
use crate::{Result, bed, figure, kubectl, operator, skipped, space};

/// From the last fault's end to the declared state, where nothing is said.
const SETTLED: Duration = Duration::from_secs(240);

/// Those that a run of that tier is for, of all there are; one by its name in any tier.
///
/// # Errors
/// There is none of that name, or it isn't marked for the test bed.
pub fn chosen(mut all: Vec<Scenario>, name: Option<&str>, tier: Tier) -> Result<Vec<Scenario>> {
    let Some(name) = name else {
        all.retain(|scenario| scenario.expect.bed.is_some_and(|marked| marked == Marked::Quick || tier != Tier::Quick));
        return Ok(all);
    };
    all.retain(|scenario| scenario.name == name);
    let one = all.first().with_context(|| format!("there is no tests/scenarios/{name}"))?;
    ensure!(one.expect.bed.is_some(), "tests/scenarios/{name} isn't marked for the test bed: 'bed' in its expect.yaml");
    Ok(all)
}

/// Runs it.
///
/// # Errors
/// A step fails, or something expected isn't so.
pub fn run(scenario: &Scenario) -> Result {
    if !bed::is_here() && scenario.steps.iter().any(|step| on_bed(step) == OnBed::WithNodes) {
        return skipped(&format!("scenario {}: strikes processes or nodes", scenario.name));
    }
    let strikes_nodes = scenario.steps.iter().any(|step| matches!(step, Step::Node { .. }));
    let _operator = if strikes_nodes { operator::alone()? } else { operator::shared()? };
    let (began, namespace) = (Instant::now(), format!("scenario-{}", scenario.name));
    space::with(&namespace, |namespace| {
        let mut stage = Stage::new(scenario, namespace)?;
        let ran = stage.run();
        stage.heal()?;
        ran.and_then(|()| stage.end())
    })?;
    figure(&format!("scenario {}, s", scenario.name), began.elapsed().as_secs());
    Ok(())
}

/// A namespace with a script's memory.
struct Stage<'a> {
    scenario: &'a Scenario,
    namespace: &'a str,
    seen: Watched,
    remembered: Remembered,
    client: Option<Client>,
    clients: usize,
    /// Nodes without power, by name.
    nodes: BTreeMap<String, bed::Fault>,
}

impl<'a> Stage<'a> {
    fn new(scenario: &'a Scenario, namespace: &'a str) -> Result<Self> {
        let seen = Watched::begin(namespace)?;
        let (remembered, nodes) = (Remembered::new(), BTreeMap::new());
        Ok(Self { scenario, namespace, seen, remembered, client: None, clients: 0, nodes })
    }

    fn run(&mut self) -> Result {
        for (index, step) in self.scenario.steps.iter().enumerate() {
            let began = Instant::now();
            self.act(step).with_context(|| format!("step {} ({step:?})", index + 1))?;
            println!("step {}: {:.1} s, {step:?}", index + 1, began.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// The declared state, and what was expected.
    fn end(&self) -> Result {
        let expect = &self.scenario.expect;
        let within = expect.settles_within_seconds.map_or(SETTLED, Duration::from_secs);
        settled(&self.seen, self.scenario, within)?;
        let (after, mut found) = self.seen.read(|objects| (target::pods(objects), outcome::events(expect, &objects.events)));
        if let Some(kept) = &expect.lives_kept {
            found.extend(outcome::lives(&self.pods(kept)?, &after));
        }
        if expect.ends_as_created {
            found.extend(self.as_created(within)?);
        }
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        if !found.is_empty() {
            bail!("{}", found.join("\n"));
        }
        Ok(())
    }

    /// Where it ended otherwise than the same instances that are created as they are declared last.
    fn as_created(&self, within: Duration) -> Result<Vec<outcome::Violation>> {
        let manifests = self.seen.read(|objects| ending::declared(objects));
        let (mut created, ended) = (BTreeMap::new(), ended(self.namespace)?);
        space::with(&format!("{}-created", self.namespace), |namespace| {
            let seen = Watched::begin(namespace)?;
            for manifest in &manifests {
                kubectl::apply(namespace, &manifest.to_string())?;
            }
            seen.until("the instances", within, |objects| (objects.all(VALKEYS).len() == manifests.len()).then_some(()))?;
            settled(&seen, self.scenario, within)?;
            created = self::ended(namespace)?;
            Ok(())
        })?;
        Ok(ending::alike(&ended, &created))
    }
}

fn settled(seen: &Watched, scenario: &Scenario, within: Duration) -> Result {
    seen.until("the declared state", within, |objects| wait::is_reached(objects, &scenario.expect.conditions).then_some(()))
}

/// How what is in a namespace ended. Its name stands in the objects, too, and two have two.
fn ended(namespace: &str) -> Result<BTreeMap<String, Value>> {
    let ended = ending::ending(&Objects::listed(namespace, ending::resources())?);
    let text = serde_json::to_string(&ended)?.replace(namespace, "NAMESPACE");
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use vko_script::folder::Expect;

    #[test]
    fn chosen_by_table() {
        let scenario = |name: &str, bed| {
            let expect = Expect { bed, ..Expect::default() };
            Scenario { name: name.into(), steps: Vec::new(), expect, manifests: BTreeMap::new() }
        };
        let all = || vec![scenario("a", Some(Marked::Quick)), scenario("b", Some(Marked::Full)), scenario("c", None)];
        for (name, tier, expected) in [
            (None, Tier::Quick, Ok("a")),
            (None, Tier::Full, Ok("a b")),
            (None, Tier::Soak, Ok("a b")),
            (Some("b"), Tier::Quick, Ok("b")),
            (Some("c"), Tier::Full, Err("isn't marked")),
            (Some("d"), Tier::Full, Err("there is no tests/scenarios/d")),
        ] {
            let names = |all: Vec<Scenario>| all.into_iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(" ");
            match (chosen(all(), name, tier).map(names), expected) {
                (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{name:?}: {error}"),
                (found, expected) => assert_eq!(found.ok().as_deref(), expected.ok(), "{name:?} in {tier:?}"),
            }
        }
    }
}
