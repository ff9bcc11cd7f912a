//! What clients ask to learn what is served.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::resource::Resource;
use crate::server::ApiServer;

/// The answer, if the path is one of these.
pub(super) fn answer(api: &ApiServer, path: &str) -> Option<Value> {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    match words[..] {
        ["healthz" | "readyz" | "livez"] => Some(json!("ok")),
        ["version"] => Some(json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0+memory", "platform": "memory"})),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(api)})),
        ["api", version] => resources(api, "", version),
        ["apis", group] => groups(api).into_iter().find(|found| found["name"] == group),
        ["apis", group, version] => resources(api, group, version),
        _ => None,
    }
}

fn groups(api: &ApiServer) -> Vec<Value> {
    let known: BTreeSet<(String, String)> =
        api.read(|store| store.resources().map(|kind| (kind.group.clone(), kind.version.clone())).collect());
    let group = |(group, version): &(String, String)| {
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [version], "preferredVersion": version})
    };
    known.iter().filter(|(group, _)| !group.is_empty()).map(group).collect()
}

fn resources(api: &ApiServer, group: &str, version: &str) -> Option<Value> {
    let found: Vec<Value> = api.read(|store| {
        let served = store.resources().filter(|kind| kind.group == group && kind.version == version);
        served.flat_map(entries).collect()
    });
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!found.is_empty())
        .then(|| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found}))
}

fn entries(kind: &Resource) -> Vec<Value> {
    let entry = |name: String, verbs: Value| json!({"name": name, "singularName": kind.kind.to_lowercase(), "namespaced": kind.namespaced, "kind": kind.kind, "verbs": verbs});
    let mut entries = vec![entry(kind.plural.clone(), json!(["create", "delete", "get", "list", "patch", "update", "watch"]))];
    if kind.status {
        entries.push(entry(format!("{}/status", kind.plural), json!(["get", "patch", "update"])));
    }
    entries
}
