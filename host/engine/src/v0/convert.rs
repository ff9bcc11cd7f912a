// @generated from wit/policy.wit by `cargo xtask convert`. Change that, not this.
//! Conversions between the boundary's types and wasmtime's: to the guest from a reference, to the host by value.

use super::bindings as wire;

impl From<&vko_wit::valkey::policy::common::Architecture> for wire::valkey::policy::common::Architecture {
    fn from(v: &vko_wit::valkey::policy::common::Architecture) -> Self {
        match v {
            vko_wit::valkey::policy::common::Architecture::Cluster => Self::Cluster,
            vko_wit::valkey::policy::common::Architecture::Failover => Self::Failover,
            vko_wit::valkey::policy::common::Architecture::Replica => Self::Replica,
        }
    }
}

impl From<&vko_wit::valkey::policy::common::Version> for wire::valkey::policy::common::Version {
    fn from(v: &vko_wit::valkey::policy::common::Version) -> Self {
        Self { major: v.major, minor: v.minor, patch: v.patch }
    }
}

impl From<&vko_wit::valkey::policy::common::Address> for wire::valkey::policy::common::Address {
    fn from(v: &vko_wit::valkey::policy::common::Address) -> Self {
        Self { host: v.host.clone(), port: v.port }
    }
}

impl From<&vko_wit::valkey::policy::common::SlotRange> for wire::valkey::policy::common::SlotRange {
    fn from(v: &vko_wit::valkey::policy::common::SlotRange) -> Self {
        Self { first: v.first, last: v.last }
    }
}

impl From<&vko_wit::valkey::policy::common::Pair> for wire::valkey::policy::common::Pair {
    fn from(v: &vko_wit::valkey::policy::common::Pair) -> Self {
        Self { key: v.key.clone(), value: v.value.clone() }
    }
}

impl From<&vko_wit::valkey::policy::common::StartMode> for wire::valkey::policy::common::StartMode {
    fn from(v: &vko_wit::valkey::policy::common::StartMode) -> Self {
        match v {
            vko_wit::valkey::policy::common::StartMode::Alone => Self::Alone,
            vko_wit::valkey::policy::common::StartMode::Named => Self::Named,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Instance> for wire::valkey::policy::observation::Instance {
    fn from(v: &vko_wit::valkey::policy::observation::Instance) -> Self {
        Self {
            namespace: v.namespace.clone(),
            name: v.name.clone(),
            uid: v.uid.clone(),
            generation: v.generation,
            architecture: (&v.architecture).into(),
            kind: v.kind.clone(),
            spec: v.spec.clone(),
            annotations: v.annotations.iter().map(Into::into).collect(),
            status: v.status.clone(),
            deleting: v.deleting,
            paused: v.paused,
            consents: v.consents.clone(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::IpFamily> for wire::valkey::policy::observation::IpFamily {
    fn from(v: &vko_wit::valkey::policy::observation::IpFamily) -> Self {
        match v {
            vko_wit::valkey::policy::observation::IpFamily::Ipv4 => Self::Ipv4,
            vko_wit::valkey::policy::observation::IpFamily::Ipv6 => Self::Ipv6,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Environment> for wire::valkey::policy::observation::Environment {
    fn from(v: &vko_wit::valkey::policy::observation::Environment) -> Self {
        Self {
            operator_version: v.operator_version.clone(),
            looking_for: v.looking_for,
            ip_family: (&v.ip_family).into(),
            cluster_domain: v.cluster_domain.clone(),
            zones: v.zones.clone(),
            capabilities: v.capabilities.clone(),
            fence_max_lag: v.fence_max_lag,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::FenceRecord> for wire::valkey::policy::observation::FenceRecord {
    fn from(v: &vko_wit::valkey::policy::observation::FenceRecord) -> Self {
        Self {
            pod: v.pod.clone(),
            run_id: v.run_id.clone(),
            min_replicas: v.min_replicas,
            max_lag: v.max_lag,
            set_at: v.set_at,
            detached_at: v.detached_at,
            detached_at_written: v.detached_at_written,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::LedgerMember> for wire::valkey::policy::observation::LedgerMember {
    fn from(v: &vko_wit::valkey::policy::observation::LedgerMember) -> Self {
        Self {
            workload: v.workload.clone(),
            ordinal: v.ordinal,
            pod: v.pod.clone(),
            claim: v.claim.clone(),
            node_id: v.node_id.clone(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Lineage> for wire::valkey::policy::observation::Lineage {
    fn from(v: &vko_wit::valkey::policy::observation::Lineage) -> Self {
        Self { replid: v.replid.clone(), best_offset: v.best_offset, seen: v.seen }
    }
}

impl From<&vko_wit::valkey::policy::observation::LastPrimary> for wire::valkey::policy::observation::LastPrimary {
    fn from(v: &vko_wit::valkey::policy::observation::LastPrimary) -> Self {
        match v {
            vko_wit::valkey::policy::observation::LastPrimary::None => Self::None,
            vko_wit::valkey::policy::observation::LastPrimary::Members(x) => Self::Members(x.iter().map(Into::into).collect()),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::OperationRecord> for wire::valkey::policy::observation::OperationRecord {
    fn from(v: &vko_wit::valkey::policy::observation::OperationRecord) -> Self {
        Self {
            id: v.id.clone(),
            kind: v.kind.clone(),
            track: v.track.clone(),
            target: v.target.clone(),
            policy_digest: v.policy_digest.clone(),
            started_at: v.started_at,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Ledger> for wire::valkey::policy::observation::Ledger {
    fn from(v: &vko_wit::valkey::policy::observation::Ledger) -> Self {
        Self {
            formed: v.formed,
            members: v.members.iter().map(Into::into).collect(),
            lineages: v.lineages.iter().map(Into::into).collect(),
            last_primary: (&v.last_primary).into(),
            operations: v.operations.iter().map(Into::into).collect(),
            fences: v.fences.iter().map(Into::into).collect(),
            finished_version: v.finished_version.as_ref().map(Into::into),
            consents_used: v.consents_used.clone(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Object> for wire::valkey::policy::observation::Object {
    fn from(v: &vko_wit::valkey::policy::observation::Object) -> Self {
        Self {
            api_version: v.api_version.clone(),
            kind: v.kind.clone(),
            name: v.name.clone(),
            uid: v.uid.clone(),
            age: v.age,
            deleting: v.deleting,
            members: v.members,
            status: v.status.clone(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Claim> for wire::valkey::policy::observation::Claim {
    fn from(v: &vko_wit::valkey::policy::observation::Claim) -> Self {
        Self {
            name: v.name.clone(),
            uid: v.uid.clone(),
            workload: v.workload.clone(),
            ordinal: v.ordinal,
            phase: v.phase.clone(),
            capacity: v.capacity,
            resizing: v.resizing,
            node: v.node.clone(),
            node_exists: v.node_exists,
            before_instance: v.before_instance,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::NodeState> for wire::valkey::policy::observation::NodeState {
    fn from(v: &vko_wit::valkey::policy::observation::NodeState) -> Self {
        match v {
            vko_wit::valkey::policy::observation::NodeState::Alive => Self::Alive,
            vko_wit::valkey::policy::observation::NodeState::Silent => Self::Silent,
            vko_wit::valkey::policy::observation::NodeState::OutOfService => Self::OutOfService,
            vko_wit::valkey::policy::observation::NodeState::Gone => Self::Gone,
            vko_wit::valkey::policy::observation::NodeState::Unknown => Self::Unknown,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::ContainerState> for wire::valkey::policy::observation::ContainerState {
    fn from(v: &vko_wit::valkey::policy::observation::ContainerState) -> Self {
        match v {
            vko_wit::valkey::policy::observation::ContainerState::Starting => Self::Starting,
            vko_wit::valkey::policy::observation::ContainerState::Running => Self::Running,
            vko_wit::valkey::policy::observation::ContainerState::Terminated => Self::Terminated,
            vko_wit::valkey::policy::observation::ContainerState::Unknown => Self::Unknown,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::TemplateState> for wire::valkey::policy::observation::TemplateState {
    fn from(v: &vko_wit::valkey::policy::observation::TemplateState) -> Self {
        match v {
            vko_wit::valkey::policy::observation::TemplateState::Current => Self::Current,
            vko_wit::valkey::policy::observation::TemplateState::NewerSoftware => Self::NewerSoftware,
            vko_wit::valkey::policy::observation::TemplateState::SpecChanged => Self::SpecChanged,
            vko_wit::valkey::policy::observation::TemplateState::Unknown => Self::Unknown,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Pod> for wire::valkey::policy::observation::Pod {
    fn from(v: &vko_wit::valkey::policy::observation::Pod) -> Self {
        Self {
            uid: v.uid.clone(),
            name: v.name.clone(),
            workload: v.workload.clone(),
            ordinal: v.ordinal,
            role_label: v.role_label.clone(),
            addresses: v.addresses.clone(),
            node: v.node.clone(),
            zone: v.zone.clone(),
            node_state: (&v.node_state).into(),
            phase: v.phase.clone(),
            waiting: v.waiting.clone(),
            container: (&v.container).into(),
            ready: v.ready,
            ready_for: v.ready_for,
            terminating_for: v.terminating_for,
            restarts: v.restarts,
            template: (&v.template).into(),
            mounted_start: v.mounted_start.as_ref().map(Into::into),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Failure> for wire::valkey::policy::observation::Failure {
    fn from(v: &vko_wit::valkey::policy::observation::Failure) -> Self {
        Self { lasting: v.lasting, reason: v.reason.clone() }
    }
}

impl From<&vko_wit::valkey::policy::observation::Reach> for wire::valkey::policy::observation::Reach {
    fn from(v: &vko_wit::valkey::policy::observation::Reach) -> Self {
        match v {
            vko_wit::valkey::policy::observation::Reach::Answered => Self::Answered,
            vko_wit::valkey::policy::observation::Reach::Loading(x) => Self::Loading(*x),
            vko_wit::valkey::policy::observation::Reach::Refused(x) => Self::Refused(x.into()),
            vko_wit::valkey::policy::observation::Reach::Silent(x) => Self::Silent(*x),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::DiskFile> for wire::valkey::policy::observation::DiskFile {
    fn from(v: &vko_wit::valkey::policy::observation::DiskFile) -> Self {
        match v {
            vko_wit::valkey::policy::observation::DiskFile::AppendOnlyFile => Self::AppendOnlyFile,
            vko_wit::valkey::policy::observation::DiskFile::Snapshot => Self::Snapshot,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Fence> for wire::valkey::policy::observation::Fence {
    fn from(v: &vko_wit::valkey::policy::observation::Fence) -> Self {
        Self { min_replicas: v.min_replicas, max_lag: v.max_lag, good_replicas: v.good_replicas }
    }
}

impl From<&vko_wit::valkey::policy::observation::DataOrigin> for wire::valkey::policy::observation::DataOrigin {
    fn from(v: &vko_wit::valkey::policy::observation::DataOrigin) -> Self {
        match v {
            vko_wit::valkey::policy::observation::DataOrigin::Empty => Self::Empty,
            vko_wit::valkey::policy::observation::DataOrigin::Snapshot => Self::Snapshot,
            vko_wit::valkey::policy::observation::DataOrigin::AppendOnlyFile => Self::AppendOnlyFile,
            vko_wit::valkey::policy::observation::DataOrigin::Sync => Self::Sync,
            vko_wit::valkey::policy::observation::DataOrigin::Unknown => Self::Unknown,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Upstream> for wire::valkey::policy::observation::Upstream {
    fn from(v: &vko_wit::valkey::policy::observation::Upstream) -> Self {
        match v {
            vko_wit::valkey::policy::observation::Upstream::Nobody => Self::Nobody,
            vko_wit::valkey::policy::observation::Upstream::Pod(x) => Self::Pod(x.clone()),
            vko_wit::valkey::policy::observation::Upstream::Other(x) => Self::Other(x.into()),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::ReplicaLink> for wire::valkey::policy::observation::ReplicaLink {
    fn from(v: &vko_wit::valkey::policy::observation::ReplicaLink) -> Self {
        Self {
            primary: (&v.primary).into(),
            up: v.up,
            syncing: v.syncing,
            last_io: v.last_io,
            down_for: v.down_for,
            priority: v.priority,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Role> for wire::valkey::policy::observation::Role {
    fn from(v: &vko_wit::valkey::policy::observation::Role) -> Self {
        match v {
            vko_wit::valkey::policy::observation::Role::Primary => Self::Primary,
            vko_wit::valkey::policy::observation::Role::Replica(x) => Self::Replica(x.into()),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::AttachedReplica> for wire::valkey::policy::observation::AttachedReplica {
    fn from(v: &vko_wit::valkey::policy::observation::AttachedReplica) -> Self {
        Self { pod: (&v.pod).into(), online: v.online, offset: v.offset, lag: v.lag }
    }
}

impl From<&vko_wit::valkey::policy::observation::Certificate> for wire::valkey::policy::observation::Certificate {
    fn from(v: &vko_wit::valkey::policy::observation::Certificate) -> Self {
        Self { fingerprint: v.fingerprint.clone(), expires: v.expires, wanted: v.wanted }
    }
}

impl From<&vko_wit::valkey::policy::observation::Tls> for wire::valkey::policy::observation::Tls {
    fn from(v: &vko_wit::valkey::policy::observation::Tls) -> Self {
        match v {
            vko_wit::valkey::policy::observation::Tls::Off => Self::Off,
            vko_wit::valkey::policy::observation::Tls::Served(x) => Self::Served(x.into()),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Belief> for wire::valkey::policy::observation::Belief {
    fn from(v: &vko_wit::valkey::policy::observation::Belief) -> Self {
        Self {
            id: v.id.clone(),
            known: v.known,
            replica_of: v.replica_of.clone(),
            config_epoch: v.config_epoch,
            linked: v.linked,
            suspected: v.suspected,
            failed: v.failed,
            slots: v.slots.iter().map(Into::into).collect(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::OpenSlots> for wire::valkey::policy::observation::OpenSlots {
    fn from(v: &vko_wit::valkey::policy::observation::OpenSlots) -> Self {
        Self { slots: v.slots.iter().map(Into::into).collect(), peer: v.peer.clone() }
    }
}

impl From<&vko_wit::valkey::policy::observation::MigrationState> for wire::valkey::policy::observation::MigrationState {
    fn from(v: &vko_wit::valkey::policy::observation::MigrationState) -> Self {
        match v {
            vko_wit::valkey::policy::observation::MigrationState::Running => Self::Running,
            vko_wit::valkey::policy::observation::MigrationState::Pausing => Self::Pausing,
            vko_wit::valkey::policy::observation::MigrationState::Done => Self::Done,
            vko_wit::valkey::policy::observation::MigrationState::Failed => Self::Failed,
            vko_wit::valkey::policy::observation::MigrationState::Cancelled => Self::Cancelled,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Migration> for wire::valkey::policy::observation::Migration {
    fn from(v: &vko_wit::valkey::policy::observation::Migration) -> Self {
        Self {
            name: v.name.clone(),
            source: v.source.clone(),
            target: v.target.clone(),
            slots: v.slots.iter().map(Into::into).collect(),
            state: (&v.state).into(),
            message: v.message.clone(),
            remaining: v.remaining,
            age: v.age,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::ClusterFacts> for wire::valkey::policy::observation::ClusterFacts {
    fn from(v: &vko_wit::valkey::policy::observation::ClusterFacts) -> Self {
        Self {
            id: v.id.clone(),
            state_ok: v.state_ok,
            epoch: v.epoch,
            config_epoch: v.config_epoch,
            importing: v.importing.iter().map(Into::into).collect(),
            migrating: v.migrating.iter().map(Into::into).collect(),
            migrations: v.migrations.iter().map(Into::into).collect(),
            differs: v.differs.iter().map(Into::into).collect(),
            differences: v.differences,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::ServerFacts> for wire::valkey::policy::observation::ServerFacts {
    fn from(v: &vko_wit::valkey::policy::observation::ServerFacts) -> Self {
        Self {
            run_id: v.run_id.clone(),
            version: (&v.version).into(),
            uptime: v.uptime,
            role: (&v.role).into(),
            replid: v.replid.clone(),
            offset: v.offset,
            second_replid: v.second_replid.clone(),
            second_offset: v.second_offset,
            failover_state: v.failover_state.clone(),
            keys: v.keys,
            used_memory: v.used_memory,
            max_memory: v.max_memory,
            max_memory_policy: v.max_memory_policy.clone(),
            replicas: v.replicas.iter().map(Into::into).collect(),
            origin: (&v.origin).into(),
            saving: v.saving,
            last_save: v.last_save,
            last_save_ok: v.last_save_ok,
            writes_paused: v.writes_paused,
            fence: (&v.fence).into(),
            config_drift: v.config_drift.clone(),
            user_drift: v.user_drift.clone(),
            tls: (&v.tls).into(),
            cluster: v.cluster.iter().map(Into::into).collect(),
            cannot_write: v.cannot_write.as_ref().map(Into::into),
            extensions: v.extensions.iter().map(Into::into).collect(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Server> for wire::valkey::policy::observation::Server {
    fn from(v: &vko_wit::valkey::policy::observation::Server) -> Self {
        Self { pod: v.pod.clone(), reach: (&v.reach).into(), age: v.age, facts: v.facts.as_ref().map(Into::into) }
    }
}

impl From<&vko_wit::valkey::policy::observation::Peer> for wire::valkey::policy::observation::Peer {
    fn from(v: &vko_wit::valkey::policy::observation::Peer) -> Self {
        Self {
            id: v.id.clone(),
            pod: (&v.pod).into(),
            replica_of: v.replica_of.clone(),
            config_epoch: v.config_epoch,
            failed: v.failed,
            handshake: v.handshake,
            suspected_by: v.suspected_by,
            linked_by: v.linked_by,
            slots: v.slots.iter().map(Into::into).collect(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::SentinelReplica> for wire::valkey::policy::observation::SentinelReplica {
    fn from(v: &vko_wit::valkey::policy::observation::SentinelReplica) -> Self {
        Self { pod: (&v.pod).into(), run_id: v.run_id.clone(), down: v.down, link_up: v.link_up }
    }
}

impl From<&vko_wit::valkey::policy::observation::SentinelPeer> for wire::valkey::policy::observation::SentinelPeer {
    fn from(v: &vko_wit::valkey::policy::observation::SentinelPeer) -> Self {
        Self { pod: (&v.pod).into(), id: v.id.clone(), down: v.down }
    }
}

impl From<&vko_wit::valkey::policy::observation::Monitor> for wire::valkey::policy::observation::Monitor {
    fn from(v: &vko_wit::valkey::policy::observation::Monitor) -> Self {
        Self {
            name: v.name.clone(),
            primary: (&v.primary).into(),
            quorum: v.quorum,
            quorum_reached: v.quorum_reached,
            config_epoch: v.config_epoch,
            subjectively_down: v.subjectively_down,
            objectively_down: v.objectively_down,
            failover_state: v.failover_state.clone(),
            replicas: v.replicas.iter().map(Into::into).collect(),
            peers: v.peers.iter().map(Into::into).collect(),
            options: v.options.iter().map(Into::into).collect(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Sentinel> for wire::valkey::policy::observation::Sentinel {
    fn from(v: &vko_wit::valkey::policy::observation::Sentinel) -> Self {
        Self {
            pod: (&v.pod).into(),
            reach: (&v.reach).into(),
            age: v.age,
            id: v.id.clone(),
            tilt: v.tilt,
            word_age: v.word_age,
            monitors: v.monitors.iter().map(Into::into).collect(),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::User> for wire::valkey::policy::observation::User {
    fn from(v: &vko_wit::valkey::policy::observation::User) -> Self {
        Self { name: v.name.clone(), uid: v.uid.clone(), rules: v.rules.clone(), problem: v.problem.clone() }
    }
}

impl From<&vko_wit::valkey::policy::observation::OutcomeKind> for wire::valkey::policy::observation::OutcomeKind {
    fn from(v: &vko_wit::valkey::policy::observation::OutcomeKind) -> Self {
        match v {
            vko_wit::valkey::policy::observation::OutcomeKind::Done => Self::Done,
            vko_wit::valkey::policy::observation::OutcomeKind::Failed(x) => Self::Failed(x.clone()),
            vko_wit::valkey::policy::observation::OutcomeKind::Refused(x) => Self::Refused(x.clone()),
            vko_wit::valkey::policy::observation::OutcomeKind::Dropped(x) => Self::Dropped(x.clone()),
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Outcome> for wire::valkey::policy::observation::Outcome {
    fn from(v: &vko_wit::valkey::policy::observation::Outcome) -> Self {
        Self { operation: v.operation.clone(), subject: v.subject.clone(), outcome: (&v.outcome).into(), age: v.age }
    }
}

impl From<&vko_wit::valkey::policy::observation::Job> for wire::valkey::policy::observation::Job {
    fn from(v: &vko_wit::valkey::policy::observation::Job) -> Self {
        Self {
            id: v.id.clone(),
            kind: v.kind.clone(),
            subject: v.subject.clone(),
            progress: v.progress,
            total: v.total,
            age: v.age,
        }
    }
}

impl From<&vko_wit::valkey::policy::observation::Observed> for wire::valkey::policy::observation::Observed {
    fn from(v: &vko_wit::valkey::policy::observation::Observed) -> Self {
        Self {
            now: v.now,
            instance: (&v.instance).into(),
            environment: (&v.environment).into(),
            ledger: (&v.ledger).into(),
            objects: v.objects.iter().map(Into::into).collect(),
            claims: v.claims.iter().map(Into::into).collect(),
            pods: v.pods.iter().map(Into::into).collect(),
            servers: v.servers.iter().map(Into::into).collect(),
            agreed_view: v.agreed_view.iter().map(Into::into).collect(),
            sentinels: v.sentinels.iter().map(Into::into).collect(),
            users: v.users.iter().map(Into::into).collect(),
            recent: v.recent.iter().map(Into::into).collect(),
            jobs: v.jobs.iter().map(Into::into).collect(),
            extensions: v.extensions.iter().map(Into::into).collect(),
        }
    }
}

impl From<wire::valkey::policy::common::Architecture> for vko_wit::valkey::policy::common::Architecture {
    fn from(v: wire::valkey::policy::common::Architecture) -> Self {
        match v {
            wire::valkey::policy::common::Architecture::Cluster => Self::Cluster,
            wire::valkey::policy::common::Architecture::Failover => Self::Failover,
            wire::valkey::policy::common::Architecture::Replica => Self::Replica,
        }
    }
}

impl From<wire::valkey::policy::common::SlotRange> for vko_wit::valkey::policy::common::SlotRange {
    fn from(v: wire::valkey::policy::common::SlotRange) -> Self {
        Self { first: v.first, last: v.last }
    }
}

impl From<wire::valkey::policy::common::Pair> for vko_wit::valkey::policy::common::Pair {
    fn from(v: wire::valkey::policy::common::Pair) -> Self {
        Self { key: v.key, value: v.value }
    }
}

impl From<wire::valkey::policy::common::StartMode> for vko_wit::valkey::policy::common::StartMode {
    fn from(v: wire::valkey::policy::common::StartMode) -> Self {
        match v {
            wire::valkey::policy::common::StartMode::Alone => Self::Alone,
            wire::valkey::policy::common::StartMode::Named => Self::Named,
        }
    }
}

impl From<wire::valkey::policy::planning::Phase> for vko_wit::valkey::policy::planning::Phase {
    fn from(v: wire::valkey::policy::planning::Phase) -> Self {
        match v {
            wire::valkey::policy::planning::Phase::Initializing => Self::Initializing,
            wire::valkey::policy::planning::Phase::Rebalancing => Self::Rebalancing,
            wire::valkey::policy::planning::Phase::Ready => Self::Ready,
            wire::valkey::policy::planning::Phase::Failed => Self::Failed,
            wire::valkey::policy::planning::Phase::Paused => Self::Paused,
        }
    }
}

impl From<wire::valkey::policy::planning::Truth> for vko_wit::valkey::policy::planning::Truth {
    fn from(v: wire::valkey::policy::planning::Truth) -> Self {
        match v {
            wire::valkey::policy::planning::Truth::Yes => Self::Yes,
            wire::valkey::policy::planning::Truth::No => Self::No,
            wire::valkey::policy::planning::Truth::Unknown => Self::Unknown,
        }
    }
}

impl From<wire::valkey::policy::planning::Condition> for vko_wit::valkey::policy::planning::Condition {
    fn from(v: wire::valkey::policy::planning::Condition) -> Self {
        Self { kind: v.kind, state: v.state.into(), reason: v.reason, message: v.message }
    }
}

impl From<wire::valkey::policy::planning::Status> for vko_wit::valkey::policy::planning::Status {
    fn from(v: wire::valkey::policy::planning::Status) -> Self {
        Self {
            phase: v.phase.into(),
            message: v.message,
            conditions: v.conditions.into_iter().map(Into::into).collect(),
            details: v.details,
        }
    }
}

impl From<wire::valkey::policy::planning::Purpose> for vko_wit::valkey::policy::planning::Purpose {
    fn from(v: wire::valkey::policy::planning::Purpose) -> Self {
        match v {
            wire::valkey::policy::planning::Purpose::Data => Self::Data,
            wire::valkey::policy::planning::Purpose::Sentinel => Self::Sentinel,
        }
    }
}

impl From<wire::valkey::policy::planning::Workload> for vko_wit::valkey::policy::planning::Workload {
    fn from(v: wire::valkey::policy::planning::Workload) -> Self {
        Self {
            name: v.name,
            purpose: v.purpose.into(),
            shard: v.shard,
            members: v.members,
            start: v.start.into(),
            settings: v.settings.into_iter().map(Into::into).collect(),
            labels: v.labels.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<wire::valkey::policy::planning::ServiceKind> for vko_wit::valkey::policy::planning::ServiceKind {
    fn from(v: wire::valkey::policy::planning::ServiceKind) -> Self {
        match v {
            wire::valkey::policy::planning::ServiceKind::Instance => Self::Instance,
            wire::valkey::policy::planning::ServiceKind::Governing => Self::Governing,
            wire::valkey::policy::planning::ServiceKind::Writer => Self::Writer,
            wire::valkey::policy::planning::ServiceKind::Readers => Self::Readers,
            wire::valkey::policy::planning::ServiceKind::Pod(x) => Self::Pod(x),
            wire::valkey::policy::planning::ServiceKind::Metrics => Self::Metrics,
        }
    }
}

impl From<wire::valkey::policy::planning::Service> for vko_wit::valkey::policy::planning::Service {
    fn from(v: wire::valkey::policy::planning::Service) -> Self {
        Self { name: v.name, kind: v.kind.into(), workload: v.workload }
    }
}

impl From<wire::valkey::policy::planning::Budget> for vko_wit::valkey::policy::planning::Budget {
    fn from(v: wire::valkey::policy::planning::Budget) -> Self {
        Self { workload: v.workload, max_unavailable: v.max_unavailable }
    }
}

impl From<wire::valkey::policy::planning::CertificateRequest> for vko_wit::valkey::policy::planning::CertificateRequest {
    fn from(v: wire::valkey::policy::planning::CertificateRequest) -> Self {
        Self { name: v.name, dns_names: v.dns_names }
    }
}

impl From<wire::valkey::policy::planning::ExtensionObject> for vko_wit::valkey::policy::planning::ExtensionObject {
    fn from(v: wire::valkey::policy::planning::ExtensionObject) -> Self {
        Self { kind: v.kind, name: v.name, content: v.content }
    }
}

impl From<wire::valkey::policy::planning::Desired> for vko_wit::valkey::policy::planning::Desired {
    fn from(v: wire::valkey::policy::planning::Desired) -> Self {
        match v {
            wire::valkey::policy::planning::Desired::Workload(x) => Self::Workload(x.into()),
            wire::valkey::policy::planning::Desired::Service(x) => Self::Service(x.into()),
            wire::valkey::policy::planning::Desired::Budget(x) => Self::Budget(x.into()),
            wire::valkey::policy::planning::Desired::Certificate(x) => Self::Certificate(x.into()),
            wire::valkey::policy::planning::Desired::Extension(x) => Self::Extension(x.into()),
        }
    }
}

impl From<wire::valkey::policy::planning::Writer> for vko_wit::valkey::policy::planning::Writer {
    fn from(v: wire::valkey::policy::planning::Writer) -> Self {
        match v {
            wire::valkey::policy::planning::Writer::None => Self::None,
            wire::valkey::policy::planning::Writer::Pod(x) => Self::Pod(x),
        }
    }
}

impl From<wire::valkey::policy::planning::Routing> for vko_wit::valkey::policy::planning::Routing {
    fn from(v: wire::valkey::policy::planning::Routing) -> Self {
        Self { writer: v.writer.into(), readers: v.readers }
    }
}

impl From<wire::valkey::policy::planning::Takeover> for vko_wit::valkey::policy::planning::Takeover {
    fn from(v: wire::valkey::policy::planning::Takeover) -> Self {
        match v {
            wire::valkey::policy::planning::Takeover::Force => Self::Force,
            wire::valkey::policy::planning::Takeover::Takeover => Self::Takeover,
        }
    }
}

impl From<wire::valkey::policy::planning::ObjectDeletion> for vko_wit::valkey::policy::planning::ObjectDeletion {
    fn from(v: wire::valkey::policy::planning::ObjectDeletion) -> Self {
        Self { kind: v.kind, name: v.name, uid: v.uid }
    }
}

impl From<wire::valkey::policy::planning::ClaimSize> for vko_wit::valkey::policy::planning::ClaimSize {
    fn from(v: wire::valkey::policy::planning::ClaimSize) -> Self {
        Self { claim: v.claim, bytes: v.bytes }
    }
}

impl From<wire::valkey::policy::planning::Follow> for vko_wit::valkey::policy::planning::Follow {
    fn from(v: wire::valkey::policy::planning::Follow) -> Self {
        Self { pod: v.pod, primary: v.primary }
    }
}

impl From<wire::valkey::policy::planning::FenceSetting> for vko_wit::valkey::policy::planning::FenceSetting {
    fn from(v: wire::valkey::policy::planning::FenceSetting) -> Self {
        Self { pod: v.pod, min_replicas: v.min_replicas }
    }
}

impl From<wire::valkey::policy::planning::HandOver> for vko_wit::valkey::policy::planning::HandOver {
    fn from(v: wire::valkey::policy::planning::HandOver) -> Self {
        Self { primary: v.primary, replica: v.replica, monitor: v.monitor, timeout: v.timeout }
    }
}

impl From<wire::valkey::policy::planning::PairOfPods> for vko_wit::valkey::policy::planning::PairOfPods {
    fn from(v: wire::valkey::policy::planning::PairOfPods) -> Self {
        Self { pod: v.pod, peer: v.peer }
    }
}

impl From<wire::valkey::policy::planning::Replication> for vko_wit::valkey::policy::planning::Replication {
    fn from(v: wire::valkey::policy::planning::Replication) -> Self {
        Self { pod: v.pod, primary: v.primary }
    }
}

impl From<wire::valkey::policy::planning::SlotAssignment> for vko_wit::valkey::policy::planning::SlotAssignment {
    fn from(v: wire::valkey::policy::planning::SlotAssignment) -> Self {
        Self { pod: v.pod, slots: v.slots.into_iter().map(Into::into).collect() }
    }
}

impl From<wire::valkey::policy::planning::ClusterTakeover> for vko_wit::valkey::policy::planning::ClusterTakeover {
    fn from(v: wire::valkey::policy::planning::ClusterTakeover) -> Self {
        Self { replica: v.replica, mode: v.mode.into() }
    }
}

impl From<wire::valkey::policy::planning::SlotMove> for vko_wit::valkey::policy::planning::SlotMove {
    fn from(v: wire::valkey::policy::planning::SlotMove) -> Self {
        Self { source: v.source, target: v.target, slots: v.slots.into_iter().map(Into::into).collect() }
    }
}

impl From<wire::valkey::policy::planning::Settled> for vko_wit::valkey::policy::planning::Settled {
    fn from(v: wire::valkey::policy::planning::Settled) -> Self {
        match v {
            wire::valkey::policy::planning::Settled::Stable => Self::Stable,
            wire::valkey::policy::planning::Settled::Node(x) => Self::Node(x),
        }
    }
}

impl From<wire::valkey::policy::planning::SlotSettlement> for vko_wit::valkey::policy::planning::SlotSettlement {
    fn from(v: wire::valkey::policy::planning::SlotSettlement) -> Self {
        Self { pod: v.pod, slots: v.slots.into_iter().map(Into::into).collect(), owner: v.owner.into() }
    }
}

impl From<wire::valkey::policy::planning::SentinelMonitor> for vko_wit::valkey::policy::planning::SentinelMonitor {
    fn from(v: wire::valkey::policy::planning::SentinelMonitor) -> Self {
        Self {
            sentinel: v.sentinel,
            name: v.name,
            primary: v.primary,
            quorum: v.quorum,
            options: v.options.into_iter().map(Into::into).collect(),
            credential: v.credential,
        }
    }
}

impl From<wire::valkey::policy::planning::SentinelName> for vko_wit::valkey::policy::planning::SentinelName {
    fn from(v: wire::valkey::policy::planning::SentinelName) -> Self {
        Self { sentinel: v.sentinel, name: v.name }
    }
}

impl From<wire::valkey::policy::planning::SentinelOptions> for vko_wit::valkey::policy::planning::SentinelOptions {
    fn from(v: wire::valkey::policy::planning::SentinelOptions) -> Self {
        Self {
            sentinel: v.sentinel,
            name: v.name,
            options: v.options.into_iter().map(Into::into).collect(),
            credential: v.credential,
        }
    }
}

impl From<wire::valkey::policy::planning::SettingValue> for vko_wit::valkey::policy::planning::SettingValue {
    fn from(v: wire::valkey::policy::planning::SettingValue) -> Self {
        match v {
            wire::valkey::policy::planning::SettingValue::Text(x) => Self::Text(x),
            wire::valkey::policy::planning::SettingValue::Credential(x) => Self::Credential(x),
        }
    }
}

impl From<wire::valkey::policy::planning::Setting> for vko_wit::valkey::policy::planning::Setting {
    fn from(v: wire::valkey::policy::planning::Setting) -> Self {
        Self { name: v.name, value: v.value.into() }
    }
}

impl From<wire::valkey::policy::planning::Configuration> for vko_wit::valkey::policy::planning::Configuration {
    fn from(v: wire::valkey::policy::planning::Configuration) -> Self {
        Self { pod: v.pod, set: v.set.into_iter().map(Into::into).collect(), reset: v.reset }
    }
}

impl From<wire::valkey::policy::planning::RotationStage> for vko_wit::valkey::policy::planning::RotationStage {
    fn from(v: wire::valkey::policy::planning::RotationStage) -> Self {
        match v {
            wire::valkey::policy::planning::RotationStage::AddNew => Self::AddNew,
            wire::valkey::policy::planning::RotationStage::UseNew => Self::UseNew,
            wire::valkey::policy::planning::RotationStage::RetireOld => Self::RetireOld,
        }
    }
}

impl From<wire::valkey::policy::planning::Rotation> for vko_wit::valkey::policy::planning::Rotation {
    fn from(v: wire::valkey::policy::planning::Rotation) -> Self {
        Self { account: v.account, stage: v.stage.into(), pod: v.pod }
    }
}

impl From<wire::valkey::policy::planning::ExtensionOperation> for vko_wit::valkey::policy::planning::ExtensionOperation {
    fn from(v: wire::valkey::policy::planning::ExtensionOperation) -> Self {
        Self { name: v.name, pod: v.pod, arguments: v.arguments }
    }
}

impl From<wire::valkey::policy::planning::Operation> for vko_wit::valkey::policy::planning::Operation {
    fn from(v: wire::valkey::policy::planning::Operation) -> Self {
        match v {
            wire::valkey::policy::planning::Operation::Evict(x) => Self::Evict(x),
            wire::valkey::policy::planning::Operation::ForceDelete(x) => Self::ForceDelete(x),
            wire::valkey::policy::planning::Operation::DeleteObject(x) => Self::DeleteObject(x.into()),
            wire::valkey::policy::planning::Operation::ResizeClaim(x) => Self::ResizeClaim(x.into()),
            wire::valkey::policy::planning::Operation::DeleteClaim(x) => Self::DeleteClaim(x),
            wire::valkey::policy::planning::Operation::Follow(x) => Self::Follow(x.into()),
            wire::valkey::policy::planning::Operation::Detach(x) => Self::Detach(x),
            wire::valkey::policy::planning::Operation::Promote(x) => Self::Promote(x),
            wire::valkey::policy::planning::Operation::HandOver(x) => Self::HandOver(x.into()),
            wire::valkey::policy::planning::Operation::Fence(x) => Self::Fence(x.into()),
            wire::valkey::policy::planning::Operation::DropClients(x) => Self::DropClients(x),
            wire::valkey::policy::planning::Operation::Save(x) => Self::Save(x),
            wire::valkey::policy::planning::Operation::Meet(x) => Self::Meet(x.into()),
            wire::valkey::policy::planning::Operation::Forget(x) => Self::Forget(x),
            wire::valkey::policy::planning::Operation::Replicate(x) => Self::Replicate(x.into()),
            wire::valkey::policy::planning::Operation::OwnSlots(x) => Self::OwnSlots(x.into()),
            wire::valkey::policy::planning::Operation::TakeOver(x) => Self::TakeOver(x.into()),
            wire::valkey::policy::planning::Operation::BumpEpoch(x) => Self::BumpEpoch(x),
            wire::valkey::policy::planning::Operation::MoveSlots(x) => Self::MoveSlots(x.into()),
            wire::valkey::policy::planning::Operation::CancelJob(x) => Self::CancelJob(x),
            wire::valkey::policy::planning::Operation::SettleSlots(x) => Self::SettleSlots(x.into()),
            wire::valkey::policy::planning::Operation::ResetEmpty(x) => Self::ResetEmpty(x),
            wire::valkey::policy::planning::Operation::Monitor(x) => Self::Monitor(x.into()),
            wire::valkey::policy::planning::Operation::Unmonitor(x) => Self::Unmonitor(x.into()),
            wire::valkey::policy::planning::Operation::SetMonitor(x) => Self::SetMonitor(x.into()),
            wire::valkey::policy::planning::Operation::SentinelFailover(x) => Self::SentinelFailover(x.into()),
            wire::valkey::policy::planning::Operation::ResetMonitor(x) => Self::ResetMonitor(x.into()),
            wire::valkey::policy::planning::Operation::Configure(x) => Self::Configure(x.into()),
            wire::valkey::policy::planning::Operation::SyncUsers(x) => Self::SyncUsers(x),
            wire::valkey::policy::planning::Operation::RotateCredential(x) => Self::RotateCredential(x.into()),
            wire::valkey::policy::planning::Operation::ReloadCertificates(x) => Self::ReloadCertificates(x),
            wire::valkey::policy::planning::Operation::Extension(x) => Self::Extension(x.into()),
        }
    }
}

impl From<wire::valkey::policy::planning::OffsetOf> for vko_wit::valkey::policy::planning::OffsetOf {
    fn from(v: wire::valkey::policy::planning::OffsetOf) -> Self {
        Self { pod: v.pod, offset: v.offset }
    }
}

impl From<wire::valkey::policy::planning::EpochOf> for vko_wit::valkey::policy::planning::EpochOf {
    fn from(v: wire::valkey::policy::planning::EpochOf) -> Self {
        Self { pod: v.pod, epoch: v.epoch }
    }
}

impl From<wire::valkey::policy::planning::SentinelEpochOf> for vko_wit::valkey::policy::planning::SentinelEpochOf {
    fn from(v: wire::valkey::policy::planning::SentinelEpochOf) -> Self {
        Self { sentinel: v.sentinel, name: v.name, epoch: v.epoch }
    }
}

impl From<wire::valkey::policy::planning::Known> for vko_wit::valkey::policy::planning::Known {
    fn from(v: wire::valkey::policy::planning::Known) -> Self {
        Self { pod: v.pod, value: v.value }
    }
}

impl From<wire::valkey::policy::planning::Expectation> for vko_wit::valkey::policy::planning::Expectation {
    fn from(v: wire::valkey::policy::planning::Expectation) -> Self {
        match v {
            wire::valkey::policy::planning::Expectation::RunId(x) => Self::RunId(x.into()),
            wire::valkey::policy::planning::Expectation::RolePrimary(x) => Self::RolePrimary(x),
            wire::valkey::policy::planning::Expectation::RoleReplicaOf(x) => Self::RoleReplicaOf(x.into()),
            wire::valkey::policy::planning::Expectation::Replid(x) => Self::Replid(x.into()),
            wire::valkey::policy::planning::Expectation::OffsetAtLeast(x) => Self::OffsetAtLeast(x.into()),
            wire::valkey::policy::planning::Expectation::DataSetEmpty(x) => Self::DataSetEmpty(x),
            wire::valkey::policy::planning::Expectation::Epoch(x) => Self::Epoch(x.into()),
            wire::valkey::policy::planning::Expectation::SentinelEpoch(x) => Self::SentinelEpoch(x.into()),
        }
    }
}

impl From<wire::valkey::policy::planning::Step> for vko_wit::valkey::policy::planning::Step {
    fn from(v: wire::valkey::policy::planning::Step) -> Self {
        Self {
            operation: v.operation.into(),
            reason: v.reason,
            expects: v.expects.into_iter().map(Into::into).collect(),
            consent: v.consent,
        }
    }
}

impl From<wire::valkey::policy::planning::Track> for vko_wit::valkey::policy::planning::Track {
    fn from(v: wire::valkey::policy::planning::Track) -> Self {
        Self { subject: v.subject, steps: v.steps.into_iter().map(Into::into).collect() }
    }
}

impl From<wire::valkey::policy::planning::Blocked> for vko_wit::valkey::policy::planning::Blocked {
    fn from(v: wire::valkey::policy::planning::Blocked) -> Self {
        Self { subject: v.subject, reason: v.reason, remedy: v.remedy, token: v.token }
    }
}

impl From<wire::valkey::policy::planning::Plan> for vko_wit::valkey::policy::planning::Plan {
    fn from(v: wire::valkey::policy::planning::Plan) -> Self {
        Self {
            status: v.status.into(),
            desired: v.desired.into_iter().map(Into::into).collect(),
            routing: v.routing.into(),
            tracks: v.tracks.into_iter().map(Into::into).collect(),
            blocked: v.blocked.into_iter().map(Into::into).collect(),
            look_again: v.look_again,
            extensions: v.extensions.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<wire::valkey::policy::planning::PolicyError> for vko_wit::valkey::policy::planning::PolicyError {
    fn from(v: wire::valkey::policy::planning::PolicyError) -> Self {
        match v {
            wire::valkey::policy::planning::PolicyError::Insufficient(x) => Self::Insufficient(x),
            wire::valkey::policy::planning::PolicyError::Internal(x) => Self::Internal(x),
        }
    }
}

impl From<wire::valkey::policy::planning::Severity> for vko_wit::valkey::policy::planning::Severity {
    fn from(v: wire::valkey::policy::planning::Severity) -> Self {
        match v {
            wire::valkey::policy::planning::Severity::Warning => Self::Warning,
            wire::valkey::policy::planning::Severity::Error => Self::Error,
        }
    }
}

impl From<wire::valkey::policy::planning::Violation> for vko_wit::valkey::policy::planning::Violation {
    fn from(v: wire::valkey::policy::planning::Violation) -> Self {
        Self { severity: v.severity.into(), field: v.field, message: v.message }
    }
}

impl From<wire::valkey::policy::log::Level> for vko_wit::valkey::policy::log::Level {
    fn from(v: wire::valkey::policy::log::Level) -> Self {
        match v {
            wire::valkey::policy::log::Level::Debug => Self::Debug,
            wire::valkey::policy::log::Level::Info => Self::Info,
            wire::valkey::policy::log::Level::Warn => Self::Warn,
            wire::valkey::policy::log::Level::Error => Self::Error,
        }
    }
}

impl From<wire::exports::valkey::policy::decisions::ModuleInfo> for vko_wit::exports::valkey::policy::decisions::ModuleInfo {
    fn from(v: wire::exports::valkey::policy::decisions::ModuleInfo) -> Self {
        Self {
            name: v.name,
            architecture: v.architecture.into(),
            version: v.version,
            server_lines: v.server_lines,
            description: v.description,
        }
    }
}
