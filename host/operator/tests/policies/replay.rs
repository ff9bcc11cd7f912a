//! `policy replay`: recorded decisions against the module that made them, and against another one.

use std::path::Path;
use std::sync::Arc;

use vko_core::journal::{Event, Journal};
use vko_core::policy::Policy;
use vko_engine::Engine;
use vko_replica::testing::Scene;
use vko_wit::common::Pair;

use crate::{component, folder, operator};

fn admitted(package: &str) -> Arc<dyn Policy> {
    let (engine, bytes) = (Engine::new().unwrap(), std::fs::read(component(package)).unwrap());
    engine.admit_as_described(&bytes).unwrap()
}

/// A life: as declared, then the primary dies, then a replica follows nobody. Zone b is to be avoided.
fn life() -> Vec<Scene> {
    let (mut dead, mut stray) = (Scene::healthy("x", 3), Scene::healthy("x", 3));
    dead.kill(0);
    stray.restart(1, "snapshot");
    let mut life = vec![Scene::healthy("x", 3), dead, stray];
    for (at, scene) in life.iter_mut().enumerate() {
        scene.observed.now += 1_000 * at as u64;
        scene.observed.instance.annotations.push(Pair { key: "buf.red/avoid-zone".into(), value: "b".into() });
    }
    life
}

/// The journal of that life under the built-in policy.
pub(crate) fn life_of_the_built_in() -> String {
    record(&*admitted("vko-replica"))
}

/// The journal of that life under a policy.
fn record(policy: &dyn Policy) -> String {
    let journal = Journal::default();
    for scene in life() {
        let plan = policy.decide(&scene.observed).unwrap().unwrap();
        let info = policy.info();
        let event = Event::Decision {
            policy: format!("{} {}", info.name, info.version),
            digest: info.digest.clone(),
            interface: vko_wit::INTERFACE,
            observed: serde_json::to_value(&scene.observed).unwrap(),
            plan: serde_json::to_value(&plan).unwrap(),
            hold: None,
            refused: Vec::new(),
        };
        journal.note(scene.observed.now, event);
        let step = Event::Step { subject: "s".into(), operation: "follow".into(), reason: "r".into(), outcome: "done".into() };
        journal.note(scene.observed.now, step);
    }
    journal.lines().join("\n") + "\n"
}

fn written(text: &str, folder: &Path) -> String {
    let file = folder.join("journal.jsonl").display().to_string();
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn the_same_module_decides_alike_and_another_one_is_told_apart() {
    let journal = written(&life_of_the_built_in(), &folder("replay"));
    let same = operator(&["replay", &journal, "--module", &component("vko-replica")]);
    assert_eq!(same.code, 0, "{}{}", same.out, same.err);
    assert!(same.out.contains("3 decisions on ns/x") && same.out.contains("3 the same, 0 different"), "{}", same.out);

    let other = operator(&["replay", &journal, "--module", &component("vko-zone-averse")]);
    assert_eq!(other.code, 1, "{}{}", other.out, other.err);
    for expected in [
        "line 3, 2027-01-15T08:00:01Z: DIFFERENT",
        "promote rfr-x-1",
        "promote rfr-x-2",
        "differs in: steps",
        "first at tracks[0].steps[0].",
        "2 the same, 1 different",
    ] {
        assert!(other.out.contains(expected), "{expected}: {}", other.out);
    }
}

#[test]
fn what_can_not_be_replayed_is_told_and_is_no_verdict() {
    let folder = folder("unreplayable");
    let text = life_of_the_built_in();
    let good = written(&text, &folder);
    let file = |name: &str, text: &str| {
        let file = folder.join(name).display().to_string();
        std::fs::write(&file, text).unwrap();
        file
    };
    let newer = text.replace("valkey:policy@0.2.0", "valkey:policy@7.0.0");
    let (replica, cluster) = (component("vko-replica"), component("vko-cluster"));
    let cases = [
        ("no file", "/nowhere.jsonl".to_owned(), &replica, "can't be read"),
        ("empty", file("empty", ""), &replica, "the journal is empty"),
        ("cut", file("cut", &text[..text.len() / 2]), &replica, "the journal was cut; fetch it again"),
        ("a log", file("log", "INFO hello\n"), &replica, "line 1 is no JSON"),
        ("newer", file("newer", &newer), &replica, "recorded over valkey:policy@7.0.0"),
        (
            "another architecture",
            good.clone(),
            &cluster,
            "governs the architecture cluster, the journal is of an instance of replica",
        ),
        ("no module", good.clone(), &"/nowhere.wasm".to_owned(), "/nowhere.wasm can't be read"),
        ("a module that is none", good.clone(), &good, "is no policy"),
    ];
    for (case, journal, module, expected) in cases {
        let said = operator(&["replay", &journal, "--module", module]);
        assert_eq!((said.code, said.err.contains(expected)), (2, true), "{case}: {}", said.err);
        assert!(!said.err.contains("panicked"), "{case}");
    }
}
