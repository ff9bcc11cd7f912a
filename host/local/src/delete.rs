//! `delete`: what people applied goes, as in a cluster: the operator ends an instance in its order, claims stay unless the spec
//! says otherwise.
//!
//! # Guarantees
//! 1. All that is named is judged before any of it is deleted.
//! 2. What the operator made isn't deleted: it would make it anew.
//! 3. What is answered as gone is gone: nothing is left of it but claims that are retained, and those are named.
//!
//! # Flow
//! 1. [`targets`] finds what is meant. 2. The API server deletes it. 3. [`left`] says what is still there, until nothing is.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vko_api::names;
use vko_apiserver::{Key, Resource, Store};
use vko_mock::bed::{NAMESPACE, OPERATORS};

use crate::manifest::{self, Document, title};
use crate::view::{VALKEYS, list, text};

/// Kinds of what the operator makes of a Valkey.
pub(crate) const TOPOLOGIES: [&str; 2] = ["clusters.valkey.buf.red", "failovers.valkey.buf.red"];
const CLAIMS: &str = "persistentvolumeclaims";

/// What shall go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Doomed {
    /// What manifests name: files' names and texts.
    Files(Vec<(String, String)>),
    /// One object.
    Named { kind: String, name: String, namespace: Option<String> },
}

/// An object that is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) key: Key,
    /// One that is applied anew meanwhile is another.
    uid: String,
    /// For people.
    pub(crate) title: String,
}

/// What is meant of what is there, and the titles of what isn't.
///
/// # Errors
/// All that is wrong, a line each.
pub(crate) fn targets(doomed: &Doomed, store: &Store) -> Result<(Vec<Target>, Vec<String>), Vec<String>> {
    let named = match doomed {
        Doomed::Files(files) => of_files(files, store)?,
        Doomed::Named { kind, name, namespace } => vec![of_words(kind, name, namespace.as_deref(), store)?],
    };
    let (mut found, mut absent, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (key, title) in named {
        match store.get(&key) {
            None => absent.push(title),
            Some(object) => match refusal(object) {
                Some(why) => refused.push(format!("{title} {why}")),
                None => found.push(Target { uid: text(object, "/metadata/uid").to_owned(), key, title }),
            },
        }
    }
    if refused.is_empty() { Ok((found, absent)) } else { Err(refused) }
}

fn of_files(files: &[(String, String)], store: &Store) -> Result<Vec<(Key, String)>, Vec<String>> {
    let mut documents: Vec<Document> = Vec::new();
    for (file, text) in files {
        documents.extend(manifest::read(file, text, store).map_err(|error| vec![error])?);
    }
    let (mut named, mut wrong) = (Vec::new(), Vec::new());
    for document in &documents {
        let (namespace, name) = (text(&document.object, "/metadata/namespace"), text(&document.object, "/metadata/name"));
        match manifest::resource(document, store) {
            Ok(kind) => named.push((Key::new(kind.id(), namespace, name), document.name())),
            Err(faults) => wrong.extend(faults.into_iter().map(|fault| format!("{}: {fault}", document.place))),
        }
    }
    if wrong.is_empty() { Ok(named) } else { Err(wrong) }
}

fn of_words(kind: &str, name: &str, namespace: Option<&str>, store: &Store) -> Result<(Key, String), Vec<String>> {
    let Some(resource) = by_name(kind, store) else {
        return Err(vec![format!("kind {kind} can't be deleted ({} can)", manifest::WRITTEN.join(", "))]);
    };
    let key = |namespace: &str| Key::new(resource.id(), namespace, name);
    // Without a namespace a policy's ConfigMap is where it was applied to without one.
    let is_policy = || store.get(&key(NAMESPACE)).is_none() && store.get(&key(OPERATORS)).is_some();
    let key = key(namespace.unwrap_or_else(|| if is_policy() { OPERATORS } else { NAMESPACE }));
    let title = title(&resource.kind, &key.namespace, name);
    Ok((key, title))
}

/// A kind of [`manifest::WRITTEN`], as people call it: `valkey`, `Valkeys`, `cm`.
fn by_name<'a>(word: &str, store: &'a Store) -> Option<&'a Resource> {
    let word = word.to_lowercase();
    let is_meant = |kind: &&Resource| {
        let singular = kind.kind.to_lowercase();
        word == singular || word == kind.plural || (word == "cm" && singular == "configmap")
    };
    store.resources().filter(|kind| manifest::WRITTEN.contains(&&*kind.kind)).find(is_meant)
}

/// Why an object isn't for people to delete.
fn refusal(object: &Value) -> Option<String> {
    let is_owned = !list(object, "/metadata/ownerReferences").is_empty();
    let labels = &object["metadata"]["labels"];
    let instance = labels[names::INSTANCE].as_str().unwrap_or_default();
    (is_owned || labels[names::MANAGED_BY] == names::OPERATOR)
        .then(|| format!("is the operator's, who would make it anew; it goes with its instance {instance}"))
}

/// What is still there of a deleted object, by kind and name; nothing once it has gone.
pub(crate) fn left(store: &Store, target: &Target) -> Vec<String> {
    let is_target = |key: &Key, object: &Value| *key == target.key && text(object, "/metadata/uid") == target.uid;
    let of_target = |key: &Key, object: &Value| is_target(key, object) || is_part(store, target, key, object);
    let named = |key: &Key, object: &Value| format!("{} {}", text(object, "/kind"), key.name);
    store.all().filter(|(key, object)| of_target(key, object)).map(|(key, object)| named(key, object)).collect()
}

/// Whether an object is of an instance that has gone: by its label, and because it is ending or nobody's any more. (What lives on
/// is of another one of that name.)
fn is_part(store: &Store, target: &Target, key: &Key, object: &Value) -> bool {
    let Key { namespace, name, .. } = &target.key;
    if !is_instance(target) || key.namespace != *namespace {
        return false;
    }
    let owners = list(object, "/metadata/ownerReferences");
    let is_ending = object.pointer("/metadata/deletionTimestamp").is_some();
    if TOPOLOGIES.contains(&&*key.resource) && key.name == *name {
        return target.key.resource == VALKEYS && owners.iter().any(|owner| text(owner, "/uid") == target.uid);
    }
    let lives = |owner: &Value| store.all().any(|(_, object)| text(object, "/metadata/uid") == text(owner, "/uid"));
    let is_nobodys = !owners.is_empty() && !owners.iter().any(lives);
    object["metadata"]["labels"][names::INSTANCE] == name.as_str() && (is_ending || is_nobodys)
}

fn is_instance(target: &Target) -> bool {
    crate::view::INSTANCES.contains(&&*target.key.resource)
}

/// Claims that stay when an instance has gone.
pub(crate) fn retained(store: &Store, target: &Target) -> Vec<String> {
    let ours = |object: &Value| object["metadata"]["labels"][names::INSTANCE] == target.key.name.as_str();
    let has_claims = target.key.resource == VALKEYS;
    let claims = store.list(CLAIMS, Some(&target.key.namespace)).filter(|(_, claim)| has_claims && ours(claim));
    claims.map(|(key, _)| key.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vko_apiserver::store::Manner;

    const BY: Manner<'static> = Manner::by("t");

    fn store() -> Store {
        let mut store = Store::default();
        for crd in vko_api::crd::crds() {
            store.create(Resource::definitions(), serde_json::to_value(crd).unwrap(), BY).unwrap();
        }
        for (resource, namespace, name) in [
            ("configmaps", NAMESPACE, "mine"),
            ("configmaps", OPERATORS, "policy"),
            ("secrets", "shop", "mine"),
            ("secrets", NAMESPACE, "theirs"),
        ] {
            add(&mut store, resource, namespace, name, json!({}), json!([]));
        }
        let labels = json!({names::MANAGED_BY: names::OPERATOR, names::INSTANCE: "demo"});
        store.merge(&Key::new("secrets", NAMESPACE, "theirs"), &json!({"metadata": {"labels": labels}}), BY).unwrap();
        store
    }

    fn add(store: &mut Store, resource: &str, namespace: &str, name: &str, labels: Value, owners: Value) -> String {
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels, "ownerReferences": owners});
        let made = store.create(resource, json!({"metadata": metadata}), BY).unwrap();
        text(&made, "/metadata/uid").to_owned()
    }

    #[test]
    fn what_is_meant_by_table() {
        let store = store();
        let named = |kind: &str, name: &str, namespace: Option<&str>| Doomed::Named {
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(Into::into),
        };
        let file = |text: &str| Doomed::Files(vec![("a.yaml".into(), text.into())]);
        for (case, doomed, expected) in [
            ("a kind and a name", named("configmap", "mine", None), "found ConfigMap mine"),
            ("as kubectl has it", named("cm", "mine", None), "found ConfigMap mine"),
            ("several, in capitals", named("ConfigMaps", "mine", None), "found ConfigMap mine"),
            ("a policy is in the operator's namespace", named("cm", "policy", None), "found ConfigMap valkey-system/policy"),
            ("a namespace", named("secret", "mine", Some("shop")), "found Secret shop/mine"),
            ("another namespace", named("secret", "mine", None), "absent Secret mine"),
            ("the operator's", named("secret", "theirs", None), "refused Secret theirs is the operator's"),
            ("a kind that isn't theirs", named("pod", "rfr-demo-0", None), "refused kind pod can't be deleted (Valkey, "),
            ("a file", file("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}"), "found ConfigMap mine"),
            (
                "a file, of which only the name counts",
                file("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}, x: y}"),
                "found",
            ),
            (
                "a policy in a file",
                file("{apiVersion: v1, kind: ConfigMap, metadata: {name: policy}}"),
                "found ConfigMap valkey-",
            ),
            ("a file without a name", file("{apiVersion: v1, kind: ConfigMap}"), "refused a.yaml: metadata.name is missing"),
        ] {
            let told = match targets(&doomed, &store) {
                Err(refused) => format!("refused {}", refused.join("; ")),
                Ok((found, absent)) => {
                    let found = found.iter().map(|target| format!("found {}", target.title));
                    found.chain(absent.iter().map(|title| format!("absent {title}"))).collect::<Vec<_>>().join("; ")
                }
            };
            assert!(told.starts_with(expected), "{case}: {told}");
        }
    }

    #[test]
    fn an_instance_has_gone_when_nothing_of_it_is_left_but_claims_that_are_retained() {
        let mut store = Store::default();
        for crd in vko_api::crd::crds() {
            store.create(Resource::definitions(), serde_json::to_value(crd).unwrap(), BY).unwrap();
        }
        let labels = || json!({names::INSTANCE: "demo"});
        let gone = || json!([{"apiVersion": "v1", "kind": "Valkey", "name": "demo", "uid": "v1"}]);
        let target = Target { key: Key::new(VALKEYS, "n", "demo"), uid: "v1".into(), title: String::new() };
        add(&mut store, CLAIMS, "n", "retained", labels(), json!([]));
        assert_eq!((left(&store, &target), retained(&store, &target)), (vec![], vec!["retained".to_owned()]));
        let of_another = add(&mut store, "configmaps", "n", "another", json!({}), json!([]));
        let living = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "another", "uid": of_another}]);
        add(&mut store, "services", "n", "of-another-of-that-name", labels(), living);
        add(&mut store, "secrets", "elsewhere", "s", labels(), gone());
        assert!(left(&store, &target).is_empty(), "nothing of it");
        add(&mut store, "secrets", "n", "s", labels(), gone());
        assert_eq!(left(&store, &target), ["Secret s"], "its owner is gone");
        add(&mut store, "configmaps", "n", "c", labels(), json!([]));
        store.merge(&Key::new("configmaps", "n", "c"), &json!({"metadata": {"finalizers": ["x/y"]}}), BY).unwrap();
        store.delete(&Key::new("configmaps", "n", "c"), &vko_apiserver::store::DeleteOptions::default()).unwrap();
        assert_eq!(left(&store, &target), ["ConfigMap c", "Secret s"], "it is ending");
    }
}
