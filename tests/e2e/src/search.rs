//! The search for passwords where none may be.
//!
//! # Guarantees
//! 1. Each password is looked for as it is, in base64 at all three alignments, URL-encoded, and JSON-escaped once and twice (JSON
//!    in a string of JSON).
//! 2. A finding names the place and whose password it is, never the password.
//! 3. Nothing is written, and no pipe that somebody else reads is emptied.
//!
//! # Assumptions
//! Objects and logs by kubectl; processes and volumes need the test bed, where all containers are processes of this machine.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::{Result, bed, kubectl, operator};

/// Of an open file or a file of a volume, so much is read: all that tests write fits.
const READ_MAX: u64 = 64 << 20;
/// `O_NONBLOCK` of Linux on x86-64 and ARM.
const NONBLOCK: i32 = 0o4000;
/// Kinds in which nothing secret may be. Events are among them; Secrets are not.
const KINDS: &str = "pods,configmaps,statefulsets,controllerrevisions,services,endpoints,endpointslices,persistentvolumeclaims,\
                     poddisruptionbudgets,events,leases,serviceaccounts,deployments,replicasets,valkeys,clusters.valkey.buf.red,failovers,sentinels,users.valkey.buf.red";

/// A password and all the forms in which it may hide.
#[derive(Clone)]
pub struct Needle {
    /// Whose it is.
    pub whose: String,
    forms: BTreeSet<Vec<u8>>,
}

impl Needle {
    /// All forms of a password.
    pub fn new(whose: &str, password: &str) -> Self {
        let once = escaped(password);
        let twice = escaped(&once);
        let mut forms: BTreeSet<Vec<u8>> =
            [password.to_owned(), url_encoded(password), once, twice].into_iter().map(String::into_bytes).collect();
        forms.extend((0..3).map(|offset| aligned_base64(password.as_bytes(), offset)));
        Self { whose: whose.into(), forms }
    }

    /// Whether it is in there.
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.forms.iter().any(|form| form.len() <= text.len() && text.windows(form.len()).any(|window| window == form.as_slice()))
    }
}

fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn url_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The part of the base64 of `...text...` that does not depend on what is around it, when `text` begins `offset` bytes into a
/// group of three.
fn aligned_base64(text: &[u8], offset: usize) -> Vec<u8> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(text);
    let encoded = STANDARD.encode(&padded);
    // Six bits a character: those that hold bits of the padding, or of what would follow, are left out.
    let (first, last) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    encoded.as_bytes()[first..last].to_vec()
}

/// Places in which a password was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings(pub BTreeSet<String>);

impl Findings {
    fn look(&mut self, needles: &[Needle], place: &str, text: &[u8]) {
        for needle in needles.iter().filter(|needle| needle.is_in(text)) {
            self.0.insert(format!("{place}: password of {}", needle.whose));
        }
    }
}

/// Looks through the objects of a namespace.
///
/// # Errors
/// A request fails.
pub fn objects(findings: &mut Findings, needles: &[Needle], namespace: &str) -> Result {
    for object in kubectl::list(namespace, KINDS, "")? {
        let place = format!("{} {}/{}", object["kind"].as_str().unwrap_or_default(), namespace, operator::name(&object));
        findings.look(needles, &place, object.to_string().as_bytes());
    }
    Ok(())
}

/// Looks through the logs of a namespace's pods, and those of their containers' former runs.
///
/// # Errors
/// A request fails.
pub fn logs(findings: &mut Findings, needles: &[Needle], namespace: &str) -> Result {
    for pod in kubectl::list(namespace, "pods", "")? {
        let name = operator::name(&pod);
        let text = kubectl::run(&["logs", name, "--namespace", namespace, "--all-containers"])?;
        findings.look(needles, &format!("log of {namespace}/{name}"), text.as_bytes());
        let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        for container in containers.filter(|status| status["restartCount"].as_u64() > Some(0)) {
            let container = container["name"].as_str().unwrap_or_default();
            let text = kubectl::run(&["logs", name, "--namespace", namespace, "--container", container, "--previous"])?;
            findings.look(needles, &format!("former log of {namespace}/{name}"), text.as_bytes());
        }
    }
    Ok(())
}

/// Looks through the processes of a pod (arguments, environment, open files) and its volumes. `secret_folders`: where Secrets are
/// mounted. Returns how many processes were looked at.
///
/// # Errors
/// There is no test bed.
pub fn processes(findings: &mut Findings, needles: &[Needle], pod: &Value, secret_folders: &[&str]) -> Result<usize> {
    let name = operator::name(pod);
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let processes = bed::processes_of_pod(uid)?;
    for process in &processes {
        let folder = format!("/proc/{process}");
        for file in ["cmdline", "environ"] {
            findings.look(needles, &format!("{name}: {file} of process {process}"), &read(&format!("{folder}/{file}")));
        }
        for entry in entries(Path::new(&format!("{folder}/fd"))) {
            let link = fs::read_link(&entry).unwrap_or_default().display().to_string();
            let is_input = entry.ends_with("0");
            // Of pipes only standard input: others have readers, who would miss what we take.
            if link.starts_with('/') && !secret_folders.iter().any(|secret| link.starts_with(secret))
                || (is_input && link.starts_with("pipe:"))
            {
                findings.look(
                    needles,
                    &format!("{name}: open file {link} of process {process}"),
                    &read(&entry.display().to_string()),
                );
            }
        }
        for volume in ["data", "run", "tmp", "etc", "opt/valkey", "var/run"] {
            let root = format!("{folder}/root");
            walk(&Path::new(&root).join(volume), &mut |file| {
                let inside = file.strip_prefix(&root).map(|path| format!("/{}", path.display())).unwrap_or_default();
                if !secret_folders.iter().any(|secret| inside.starts_with(secret)) {
                    findings.look(needles, &format!("{name}: file {inside}"), &read(&file.display().to_string()));
                }
            });
        }
    }
    Ok(processes.len())
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn walk(folder: &Path, file: &mut dyn FnMut(&Path)) {
    for entry in entries(folder) {
        match fs::symlink_metadata(&entry) {
            Ok(metadata) if metadata.is_dir() => walk(&entry, file),
            Ok(metadata) if metadata.is_file() => file(&entry),
            _ => {}
        }
    }
}

/// What can be read without waiting; a process or a file that is gone has nothing.
fn read(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path) {
        let _ = file.take(READ_MAX).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PASSWORD: &str = "pl+an/\"ted\\ %";

    #[test]
    fn every_form_is_found_and_nothing_else() {
        let needle = Needle::new("x", PASSWORD);
        let json = serde_json::json!({"a": serde_json::json!({"b": PASSWORD}).to_string()}).to_string();
        let inside = |before: &str| STANDARD.encode(format!("{before}{PASSWORD} and more"));
        let table = [
            ("raw", format!("a{PASSWORD}b"), true),
            ("base64", STANDARD.encode(PASSWORD), true),
            ("base64, first alignment", inside(""), true),
            ("base64, second alignment", inside("u"), true),
            ("base64, third alignment", inside("us"), true),
            ("URL", "redis://:pl%2Ban%2F%22ted%5C%20%25@host".into(), true),
            ("JSON", serde_json::json!({"a": PASSWORD}).to_string(), true),
            ("JSON in JSON", json, true),
            ("another", "planted".into(), false),
            ("nothing", String::new(), false),
        ];
        for (case, text, found) in table {
            assert_eq!(needle.is_in(text.as_bytes()), found, "{case}");
        }
    }

    #[test]
    fn a_finding_does_not_tell_the_password() {
        let mut findings = Findings::default();
        findings.look(&[Needle::new("probe", PASSWORD)], "log", PASSWORD.as_bytes());
        assert_eq!(findings.0.into_iter().collect::<Vec<_>>(), ["log: password of probe"]);
    }
}
