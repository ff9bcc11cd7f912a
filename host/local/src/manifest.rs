//! What people write: manifests in YAML or JSON, and whether they may be applied.
//!
//! # Guarantees
//! 1. All documents are judged before any is applied, and all faults are told, each with its file, document and field.
//! 2. The judgement is a cluster's: schema, then the rules of the CRDs, those about changes, too, which [`vko_api::rules`]
//!    holds in Rust beside their CEL.
//!
//! # Flow
//! 1. [`read`] the text. 2. [`faults`] of all: what YAML took for something else ([`form`]), then the judgement. 3. Nothing:
//!    apply.

use serde_json::{Value, json};
use vko_api::names;
use vko_api::rules::{NEWEST, transitions};
use vko_api::translate::{read as read_valkey, read_sentinel};
use vko_api::validate;
use vko_api::validate::validate_sentinel;
use vko_apiserver::validate::{Fault, admit};
use vko_apiserver::{Key, Refusal, Resource, Store};
use vko_mock::Images;
use vko_mock::bed::{NAMESPACE, OPERATORS};

use crate::{form, servers};

/// Kinds that people may bring, and none else: the rest is the operator's, or has no meaning here.
pub(crate) const WRITTEN: [&str; 4] = ["Valkey", "Sentinel", "Secret", "ConfigMap"];

/// A document of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// Where it is, for people: file and number.
    pub(crate) place: String,
    pub(crate) object: Value,
}

impl Document {
    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `Valkey demo`.
    pub(crate) fn name(&self) -> String {
        title(self.text("/kind"), self.text("/metadata/namespace"), self.text("/metadata/name"))
    }
}

/// `Valkey demo`; with the namespace where it isn't the one that is meant where none is said.
pub(crate) fn title(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {}", named(namespace, name))
}

/// `demo`, or `shop/demo`.
pub(crate) fn named(namespace: &str, name: &str) -> String {
    if [NAMESPACE, ""].contains(&namespace) { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Reads a text; documents without a namespace are in [`NAMESPACE`], policies where the operator looks for them.
///
/// # Errors
/// It is no YAML, or holds no document; with the place.
pub(crate) fn read(file: &str, text: &str, store: &Store) -> Result<Vec<Document>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| format!("{file}: no YAML: {error}"))?;
    let documents: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).collect();
    if documents.is_empty() {
        return Err(format!("{file}: there is no document in it"));
    }
    let alone = documents.len() == 1;
    let place = |index: usize| if alone { file.to_owned() } else { format!("{file}, document {}", index + 1) };
    let document = |(index, mut object): (usize, Value)| {
        if object.is_object() && object["metadata"].is_object() && object["metadata"].get("namespace").is_none() {
            object["metadata"]["namespace"] = json!(meant(&object, store));
        }
        Document { place: place(index), object }
    };
    Ok(documents.into_iter().enumerate().map(document).collect())
}

/// The namespace of an object that names none. A ConfigMap that is in the operator's stays there when its label goes: else the
/// change would make another object, and the policy would govern on.
fn meant(object: &Value, store: &Store) -> &'static str {
    let is_policy = object["metadata"]["labels"][names::POLICY] == "true";
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let is_there = |namespace: &str| store.get(&Key::new("configmaps", namespace, name)).is_some();
    let was_policy = || object["kind"] == "ConfigMap" && is_there(OPERATORS) && !is_there(NAMESPACE);
    if is_policy || was_policy() { OPERATORS } else { NAMESPACE }
}

/// What is wrong with them, as the API server would say it; nothing if they may be applied.
pub(crate) fn faults(documents: &[Document], store: &Store, images: &Images) -> Vec<String> {
    let place = |document: &Document, why: String| format!("{}: {why}", document.place);
    documents
        .iter()
        .flat_map(|document| faults_of(document, store, images).into_iter().map(move |why| place(document, why)))
        .collect()
}

/// The kind of an object, if people may write it.
///
/// # Errors
/// What is wrong.
pub(crate) fn resource<'a>(document: &Document, store: &'a Store) -> Result<&'a Resource, Vec<String>> {
    let broken = form::faults(&document.object);
    if !broken.is_empty() {
        return Err(broken);
    }
    let (api_version, kind) = (document.text("/apiVersion"), document.text("/kind"));
    if !WRITTEN.contains(&kind) {
        let why = match kind {
            "Cluster" | "Failover" => "is made by the operator; write a Valkey",
            "User" => "is not supported yet",
            "List" => "isn't taken apart here; write its items as documents of their own, with a line --- between them",
            _ => "has no meaning here",
        };
        return Err(vec![format!("kind {kind} {why} ({} can be written)", WRITTEN.join(", "))]);
    }
    let served = store.resources().find(|known| known.kind == kind && known.api_version() == api_version);
    served.ok_or_else(|| {
        let known = store.resources().find(|known| known.kind == kind).map(Resource::api_version).unwrap_or_default();
        vec![format!("apiVersion is {api_version}; {kind} is served as {known}")]
    })
}

fn faults_of(document: &Document, store: &Store, images: &Images) -> Vec<String> {
    let resource = match resource(document, store) {
        Ok(resource) => resource,
        Err(faults) => return faults,
    };
    let (kind, name, namespace) = (document.text("/kind"), document.text("/metadata/name"), document.text("/metadata/namespace"));
    let invalid = |why: String| Refusal::invalid(kind, name, &why).to_string();
    let shape = shape(resource, &document.object);
    if !shape.is_empty() {
        return shape.into_iter().map(invalid).collect();
    }
    let live = store.get(&Key::new(resource.id(), namespace, name)).map(|live| &**live);
    let mut broken = broken_rules(kind, &document.object, live);
    if broken.is_empty() && ["Valkey", "Sentinel"].contains(&kind) {
        let line = Some(document.text("/spec/version")).filter(|line| !line.is_empty()).unwrap_or(NEWEST);
        if images.server(line).is_none() {
            return vec![format!("{}: spec.version: {}", document.name(), servers::how_to_get(images, line))];
        }
    }
    broken.drain(..).map(invalid).collect()
}

fn shape(resource: &Resource, object: &Value) -> Vec<String> {
    let fault = |fault| match fault {
        Fault::Invalid(why) => why,
        Fault::Unknown(path) => format!("{}: no such field", path.trim_start_matches('.')),
    };
    admit(resource, &mut object.clone()).into_iter().map(fault).collect()
}

fn broken_rules(kind: &str, object: &Value, live: Option<&Value>) -> Vec<String> {
    let (broken, changes) = match kind {
        "Valkey" => (read_valkey(object).map(|valkey| validate(&valkey)), transitions::valkey()),
        "Sentinel" => (read_sentinel(object).map(|sentinel| validate_sentinel(&sentinel)), transitions::sentinel()),
        _ => return Vec::new(),
    };
    let mut told: Vec<String> = match broken {
        Ok(broken) => broken.iter().map(ToString::to_string).collect(),
        Err(error) => return vec![error.to_string()],
    };
    told.extend(live.into_iter().flat_map(|live| transitions::refused(&changes, &live["spec"], &object["spec"])));
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use vko_apiserver::merged;
    use vko_apiserver::store::Manner;

    fn store() -> Store {
        let mut store = Store::default();
        for crd in vko_api::crd::crds() {
            store.create(Resource::definitions(), serde_json::to_value(crd).unwrap(), Manner::by("t")).unwrap();
        }
        let spec = "version: '9.1', arch: replica, replicas: {replicasOfShard: 2}";
        let live = read("live", &valkey(spec), &store).unwrap().remove(0);
        store.create("valkeys.rds.valkey.buf.red", live.object, Manner::by("t")).unwrap();
        store
    }

    fn valkey(spec: &str) -> String {
        format!(
            "apiVersion: rds.valkey.buf.red/v1alpha1\nkind: Valkey\nmetadata: {{name: demo}}\nspec: {{{spec}, resources: {{limits: {{memory: 64Mi}}}}}}\n"
        )
    }

    fn images() -> Images {
        let here = std::env::current_exe().unwrap();
        Images::of_lines([("9.1".to_owned(), here.clone())], &here).unwrap()
    }

    fn told(text: &str) -> String {
        let store = store();
        match read("a.yaml", text, &store) {
            Err(error) => error,
            Ok(documents) => faults(&documents, &store, &images()).join("\n"),
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let good = valkey("version: '9.1', arch: replica, replicas: {replicasOfShard: 3}");
        let other = good.replace("demo", "other");
        for (name, text, expected) in [
            ("good", good.clone(), ""),
            ("two good ones", format!("{good}---\n{other}"), ""),
            ("a secret", "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: p}}".to_owned(), ""),
            ("no YAML", "a: [".to_owned(), "a.yaml: no YAML"),
            ("nothing", "---\n".to_owned(), "no document"),
            ("no kind", "apiVersion: v1".to_owned(), "a.yaml: kind is missing"),
            ("a list", "- 1".to_owned(), "a.yaml: is a list"),
            ("a kind of lists", "{apiVersion: v1, kind: List, metadata: {}, items: []}".to_owned(), "a line --- between"),
            ("a name that is a number", good.replace("name: demo", "name: 123"), "metadata.name is 123, and must be text"),
            ("no amount", other.replace("64Mi", "lots"), "spec.resources.limits.memory is lots; use at least 64Mi, written like"),
            (
                "too many shards",
                other.replace("replica, replicas: {", "cluster, replicas: {shards: 129, "),
                "spec.replicas.shards is 129; use 3 to 128: no larger",
            ),
            ("a key twice", good.replace("spec:", "spec: {}\nspec:"), "a.yaml: no YAML: "),
            ("no name", "{apiVersion: v1, kind: Secret}".to_owned(), "metadata.name is missing"),
            (
                "the second",
                format!("{good}---\n{}", other.replace("arch", "arc")),
                "a.yaml, document 2: 422 Invalid: Valkey \"other\" is invalid: spec.arc: no such field",
            ),
            ("another version of the API", good.replace("v1alpha1", "v1"), "rds.valkey.buf.red/v1alpha1"),
            ("a kind of the operator's", good.replace("Valkey", "Failover"), "write a Valkey"),
            ("a kind of somebody else's", good.replace("kind: Valkey", "kind: Deployment"), "no meaning here"),
            ("a number for a text", good.replace("'9.1'", "9.1"), "spec.version: must be of type string, not 9.1"),
            ("a broken rule", other.replace("replicasOfShard: 3", "replicasOfShard: 9"), "spec.replicas.replicasOfShard"),
            ("a line that isn't here", other.replace("9.1", "8.1"), "no server of 8.1 on this machine, but 9.1 ("),
            (
                "a change that is refused",
                good.replace("arch: replica", "arch: cluster").replace("replicas: {", "replicas: {shards: 3, "),
                "spec.arch",
            ),
        ] {
            let found = told(&text);
            assert_eq!(found.is_empty(), expected.is_empty(), "{name}: {found}");
            assert!(found.contains(expected), "{name}: {found}");
        }
    }

    /// The end-to-end tests' manifests: file and text. There the CRDs' CEL judges them.
    fn shared(folder: &str) -> Vec<(String, String)> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/manifests").join(folder);
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), text)
        };
        paths.map(read).collect()
    }

    fn header<'a>(text: &'a str, key: &str) -> Option<&'a str> {
        text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(": "))
    }

    fn of_every_line() -> Images {
        let here = std::env::current_exe().unwrap();
        Images::of_lines(["7.2", "8.1", "9.1"].map(|line| (line.to_owned(), here.clone())), &here).unwrap()
    }

    /// The field that a refusal is about: its first word that is a path.
    fn field(text: &str) -> &str {
        text.split(' ').find(|word| word.starts_with("spec") || word.starts_with("metadata")).unwrap_or(text)
    }

    #[test]
    fn what_the_crds_refuse_by_cel_is_refused_here_by_the_same_rules_in_rust() {
        let mut judged = 0;
        for (name, text) in shared("bad") {
            let documents = read(&name, &text, &store()).unwrap();
            let found = faults(&documents, &store(), &of_every_line()).join("\n");
            let expected = header(&text, "expect").unwrap();
            let elsewhere = text.contains("kind: User") && found.contains("kind User is not supported yet");
            assert!(elsewhere || (!found.is_empty() && found.contains(field(expected))), "{name}: {expected:?}, but {found:?}");
            judged += 1;
        }
        assert!(judged >= 50, "{judged}");
    }

    #[test]
    fn changes_are_judged_here_as_the_crds_judge_them_by_cel() {
        let (mut before, mut accepted, mut refused) = (store(), 0, 0);
        for (name, text) in shared("good") {
            for document in read(&name, &text, &store()).unwrap() {
                assert_eq!(faults_of(&document, &before, &of_every_line()), Vec::<String>::new(), "{name}");
                let kind = before.resources().find(|known| known.kind == document.text("/kind")).unwrap().id().to_owned();
                before.create(&kind, document.object, Manner::by("t")).unwrap();
            }
        }
        for (name, text) in shared("changes") {
            let from = header(&text, "from").unwrap();
            let (kind, from) = from.split_once('/').unwrap_or(("valkey", from));
            let kind = if kind == "sentinel" { "sentinels.valkey.buf.red" } else { "valkeys.rds.valkey.buf.red" };
            let key = Key::new(kind, NAMESPACE, from);
            let after = merged((**before.get(&key).unwrap()).clone(), &serde_saphyr::from_str(&text).unwrap());
            let found = faults_of(&Document { place: name.clone(), object: after }, &before, &of_every_line()).join("\n");
            match header(&text, "expect") {
                None => assert_eq!(found, "", "{name}"),
                Some(expected) => assert!(found.contains(field(expected)), "{name}: {expected:?}, but {found:?}"),
            }
            *(if found.is_empty() { &mut accepted } else { &mut refused }) += 1;
        }
        assert!(accepted > 0 && refused > 15, "{accepted} {refused}");
    }

    #[test]
    fn namespaces_where_none_is_said() {
        let policy = "{kind: ConfigMap, metadata: {name: p, labels: {valkey.buf.red/policy: 'true'}}}";
        let plain = "{kind: ConfigMap, metadata: {name: p}}";
        let shop = "{kind: ConfigMap, metadata: {name: p, namespace: shop}}";
        let secret = "{kind: Secret, metadata: {name: p}}";
        for (text, there, expected) in [
            (policy, &[][..], OPERATORS),
            (policy, &[NAMESPACE], OPERATORS),
            (plain, &[], NAMESPACE),
            (plain, &[OPERATORS], OPERATORS),
            (plain, &[OPERATORS, NAMESPACE], NAMESPACE),
            (secret, &[OPERATORS], NAMESPACE),
            (shop, &[OPERATORS], "shop"),
        ] {
            let mut store = Store::default();
            for namespace in there {
                let object = json!({"metadata": {"name": "p", "namespace": namespace}});
                store.create("configmaps", object, Manner::by("t")).unwrap();
            }
            let found = read("a", text, &store).unwrap();
            assert_eq!(found[0].text("/metadata/namespace"), expected, "{text}, with one in {there:?}");
        }
    }

    #[test]
    fn examples_of_the_documentation_are_good() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let documents = read("example", &text.replace("name: demo", "name: example"), &store()).unwrap();
            assert_eq!(faults(&documents, &store(), &images()), Vec::<String>::new(), "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 4);
    }
}
