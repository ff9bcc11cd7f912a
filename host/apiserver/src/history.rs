//! How things stood: objects of a kind at an earlier version, by undoing what has happened since.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::refusal::Refusal;
use crate::resource::Key;
use crate::store::{Event, Store};

/// The objects of a kind as they were at a version, of one namespace or of all, sorted.
///
/// # Errors
/// What has happened since isn't remembered any more.
pub(crate) fn list(
    store: &Store,
    resource: &str,
    namespace: Option<&str>,
    version: u64,
) -> Result<BTreeMap<Key, Arc<Value>>, Refusal> {
    let mut objects: BTreeMap<Key, Arc<Value>> =
        store.list(resource, namespace).map(|(key, object)| (key.clone(), object.clone())).collect();
    let asked = |key: &Key| key.resource == resource && namespace.is_none_or(|namespace| key.namespace == namespace);
    let since: Vec<&Event> = store.events_after(version)?.filter(|event| asked(&event.key)).collect();
    for event in since.into_iter().rev() {
        match &event.before {
            Some(before) => drop(objects.insert(event.key.clone(), before.clone())),
            None => drop(objects.remove(&event.key)),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{DeleteOptions, Manner};
    use serde_json::json;

    #[test]
    fn each_version_is_found_again() {
        let mut store = Store::default();
        let (manner, key) = (Manner::by("t"), Key::new("configmaps", "n", "a"));
        let map = |name: &str| json!({"metadata": {"name": name, "namespace": "n"}, "data": {"v": "1"}});
        let mut seen = Vec::new();
        let mut note = |store: &Store| {
            let all: Vec<Value> = store.list("configmaps", None).map(|(_, object)| (**object).clone()).collect();
            seen.push((store.version(), all));
        };
        note(&store);
        store.create("configmaps", map("a"), manner).unwrap();
        note(&store);
        store.create("configmaps", map("b"), manner).unwrap();
        note(&store);
        store.merge(&key, &json!({"data": {"v": "2"}}), manner).unwrap();
        note(&store);
        store.delete(&key, &DeleteOptions::default()).unwrap();
        note(&store);
        for (version, expected) in seen {
            let found: Vec<Value> =
                list(&store, "configmaps", None, version).unwrap().values().map(|object| (**object).clone()).collect();
            assert_eq!(found, expected, "{version}");
        }
        store.compact();
        assert_eq!(list(&store, "configmaps", None, 0).unwrap_err().code, 410);
    }
}
