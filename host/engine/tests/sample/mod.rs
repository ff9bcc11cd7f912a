//! An observation for tests and the benchmark: a healthy instance of the replica architecture, every field filled, every list of
//! it in use.

use vko_wit::common::{Architecture, Version};
use vko_wit::observation::*;

/// The instance with so many members, the first one the primary. Pods are `pod-0`, `pod-1` ..., claims `claim-0` ...
pub(crate) fn observed(members: u32) -> Observed {
    Observed {
        now: 1_790_000_000_000,
        instance: instance(members),
        environment: environment(),
        ledger: ledger(members),
        objects: vec![Object {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
            name: "rfr-sample".into(),
            uid: "workload".into(),
            age: 60_000,
            deleting: false,
            members: Some(members),
            status: format!(r#"{{"replicas":{members},"readyReplicas":{members}}}"#),
        }],
        claims: (0..members).map(claim).collect(),
        pods: (0..members).map(pod).collect(),
        servers: (0..members).map(|ordinal| server(ordinal, members)).collect(),
        agreed_view: vec![],
        sentinels: vec![],
        users: vec![],
        recent: vec![Outcome {
            operation: "follow".into(),
            subject: "pod-1".into(),
            outcome: OutcomeKind::Failed("no answer".into()),
            age: 5_000,
        }],
        jobs: vec![],
        extensions: vec![],
    }
}

fn instance(members: u32) -> Instance {
    Instance {
        namespace: "databases".into(),
        name: "sample".into(),
        uid: "instance".into(),
        generation: 3,
        architecture: Architecture::Replica,
        kind: "Failover".into(),
        spec: format!(r#"{{"version":"9.1","replicas":{members},"storage":{{"capacity":"2Gi"}}}}"#),
        annotations: vec![],
        status: "{}".into(),
        deleting: false,
        paused: false,
        consents: vec![],
    }
}

fn environment() -> Environment {
    Environment {
        operator_version: "0.1.0".into(),
        looking_for: 120_000,
        ip_family: IpFamily::Ipv4,
        cluster_domain: "cluster.local".into(),
        zones: ["a", "b", "c"].map(String::from).into(),
        capabilities: ["evict", "follow", "detach", "promote", "hand-over", "fence", "drop-clients", "delete-claim"]
            .map(String::from)
            .into(),
        fence_max_lag: 5_000,
    }
}

fn ledger(members: u32) -> Ledger {
    let member = |ordinal: u32| LedgerMember {
        workload: "rfr-sample".into(),
        ordinal,
        pod: format!("pod-{ordinal}"),
        claim: format!("claim-{ordinal}"),
        node_id: String::new(),
    };
    Ledger {
        formed: Some(true),
        members: (0..members).map(member).collect(),
        lineages: vec![Lineage { replid: "r".repeat(40), best_offset: 1_000_000, seen: 1_789_999_999_000 }],
        last_primary: LastPrimary::Members(vec![member(0)]),
        operations: vec![],
        fences: vec![FenceRecord {
            pod: "pod-0".into(),
            run_id: format!("{:040x}", 0),
            min_replicas: members / 2,
            max_lag: 5_000,
            set_at: 1_789_999_000_000,
            detached_at: 0,
            detached_at_written: 0,
        }],
        finished_version: Some(version()),
        consents_used: vec![],
    }
}

fn version() -> Version {
    Version { major: 9, minor: 1, patch: 0 }
}

fn claim(ordinal: u32) -> Claim {
    Claim {
        name: format!("valkey-data-rfr-sample-{ordinal}"),
        uid: format!("claim-{ordinal}"),
        workload: "rfr-sample".into(),
        ordinal,
        phase: "Bound".into(),
        capacity: 2 << 30,
        resizing: false,
        node: String::new(),
        node_exists: None,
        before_instance: false,
    }
}

fn pod(ordinal: u32) -> Pod {
    Pod {
        uid: format!("pod-{ordinal}"),
        name: format!("rfr-sample-{ordinal}"),
        workload: "rfr-sample".into(),
        ordinal,
        role_label: if ordinal == 0 { "master" } else { "replica" }.into(),
        addresses: vec![format!("10.0.{}.{}", ordinal / 250, ordinal % 250 + 1)],
        node: format!("node{}", ordinal % 3 + 1),
        zone: ["a", "b", "c"][ordinal as usize % 3].into(),
        node_state: NodeState::Alive,
        phase: "Running".into(),
        waiting: String::new(),
        container: ContainerState::Running,
        ready: true,
        ready_for: 60_000,
        terminating_for: 0,
        restarts: 0,
        template: TemplateState::Current,
        mounted_start: None,
    }
}

fn server(ordinal: u32, members: u32) -> Server {
    Server { pod: format!("pod-{ordinal}"), reach: Reach::Answered, age: 200, facts: Some(facts(ordinal, members)) }
}

fn facts(ordinal: u32, members: u32) -> ServerFacts {
    let replica =
        |ordinal: u32| AttachedReplica { pod: Upstream::Pod(format!("pod-{ordinal}")), online: true, offset: 1_000_000, lag: 0 };
    let link = ReplicaLink {
        primary: Upstream::Pod("pod-0".into()),
        up: true,
        syncing: false,
        last_io: Some(500),
        down_for: None,
        priority: 100,
    };
    ServerFacts {
        run_id: format!("{ordinal:040x}"),
        version: version(),
        uptime: 60_000,
        role: if ordinal == 0 { Role::Primary } else { Role::Replica(link) },
        replid: "r".repeat(40),
        offset: 1_000_000,
        second_replid: String::new(),
        second_offset: 0,
        failover_state: "no-failover".into(),
        keys: 1_000,
        used_memory: 10 << 20,
        max_memory: 100 << 20,
        max_memory_policy: "noeviction".into(),
        replicas: if ordinal == 0 { (1..members).map(replica).collect() } else { vec![] },
        origin: if ordinal == 0 { DataOrigin::AppendOnlyFile } else { DataOrigin::Sync },
        saving: false,
        last_save: 1_789_999_000_000,
        last_save_ok: true,
        writes_paused: Some(false),
        fence: Fence {
            min_replicas: if ordinal == 0 { members / 2 } else { 0 },
            max_lag: 5_000,
            good_replicas: members.saturating_sub(1),
        },
        config_drift: vec![],
        user_drift: vec![],
        tls: Tls::Off,
        cluster: vec![],
        cannot_write: None,
        extensions: vec![],
    }
}
