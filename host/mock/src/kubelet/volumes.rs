//! A pod's volumes as folders: emptyDir for the pod's life, claims beyond it, ConfigMaps and Secrets as files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use serde_json::Value;
use vko_apiserver::{Key, Store};

use super::disks::Disks;
use crate::kubelet::{list, text};

/// Files of a volume by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Why a pod's volumes can't be set up yet. The kubelet waits for what is missing.
#[derive(Debug, thiserror::Error)]
pub(super) enum VolumeError {
    #[error("{0} isn't there yet")]
    Missing(String),
    #[error("a volume's files can't be written: {0}")]
    Files(#[from] io::Error),
}

/// Makes the folders of a pod's volumes and writes their files; returns where each volume is.
///
/// # Errors
/// An object isn't there, or the disk says no.
pub(super) fn mount(
    store: &Store,
    pod: &Value,
    pod_folder: &Path,
    disks: &Disks,
) -> Result<BTreeMap<String, PathBuf>, VolumeError> {
    let namespace = text(pod, "/metadata/namespace");
    // Logs are in it, too.
    fs::create_dir_all(pod_folder)?;
    let mut mounted = BTreeMap::new();
    for volume in list(pod, "/spec/volumes") {
        let name = text(volume, "/name");
        let claim = text(volume, "/persistentVolumeClaim/claimName");
        let folder = if claim.is_empty() {
            pod_folder.join(name)
        } else {
            // By UID: a claim that is made anew is another disk.
            let key = Key::new("persistentvolumeclaims", namespace, claim);
            let found = store.get(&key).ok_or_else(|| VolumeError::Missing(format!("the claim {claim}")))?;
            disks.of(text(found, "/metadata/uid"))?
        };
        fs::create_dir_all(&folder)?;
        if let Some(files) = files(store, namespace, volume)? {
            write(&folder, &files)?;
        }
        mounted.insert(name.to_owned(), folder);
    }
    Ok(mounted)
}

/// The files of a volume; `None` if it has none of its own.
fn files(store: &Store, namespace: &str, volume: &Value) -> Result<Option<Files>, VolumeError> {
    if volume["configMap"].is_object() {
        return source(store, namespace, volume, "configMap", "name").map(Some);
    }
    if volume["secret"].is_object() {
        return source(store, namespace, volume, "secret", "secretName").map(Some);
    }
    if !volume["projected"].is_object() {
        return Ok(None);
    }
    let mut all = Files::new();
    for part in list(volume, "/projected/sources") {
        let kind = if part["secret"].is_object() { "secret" } else { "configMap" };
        all.extend(source(store, namespace, part, kind, "name")?);
    }
    Ok(Some(all))
}

fn source(store: &Store, namespace: &str, volume: &Value, kind: &str, name: &str) -> Result<Files, VolumeError> {
    let name = text(&volume[kind], &format!("/{name}"));
    let resource = if kind == "secret" { "secrets" } else { "configmaps" };
    let object =
        store.get(&Key::new(resource, namespace, name)).ok_or_else(|| VolumeError::Missing(format!("the {kind} {name}")))?;
    let content = |key: &str| {
        let value = object["data"].get(key)?;
        Some(match kind {
            "secret" => serde_json::from_value::<ByteString>(value.clone()).ok()?.0,
            _ => resolved(store, value.as_str()?).into_bytes(),
        })
    };
    let items = list(&volume[kind], "/items");
    if items.is_empty() {
        let keys = object["data"].as_object().into_iter().flatten();
        return Ok(keys.filter_map(|(key, _)| Some((key.clone(), content(key)?))).collect());
    }
    let mut files = Files::new();
    for item in items {
        let key = text(item, "/key");
        let found = content(key).ok_or_else(|| VolumeError::Missing(format!("the key {key} of the {kind} {name}")))?;
        files.insert(text(item, "/path").to_owned(), found);
    }
    Ok(files)
}

/// Lines that begin with a Service's name in DNS, once for each of its addresses.
fn resolved(store: &Store, content: &str) -> String {
    let service = |line: &str| {
        let (host, rest) = line.split_once(' ')?;
        let (name, rest_of_host) = host.split_once('.')?;
        let (namespace, _) = rest_of_host.split_once(".svc.")?;
        let slice = store.get(&Key::new("endpointslices.discovery.k8s.io", namespace, name));
        let endpoints = slice.map(|slice| list(slice, "/endpoints")).unwrap_or_default().iter();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
        Some(ready.map(|endpoint| format!("{} {rest}\n", text(endpoint, "/addresses/0"))).collect::<String>())
    };
    content.split_inclusive('\n').map(|line| service(line.trim_end()).unwrap_or_else(|| line.to_owned())).collect()
}

/// Each file beside and renamed, so that a reader never sees a half one; what isn't wanted goes.
fn write(folder: &Path, files: &Files) -> io::Result<()> {
    for (name, content) in files {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|found| found == *content) {
            continue;
        }
        let beside = folder.join(format!(".{name}.new"));
        fs::write(&beside, content)?;
        fs::rename(&beside, &path)?;
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !files.contains_key(&*entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vko_apiserver::store::Manner;

    fn store() -> Store {
        let mut store = Store::default();
        let mut create = |resource: &str, object: Value| drop(store.create(resource, object, Manner::by("t")).unwrap());
        let metadata = |name: &str| json!({"name": name, "namespace": "n"});
        create(
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("conf"), "data": {"a": "1", "s": "monitor m\nrfs-x.n.svc.cluster.local 26379\n"}}),
        );
        create(
            "secrets",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("s"), "stringData": {"password": "p"}}),
        );
        let endpoint = |ip: &str, ready: bool| json!({"addresses": [ip], "conditions": {"ready": ready}});
        let endpoints = json!([endpoint("127.128.0.1", true), endpoint("127.128.0.2", false), endpoint("127.128.0.3", true)]);
        create(
            "endpointslices.discovery.k8s.io",
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata("rfs-x"), "addressType": "IPv4", "endpoints": endpoints}),
        );
        store
    }

    fn of(volume: Value) -> Result<Option<Vec<(String, String)>>, String> {
        let found = files(&store(), "n", &volume).map_err(|error| error.to_string())?;
        Ok(found.map(|files| files.into_iter().map(|(name, content)| (name, String::from_utf8(content).unwrap())).collect()))
    }

    #[test]
    fn files_by_table() {
        let file = |name: &str, content: &str| (name.to_owned(), content.to_owned());
        let addresses = "monitor m\n127.128.0.1 26379\n127.128.0.3 26379\n";
        let projected =
            json!({"projected": {"sources": [{"secret": {"name": "s", "items": [{"key": "password", "path": "probe"}]}}]}});
        for (volume, expected) in [
            (json!({"emptyDir": {}}), Ok(None)),
            (json!({"configMap": {"name": "conf"}}), Ok(Some(vec![file("a", "1"), file("s", addresses)]))),
            (json!({"secret": {"secretName": "s"}}), Ok(Some(vec![file("password", "p")]))),
            (projected, Ok(Some(vec![file("probe", "p")]))),
            (json!({"configMap": {"name": "none"}}), Err("the configMap none isn't there yet".to_owned())),
        ] {
            assert_eq!(of(volume.clone()), expected, "{volume}");
        }
    }
}
