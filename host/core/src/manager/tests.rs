//! Which instances are looked after, and which are forgotten.

use std::sync::Arc;

use serde_json::json;
use vko_api::images::Images;

use super::Manager;
use crate::instance::{Key, Shared};
use crate::lease::LeaseState;
use crate::metrics::Metrics;
use crate::object::{Kind, ObjectId};
use crate::policy::{Admit, AdmitError, Expected, Policy};
use crate::registry::Registry;
use crate::testing::{FakeWorld, mk_settings};

struct Nothing;

impl Admit for Nothing {
    fn admit(&self, _: &Expected, _: &[u8]) -> Result<Arc<dyn Policy>, AdmitError> {
        Err(AdmitError::PolicyManifestInvalid("none is admitted here".into()))
    }
    fn unpack(&self, _: &serde_json::Value) -> Result<(Expected, Vec<u8>), AdmitError> {
        Err(AdmitError::PolicyManifestInvalid("none is admitted here".into()))
    }
}

fn mk_manager(world: &Arc<FakeWorld>) -> Manager<FakeWorld> {
    let shared = Shared {
        world: world.clone(),
        settings: Arc::new(mk_settings()),
        images: Arc::new(Images::default()),
        lease: LeaseState::alone(world.clone()),
        registry: Arc::new(Registry::new(Vec::new())),
        metrics: Metrics::default(),
    };
    Manager::new(Arc::new(shared), Arc::new(Nothing))
}

fn key(name: &str) -> Key {
    Key { namespace: "shop".into(), name: name.into() }
}

fn create(world: &FakeWorld, name: &str) {
    let metadata = json!({"name": name, "namespace": "shop", "uid": name});
    world.state().put(json!({"apiVersion": Kind::Valkey.api_version(), "kind": "Valkey", "metadata": metadata}));
}

#[tokio::test]
async fn an_instance_that_has_ended_is_forgotten_though_no_event_says_so() {
    let world = Arc::new(FakeWorld::default());
    let mut manager = mk_manager(&world);
    create(&world, "a");
    manager.wake(key("a"));
    assert_eq!(manager.journals.lock().unwrap().len(), 1);
    world.state().objects.remove(&ObjectId::new(Kind::Valkey, "shop", "a"));
    while !manager.tasks[&key("a")].has_ended() {
        tokio::task::yield_now().await;
    }
    create(&world, "b");
    manager.wake(key("b"));
    assert_eq!(manager.tasks.keys().cloned().collect::<Vec<_>>(), [key("b")]);
    assert_eq!(manager.journals.lock().unwrap().keys().cloned().collect::<Vec<_>>(), [key("b")], "memory doesn't grow");
}

#[tokio::test]
async fn nobody_is_looked_at_when_there_is_nothing() {
    let world = Arc::new(FakeWorld::default());
    let mut manager = mk_manager(&world);
    manager.wake(key("a"));
    assert!(manager.tasks.is_empty() && manager.journals.lock().unwrap().is_empty());
}
