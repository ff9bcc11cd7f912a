//! What becomes of ConfigMaps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use vko_wit::common::Architecture;
use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Violation};

use super::{FAILURES_MAX, Registry};
use crate::object::Object;
use crate::policy::{Admit, AdmitError, Expected, GuestError, Policy, PolicyInfo};

struct Named(PolicyInfo);

impl Policy for Named {
    fn info(&self) -> &PolicyInfo {
        &self.0
    }
    fn decide(&self, _: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        Err(GuestError::PolicyNotCallable("a name and nothing more".into()))
    }
    fn validate(&self, _: &str, _: &str) -> Result<Vec<Violation>, GuestError> {
        Ok(Vec::new())
    }
}

fn info(version: &str, digest: &str) -> PolicyInfo {
    let architecture = Architecture::Replica;
    PolicyInfo { name: "p".into(), architecture, version: version.into(), digest: digest.into(), server_lines: Vec::new() }
}

/// Admits whatever has a digest; counts.
#[derive(Default)]
struct Counting(AtomicU32);

impl Admit for Counting {
    fn admit(&self, expected: &Expected, _: &[u8]) -> Result<Arc<dyn Policy>, AdmitError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Named(info(&expected.version, &expected.sha256))))
    }
    fn unpack(&self, config_map: &Value) -> Result<(Expected, Vec<u8>), AdmitError> {
        let Some(digest) = config_map["data"]["digest"].as_str() else {
            return Err(AdmitError::PolicyManifestInvalid("no digest".into()));
        };
        let (name, version, interface) = ("p".into(), "1.1.0".into(), String::new());
        Ok((Expected { name, architecture: Architecture::Replica, version, sha256: digest.into(), interface }, Vec::new()))
    }
}

fn config_map(name: &str, version: &str, digest: &str) -> Object {
    let data = if digest.is_empty() { json!({}) } else { json!({"digest": digest}) };
    Object::new(json!({"metadata": {"name": name, "resourceVersion": version}, "data": data}))
}

fn registry() -> Registry {
    Registry::new(vec![Arc::new(Named(info("1.0.0", "native")))])
}

fn digests(registry: &Registry) -> Vec<String> {
    registry.admitted().iter().map(|policy| policy.info().digest.clone()).collect()
}

#[test]
fn a_module_is_admitted_once_for_each_version_of_its_config_map() {
    let (registry, admit) = (registry(), Counting::default());
    let loaded = registry.load(&[config_map("m", "1", "d1")], &admit);
    assert_eq!(loaded[0].result.as_ref().unwrap().digest, "d1");
    assert!(registry.load(&[config_map("m", "1", "d1")], &admit).is_empty());
    assert_eq!(admit.0.load(Ordering::Relaxed), 1);
    registry.load(&[config_map("m", "2", "d2")], &admit);
    assert_eq!(digests(&registry), ["native", "d2"]);
}

#[test]
fn a_bad_one_is_told_and_hurts_no_other() {
    let (registry, admit) = (registry(), Counting::default());
    let loaded = registry.load(&[config_map("bad", "1", ""), config_map("good", "1", "d1")], &admit);
    assert_eq!(loaded.iter().map(|one| one.result.is_ok()).collect::<Vec<_>>(), [false, true]);
    assert_eq!(digests(&registry), ["native", "d1"]);
    assert_eq!(registry.refused(), [("bad".to_owned(), AdmitError::PolicyManifestInvalid("no digest".into()))]);
    assert!(registry.load(&[config_map("bad", "1", ""), config_map("good", "1", "d1")], &admit).is_empty(), "told once");
}

#[test]
fn everybody_is_woken_by_a_change_and_by_nothing_else() {
    let (registry, admit) = (registry(), Counting::default());
    let mut changes = registry.subscribe();
    let mut woken = |config_maps: &[Object]| {
        registry.load(config_maps, &admit);
        let changed = changes.has_changed().unwrap();
        changes.mark_unchanged();
        changed
    };
    assert!(!woken(&[]));
    assert!(woken(&[config_map("m", "1", "d1")]));
    assert!(!woken(&[config_map("m", "1", "d1")]));
    assert!(woken(&[]), "deleted");
}

#[test]
fn deleting_the_config_map_takes_it_away() {
    let (registry, admit) = (registry(), Counting::default());
    registry.load(&[config_map("m", "1", "d1")], &admit);
    registry.load(&[], &admit);
    assert_eq!(digests(&registry), ["native"]);
}

#[test]
fn withdrawn_until_its_config_map_changes() {
    let (registry, admit) = (registry(), Counting::default());
    registry.load(&[config_map("m", "1", "d1")], &admit);
    for n in 1..=FAILURES_MAX {
        assert!(digests(&registry).contains(&"d1".to_owned()), "after {} failures", n - 1);
        registry.note_failure(&info("1.1.0", "d1"));
    }
    assert_eq!(digests(&registry), ["native"]);
    registry.load(&[config_map("m", "1", "d1")], &admit);
    assert_eq!(digests(&registry), ["native"], "the same ConfigMap brings it back no more");
    registry.load(&[config_map("m", "2", "d1")], &admit);
    assert_eq!(digests(&registry), ["native", "d1"]);
}

#[test]
fn which_one_is_built_in() {
    let registry = registry();
    assert!(registry.is_built_in(&info("1.0.0", "native")) && !registry.is_built_in(&info("1.0.0", "d1")));
    assert_eq!(registry.built_in(Architecture::Replica).unwrap().info().version, "1.0.0");
    assert!(registry.built_in(Architecture::Cluster).is_none());
}
