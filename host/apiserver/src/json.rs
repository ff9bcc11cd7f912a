//! Readings of JSON that every room needs.

use serde_json::{Map, Value, json};

/// A text by pointer; empty when it isn't there.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list by pointer; empty when it isn't there.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A map by its name inside of a map, made when it isn't one.
pub(crate) fn map_in<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !value[name].is_object() {
        value[name] = json!({});
    }
    let Value::Object(map) = &mut value[name] else { unreachable!("it was just made a map") };
    map
}

/// JSON merge patch (RFC 7396).
pub fn merged(live: Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let Value::Object(mut live) = live else { return merged(json!({}), patch) };
    for (key, value) in changes {
        if value.is_null() {
            live.remove(key);
        } else {
            let below = live.remove(key).unwrap_or_default();
            live.insert(key.clone(), merged(below, value));
        }
    }
    Value::Object(live)
}

/// Removes nulls from maps, at any depth: the API server keeps none.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Whether a condition of that type is true.
pub(crate) fn holds(object: &Value, condition: &str) -> bool {
    list(object, "/status/conditions").iter().any(|found| found["type"] == condition && found["status"] == "True")
}

/// Whether it is being deleted.
pub(crate) fn deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// RFC 3339 of seconds, as Kubernetes writes times.
pub(crate) fn time(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// UID of the controlling owner; empty when there is none.
pub(crate) fn controller(object: &Value) -> &str {
    let owners = list(object, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner["controller"] == true).map_or("", |owner| text(owner, "/uid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_patches_by_table() {
        for (live, patch, expected) in [
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 2})),
            (json!({"a": 1}), json!({"a": null}), json!({})),
            (json!({"a": {"b": 1}}), json!({"a": {"c": 2}}), json!({"a": {"b": 1, "c": 2}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": 1}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
            (json!({}), json!({"a": {"b": {"c": null}}}), json!({"a": {"b": {}}})),
        ] {
            assert_eq!(merged(live.clone(), &patch), expected, "{live} + {patch}");
        }
    }

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!(time(1_800_000_000_999), "2027-01-15T08:00:00Z");
    }
}
