//! Runs the workspace's test executables side by side.
//!
//! # Guarantees
//! 1. Each executable runs as `cargo test` runs it: in its package's folder, with its package's `CARGO_MANIFEST_DIR`.
//! 2. What it says is printed as a whole, when it has ended. All run, whatever fails; the failed ones are named at the end.
//!
//! # Assumptions
//! Tests against servers wait most of their time (for a node timeout, for a Lease), so that one executable after the other leaves
//! the cores idle. They have their own addresses and folders, so that they don't meet.
//!
//! # Flow
//! 1. Cargo builds, and says in JSON which executables hold tests.
//! 2. Those that took longest the last time start first (`<target>/test-seconds`); those of no record before them.
//! 3. Documentation tests, which have no executables, are cargo's.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::workspace::{Workspace, cargo};

/// An executable with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tests {
    /// Folder of its package.
    folder: PathBuf,
    /// Package and target.
    name: String,
    executable: PathBuf,
}

/// How one ended.
struct Run {
    name: String,
    passed: bool,
    took: Duration,
}

/// Builds and runs the tests that `selection` (arguments of `cargo test`) names, that many executables at once.
///
/// # Errors
/// They can't be built, or some fail.
pub(crate) fn run(workspace: &Workspace, at_once: &str, selection: &[&str]) -> Result<()> {
    let at_once: usize = at_once.parse().ok().filter(|n| *n > 0).with_context(|| format!("how many at once? '{at_once}'"))?;
    let record = workspace.target.join("test-seconds");
    let queue = in_order(build(selection)?, &read_record(&std::fs::read_to_string(&record).unwrap_or_default())).into_iter();
    let logs = workspace.target.join("test-logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("{} can't be made", logs.display()))?;
    let (queue, runs) = (Mutex::new(queue), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(|| work(&queue, &runs, &logs))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
    })?;
    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    std::fs::write(&record, record_of(&runs)).with_context(|| format!("{} can't be written", record.display()))?;
    let documented = cargo().args(["test", "--doc", "--no-fail-fast"]).args(selection).status().context("cargo can't be run")?;
    let mut failed: Vec<&str> = runs.iter().filter(|run| !run.passed).map(|run| run.name.as_str()).collect();
    if !documented.success() {
        failed.push("documentation");
    }
    ensure!(failed.is_empty(), "tests failed: {}", failed.join(", "));
    Ok(())
}

fn build(selection: &[&str]) -> Result<Vec<Tests>> {
    let arguments = ["test", "--no-run", "--message-format=json-render-diagnostics"];
    let output = cargo().args(arguments).args(selection).stderr(Stdio::inherit()).output().context("cargo can't be run")?;
    if !output.status.success() {
        bail!("the tests can't be built");
    }
    let text = String::from_utf8(output.stdout).context("cargo wrote no UTF-8")?;
    text.lines().filter_map(|line| tests_of(line).transpose()).collect()
}

/// The executable that a message of cargo's tells of, if it holds tests.
fn tests_of(message: &str) -> Result<Option<Tests>> {
    let message: Value = serde_json::from_str(message).with_context(|| format!("cargo wrote no JSON: {message}"))?;
    let (Some(executable), Some(true)) = (message["executable"].as_str(), message["profile"]["test"].as_bool()) else {
        return Ok(None);
    };
    let manifest = Path::new(message["manifest_path"].as_str().context("an executable without a manifest")?);
    let folder = manifest.parent().context("a manifest in no folder")?.to_owned();
    let target = message["target"]["name"].as_str().context("an executable without a name")?;
    let package = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Some(Tests { folder, name: format!("{package}/{target}"), executable: executable.into() }))
}

/// Those of no record first, then the longest: one that starts last should not be the one that is waited for.
fn in_order(mut tests: Vec<Tests>, record: &BTreeMap<String, u64>) -> Vec<Tests> {
    let seconds = |tests: &Tests| record.get(&tests.name).copied().unwrap_or(u64::MAX);
    tests.sort_by(|a, b| seconds(b).cmp(&seconds(a)).then_with(|| a.name.cmp(&b.name)));
    tests
}

/// Lines `NAME SECONDS`. A line that is none is passed over: the record is only about the order.
fn read_record(text: &str) -> BTreeMap<String, u64> {
    let entry = |line: &str| line.split_once(' ').and_then(|(name, seconds)| Some((name.to_owned(), seconds.parse().ok()?)));
    text.lines().filter_map(entry).collect()
}

fn record_of(runs: &[Run]) -> String {
    runs.iter().map(|run| format!("{} {}\n", run.name, run.took.as_secs())).collect()
}

/// A worker that panicked fails the whole run at its end; what the others share is as good as before.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(queue: &Mutex<impl Iterator<Item = Tests>>, runs: &Mutex<Vec<Run>>, logs: &Path) -> Result<()> {
    loop {
        let Some(next) = lock(queue).next() else { return Ok(()) };
        let log = logs.join(next.name.replace('/', "-"));
        let run = execute(&next, &log)?;
        let said = std::fs::read(&log).with_context(|| format!("{} can't be read", log.display()))?;
        let mut runs = lock(runs);
        println!("     Running {} ({})", next.name, next.executable.display());
        println!("{}", String::from_utf8_lossy(&said));
        println!("{}: {:.1} s", next.name, run.took.as_secs_f64());
        runs.push(run);
    }
}

fn execute(tests: &Tests, log: &Path) -> Result<Run> {
    let out = File::create(log).with_context(|| format!("{} can't be written", log.display()))?;
    let start = Instant::now();
    let status = Command::new(&tests.executable)
        .current_dir(&tests.folder)
        .env("CARGO_MANIFEST_DIR", &tests.folder)
        .stdin(Stdio::null())
        .stderr(out.try_clone().context("a file can't be shared")?)
        .stdout(out)
        .status()
        .with_context(|| format!("{} can't be run", tests.executable.display()))?;
    Ok(Run { name: tests.name.clone(), passed: status.success(), took: start.elapsed() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod self_tests {
    use super::*;

    fn mk_tests(name: &str) -> Tests {
        Tests { folder: "/w/host/core".into(), name: name.into(), executable: "/t/deps/x".into() }
    }

    #[test]
    fn executables_with_tests_are_found() {
        let message = |executable: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/host/core/Cargo.toml","target":{{"name":"cluster"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = Some(mk_tests("core/cluster"));
        assert_eq!(tests_of(&message("\"/t/deps/x\"", true)).unwrap(), found);
        assert_eq!(tests_of(&message("\"/t/deps/x\"", false)).unwrap(), None, "a program that tests call");
        assert_eq!(tests_of(&message("null", true)).unwrap(), None, "only checked");
        assert_eq!(tests_of(r#"{"reason":"build-finished","success":true}"#).unwrap(), None);
        assert!(tests_of("warning: no JSON").is_err());
    }

    #[test]
    fn the_longest_start_first() {
        let record = read_record("core/a 3\ncore/b 120\nno number\ncore/c many\n");
        let names = ["core/a", "core/b", "core/c"].map(mk_tests).to_vec();
        let ordered: Vec<String> = in_order(names, &record).into_iter().map(|tests| tests.name).collect();
        assert_eq!(ordered, ["core/c", "core/b", "core/a"], "core/c has no record");
        let runs = [Run { name: "core/a".into(), passed: true, took: Duration::from_millis(3_900) }];
        assert_eq!(read_record(&record_of(&runs)), read_record("core/a 3"));
    }
}
