//! Deletion: everything goes, nothing hangs, claims obey the spec.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;
use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::{Result, kubectl, operator, space};

/// Kinds of which nothing may be left.
const KINDS: &str = "failovers,statefulsets,pods,services,configmaps,secrets,poddisruptionbudgets";
/// Cases at a time.
const SIDE_BY_SIDE: usize = 3;

struct Case {
    name: &'static str,
    wanted: Wanted,
    cascade: &'static str,
    claims_left: usize,
}

fn cases() -> Vec<Case> {
    let claims = || Wanted { members: 2, claims: true, ..Wanted::default() };
    vec![
        Case { name: "pod-data", wanted: Wanted { members: 2, ..Wanted::default() }, cascade: "background", claims_left: 0 },
        Case { name: "claims-go", wanted: claims(), cascade: "background", claims_left: 0 },
        Case { name: "claims-stay", wanted: Wanted { retain: true, ..claims() }, cascade: "background", claims_left: 2 },
        Case {
            name: "finalizer",
            wanted: Wanted { finalizers: json!(["delete-pvc"]), ..claims() },
            cascade: "background",
            claims_left: 0,
        },
        Case {
            name: "finalizer-retain",
            wanted: Wanted { finalizers: json!(["delete-pvc"]), retain: true, ..claims() },
            cascade: "background",
            claims_left: 2,
        },
        Case { name: "foreground", wanted: claims(), cascade: "foreground", claims_left: 0 },
    ]
}

#[test]
fn everything_goes_and_claims_obey_the_spec() -> Result {
    let _operator = operator::shared()?;
    let cases = cases().into_iter().map(|case| (format!("deletion-{}", case.name), case)).collect();
    space::side_by_side(SIDE_BY_SIDE, cases, |namespace, case| {
        space::with(namespace, |namespace| {
            let instance = Instance::create(namespace, "x", &case.wanted)?;
            delete(&instance, case.cascade)?;
            nothing_is_left(&instance, case.claims_left)
        })
    })
}

#[test]
fn what_never_got_ready_goes_as_well() -> Result {
    let _operator = operator::shared()?;
    space::with("deletion-early", |namespace| {
        let instance = Instance::apply(namespace, "x", &Wanted { claims: true, ..Wanted::default() })?;
        kubectl::wait(namespace, "failover/x", "create", std::time::Duration::from_secs(30))?;
        delete(&instance, "background")?;
        nothing_is_left(&instance, 0)
    })
}

#[test]
fn what_was_deleted_while_the_operator_was_down_goes_when_it_is_back() -> Result {
    let _operator = operator::alone()?;
    space::with("deletion-down", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted { members: 2, claims: true, ..Wanted::default() })?;
        operator::stop()?;
        let deleted = kubectl::run(&["delete", &instance.target(), "--namespace", namespace, "--wait=false"]);
        operator::start()?;
        deleted?;
        delete(&instance, "background")?;
        nothing_is_left(&instance, 0)
    })
}

/// In a namespace that ends nothing new can be made, and the collector takes things in any order.
#[test]
fn an_instance_goes_with_its_namespace() -> Result {
    let _operator = operator::shared()?;
    space::with("deletion-namespace", |namespace| {
        let wanted = Wanted { members: 2, claims: true, finalizers: json!(["delete-pvc"]), ..Wanted::default() };
        Instance::create(namespace, "x", &wanted)?;
        kubectl::run(&["delete", "namespace", namespace, "--timeout=120s"]).map(|_| ())
    })
}

/// As people do it; kubectl waits until the object is gone.
fn delete(instance: &Instance, cascade: &str) -> Result {
    let cascade = format!("--cascade={cascade}");
    let args =
        ["delete", &instance.target(), "--namespace", &instance.namespace, "--ignore-not-found", "--timeout=90s", &cascade];
    kubectl::run(&args).map(|_| ())
}

fn nothing_is_left(instance: &Instance, claims_left: usize) -> Result {
    let labels = format!("buf.red/name={}", instance.name);
    // Garbage collection goes on after the owner went.
    for kind in KINDS.split(',') {
        let args = ["wait", kind, "--selector", &labels, "--for=delete", "--namespace", &instance.namespace, "--timeout=60s"];
        kubectl::run(&args)?;
        assert_eq!(kubectl::list(&instance.namespace, kind, &labels)?, Vec::<serde_json::Value>::new(), "{kind}");
    }
    let claims = kubectl::list(&instance.namespace, "persistentvolumeclaims", "")?;
    let staying = claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_null()).count();
    assert_eq!(staying, claims_left, "{claims:?}");
    Ok(())
}
