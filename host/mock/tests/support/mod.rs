//! A bed with an operator in it and the real policies.

#![allow(dead_code, missing_docs)]

pub(crate) mod twin;
mod variants;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use vko_api::names::{PORT, account, account_secret};
use vko_apiserver::{Key, Store};
use vko_mock::bed::NAMESPACE;
use vko_mock::{Bed, Images, Operator};
use vko_run::Policies;

/// Reached only when something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Whether this is a run of the full tier, or of one that holds it.
pub(crate) fn is_full_run() -> bool {
    std::env::var("VKO_TIER").is_ok_and(|tier| tier != "quick")
}

/// The built-in policies, compiled once for all worlds of this process.
pub(crate) fn policies() -> Policies {
    static POLICIES: OnceLock<Policies> = OnceLock::new();
    POLICIES.get_or_init(|| Policies::built_in().unwrap()).clone()
}

pub(crate) struct World {
    pub(crate) bed: Bed,
    pub(crate) operator: Operator,
}

impl World {
    pub(crate) async fn new() -> Self {
        let bed = Bed::new(Images::of_environment().unwrap()).unwrap();
        let operator = Operator::start(&bed, "operator-0", policies()).await.unwrap();
        Self { bed, operator }
    }

    pub(crate) async fn until<T>(&self, what: &str, look: impl Fn(&Store) -> Option<T>) -> T {
        let begin = Instant::now();
        match self.bed.until(what, PATIENCE, look).await {
            Ok(found) => {
                println!("{what}: after {:.1} s", begin.elapsed().as_secs_f64());
                found
            }
            Err(error) => {
                let journal = self.operator.journal(NAMESPACE, "demo");
                let tail = journal.iter().rev().take(6).rev().map(|line| line.chars().take(3000).collect::<String>());
                panic!("{error}\n{}", tail.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    pub(crate) async fn ready(&self, what: &str) {
        self.until(what, |store| is_ready(store).then_some(())).await;
    }

    /// Waits until another pod carries the primary's label than before.
    pub(crate) async fn primary_but(&self, before: &str) -> String {
        self.until("another primary", |store| primaries(store).into_iter().find(|pod| pod != before)).await
    }
}

impl World {
    /// Asks a pod's server something, as its clients do.
    pub(crate) fn ask(&self, pod: &str, component: &str, words: &[&str]) -> Result<String, String> {
        let ip = self.bed.running(pod).ok_or("it doesn't run")?.ip;
        let secret = account_secret(component, "demo", account::DEFAULT);
        let secret = self.bed.get(&Key::new("secrets", NAMESPACE, secret)).ok_or("there is no password")?;
        let password: ByteString = serde_json::from_value(secret["data"]["password"].clone()).unwrap();
        let mut stream = TcpStream::connect((ip, PORT)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let text = format!("AUTH default {}\r\n{}\r\n", String::from_utf8(password.0).unwrap(), words.join(" "));
        stream.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let answers = (lines.next(), lines.next());
        match answers {
            (Some(login), Some(answer)) if login == "+OK" && answer.starts_with('$') => Ok(lines.next().unwrap_or_default()),
            (Some(login), Some(answer)) if login == "+OK" && !answer.starts_with('-') => Ok(answer),
            other => Err(format!("{other:?}")),
        }
    }
}

/// A Valkey named `demo`.
pub(crate) fn valkey(arch: &str, replicas: Value) -> Value {
    let resources = json!({"limits": {"memory": "64Mi"}});
    json!({"apiVersion": "rds.valkey.buf.red/v1alpha1", "kind": "Valkey", "metadata": {"name": "demo"},
        "spec": {"version": "9.1", "arch": arch, "replicas": replicas, "resources": resources}})
}

pub(crate) fn demo() -> Key {
    Key::new("valkeys.rds.valkey.buf.red", NAMESPACE, "demo")
}

/// Whether the Valkey says that it is ready, for the spec of now.
pub(crate) fn is_ready(store: &Store) -> bool {
    let Some(valkey) = store.get(&demo()) else { return false };
    let conditions = valkey.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let holds = |condition: &Value| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"].as_u64().is_none_or(|seen| Some(seen) == valkey["metadata"]["generation"].as_u64())
    };
    conditions.iter().any(holds)
}

/// Pods that the Valkey's status calls primaries.
pub(crate) fn primaries(store: &Store) -> Vec<String> {
    let nodes = store.get(&demo()).and_then(|valkey| valkey.pointer("/status/nodes")?.as_array().cloned()).unwrap_or_default();
    let primaries = nodes.iter().filter(|node| node["role"] == "master");
    primaries.map(|node| node["podName"].as_str().unwrap_or_default().to_owned()).collect()
}
