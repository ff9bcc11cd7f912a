//! Which policy governs, whatever the newest one does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use vko_wit::common::Architecture;
use vko_wit::observation::Observed;
use vko_wit::planning::{Operation, Plan, PolicyError, Track, Violation};

use super::{Decision, Governor, wanted};
use crate::guard::Circumstances;
use crate::guard::testing::{CALM, Scene, evict, mk_plan, promote, step, track, uid};
use crate::object::Object;
use crate::policy::{Admit, AdmitError, Expected, GuestError, Policy, PolicyInfo};
use crate::registry::Registry;

type Answer = Result<Result<Plan, PolicyError>, GuestError>;

/// A policy that answers what the test says.
struct Scripted {
    info: PolicyInfo,
    answer: Mutex<Answer>,
    asked: AtomicU32,
}

impl Policy for Scripted {
    fn info(&self) -> &PolicyInfo {
        &self.info
    }
    fn decide(&self, _: &Observed) -> Answer {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer.lock().unwrap().clone()
    }
    fn validate(&self, _: &str, _: &str) -> Result<Vec<Violation>, GuestError> {
        Ok(Vec::new())
    }
}

impl Scripted {
    fn new(version: &str, digest: &str, answer: Answer) -> Arc<Self> {
        let info = PolicyInfo {
            name: "replica".into(),
            architecture: Architecture::Replica,
            version: version.into(),
            digest: digest.into(),
            server_lines: Vec::new(),
        };
        Arc::new(Self { info, answer: Mutex::new(answer), asked: AtomicU32::new(0) })
    }
    fn says(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }
}

/// Takes the ConfigMap's name for a key into a list of policies.
struct Shelf(Vec<(&'static str, Arc<Scripted>)>);

impl Admit for Shelf {
    fn admit(&self, expected: &Expected, _: &[u8]) -> Result<Arc<dyn Policy>, AdmitError> {
        let found = self.0.iter().find(|(name, _)| *name == expected.name);
        found.map(|(_, policy)| policy.clone() as Arc<dyn Policy>).ok_or_else(|| AdmitError::PolicyMalformed("none".into()))
    }
    fn unpack(&self, config_map: &Value) -> Result<(Expected, Vec<u8>), AdmitError> {
        let name = config_map["metadata"]["name"].as_str().unwrap().to_owned();
        let (version, sha256, interface) = (String::new(), String::new(), String::new());
        Ok((Expected { name, architecture: Architecture::Replica, version, sha256, interface }, Vec::new()))
    }
}

fn config_map(name: &str) -> Object {
    Object::new(json!({"metadata": {"name": name, "resourceVersion": "1"}}))
}

/// Nothing to do.
fn calm() -> Answer {
    Ok(Ok(mk_plan(Vec::new())))
}

fn plan(operations: Vec<Operation>) -> Answer {
    Ok(Ok(mk_plan(operations.into_iter().enumerate().map(|(n, o)| track(&n.to_string(), vec![step(o)])).collect())))
}

/// A built-in 1.0.0, and modules as ConfigMaps.
struct Bench {
    registry: Arc<Registry>,
    governor: Governor,
    built_in: Arc<Scripted>,
    shelf: Shelf,
    scene: Scene,
}

impl Bench {
    fn new(modules: Vec<(&'static str, Arc<Scripted>)>) -> Self {
        let built_in = Scripted::new("1.0.0", "native", calm());
        let registry = Arc::new(Registry::new(vec![built_in.clone()]));
        let governor = Governor::new(registry.clone(), built_in.clone());
        let bench = Self { registry, governor, built_in, shelf: Shelf(modules), scene: Scene::healthy(3) };
        let names: Vec<&str> = bench.shelf.0.iter().map(|(name, _)| *name).collect();
        bench.load(&names);
        bench
    }
    fn load(&self, names: &[&str]) {
        let config_maps: Vec<Object> = names.iter().map(|name| config_map(name)).collect();
        self.registry.load(&config_maps, &self.shelf);
    }
    fn look(&mut self) -> Decision {
        self.look_with(CALM, &[], "")
    }
    fn look_with(&mut self, circumstances: Circumstances, running: &[Track], pin: &str) -> Decision {
        self.governor.decide(&self.scene.0, circumstances, running, pin)
    }
}

fn reasons(decision: &Decision) -> Vec<&'static str> {
    decision.given_up.iter().map(|given_up| given_up.reason).collect()
}

#[test]
fn a_newcomer_takes_over_at_a_rest_point() {
    let mut bench = Bench::new(vec![("m", Scripted::new("1.1.0", "d1", calm()))]);
    let running = [track("t", Vec::new())];
    assert_eq!(bench.look_with(CALM, &running, "").policy.version, "1.0.0", "a track runs");
    assert_eq!(bench.look_with(Circumstances { fresh: false, ..CALM }, &[], "").policy.version, "1.0.0", "the view isn't fresh");
    let decision = bench.look();
    assert_eq!(decision.policy.version, "1.1.0");
    let (from, to) = decision.swapped.unwrap();
    assert_eq!((from.version.as_str(), to.version.as_str()), ("1.0.0", "1.1.0"));
    assert!(decision.plan.is_some() && decision.given_up.is_empty());
}

#[test]
fn a_newcomer_that_fails_in_the_shadow_never_governs() {
    let table: Vec<(&str, Answer)> = vec![
        ("PolicyTrapped", Err(GuestError::PolicyTrapped("x".into()))),
        ("PolicyOutOfMemory", Err(GuestError::PolicyOutOfMemory(1))),
        ("PolicyOutputTooLarge", Err(GuestError::PolicyOutputTooLarge(1))),
        ("PolicyOutputInvalid", Err(GuestError::PolicyOutputInvalid("x".into()))),
        ("PolicyNotCallable", Err(GuestError::PolicyNotCallable("x".into()))),
        ("PolicyInternalError", Ok(Err(PolicyError::Internal("x".into())))),
        ("PolicyRefusedByGuard", plan(vec![promote(1)])),
    ];
    for (reason, answer) in table {
        let module = Scripted::new("1.1.0", "d1", answer);
        let mut bench = Bench::new(vec![("m", module.clone())]);
        let decision = bench.look();
        assert_eq!((decision.policy.version.as_str(), reasons(&decision)), ("1.0.0", vec![reason]));
        assert!(decision.plan.is_some() && decision.swapped.is_none(), "{reason}: the built-in plans in the same look");
        assert!(bench.look().given_up.is_empty(), "{reason}: said once");
        assert_eq!(module.asked.load(Ordering::Relaxed), 1, "{reason}: not asked again");
        assert_eq!(bench.governor.given_up().count(), 1);
    }
}

#[test]
fn a_newcomer_is_given_up_for_its_second_deadline_in_a_row_and_not_for_a_busy_second() {
    let late = || Err(GuestError::PolicyDeadline(1));
    let insufficient = || Ok(Err(PolicyError::Insufficient("x".into())));
    // What the newcomer answers in each look, who governs after the last, and whether it was given up then.
    let table: Vec<(&str, Vec<Answer>, &str, Vec<&str>)> = vec![
        ("late once", vec![late()], "1.0.0", vec![]),
        ("late once, then fit", vec![late(), calm()], "1.1.0", vec![]),
        ("late twice", vec![late(), late()], "1.0.0", vec!["PolicyDeadline"]),
        ("late twice, not in a row", vec![late(), insufficient(), late()], "1.0.0", vec![]),
    ];
    for (case, answers, version, given_up) in table {
        let module = Scripted::new("1.1.0", "d1", calm());
        let mut bench = Bench::new(vec![("m", module.clone())]);
        let mut last = None;
        for answer in answers {
            let late = matches!(answer, Err(GuestError::PolicyDeadline(_)));
            module.says(answer);
            let decision = bench.look();
            assert!(decision.plan.is_some(), "{case}: somebody plans in each look");
            assert_eq!(decision.ask_again, late && decision.given_up.is_empty(), "{case}");
            last = Some(decision);
        }
        let last = last.unwrap();
        assert_eq!((last.policy.version.as_str(), reasons(&last)), (version, given_up), "{case}");
    }
}

#[test]
fn two_newcomers_that_are_late_once_each_are_not_one_that_is_late_twice() {
    let late = || Err(GuestError::PolicyDeadline(1));
    let (first, second) = (Scripted::new("1.1.0", "d1", late()), Scripted::new("1.2.0", "d2", late()));
    let mut bench = Bench::new(vec![("m", first), ("n", second)]);
    bench.load(&["m"]);
    assert!(bench.look().given_up.is_empty());
    bench.load(&["m", "n"]);
    let decision = bench.look();
    assert!(decision.given_up.is_empty() && decision.ask_again);
    bench.load(&[]);
    assert!(!bench.look().ask_again, "nobody is left to be asked");
}

#[test]
fn a_newcomer_that_lacks_facts_is_asked_again() {
    let module = Scripted::new("1.1.0", "d1", Ok(Err(PolicyError::Insufficient("x".into()))));
    let mut bench = Bench::new(vec![("m", module.clone())]);
    assert_eq!(bench.look().policy.version, "1.0.0");
    module.says(calm());
    assert_eq!(bench.look().policy.version, "1.1.0");
}

#[test]
fn whatever_the_governing_policy_does_another_one_plans_in_the_same_look() {
    let table: Vec<(&str, Answer)> = vec![
        ("PolicyTrapped", Err(GuestError::PolicyTrapped("x".into()))),
        ("PolicyOutOfMemory", Err(GuestError::PolicyOutOfMemory(1))),
        ("PolicyOutputTooLarge", Err(GuestError::PolicyOutputTooLarge(1))),
        ("PolicyOutputInvalid", Err(GuestError::PolicyOutputInvalid("x".into()))),
        ("PolicyNotCallable", Err(GuestError::PolicyNotCallable("x".into()))),
        ("PolicyInternalError", Ok(Err(PolicyError::Internal("x".into())))),
        ("PolicyRefusedByGuard", plan(vec![evict(0)])),
    ];
    for (reason, answer) in table {
        let module = Scripted::new("1.1.0", "d1", calm());
        let mut bench = Bench::new(vec![("m", module.clone())]);
        assert_eq!(bench.look().policy.version, "1.1.0");
        module.says(answer);
        let decision = bench.look();
        assert_eq!((decision.policy.version.as_str(), reasons(&decision)), ("1.0.0", vec![reason]));
        assert!(decision.plan.is_some() && decision.guarded.refusals.is_empty(), "{reason}");
    }
}

#[test]
fn the_first_deadline_holds_and_the_second_in_a_row_is_its_own_doing() {
    let module = Scripted::new("1.1.0", "d1", calm());
    let mut bench = Bench::new(vec![("m", module.clone())]);
    bench.look();
    for (answer, version, planned) in [
        (Err(GuestError::PolicyDeadline(1)), "1.1.0", false),
        (calm(), "1.1.0", true),
        (Err(GuestError::PolicyDeadline(1)), "1.1.0", false),
        (Err(GuestError::PolicyDeadline(1)), "1.0.0", true),
    ] {
        module.says(answer);
        let decision = bench.look();
        assert_eq!((decision.policy.version.as_str(), decision.plan.is_some()), (version, planned));
    }
}

#[test]
fn the_weather_blames_nobody() {
    let module = Scripted::new("1.1.0", "d1", calm());
    let mut bench = Bench::new(vec![("m", module.clone())]);
    bench.look();
    module.says(plan(vec![evict(1)]));
    for circumstances in
        [Circumstances { lease: false, ..CALM }, Circumstances { fresh: false, ..CALM }, Circumstances { cut_off: true, ..CALM }]
    {
        let decision = bench.look_with(circumstances, &[], "");
        assert_eq!((decision.policy.version.as_str(), decision.guarded.refusals[0].rule), ("1.1.0", 10));
        assert!(decision.given_up.is_empty());
    }
    module.says(plan(vec![evict(0)]));
    let decision = bench.look_with(Circumstances { fresh: false, ..CALM }, &[], "");
    assert!(decision.given_up.is_empty(), "a refusal on a stale view proves nothing");
}

#[test]
fn the_built_in_is_never_given_up() {
    let mut bench = Bench::new(Vec::new());
    bench.built_in.says(plan(vec![evict(0)]));
    let decision = bench.look();
    assert_eq!((decision.policy.version.as_str(), decision.guarded.refusals.len()), ("1.0.0", 1));
    assert!(decision.plan.is_some(), "the rest of its plan goes on");
    bench.built_in.says(Err(GuestError::PolicyTrapped("x".into())));
    let decision = bench.look();
    assert!(decision.plan.is_none() && decision.given_up.is_empty());
    assert!(decision.hold.unwrap().contains("the built-in policy fails (PolicyTrapped)"));
    bench.built_in.says(calm());
    assert!(bench.look().plan.is_some(), "and it is asked again");
}

#[test]
fn a_policy_that_lacks_facts_holds() {
    let mut bench = Bench::new(Vec::new());
    bench.built_in.says(Ok(Err(PolicyError::Insufficient("who is who".into()))));
    let decision = bench.look();
    assert!(decision.plan.is_none() && decision.given_up.is_empty());
    assert_eq!(decision.hold.unwrap(), "the policy lacks facts: who is who");
}

#[test]
fn one_that_disturbs_more_waits_for_a_person() {
    let module = Scripted::new("1.1.0", "d1", plan(vec![evict(1)]));
    let mut bench = Bench::new(vec![("m", module.clone())]);
    let decision = bench.look();
    assert_eq!((decision.policy.version.as_str(), reasons(&decision)), ("1.0.0", vec!["PolicyDisturbsMore"]));
    assert!(bench.look().given_up.is_empty(), "said once");
    assert_eq!(bench.governor.given_up().count(), 1, "and shown as long as it lasts");
    for _ in 0..5 {
        bench.look();
    }
    assert_eq!(bench.registry.admitted().len(), 2, "waiting is no failure");
    assert_eq!(bench.look_with(CALM, &[], "1.1.0").policy.version, "1.1.0", "a person pinned it");
    assert_eq!(bench.governor.given_up().count(), 0);
}

#[test]
fn one_that_disturbs_no_more_any_longer_takes_over() {
    let module = Scripted::new("1.1.0", "d1", plan(vec![evict(1)]));
    let mut bench = Bench::new(vec![("m", module.clone())]);
    bench.look();
    bench.built_in.says(plan(vec![evict(2)]));
    assert_eq!(bench.look().policy.version, "1.1.0", "both would disturb one");
}

#[test]
fn deleting_the_config_map_rolls_back_at_once() {
    let module = Scripted::new("1.1.0", "d1", calm());
    let mut bench = Bench::new(vec![("m", module)]);
    bench.look();
    bench.load(&[]);
    // In the middle of a track, and although the built-in disturbs more.
    bench.built_in.says(plan(vec![evict(1)]));
    let decision = bench.look_with(CALM, &[track("t", vec![step(Operation::Save(uid(0)))])], "");
    assert_eq!((decision.policy.version.as_str(), decision.plan.is_some()), ("1.0.0", true));
    assert_eq!(decision.swapped.unwrap().0.version, "1.1.0");
}

#[test]
fn a_policy_that_fails_gives_way_to_the_one_before() {
    let (old, new) = (Scripted::new("1.1.0", "d1", calm()), Scripted::new("1.2.0", "d2", calm()));
    let mut bench = Bench::new(vec![("old", old.clone()), ("new", new.clone())]);
    bench.load(&["old"]);
    assert_eq!(bench.look().policy.version, "1.1.0");
    bench.load(&["old", "new"]);
    new.says(Err(GuestError::PolicyTrapped("x".into())));
    assert_eq!(bench.look().policy.version, "1.1.0", "it failed in the shadow");
    bench.load(&["new"]);
    assert_eq!(bench.look().policy.version, "1.0.0", "and doesn't govern when the other one goes");
}

#[test]
fn failures_in_three_places_withdraw_it_everywhere() {
    let module = Scripted::new("1.1.0", "d1", calm());
    let mut bench = Bench::new(vec![("m", module.clone())]);
    assert_eq!(bench.look().policy.version, "1.1.0");
    let mut woken = bench.registry.subscribe();
    woken.mark_unchanged();
    for _ in 0..3 {
        bench.registry.note_failure(&module.info);
    }
    assert!(woken.has_changed().unwrap(), "everybody is woken");
    let decision = bench.look_with(CALM, &[track("t", Vec::new())], "1.1.0");
    assert_eq!(decision.policy.version, "1.0.0", "at once, and though it is pinned");
}

#[test]
fn a_pin_chooses_and_its_end_lets_the_newest_govern() {
    let modules = vec![("a", Scripted::new("1.1.0", "d1", calm())), ("b", Scripted::new("1.2.0", "d2", calm()))];
    let mut bench = Bench::new(modules);
    for (pin, version) in [("1.1.0", "1.1.0"), ("1.0.0", "1.0.0"), ("", "1.2.0"), ("9.9.9", "1.2.0")] {
        assert_eq!(bench.look_with(CALM, &[], pin).policy.version, version, "pinned to '{pin}'");
    }
}

#[test]
fn a_pin_on_what_is_not_there_changes_nothing_and_is_said() {
    let modules = vec![("a", Scripted::new("1.1.0", "d1", calm())), ("b", Scripted::new("1.2.0", "d2", calm()))];
    let mut bench = Bench::new(modules);
    for (case, pin, there, version, told, shown) in [
        ("a slip from the beginning", "9.9.9", &["a", "b"][..], "1.0.0", true, true),
        ("the same again", "9.9.9", &["a", "b"], "1.0.0", false, true),
        ("one that is there", "1.1.0", &["a", "b"], "1.1.0", false, false),
        ("another slip", "1.1", &["a", "b"], "1.1.0", true, true),
        ("one that is there", "1.1.0", &["a", "b"], "1.1.0", false, false),
        ("its ConfigMap goes: what governed before, not the newest", "1.1.0", &["b"], "1.0.0", true, true),
        ("it comes back", "1.1.0", &["a", "b"], "1.1.0", false, false),
        ("no pin", "", &["a", "b"], "1.2.0", false, false),
    ] {
        bench.load(there);
        let decision = bench.look_with(CALM, &[], pin);
        let missing = bench.governor.missing();
        assert_eq!((decision.policy.version.as_str(), decision.missing.is_some()), (version, told), "{case}");
        assert_eq!(missing.is_some(), shown, "{case}");
        let message = missing.map(|missing| missing.message.clone()).unwrap_or_default();
        for words in [pin, "1.0.0, of replica (built in)", "1.2.0, of replica", &format!("replica {version} governs")] {
            assert!(!shown || message.contains(words), "{case}: {words}: {message}");
        }
    }
}

#[test]
fn the_highest_version_and_modules_before_the_built_in() {
    let policy = |version: &str, digest: &str| Scripted::new(version, digest, calm()) as Arc<dyn Policy>;
    let table: Vec<(&[(&str, &str)], &str)> = vec![
        (&[("1.9.0", "a"), ("1.10.0", "b")], "b"),
        (&[("1.0.0", "built-in"), ("1.0.0", "module")], "module"),
        (&[("2.0.0-rc.1", "a"), ("2.0.0", "b")], "b"),
        (&[("2.0.0", "a"), ("2.0.0-rc.1", "b")], "a"),
        (&[("1.0.0+9", "a"), ("1.0.1+1", "b")], "b"),
        (&[("rubbish", "a"), ("0.1.0", "b")], "b"),
    ];
    for (versions, expected) in table {
        let policies: Vec<_> = versions.iter().map(|(version, digest)| policy(version, digest)).collect();
        assert_eq!(wanted(&policies, Architecture::Replica, "").unwrap().info().digest, expected, "{versions:?}");
        assert!(wanted(&policies, Architecture::Cluster, "").is_none(), "of another architecture");
    }
    let equal = ["built-in", "a", "b"].map(|digest| policy("1.0.0", digest));
    for pin in ["", "1.0.0"] {
        assert_eq!(wanted(&equal, Architecture::Replica, pin).unwrap().info().digest, "b", "the last ConfigMap by name");
    }
}
