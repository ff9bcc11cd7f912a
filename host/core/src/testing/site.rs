//! One instance `x` in the world in memory: pods `rfr-x-0`.. with the UIDs `uid-0`.., member 0 the primary, a topology object with a ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;
use vko_wit::observation::Observed;

use super::{FakeServer, FakeWorld};
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
    let store = Store::new(world.clone(), topology_id(), object, ledger);
    let (memory, wake) = (Arc::new(Memory::default()), Arc::new(Notify::new()));
    let site = Site::new(world.clone(), Arc::new(mk_settings()), lease, store, memory, wake);
    site.set_targets(
        (0..members).map(|ordinal| (uid(ordinal), (format!("rfr-x-{ordinal}"), target(ordinal)))).collect::<BTreeMap<_, _>>(),
    );
    Arc::new(site)
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
