//! Bad manifests are refused by the API server itself, with the field and the remedy; good ones are not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use vko_e2e::{Result, kubectl, operator, settings, space};

/// Fewer would mean that the list was not found.
const BAD_MIN: usize = 60;

fn files_in(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), fs::read_to_string(path)?))).collect()
}

/// The text after a `# key:` at the beginning of a file.
fn header<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

#[test]
fn bad_manifests_are_refused_with_field_and_remedy() -> Result {
    let _operator = operator::shared()?;
    space::with("admission-bad", |namespace| {
        let folder = settings::manifests().join("bad");
        let bad = files_in(&folder)?;
        assert!(bad.len() >= BAD_MIN, "{}", bad.len());
        let refusals = kubectl::refusals(namespace, &folder)?;
        for (path, text) in bad {
            let file = path.display().to_string();
            let expected = header(&text, "expect").unwrap_or_else(|| panic!("{file} has no '# expect:'"));
            let refusal = refusals.get(&file).unwrap_or_else(|| panic!("{file} was accepted"));
            assert!(refusal.contains(expected), "{file}: {refusal}");
        }
        Ok(())
    })
}

#[test]
fn good_manifests_are_taken_and_their_changes_judged() -> Result {
    let _operator = operator::shared()?;
    space::with("admission-good", |namespace| {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
        assert!(!files_in(&examples)?.is_empty(), "the documents have examples");
        assert_eq!(kubectl::refusals(namespace, &examples)?, BTreeMap::new());
        let good = settings::manifests().join("good").display().to_string();
        kubectl::run(&["apply", "--server-side", "--namespace", namespace, "--filename", &good])?;
        let mut accepted = 0;
        for (path, text) in files_in(&settings::manifests().join("changes"))? {
            let from = header(&text, "from").unwrap_or_else(|| panic!("{} has no '# from:'", path.display()));
            let file = path.display().to_string();
            let target = if from.contains('/') { from.to_owned() } else { format!("valkey/{from}") };
            let answer = kubectl::run(&[
                "patch",
                &target,
                "--namespace",
                namespace,
                "--type=merge",
                "--dry-run=server",
                "--patch-file",
                &file,
            ]);
            match (header(&text, "expect"), answer) {
                (None, answer) => {
                    answer.unwrap_or_else(|error| panic!("{file}: {error:#}"));
                    accepted += 1;
                }
                (Some(expected), answer) => {
                    let refusal = format!("{:#}", answer.expect_err(&format!("{file} was accepted")));
                    assert!(refusal.contains(expected), "{file}: {refusal}");
                }
            }
        }
        assert!(accepted > 0, "no change was one that is accepted");
        Ok(())
    })
}
