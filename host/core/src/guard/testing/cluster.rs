//! Scenes of clusters and of Sentinels, on top of [`Scene`].
//!
//! A cluster has three shards of two members, numbered 0 to 5: members 0, 2 and 4 own a third of the slots each, 1, 3 and 5
//! follow them. Node ids are those of [`node_id`]. Sentinels are numbered 0 to 2 and watch member 0 as `mymaster`.

use vko_wit::common::{Architecture, SlotRange};
use vko_wit::observation::{Belief, ClusterFacts, Monitor, Peer, Reach, Sentinel, Upstream};

use super::{Scene, mk_member, uid};
use crate::testing::{node_id, sentinel_id};

/// The slots of a shard.
pub(crate) fn slots(shard: u32) -> Vec<SlotRange> {
    let (first, last) = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)][shard as usize];
    vec![SlotRange { first, last }]
}

/// A node that all see alike.
pub(crate) fn mk_peer(number: u32) -> Peer {
    let leads = number.is_multiple_of(2);
    Peer {
        id: node_id(number),
        pod: Upstream::Pod(uid(number)),
        replica_of: if leads { String::new() } else { node_id(number - 1) },
        config_epoch: u64::from(number / 2) + 1,
        failed: false,
        handshake: false,
        suspected_by: 0,
        linked_by: 5,
        slots: if leads { slots(number / 2) } else { Vec::new() },
    }
}

fn mk_cluster_facts(number: u32) -> ClusterFacts {
    ClusterFacts {
        id: node_id(number),
        state_ok: true,
        epoch: 3,
        config_epoch: u64::from(number / 2) + 1,
        importing: Vec::new(),
        migrating: Vec::new(),
        migrations: Vec::new(),
        differs: Vec::new(),
        differences: 0,
    }
}

/// What a server believes of a node beside the others: that it is a primary with these slots.
pub(crate) fn mk_belief(node: String, slots: Vec<SlotRange>) -> Belief {
    Belief {
        id: node,
        known: true,
        replica_of: String::new(),
        config_epoch: 9,
        linked: true,
        suspected: false,
        failed: false,
        slots,
    }
}

fn mk_sentinel(number: u32) -> Sentinel {
    let monitor = Monitor {
        name: "mymaster".into(),
        primary: Upstream::Pod(uid(0)),
        quorum: 2,
        quorum_reached: Some(true),
        config_epoch: 1,
        subjectively_down: false,
        objectively_down: false,
        failover_state: String::new(),
        replicas: Vec::new(),
        peers: Vec::new(),
        options: Vec::new(),
    };
    Sentinel {
        pod: Upstream::Pod(format!("s-{number}")),
        reach: Reach::Answered,
        age: 500,
        id: sentinel_id(number),
        tilt: false,
        word_age: None,
        monitors: vec![monitor],
    }
}

impl Scene {
    /// All well.
    pub(crate) fn cluster() -> Self {
        let mut scene = Self::healthy(6);
        scene.0.instance.architecture = Architecture::Cluster;
        scene.0.instance.kind = "Cluster".into();
        scene.0.instance.spec = r#"{"replicas":{"shards":3,"replicasOfShard":2},"storage":{"retainAfterDeleted":false}}"#.into();
        scene.0.ledger.lineages.clear();
        let member = |number: u32| {
            let (workload, node_id) = (format!("drc-x-{}", number / 2), node_id(number));
            vko_wit::observation::LedgerMember { workload, ordinal: number % 2, node_id, ..mk_member(number) }
        };
        scene.0.ledger.members = (0..6).map(member).collect();
        scene.0.ledger.last_primary = vko_wit::observation::LastPrimary::Members([0, 2, 4].map(member).to_vec());
        for number in 0..6 {
            let pod = scene.pod(number);
            (pod.workload, pod.ordinal) = (format!("drc-x-{}", number / 2), number % 2);
            pod.name = format!("drc-x-{}-{}", number / 2, number % 2);
            let history = format!("h-{}", number / 2);
            let leads = number % 2 == 0;
            let primary = Upstream::Pod(uid(number - number % 2));
            let facts = scene.facts(number);
            facts.role = if leads { vko_wit::observation::Role::Primary } else { super::replica_of(primary) };
            facts.replid = history;
            facts.cluster = vec![mk_cluster_facts(number)];
            facts.replicas = Vec::new();
            if leads {
                facts.replicas.push(vko_wit::observation::AttachedReplica {
                    pod: Upstream::Pod(uid(number + 1)),
                    online: true,
                    offset: 1_000,
                    lag: 1_000,
                });
            }
        }
        scene.0.agreed_view = (0..6).map(mk_peer).collect();
        scene
    }

    /// Six empty servers that know themselves alone, and nothing was ever formed.
    pub(crate) fn unformed_cluster() -> Self {
        let mut scene = Self::cluster();
        scene.0.ledger.formed = Some(false);
        scene.0.ledger.members.clear();
        scene.0.ledger.last_primary = vko_wit::observation::LastPrimary::None;
        for number in 0..6 {
            let others = (0..6).filter(|other| *other != number);
            let stranger = |other| Belief { known: false, ..mk_belief(node_id(other), Vec::new()) };
            let facts = scene.facts(number);
            facts.role = vko_wit::observation::Role::Primary;
            (facts.keys, facts.offset) = (0, 0);
            facts.replid = format!("own-{number}");
            facts.replicas.clear();
            facts.cluster[0].differs = others.map(stranger).collect();
            facts.cluster[0].differences = 5;
        }
        for peer in &mut scene.0.agreed_view {
            peer.slots.clear();
            peer.replica_of.clear();
            (peer.config_epoch, peer.linked_by) = (0, 0);
        }
        scene
    }

    /// What most believe of a node.
    pub(crate) fn peer(&mut self, number: u32) -> &mut Peer {
        self.0.agreed_view.iter_mut().find(|peer| peer.id == node_id(number)).unwrap()
    }

    /// What a server says of its cluster.
    pub(crate) fn cluster_of(&mut self, number: u32) -> &mut ClusterFacts {
        &mut self.facts(number).cluster[0]
    }

    /// A replica took that shard over, all see it.
    pub(crate) fn elect(&mut self, replica: u32) -> &mut Self {
        let old = replica - 1;
        let taken = std::mem::take(&mut self.peer(old).slots);
        self.peer(old).replica_of = node_id(replica);
        let peer = self.peer(replica);
        (peer.slots, peer.replica_of, peer.config_epoch) = (taken, String::new(), 9);
        self.facts(replica).role = vko_wit::observation::Role::Primary;
        self
    }

    /// Its pod is gone, others see its node as failed.
    pub(crate) fn lose(&mut self, number: u32) -> &mut Self {
        self.remove(number);
        let peer = self.peer(number);
        (peer.pod, peer.failed, peer.linked_by) = (Upstream::Nobody, true, 0);
        self
    }

    /// Our agent answers in its place: a replica has more.
    pub(crate) fn hold(&mut self, number: u32) -> &mut Self {
        self.refuse(number, "HELD behind: a replica has data that this primary lacks")
    }

    /// It answers with this error and nothing else.
    pub(crate) fn refuse(&mut self, number: u32, reason: &str) -> &mut Self {
        let failure = vko_wit::observation::Failure { lasting: 3_000, reason: reason.into() };
        let server = self.server(number);
        (server.reach, server.age) = (Reach::Refused(failure), 3_000);
        self.peer(number).failed = true;
        self
    }

    /// A node that is alive and no pod of ours, in every view.
    pub(crate) fn stranger(&mut self) -> &mut Self {
        let peer = Peer { id: node_id(77), pod: Upstream::Nobody, slots: Vec::new(), replica_of: String::new(), ..mk_peer(0) };
        self.0.agreed_view.push(peer);
        self
    }

    /// A primary with two replicas, watched by three Sentinels.
    pub(crate) fn watched() -> Self {
        let mut scene = Self::healthy(3);
        scene.0.instance.architecture = Architecture::Failover;
        for number in 0..3 {
            let mut pod = super::mk_pod(number);
            (pod.uid, pod.name, pod.workload) = (format!("s-{number}"), format!("rfs-x-{number}"), "rfs-x".into());
            scene.0.pods.push(pod);
            scene.0.sentinels.push(mk_sentinel(number));
        }
        scene
    }

    pub(crate) fn sentinel(&mut self, number: u32) -> &mut Sentinel {
        self.0.sentinels.iter_mut().find(|sentinel| sentinel.id == sentinel_id(number)).unwrap()
    }

    pub(crate) fn monitor(&mut self, number: u32) -> &mut Monitor {
        &mut self.sentinel(number).monitors[0]
    }

    /// A Sentinel gives no answer.
    pub(crate) fn silence_sentinel(&mut self, number: u32) -> &mut Self {
        let sentinel = self.sentinel(number);
        (sentinel.reach, sentinel.age) = (Reach::Silent(10_000), 10_000);
        self
    }
}
