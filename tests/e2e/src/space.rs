//! A namespace for a test: made, handed over, explained when the test fails, and emptied again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;

use crate::{Result, kubectl, operator};

/// Deleting an instance takes seconds; an operator that was stopped by the test may have to come back first.
const EMPTY: Duration = Duration::from_secs(90);

/// Runs a test in a namespace of its own. Pods and claims are gone when it returns, so that they burden no other test.
///
/// # Errors
/// The test's own, or that the namespace can't be made. One that can't be emptied is told, not failed: deletion has tests of its
/// own.
pub fn with(name: &str, test: impl FnOnce(&str) -> Result) -> Result {
    // Another run on the same cluster may have left one of this name, or be about to.
    let namespace = &format!("{name}-{}", std::process::id());
    kubectl::apply("default", &operator::namespace_manifest(namespace))?;
    let outcome = catch_unwind(AssertUnwindSafe(|| test(namespace)));
    if !matches!(outcome, Ok(Ok(()))) {
        explain(namespace);
    }
    if let Err(error) = empty(namespace) {
        eprintln!("{namespace} was not emptied: {error:#}");
    }
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs cases of one test, a few side by side, and tells all that failed. Each takes a namespace of its own.
///
/// # Errors
/// Those of the cases, each after its name.
pub fn side_by_side<T: Send + Sync>(width: usize, cases: Vec<(String, T)>, run: impl Fn(&str, &T) -> Result + Sync) -> Result {
    let (left, failures) = (Mutex::new(cases), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| {
                while let Some((name, case)) = next(&left) {
                    if let Err(error) = run(&name, &case) {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {error:#}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn next<T>(left: &Mutex<Vec<T>>) -> Option<T> {
    left.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn empty(namespace: &str) -> Result {
    let timeout = format!("--timeout={}s", EMPTY.as_secs());
    kubectl::run(&["delete", "valkeys,sentinels", "--all", "--namespace", namespace, &timeout])?;
    kubectl::run(&["delete", "namespace", namespace, "--wait=false", "--ignore-not-found"]).map(|_| ())
}

/// Prints what a person would look at.
fn explain(namespace: &str) {
    let looks: [&[&str]; 4] = [
        &["get", "valkeys,clusters.valkey.buf.red,failovers,sentinels", "--namespace", namespace, "--output=yaml"],
        &["get", "pods,statefulsets,persistentvolumeclaims", "--namespace", namespace, "--output=wide", "--show-labels"],
        &["get", "events", "--namespace", namespace, "--sort-by=.metadata.creationTimestamp"],
        &["logs", "--namespace", operator::NAME, "--selector", operator::SELECTOR, "--prefix", "--tail=60"],
    ];
    for args in looks {
        eprintln!("--- kubectl {}", args.join(" "));
        match kubectl::run(args) {
            Ok(text) => eprintln!("{text}"),
            Err(error) => eprintln!("{error:#}"),
        }
    }
}
