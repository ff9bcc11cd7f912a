//! Observations for tests: builders of single facts, and a [`Scene`] that is changed fault by fault.
//!
//! Names: instance `x`, pods `rfr-x-0`.., UIDs `uid-0`.., runs `run-0`.., claims `claim-0`.., history `h1` at offset 1000. Member
//! 0 is the primary, the others follow it.

mod cluster;

pub(crate) use self::cluster::{mk_belief, mk_peer, slots};

use vko_wit::common::{Architecture, Version};
use vko_wit::observation::{
    AttachedReplica, Claim, ContainerState, DataOrigin, Environment, Fence, FenceRecord, Instance, IpFamily, LastPrimary, Ledger,
    LedgerMember, Lineage, NodeState, Observed, Pod, Reach, ReplicaLink, Role, Server, ServerFacts, TemplateState, Tls, Upstream,
};
use vko_wit::planning::{
    Follow, HandOver, Operation, Phase, Plan, Purpose, Routing, StartMode, Status, Step, Track, Workload, Writer,
};

use super::{Circumstances, Guarded, guard};

/// The time of every scene (Unix ms).
pub(crate) const NOW: u64 = 1_800_000_000_000;

/// A view that speaks against nothing.
pub(crate) const CALM: Circumstances = Circumstances { lease: true, fresh: true, cut_off: false, current: true };

pub(crate) fn uid(ordinal: u32) -> String {
    format!("uid-{ordinal}")
}

/// A pod that runs and is ready, on a node of its own.
pub(crate) fn mk_pod(ordinal: u32) -> Pod {
    Pod {
        uid: uid(ordinal),
        name: format!("rfr-x-{ordinal}"),
        workload: "rfr-x".into(),
        ordinal,
        role_label: String::new(),
        addresses: vec![format!("10.0.0.{}", ordinal + 1)],
        node: format!("node-{ordinal}"),
        zone: String::new(),
        node_state: NodeState::Alive,
        phase: "Running".into(),
        waiting: String::new(),
        container: ContainerState::Running,
        ready: true,
        ready_for: 600_000,
        terminating_for: 0,
        restarts: 0,
        template: TemplateState::Current,
        mounted_start: None,
    }
}

/// What a primary says of itself: ten keys, offset 1000 of `h1`.
pub(crate) fn mk_facts(ordinal: u32) -> ServerFacts {
    ServerFacts {
        run_id: format!("run-{ordinal}"),
        version: Version { major: 9, minor: 1, patch: 0 },
        uptime: 600_000,
        role: Role::Primary,
        replid: "h1".into(),
        offset: 1_000,
        second_replid: String::new(),
        second_offset: 0,
        failover_state: "no-failover".into(),
        keys: 10,
        used_memory: 1 << 20,
        max_memory: 1 << 26,
        max_memory_policy: "noeviction".into(),
        replicas: Vec::new(),
        origin: DataOrigin::Empty,
        saving: false,
        last_save: NOW - 60_000,
        last_save_ok: true,
        writes_paused: Some(false),
        fence: Fence { min_replicas: 0, max_lag: 0, good_replicas: 0 },
        config_drift: Vec::new(),
        user_drift: Vec::new(),
        tls: Tls::Off,
        cluster: Vec::new(),
        cannot_write: None,
        extensions: Vec::new(),
    }
}

/// A replica's role; its link is up unless it follows nobody.
pub(crate) fn replica_of(primary: Upstream) -> Role {
    let up = primary != Upstream::Nobody;
    Role::Replica(ReplicaLink { primary, up, syncing: false, last_io: up.then_some(0), down_for: None, priority: 100 })
}

/// A server that answered half a second ago.
pub(crate) fn mk_server(ordinal: u32, facts: ServerFacts) -> Server {
    Server { pod: uid(ordinal), reach: Reach::Answered, age: 500, facts: Some(facts) }
}

pub(crate) fn mk_claim(ordinal: u32) -> Claim {
    Claim {
        name: format!("valkey-data-rfr-x-{ordinal}"),
        uid: format!("claim-{ordinal}"),
        workload: "rfr-x".into(),
        ordinal,
        phase: "Bound".into(),
        capacity: 1 << 30,
        resizing: false,
        node: format!("node-{ordinal}"),
        node_exists: Some(true),
        before_instance: false,
    }
}

pub(crate) fn mk_member(ordinal: u32) -> LedgerMember {
    LedgerMember { workload: "rfr-x".into(), ordinal, pod: uid(ordinal), claim: String::new(), node_id: String::new() }
}

/// An observation without members, of an instance that was formed.
pub(crate) fn mk_observed(replicas: u32) -> Observed {
    Observed {
        now: NOW,
        instance: Instance {
            namespace: "shop".into(),
            name: "x".into(),
            uid: "topology".into(),
            generation: 1,
            architecture: Architecture::Replica,
            kind: "Failover".into(),
            spec: format!(r#"{{"replicas":{replicas},"storage":{{"retainAfterDeleted":false}}}}"#),
            annotations: Vec::new(),
            status: "null".into(),
            deleting: false,
            paused: false,
            consents: Vec::new(),
        },
        environment: Environment {
            operator_version: "0.1.0".into(),
            looking_for: 600_000,
            ip_family: IpFamily::Ipv4,
            cluster_domain: "cluster.local".into(),
            zones: Vec::new(),
            capabilities: crate::observe::CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
            fence_max_lag: 5_000,
        },
        ledger: Ledger {
            formed: Some(true),
            members: Vec::new(),
            lineages: vec![Lineage { replid: "h1".into(), best_offset: 900, seen: 0 }],
            last_primary: LastPrimary::Members(vec![mk_member(0)]),
            operations: Vec::new(),
            fences: Vec::new(),
            finished_version: None,
            consents_used: Vec::new(),
        },
        objects: Vec::new(),
        claims: Vec::new(),
        pods: Vec::new(),
        servers: Vec::new(),
        agreed_view: Vec::new(),
        sentinels: Vec::new(),
        users: Vec::new(),
        recent: Vec::new(),
        jobs: Vec::new(),
        extensions: vko_wit::facts::mk_held(Some(true)),
    }
}

/// A primary with its replicas, all well; faults are added one by one.
#[derive(Clone)]
pub(crate) struct Scene(pub(crate) Observed);

impl Scene {
    /// Member 0 is the primary, the others are its synced replicas.
    pub(crate) fn healthy(members: u32) -> Self {
        let mut observed = mk_observed(members);
        for ordinal in 0..members {
            let mut facts = mk_facts(ordinal);
            if ordinal == 0 {
                let streams =
                    |pod: u32| AttachedReplica { pod: Upstream::Pod(uid(pod)), online: true, offset: 1_000, lag: 1_000 };
                facts.replicas = (1..members).map(streams).collect();
            } else {
                facts.role = replica_of(Upstream::Pod(uid(0)));
                facts.origin = DataOrigin::Sync;
            }
            observed.pods.push(mk_pod(ordinal));
            observed.servers.push(mk_server(ordinal, facts));
        }
        Self(observed)
    }

    /// All members wait to be named, empty, and nothing was ever formed.
    pub(crate) fn unformed(members: u32) -> Self {
        let mut scene = Self::healthy(members);
        scene.0.ledger.formed = Some(false);
        scene.0.ledger.lineages.clear();
        scene.0.ledger.last_primary = LastPrimary::None;
        for ordinal in 0..members {
            let facts = scene.facts(ordinal);
            facts.role = replica_of(Upstream::Nobody);
            facts.replid = format!("own-{ordinal}");
            (facts.keys, facts.offset, facts.origin) = (0, 0, DataOrigin::Empty);
        }
        scene
    }

    pub(crate) fn pod(&mut self, ordinal: u32) -> &mut Pod {
        self.0.pods.iter_mut().find(|pod| pod.uid == uid(ordinal) || pod.uid == format!("new-{ordinal}")).unwrap()
    }

    pub(crate) fn server(&mut self, ordinal: u32) -> &mut Server {
        let uid = self.pod(ordinal).uid.clone();
        self.0.servers.iter_mut().find(|server| server.pod == uid).unwrap()
    }

    pub(crate) fn facts(&mut self, ordinal: u32) -> &mut ServerFacts {
        self.server(ordinal).facts.as_mut().unwrap()
    }

    pub(crate) fn link(&mut self, ordinal: u32) -> &mut ReplicaLink {
        match &mut self.facts(ordinal).role {
            Role::Replica(link) => link,
            Role::Primary => panic!("member {ordinal} is no replica"),
        }
    }

    /// No answer for ten seconds.
    pub(crate) fn silence(&mut self, ordinal: u32) -> &mut Self {
        let server = self.server(ordinal);
        (server.reach, server.age) = (Reach::Silent(10_000), 10_000);
        self
    }

    /// Silent, and this process never heard it.
    pub(crate) fn unhear(&mut self, ordinal: u32) -> &mut Self {
        let server = self.server(ordinal);
        (server.reach, server.age, server.facts) = (Reach::Silent(10_000), u64::MAX, None);
        self
    }

    /// Its container has ended.
    pub(crate) fn kill(&mut self, ordinal: u32) -> &mut Self {
        self.pod(ordinal).container = ContainerState::Terminated;
        self.pod(ordinal).ready = false;
        self.silence(ordinal)
    }

    /// Another pod fills its place, and isn't heard yet.
    pub(crate) fn replace(&mut self, ordinal: u32) -> &mut Self {
        self.unhear(ordinal).server(ordinal).pod = format!("new-{ordinal}");
        let pod = self.pod(ordinal);
        (pod.uid, pod.ready) = (format!("new-{ordinal}"), false);
        self
    }

    /// No pod fills its place.
    pub(crate) fn remove(&mut self, ordinal: u32) -> &mut Self {
        self.0.pods.retain(|pod| pod.uid != uid(ordinal));
        self.0.servers.retain(|server| server.pod != uid(ordinal));
        self
    }

    /// It follows nobody, with what it has.
    pub(crate) fn detach(&mut self, ordinal: u32) -> &mut Self {
        self.facts(ordinal).role = replica_of(Upstream::Nobody);
        self
    }

    /// It follows that one.
    pub(crate) fn follow(&mut self, ordinal: u32, primary: u32) -> &mut Self {
        let primary = self.pod(primary).uid.clone();
        self.facts(ordinal).role = replica_of(Upstream::Pod(primary));
        self
    }

    /// A new process that found its data in a file: of `h1` at that offset, or (zero) of no history that anybody knows.
    pub(crate) fn restart(&mut self, ordinal: u32, offset: u64) -> &mut Self {
        let facts = self.detach(ordinal).facts(ordinal);
        facts.run_id.push_str("-again");
        facts.offset = offset;
        facts.origin = if offset == 0 { DataOrigin::AppendOnlyFile } else { DataOrigin::Snapshot };
        if offset == 0 {
            facts.replid = format!("own-{ordinal}");
        }
        self
    }

    /// Its data is gone.
    pub(crate) fn empty(&mut self, ordinal: u32) -> &mut Self {
        let facts = self.restart(ordinal, 0).facts(ordinal);
        (facts.keys, facts.origin) = (0, DataOrigin::Empty);
        self
    }

    /// The ledger's fence of it, for its run; `detached` ms ago the last replica left (zero: not yet).
    pub(crate) fn fence(&mut self, ordinal: u32, min_replicas: u32, detached: u64) -> &mut Self {
        let detached_at = if detached == 0 { 0 } else { NOW - detached };
        let run_id = format!("run-{ordinal}");
        self.0.ledger.fences.push(FenceRecord {
            pod: uid(ordinal),
            run_id,
            min_replicas,
            max_lag: 5_000,
            set_at: NOW - 60_000,
            detached_at,
            detached_at_written: detached_at,
        });
        self
    }

    pub(crate) fn claims(&mut self, members: u32) -> &mut Self {
        self.0.claims = (0..members).map(mk_claim).collect();
        self
    }

    pub(crate) fn consent(&mut self, token: &str) -> &mut Self {
        self.0.instance.consents.push(token.into());
        self
    }

    /// What the guard says of a plan with this one step: `ok`, or the rule's name and why.
    pub(crate) fn ask(&self, step: Step) -> String {
        self.ask_all(vec![track("t", vec![step])])
    }

    /// What the guard says of these tracks: `ok`, or the first refusal.
    pub(crate) fn ask_all(&self, tracks: Vec<Track>) -> String {
        verdict(&guard(&mk_plan(tracks), &self.0, CALM, &[]))
    }
}

/// `ok`, or the first refusal.
pub(crate) fn verdict(guarded: &Guarded) -> String {
    guarded.refusals.first().map_or_else(|| "ok".to_owned(), |refusal| format!("{}: {}", refusal.name, refusal.why))
}

pub(crate) fn mk_plan(tracks: Vec<Track>) -> Plan {
    Plan {
        status: Status { phase: Phase::Ready, message: String::new(), conditions: Vec::new(), details: "{}".into() },
        desired: Vec::new(),
        routing: Routing { writer: Writer::None, readers: Vec::new() },
        tracks,
        blocked: Vec::new(),
        look_again: 0,
        extensions: Vec::new(),
    }
}

pub(crate) fn mk_workload(members: u32) -> Workload {
    Workload {
        name: "rfr-x".into(),
        purpose: Purpose::Data,
        shard: 0,
        members,
        start: StartMode::Named,
        settings: Vec::new(),
        labels: Vec::new(),
    }
}

pub(crate) fn track(subject: &str, steps: Vec<Step>) -> Track {
    Track { subject: subject.into(), steps }
}

pub(crate) fn step(operation: Operation) -> Step {
    Step { operation, reason: "a test".into(), expects: Vec::new(), consent: String::new() }
}

pub(crate) fn by_consent(operation: Operation, token: &str) -> Step {
    Step { consent: token.into(), ..step(operation) }
}

pub(crate) fn promote(ordinal: u32) -> Operation {
    Operation::Promote(uid(ordinal))
}

pub(crate) fn evict(ordinal: u32) -> Operation {
    Operation::Evict(uid(ordinal))
}

pub(crate) fn follow(pod: u32, primary: u32) -> Operation {
    Operation::Follow(Follow { pod: uid(pod), primary: uid(primary) })
}

pub(crate) fn hand_over(primary: u32, replica: u32) -> Operation {
    Operation::HandOver(HandOver { primary: uid(primary), replica: uid(replica), monitor: String::new(), timeout: 5_000 })
}
