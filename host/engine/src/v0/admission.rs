//! Whether a component is a policy of this interface.
//!
//! # Flow
//! 1. It is compiled (its size was bounded before).
//! 2. Its imports are listed: `log` and interfaces that hold types only. Its exports hold the three functions.
//! 3. It is linked, which checks the types of what it imports; instantiated, which checks the types of what it exports; and asked
//!    to describe itself, under the bounds of every call.
//! 4. For each manifest that names it, the description is held against it.

use std::sync::Arc;

use vko_core::policy::{AdmitError, Expected, GuestError};
use vko_wit::common::Architecture;
use vko_wit::exports::valkey::policy::decisions::ModuleInfo;
use wasmtime::component::Component;
use wasmtime::component::types::{self, ComponentItem};

use super::call::Call;
use super::{Compiled, WorldPre};
use crate::engine::Runtime;

const LOG: &str = "valkey:policy/log@0.2.0";
const DECISIONS: &str = "valkey:policy/decisions@0.2.0";
const FUNCTIONS: [&str; 3] = ["describe", "validate", "decide"];

/// Steps 1 to 3.
pub(crate) fn compile(runtime: &Runtime, bytes: &[u8]) -> Result<Compiled, AdmitError> {
    let component = Component::new(&runtime.engine, bytes).map_err(|error| {
        let hint = "; a policy is a component, as 'cargo xtask guests' builds it";
        AdmitError::PolicyMalformed(format!("{error:#}{hint}"))
    })?;
    let mismatch = |error: wasmtime::Error| AdmitError::PolicyInterfaceMismatch(format!("{error:#}"));
    check_interface(&runtime.engine, &component.component_type()).map_err(AdmitError::PolicyInterfaceMismatch)?;
    let ready = runtime.linker.instantiate_pre(&component).and_then(WorldPre::new).map_err(mismatch)?;
    let label: Arc<str> = "being admitted".into();
    let call = Call { runtime, ready: &ready, label: &label };
    let said = call.run(|world, store| world.valkey_policy_decisions().call_describe(store)).map_err(|error| match error {
        GuestError::PolicyNotCallable(text) => AdmitError::PolicyInterfaceMismatch(text),
        failed => AdmitError::PolicyDescriptionMismatch(failed.to_string()),
    })?;
    Ok(Compiled { ready, said: said.into() })
}

fn check_interface(engine: &wasmtime::Engine, component: &types::Component) -> Result<(), String> {
    for (name, import) in component.imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else {
            return Err(format!("it imports '{name}'; a policy may import {LOG} and nothing else"));
        };
        for (item, export) in instance.exports(engine) {
            let allowed = match export.ty {
                ComponentItem::Type(_) => true,
                ComponentItem::ComponentFunc(_) => name == LOG && item == "log",
                _ => false,
            };
            if !allowed {
                return Err(format!("it imports '{item}' of '{name}'; a policy may import {LOG} and nothing else"));
            }
        }
    }
    let Some(ComponentItem::ComponentInstance(exported)) = component.get_export(engine, DECISIONS).map(|export| export.ty) else {
        return Err(format!("it doesn't export {DECISIONS}; build it against {}", vko_wit::INTERFACE));
    };
    let missing = FUNCTIONS.iter().find(|function| exported.get_export(engine, function).is_none());
    missing.map_or(Ok(()), |function| Err(format!("its {DECISIONS} lacks '{function}'")))
}

/// Step 4.
pub(super) fn compare(said: &ModuleInfo, expected: &Expected) -> Result<(), String> {
    let pairs = [
        ("name", said.name.as_str(), expected.name.as_str()),
        ("architecture", architecture(said.architecture), architecture(expected.architecture)),
        ("version", &said.version, &expected.version),
    ];
    let differs = pairs.iter().find(|(_, said, expected)| said != expected);
    differs.map_or(Ok(()), |(what, said, expected)| {
        Err(format!("it says {what} '{said}', the manifest says '{expected}'; pack it again"))
    })
}

const fn architecture(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Cluster => "cluster",
        Architecture::Failover => "failover",
        Architecture::Replica => "replica",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_interface() {
        let (package, version) = vko_wit::INTERFACE.split_once('@').unwrap_or_default();
        assert_eq!((LOG, DECISIONS), (&*format!("{package}/log@{version}"), &*format!("{package}/decisions@{version}")));
    }

    #[test]
    fn a_description_that_differs_is_named() {
        let said = ModuleInfo {
            name: "p".into(),
            architecture: Architecture::Replica,
            version: "1.0.0".into(),
            server_lines: vec![],
            description: String::new(),
        };
        let same = Expected {
            name: "p".into(),
            architecture: Architecture::Replica,
            version: "1.0.0".into(),
            sha256: String::new(),
            interface: vko_wit::INTERFACE.into(),
        };
        let cases = [
            ("same", same.clone(), ""),
            ("name", Expected { name: "q".into(), ..same.clone() }, "name 'p'"),
            ("architecture", Expected { architecture: Architecture::Cluster, ..same.clone() }, "architecture 'replica'"),
            ("version", Expected { version: "1.0.1".into(), ..same }, "version '1.0.0'"),
        ];
        for (name, expected, part) in cases {
            let answer = compare(&said, &expected);
            assert_eq!(answer.is_ok(), part.is_empty(), "{name}");
            assert!(answer.err().unwrap_or_default().contains(part), "{name}");
        }
    }
}
