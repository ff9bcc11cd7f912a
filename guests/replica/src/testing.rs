//! Observations for tests: builders of single facts, and a [`Scene`] that is changed fault by fault.
//!
//! Names: instance `x`, pods `rfr-x-0`.., UIDs `uid-x-0`.., runs `run-x-0`.., lineage `lineage-a` at offset 1000.

use vko_sdk::common::Version;
use vko_sdk::observation::{
    ContainerState, DataOrigin, Fence, NodeState, Outcome, OutcomeKind, Pod, Reach, ReplicaLink, Role, Server, ServerFacts,
    TemplateState, Tls, Upstream,
};
use vko_sdk::planning::{Operation, Track};

use crate::decision::Decision;
use crate::view::View;

mod blank;
mod gallery;
mod random;
mod rolls;
mod scene;
pub use gallery::{Exhibit, Need, gallery};
pub use random::{XorShift, random_scene};
pub use scene::Scene;

/// The time of every scene (Unix ms).
pub const NOW: u64 = 1_800_000_000_000;
/// Operations that the host of a scene carries out.
pub const CAPABILITIES: [&str; 12] = [
    "evict",
    "follow",
    "detach",
    "promote",
    "hand-over",
    "fence",
    "drop-clients",
    "delete-claim",
    "monitor",
    "unmonitor",
    "set-monitor",
    "sentinel-failover",
];

/// A pod that runs and is ready.
pub fn mk_pod(instance: &str, ordinal: u32) -> Pod {
    Pod {
        uid: format!("uid-{instance}-{ordinal}"),
        name: format!("rfr-{instance}-{ordinal}"),
        workload: format!("rfr-{instance}"),
        ordinal,
        role_label: String::new(),
        addresses: vec![format!("10.0.0.{}", ordinal + 1)],
        node: format!("node-{ordinal}"),
        zone: ["a", "b", "c"][ordinal as usize % 3].into(),
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

/// What a primary says of itself: ten minutes up, ten keys.
pub fn mk_primary(replid: &str, offset: u64) -> ServerFacts {
    ServerFacts {
        run_id: format!("run-of-{replid}-{offset}"),
        version: Version { major: 9, minor: 1, patch: 2 },
        uptime: 600_000,
        role: Role::Primary,
        replid: replid.into(),
        offset,
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
        fence: Fence { min_replicas: 0, max_lag: 5_000, good_replicas: 0 },
        config_drift: Vec::new(),
        user_drift: Vec::new(),
        tls: Tls::Off,
        cluster: Vec::new(),
        cannot_write: None,
        extensions: Vec::new(),
    }
}

/// What a replica says of itself; its link is up unless it follows nobody.
pub fn mk_replica(replid: &str, offset: u64, primary: Upstream) -> ServerFacts {
    let up = primary != Upstream::Nobody;
    let link = ReplicaLink { primary, up, syncing: false, last_io: up.then_some(0), down_for: None, priority: 100 };
    ServerFacts { role: Role::Replica(link), origin: DataOrigin::Sync, ..mk_primary(replid, offset) }
}

/// Adds the lineage from which a server was promoted.
pub fn with_second(mut facts: ServerFacts, replid: &str, offset: u64) -> ServerFacts {
    facts.second_replid = replid.into();
    facts.second_offset = offset;
    facts
}

/// A server that answered half a second ago.
pub fn mk_server(pod: &Pod, facts: ServerFacts) -> Server {
    Server { pod: pod.uid.clone(), reach: Reach::Answered, age: 500, facts: Some(facts) }
}

/// What became of a step.
pub fn mk_outcome(operation: &str, subject: &str, outcome: OutcomeKind, age: u64) -> Outcome {
    Outcome { operation: operation.into(), subject: subject.into(), outcome, age }
}

/// What is decided, in short: `promote rfr-x-1`, `wait PrimarySilent`, `-`. A consent that is asked for is given if the scene
/// says so.
pub fn describe(scene: &Scene, decide: impl Fn(&View<'_>) -> Decision) -> String {
    let mut scene = scene.clone();
    let mut decision = decide(&scene.view());
    if scene.consents() {
        scene.observed.instance.consents = decision.blocks.iter().map(|b| b.token.clone()).collect();
        decision = decide(&scene.view());
    }
    describe_decision(&scene, &decision)
}

/// A decision in short.
pub fn describe_decision<C: std::fmt::Debug>(scene: &Scene, decision: &Decision<C>) -> String {
    let mut parts: Vec<String> = decision.tracks.iter().map(|t| describe_track(scene, t)).collect();
    parts.extend(decision.blocks.iter().map(|b| {
        let target = b.token.split(':').nth(1).map(|t| format!(" {t}")).unwrap_or_default();
        format!("wait {:?}{target}", b.cause)
    }));
    let mut text = if parts.is_empty() { "-".to_owned() } else { parts.join("; ") };
    if decision.data_lost.is_some() {
        text.push_str(", data lost");
    }
    text
}

/// A track in short.
pub fn describe_track(scene: &Scene, track: &Track) -> String {
    let name = |uid: &str| scene.observed.pods.iter().find(|p| p.uid == uid).map_or_else(|| uid.to_owned(), |p| p.name.clone());
    let steps = track.steps.iter().map(|s| {
        let what = match &s.operation {
            Operation::Promote(uid) => format!("promote {}", name(uid)),
            Operation::Detach(uid) => format!("detach {}", name(uid)),
            Operation::DropClients(uid) => format!("drop-clients {}", name(uid)),
            Operation::Evict(uid) => format!("evict {}", name(uid)),
            Operation::DeleteClaim(uid) => format!("delete-claim {uid}"),
            Operation::Follow(f) => format!("follow {} {}", name(&f.pod), name(&f.primary)),
            Operation::Fence(f) => format!("fence {} {}", name(&f.pod), f.min_replicas),
            Operation::HandOver(h) => format!("hand-over {} {}", name(&h.primary), name(&h.replica)),
            Operation::Monitor(m) => format!("monitor {} {}", m.sentinel, name(&m.primary)),
            Operation::Unmonitor(m) => format!("unmonitor {}", m.sentinel),
            Operation::SetMonitor(m) => format!("set-monitor {}", m.sentinel),
            Operation::SentinelFailover(m) => format!("sentinel-failover {}", m.sentinel),
            other => format!("{other:?}"),
        };
        if s.consent.is_empty() { what } else { format!("{what} by consent") }
    });
    steps.collect::<Vec<_>>().join(", ")
}
