//! A scenario as a folder: what a person applies, what happens, what must hold.
//!
//! - `script.yaml`: a list of [`Step`]s.
//! - `expect.yaml`: an [`Expect`].
//! - Manifests, which steps name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bed::{self, OnBed};
use crate::step::{Condition, Step, Targets};
use crate::target::Target;

/// A scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name of its folder.
    pub name: String,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// What must hold.
    pub expect: Expect,
    /// Objects by the file that they are in.
    pub manifests: BTreeMap<String, Vec<Value>>,
}

/// What must hold beside what the oracles always ask for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Expect {
    /// What the fault is called, in a sentence.
    pub about: String,
    /// Runs in the quick tier, too.
    pub quick: bool,
    /// Runs on the test bed as well, and ends the same there; in which tiers. Nothing said: on the mock host alone.
    pub bed: Option<Tier>,
    /// Classes of /docs/faults.md that it is about.
    pub classes: Vec<u32>,
    /// How the instances' conditions stand at the end; where nothing is said, all instances are ready.
    pub conditions: Vec<(String, Condition)>,
    /// Reasons of events that must be written.
    pub events: Vec<String>,
    /// Reasons of events that must not be written.
    pub no_events: Vec<String>,
    /// Pods whose lives must not end: neither another pod nor another start. Those that a step remembered (`$NAME`), as they were
    /// then.
    pub lives_kept: Option<Targets>,
    /// Objects that may be deleted, as `RESOURCE/NAME`, beside those of instances that are deleted themselves.
    pub may_go: Vec<String>,
    /// For so long two servers may take writes at once, seconds; 1 where nothing is said. No bound of losses.
    pub two_writers_seconds: Option<f64>,
    /// From the end of the last fault to the declared state and rest, seconds; where nothing is said, what is generous for a
    /// busy machine.
    pub settles_within_seconds: Option<u64>,
    /// Faults of the API server may strike nothing: they were drawn, not made for what is asked.
    pub faults_may_miss: bool,
    /// The instances end as if their last manifests had been created at once.
    pub ends_as_created: bool,
}

/// In which tiers a scenario runs on the test bed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Tier {
    /// In all of them.
    Quick,
    /// In full ones.
    Full,
}

/// Why a folder is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file can't be read.
    #[error("{}: {why}; a scenario has script.yaml, expect.yaml and the manifests that its steps name", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// A file is no YAML.
    #[error("{} is no YAML: {why}", .file.display())]
    NoYaml {
        /// Which.
        file: PathBuf,
        /// Where and why.
        why: String,
    },
    /// A step is none.
    #[error("{}, step {number}: {why}\n  it says {step}\n  steps are described in tests/script/src/step.rs", .file.display())]
    NoStep {
        /// Which file.
        file: PathBuf,
        /// Which step, from 1.
        number: usize,
        /// What is wrong, with the field and what could stand there.
        why: String,
        /// What it says.
        step: Value,
    },
    /// It is marked for the test bed, and a step can't be done there.
    #[error("{}, step {number}, can't be done on the test bed: {why}\n  take the mark 'bed' out of expect.yaml, or the step out", .file.display())]
    NotOnBed {
        /// Which file.
        file: PathBuf,
        /// Which step, from 1.
        number: usize,
        /// Why.
        why: &'static str,
    },
    /// What is expected makes no sense.
    #[error("{}: {why}; fields are described in tests/script/src/folder.rs", .file.display())]
    NoExpectation {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Scenario {
    /// Reads a folder.
    ///
    /// # Errors
    /// It is no scenario; says what is wrong where.
    pub fn read(folder: &Path) -> Result<Self, FolderError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = folder.join("script.yaml");
        let steps: Vec<Value> = yaml(&file)?;
        let steps = steps.into_iter().enumerate().map(|(index, step)| {
            let no_step = |error: serde_json::Error| FolderError::NoStep {
                file: file.clone(),
                number: index + 1,
                why: error.to_string(),
                step: step.clone(),
            };
            serde_json::from_value::<Step>(step.clone()).map_err(no_step)
        });
        let steps: Vec<Step> = steps.collect::<Result<_, _>>()?;
        if let Some((index, why)) = unknown_in(&steps) {
            let step = serde_json::to_value(&steps[index]).unwrap_or_default();
            return Err(FolderError::NoStep { file, number: index + 1, why, step });
        }
        let file = folder.join("expect.yaml");
        let no_expectation = |why: String| FolderError::NoExpectation { file: file.clone(), why };
        let expect: Expect = serde_json::from_value(yaml(&file)?).map_err(|error| no_expectation(error.to_string()))?;
        if let Some(why) = expect.lives_kept.iter().find_map(|kept| not_remembered(&kept.0, &remembered(&steps))) {
            return Err(no_expectation(format!("lives-kept: {why}")));
        }
        if expect.bed.is_some() {
            bed::can_judge(&expect).map_err(|why| no_expectation(why.to_owned()))?;
            fits_the_bed(&folder.join("script.yaml"), &steps)?;
        }
        let mut manifests = BTreeMap::new();
        for step in &steps {
            if let Step::Apply(name) = step {
                manifests.insert(name.clone(), documents(&folder.join(name))?);
            }
        }
        Ok(Self { name, steps, expect, manifests })
    }

    /// Whether it takes network and mount namespaces of its own.
    pub fn needs_namespaces(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Partition { .. } | Step::SmallDisks(_)))
    }

    /// All scenarios of a folder of folders, by name.
    ///
    /// # Errors
    /// One of them is none.
    pub fn all(folder: &Path) -> Result<Vec<Self>, FolderError> {
        let unreadable = |error: std::io::Error| FolderError::Unreadable { file: folder.into(), why: error.to_string() };
        let entries = std::fs::read_dir(folder).map_err(unreadable)?;
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        folders.iter().map(|folder| Self::read(folder)).collect()
    }

    /// Writes it as a folder.
    ///
    /// # Errors
    /// The disk says no.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("script.yaml"), text(&self.steps)?)?;
        std::fs::write(folder.join("expect.yaml"), text(&self.expect)?)?;
        for (name, documents) in &self.manifests {
            let documents = documents.iter().map(text).collect::<std::io::Result<Vec<_>>>()?;
            std::fs::write(folder.join(name), documents.join("---\n"))?;
        }
        Ok(())
    }
}

fn fits_the_bed(file: &Path, steps: &[Step]) -> Result<(), FolderError> {
    for (index, step) in steps.iter().enumerate() {
        if let OnBed::Never(why) = bed::on_bed(step) {
            return Err(FolderError::NotOnBed { file: file.into(), number: index + 1, why });
        }
    }
    Ok(())
}

/// Names that steps give.
fn remembered(steps: &[Step]) -> BTreeSet<&str> {
    let names = steps.iter().filter_map(|step| if let Step::Remember(names) = step { Some(names.keys()) } else { None });
    names.flatten().map(String::as_str).collect()
}

/// The first step with a name that no step before it gave.
fn unknown_in(steps: &[Step]) -> Option<(usize, String)> {
    steps.iter().enumerate().find_map(|(index, step)| {
        let targets = step.targets().into_iter().flat_map(|targets| &targets.0);
        let named = targets.filter(|target| matches!(target, Target::Remembered(_)));
        Some((index, not_remembered(named, &remembered(&steps[..index]))?))
    })
}

/// Who is none of the remembered ones.
fn not_remembered<'a>(targets: impl IntoIterator<Item = &'a Target>, known: &BTreeSet<&str>) -> Option<String> {
    let is_known = |target: &&Target| matches!(target, Target::Remembered(name) if known.contains(name.as_str()));
    let stranger = targets.into_iter().find(|target| !is_known(target))?;
    Some(format!("{:?} was remembered by no step before; those are {known:?}", String::from(stranger.clone())))
}

fn text<T: Serialize>(value: &T) -> std::io::Result<String> {
    serde_saphyr::to_string(value).map_err(|error| std::io::Error::other(error.to_string()))
}

fn read(file: &Path) -> Result<String, FolderError> {
    std::fs::read_to_string(file).map_err(|error| FolderError::Unreadable { file: file.into(), why: error.to_string() })
}

fn yaml<T: DeserializeOwned>(file: &Path) -> Result<T, FolderError> {
    serde_saphyr::from_str(&read(file)?).map_err(|error| FolderError::NoYaml { file: file.into(), why: error.to_string() })
}

fn documents(file: &Path) -> Result<Vec<Value>, FolderError> {
    serde_saphyr::from_multiple(&read(file)?).map_err(|error| FolderError::NoYaml { file: file.into(), why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{NodeState, Wait, Writes};

    fn folder(name: &str, script: &str, expect: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("vko-folder-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("script.yaml"), script).unwrap();
        std::fs::write(folder.join("expect.yaml"), expect).unwrap();
        std::fs::write(folder.join("manifest.yaml"), "kind: A\n---\nkind: B\n").unwrap();
        folder
    }

    #[test]
    fn a_folder_is_read_and_written_back_as_it_was() {
        let script = "- apply: manifest.yaml\n- wait: {ready: demo}\n- remember: {old: primary}\n- writes: {on: demo}\n\
                      - signal: {pods: $old, signal: KILL}\n- node: {of: [primary, replica of 1], becomes: power-lost}\n- heal\n";
        let read = Scenario::read(&folder("good", script, "about: x\nclasses: [1, 3]\n")).unwrap();
        assert_eq!((read.steps.len(), read.manifests["manifest.yaml"].len(), &read.expect.classes[..]), (7, 2, &[1, 3][..]));
        assert_eq!(read.steps[1], Step::Wait(Wait::Ready("demo".into())));
        assert_eq!(read.steps[3], Step::Writes(Writes::On("demo".into())));
        assert!(matches!(&read.steps[5], Step::Node { becomes: NodeState::PowerLost, .. }));
        let copy = std::env::temp_dir().join(format!("vko-folder-{}-copy", std::process::id()));
        read.write(&copy).unwrap();
        let again = Scenario::read(&copy).unwrap();
        assert_eq!((again.steps, again.expect, again.manifests), (read.steps, read.expect, read.manifests));
    }

    #[test]
    fn what_is_wrong_is_said_with_file_step_and_field() {
        for (name, script, expect, says) in [
            (
                "unknown",
                "- heal\n- wiat: {ready: demo}\n",
                "about: x",
                vec!["script.yaml, step 2", "wiat", "expected one of", "`wait`"],
            ),
            ("field", "- signal: {pods: primary, signl: KILL}\n", "about: x", vec!["step 1", "signl", "`signal`"]),
            (
                "target",
                "- evict: [primary, master]\n",
                "about: x",
                vec!["step 1", "\"master\" is nobody", "one of primary, replica"],
            ),
            ("manifest", "- apply: none.yaml\n", "about: x", vec!["none.yaml", "manifests that its steps name"]),
            ("expect", "- heal\n", "abuot: x", vec!["expect.yaml", "abuot", "`about`"]),
            (
                "not on the bed",
                "- heal\n- api-compact\n",
                "bed: full",
                vec!["script.yaml, step 2", "on the test bed", "history", "'bed'"],
            ),
            (
                "not judged there",
                "- heal\n",
                "bed: quick\ntwo-writers-seconds: 0\n",
                vec!["expect.yaml", "two-writers-seconds", "test bed"],
            ),
            ("tier", "- heal\n", "bed: true", vec!["expect.yaml"]),
            (
                "name",
                "- remember: {old: primary}\n- evict: [$old, $odl]\n",
                "about: x",
                vec!["script.yaml, step 2", "\"$odl\"", "{\"old\"}"],
            ),
            ("later name", "- evict: $old\n- remember: {old: primary}\n", "about: x", vec!["step 1", "\"$old\""]),
            ("name waited for", "- wait: {gone: $old}\n", "about: x", vec!["step 1", "\"$old\""]),
            ("kept name", "- remember: {old: primary}\n", "lives-kept: $others", vec!["expect.yaml", "lives-kept", "$others"]),
            ("kept of now", "- remember: {old: primary}\n", "lives-kept: servers", vec!["lives-kept", "\"servers\""]),
            ("yaml", "- [", "about: x", vec!["script.yaml is no YAML"]),
        ] {
            let error = Scenario::read(&folder(name, script, expect)).unwrap_err().to_string();
            assert!(says.iter().all(|part| error.contains(part)), "{name}: {error}");
        }
    }
}
