//! Runs a scenario.
//!
//! # Guarantees
//! 1. What the oracles and the expectations say is complete: a violation doesn't hide another.
//! 2. However it ends, no process is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;
use vko_apiserver::fault::Fault;
use vko_apiserver::{Refusal, Store};
use vko_core::faulty::Faults;
use vko_run::Policies;
use vko_script::step::FIRST_OPERATOR;
use vko_script::target::{self, Remembered};
use vko_script::{Scenario, ending, outcome, wait};

use super::client::Client;
use super::view::Here;
use crate::bed::{Bed, BedError, NAMESPACE};
use crate::images::Images;
use crate::operator::Operator;
use crate::oracle::watch::Recording;
use crate::oracle::{Oracle, Violation, disruption, keeping, quiet, writers};

/// For what a step waits for. Reached only when something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// From the last fault's end to the declared state and rest.
const SETTLED_SECONDS: u64 = 240;
/// So long without a request for a change is rest: what the operator does by time it does more often.
const REST: Duration = Duration::from_secs(8);
/// For so long (seconds) two servers may seem to take writes at once: answers of a machine that is busy come late. It is no bound
/// of losses: nobody is promoted while another one may acknowledge writes, so a fault that costs seconds of writes allows no
/// second writer.
const TWO_WRITERS_SECONDS: f64 = 1.0;

/// Why a step can't be carried out.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The world says no, or what was waited for didn't come.
    #[error(transparent)]
    Bed(#[from] BedError),
    /// The API server says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Faults that met no request: what the scenario is about did not happen.
    #[error("these faults of the API server struck nothing: {0:?}")]
    IdleFaults(Vec<Fault>),
    /// A step means nobody.
    #[error("no pod is {0:?} now")]
    Nobody(String),
    /// A budget never let a pod go.
    #[error("the eviction of {0} was refused all the time")]
    Kept(String),
    /// What the client did or was promised.
    #[error("the client: {0}")]
    Client(String),
    /// An operator that doesn't stop as it should.
    #[error(transparent)]
    Ended(#[from] vko_run::Ended),
    /// An operator that isn't there.
    #[error("no operator {0} runs; start it first")]
    NoOperator(String),
    /// An operator that was to end.
    #[error("the operator {0} lives on: it had too few effects")]
    Lives(String),
}

/// What a run that went well did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How long it took.
    pub took: Duration,
    /// Acknowledged writes that were verified.
    pub acks: usize,
    /// What operators asked to change: how often by verb and resource.
    pub requests: BTreeMap<String, usize>,
    /// Reasons of the events that were written.
    pub events: BTreeSet<String>,
}

/// A run that did not go well.
#[derive(Debug, thiserror::Error)]
#[error("scenario {name}: {what}\n{state}")]
pub struct Failure {
    /// Which.
    pub name: String,
    /// What went wrong.
    pub what: String,
    /// What oracles saw.
    pub violations: Vec<Violation>,
    /// How things stood: objects and the operators' journals.
    pub state: String,
}

/// An operator, and what it suffers from.
pub(super) struct Running {
    pub(super) operator: Operator,
    pub(super) faults: Arc<Faults>,
    /// It ended by itself.
    pub(super) ended: Arc<Notify>,
}

impl Running {
    pub(super) async fn start(bed: &Bed, name: &str, policies: &Policies, die_after: Option<u64>) -> Result<Self, BedError> {
        let ended = Arc::new(Notify::new());
        let told = ended.clone();
        let faults = Arc::new(Faults::new(die_after, move || told.notify_one()));
        let operator = Operator::start_with(bed, name, policies.clone(), faults.clone()).await?;
        Ok(Self { operator, faults, ended })
    }
}

/// A world with a script's memory.
pub(super) struct Stage<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) bed: Bed,
    pub(super) policies: &'a Policies,
    pub(super) operators: BTreeMap<String, Running>,
    pub(super) recording: Recording,
    pub(super) remembered: Remembered,
    pub(super) client: Option<Client>,
    pub(super) clients: usize,
    pub(super) acks: usize,
}

/// Runs it.
///
/// # Errors
/// A step fails, something expected isn't so, or an oracle saw what must not be.
pub async fn run(scenario: &Scenario, images: &Images, policies: &Policies) -> Result<Report, Box<Failure>> {
    let began = Instant::now();
    let mut stage = match Stage::new(scenario, images, policies).await {
        Ok(stage) => stage,
        Err(error) => return Err(failure(scenario, error.to_string(), Vec::new(), String::new())),
    };
    let result = stage.run().await;
    let violations = stage.violations(result.is_ok());
    if let Err(what) = result {
        return Err(failure(scenario, what, violations, stage.state()));
    }
    if !violations.is_empty() {
        let what = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ");
        return Err(failure(scenario, what, violations, stage.state()));
    }
    let (requests, events) = stage
        .recording
        .recorder
        .read(|recorded| (quiet::summed(&recorded.requests), recorded.events.iter().map(|(reason, _)| reason.clone()).collect()));
    let (acks, ended, last) = (
        stage.acks,
        stage.bed.api.read(|store| ending::ending(&Here(store))),
        stage.bed.api.read(|store| ending::declared(&Here(store))),
    );
    stage.bed.close().await;
    if scenario.expect.ends_as_created {
        let differing = created(scenario, images, policies, &last).await.map(|created| ending::alike(&ended, &created));
        let differing = differing.map_err(|what| failure(scenario, what, Vec::new(), String::new()))?;
        if !differing.is_empty() {
            let what = differing.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ");
            return Err(failure(scenario, what, differing, String::new()));
        }
    }
    Ok(Report { took: began.elapsed(), acks, requests, events })
}

fn failure(scenario: &Scenario, what: String, violations: Vec<Violation>, state: String) -> Box<Failure> {
    Box::new(Failure { name: scenario.name.clone(), what, violations, state })
}

/// How the same instances end when they are created as they are declared last.
async fn created(
    scenario: &Scenario,
    images: &Images,
    policies: &Policies,
    objects: &[Value],
) -> Result<BTreeMap<String, Value>, String> {
    let mut stage = Stage::new(scenario, images, policies).await.map_err(|error| error.to_string())?;
    for object in objects {
        stage.bed.apply(object.clone()).map_err(|error| error.to_string())?;
    }
    stage.settle().await?;
    Ok(stage.bed.api.read(|store| ending::ending(&Here(store))))
}

impl<'a> Stage<'a> {
    async fn new(scenario: &'a Scenario, images: &Images, policies: &'a Policies) -> Result<Self, StageError> {
        let bed = Bed::new(images.clone())?;
        let recording = Recording::begin(&bed);
        let operator = Running::start(&bed, FIRST_OPERATOR, policies, None).await?;
        Ok(Self {
            scenario,
            bed,
            policies,
            operators: BTreeMap::from([(FIRST_OPERATOR.to_owned(), operator)]),
            recording,
            remembered: Remembered::new(),
            client: None,
            clients: 0,
            acks: 0,
        })
    }

    /// The script, the end of all faults, the declared state, rest.
    async fn run(&mut self) -> Result<(), String> {
        let scenario = self.scenario;
        for (index, step) in scenario.steps.iter().enumerate() {
            let began = Instant::now();
            let failed = |error: StageError| format!("step {} ({step:?}): {error}", index + 1);
            self.act(step).await.map_err(failed)?;
            tracing::info!(scenario = scenario.name, step = index + 1, took = ?began.elapsed(), "{step:?}");
        }
        self.heal().await.map_err(|error| error.to_string())?;
        self.settle().await
    }

    /// The declared state, and rest.
    async fn settle(&mut self) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(self.scenario.expect.settles_within_seconds.unwrap_or(SETTLED_SECONDS));
        let expected = &self.scenario.expect.conditions;
        let is_reached = |store: &Store| wait::is_reached(&Here(store), expected);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let reached = self.bed.until("the declared state", left, |store| is_reached(store).then_some(())).await;
            reached.map_err(|error| error.to_string())?;
            let before = self.recording.recorder.read(|recorded| recorded.requests.len());
            tokio::time::sleep(REST).await;
            let unrest = self
                .recording
                .recorder
                .read(|recorded| quiet::unrest(&recorded.requests[before..]).into_iter().cloned().collect::<Vec<_>>());
            if unrest.is_empty() && self.bed.api.read(is_reached) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("no rest: {} requests within {REST:?}, as {:?}", unrest.len(), unrest.last()));
            }
        }
    }

    fn violations(&self, settled: bool) -> Vec<Violation> {
        let expect = &self.scenario.expect;
        let bound = expect.two_writers_seconds.unwrap_or(TWO_WRITERS_SECONDS);
        // Before the recorder is asked: it is asked within the store's lock elsewhere, and the two would wait for each other.
        let (pods, instances) = self.bed.api.read(|store| (target::pods(&Here(store)), wait::instances(&Here(store))));
        let pods = pods.into_iter().map(|pod| (pod.uid, pod.primary)).collect();
        let mut found = self.recording.recorder.read(|recorded| {
            let mut found = writers::two_at_once(&recorded.samples, Duration::from_secs_f64(bound));
            found.extend(keeping::kept(&recorded.deletions, &expect.may_go));
            found.extend(disruption::one_at_a_time(&recorded.pods));
            found.extend(quiet::storms(&recorded.requests));
            found.extend(outcome::events(expect, &recorded.events));
            if settled && expect.conditions.is_empty() {
                found.extend(instances.iter().flat_map(|name| writers::one_at_the_end(&recorded.samples, name, &pods)));
            }
            found
        });
        if let Some(kept) = &expect.lives_kept {
            let after = self.bed.api.read(|store| target::pods(&Here(store)));
            match self.pods(kept) {
                Ok(before) => found.extend(outcome::lives(&before, &after)),
                Err(error) if settled => found.push(Violation::new(Oracle::Lives, error.to_string())),
                // The script ended before it remembered them.
                Err(_) => {}
            }
        }
        found
    }

    /// For people: objects, and what the operators decided last.
    fn state(&self) -> String {
        let mut text = self.bed.state();
        for (operator, name) in self.operators.values().flat_map(|running| {
            self.bed.api.read(|store| wait::instances(&Here(store))).into_iter().map(move |name| (&running.operator, name))
        }) {
            for line in operator.journal(NAMESPACE, &name).iter().rev().take(JOURNAL).rev() {
                let _ = write!(text, "\n{}", brief(line));
            }
        }
        text
    }
}

/// Entries of a journal that a failure shows.
const JOURNAL: usize = 25;

/// An entry of a journal without what was observed and what is desired.
fn brief(line: &str) -> String {
    let Ok(mut entry) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    if entry["event"] != "decision" {
        return line.to_owned();
    }
    let (plan, refused) = (entry["plan"].take(), entry["refused"].take());
    format!("{} {}: {}, tracks {}, refused {refused}", entry["at"], entry["policy"], plan["status"]["message"], plan["tracks"])
}
