//! Interface `valkey:policy@0.2.0`: what its components may import, what they must export, and how they are called. Another
//! version of the interface gets a folder beside this one.

mod admission;
mod bindings;
mod call;
mod convert;
mod host;

use std::sync::Arc;

use vko_core::policy::{AdmitError, Expected, GuestError, Policy, PolicyInfo};
use vko_wit::exports::valkey::policy::decisions::ModuleInfo;
use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Violation};
use wasmtime::component::HasSelf;

use crate::answer;
use crate::engine::Runtime;
use bindings::valkey::policy::observation as wire;
use bindings::{Policy as World, PolicyPre as WorldPre};
use call::Call;
use host::Host;

pub(crate) use admission::compile;

/// The imports that a component gets.
pub(crate) type Linker = wasmtime::component::Linker<Host>;

/// A component, ready to be instantiated, and what it says of itself.
pub(crate) struct Compiled {
    ready: WorldPre<Host>,
    said: ModuleInfo,
}

impl Compiled {
    /// What it says of itself as a manifest's promise.
    pub(crate) fn promise(&self, sha256: String) -> Expected {
        Expected {
            name: self.said.name.clone(),
            architecture: self.said.architecture,
            version: self.said.version.clone(),
            sha256,
            interface: vko_wit::INTERFACE.into(),
        }
    }
}

/// Makes the linker; once for each engine.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker> {
    let mut linker = Linker::new(engine);
    World::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host)?;
    Ok(linker)
}

/// An admitted component.
pub(crate) struct ComponentPolicy {
    runtime: Arc<Runtime>,
    compiled: Arc<Compiled>,
    info: PolicyInfo,
    /// Name and version, for the log.
    label: Arc<str>,
}

impl ComponentPolicy {
    /// Holds a compiled component against its manifest.
    pub(crate) fn new(runtime: Arc<Runtime>, compiled: Arc<Compiled>, expected: &Expected) -> Result<Self, AdmitError> {
        admission::compare(&compiled.said, expected).map_err(AdmitError::PolicyDescriptionMismatch)?;
        let info = PolicyInfo {
            name: expected.name.clone(),
            architecture: expected.architecture,
            version: expected.version.clone(),
            digest: expected.sha256.clone(),
            server_lines: compiled.said.server_lines.clone(),
        };
        let label = format!("{} {}", info.name, info.version).into();
        Ok(Self { runtime, compiled, info, label })
    }

    fn call(&self) -> Call<'_> {
        Call { runtime: &self.runtime, ready: &self.compiled.ready, label: &self.label }
    }
}

impl Policy for ComponentPolicy {
    fn info(&self) -> &PolicyInfo {
        &self.info
    }

    fn decide(&self, observed: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        let sent = wire::Observed::from(observed);
        let answer = self.call().run(|world, store| world.valkey_policy_decisions().call_decide(store, &sent))?;
        let answer = answer.map(Plan::from).map_err(PolicyError::from);
        if let Ok(plan) = &answer {
            answer::check(plan, observed).map_err(GuestError::PolicyOutputInvalid)?;
        }
        Ok(answer)
    }

    fn validate(&self, spec: &str, previous: &str) -> Result<Vec<Violation>, GuestError> {
        let (spec, previous) = (spec.to_owned(), previous.to_owned());
        let found = self.call().run(|world, store| world.valkey_policy_decisions().call_validate(store, &spec, &previous))?;
        Ok(found.into_iter().map(Violation::from).collect())
    }
}
