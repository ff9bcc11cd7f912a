//! The application of a scenario: it enters as the documentation tells people to, and writes numbers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use vko_api::names;
use vko_apiserver::{ApiServer, Key, Store};
use vko_clients::entrance::{Directory, Entrance};
use vko_clients::losses::{Bound, bound};
use vko_clients::server::{Login, info_field};
use vko_clients::writer::{Pace, Record, Writer};
use vko_script::target::{Pod, named, pods};

use super::run::StageError;
use super::view::Here;
use crate::bed::NAMESPACE;
use crate::oracle::sample::password;

/// Several scenarios and their servers share two cores.
const PACE: Pace = Pace { connections: 2, pause: Duration::from_millis(10) };
/// For an acknowledgement, or an answer to the final reading.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what the client has noted.
const LOOK: Duration = Duration::from_millis(50);

/// A client that writes.
#[derive(Debug)]
pub(super) struct Client {
    instance: String,
    arch: String,
    entrance: Entrance,
    writer: Writer,
}

impl Client {
    /// Begins. `number` tells clients of one instance apart.
    pub(super) fn start(api: &Arc<ApiServer>, instance: &str, number: usize) -> Self {
        let arch = api.read(|store| arch(store, instance));
        let (looked_at, name) = (api.clone(), instance.to_owned());
        let entrance = Entrance::Looked(Directory::new(move || looked_at.read(|store| entrance(store, &name))));
        let writer = Writer::start_named(entrance.clone(), &format!("w{number}"), PACE);
        Self { instance: instance.into(), arch, entrance, writer }
    }

    /// Waits for so many more acknowledged writes.
    pub(super) async fn acks(&self, more: usize) -> Result<(), StageError> {
        let (goal, end) = (self.writer.acks() + more, Instant::now() + PATIENCE);
        while self.writer.acks() < goal {
            if Instant::now() > end {
                let why = format!("{} of {more} writes to {} were acknowledged", self.writer.acks() + more - goal, self.instance);
                return Err(StageError::Client(why));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Ends, and holds what is missing against the published bound of a fault; returns how much was acknowledged.
    pub(super) async fn verify(self, fault: &str) -> Result<usize, StageError> {
        let client = |error: &dyn std::fmt::Display| StageError::Client(format!("{fault}: {error:#}"));
        let bound = bound(&self.arch, fault).map_err(|error| client(&error))?;
        let Self { writer, entrance, .. } = self;
        let record = tokio::task::spawn_blocking(move || writer.stop()).await;
        let record = record.map_err(|error| client(&error))?.map_err(|error| client(&error))?;
        let acks = record.acks.len();
        judge(record, entrance, bound).await.map_err(|error| client(&error))?;
        Ok(acks)
    }
}

/// Reads until somebody answers. The cluster client panics while it knows no server of a slot: that is no answer either.
async fn judge(record: Record, entrance: Entrance, bound: Bound) -> vko_clients::Result {
    let (record, end) = (Arc::new(record), Instant::now() + PATIENCE);
    let lost = loop {
        let (read, entrance) = (record.clone(), entrance.clone());
        let error = match tokio::task::spawn_blocking(move || read.lost(&entrance)).await {
            Ok(Ok(lost)) => break lost,
            Ok(Err(error)) => error,
            Err(panicked) => panicked.into(),
        };
        if Instant::now() > end {
            return Err(error);
        }
        tokio::time::sleep(LOOK).await;
    };
    record.held(&lost, bound)
}

/// Waits until each of these pods' servers says that it loads. Objects don't say it, so it is asked.
pub(super) async fn loading(api: &Arc<ApiServer>, pods: &[Pod]) -> Result<(), StageError> {
    let end = Instant::now() + PATIENCE;
    for pod in pods {
        loop {
            let login = api.read(|store| login_at(store, &pod.name));
            let asked =
                tokio::task::spawn_blocking(move || login.map(|login| login.ask::<String>(&["INFO", "persistence"]))).await;
            if let Ok(Some(Ok(info))) = asked
                && info_field(&info, "loading") == Some("1")
            {
                break;
            }
            if Instant::now() > end {
                return Err(StageError::Client(format!("{} was never seen loading", pod.name)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// The default user at the pod that has that name now.
fn login_at(store: &Store, name: &str) -> Option<Login> {
    let pod = named(&Here(store), name)?;
    let address = SocketAddr::new(pod.ip.parse().ok()?, names::PORT);
    Some(Login { address, user: String::new(), password: password(store, &pod.instance)? })
}

fn arch(store: &Store, instance: &str) -> String {
    let valkey = store.get(&Key::new("valkeys.rds.valkey.buf.red", NAMESPACE, instance));
    valkey.and_then(|valkey| valkey.pointer("/spec/arch")?.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Where applications enter now.
fn entrance(store: &Store, instance: &str) -> Option<Entrance> {
    let password = password(store, instance)?;
    let addresses = |sentinels: bool, port| -> Vec<SocketAddr> {
        let all = pods(&Here(store)).into_iter().filter(|pod| pod.instance == instance && pod.is_sentinel() == sentinels);
        all.filter_map(|pod| pod.ip.parse::<IpAddr>().ok()).map(|ip| SocketAddr::new(ip, port)).collect()
    };
    match arch(store, instance).as_str() {
        "cluster" => Some(Entrance::Cluster { seeds: addresses(false, names::PORT), password }),
        "failover" => {
            let sentinels = addresses(true, names::SENTINEL_PORT);
            Some(Entrance::Sentinels { sentinels, monitor: names::MONITOR.into(), password })
        }
        _ => {
            let slice = Key::new("endpointslices.discovery.k8s.io", NAMESPACE, names::writer_service(instance));
            let address = store.get(&slice)?.pointer("/endpoints/0/addresses/0").and_then(Value::as_str)?.parse().ok()?;
            Some(Login { address: SocketAddr::new(address, names::PORT), user: String::new(), password }.into())
        }
    }
}
