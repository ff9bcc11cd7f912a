//! What Sentinels say: those in the instance's own pods, and those that its spec refers to.
//!
//! # Guarantees
//! 1. A Sentinel is its own id; one that never answered has none, and is listed all the same.
//! 2. Of Sentinels that serve others too, only what concerns this instance is shown.

use std::net::IpAddr;

use serde_json::Value;
use vko_api::names;
use vko_model::address::Address as ServerAddress;
use vko_model::sentinel::Health;
use vko_wit::common::{Address, Pair};
use vko_wit::observation::{Monitor, Pod, Sentinel, SentinelPeer, SentinelReplica, Upstream};
use vko_wit::planning::Purpose;

use super::servers::{Places, age_of, reach};
use super::{Inputs, millis, text_of};
use crate::memory::{MonitorAnswer, ServerMemory};
use crate::workloads::purpose;

/// A Sentinel that the spec refers to: what its past is kept under, and where it is.
pub(crate) struct Referenced {
    pub(crate) key: String,
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
}

/// The Sentinels that a Failover's spec refers to. An address that isn't one is left out: validation refuses it.
pub(crate) fn referenced(spec: &Value) -> Vec<Referenced> {
    let nodes = spec.pointer("/sentinel/sentinelReference/nodes").and_then(Value::as_array);
    let node = |node: &Value| {
        let ip: IpAddr = node["ip"].as_str()?.parse().ok()?;
        let port = u16::try_from(node["port"].as_u64()?).ok()?;
        Some(Referenced { key: format!("sentinel {ip} {port}"), ip, port })
    };
    nodes.into_iter().flatten().filter_map(node).collect()
}

/// The name under which an instance's data set is watched; `None` where Sentinels stand alone.
pub(crate) fn monitor_name(namespace: &str, name: &str, spec: &Value) -> Option<String> {
    let sentinel = spec.get("sentinel").filter(|sentinel| sentinel.is_object())?;
    let shared = sentinel.get("sentinelReference").is_some_and(Value::is_object);
    Some(if shared { names::shared_monitor(namespace, name) } else { names::MONITOR.to_owned() })
}

pub(super) fn sentinels(inputs: &Inputs<'_>, pods: &[Pod]) -> Vec<Sentinel> {
    let own = |pod: &&Pod| purpose(inputs.kind, inputs.topology.name(), &pod.workload) == Some(Purpose::Sentinel);
    let own = pods.iter().filter(own).filter(|pod| !pod.addresses.is_empty());
    let own = own.map(|pod| (pod.uid.clone(), Upstream::Pod(pod.uid.clone()), None));
    let spec = inputs.topology.0.get("spec").unwrap_or(&Value::Null);
    let shared = monitor_name(inputs.topology.namespace(), inputs.topology.name(), spec);
    let others = referenced(spec).into_iter().map(|other| {
        let place = Address { host: other.ip.to_string(), port: other.port };
        (other.key, Upstream::Other(place), shared.as_deref())
    });
    let places = Places::new(pods.iter());
    own.chain(others).map(|(key, pod, only)| sentinel(inputs, &places, &key, pod, only)).collect()
}

fn sentinel(inputs: &Inputs<'_>, places: &Places<'_>, key: &str, pod: Upstream, only: Option<&str>) -> Sentinel {
    let memory = inputs.servers.get(key).cloned().unwrap_or_default();
    let heard = memory.sentinel.as_ref();
    let monitors = heard.and_then(|heard| heard.monitors.as_deref()).unwrap_or_default();
    let shown = monitors.iter().filter(|answer| only.is_none_or(|name| answer.monitored.name == name));
    Sentinel {
        pod,
        reach: reach(&memory, inputs),
        age: age_of(&memory, inputs),
        id: heard.map(|heard| heard.light.id.clone()).unwrap_or_default(),
        tilt: heard.is_some_and(|heard| heard.light.info.tilt == Some(true)),
        // Each answer repeats the word: a server that is asked along with the Sentinels would else never have been asked later
        // than they spoke.
        word_age: heard.and(memory.same_word_since).map(|since| millis(inputs.monotonic.saturating_sub(since))),
        monitors: shown.map(|answer| monitor(places, &memory, answer)).collect(),
    }
}

/// One data set. Its primary is read off the light answer, which is asked at each probe; the rest may be older.
fn monitor(places: &Places<'_>, memory: &ServerMemory, answer: &MonitorAnswer) -> Monitor {
    let known = &answer.monitored;
    let lines = memory.sentinel.as_ref().map(|heard| heard.light.info.monitored.as_slice()).unwrap_or_default();
    let place = lines.iter().find(|line| line.name == known.name).map_or(&known.address, |line| &line.address);
    let health = known.health.unwrap_or_default();
    Monitor {
        name: known.name.clone(),
        primary: places.of(place),
        quorum: known.quorum.unwrap_or(0),
        quorum_reached: answer.quorum_reached,
        config_epoch: known.config_epoch.unwrap_or(0),
        subjectively_down: health.subjectively_down,
        objectively_down: health.objectively_down,
        failover_state: known.failover_state.clone().unwrap_or_default(),
        replicas: answer
            .replicas
            .iter()
            .map(|replica| SentinelReplica {
                pod: places.of(&replica.address),
                run_id: text_of(replica.run_id.as_ref()),
                down: replica.health.is_none_or(Health::is_down),
                link_up: replica.link_up == Some(true),
            })
            .collect(),
        peers: answer.peers.iter().map(|peer| peer_of(places, &peer.address, peer.id.as_ref(), peer.health)).collect(),
        options: known.options.iter().map(|(key, value)| Pair { key: key.clone(), value: value.clone() }).collect(),
    }
}

fn peer_of(places: &Places<'_>, place: &ServerAddress, id: Option<&String>, health: Option<Health>) -> SentinelPeer {
    SentinelPeer { pod: places.of(place), id: text_of(id), down: health.is_none_or(Health::is_down) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_name_of_the_data_set() {
        let cases = [
            ("own Sentinels", json!({"sentinel": {"replicas": 3}}), Some("mymaster")),
            ("shared ones", json!({"sentinel": {"sentinelReference": {"nodes": []}}}), Some("shop.x")),
            ("none", json!({"replicas": 3}), None),
        ];
        for (case, spec, expected) in cases {
            assert_eq!(monitor_name("shop", "x", &spec).as_deref(), expected, "{case}");
        }
    }

    #[test]
    fn who_is_referred_to() {
        let nodes = json!([{"ip": "10.1.0.1", "port": 26379}, {"ip": "fd00::2", "port": 5000}, {"ip": "name", "port": 1}, {"ip": "10.1.0.3"}]);
        let all = referenced(&json!({"sentinel": {"sentinelReference": {"nodes": nodes}}}));
        let found: Vec<_> = all.iter().map(|one| (one.key.as_str(), one.port)).collect();
        assert_eq!(found, [("sentinel 10.1.0.1 26379", 26379), ("sentinel fd00::2 5000", 5000)]);
        assert!(referenced(&json!({"sentinel": {"replicas": 3}})).is_empty());
    }
}
