//! wasmtime's side of the interface, made from the WIT by its macro.

wasmtime::component::bindgen!({
    path: "../../wit/policy.wit",
    world: "policy",
});
