//! The policies that there are: the built-in ones and those of ConfigMaps, and what became of each.
//!
//! # Guarantees
//! 1. A module is compiled once for each version of its ConfigMap, in the background; a bad one becomes an event on its ConfigMap
//!    and a metric, nothing else.
//! 2. Deleting the ConfigMap takes its policy away from everybody at their next look, which is at once.
//! 3. A module that fails in several places is withdrawn everywhere until its ConfigMap changes.
//!
//! # Flow
//! 1. [`Registry::load`] is called with the ConfigMaps of policies whenever one changes.
//! 2. New digests are admitted.
//! 3. Instances are woken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use vko_wit::common::Architecture;

use crate::object::Object;
use crate::policy::{Admit, AdmitError, Policy, PolicyInfo};

/// Failures, in whatever instances, after which a module is withdrawn everywhere.
const FAILURES_MAX: u32 = 3;

/// All policies.
pub struct Registry {
    built_in: Vec<Arc<dyn Policy>>,
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// By ConfigMap name.
    modules: BTreeMap<String, Module>,
    failures: BTreeMap<String, u32>,
}

/// What came of a version of a ConfigMap.
struct Module {
    resource_version: String,
    result: Result<Arc<dyn Policy>, AdmitError>,
}

/// What came of a ConfigMap that is new or changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// ConfigMap.
    pub config_map: Object,
    /// The policy, or why not.
    pub result: Result<PolicyInfo, AdmitError>,
}

impl Registry {
    /// Only the built-in ones.
    pub fn new(built_in: Vec<Arc<dyn Policy>>) -> Self {
        Self { built_in, state: Mutex::default(), version: watch::channel(0).0 }
    }

    /// Wakes when anything changed.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The built-in policy of an architecture.
    pub fn built_in(&self, architecture: Architecture) -> Option<Arc<dyn Policy>> {
        self.built_in.iter().find(|policy| policy.info().architecture == architecture).cloned()
    }

    /// Whether that policy is built in.
    pub fn is_built_in(&self, info: &PolicyInfo) -> bool {
        self.built_in.iter().any(|policy| policy.info() == info)
    }

    /// Everything that may govern: built-in ones first, then admitted modules that are not withdrawn, by ConfigMap name.
    pub fn admitted(&self) -> Vec<Arc<dyn Policy>> {
        let state = self.lock();
        let withdrawn = |info: &PolicyInfo| state.failures.get(&info.digest).is_some_and(|count| *count >= FAILURES_MAX);
        let modules =
            state.modules.values().filter_map(|module| module.result.as_ref().ok()).filter(|policy| !withdrawn(policy.info()));
        self.built_in.iter().chain(modules).cloned().collect()
    }

    /// A policy failed somewhere. When that withdraws it, all instances are woken.
    pub fn note_failure(&self, info: &PolicyInfo) {
        let failures = {
            let mut state = self.lock();
            let failures = state.failures.entry(info.digest.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        if failures == FAILURES_MAX {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Takes in the ConfigMaps of policies as they are now. Compiling blocks: call it where that is allowed.
    pub fn load(&self, config_maps: &[Object], admit: &dyn Admit) -> Vec<Loaded> {
        let mut loaded = Vec::new();
        let mut changed = self.forget_all_but(config_maps);
        for config_map in config_maps {
            if self.knows(config_map) {
                continue;
            }
            let result = admit.unpack(&config_map.0).and_then(|(expected, component)| admit.admit(&expected, &component));
            loaded.push(Loaded {
                config_map: config_map.clone(),
                result: result.as_ref().map(|policy| policy.info().clone()).map_err(Clone::clone),
            });
            let mut state = self.lock();
            if let Ok(policy) = &result {
                state.failures.remove(&policy.info().digest);
            }
            state
                .modules
                .insert(config_map.name().into(), Module { resource_version: config_map.resource_version().into(), result });
            changed = true;
        }
        if changed {
            self.version.send_modify(|version| *version += 1);
        }
        loaded
    }

    /// Why a ConfigMap's module doesn't govern, for conditions: name of the ConfigMap and the error.
    pub fn refused(&self) -> Vec<(String, AdmitError)> {
        let state = self.lock();
        state.modules.iter().filter_map(|(name, module)| Some((name.clone(), module.result.as_ref().err()?.clone()))).collect()
    }

    fn knows(&self, config_map: &Object) -> bool {
        self.lock().modules.get(config_map.name()).is_some_and(|module| module.resource_version == config_map.resource_version())
    }

    fn forget_all_but(&self, config_maps: &[Object]) -> bool {
        let mut state = self.lock();
        let before = state.modules.len();
        state.modules.retain(|name, _| config_maps.iter().any(|map| map.name() == name));
        state.modules.len() != before
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
