//! The commands of docs/policies.md, as they stand there, in a folder of their own.

use std::path::Path;
use std::process::Command;

use vko_core::policy::Admit;

use crate::{OPERATOR, Said, folder, operator};

/// The blocks of shell commands of a page, in order.
fn commands(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open = false;
    for line in page.lines() {
        match line {
            "```sh" => {
                blocks.push(String::new());
                open = true;
            }
            "```" => open = false,
            _ if open => blocks.last_mut().into_iter().for_each(|block| block.push_str(&format!("{line}\n"))),
            _ => {}
        }
    }
    blocks
}

#[test]
fn the_guides_commands_run_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let page = std::fs::read_to_string(root.join("docs/policies.md")).unwrap();
    let blocks = commands(&page);
    assert_eq!(blocks.len(), 4, "create, build and test, replay, pack");
    let folder = folder("guide");
    let journal = folder.join("journal.jsonl");
    std::fs::write(&journal, crate::replay::life_of_the_built_in()).unwrap();
    let binaries = Path::new(OPERATOR).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let script = format!("set -euo pipefail\n{}", blocks.concat());
    let said: Said = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&folder)
        .env("PATH", path)
        .env("CHECKOUT", root)
        .env("JOURNAL", &journal)
        // All that the new crate needs was fetched for this repository.
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap()
        .into();
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    for expected in ["test tests::who_is_promoted ... ok", "0 broken", "3 the same, 0 different"] {
        assert!(said.out.contains(expected), "{expected}: {}", said.out);
    }
    let packed = std::fs::read(folder.join("steady/policy.json")).unwrap();
    let config_map: serde_json::Value = serde_json::from_slice(&packed).unwrap();
    assert_eq!(config_map["metadata"]["name"], "steady");
    let engine = vko_engine::Engine::new().unwrap();
    let (expected, component) = engine.unpack(&config_map).unwrap();
    let policy = engine.admit(&expected, &component).unwrap();
    assert_eq!((policy.info().name.as_str(), policy.info().version.as_str()), ("steady", "0.1.0"));
}

#[test]
fn nothing_is_overwritten_and_a_wrong_clone_is_told() {
    let folder = folder("new");
    let new = |name: &str, checkout: &str| -> Said {
        let arguments = ["policy", "new", name, "--checkout", checkout];
        Command::new(OPERATOR).args(arguments).current_dir(&folder).output().unwrap().into()
    };
    std::fs::create_dir(folder.join("there")).unwrap();
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().display().to_string();
    let cases = [
        ("there", clone.as_str(), "there exists already"),
        ("../up", clone.as_str(), "no name for a policy"),
        ("fine", ".", "is no clone of this repository"),
        ("fine", "/nowhere", "isn't there"),
    ];
    for (name, checkout, expected) in cases {
        let said = new(name, checkout);
        assert!(said.code != 0 && said.err.contains(expected), "{name}: {}", said.err);
        assert!(!folder.join("fine").exists() && std::fs::read_dir(folder.join("there")).unwrap().next().is_none());
    }
    assert_ne!(operator(&["new"]).code, 0);
}
