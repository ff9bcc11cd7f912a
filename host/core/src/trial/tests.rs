//! Policies on trial, each as wrong as its case says.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use vko_wit::common::Architecture;
use vko_wit::observation::Observed;
use vko_wit::planning::{Operation, Plan, PolicyError, Severity, Violation, Writer};

use super::conformance::{Need, Scene, judge};
use super::record::{Answer, JournalError, Record, Recorded};
use super::replay::{Different, Replayed, replay};
use super::{plan_in_words, time};
use crate::guard::testing::{Scene as Observation, follow, mk_plan, promote, step, track};
use crate::journal::{Event, Journal};
use crate::policy::{GuestError, Policy, PolicyInfo};

type Word = Result<Result<Plan, PolicyError>, GuestError>;

type Decide = fn(&Observed, u32) -> Word;
/// Its name, the policy, the scene, the rules that are broken.
type Case<'a> = (&'a str, Decide, &'a (Observed, Need), &'a [&'a str]);

/// Answers by a function of the observation and of how often it was asked.
struct Odd {
    info: PolicyInfo,
    asked: AtomicU32,
    decide: Decide,
    refuses: bool,
}

impl Policy for Odd {
    fn info(&self) -> &PolicyInfo {
        &self.info
    }
    fn decide(&self, observed: &Observed) -> Word {
        (self.decide)(observed, self.asked.fetch_add(1, Ordering::Relaxed))
    }
    fn validate(&self, _spec: &str, _previous: &str) -> Result<Vec<Violation>, GuestError> {
        let violation = |severity| Violation { severity, field: "spec.version".into(), message: "too new".into() };
        Ok(vec![violation(if self.refuses { Severity::Error } else { Severity::Warning })])
    }
}

fn odd(decide: Decide) -> Odd {
    let info = PolicyInfo {
        name: "odd".into(),
        architecture: Architecture::Replica,
        version: "1.0.0".into(),
        digest: "d1".into(),
        server_lines: Vec::new(),
    };
    Odd { info, asked: AtomicU32::new(0), decide, refuses: false }
}

fn planned(operations: Vec<Operation>) -> Word {
    Ok(Ok(mk_plan(operations.into_iter().map(|operation| track("t", vec![step(operation)])).collect())))
}

fn dead_primary() -> Observed {
    let mut scene = Observation::healthy(3);
    scene.kill(0);
    scene.0
}

#[test]
fn what_is_broken_is_named() {
    let (rest, act) = ((Observation::healthy(3).0, Need::Rest), (dead_primary(), Need::Act));
    let table: [Case<'_>; 10] = [
        ("it rests where all is well", |_, _| planned(vec![]), &rest, &[]),
        ("it promotes where the primary is dead", |_, _| planned(vec![promote(1)]), &act, &[]),
        ("it does nothing there", |_, _| planned(vec![]), &act, &["StandsStill"]),
        ("it says that it lacks facts there", |_, _| Ok(Err(PolicyError::Insufficient("x".into()))), &act, &["StandsStill"]),
        ("it moves what is well", |_, _| planned(vec![follow(1, 0)]), &rest, &["NoRest"]),
        ("a second primary", |_, _| planned(vec![promote(1)]), &rest, &["PromotionWithoutEvidence"]),
        ("it says that it failed", |_, _| Ok(Err(PolicyError::Internal("x".into()))), &act, &["PolicyInternalError"]),
        ("it panics", |_, _| Err(GuestError::PolicyTrapped("x".into())), &act, &["PolicyTrapped"]),
        ("it takes too long", |_, _| Err(GuestError::PolicyDeadline(1_000)), &act, &["PolicyDeadline"]),
        (
            "asked twice it says two things",
            |_, asked| planned(if asked == 0 { vec![promote(1)] } else { vec![promote(2)] }),
            &act,
            &["NotPure"],
        ),
    ];
    for (case, decide, (observed, need), expected) in table {
        let scene = Scene { name: case.into(), observed: observed.clone(), need: *need };
        let judged = judge(&odd(decide), &scene, &|| Duration::ZERO);
        assert_eq!(judged.broken.iter().map(|b| b.rule.as_str()).collect::<Vec<_>>(), expected, "{case}: {judged:?}");
        assert!(judged.broken.iter().all(|b| !b.why.is_empty() && !b.remedy.is_empty()), "{case}");
        assert!(!judged.plan.is_empty(), "{case}: what it planned is told");
    }
    let scene = Scene { name: "s".into(), observed: rest.0, need: Need::Rest };
    let judged = judge(&Odd { refuses: true, ..odd(|_, _| planned(vec![])) }, &scene, &|| Duration::ZERO);
    assert_eq!(judged.broken[0].rule, "SpecRefused", "{judged:?}");
    assert!(judged.broken[0].why.contains("spec.version: too new"));
}

/// A journal of one decision, as the operator shows it.
fn journal(observed: &Observed, answer: &Word) -> String {
    let journal = Journal::default();
    let step = Event::Step { subject: "t".into(), operation: "follow".into(), reason: "r".into(), outcome: "done".into() };
    journal.note(1, step);
    let plan = answer.as_ref().ok().and_then(|answer| answer.as_ref().ok());
    let event = Event::Decision {
        policy: "odd 0.9.0".into(),
        digest: "d0".into(),
        interface: vko_wit::INTERFACE,
        observed: serde_json::to_value(observed).unwrap(),
        plan: serde_json::to_value(plan).unwrap(),
        hold: plan.is_none().then(|| "the policy lacks facts: x".into()),
        refused: Vec::new(),
    };
    journal.note(1_800_000_000_000, event);
    journal.lines().join("\n") + "\n"
}

fn recorded(observed: &Observed, answer: &Word) -> Recorded {
    Record::read(&journal(observed, answer)).unwrap().decisions.remove(0)
}

#[test]
fn a_journal_is_read_as_it_was_written() {
    let (observed, answer) = (dead_primary(), planned(vec![promote(1)]));
    let record = Record::read(&journal(&observed, &answer)).unwrap();
    let plan = answer.unwrap().unwrap();
    let expected = Recorded {
        line: 2,
        at: 1_800_000_000_000,
        policy: "odd 0.9.0".into(),
        digest: "d0".into(),
        observed: Box::new(observed.clone()),
        answer: Answer::Plan(Box::new(plan)),
    };
    assert_eq!(record, Record { decisions: vec![expected], without: 0 });
    let held = recorded(&observed, &Ok(Err(PolicyError::Insufficient("x".into()))));
    assert_eq!(held.answer, Answer::Held("the policy lacks facts: x".into()));
    assert_eq!(time(held.at), "2027-01-15T08:00:00Z");
}

#[test]
fn what_is_no_journal_is_told_by_its_line() {
    let good = journal(&dead_primary(), &planned(vec![]));
    let last = good.trim_end().rsplit('\n').next().unwrap().to_owned();
    let broken = |from: &str, to: &str| good.replace(from, to);
    let without = {
        let mut entry: serde_json::Value = serde_json::from_str(&last).unwrap();
        entry["observed"] = serde_json::Value::Null;
        entry.to_string()
    };
    let not_an_entry = |error: &JournalError| matches!(error, JournalError::NotAnEntry { line: 2, .. });
    type Expected<'a> = &'a dyn Fn(&JournalError) -> bool;
    let table: [(&str, String, Expected<'_>); 12] = [
        ("nothing", String::new(), &|e| *e == JournalError::Empty),
        ("blank lines", "\n \n".into(), &|e| *e == JournalError::Empty),
        ("cut", good[..good.len() - 20].into(), &|e| *e == JournalError::Cut(2)),
        ("cut in a character's middle was a lossy read", format!("{}\u{fffd}", &good[..good.len() - 20]), &|e| {
            *e == JournalError::Cut(2)
        }),
        ("a log", "INFO the operator runs\n".into(), &|e| matches!(e, JournalError::NotJson { line: 1, .. })),
        ("an answer of the API server", r#"{"kind":"Status"}"#.into(), &|e| {
            matches!(e, JournalError::NotAnEntry { line: 1, .. })
        }),
        ("a number", "7\n".into(), &|e| matches!(e, JournalError::NotAnEntry { line: 1, .. })),
        (
            "newer",
            broken("valkey:policy@0.2.0", "valkey:policy@0.9.0"),
            &|e| matches!(e, JournalError::OtherInterface { line: 2, theirs, .. } if theirs == "valkey:policy@0.9.0"),
        ),
        ("older than the interface's name", broken(r#""interface""#, r#""other""#), &not_an_entry),
        ("an observation of another form", broken(r#""pods":["#, r#""pods":[7,"#), &not_an_entry),
        ("a plan of another form", broken(r#""look_again""#, r#""look_later""#), &not_an_entry),
        ("no observation is left", without, &|e| *e == JournalError::NothingToReplay(1)),
    ];
    for (case, text, expected) in table {
        let error = Record::read(&text).unwrap_err();
        assert!(expected(&error), "{case}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
    // What later versions add beside decisions is no obstacle.
    let newer = good.replace(r#""event":"step""#, r#""event":"omen""#);
    assert_eq!(Record::read(&newer).unwrap().decisions.len(), 1);
}

#[test]
fn any_bytes_are_an_error_and_no_panic() {
    let good = journal(&dead_primary(), &planned(vec![promote(1)]));
    let last = good.trim_end().rsplit('\n').next().unwrap();
    for cut in (0..last.len()).filter(|cut| last.is_char_boundary(*cut)) {
        assert!(Record::read(&last[..cut]).is_err(), "cut at {cut}");
        let torn = format!("{}{}", &last[..cut], &last[last.ceil_char_boundary(cut + 1)..]);
        let _ = Record::read(&torn);
    }
}

fn different(decide: Decide, answer: &Word) -> Different {
    match replay(&odd(decide), &recorded(&dead_primary(), answer)) {
        Replayed::Different(different) => *different,
        Replayed::Same => panic!("the answers differ"),
    }
}

#[test]
fn the_same_module_decides_alike_and_another_is_told_apart() {
    let one = planned(vec![promote(1)]);
    let same = replay(&odd(|_, _| planned(vec![promote(1)])), &recorded(&dead_primary(), &one));
    assert_eq!(same, Replayed::Same);
    let held = Ok(Err(PolicyError::Insufficient("y".into())));
    let again = replay(&odd(|_, _| Ok(Err(PolicyError::Insufficient("z".into())))), &recorded(&dead_primary(), &held));
    assert_eq!(again, Replayed::Same, "both hold");

    let other = different(|_, _| planned(vec![promote(2)]), &one);
    let first = other.first.unwrap();
    assert_eq!((first.parts.as_slice(), first.path.as_str()), (["steps"].as_slice(), "tracks[0].steps[0].operation.Promote"));
    assert_eq!((first.before.as_str(), first.after.as_str()), ("rfr-x-1", "rfr-x-2"), "pods by their names");
    assert!(other.after.iter().any(|line| line.contains("promote rfr-x-2")), "{:?}", other.after);

    let relabelled = |_: &Observed, _| {
        planned(vec![promote(1)]).map(|plan| {
            plan.map(|mut plan| {
                plan.routing.writer = Writer::Pod("uid-1".into());
                plan.status.details = r#"{"a":{"b":1}}"#.into();
                plan
            })
        })
    };
    let first = different(relabelled, &one).first.unwrap();
    assert_eq!((first.parts.as_slice(), first.path.as_str()), (["who is routed to", "status"].as_slice(), "routing.writer"));
    let waits = different(|_, _| planned(vec![]), &one).first.unwrap();
    assert_eq!((waits.path.as_str(), waits.after.as_str()), ("tracks[0]", "-"));
}

#[test]
fn what_ends_without_a_plan_or_against_the_guard_is_told() {
    let one = planned(vec![promote(1)]);
    let table: [(&str, Decide, &str); 3] = [
        ("a trap", |_, _| Err(GuestError::PolicyTrapped("index out of bounds".into())), "index out of bounds"),
        ("its own failure", |_, _| Ok(Err(PolicyError::Internal("oh".into()))), "says that it failed: oh"),
        ("a lack of facts", |_, _| Ok(Err(PolicyError::Insufficient("spec".into()))), "lacks facts: spec"),
    ];
    for (case, decide, expected) in table {
        let different = different(decide, &one);
        assert!(different.first.is_none() && different.after[0].contains(expected), "{case}: {:?}", different.after);
    }
    let refused = different(|_, _| planned(vec![follow(0, 1), promote(1)]), &planned(vec![])).refused;
    assert!(refused.iter().any(|why| why.contains("the guard refuses")), "{refused:?}");
    let back = different(|_, _| planned(vec![promote(1)]), &Ok(Err(PolicyError::Insufficient("x".into()))));
    assert_eq!(back.before, ["no plan: the policy lacks facts: x"]);
}

#[test]
fn plans_are_told_with_names() {
    let observed = dead_primary();
    let mut plan = planned(vec![promote(1), follow(2, 1)]).unwrap().unwrap();
    plan.tracks[0].steps[0].consent = "promote-data-loss:x:1".into();
    plan.routing.readers = vec!["uid-2".into(), "uid-9".into()];
    let words = plan_in_words(&plan, &observed).join("\n");
    for expected in ["promote rfr-x-1 by consent", "follow rfr-x-2 rfr-x-1", "writer none, readers rfr-x-2 uid-9"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}
