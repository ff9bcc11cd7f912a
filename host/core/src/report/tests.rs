//! Conditions and phases, out of what is known at one look.

use serde_json::{Value, json};
use vko_api::conditions::ConditionType;
use vko_wit::common::Architecture;
use vko_wit::planning::{Blocked, Condition, Phase, Truth};

use super::{HostFacts, refused_status, sentinel_status, topology_status, valkey_status};
use crate::governor::Decision;
use crate::guard::testing::mk_plan;
use crate::guard::{Guarded, Refusal};
use crate::object::Object;
use crate::observe::CutOff;
use crate::policy::PolicyInfo;

const NOW: u64 = 1_800_000_000_000;

/// A decision of a policy that says: ready.
fn ready() -> Decision {
    let mut plan = mk_plan(Vec::new());
    plan.status.phase = Phase::Ready;
    plan.status.details = r#"{"nodes":[{"name":"rfr-x-0"}]}"#.into();
    let condition =
        |kind: &str, state| Condition { kind: kind.into(), state, reason: "AsDeclared".into(), message: String::new() };
    plan.status.conditions =
        vec![condition("Ready", Truth::Yes), condition("Progressing", Truth::No), condition("FromTheFuture", Truth::Yes)];
    Decision {
        plan: Some(plan),
        guarded: Guarded::default(),
        policy: policy(),
        hold: None,
        given_up: Vec::new(),
        missing: None,
        swapped: None,
        ask_again: false,
    }
}

fn policy() -> PolicyInfo {
    let (name, version, digest) = ("replica".into(), "1.0.0".into(), "native".into());
    PolicyInfo { name, architecture: Architecture::Replica, version, digest, server_lines: Vec::new() }
}

fn held(why: &str) -> Decision {
    Decision { plan: None, hold: Some(why.into()), ..ready() }
}

fn status(before: &Value, decision: &Decision, host: &HostFacts, cut_off: &CutOff) -> Value {
    topology_status(before, decision, host, cut_off, 3, NOW)
}

/// `True AsDeclared`, or `-`.
fn condition(status: &Value, kind: &str) -> String {
    let all = status["conditions"].as_array().unwrap();
    let found = all.iter().find(|c| c["type"] == kind);
    found.map_or_else(|| "-".into(), |c| format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap()))
}

fn problem() -> HostFacts {
    HostFacts { policy_problem: None, problem: Some(("ObjectNotApplied".into(), "Service shop/s: quota".into())) }
}

fn silent() -> CutOff {
    CutOff::Yes(vec!["rfr-x-0".into(), "rfr-x-1".into()])
}

#[test]
fn ready_is_what_is_known_at_this_look() {
    let table: Vec<(&str, Decision, HostFacts, CutOff, &str, &str)> = vec![
        ("as declared", ready(), HostFacts::default(), CutOff::No, "True AsDeclared", "Ready"),
        ("cut off", ready(), HostFacts::default(), silent(), "Unknown OperatorCutOff", "Ready"),
        ("no plan", held("why"), HostFacts::default(), CutOff::No, "Unknown NoPlan", "Creating"),
        ("no plan and cut off", held("why"), HostFacts::default(), silent(), "Unknown OperatorCutOff", "Creating"),
        ("an object that can't be applied", ready(), problem(), CutOff::No, "False ObjectNotApplied", "Ready"),
        ("that, and cut off", ready(), problem(), silent(), "Unknown OperatorCutOff", "Ready"),
    ];
    for (case, decision, host, cut_off, expected, phase) in table {
        let status = status(&json!({}), &decision, &host, &cut_off);
        assert_eq!((condition(&status, "Ready").as_str(), status["phase"].as_str().unwrap()), (expected, phase), "{case}");
        assert_eq!(condition(&status, "FromTheFuture"), "-", "{case}: of a type that this host doesn't know");
    }
}

#[test]
fn without_a_plan_what_was_shown_stays() {
    let before = status(&json!({}), &ready(), &HostFacts::default(), &CutOff::No);
    let after = status(&before, &held("the policy lacks facts"), &HostFacts::default(), &CutOff::No);
    assert_eq!(after["phase"], "Ready");
    assert_eq!(after["nodes"], before["nodes"]);
    assert_eq!(after["message"], "the policy lacks facts");
}

/// What the policy says and what the host says of the same condition must not both be shown, one after the other: each look would
/// write.
#[test]
fn equal_facts_give_an_equal_status() {
    let blocked = || Blocked { subject: "s".into(), reason: "r".into(), remedy: "m".into(), token: String::new() };
    let stalled = || Condition { kind: "Stalled".into(), state: Truth::Yes, reason: "NodeLost".into(), message: String::new() };
    let (mut waiting, mut refused) = (ready(), ready());
    let plan = waiting.plan.as_mut().unwrap();
    plan.blocked.push(blocked());
    plan.status.conditions.push(stalled());
    let (subject, why) = ("t".into(), "it is the primary".into());
    refused.guarded.refusals.push(Refusal { rule: 1, name: "OnlyCopy", subject, operation: "evict", why });
    let refused_change = Some(("ChangeRefused", "storage can't shrink"));
    let table = [
        ("quiet", ready(), HostFacts::default(), CutOff::No, None),
        ("a problem of the host's", ready(), problem(), CutOff::No, None),
        ("cut off", ready(), HostFacts::default(), silent(), None),
        ("no plan", held("why"), HostFacts::default(), CutOff::No, None),
        ("a policy that says what waits in its own words", waiting, HostFacts::default(), CutOff::No, None),
        ("a refusal", refused, HostFacts::default(), CutOff::No, None),
        ("a refused change of the spec", ready(), HostFacts::default(), CutOff::No, refused_change),
    ];
    for (case, decision, host, cut_off, refused) in table {
        let look = |before: &Value, now| topology_status(before, &decision, &host, &cut_off, 3, now);
        let before = look(&json!({}), NOW);
        assert_eq!(look(&before, NOW + 60_000), before, "{case}");
        let shown = valkey_status(&json!({}), Some(&topology(before.clone(), 3)), 7, refused, NOW);
        let again = valkey_status(&shown, Some(&topology(before, 3)), 7, refused, NOW + 60_000);
        assert_eq!(again, shown, "{case}: the Valkey");
    }
}

#[test]
fn ready_is_not_remembered_when_a_policy_says_nothing_of_it() {
    let before = status(&json!({}), &ready(), &HostFacts::default(), &CutOff::No);
    assert_eq!(condition(&before, "Ready"), "True AsDeclared");
    let mut decision = ready();
    decision.plan.as_mut().unwrap().status.conditions.clear();
    let after = status(&before, &decision, &HostFacts::default(), &CutOff::No);
    assert_eq!(condition(&after, "Ready"), "Unknown PolicySilent");
}

#[test]
fn what_waits_for_a_person() {
    let blocked = |token: &str| Blocked {
        subject: "primary".into(),
        reason: "gone".into(),
        remedy: "bring it back".into(),
        token: token.into(),
    };
    let table: Vec<(&str, Vec<Blocked>, &str, &str)> = vec![
        ("nothing", Vec::new(), "False AsDeclared", ""),
        ("an event", vec![blocked("")], "False Waiting", "primary: gone; bring it back"),
        (
            "a consent",
            vec![blocked(""), blocked("promote-data-loss:rfr-x-1:1")],
            "True ConsentNeeded",
            "valkey.buf.red/consent=promote-data-loss:rfr-x-1:1",
        ),
    ];
    for (case, blocked, expected, message) in table {
        let mut decision = ready();
        decision.plan.as_mut().unwrap().blocked = blocked;
        let status = status(&json!({}), &decision, &HostFacts::default(), &CutOff::No);
        assert_eq!(condition(&status, "Stalled"), expected, "{case}");
        assert!(status["message"].as_str().unwrap_or_default().contains(message), "{case}: {}", status["message"]);
    }
}

#[test]
fn what_the_policy_says_of_waiting_stands() {
    let said =
        |truth| Condition { kind: "Stalled".into(), state: truth, reason: "RollWaits".into(), message: "it crashes".into() };
    let table =
        [(Truth::Yes, "", "True RollWaits"), (Truth::No, "", "False RollWaits"), (Truth::Yes, "t:1", "True ConsentNeeded")];
    for (truth, token, expected) in table {
        let mut decision = ready();
        let plan = decision.plan.as_mut().unwrap();
        plan.status.conditions.push(said(truth));
        let (subject, reason, remedy) = ("rfr-x".into(), "it crashes".into(), "take the change back".into());
        plan.blocked = vec![Blocked { subject, reason, remedy, token: token.into() }];
        let status = status(&json!({}), &decision, &HostFacts::default(), &CutOff::No);
        assert_eq!(condition(&status, "Stalled"), expected);
    }
}

#[test]
fn a_refusal_and_a_policy_that_does_not_govern_are_shown() {
    let mut decision = ready();
    let (subject, why) = ("t".into(), "it is the primary".into());
    decision.guarded.refusals.push(Refusal { rule: 1, name: "OnlyCopy", subject, operation: "evict", why });
    let host = HostFacts { policy_problem: Some(("PolicyTrapped".into(), "x".into())), problem: None };
    let status = status(&json!({}), &decision, &host, &CutOff::No);
    assert_eq!(condition(&status, "Progressing"), "False OnlyCopy");
    assert_eq!(condition(&status, "Reconciling"), "False OnlyCopy");
    assert_eq!(condition(&status, "PolicyActive"), "False PolicyTrapped");
    assert_eq!(status["policy"]["version"], "1.0.0");
}

#[test]
fn a_reason_that_the_api_server_would_refuse_is_replaced() {
    for rubbish in ["", "no camel", "Ünicode", "lower", "With Space"] {
        let mut decision = ready();
        decision.plan.as_mut().unwrap().status.conditions[0].reason = rubbish.into();
        let status = status(&json!({}), &decision, &HostFacts::default(), &CutOff::No);
        assert_eq!(condition(&status, "Ready"), "True PolicySays", "'{rubbish}'");
    }
}

#[test]
fn details_that_are_no_object_are_not_taken() {
    let before = json!({"nodes": [{"name": "old"}]});
    for details in ["", "rubbish", "[]", "null", "7"] {
        let mut decision = ready();
        decision.plan.as_mut().unwrap().status.details = details.into();
        let status = status(&before, &decision, &HostFacts::default(), &CutOff::No);
        assert_eq!(status["nodes"], before["nodes"], "'{details}'");
    }
}

/// A topology object with that status, whose spec is of that generation.
fn topology(status: Value, generation: u64) -> Object {
    Object::new(json!({"metadata": {"name": "x", "generation": generation}, "status": status}))
}

#[test]
fn the_valkey_shows_what_its_topology_object_shows() {
    let below = status(&json!({}), &ready(), &HostFacts::default(), &CutOff::No);
    let mut stalled = below.clone();
    stalled["phase"] = json!("Failed");
    let refused = Some(("ChangeRefused", "storage can't shrink"));
    let table = [
        ("in force", Some(topology(below.clone(), 3)), None, "True AsDeclared", "True SpecAccepted", "Ready"),
        (
            "a newer spec isn't in force yet",
            Some(topology(below.clone(), 4)),
            None,
            "False AsDeclared",
            "True SpecAccepted",
            "Initializing",
        ),
        (
            "the newest spec is refused",
            Some(topology(below.clone(), 3)),
            refused,
            "True AsDeclared",
            "False ChangeRefused",
            "Ready",
        ),
        ("the first spec is refused", None, refused, "False ChangeRefused", "False ChangeRefused", "Failed"),
        ("just created", None, None, "-", "True SpecAccepted", "Initializing"),
        ("it waits for a person", Some(topology(stalled, 3)), None, "True AsDeclared", "True SpecAccepted", "Failed"),
    ];
    for (case, topology, refused, ready, accepted, phase) in table {
        let status = valkey_status(&json!({}), topology.as_ref(), 7, refused, NOW);
        assert_eq!((condition(&status, "Ready").as_str(), condition(&status, "Accepted").as_str()), (ready, accepted), "{case}");
        assert_eq!((status["phase"].as_str().unwrap(), status["observedGeneration"].as_u64().unwrap()), (phase, 7), "{case}");
        if let Some((reason, message)) = refused {
            assert_eq!(
                (condition(&status, "Stalled"), status["message"].as_str().unwrap()),
                (format!("True {reason}"), message),
                "{case}"
            );
        }
    }
}

#[test]
fn every_condition_type_of_a_policy_is_shown() {
    let mut decision = ready();
    let own = ["Accepted", "Stalled", "Reconciling", "PolicyActive"];
    let kinds = ConditionType::ALL.iter().map(|kind| kind.as_str()).filter(|kind| !own.contains(kind));
    decision.plan.as_mut().unwrap().status.conditions = kinds
        .map(|kind| Condition { kind: kind.into(), state: Truth::Unknown, reason: "Because".into(), message: String::new() })
        .collect();
    let status = status(&json!({}), &decision, &HostFacts::default(), &CutOff::No);
    for kind in ConditionType::ALL.iter().filter(|kind| !own.contains(&kind.as_str())) {
        assert_eq!(condition(&status, kind.as_str()), "Unknown Because");
    }
}

#[test]
fn the_sentinel_beside_a_failover_shows_its_sentinels() {
    let report = json!({
        "phase": "Ready",
        "observedGeneration": 7,
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 7}],
        "nodes": [{"role": "master", "podName": "rfr-x-0"}, {"role": "Sentinel", "podName": "rfs-x-0"}],
        "monitor": {"policy": "sentinel"},
    });
    let status = sentinel_status(&report, 2);
    assert_eq!((&status["phase"], &status["observedGeneration"]), (&json!("Ready"), &json!(2)));
    assert_eq!(status["nodes"], json!([{"role": "Sentinel", "podName": "rfs-x-0"}]));
    assert_eq!(status["conditions"][0]["observedGeneration"], 2);
    assert_eq!(status.get("monitor"), None, "what is about the data set is shown there");
}

#[test]
fn what_is_not_served_says_why_and_keeps_the_rest() {
    let object = crate::object::Object::new(json!({"metadata": {"generation": 3}, "status": {"ledger": {"formed": false}}}));
    let status = refused_status(&object, "NameTaken", "choose another name", NOW);
    let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap().clone();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("NameTaken")));
    assert_eq!((&status["phase"], &status["ledger"]), (&json!("Failed"), &json!({"formed": false})));
    let again = crate::object::Object::new(json!({"metadata": {"generation": 3}, "status": status}));
    assert_eq!(refused_status(&again, "NameTaken", "choose another name", NOW + 60_000), status, "said once, written once");
}
