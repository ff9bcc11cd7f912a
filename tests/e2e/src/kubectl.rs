//! Kubernetes by kubectl: what the tests do is what people can do by hand.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::{Deserializer, Value};

use crate::wait::{self, Look};
use crate::{Result, command, settings};

/// kubectl for the cluster under test.
///
/// # Errors
/// `KUBECONFIG` is not set.
pub fn kubectl() -> Result<Command> {
    let mut kubectl = match settings::bed_folder() {
        Some(folder) => {
            let mut kube = Command::new(folder.join("bin/kube"));
            kube.arg("kubectl");
            kube
        }
        None => Command::new("kubectl"),
    };
    kubectl.arg("--kubeconfig").arg(settings::kubeconfig()?);
    Ok(kubectl)
}

/// Runs kubectl; its standard output.
///
/// # Errors
/// It fails.
pub fn run(args: &[&str]) -> Result<String> {
    command::run(kubectl()?.args(args))
}

/// Whether the cluster's own Service, and so what it makes for others by itself, is on IPv6.
///
/// # Errors
/// The request fails.
pub fn is_ipv6() -> Result<bool> {
    static FAMILY: OnceLock<String> = OnceLock::new();
    if let Some(family) = FAMILY.get() {
        return Ok(family == "IPv6");
    }
    let family = run(&["get", "service", "kubernetes", "--namespace", "default", "--output=jsonpath={.spec.ipFamilies[0]}"])?;
    Ok(FAMILY.get_or_init(|| family) == "IPv6")
}

/// Applies a manifest server-side, as a person would. An object that somebody else owns a field of is taken over.
///
/// # Errors
/// It is refused.
pub fn apply(namespace: &str, manifest: &str) -> Result<String> {
    let args = ["apply", "--server-side", "--force-conflicts", "--namespace", namespace, "--filename", "-"];
    command::run_with_input(kubectl()?.args(args), manifest)
}

/// Asks what the API server would say to the manifests of a folder, in one run of kubectl: a start of it costs more than an
/// answer. Refusals by the path of the file.
///
/// # Errors
/// kubectl can't be run, or says something else than that manifests are refused.
pub fn refusals(namespace: &str, folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut create = kubectl()?;
    create.args(["create", "--dry-run=server", "--namespace", namespace, "--filename"]).arg(folder);
    let output = create.stdin(Stdio::null()).output().with_context(|| format!("{create:?} can't be run"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let refused = by_file(&errors);
    if !output.status.success() && refused.is_empty() {
        bail!("{create:?} ended with {}: {}", output.status, errors.trim());
    }
    Ok(refused)
}

/// What kubectl says of each file: a message names its file in quotes, and may go on in further lines.
fn by_file(errors: &str) -> BTreeMap<String, String> {
    let mut refused = BTreeMap::<String, String>::new();
    let mut file = String::new();
    for line in errors.lines().filter(|line| !line.starts_with("Warning:")) {
        if let Some(named) = line.split('"').find(|quoted| quoted.ends_with(".yaml")) {
            file = named.to_owned();
        }
        let said = refused.entry(file.clone()).or_default();
        said.push_str(line);
        said.push('\n');
    }
    refused
}

/// JSON merge patch.
///
/// # Errors
/// It is refused.
pub fn patch(namespace: &str, target: &str, patch: &Value) -> Result<String> {
    run(&["patch", target, "--namespace", namespace, "--type=merge", "--patch", &patch.to_string()])
}

/// An object, if it is there. `target`: `kind/name`.
///
/// # Errors
/// The request fails.
pub fn get(namespace: &str, target: &str) -> Result<Option<Value>> {
    let args = ["get", target, "--namespace", namespace, "--ignore-not-found", "--output=json", "--show-managed-fields"];
    let text = run(&args)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&text).with_context(|| format!("kubectl's {target} is no JSON"))?))
}

/// An object that must be there.
///
/// # Errors
/// It isn't, or the request fails.
pub fn must_get(namespace: &str, target: &str) -> Result<Value> {
    get(namespace, target)?.ok_or_else(|| anyhow!("there is no {target} in {namespace}"))
}

/// Objects of a kind (or of several, by commas), by a label selector; an empty one means all.
///
/// # Errors
/// The request fails.
pub fn list(namespace: &str, kinds: &str, selector: &str) -> Result<Vec<Value>> {
    let args = ["get", kinds, "--namespace", namespace, "--selector", selector, "--output=json", "--show-managed-fields"];
    let mut listed: Value = serde_json::from_str(&run(&args)?).with_context(|| format!("kubectl's {kinds} are no JSON"))?;
    match listed["items"].take() {
        Value::Array(items) => Ok(items),
        other => bail!("kubectl's {kinds} are no list but {other}"),
    }
}

/// `kubectl wait`.
///
/// # Errors
/// The deadline passed.
pub fn wait(namespace: &str, target: &str, condition: &str, deadline: Duration) -> Result {
    let (condition, timeout) = (format!("--for={condition}"), format!("--timeout={}s", deadline.as_secs().max(1)));
    run(&["wait", target, "--namespace", namespace, &condition, &timeout]).map(|_| ())
}

/// Looks until it is found, where what is looked for takes kubectl and shows in no watch. A start of kubectl costs a fifth of a
/// second of a core: looks that follow each other at once starve the servers that they are about.
///
/// # Errors
/// The deadline passed.
pub fn look_until<T>(what: &str, deadline: Duration, look: impl FnMut() -> Result<Look<T>>) -> Result<T> {
    wait::until_every(Duration::from_secs(1), what, deadline, look)
}

/// What to watch.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Kind, as kubectl calls it.
    pub kind: &'a str,
    /// Field selector; `metadata.name=...` for one object that need not be there yet.
    pub fields: &'a str,
    /// Label selector.
    pub labels: &'a str,
}

/// One object by name, there or not.
pub fn named<'a>(namespace: &'a str, kind: &'a str, fields: &'a str) -> Watched<'a> {
    Watched { namespace, kind, fields, labels: "" }
}

/// Begins to watch: first the objects that are there come as `ADDED`, then what happens to them. Each event has `type` and
/// `object`. `within`: for how long; nothing said: until it is killed.
///
/// # Errors
/// kubectl can't be run.
pub fn watch(watched: Watched<'_>, within: Option<Duration>) -> Result<(Child, ChildStdout, ChildStderr)> {
    let mut watch = kubectl()?;
    watch.args(["get", watched.kind, "--namespace", watched.namespace, "--watch", "--output-watch-events", "--output=json"]);
    watch.args(["--field-selector", watched.fields, "--selector", watched.labels]);
    watch.args(within.map(|within| format!("--request-timeout={}s", within.as_secs().max(1))));
    let mut child = watch.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("no watch")?;
    let (output, errors) = (child.stdout.take().context("no output")?, child.stderr.take().context("no output")?);
    Ok((child, output, errors))
}

/// Watches until an event satisfies: first the objects that are there come as `ADDED`, then what happens to them. The event has
/// `type` and `object`.
///
/// # Errors
/// The deadline passed, or the watch ended; says what the last object was.
pub fn watch_until(
    what: &str,
    watched: Watched<'_>,
    deadline: Duration,
    mut satisfied: impl FnMut(&str, &Value) -> bool,
) -> Result<Value> {
    let (mut child, stdout, mut stderr) = watch(watched, Some(deadline))?;
    let mut last = Value::Null;
    let mut found = None;
    for event in Deserializer::from_reader(stdout).into_iter::<Value>() {
        // Cut off in the middle of an event: by the deadline, which is what is reported below.
        let Ok(mut event) = event else { break };
        last = event["object"].take();
        if satisfied(event["type"].as_str().unwrap_or_default(), &last) {
            found = Some(last.clone());
            break;
        }
    }
    // Ours alone: the watch that was started above.
    let _ = child.kill();
    let mut errors = String::new();
    let _ = stderr.read_to_string(&mut errors);
    let _ = child.wait();
    found.ok_or_else(|| anyhow!("gave up after {deadline:?} waiting for {what}; last seen: {}{}", brief(&last), errors.trim()))
}

/// An object without what fills a screen.
fn brief(object: &Value) -> String {
    let mut brief = object.clone();
    if let Some(metadata) = brief["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("annotations");
    }
    brief.to_string()
}

#[cfg(test)]
mod tests {
    use super::by_file;

    #[test]
    fn a_refusal_belongs_to_the_file_that_it_names() {
        let errors = "Error from server (Invalid): error when creating \"m/a.yaml\": Valkey \"bad\" is invalid: \n* spec.x: no\n\
                      * spec.y: no\nError from server (BadRequest): error when creating \"m/b.yaml\": strict decoding error\n";
        let refused = by_file(errors);
        assert_eq!(refused.keys().collect::<Vec<_>>(), ["m/a.yaml", "m/b.yaml"]);
        assert!(refused["m/a.yaml"].contains("spec.y: no") && !refused["m/b.yaml"].contains("spec.y"));
    }
}
