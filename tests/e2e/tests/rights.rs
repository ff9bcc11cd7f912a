//! The operator asks for nothing that it may not do, and may do nothing that it never asks for: both by the audit log, against
//! the roles that the chart made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vko_e2e::instance::{Arch, Instance, Wanted};
use vko_e2e::observe::{Requests, mark, requests};
use vko_e2e::{Result, bed, kubectl, operator, skipped, space};

/// Before any test bed.
const EVER: &str = "2000-01-01";

/// A verb and a resource, as in a role.
type Right = (String, String);

/// Rights that a life without faults doesn't take, and the life that does. What is not listed has to be seen here.
const OF_OTHER_LIVES: [(&str, &str, &str); 3] = [
    ("patch", "events", "what happens again within minutes is counted up in its event"),
    ("get", "persistentvolumes", "a node is gone: is it the one that held the volume?"),
    ("delete", "pods", "a pod on a node that is gone, or one that can't start"),
];

#[test]
fn what_the_operator_may_do_is_what_it_does() -> Result {
    if !bed::is_here() {
        return skipped("needs the audit log");
    }
    let _operator = operator::shared()?;
    // Lives from creation to deletion; what other tests did before counts as well.
    let all = [("r", Wanted::default()), ("f", Wanted::failover(3, 3)), ("c", Wanted::cluster(3, 2))];
    let all = all.map(|(name, wanted)| {
        let wanted = Wanted { claims: true, finalizers: json!(["delete-pvc"]), ..wanted };
        (format!("rights-{name}"), wanted)
    });
    space::side_by_side(2, all.into(), |namespace, wanted| space::with(namespace, |namespace| live(namespace, wanted)))?;
    let made = requests(EVER, operator::USER)?;
    assert!(made.iter().any(|row| row.verb == "patch"), "the audit log holds nothing of the operator: {made:?}");
    assert_eq!(denied(&made), Vec::<&Requests>::new());
    let (granted, seen) = (granted()?, used(&made));
    let elsewhere: BTreeSet<Right> = OF_OTHER_LIVES.iter().map(|(verb, resource, _)| right(verb, resource)).collect();
    assert_eq!(elsewhere.difference(&granted).collect::<Vec<_>>(), Vec::<&Right>::new(), "listed here, but not granted");
    let unused: Vec<&Right> = granted.difference(&seen).filter(|right| !elsewhere.contains(right)).collect();
    assert_eq!(unused, Vec::<&Right>::new(), "granted, and not used by any life: does the chart grant too much?");
    Ok(())
}

/// A primary is replaced; a replica architecture shrinks, and is restarted; then all of it goes.
fn live(namespace: &str, wanted: &Wanted) -> Result {
    let instance = Instance::create(namespace, "x", wanted)?;
    let primary = instance.primary()?;
    kubectl::run(&["delete", "pod", &primary.name, "--namespace", namespace, "--wait=false"])?;
    instance.wait_lives_over(std::slice::from_ref(&primary))?;
    instance.wait_settled(wanted.pods())?;
    if wanted.arch == Arch::Replica {
        instance.scale(2)?;
        instance.wait_settled(2)?;
        let before = instance.servers()?;
        let restart = json!({"spec": {"podAnnotations": {"kubectl.kubernetes.io/restartedAt": "2027-01-15T08:00:00Z"}}});
        kubectl::patch(namespace, &instance.target(), &restart)?;
        instance.wait_lives_over(&before)?;
        instance.wait_settled(2)?;
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

fn right(verb: &str, resource: &str) -> Right {
    (verb.to_owned(), resource.to_owned())
}

/// Rights that requests took. Server-side apply is a patch, which takes the right to create as well where it made something.
fn used(made: &[Requests]) -> BTreeSet<Right> {
    let created = made.iter().filter(|row| row.verb == "patch" && row.code == 201).map(|row| right("create", &row.resource));
    made.iter().map(|row| right(&row.verb, &row.resource)).chain(created).collect()
}

/// Rights that the chart grants.
fn granted() -> Result<BTreeSet<Right>> {
    let mut granted = BTreeSet::new();
    for (namespace, target) in [("default", "clusterrole/valkey-operator"), (operator::NAME, "role/valkey-operator-own")] {
        let role = kubectl::must_get(namespace, target)?;
        for rule in role["rules"].as_array().expect("a role has rules") {
            for (resource, verb) in texts(&rule["resources"]).flat_map(|r| texts(&rule["verbs"]).map(move |verb| (r, verb))) {
                granted.insert(right(verb, resource));
            }
        }
    }
    Ok(granted)
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
