//! What YAML took for something else than its writer meant: `name: 123` is a number, `on` a truth, and a list of objects is none.
//! A cluster says so, too, but about a field of its own types. Pure.

use k8s_openapi::ByteString;
use serde_json::{Map, Value};

/// What is to be done about a value that isn't text.
const QUOTE: &str = "must be text: put it in quotes";

/// What is wrong with an object's form, by its fields' paths; nothing if it can be judged by its kind.
pub(crate) fn faults(object: &Value) -> Vec<String> {
    if !object.is_object() {
        let what = kind_of(object);
        return vec![format!(
            "is {what}, no object with apiVersion, kind and metadata; a file's documents have a line --- between"
        )];
    }
    let named = [("apiVersion", true), ("kind", true), ("metadata.name", true), ("metadata.namespace", false)];
    let told: Vec<String> = named.into_iter().filter_map(|(path, needed)| text(object, path, needed)).collect();
    // A List has items instead of a name, which is told of its kind.
    if !told.is_empty() && object["kind"] != "List" {
        return told;
    }
    let maps = ["metadata.labels", "metadata.annotations"].map(|path| (path, texts as Judge));
    let own: &[(&str, Judge)] = match object["kind"].as_str() {
        Some("Secret") => &[("stringData", secret_texts), ("data", secret_bytes)],
        Some("ConfigMap") => &[("data", texts), ("binaryData", bytes)],
        _ => &[],
    };
    maps.iter().chain(own).flat_map(|(path, judge)| map(object, path, *judge)).collect()
}

/// What is wrong with a value of a map; the path before it.
type Judge = fn(&Value) -> Option<String>;

fn map(object: &Value, path: &str, judge: Judge) -> Vec<String> {
    let of = |entries: &Map<String, Value>| {
        let fault = |(key, value): (&String, &Value)| judge(value).map(|why| format!("{path}.{key} {why}"));
        entries.iter().filter_map(fault).collect()
    };
    match at(object, path) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(entries)) => of(entries),
        Some(other) => vec![format!("{path} is {}, and must be keys with values", kind_of(other))],
    }
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, field| value.get(field))
}

fn text(object: &Value, path: &str, needed: bool) -> Option<String> {
    match at(object, path) {
        None | Some(Value::Null) => needed.then(|| format!("{path} is missing")),
        Some(Value::String(text)) => (needed && text.is_empty()).then(|| format!("{path} is missing")),
        Some(other) => texts(other).map(|why| format!("{path} {why}")),
    }
}

fn texts(value: &Value) -> Option<String> {
    match value {
        Value::String(_) => None,
        Value::Bool(truth) => {
            let words = if *truth { "true, yes and on" } else { "false, no and off" };
            Some(format!("is {truth}, which YAML makes of {words}, and {QUOTE}"))
        }
        Value::Number(number) => Some(format!("is {number}, and {QUOTE} (\"{number}\")")),
        other => Some(format!("is {}, and {QUOTE}", kind_of(other))),
    }
}

/// The same, where no value may be told.
fn secret_texts(value: &Value) -> Option<String> {
    (!value.is_string()).then(|| format!("is {}, and {QUOTE}", kind_of(value)))
}

fn bytes(value: &Value) -> Option<String> {
    let is_base64 = serde_json::from_value::<ByteString>(value.clone()).is_ok();
    (!is_base64).then(|| "is no base64; what is plain text goes into data".to_owned())
}

fn secret_bytes(value: &Value) -> Option<String> {
    bytes(value).map(|_| "is no base64; what is plain text goes into stringData".to_owned())
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth (true, yes, on, ...)",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "keys with values",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_by_table() {
        let object = |kind: &str, name: Value, more: Value| {
            let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            for (path, value) in more.as_object().into_iter().flatten() {
                match path.strip_prefix("metadata.") {
                    Some(field) => object["metadata"][field] = value.clone(),
                    None => object[path] = value.clone(),
                }
            }
            object
        };
        let map = |more: Value| object("ConfigMap", json!("a"), more);
        let secret = |more: Value| object("Secret", json!("a"), more);
        for (case, object, expected) in [
            ("good", map(json!({"metadata.labels": {"a": "1"}, "data": {"k": "v"}, "binaryData": {"k": "AAA="}})), ""),
            ("a list", json!([1]), "is a list, no object"),
            ("a text", json!("x"), "is text, no object"),
            ("no metadata", json!({"apiVersion": "v1", "kind": "Secret"}), "metadata.name is missing"),
            ("an empty name", object("Secret", json!(""), json!({})), "metadata.name is missing"),
            (
                "a number",
                object("Secret", json!(123), json!({})),
                "metadata.name is 123, and must be text: put it in quotes (\"123\")",
            ),
            (
                "a truth",
                object("Secret", json!(true), json!({})),
                "metadata.name is true, which YAML makes of true, yes and on, and",
            ),
            ("a list for a name", object("Secret", json!([]), json!({})), "metadata.name is a list"),
            (
                "a namespace",
                map(json!({"metadata.namespace": false})),
                "metadata.namespace is false, which YAML makes of false, no",
            ),
            ("a label", map(json!({"metadata.labels": {"x/y": true}})), "metadata.labels.x/y is true"),
            ("labels", map(json!({"metadata.labels": "x"})), "metadata.labels is text, and must be keys with values"),
            ("an annotation of nothing", map(json!({"metadata.annotations": {"a": null}})), "metadata.annotations.a is nothing"),
            ("data", map(json!({"data": {"port": 6379}})), "data.port is 6379"),
            ("no base64", map(json!({"binaryData": {"policy.wasm": "%"}})), "binaryData.policy.wasm is no base64"),
            ("a password that is a number", secret(json!({"stringData": {"password": 123}})), "stringData.password is a number"),
            ("a password that isn't base64", secret(json!({"data": {"password": "it's"}})), "goes into stringData"),
            ("another kind's data", object("Valkey", json!("a"), json!({"data": {"k": 1}})), ""),
            ("a list of objects, which has no name", json!({"apiVersion": "v1", "kind": "List", "items": []}), ""),
        ] {
            let told = faults(&object).join("; ");
            assert_eq!(told.is_empty(), expected.is_empty(), "{case}: {told}");
            assert!(told.contains(expected), "{case}: {told}");
        }
        let told = faults(&secret(json!({"stringData": {"a": 987_654}, "data": {"b": "s3cret!"}}))).join("; ");
        assert!(!told.contains("987654") && !told.contains("s3cret"), "no secret is told: {told}");
    }
}
