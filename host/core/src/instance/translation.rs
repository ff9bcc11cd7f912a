//! From the Valkey to its topology object: validate, translate, compare, apply.
//!
//! # Guarantees
//! 1. A Valkey that is refused changes nothing: the topology object stays as it is, and the instance goes on serving.
//! 2. Edits of the topology object's spec are undone.
//! 3. A new map of images in the operator's configuration changes no instance that runs: the image stays as it was when the
//!    version was authorised, in an annotation of the topology object.

use serde_json::{Value, json};
use vko_api::{TopologySpec, names, translate};
use vko_model::version::Line;
use vko_wit::planning::Severity;

use super::Instance;
use super::finish::finished_line;
use super::look::Refused;
use super::topology::{Named, is_foreign, kind_of};
use crate::diff::differs;
use crate::ledger::Ledger;
use crate::object::{Kind, Object};
use crate::world::{ApiError, World};

impl<W: World> Instance<W> {
    /// Brings the topology object to what the Valkey says.
    ///
    /// # Errors
    /// The API server's. A refused spec is no error here: it is the answer.
    pub(super) async fn translate(&self, valkey: &Object, live: Option<&Named>) -> Result<Option<Refused>, ApiError> {
        let kind = kind_of(valkey);
        if let Some(other) = live.filter(|live| live.id.kind != kind) {
            return Ok(Some(self.other_kind(valkey, other)));
        }
        let live = live.map(|live| &live.object);
        let spec = match self.wanted_spec(valkey, live) {
            Ok(spec) => spec,
            Err(refused) => return Ok(Some(refused)),
        };
        let wanted = topology_object(valkey, kind, &spec);
        let live = match live {
            Some(live) => Some(live.clone()),
            None => self.shared.world.get(&self.own_id(kind)).await?,
        };
        match live {
            Some(live) if live.deleting() => {}
            Some(live) if is_foreign(&live, valkey) => {
                let message = format!(
                    "a {} {} exists that belongs to something else; delete it or choose another name",
                    kind.name(),
                    self.key.name
                );
                return Ok(Some(Refused { reason: "TopologyForeign".into(), message }));
            }
            Some(live) => {
                if let Some(path) = differs(&wanted, &live, names::OPERATOR) {
                    tracing::info!(
                        namespace = self.key.namespace,
                        instance = self.key.name,
                        path,
                        "the topology object is brought to the spec"
                    );
                    self.shared.world.apply(&wanted).await?;
                }
            }
            None => {
                self.shared.world.apply(&wanted).await?;
            }
        }
        Ok(None)
    }

    /// The topology object that a Valkey would become, which isn't there: for the end of what it left behind. Of a spec that is
    /// refused only what is said of volumes is known.
    pub(super) fn imagined(&self, valkey: &Object) -> Named {
        let kind = kind_of(valkey);
        let storage = || json!({"storage": valkey.0.pointer("/spec/storage")});
        let spec = self.wanted_spec(valkey, None).unwrap_or_else(|_| storage());
        Named { id: self.own_id(kind), object: Object::new(topology_object(valkey, kind, &spec)) }
    }

    /// What governs has another kind than this Valkey becomes.
    fn other_kind(&self, valkey: &Object, live: &Named) -> Refused {
        let (kind, name) = (live.id.kind.name(), &self.key.name);
        if is_foreign(&live.object, valkey) {
            let message =
                format!("the {kind} {name} of something else, or of a former Valkey, has this name; it has to be gone first");
            return Refused { reason: "TopologyForeign".into(), message };
        }
        let message = format!("spec.arch was changed, which is refused: {name} is served by a {kind}; set it back");
        Refused { reason: "ChangeRefused".into(), message }
    }

    fn wanted_spec(&self, valkey: &Object, live: Option<&Object>) -> Result<Value, Refused> {
        let refuse = |reason: &str, message: String| Refused { reason: reason.into(), message };
        let typed = translate::read(&valkey.0).and_then(|typed| translate::translate(&typed, &self.shared.images));
        let spec = typed.map_err(|error| refuse(error.reason(), error.to_string()))?;
        let live_spec = live.and_then(|live| live.0.get("spec"));
        if let Some(live) = live_spec.and_then(|live| TopologySpec::read(spec.kind(), live)) {
            let violations = translate::refused_changes(&live, &spec);
            if !violations.is_empty() {
                return Err(refuse("ChangeRefused", violations.iter().map(ToString::to_string).collect::<Vec<_>>().join(". ")));
            }
        }
        let mut json = serde_json::to_value(&spec).map_err(|error| refuse("SpecUnreadable", error.to_string()))?;
        if let Some(finished) = live.and_then(|live| undercut(live, &json)) {
            let message = format!(
                "spec.version: {} is older than {finished}, which all members have finished: what they saved can't be read by an \
                 older server; set it back to {finished}, or make another instance and copy the data",
                json["version"].as_str().unwrap_or_default()
            );
            return Err(refuse("DowngradeRefused", message));
        }
        keep_image(&mut json, live);
        self.ask_policy(kind_of(valkey), &json, live_spec)?;
        Ok(json)
    }

    /// The policy's word on a spec that differs from the one in force.
    fn ask_policy(&self, kind: Kind, spec: &Value, live: Option<&Value>) -> Result<(), Refused> {
        if live == Some(spec) {
            return Ok(());
        }
        let architecture = crate::observe::architecture(kind, spec);
        let Some(policy) = self.shared.registry.built_in(architecture) else { return Ok(()) };
        let previous = live.map(Value::to_string).unwrap_or_default();
        let Ok(violations) = policy.validate(&spec.to_string(), &previous) else { return Ok(()) };
        let errors: Vec<String> =
            violations.iter().filter(|v| v.severity == Severity::Error).map(|v| format!("{}: {}", v.field, v.message)).collect();
        if errors.is_empty() { Ok(()) } else { Err(Refused { reason: "PolicyRefusesSpec".into(), message: errors.join("; ") }) }
    }
}

/// The line that all members have finished, if a changed spec asks for an older one. Taking back an upgrade that not all have
/// finished is no such change.
fn undercut(live: &Object, wanted: &Value) -> Option<Line> {
    let line = |spec: &Value| spec["version"].as_str()?.parse::<Line>().ok();
    let finished = finished_line(&Ledger::read(live.0.get("status")))?;
    let wanted_line = line(wanted)?;
    (wanted_line < finished && line(&live.0["spec"]) != Some(wanted_line)).then_some(finished)
}

/// What is authorised together with a version.
const IMAGE_FIELDS: [&str; 4] = ["version", "image", "imagePullPolicy", "imagePullSecrets"];

/// Keeps image and pull settings of the version in force. An annotation that was damaged is as good as none.
pub(super) fn keep_image(spec: &mut Value, live: Option<&Object>) {
    let authorised = live.and_then(|live| serde_json::from_str::<Value>(live.annotation(names::IMAGE)).ok());
    let Some(authorised) = authorised.filter(|kept| kept["version"] == spec["version"] && kept["image"].is_string()) else {
        return;
    };
    let Some(fields) = spec.as_object_mut() else { return };
    for field in IMAGE_FIELDS {
        match authorised.get(field) {
            Some(kept) => fields.insert(field.into(), kept.clone()),
            None => fields.remove(field),
        };
    }
}

pub(super) fn image_annotation(spec: &Value) -> String {
    let fields = IMAGE_FIELDS.iter().filter_map(|field| Some(((*field).to_owned(), spec.get(*field)?.clone())));
    Value::Object(fields.collect()).to_string()
}

fn topology_object(valkey: &Object, kind: Kind, spec: &Value) -> Value {
    let component = if kind == Kind::Cluster { names::component::CLUSTER } else { names::component::FAILOVER };
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {
            "name": valkey.name(),
            "namespace": valkey.namespace(),
            "labels": {
                names::MANAGED_BY: names::OPERATOR,
                names::COMPONENT: component,
                names::APP_NAME: "valkey",
                names::TYPE: component,
                names::INSTANCE: valkey.name(),
                names::VALKEY_UID: valkey.uid(),
            },
            "annotations": { names::IMAGE: image_annotation(spec) },
            "finalizers": [names::FINALIZER],
            "ownerReferences": [{
                "apiVersion": Kind::Valkey.api_version(),
                "kind": Kind::Valkey.name(),
                "name": valkey.name(),
                "uid": valkey.uid(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(version: &str, image: &str) -> Value {
        json!({ "image": image, "version": version, "replicas": 1 })
    }

    #[test]
    fn the_image_stays_as_it_was_when_the_version_was_authorised() {
        let kept = image_annotation(&spec("9.1", "a:9.1.1"));
        let cases = [
            ("no topology object", None, "9.1", "a:9.1.2"),
            ("the same version", Some(kept.clone()), "9.1", "a:9.1.1"),
            ("another version", Some(kept), "8.1", "a:9.1.2"),
            ("a damaged annotation", Some("{".into()), "9.1", "a:9.1.2"),
            ("one without an image", Some(r#"{"version": "9.1"}"#.into()), "9.1", "a:9.1.2"),
        ];
        for (name, annotation, version, expected) in cases {
            let live = annotation.map(|text| Object::new(json!({"metadata": {"annotations": {names::IMAGE: text}}})));
            let mut wanted = spec(version, "a:9.1.2");
            keep_image(&mut wanted, live.as_ref());
            assert_eq!(wanted["image"], expected, "{name}");
        }
    }

    #[test]
    fn below_what_all_have_finished_there_is_no_way_back() {
        let table = [
            ("the same", Some("9.1.2"), "9.1", "9.1", None),
            ("a newer one", Some("8.1.1"), "8.1", "9.1", None),
            ("an upgrade that not all have finished is taken back", Some("8.1.1"), "9.1", "8.1", None),
            ("all have finished it", Some("9.1.2"), "9.1", "8.1", Some(Line::V9_1)),
            ("below what was before it", Some("8.1.1"), "9.1", "7.2", Some(Line::V8_1)),
            ("in force already", Some("9.1.2"), "8.1", "8.1", None),
            ("nobody knows what they finished", None, "9.1", "8.1", None),
        ];
        for (case, finished, live, wanted, expected) in table {
            let status = json!({"ledger": {"formed": true, "finishedVersion": finished}});
            let live = Object::new(json!({"spec": spec(live, "a:1"), "status": status}));
            assert_eq!(undercut(&live, &spec(wanted, "a:2")), expected, "{case}");
        }
    }
}
