//! A cluster that is made, changed and taken apart with the typed commands, and what its nodes say meanwhile.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use vko_core::command::{ClusterFailover, Command, Reply};
use vko_core::world::ServerError;
use vko_model::Line;
use vko_model::accounts::{Account, ServerRole};
use vko_model::cluster::{BUS_PORT, ClusterInfo, ClusterNodes, Node};
use vko_model::config::{ServerConf, server_conf};
use vko_model::slots::SlotSet;
use vko_valkey::Administration;

use crate::accounts::without;
use crate::support::{Server, call, eventually_async};

/// Longer than a server tries to take over.
const ATTEMPT: Duration = Duration::from_secs(6);

/// Nodes, and who administers them.
struct Cluster {
    line: Line,
    nodes: Vec<Server>,
    servers: Administration,
}

/// What the light probe brought.
struct Probed {
    info: String,
    cluster: ClusterInfo,
    digest: u64,
}

impl Cluster {
    fn start(line: Line, count: usize) -> Self {
        Self { line, nodes: (0..count).map(|_| node(line)).collect(), servers: Administration::new() }
    }

    async fn ask(&self, node: usize, command: Command) -> Result<Reply, ServerError> {
        call(&self.servers, &self.nodes[node].target("operator"), command).await
    }

    /// A command that is carried out.
    async fn order(&self, node: usize, command: Command) {
        let name = command.name();
        assert_eq!(self.ask(node, command).await, Ok(Reply::Done), "{} {name}", self.line);
    }

    async fn view(&self, node: usize) -> ClusterNodes {
        match self.ask(node, Command::ClusterNodes).await {
            Ok(Reply::Text(text)) => ClusterNodes::parse(&text).unwrap(),
            other => panic!("{}: {other:?}", self.line),
        }
    }

    async fn id(&self, node: usize) -> String {
        self.view(node).await.myself().unwrap().id.clone()
    }

    async fn probe(&self, node: usize) -> Probed {
        match self.ask(node, Command::ClusterProbe).await {
            Ok(Reply::ClusterProbe { info, cluster, slots_digest }) => {
                Probed { info, cluster: ClusterInfo::parse(&cluster), digest: slots_digest }
            }
            other => panic!("{}: {other:?}", self.line),
        }
    }

    /// Waits until all views agree with a condition.
    async fn all_see(&self, what: &str, so: impl Fn(&ClusterNodes) -> bool) {
        eventually_async(&format!("{}: {what}", self.line), async || {
            for node in 0..self.nodes.len() {
                if !so(&self.view(node).await) {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Acquaints all nodes.
    async fn meet(&self) {
        for node in &self.nodes[1..] {
            self.order(0, Command::ClusterMeet { ip: IpAddr::V4(node.ip), port: node.port, bus_port: BUS_PORT }).await;
        }
        let count = self.nodes.len();
        let met = |node: &Node| node.linked && !node.handshake && node.role.is_some();
        self.all_see("all know all", |view| view.nodes.len() == count && view.nodes.iter().all(met)).await;
    }

    /// Gives all slots to the first nodes.
    async fn share_slots(&self, primaries: u16) {
        for (node, slots) in SlotSet::all().split(primaries).iter().enumerate() {
            let ranges = slots.ranges().iter().map(|range| (range.first(), range.last())).collect();
            self.order(node, Command::ClusterAddSlots(ranges)).await;
        }
        eventually_async("all slots are served", async || {
            for node in 0..self.nodes.len() {
                let cluster = self.probe(node).await.cluster;
                if cluster.state_ok != Some(true) || cluster.slots_assigned != Some(16_384) {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Makes a node a replica and waits until it may take over: synced, and told by its primary which slots that one has. The
    /// latter isn't asked for by a server that takes over without its primary's help: it takes the role, and no slot.
    async fn replicate(&self, replica: usize, primary: usize) {
        let id = self.id(primary).await;
        self.order(replica, Command::ClusterReplicate(id.clone())).await;
        let own = self.id(replica).await;
        let slots = self.view(primary).await.myself().unwrap().slots.clone();
        self.all_see("the replica is known", |view| view.replicas_of(&id).any(|node| node.id == own)).await;
        eventually_async("the replica is synced", async || {
            let port = self.nodes[replica].port;
            let info = self.nodes[primary].info();
            let attached = info.replicas.iter().find(|attached| attached.port == port);
            vko_model::replication::promotable(&self.nodes[replica].info(), attached).is_ok()
        })
        .await;
        eventually_async("the replica knows its primary's slots", async || {
            self.view(replica).await.get(&id).is_some_and(|node| node.slots == slots)
        })
        .await;
    }

    /// Has a replica take over, until all see that it has those slots, and the other one none. An attempt of the server's may
    /// fail (votes are refused while epochs change) and ends after 5 s without a word, so it is ordered again.
    async fn take_over(&self, replica: usize, how: ClusterFailover, from: &str, slots: &SlotSet) {
        let by = self.id(replica).await;
        let moved = |view: &ClusterNodes| {
            let owns = view.get(&by).is_some_and(|node| node.is_primary() && node.slots == *slots);
            owns && view.get(from).is_none_or(|node| node.slots.is_empty())
        };
        self.order(replica, Command::ClusterFailover(how)).await;
        let mut ordered = Instant::now();
        eventually_async(&format!("{}: {how:?}: the role has moved", self.line), async || {
            if ordered.elapsed() > ATTEMPT && !moved(&self.view(replica).await) {
                // Refused if it has just moved.
                let _ = self.ask(replica, Command::ClusterFailover(how)).await;
                ordered = Instant::now();
            }
            for node in 0..self.nodes.len() {
                if !moved(&self.view(node).await) {
                    return false;
                }
            }
            true
        })
        .await;
    }
}

fn node(line: Line) -> Server {
    let none = std::collections::BTreeMap::new();
    let conf = ServerConf { role: ServerRole::Cluster, line, on_claim: false, memory_limit: None, settings: &none };
    Server::start_as(ServerRole::Cluster, line, &server_conf(&conf).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_made_and_its_probes_tell_what_changes() {
    for line in Line::ALL {
        let cluster = Cluster::start(line, 4);
        assert_eq!(cluster.probe(0).await.cluster.state_ok, Some(false), "{line}: nobody owns anything yet");
        cluster.meet().await;
        let view = cluster.view(1).await;
        let first = view.nodes.iter().find(|node| node.port == cluster.nodes[0].port).unwrap();
        assert_eq!((first.host.as_deref(), first.bus_port), (Some(cluster.nodes[0].ip.to_string().as_str()), BUS_PORT), "{line}");
        cluster.share_slots(3).await;
        let view = cluster.view(3).await;
        assert_eq!(view.nodes.iter().fold(SlotSet::default(), |all, node| all.union(&node.slots)), SlotSet::all(), "{line}");

        let before = cluster.probe(2).await;
        assert!(before.info.contains("role:master"), "{line}");
        assert_eq!((before.cluster.size, before.cluster.known_nodes), (Some(3), Some(4)), "{line}");
        assert_eq!(cluster.probe(2).await.digest, before.digest, "{line}: nothing has changed");
        cluster.replicate(3, 0).await;
        // Nodes list a replica once they have heard that it holds data.
        eventually_async(&format!("{line}: a replica more changes the digest"), async || {
            cluster.probe(2).await.digest != before.digest
        })
        .await;
        eventually_async("all nodes have the same digest", async || {
            let one = cluster.probe(0).await.digest;
            let mut others = Vec::new();
            for node in 1..4 {
                others.push(cluster.probe(node).await.digest);
            }
            others.iter().all(|digest| *digest == one)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_take_over_in_each_way_and_the_dead_are_forgotten() {
    for line in Line::ALL {
        let mut cluster = Cluster::start(line, 4);
        cluster.meet().await;
        cluster.share_slots(3).await;
        cluster.replicate(3, 0).await;
        let (old, new) = (cluster.id(0).await, cluster.id(3).await);
        let slots = cluster.view(0).await.myself().unwrap().slots.clone();

        cluster.take_over(3, ClusterFailover::Coordinated, &old, &slots).await;
        cluster.replicate(0, 3).await;
        let refused = cluster.ask(3, Command::ClusterFailover(ClusterFailover::Coordinated)).await;
        assert!(matches!(&refused, Err(ServerError::Refused { code, .. }) if code == "ERR"), "{line}: {refused:?}");

        drop(cluster.nodes.pop());
        eventually_async("it can't be asked for its help", async || !cluster.nodes[0].info().link_up.unwrap()).await;
        cluster.take_over(0, ClusterFailover::Force, &new, &slots).await;

        for node in 0..3 {
            cluster.order(node, Command::ClusterForget(new.clone())).await;
            cluster.order(node, Command::ClusterForget(new.clone())).await;
        }
        cluster.all_see("the dead one is forgotten", |view| view.get(&new).is_none()).await;

        cluster.nodes.push(node(line));
        cluster.meet().await;
        cluster.replicate(3, 0).await;
        cluster.take_over(3, ClusterFailover::Takeover, &old, &slots).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_slots_are_seen_and_closed_and_an_empty_node_begins_anew() {
    for line in Line::ALL {
        let cluster = Cluster::start(line, 3);
        cluster.meet().await;
        cluster.share_slots(2).await;
        let (first, second) = (cluster.id(0).await, cluster.id(1).await);
        cluster.nodes[1].run(&["CLUSTER", "SETSLOT", "7", "IMPORTING", &first]);
        cluster.nodes[0].run(&["CLUSTER", "SETSLOT", "7", "MIGRATING", &second]);
        for (node, peer) in [(0, &second), (1, &first)] {
            let open = cluster.view(node).await.myself().unwrap().open.clone();
            assert_eq!(open.iter().map(|open| (open.slot, &open.peer)).collect::<Vec<_>>(), [(7, peer)], "{line}");
            cluster.order(node, Command::ClusterSetSlotStable(7)).await;
            assert!(cluster.view(node).await.myself().unwrap().open.is_empty(), "{line}");
        }
        for node in [1, 0] {
            cluster.order(node, Command::ClusterSetSlotNode { slot: 7, node: second.clone() }).await;
        }
        cluster.order(1, Command::ClusterBumpEpoch).await;
        cluster.all_see("the slot has moved", |view| view.get(&second).is_some_and(|node| node.slots.contains(7))).await;

        let before = cluster.id(2).await;
        cluster.order(2, Command::ClusterResetHard).await;
        let view = cluster.view(2).await;
        assert_ne!(view.myself().unwrap().id, before, "{line}");
        assert_eq!(view.nodes.len(), 1, "{line}: it knows nobody");
    }
}

/// Of the newest line, which moves slots by itself: what its source needs at the target.
#[tokio::test(flavor = "multi_thread")]
async fn moving_slots_needs_its_rights() {
    let line = Line::V9_1;
    let cluster = Cluster::start(line, 3);
    cluster.meet().await;
    cluster.share_slots(3).await;
    let (source, target) = (&cluster.nodes[0], &cluster.nodes[1]);
    let id = cluster.id(1).await;
    // Its slot is 5060.
    source.run(&["SET", "key:{foo6}", "v"]);
    let slot = format!("{:?}", source.run(&["CLUSTER", "KEYSLOT", "key:{foo6}"]));
    let slot = slot.trim_start_matches("int(").trim_end_matches(')').to_owned();
    let moved = async || {
        source.run(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot, &slot, "NODE", &id]);
        let mut state = String::new();
        eventually_async("the move has ended", async || {
            state = format!("{:?}", source.run(&["CLUSTER", "GETSLOTMIGRATIONS"]));
            let newest = state.split("operation").nth(1).unwrap_or_default();
            newest.contains("success") || newest.contains("failed")
        })
        .await;
        state.split("operation").nth(1).unwrap_or_default().contains("success")
    };
    for right in ["+cluster|syncslots", "+select", "+@write", "~*"] {
        without(target, Account::Replication, right);
        assert!(!moved().await, "without {right}");
    }
    let rules =
        Account::Replication.setuser_rules(ServerRole::Cluster, line, &crate::support::hashes("replication"), false).unwrap();
    target.run(&["ACL", "SETUSER", "replication"].into_iter().chain(rules.iter().map(String::as_str)).collect::<Vec<_>>());
    assert!(moved().await, "{}\n{}", source.log(), target.log());
}
