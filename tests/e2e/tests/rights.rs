//! The operator asks for nothing that it may not do. (What it may do and never asked for is printed: the chart's list is held
//! against it.)
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use serde_json::Value;
use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::observe::{Requests, mark, requests};
use vko_e2e::{Result, bed, figure, kubectl, operator, skipped, space};

/// Before any test bed.
const EVER: &str = "2000-01-01";

#[test]
fn nothing_that_the_operator_asks_for_is_denied() -> Result {
    if !bed::is_here() {
        return skipped("needs the audit log");
    }
    let _operator = operator::shared()?;
    // A life from creation to deletion; what other tests did before counts as well.
    space::with("rights", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted { members: 3, claims: true, ..Wanted::default() })?;
        let primary = instance.primary()?;
        kubectl::run(&["delete", "pod", &primary.name, "--namespace", namespace, "--wait=false"])?;
        instance.wait_primary_other_than(&primary)?;
        instance.wait_settled(3)?;
        instance.scale(2)?;
        instance.wait_settled(2)
    })?;
    let made = requests(EVER, operator::USER)?;
    assert!(made.iter().any(|row| row.verb == "patch"), "the audit log holds nothing of the operator: {made:?}");
    assert_eq!(denied(&made), Vec::<&Requests>::new());
    let used: BTreeSet<(String, String)> = made.into_iter().map(|row| (row.resource, row.verb)).collect();
    for right in granted()?.difference(&used) {
        figure("rights: granted and not used so far", format!("{} {}", right.1, right.0));
    }
    Ok(())
}

/// The log tells what was denied from what was done, and from what else has a 403's code.
#[test]
fn a_denied_request_shows_as_one() -> Result {
    if !bed::is_here() {
        return skipped("needs the audit log");
    }
    let nobody = format!("nobody-{}", std::process::id());
    let since = mark()?;
    let refused = kubectl::run(&["get", "secrets", "--namespace", "default", "--as", &nobody]).expect_err("nobody reads secrets");
    assert!(format!("{refused:#}").contains("Forbidden"), "{refused:#}");
    kubectl::run(&["version", "--as", &nobody, "--as-group", "system:authenticated"])?;
    let made = requests(&since, &nobody)?;
    let of_secrets: Vec<_> = denied(&made).into_iter().map(|row| (row.verb.as_str(), row.resource.as_str())).collect();
    assert_eq!(of_secrets, [("list", "secrets")], "{made:?}");
    Ok(())
}

/// Those for which a right was missing.
fn denied(made: &[Requests]) -> Vec<&Requests> {
    made.iter().filter(|row| row.denied).collect()
}

/// Resources and verbs that the chart grants.
fn granted() -> Result<BTreeSet<(String, String)>> {
    let mut granted = BTreeSet::new();
    for (namespace, target) in [("default", "clusterrole/valkey-operator"), (operator::NAME, "role/valkey-operator-own")] {
        let role = kubectl::must_get(namespace, target)?;
        for rule in role["rules"].as_array().expect("a role has rules") {
            for (resource, verb) in texts(&rule["resources"]).flat_map(|r| texts(&rule["verbs"]).map(move |verb| (r, verb))) {
                granted.insert((resource.to_owned(), verb.to_owned()));
            }
        }
    }
    Ok(granted)
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
