//! Garbage collection by owners.
//!
//! 1. An object all of whose owners are gone is deleted; owners that are gone are taken off those that have others.
//! 2. An owner deleted in the foreground stays until its dependents are gone, which are deleted first.
//! 3. An owner whose dependents shall stay stays until they are released.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::json::{deleting, list, text};
use crate::resource::Key;
use crate::store::{DeleteOptions, FOREGROUND, Manner, ORPHAN, Store};

const BY: Manner<'static> = Manner::by("kube-controller-manager");

pub(super) fn run(store: &mut Store) {
    let living: BTreeSet<String> = store.all().map(|(_, object)| text(object, "/metadata/uid").to_owned()).collect();
    let held =
        |object: &Value, by: &str| deleting(object) && list(object, "/metadata/finalizers").iter().any(|found| found == by);
    let find = |store: &Store, by: &str| -> Vec<(Key, String)> {
        let found = store.all().filter(|(_, object)| held(object, by));
        found.map(|(key, object)| (key.clone(), text(object, "/metadata/uid").to_owned())).collect()
    };
    for (key, uid) in find(store, ORPHAN) {
        for (dependent, _) in dependents(store, &uid) {
            disown(store, &dependent, |owner| owner == uid);
        }
        release(store, &key, ORPHAN);
    }
    for (key, uid) in find(store, FOREGROUND) {
        let left = dependents(store, &uid);
        for (dependent, uid) in &left {
            let foreground = DeleteOptions { propagation_policy: Some("Foreground".into()), ..DeleteOptions::of(uid) };
            if store.get(dependent).is_some_and(|object| !deleting(object)) {
                let _ = store.delete(dependent, &foreground);
            }
        }
        if left.is_empty() {
            release(store, &key, FOREGROUND);
        }
    }
    let owned: Vec<(Key, _)> = store
        .all()
        .filter(|(_, object)| !list(object, "/metadata/ownerReferences").is_empty())
        .map(|(key, object)| (key.clone(), object.clone()))
        .collect();
    for (key, object) in owned {
        let owners = list(&object, "/metadata/ownerReferences");
        let gone = owners.iter().filter(|owner| !living.contains(text(owner, "/uid"))).count();
        if gone == owners.len() && !deleting(&object) {
            let _ = store.delete(&key, &DeleteOptions::of(text(&object, "/metadata/uid")));
        } else if gone > 0 && gone < owners.len() {
            disown(store, &key, |owner| !living.contains(owner));
        }
    }
}

fn dependents(store: &Store, uid: &str) -> Vec<(Key, String)> {
    let owned = |object: &Value| list(object, "/metadata/ownerReferences").iter().any(|owner| text(owner, "/uid") == uid);
    let found = store.all().filter(|(_, object)| owned(object));
    found.map(|(key, object)| (key.clone(), text(object, "/metadata/uid").to_owned())).collect()
}

fn disown(store: &mut Store, key: &Key, of: impl Fn(&str) -> bool) {
    let _ = store.change(key, BY, |object| {
        let owners = list(object, "/metadata/ownerReferences").iter().filter(|owner| !of(text(owner, "/uid")));
        let owners: Vec<Value> = owners.cloned().collect();
        object["metadata"]["ownerReferences"] = if owners.is_empty() { Value::Null } else { json!(owners) };
    });
}

fn release(store: &mut Store, key: &Key, finalizer: &str) {
    let _ = store.change(key, BY, |object| {
        if let Some(all) = object["metadata"]["finalizers"].as_array_mut() {
            all.retain(|found| found != finalizer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, names};
    use super::*;

    fn map(name: &str, owners: &[&str], finalizers: Value) -> Value {
        let owner = |uid: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid});
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n", "ownerReferences": owners, "finalizers": finalizers}})
    }

    fn uid(store: &Store, name: &str) -> String {
        text(store.get(&Key::new("configmaps", "n", name)).unwrap(), "/metadata/uid").to_owned()
    }

    /// An owner with a dependent; how the owner is deleted.
    fn family(policy: &str, finalizers: Value) -> Store {
        let mut store = Store::default();
        create(&mut store, "configmaps", map("owner", &[], json!([])));
        let owner = uid(&store, "owner");
        create(&mut store, "configmaps", map("child", &[&owner], finalizers));
        let options = DeleteOptions { propagation_policy: Some(policy.into()), ..DeleteOptions::default() };
        store.delete(&Key::new("configmaps", "n", "owner"), &options).unwrap();
        super::super::run(&mut store);
        store
    }

    #[test]
    fn dependents_by_table() {
        for (policy, finalizers, left) in [
            ("Background", json!([]), vec![]),
            ("Foreground", json!([]), vec![]),
            ("Orphan", json!([]), vec!["child"]),
            ("Background", json!(["x/y"]), vec!["child"]),
            ("Foreground", json!(["x/y"]), vec!["child", "owner"]),
        ] {
            let mut store = family(policy, finalizers.clone());
            assert_eq!(names(&store, "configmaps"), left, "{policy} {finalizers}");
            if policy == "Orphan" {
                let child = store.get(&Key::new("configmaps", "n", "child")).unwrap();
                assert_eq!(child.pointer("/metadata/ownerReferences"), None, "released");
                continue;
            }
            let child = Key::new("configmaps", "n", "child");
            if store.get(&child).is_some() {
                store.change(&child, BY, |child| child["metadata"]["finalizers"] = Value::Null).unwrap();
                super::super::run(&mut store);
            }
            assert!(names(&store, "configmaps").is_empty(), "{policy} {finalizers}: once nothing holds it");
        }
    }

    #[test]
    fn one_of_two_owners_is_enough() {
        let mut store = Store::default();
        create(&mut store, "configmaps", map("a", &[], json!([])));
        create(&mut store, "configmaps", map("b", &[], json!([])));
        let (a, b) = (uid(&store, "a"), uid(&store, "b"));
        create(&mut store, "configmaps", map("child", &[&a, &b], json!([])));
        store.delete(&Key::new("configmaps", "n", "a"), &DeleteOptions::default()).unwrap();
        super::super::run(&mut store);
        let child = store.get(&Key::new("configmaps", "n", "child")).unwrap();
        assert_eq!(list(child, "/metadata/ownerReferences").len(), 1);
    }

    #[test]
    fn an_owner_that_never_was_is_gone() {
        let mut store = Store::default();
        create(&mut store, "configmaps", map("child", &["nobody"], json!([])));
        assert!(names(&store, "configmaps").is_empty());
    }
}
