//! The boundary between host and policies as Rust types, made from `policy.wit` by wit-bindgen.
//!
//! The same types serve guests (SDK and policies), the core and the native builds of policies; `host/engine` converts them to
//! wasmtime's bindings. They compare and serialise, so that observations and plans can be kept in the decision journal.
//!
//! Two things differ between a component and a native build: exporting is for wasm32 only, and the imported `log` panics
//! natively. Policies therefore use `vko_sdk`, which wraps both.
#![allow(missing_docs, unreachable_pub, unsafe_code, clippy::all)]

wit_bindgen::generate!({
    path: "policy.wit",
    world: "policy",
    pub_export_macro: true,
    generate_all,
    additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
});

pub mod facts;
mod names;

pub use names::operation_name;
pub use valkey::policy::{common, observation, planning};

/// Name and version of the package that this build speaks.
pub const INTERFACE: &str = "valkey:policy@0.2.0";

#[cfg(test)]
mod tests {
    #[test]
    fn the_constant_names_the_package_of_the_file() {
        assert!(include_str!("../policy.wit").contains(&format!("\npackage {};\n", super::INTERFACE)));
    }
}
