//! What the cluster and the operator say afterwards: events, metrics, the audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Deserializer, Value};

use crate::{Result, bed, command, kubectl, settings};

/// Events about an object, as (reason, note).
///
/// # Errors
/// The request fails.
pub fn events(namespace: &str, name: &str) -> Result<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = kubectl::list(namespace, "events.events.k8s.io", "")?;
    let about = all.iter().filter(|event| event["regarding"]["name"] == name);
    Ok(about.map(|event| (text(&event["reason"]), text(&event["note"]))).collect())
}

/// The events that were there before something happened, so that none of them is taken for what it brings.
#[derive(Debug)]
pub struct Events {
    namespace: String,
    /// Name and version: one that is counted up is news.
    known: BTreeSet<(String, String)>,
}

impl Events {
    /// Those of a namespace, now.
    ///
    /// # Errors
    /// The request fails.
    pub fn so_far(namespace: &str) -> Result<Self> {
        let all = kubectl::list(namespace, "events.events.k8s.io", "")?;
        Ok(Self { namespace: namespace.into(), known: all.iter().map(version).collect() })
    }

    /// Waits for a new one with a reason about an object.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait(&self, name: &str, reason: &str, deadline: Duration) -> Result<Value> {
        let watched = kubectl::named(&self.namespace, "events.events.k8s.io", "");
        kubectl::watch_until(&format!("a new event {reason} about {name}"), watched, deadline, |_, event| {
            event["reason"] == reason && event["regarding"]["name"] == name && !self.known.contains(&version(event))
        })
    }
}

fn version(event: &Value) -> (String, String) {
    let text = |key: &str| event["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("name"), text("resourceVersion"))
}

/// Metrics of a pod of the operator: series (name and labels) to value.
///
/// # Errors
/// It doesn't answer.
pub fn metrics(pod: &Value) -> Result<BTreeMap<String, f64>> {
    let ip = pod["status"]["podIP"].as_str().context("the operator's pod has no address")?;
    let address: std::net::IpAddr = ip.parse()?;
    let mut stream = TcpStream::connect_timeout(&(address, 8080).into(), Duration::from_secs(5)).context("no metrics")?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: metrics\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "metrics: {}", answer.lines().next().unwrap_or_default());
    Ok(series(&answer))
}

fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| line.starts_with("valkey_operator_"));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// Verb.
    pub verb: String,
    /// Resource, with its subresource.
    pub resource: String,
    /// Namespace.
    pub namespace: String,
    /// Answer.
    pub code: u64,
    /// Whether the user has no right to it. The code doesn't say: 403 is also what a namespace answers that is being deleted.
    pub denied: bool,
    /// How many.
    pub count: u64,
}

/// Notes the time from which [`requests`] counts.
///
/// # Errors
/// There is no test bed.
pub fn mark() -> Result<String> {
    Ok(bed::testbed(&["audit", "--mark"])?.trim().to_owned())
}

/// A user's requests since a mark.
///
/// # Errors
/// There is no test bed.
pub fn requests(mark: &str, user: &str) -> Result<Vec<Requests>> {
    let text = bed::testbed(&["audit", "--since", mark, "--user", user, "--json"])?;
    let rows = Deserializer::from_str(&text).into_iter::<Value>();
    rows.map(|row| Ok(request(&row.context("a row of the audit log is no JSON")?))).collect()
}

fn request(row: &Value) -> Requests {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let (resource, sub) = (text("resource"), text("subresource"));
    Requests {
        verb: text("verb"),
        resource: if sub.is_empty() { resource } else { format!("{resource}/{sub}") },
        namespace: text("namespace"),
        code: row["code"].as_u64().unwrap_or_default(),
        denied: row["denied"].as_bool().unwrap_or_default(),
        count: row["count"].as_u64().unwrap_or_default(),
    }
}

/// Digest of a file's content, in hexadecimal digits.
///
/// # Errors
/// It can't be read.
pub fn sha256(file: &Path) -> Result<String> {
    let line = command::run(Command::new("sha256sum").arg(file))?;
    line.split(' ').next().map(str::to_owned).context("sha256sum says nothing")
}

/// That a status names this policy, and on the test bed, whose operator was built here, the very component: nothing else decided.
///
/// # Errors
/// It says otherwise.
pub fn decided_by(status: &Value, name: &str) -> Result {
    let policy = &status["policy"];
    ensure!(policy["name"] == name, "{name} shall decide, and the status says {policy}");
    if bed::is_here() {
        let digest = sha256(&Path::new(&settings::required("VKO_GUESTS")?).join(format!("vko-{name}.wasm")))?;
        ensure!(policy["digest"] == digest.as_str(), "the component is {digest}, and the status says {policy}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_a_page() {
        let page =
            "HTTP/1.1 200 OK\r\n\r\n# HELP x\nvalkey_operator_leader 1\nvalkey_operator_x_total{reason=\"A b\"} 2\nother 3\n";
        let found: Vec<(String, f64)> = series(page).into_iter().collect();
        assert_eq!(found, [("valkey_operator_leader".into(), 1.0), ("valkey_operator_x_total{reason=\"A b\"}".into(), 2.0)]);
    }

    #[test]
    fn a_row_of_the_audit_log() {
        let row = serde_json::json!({"verb": "update", "resource": "valkeys", "subresource": "status", "namespace": "n", "code": 403, "denied": true, "count": 3});
        let expected = Requests {
            verb: "update".into(),
            resource: "valkeys/status".into(),
            namespace: "n".into(),
            code: 403,
            denied: true,
            count: 3,
        };
        assert_eq!(request(&row), expected);
    }
}
