//! Schemas that a Rust type alone does not give. Bounds are on everything: the API server prices rules by the largest value that
//! the schema lets through.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Pod annotations: at most 32 of at most 4 KiB; all annotations of an object together may have 256 KiB.
pub(crate) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 32, "additionalProperties": {"type": "string", "maxLength": 4096}})
}

/// Node labels; a label's value has at most 63 characters.
pub(crate) fn node_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 16, "additionalProperties": {"type": "string", "maxLength": 63}})
}

/// Keys and texts.
pub(crate) fn text_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 256, "additionalProperties": {"type": "string", "maxLength": 4096}})
}

/// An object of any form.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of objects of any form.
pub(crate) fn list_of_anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 128, "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

/// `disable`, and anything else.
pub(crate) fn exporter(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"disable": {"type": "boolean", "description": "No exporter."}},
    })
}

/// Sentinel's options of a monitor.
pub(crate) fn monitor_config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 8, "additionalProperties": {"type": "string", "maxLength": 64}})
}
