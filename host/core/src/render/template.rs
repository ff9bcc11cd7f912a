//! Decides which pod template is in force.
//!
//! # Guarantees
//! 1. A new operator, agent or policy version restarts no pod, and no pod that crashes or is drained comes back with another
//!    template than its siblings: the authorised template stays until the instance's spec changes or a roll-out is asked for.
//! 2. Edits of the live template are undone: the authorised one is kept beside it, as text, in an annotation of the StatefulSet.
//! 3. An annotation that was damaged never stops the operator: what can't be used counts as absent, and the rendered
//!    template is taken.
//!
//! # Assumptions
//! Who may edit a StatefulSet may run anything in its namespace; the annotation is no protection against them.
//!
//! # Flow
//! 1. Rendering stamps its template with the hash of the spec fields that it is made of and with the operator's version.
//! 2. [`choose_template`] takes the stored one if it was made of the same spec, else the rendered one.
//! 3. The choice is written as `spec.template` and, as text, into the annotation.
//! 4. [`template_state`] compares the stamps of each pod with those of the choice.

use std::collections::BTreeMap;

use serde_json::Value;
use vko_api::names;
use vko_wit::observation::TemplateState;

use crate::object::Object;
use crate::secret::hex;

/// Digits of a shortened digest: 64 bits, far from chance collisions among the few specs of one instance.
const DIGEST_DIGITS: usize = 16;

/// Where the template in force comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was authorised before, perhaps by another operator version.
    Stored,
    /// As this operator version renders it.
    Rendered,
}

/// The template in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// For `spec.template`.
    pub value: Value,
    /// The same as compact JSON, for the annotation. A stored one stays as it is, byte by byte.
    pub text: String,
    /// Its stamp: hash of the spec that it was made of.
    pub spec_hash: String,
    /// Its stamp: operator version that made it.
    pub software: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Chooses the template in force: the one that the live StatefulSet stores, if it can be used and was made of the same spec,
/// unless a roll-out is asked for; else the rendered one.
pub fn choose_template(live: Option<&Object>, rendered: &Value, roll_out: bool) -> Template {
    let text = canonical(rendered);
    let fresh = stamped(rendered.clone(), text, Origin::Rendered);
    if roll_out {
        return fresh;
    }
    let server = rendered.pointer("/spec/containers/0/name").unwrap_or(&Value::Null);
    live.and_then(|live| stored(live, server)).filter(|stored| stored.spec_hash == fresh.spec_hash).unwrap_or(fresh)
}

/// What a pod's template is, measured by the one in force. It compares the stamps, not the pod's fields: admission plugins
/// may change those of every pod (an image's registry, say), and no restart would cure that.
pub fn template_state(pod: &Object, chosen: &Template) -> TemplateState {
    let (spec_hash, software) = (pod.annotation(names::SPEC_HASH), pod.annotation(names::SOFTWARE));
    if spec_hash.is_empty() || software.is_empty() {
        TemplateState::Unknown
    } else if spec_hash != chosen.spec_hash {
        TemplateState::SpecChanged
    } else if software != chosen.software {
        TemplateState::NewerSoftware
    } else {
        TemplateState::Current
    }
}

/// The template that the StatefulSet stores, if it is one: stamped, and with the server in it, a container of that name.
fn stored(live: &Object, server: &Value) -> Option<Template> {
    let text = live.annotation(names::TEMPLATE);
    let value: Value = serde_json::from_str(text).ok()?;
    let template = stamped(value, text.to_owned(), Origin::Stored);
    let containers = template.value.pointer("/spec/containers")?.as_array()?;
    let serves = containers.iter().any(|container| container["name"] == *server && container["image"].is_string());
    (serves && !template.spec_hash.is_empty() && !template.software.is_empty()).then_some(template)
}

fn stamped(value: Value, text: String, origin: Origin) -> Template {
    let stamp = |key: &str| {
        let annotations = value.get("metadata").and_then(|metadata| metadata.get("annotations"));
        annotations.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    Template { spec_hash: stamp(names::SPEC_HASH), software: stamp(names::SOFTWARE), value, text, origin }
}

/// Compact JSON with sorted keys, whatever order the map keeps: equal values give equal texts in every build.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            let fields = sorted.into_iter().map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The first digits of SHA-256 in lower-case hexadecimal.
pub(super) fn short_digest(text: &str) -> String {
    let mut digits = hex(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref());
    digits.truncate(DIGEST_DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mk_template(spec_hash: &str, software: &str, mark: &str) -> Value {
        json!({
            "metadata": { "annotations": { names::SPEC_HASH: spec_hash, names::SOFTWARE: software } },
            "spec": { "containers": [{ "name": "valkey", "image": "i", "mark": mark }] },
        })
    }

    fn mk_live(stored: &str, live: &Value) -> Object {
        Object::new(json!({ "metadata": { "annotations": { names::TEMPLATE: stored } }, "spec": { "template": live } }))
    }

    /// A case: what the live StatefulSet stores, what its template is, whether a roll-out is asked for, and the mark of the
    /// choice.
    struct Case(&'static str, Option<String>, Value, bool, &'static str);

    fn cases() -> Vec<Case> {
        let rendered = || mk_template("h1", "2.0.0", "rendered");
        let old = || mk_template("h1", "1.0.0", "stored");
        let without = |pointer: &str| {
            let mut template = old();
            *template.pointer_mut(pointer).unwrap() = Value::Null;
            Some(template.to_string())
        };
        vec![
            Case("nothing is live", None, Value::Null, false, "rendered"),
            Case("same spec, same software", Some(mk_template("h1", "2.0.0", "stored").to_string()), old(), false, "stored"),
            Case("same spec, older software", Some(old().to_string()), old(), false, "stored"),
            Case("same spec, newer software", Some(mk_template("h1", "3.0.0", "stored").to_string()), old(), false, "stored"),
            Case("live template edited", Some(old().to_string()), mk_template("h1", "1.0.0", "edited"), false, "stored"),
            Case("live stamps edited", Some(old().to_string()), mk_template("h9", "9", "edited"), false, "stored"),
            Case("spec changed", Some(mk_template("h0", "1.0.0", "stored").to_string()), old(), false, "rendered"),
            Case("roll-out asked for", Some(old().to_string()), old(), true, "rendered"),
            Case("no annotation", Some(String::new()), rendered(), false, "rendered"),
            Case("annotation cut short", Some(old().to_string()[..40].to_owned()), old(), false, "rendered"),
            Case("annotation of another kind", Some("[1]".to_owned()), old(), false, "rendered"),
            Case("annotation without stamps", without("/metadata/annotations"), old(), false, "rendered"),
            Case(
                "annotation without software",
                without("/metadata/annotations/valkey.buf.red~1software"),
                old(),
                false,
                "rendered",
            ),
            Case("annotation without containers", without("/spec/containers"), old(), false, "rendered"),
            Case("annotation without the server", without("/spec/containers/0/name"), old(), false, "rendered"),
            Case("annotation without an image", without("/spec/containers/0/image"), old(), false, "rendered"),
        ]
    }

    #[test]
    fn the_template_in_force() {
        let rendered = mk_template("h1", "2.0.0", "rendered");
        for Case(name, stored, live, roll_out, expected) in cases() {
            let live = stored.as_ref().map(|stored| mk_live(stored, &live));
            let chosen = choose_template(live.as_ref(), &rendered, roll_out);
            assert_eq!(chosen.value["spec"]["containers"][0]["mark"], expected, "{name}");
            let origin = if expected == "stored" { Origin::Stored } else { Origin::Rendered };
            assert_eq!(chosen.origin, origin, "{name}");
            assert_eq!(serde_json::from_str::<Value>(&chosen.text).unwrap(), chosen.value, "{name}");
        }
    }

    #[test]
    fn a_stored_text_stays_byte_by_byte() {
        let text = format!(" {} ", mk_template("h1", "1.0.0", "stored"));
        let chosen = choose_template(Some(&mk_live(&text, &Value::Null)), &mk_template("h1", "2.0.0", "rendered"), false);
        assert_eq!(chosen.text, text);
    }

    #[test]
    fn a_choice_is_kept_by_the_next_look() {
        let first = choose_template(None, &mk_template("h1", "1.0.0", "first"), false);
        let live = mk_live(&first.text, &first.value);
        let second = choose_template(Some(&live), &mk_template("h1", "2.0.0", "second"), false);
        assert_eq!((second.value, second.text), (first.value, first.text));
    }

    #[test]
    fn a_pods_template_is_judged_by_its_stamps() {
        let chosen = choose_template(None, &mk_template("h1", "2.0.0", "rendered"), false);
        for (name, spec_hash, software, expected) in [
            ("both equal", "h1", "2.0.0", TemplateState::Current),
            ("older software", "h1", "1.0.0", TemplateState::NewerSoftware),
            ("another spec", "h0", "2.0.0", TemplateState::SpecChanged),
            ("another spec and older software", "h0", "1.0.0", TemplateState::SpecChanged),
            ("no hash", "", "2.0.0", TemplateState::Unknown),
            ("no software", "h1", "", TemplateState::Unknown),
        ] {
            let annotations = json!({ names::SPEC_HASH: spec_hash, names::SOFTWARE: software });
            let pod = Object::new(json!({ "metadata": { "annotations": annotations } }));
            assert_eq!(template_state(&pod, &chosen), expected, "{name}");
        }
        assert_eq!(template_state(&Object::new(json!({})), &chosen), TemplateState::Unknown);
    }

    #[test]
    fn canonical_json_is_sorted_and_compact() {
        let value = json!({ "b": [1, { "d": null, "c": "\"" }], "a": {} });
        assert_eq!(canonical(&value), r#"{"a":{},"b":[1,{"c":"\"","d":null}]}"#);
    }

    #[test]
    fn a_short_digest_is_the_head_of_sha256() {
        assert_eq!(short_digest("abc"), "ba7816bf8f01cfea");
    }
}
