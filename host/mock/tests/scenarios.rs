//! The scenarios of tests/scenarios: those marked `quick` in each run, all of them in full runs (`VKO_TIER=full`), one by name
//! (`VKO_SCENARIO=NAME`). Those that cut servers off from each other, or fill disks, run in network and mount namespaces of their
//! own, which takes root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use support::twin::{self, Compared};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use vko_mock::Images;
use vko_mock::scenario::run;
use vko_script::Scenario;

/// Side by side: servers mostly wait for time to pass.
const AT_ONCE: usize = 3;

/// Set where this program runs in namespaces of its own.
const ALONE: &str = "VKO_ALONE";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios")
}

/// Those that this run is for, of those that need namespaces or of the others.
fn chosen(in_namespaces: bool) -> Vec<Scenario> {
    let mut all = Scenario::all(&folder()).unwrap_or_else(|error| panic!("{error}"));
    let named = std::env::var("VKO_SCENARIO");
    if let Ok(name) = &named {
        all.retain(|scenario| scenario.name == *name);
        assert!(!all.is_empty(), "there is no tests/scenarios/{name}");
    }
    all.retain(|scenario| scenario.needs_namespaces() == in_namespaces);
    let full = named.is_ok() || support::is_full_run();
    let (chosen, left): (Vec<Scenario>, Vec<Scenario>) = all.into_iter().partition(|scenario| full || scenario.expect.quick);
    left.iter().for_each(|scenario| println!("skipped: {} runs in full runs", scenario.name));
    chosen
}

/// Rows of docs/faults.md: class, and what shows it.
fn classes() -> BTreeMap<u32, Vec<String>> {
    let page = std::fs::read_to_string(folder().join("../../docs/faults.md")).unwrap();
    let cells = |line: &str| -> Option<(u32, Vec<String>)> {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let shown = cells.get(2)?.split(", ").map(|item| item.trim_matches('`').to_owned());
        Some((cells.first()?.parse().ok()?, shown.collect()))
    };
    page.lines().filter_map(cells).collect()
}

#[test]
fn every_class_of_faults_has_what_shows_it_or_says_why_not() {
    let (classes, scenarios) = (classes(), Scenario::all(&folder()).unwrap());
    assert_eq!(classes.keys().copied().collect::<Vec<_>>(), (1..=121).step_by(2).collect::<Vec<_>>());
    let mut later = Vec::new();
    for (class, shown) in &classes {
        for item in shown.iter().take_while(|item| !item.starts_with("later: ")) {
            let Some((file, name)) = item.split_once("::") else {
                assert!(scenarios.iter().any(|scenario| scenario.name == *item), "{class}: no scenario {item}");
                continue;
            };
            let text = std::fs::read_to_string(folder().join("../..").join(file)).unwrap_or_default();
            assert!(text.contains(&format!("fn {name}(")), "{class}: {file} has no test {name}");
        }
        later.extend(shown[0].strip_prefix("later: ").map(|why| format!("{class}: {why}")));
    }
    for scenario in scenarios {
        let listed = |class: &&u32| classes.get(class).is_some_and(|shown| shown.contains(&scenario.name));
        let by_page: Vec<u32> = classes.keys().filter(listed).copied().collect();
        assert_eq!(scenario.expect.classes, by_page, "{}: its classes and docs/faults.md differ", scenario.name);
        assert!(!scenario.expect.about.is_empty(), "{} says not what it is about", scenario.name);
    }
    println!("figure: classes of faults that wait = {}\n{}", later.len(), later.join("\n"));
}

/// One test for both kinds: whatever filters tests by their names, a scenario that was asked for by its own runs or fails.
#[tokio::test(flavor = "multi_thread")]
async fn scenarios_end_as_expected_and_no_oracle_objects() {
    if std::env::var_os(ALONE).is_some() {
        return all_well(&run_all(chosen(true)).await);
    }
    let (mut failures, in_namespaces) = tokio::join!(run_all(chosen(false)), in_namespaces(chosen(true)));
    failures.extend(in_namespaces);
    all_well(&failures);
}

fn all_well(failures: &[String]) {
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Those that need namespaces: in these this program runs once more, and chooses them again.
async fn in_namespaces(chosen: Vec<Scenario>) -> Option<String> {
    if chosen.is_empty() {
        return None;
    }
    let (program, starter) = (std::env::current_exe().unwrap(), std::process::id().to_string());
    // It ends with this process, however that ends.
    let mut alone = Command::new(vko_mock::images::agent_beside());
    alone.args(["tied", &starter, "/usr/bin/unshare", "--net", "--mount", "/bin/sh", "-c"]);
    alone.args(["ip link set lo up && exec \"$0\" --exact scenarios_end_as_expected_and_no_oracle_objects --nocapture"]);
    alone.arg(program).env(ALONE, "1");
    let ended = tokio::task::spawn_blocking(move || alone.output()).await.unwrap().unwrap();
    let [said, wrong] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    // Its sums would be taken for ours.
    said.lines().filter(|line| !line.starts_with("test ") && !line.starts_with("running ")).for_each(|line| println!("{line}"));
    (!ended.status.success()).then(|| format!("it takes root, and unshare, ip and nft of Debian:\n{wrong}"))
}

/// What went wrong.
async fn run_all(scenarios: Vec<Scenario>) -> Vec<String> {
    let compared = Arc::new(Compared::default());
    let (images, policies, places) =
        (Images::of_environment().unwrap(), twin::policies(&compared), Arc::new(Semaphore::new(AT_ONCE)));
    let mut running = JoinSet::new();
    for scenario in scenarios {
        let (images, policies, places) = (images.clone(), policies.clone(), places.clone());
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            let result = run::run(&scenario, &images, &policies).await;
            (scenario.name.clone(), result)
        });
    }
    let mut failures = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (name, result) = ended.unwrap();
        match result {
            Ok(report) => println!(
                "scenario {name}: {:.1} s, {} writes kept, asked for {:?}",
                report.took.as_secs_f64(),
                report.acks,
                report.requests
            ),
            Err(failure) => {
                println!("scenario {name}: FAILED");
                failures.push(failure.to_string());
            }
        }
    }
    compared.report();
    failures
}
