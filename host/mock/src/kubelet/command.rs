//! A container's command on this machine: paths of volumes and of the image become paths here, variables are expanded as the
//! kubelet does.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::images::Images;
use crate::kubelet::list;

/// Where a container's folders are on this machine, by mount path.
pub(super) type Mounts = BTreeMap<String, PathBuf>;

/// What a command is made of.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) images: &'a Images,
    pub(super) image: &'a str,
    pub(super) mounts: &'a Mounts,
    pub(super) ip: Ipv4Addr,
}

/// The mounts of a container: `volumes` says where each volume is.
pub(super) fn mounts(container: &Value, volumes: &BTreeMap<String, PathBuf>) -> Mounts {
    let mount = |mount: &Value| Some((mount["mountPath"].as_str()?.to_owned(), volumes.get(mount["name"].as_str()?)?.clone()));
    list(container, "/volumeMounts").iter().filter_map(mount).collect()
}

/// The container's environment: plain values and fields of the pod.
pub(super) fn environment(container: &Value, pod: &Value, ip: Ipv4Addr) -> Vec<(String, String)> {
    let value = |variable: &Value| {
        let value = match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
            None => variable["value"].as_str().unwrap_or_default().to_owned(),
            Some("status.podIP" | "status.podIPs") => ip.to_string(),
            Some(path) => {
                pod.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str).unwrap_or_default().to_owned()
            }
        };
        Some((variable["name"].as_str()?.to_owned(), value))
    };
    list(container, "/env").iter().filter_map(value).collect()
}

/// The command's words with `$(NAME)` expanded, which the kubelet does for a container's command and not for probes and hooks.
pub(super) fn expanded(words: &[String], environment: &[(String, String)]) -> Vec<String> {
    let expand =
        |word: &String| environment.iter().fold(word.clone(), |word, (name, value)| word.replace(&format!("$({name})"), value));
    words.iter().map(expand).collect()
}

/// The words on this machine. A probe's or hook's loopback is the pod's own address here; a program without a path is the
/// image's.
pub(super) fn placed(words: &[String], place: Place<'_>) -> Vec<String> {
    let place_one = |word: &String| if word == "127.0.0.1" { place.ip.to_string() } else { path(word, place) };
    let mut placed: Vec<String> = words.iter().map(place_one).collect();
    if let Some(program) = placed.first_mut()
        && let Some(file) = place.images.program(place.image, program)
    {
        *program = file.to_string_lossy().into_owned();
    }
    placed
}

fn path(word: &str, place: Place<'_>) -> String {
    if !word.starts_with('/') {
        return word.to_owned();
    }
    let inside = |(mount, folder): (&String, &PathBuf)| {
        let rest = Path::new(word).strip_prefix(mount).ok()?;
        Some(if rest.as_os_str().is_empty() { folder.clone() } else { folder.join(rest) })
    };
    // The longest mount last: one may be inside of another.
    let mounted = place.mounts.iter().filter_map(inside).next_back();
    let found = mounted.or_else(|| place.images.file(place.image, word).map(Path::to_path_buf));
    found.map_or_else(|| word.to_owned(), |found| found.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn paths_of_volumes_and_images_become_paths_here() {
        let container =
            json!({"volumeMounts": [{"name": "agent", "mountPath": "/opt/valkey"}, {"name": "data", "mountPath": "/data"}]});
        let volumes =
            BTreeMap::from([("agent".to_owned(), PathBuf::from("/t/agent")), ("data".to_owned(), PathBuf::from("/t/data"))]);
        let mounts = mounts(&container, &volumes);
        let images = Images::default();
        let place = Place { images: &images, image: "i", mounts: &mounts, ip: Ipv4Addr::new(127, 128, 0, 9) };
        let command =
            words(&["/opt/valkey/agent", "serve", "--data", "/data", "--ip", "127.0.0.1", "--conf", "/database", "data"]);
        let expected =
            words(&["/t/agent/agent", "serve", "--data", "/t/data", "--ip", "127.128.0.9", "--conf", "/database", "data"]);
        assert_eq!(placed(&command, place), expected);
    }

    #[test]
    fn variables_are_the_pods() {
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let container =
            json!({"env": [field("POD_IP", "status.podIP"), field("POD_NAME", "metadata.name"), {"name": "X", "value": "y"}]});
        let pod = json!({"metadata": {"name": "p-0"}});
        let environment = environment(&container, &pod, Ipv4Addr::new(127, 128, 0, 9));
        let found = expanded(&words(&["$(POD_IP)", "u.$(POD_NAME)", "$(NONE)", "$X"]), &environment);
        assert_eq!(found, ["127.128.0.9", "u.p-0", "$(NONE)", "$X"]);
    }
}
