//! One instance `x` in the world in memory: pods `rfr-x-0`.. with the UIDs `uid-0`.., member 0 the primary, a topology object
//! with a ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;
use vko_wit::observation::Observed;

use vko_model::slots::SlotSet;

use super::sentinel::FakeMonitor;
use super::{FakeNode, FakeSentinel, FakeServer, FakeWorld, node_id};
use crate::guard::testing::{Scene, uid};
use crate::lease::LeaseState;
use crate::ledger::{Ledger, Member};
use crate::memory::Memory;
use crate::object::{Kind, ObjectId};
use crate::secret::Secret;
use crate::settings::Settings;
use crate::site::Site;
use crate::store::Store;
use crate::world::{Credential, Target};

/// The instance as rendering knows it.
pub(crate) fn mk_topology() -> crate::render::Topology {
    crate::render::Topology {
        kind: crate::render::TopologyKind::Failover,
        namespace: "shop".into(),
        name: "x".into(),
        uid: "topology".into(),
        valkey_uid: "valkey".into(),
        spec: json!({"replicas": 3}),
    }
}

pub(crate) fn topology_id() -> ObjectId {
    ObjectId::new(Kind::Failover, "shop", "x")
}

fn topology(ledger: &Ledger) -> Value {
    json!({
        "apiVersion": Kind::Failover.api_version(),
        "kind": "Failover",
        "metadata": {"name": "x", "namespace": "shop", "uid": "topology"},
        "spec": {"replicas": 3},
        "status": {"phase": "Ready", "ledger": ledger},
    })
}

/// The observation of it while all is well.
pub(crate) fn observed(members: u32) -> Observed {
    Scene::healthy(members).0
}

/// World and site; the ledger names member 0.
pub(crate) fn mk_site(members: u32) -> (Arc<FakeWorld>, Arc<Site<FakeWorld>>) {
    let world = Arc::new(FakeWorld::default());
    let site = mk_site_in(&world, members, LeaseState::alone(world.clone()), true);
    (world, site)
}

/// A site in a world that is there already (`fresh`: or that is set up now).
pub(crate) fn mk_site_in(world: &Arc<FakeWorld>, members: u32, lease: LeaseState, fresh: bool) -> Arc<Site<FakeWorld>> {
    let mut ledger = Ledger { formed: Some(true), ..Ledger::default() };
    ledger.set_last_primary(Member { workload: "rfr-x".into(), ordinal: 0, pod: uid(0), ..Member::default() });
    ledger.note_lineage("h1", 900, 0);
    if fresh {
        let mut state = world.state();
        state.put(topology(&ledger));
        for ordinal in 0..members {
            let (name, ip) = (format!("rfr-x-{ordinal}"), ip(ordinal));
            let server =
                if ordinal == 0 { FakeServer::primary(&name, &ip) } else { FakeServer::replica(&name, &ip, &self::ip(0)) };
            state.servers.insert(uid(ordinal), server);
            let metadata = json!({"name": name, "namespace": "shop", "uid": uid(ordinal), "labels": {"buf.red/name": "x"}});
            state.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}));
        }
    }
    let object = crate::object::Object::new(world.object(&topology_id()).unwrap());
    let ledger = Ledger::read(object.0.get("status"));
    let store = Store::new(world.clone(), lease.clone(), topology_id(), object, ledger);
    let (memory, wake) = (Arc::new(Memory::default()), Arc::new(Notify::new()));
    let site = Site::new(world.clone(), Arc::new(mk_settings()), lease, store, memory, wake);
    site.set_targets(
        (0..members).map(|ordinal| (uid(ordinal), (format!("rfr-x-{ordinal}"), target(ordinal)))).collect::<BTreeMap<_, _>>(),
    );
    Arc::new(site)
}

/// The data set of `mk_site` with three Sentinels that watch member 0 as `mymaster`.
pub(crate) fn mk_sentinel_site(members: u32) -> (Arc<FakeWorld>, Arc<Site<FakeWorld>>) {
    let (world, site) = mk_site(members);
    let mut sentinels = BTreeMap::new();
    for number in 0..3 {
        let (id, name) = (sentinel_id(number), format!("rfs-x-{number}"));
        let monitors = BTreeMap::from([("mymaster".to_owned(), FakeMonitor::of(&ip(0)))]);
        let sentinel = FakeSentinel { name: name.clone(), monitors, silent: false, stuck: false, ignores: Vec::new() };
        world.state().sentinels.insert(id.clone(), sentinel);
        let at = Target { pod: id.clone(), ip: format!("10.0.2.{}", number + 1).parse().unwrap(), port: 26379, ..target(0) };
        sentinels.insert(id, (name, at));
    }
    site.set_sentinels(sentinels);
    site.set_monitor(Some("mymaster".into()));
    let credential = Credential { user: "sentinel".into(), password: Secret::new("s3ntinel") };
    site.set_credentials(BTreeMap::from([("sentinel".to_owned(), credential)]));
    (world, site)
}

/// Id of a Sentinel.
pub(crate) fn sentinel_id(number: u32) -> String {
    format!("{number:5>40}")
}

/// A cluster of three shards with two members each: ordinal 0 owns a third of the slots, ordinal 1 follows it. `formed`: or
/// nothing is done yet, and nobody knows anybody.
pub(crate) fn mk_cluster_site(formed: bool) -> (Arc<FakeWorld>, Arc<Site<FakeWorld>>) {
    let world = Arc::new(FakeWorld::default());
    let site = mk_site_in(&world, 6, LeaseState::alone(world.clone()), true);
    let all: std::collections::BTreeSet<String> = (0..6).map(node_id).collect();
    let parts = SlotSet::all().split(3);
    for number in 0..6 {
        let (shard, ordinal) = (number / 2, number % 2);
        let mut node = FakeNode { id: node_id(number), knows: [node_id(number)].into(), ..FakeNode::default() };
        world.change(&uid(number), |server| {
            server.name = format!("drc-x-{shard}-{ordinal}");
            (server.upstream, server.keys) = (None, 0);
            if formed {
                node.knows.clone_from(&all);
                node.epoch = u64::from(shard) + 1;
                server.keys = 10;
                if ordinal == 0 {
                    node.slots = parts[shard as usize].clone();
                } else {
                    node.replica_of = Some(node_id(number - 1));
                    server.upstream = Some(ip(number - 1).parse().unwrap());
                }
            }
            server.node = Some(node);
        });
    }
    site.set_targets(
        (0..6).map(|number| (uid(number), (world.server(&uid(number)).name, target(number)))).collect::<BTreeMap<_, _>>(),
    );
    (world, site)
}

fn ip(ordinal: u32) -> String {
    format!("10.0.0.{}", ordinal + 1)
}

fn target(ordinal: u32) -> Target {
    let credential = Credential { user: "operator".into(), password: Secret::new("p") };
    Target { pod: uid(ordinal), ip: ip(ordinal).parse().unwrap(), port: 6379, credential }
}

/// An operator of version 0.1.0.
pub(crate) fn mk_settings() -> Settings {
    Settings {
        operator_version: "0.1.0".into(),
        agent_image: "example.org/valkey-operator:0.1.0".into(),
        cluster_domain: "cluster.local".into(),
        operator_namespace: "valkey-system".into(),
        identity: "valkey-operator-0".into(),
        probe_interval: crate::probe::QUIET,
    }
}
