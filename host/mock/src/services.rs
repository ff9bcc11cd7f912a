//! Services as addresses of this machine, as kube-proxy makes them: what connects to one is passed on to a pod behind it.
//!
//! # Guarantees
//! 1. A Service with endpoints listens on an address of its own, which stays as long as it does, whoever is behind it.
//! 2. Each connection goes to one endpoint that is ready when it begins. Without any it is closed at once.
//! 3. A connection lasts as long as both sides want: as in a cluster, one that is open isn't moved when the endpoints change.
//!
//! # Assumptions
//! 1. Headless Services need no address: their names stand for their pods.
//! 2. The address is made of the Service's `clusterIP`, which is made of its namespace and name: the same Service has the same in
//!    a next life.
//!
//! # Flow
//! At each new version: Services that have no listener get one, those that are gone lose theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use vko_apiserver::{ApiServer, Key, Store};

use crate::address;
use crate::kubelet::{list, text};

/// The Services of a world.
#[derive(Debug)]
pub struct Services {
    api: Arc<ApiServer>,
    addresses: Mutex<BTreeMap<Key, Ipv4Addr>>,
    /// Picks endpoints in turn.
    next: AtomicUsize,
}

impl Services {
    /// Nobody listens yet.
    pub fn new(api: Arc<ApiServer>) -> Arc<Self> {
        Arc::new(Self { api, addresses: Mutex::default(), next: AtomicUsize::new(0) })
    }

    /// The address of a Service, once it listens.
    pub fn address(&self, key: &Key) -> Option<Ipv4Addr> {
        self.lock().get(key).copied()
    }

    /// Runs until it is dropped, and all connections with it.
    pub async fn run(self: Arc<Self>) {
        let mut versions = self.api.versions();
        let mut tasks = JoinSet::new();
        let mut listening: BTreeMap<Key, Vec<AbortHandle>> = BTreeMap::new();
        loop {
            versions.borrow_and_update();
            let wanted = self.api.read(wanted);
            let gone: Vec<Key> = listening.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
            for key in gone {
                self.lock().remove(&key);
                listening.remove(&key).into_iter().flatten().for_each(|task| task.abort());
            }
            for (key, (address, ports)) in wanted.into_iter().filter(|(key, _)| !self.lock().contains_key(key)) {
                match listen(address, &ports).await {
                    Ok((address, listeners)) => {
                        let accept = |(port, listener)| tasks.spawn(self.clone().accept(key.clone(), port, listener));
                        let accepting = listeners.into_iter().map(accept).collect();
                        listening.insert(key.clone(), accepting);
                        self.lock().insert(key, address);
                    }
                    Err(error) => tracing::warn!(service = key.name, %error, "no address for it on this machine"),
                }
            }
            tokio::select! {
                changed = versions.changed() => if changed.is_err() { return },
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    async fn accept(self: Arc<Self>, key: Key, port: u16, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let Ok((client, _)) = listener.accept().await else { continue };
            while connections.try_join_next().is_some() {}
            let behind = self.api.read(|store| endpoints(store, &key, port));
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(endpoint) = (!behind.is_empty()).then(|| behind[turn % behind.len()]) else { continue };
            connections.spawn(pass_on(client, endpoint));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Ipv4Addr>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass_on(mut client: TcpStream, endpoint: SocketAddrV4) {
    let Ok(mut server) = TcpStream::connect(endpoint).await else { return };
    // A proxy that waits for more before it sends would be slower than none.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    // Either side's end, in whatever way, is the end of both.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

/// Listens on all ports of the first address that is free.
async fn listen(wanted: Ipv4Addr, ports: &[u16]) -> std::io::Result<(Ipv4Addr, Vec<(u16, TcpListener)>)> {
    let mut refused = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for address in candidates(wanted) {
        match on_all(address, ports).await {
            Ok(listeners) => return Ok((address, listeners)),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

async fn on_all(address: Ipv4Addr, ports: &[u16]) -> std::io::Result<Vec<(u16, TcpListener)>> {
    let mut listeners = Vec::new();
    for port in ports {
        listeners.push((*port, TcpListener::bind((address, *port)).await?));
    }
    Ok(listeners)
}

/// Where a Service may listen: the wanted address, or, where that is taken (by another world with a Service of that name), one
/// that follows from it, so that worlds that come up in the same order find the same again; at last one as pods have them.
fn candidates(wanted: Ipv4Addr) -> impl Iterator<Item = Ipv4Addr> {
    let [_, second, third, fourth] = wanted.octets();
    let like_it = (second..LAST).map(move |second| Ipv4Addr::new(127, second + 1, third, fourth));
    std::iter::once(wanted).chain(like_it).chain(std::iter::once_with(address::next))
}

/// Second number of Services' addresses; pods have the higher ones.
const LAST: u8 = 127;

/// Services that should listen: where, and on which ports.
fn wanted(store: &Store) -> BTreeMap<Key, (Ipv4Addr, Vec<u16>)> {
    let service = |(key, service): (&Key, &Arc<Value>)| {
        let [_, second, third, fourth] = text(service, "/spec/clusterIP").parse::<Ipv4Addr>().ok()?.octets();
        let distinct: BTreeSet<u16> = list(service, "/spec/ports").iter().filter_map(|port| number(&port["port"])).collect();
        Some((key.clone(), (Ipv4Addr::new(127, second, third, fourth), distinct.into_iter().collect())))
    };
    store.list("services", None).filter(|(_, service)| service["spec"]["selector"].is_object()).filter_map(service).collect()
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

/// Where a Service's port leads to.
fn endpoints(store: &Store, service: &Key, port: u16) -> Vec<SocketAddrV4> {
    let found = store.get(service).map(|service| list(service, "/spec/ports")).unwrap_or_default();
    let Some(target) = found.iter().find(|known| number(&known["port"]) == Some(port)).map(|port| &port["targetPort"]) else {
        return Vec::new();
    };
    let slice = store.get(&Key::new("endpointslices.discovery.k8s.io", &service.namespace, &service.name));
    let endpoints = slice.map(|slice| list(slice, "/endpoints")).unwrap_or_default();
    let ready = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true);
    ready
        .filter_map(|endpoint| {
            let pod = store.get(&Key::new("pods", &service.namespace, text(endpoint, "/targetRef/name")))?;
            let port = number(target).or_else(|| named(pod, target.as_str()?))?;
            Some(SocketAddrV4::new(text(endpoint, "/addresses/0").parse().ok()?, port))
        })
        .collect()
}

/// A container's port of that name.
fn named(pod: &Value, name: &str) -> Option<u16> {
    let ports = list(pod, "/spec/containers").iter().flat_map(|container| list(container, "/ports"));
    ports.filter(|port| port["name"] == name).find_map(|port| number(&port["containerPort"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use vko_apiserver::store::Manner;

    const BY: Manner<'static> = Manner::by("t");

    fn pod(name: &str, ip: Ipv4Addr, port: u16) -> (Value, Value) {
        let containers = json!([{"name": "c", "image": "i", "ports": [{"name": "client", "containerPort": port}]}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n", "labels": {"role": name}},
            "spec": {"containers": containers}});
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        (pod, json!({"status": {"podIP": ip.to_string(), "phase": "Running", "conditions": conditions}}))
    }

    async fn greeter(word: &'static str) -> (Ipv4Addr, u16) {
        let ip = address::next();
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(word.as_bytes()).await.unwrap();
            }
        });
        (ip, port)
    }

    async fn greeting(ip: Ipv4Addr, port: u16) -> String {
        let mut text = String::new();
        TcpStream::connect((ip, port)).await.unwrap().read_to_string(&mut text).await.unwrap();
        text
    }

    /// Services of a world with one Service of that name in each of these namespaces; returns when all listen.
    async fn listening(name: &str, namespaces: &[&str]) -> (JoinSet<()>, Vec<Ipv4Addr>) {
        let api = ApiServer::new();
        for namespace in namespaces {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
                "spec": {"selector": {"a": "b"}, "ports": [{"name": "client", "port": 6379}]}});
            api.write(|store| store.create("services", service, BY)).unwrap();
        }
        let services = Services::new(api);
        let mut running = JoinSet::new();
        running.spawn(services.clone().run());
        let address = |namespace: &&str| services.address(&Key::new("services", *namespace, name));
        loop {
            match namespaces.iter().map(address).collect() {
                Some(addresses) => return (running, addresses),
                None => tokio::task::yield_now().await,
            }
        }
    }

    #[tokio::test]
    async fn a_service_has_the_same_address_in_a_next_life_whatever_its_namespace() {
        let name = format!("again{}", std::process::id());
        let (mut first, before) = listening(&name, &["default", "shop"]).await;
        assert_ne!(before[0], before[1]);
        let (_second, beside) = listening(&name, &["default"]).await;
        assert_eq!(candidates(before[0]).nth(1), Some(beside[0]), "another world's, while the first is up");
        first.shutdown().await;
        for ip in before.clone() {
            while TcpListener::bind((ip, 6379)).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
        let (_third, after) = listening(&name, &["shop", "default"]).await;
        assert_eq!((after[0], after[1]), (before[1], before[0]), "whoever comes first");
    }

    #[tokio::test]
    async fn connections_go_to_whoever_is_selected_when_they_begin() {
        let api = ApiServer::new();
        for word in ["one", "two"] {
            let (ip, port) = greeter(word).await;
            let (object, status) = pod(word, ip, port);
            api.write(|store| store.create("pods", object, BY)).unwrap();
            api.write(|store| store.merge(&Key::new("pods", "n", word), &status, Manner::status_by("t"))).unwrap();
        }
        let key = Key::new("services", "n", format!("s{}", std::process::id()));
        let ports = json!([{"name": "client", "port": 6379, "targetPort": "client"}]);
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": key.name, "namespace": "n"},
            "spec": {"selector": {"role": "one"}, "ports": ports, "publishNotReadyAddresses": true}});
        let services = Services::new(api.clone());
        let running = tokio::spawn(services.clone().run());
        api.write(|store| store.create("services", service, BY)).unwrap();
        let address = loop {
            match services.address(&key) {
                Some(address) => break address,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(greeting(address, 6379).await, "one");
        api.write(|store| store.merge(&key, &json!({"spec": {"selector": {"role": "two"}}}), BY)).unwrap();
        assert_eq!(greeting(address, 6379).await, "two");
        api.write(|store| store.merge(&key, &json!({"spec": {"selector": {"role": "none"}}}), BY)).unwrap();
        assert_eq!(greeting(address, 6379).await, "", "nobody is behind it");
        running.abort();
    }
}
