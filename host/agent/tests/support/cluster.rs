//! A real cluster of three shards with a replica each. The first shard has nearly all slots, so that nearly all keys are in it.

use std::fs;
use std::path::Path;

use super::{Member, address, eventually};

/// The bus port, set as in a pod.
const BUS_PORT: u16 = 16379;
/// The slots of each shard.
const SLOTS: [(&str, &str); 3] = [("0", "16000"), ("16001", "16200"), ("16201", "16383")];

pub(crate) struct Cluster {
    pub(crate) primaries: Vec<Member>,
    pub(crate) replicas: Vec<Member>,
}

impl Member {
    /// A node of a cluster; nothing runs yet. The node timeout is so long that no replica takes over by itself in a test.
    pub(crate) fn node(line: &'static str, more: &str) -> Self {
        let number = super::NEXT.fetch_add(1, super::Ordering::Relaxed);
        let member = Self::with_folders("cluster", line, address(number), 6379);
        let conf = format!(
            "{}cluster-enabled yes\ncluster-port {BUS_PORT}\ncluster-config-file nodes.conf\ncluster-node-timeout 60000\n\
             cluster-allow-replica-migration no\n{more}",
            super::CONF
        );
        member.write("conf/valkey.conf", &conf);
        member.write("conf/ending", "no");
        member
    }

    pub(crate) fn node_id(&self) -> String {
        self.client().text(&["CLUSTER", "MYID"])
    }
}

impl Cluster {
    /// Formed, all replicas synced and acknowledged.
    pub(crate) fn start(line: &'static str, more: &str) -> Self {
        let nodes = || (0..3).map(|_| Member::node(line, more).start()).collect::<Vec<_>>();
        let cluster = Self { primaries: nodes(), replicas: nodes() };
        let first = cluster.primaries[0].client();
        meet(first, cluster.members());
        for (primary, (from, to)) in cluster.primaries.iter().zip(SLOTS) {
            assert_eq!(primary.client().text(&["CLUSTER", "ADDSLOTSRANGE", from, to]), "OK");
        }
        let all = cluster.members().count();
        eventually("all know all, and who owns what", || {
            cluster.members().all(|member| {
                let nodes = member.client().text(&["CLUSTER", "NODES"]);
                let known = SLOTS.iter().all(|(from, to)| nodes.contains(&format!(" {from}-{to}")));
                nodes.lines().count() == all && !nodes.contains("handshake") && known
            })
        });
        for (primary, replica) in cluster.primaries.iter().zip(&cluster.replicas) {
            assert_eq!(replica.client().text(&["CLUSTER", "REPLICATE", &primary.node_id()]), "OK");
        }
        for (primary, replica) in cluster.primaries.iter().zip(&cluster.replicas) {
            cluster.wait_synced(primary, replica);
        }
        cluster
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.primaries.iter().chain(&self.replicas)
    }

    /// Waits until all see a replica follow a primary, it is ready, and its primary knows.
    pub(crate) fn wait_synced(&self, primary: &Member, replica: &Member) {
        let (of, id) = (primary.node_id(), replica.node_id());
        eventually("all know who follows", || {
            self.members().filter(|member| member.runs()).all(|member| {
                let nodes = member.client().text(&["CLUSTER", "NODES"]);
                nodes.lines().any(|line| line.starts_with(&id) && line.contains("slave") && line.contains(&of))
            })
        });
        eventually("ready", || replica.ready() && primary.ready());
        primary.wait_acknowledged(replica);
    }

    /// Keys in the first shard.
    pub(crate) fn fill(&self) -> Vec<String> {
        let mut client = self.primaries[0].client();
        let keys: Vec<String> =
            (0..200).map(|number| format!("key:{number}")).filter(|key| client.call(&["SET", key, "value"]).is_ok()).collect();
        assert!(keys.len() > 150, "the first shard has nearly all slots");
        self.primaries[0].wait_acknowledged_all(&self.replicas[0]);
        keys
    }
}

fn meet<'a>(mut first: super::Client, members: impl Iterator<Item = &'a Member>) {
    let bus = BUS_PORT.to_string();
    for member in members {
        let (ip, port) = (member.ip.to_string(), member.port.to_string());
        assert_eq!(first.text(&["CLUSTER", "MEET", &ip, &port, &bus]), "OK");
    }
}

/// `nodes.conf` of a member.
pub(crate) fn nodes_conf(folder: &Path) -> String {
    fs::read_to_string(folder.join("data/nodes.conf")).unwrap()
}
