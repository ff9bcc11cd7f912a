//! Asks every running server, several times a second, whether it would take a write: DEL of a key that isn't there, which is
//! refused where any write is refused, and changes nothing where it is not.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use vko_api::names::{PORT, account, account_secret, component};
use vko_apiserver::{ApiServer, Key, Store};
use vko_script::target::{self, Pod};

use super::watch::Recorder;
use super::writers::{Sample, Verdict};
use crate::bed::NAMESPACE;
use crate::kubelet::Kubelet;
use crate::scenario::view::Here;

/// Between two questions to a server: a tenth of the smallest bound that is published.
const PERIOD: Duration = Duration::from_millis(200);
/// An answer that takes longer is none. Writes that are held back for a hand-over are answered later than this.
const PATIENCE: Duration = Duration::from_secs(1);
/// Keys that are asked about: so many that each shard of a small cluster has some.
const KEYS: usize = 8;

/// Asks until it is dropped.
pub(super) async fn run(api: Arc<ApiServer>, kubelet: Arc<Kubelet>, recorder: Arc<Recorder>) {
    let mut versions = api.versions();
    let mut asking = JoinSet::new();
    let mut known: BTreeMap<String, tokio::task::AbortHandle> = BTreeMap::new();
    loop {
        versions.borrow_and_update();
        let pods: Vec<Pod> = api.read(|store| target::pods(&Here(store))).into_iter().filter(|pod| !pod.is_sentinel()).collect();
        known.retain(|uid, task| {
            let there = kubelet.running(uid).is_some();
            if !there {
                task.abort();
            }
            there
        });
        for pod in pods {
            if let Some(running) = kubelet.running(&pod.uid)
                && !known.contains_key(&pod.uid)
            {
                let uid = pod.uid.clone();
                known.insert(uid, asking.spawn(ask_one(api.clone(), recorder.clone(), pod, running.ip)));
            }
        }
        if versions.changed().await.is_err() {
            return;
        }
    }
}

async fn ask_one(api: Arc<ApiServer>, recorder: Arc<Recorder>, pod: Pod, ip: Ipv4Addr) {
    let mut line = None;
    loop {
        let verdicts = match tokio::time::timeout(PATIENCE, ask(&api, &pod, ip, &mut line)).await {
            Ok(Ok(verdicts)) => verdicts,
            _ => {
                line = None;
                vec![Verdict::Silent; KEYS]
            }
        };
        let at = recorder.now();
        let sample = |(key, verdict)| Sample {
            at,
            instance: pod.instance.clone(),
            key,
            pod: pod.uid.clone(),
            name: pod.name.clone(),
            verdict,
        };
        recorder.samples(verdicts.into_iter().enumerate().map(sample));
        tokio::time::sleep(PERIOD).await;
    }
}

async fn ask(api: &ApiServer, pod: &Pod, ip: Ipv4Addr, line: &mut Option<TcpStream>) -> io::Result<Vec<Verdict>> {
    let stream = match line {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect((ip, PORT)).await?;
            let password = api.read(|store| password(store, &pod.instance)).unwrap_or_default();
            exchange(&stream, &format!("AUTH {} {password}\r\n", account::DEFAULT), 1).await?;
            line.insert(stream)
        }
    };
    let words: String = (0..KEYS).map(|key| format!("DEL vko-oracle:{key}\r\n")).collect();
    Ok(exchange(stream, &words, KEYS).await?.iter().map(|answer| verdict(answer)).collect())
}

/// Sends lines, and takes in as many. Small enough to be written at once.
async fn exchange(stream: &TcpStream, words: &str, answers: usize) -> io::Result<Vec<String>> {
    stream.writable().await?;
    stream.try_write(words.as_bytes())?;
    let (mut text, mut buffer) = (String::new(), [0; 1024]);
    while text.matches('\n').count() < answers {
        stream.readable().await?;
        match stream.try_read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => text.push_str(&String::from_utf8_lossy(&buffer[..read])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text.lines().map(str::to_owned).collect())
}

fn verdict(answer: &str) -> Verdict {
    match answer.strip_prefix('-') {
        Some(error) => Verdict::Refused(error.split_whitespace().next().unwrap_or_default().to_owned()),
        None => Verdict::Taken,
    }
}

/// The default user's password.
pub(crate) fn password(store: &Store, instance: &str) -> Option<String> {
    let secret = [component::FAILOVER, component::CLUSTER].into_iter().find_map(|component| {
        store.get(&Key::new("secrets", NAMESPACE, account_secret(component, instance, account::DEFAULT)))
    })?;
    let password: ByteString = serde_json::from_value(secret.pointer("/data/password")?.clone()).ok()?;
    String::from_utf8(password.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_by_table() {
        for (answer, expected) in [
            (":0\r\n", Verdict::Taken),
            ("-READONLY You can't write against a read only replica.\r\n", Verdict::Refused("READONLY".into())),
            ("-NOREPLICAS Not enough good replicas to write.\r\n", Verdict::Refused("NOREPLICAS".into())),
            ("-MOVED 1 127.128.0.1:6379\r\n", Verdict::Refused("MOVED".into())),
        ] {
            assert_eq!(verdict(answer), expected, "{answer}");
        }
    }
}
