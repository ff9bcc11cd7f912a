//! The typed list of commands. What is not here can't be sent: there is no FLUSHALL, FLUSHDB, DEBUG, SHUTDOWN NOSAVE, and no way
//! to send text. `host/valkey` turns a command into words and the answer into a [`Reply`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::secret::Secret;

/// A command to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `INFO server replication persistence keyspace`: the light probe. The keyspace is in it because "empty" must be a fact and
    /// not the lack of one.
    LightProbe,
    /// `INFO` of the sections that a full look needs (server, clients, memory, persistence, stats, replication, keyspace).
    FullInfo,
    /// `ROLE`.
    Role,
    /// `CONFIG GET name...`.
    ConfigGet(Vec<String>),
    /// `CONFIG SET name value ...`: all or nothing.
    ConfigSet(Vec<(String, ConfigValue)>),
    /// `REPLICAOF host port`.
    ReplicaOf {
        /// Address of the primary.
        ip: IpAddr,
        /// Port of the primary.
        port: u16,
    },
    /// `REPLICAOF <loopback> 1`: follow nobody, read-only.
    ReplicaOfNobody {
        /// Loopback of the family that the server listens on.
        loopback: IpAddr,
    },
    /// `REPLICAOF NO ONE`: become a primary.
    ReplicaOfNoOne,
    /// `FAILOVER TO host port TIMEOUT ms`. `OK` means accepted, nothing more.
    FailoverTo {
        /// Address of the replica.
        ip: IpAddr,
        /// Port of the replica.
        port: u16,
        /// The server's own clock; it does not always fire (with equal offsets and a frozen replica, say), so the caller keeps
        /// one too.
        timeout_ms: u64,
    },
    /// `FAILOVER ABORT`.
    FailoverAbort,
    /// `CLIENT PAUSE ms WRITE`.
    PauseWrites {
        /// At most so long.
        time_ms: u64,
    },
    /// `CLIENT UNPAUSE`.
    Unpause,
    /// `CLIENT KILL TYPE normal SKIPME yes`.
    KillNormalClients,
    /// `CLIENT KILL USER name SKIPME yes`: the account's other sessions.
    KillUser(String),
    /// `BGSAVE`.
    BackgroundSave,

    /// The light probe of a server in cluster mode, in one go: what [`Self::LightProbe`] asks, `CLUSTER INFO`, and a digest of
    /// `CLUSTER SLOTS`. The digest is needed: slots may move without any change of an epoch.
    ClusterProbe,
    /// `CLUSTER NODES`: all that a server believes.
    ClusterNodes,
    /// `CLUSTER MEET ip port bus-port`: acquaints two servers, or tells one where another is now. OK means that it will try.
    ClusterMeet {
        /// Address of the other server.
        ip: IpAddr,
        /// Its port for clients.
        port: u16,
        /// Its port for the cluster's own traffic.
        bus_port: u16,
    },
    /// `CLUSTER FORGET node-id`. That it doesn't know the node is [`Reply::Done`], too.
    ClusterForget(String),
    /// `CLUSTER REPLICATE node-id`: a replica of that primary from now on; whatever the server held is replaced.
    ClusterReplicate(String),
    /// `CLUSTER ADDSLOTSRANGE first last ...`: takes slots that nobody owns. Both ends are included.
    ClusterAddSlots(Vec<(u16, u16)>),
    /// `CLUSTER SETSLOT slot STABLE`: ends a slot's being open, whoever owns it.
    ClusterSetSlotStable(u16),
    /// `CLUSTER SETSLOT slot NODE node-id`: the owner as this server is to see it.
    ClusterSetSlotNode {
        /// From 0 to 16383.
        slot: u16,
        /// Id of the owner.
        node: String,
    },
    /// `CLUSTER FAILOVER [FORCE|TAKEOVER]`, to a replica. `OK` means accepted, nothing more. The server doesn't check that the
    /// replica has synced: an empty one takes over and the shard's data is gone.
    ClusterFailover(ClusterFailover),
    /// `CLUSTER BUMPEPOCH`: its claim to its slots wins over older ones.
    ClusterBumpEpoch,
    /// `CLUSTER RESET HARD`: a new id, nothing known, nothing owned. Wipes a replica that holds keys (a primary that holds keys
    /// refuses), so it is for servers that are empty.
    ClusterResetHard,

    /// The light probe of a Sentinel, in one go: `INFO server`, `INFO sentinel`, `SENTINEL MYID`.
    SentinelProbe,
    /// `SENTINEL MASTERS`: all that it monitors.
    SentinelMasters,
    /// `SENTINEL REPLICAS name`.
    SentinelReplicas(String),
    /// `SENTINEL SENTINELS name`: the other Sentinels of that primary, as this one knows them.
    SentinelPeers(String),
    /// `SENTINEL CKQUORUM name`. That there is none is [`Refused`](crate::world::ServerError::Refused) with code `NOQUORUM`.
    SentinelCheckQuorum(String),
    /// `SENTINEL MONITOR name ip port quorum`. Refused for a name that is monitored already.
    SentinelMonitor {
        /// Name of the monitored primary.
        name: String,
        /// Address of the primary.
        ip: IpAddr,
        /// Port of the primary.
        port: u16,
        /// How many Sentinels must find it down.
        quorum: u32,
    },
    /// `SENTINEL REMOVE name`.
    SentinelRemove(String),
    /// `SENTINEL RESET name`: forgets the replicas and the other Sentinels, and finds them again.
    SentinelReset(String),
    /// `SENTINEL FAILOVER name`: promotes a replica without asking the other Sentinels. The old primary goes on taking writes,
    /// which are lost, until it is reconfigured: it is for primaries that must not serve.
    SentinelFailover(String),
    /// `SENTINEL SET name option value ...`. Options before a bad one stay set.
    SentinelSet {
        /// Name of the monitored primary.
        name: String,
        /// Options in order.
        options: Vec<(String, ConfigValue)>,
    },
}

/// How a replica takes over in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterFailover {
    /// With its primary's help: writes wait until the replica has all of them. Fails after 5 s at the latest.
    Coordinated,
    /// Without its primary, by the votes of the other primaries.
    Force,
    /// Without anybody. For a cluster that has lost its majority.
    Takeover,
}

impl Command {
    /// Whether it changes anything on the server. Reads may be sent again without thought.
    pub fn is_effect(&self) -> bool {
        !matches!(
            self,
            Self::LightProbe
                | Self::FullInfo
                | Self::Role
                | Self::ConfigGet(_)
                | Self::ClusterProbe
                | Self::ClusterNodes
                | Self::SentinelProbe
                | Self::SentinelMasters
                | Self::SentinelReplicas(_)
                | Self::SentinelPeers(_)
                | Self::SentinelCheckQuorum(_)
        )
    }

    /// Whether it may only be sent under a Lease that outlasts its deadline, so that two operators never both act.
    pub fn is_dangerous(&self) -> bool {
        matches!(
            self,
            Self::ReplicaOf { .. }
                | Self::ReplicaOfNobody { .. }
                | Self::ReplicaOfNoOne
                | Self::FailoverTo { .. }
                | Self::PauseWrites { .. }
                | Self::ClusterMeet { .. }
                | Self::ClusterForget(_)
                | Self::ClusterReplicate(_)
                | Self::ClusterAddSlots(_)
                | Self::ClusterSetSlotStable(_)
                | Self::ClusterSetSlotNode { .. }
                | Self::ClusterFailover(_)
                | Self::ClusterBumpEpoch
                | Self::ClusterResetHard
                | Self::SentinelMonitor { .. }
                | Self::SentinelRemove(_)
                | Self::SentinelReset(_)
                | Self::SentinelFailover(_)
        )
    }

    /// Label in metrics and journal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LightProbe => "light-probe",
            Self::FullInfo => "full-info",
            Self::Role => "role",
            Self::ConfigGet(_) => "config-get",
            Self::ConfigSet(_) => "config-set",
            Self::ReplicaOf { .. } => "replicaof",
            Self::ReplicaOfNobody { .. } => "replicaof-nobody",
            Self::ReplicaOfNoOne => "replicaof-no-one",
            Self::FailoverTo { .. } => "failover-to",
            Self::FailoverAbort => "failover-abort",
            Self::PauseWrites { .. } => "pause-writes",
            Self::Unpause => "unpause",
            Self::KillNormalClients => "kill-normal-clients",
            Self::KillUser(_) => "kill-user",
            Self::BackgroundSave => "bgsave",
            Self::ClusterProbe => "cluster-probe",
            Self::ClusterNodes => "cluster-nodes",
            Self::ClusterMeet { .. } => "cluster-meet",
            Self::ClusterForget(_) => "cluster-forget",
            Self::ClusterReplicate(_) => "cluster-replicate",
            Self::ClusterAddSlots(_) => "cluster-addslots",
            Self::ClusterSetSlotStable(_) => "cluster-setslot-stable",
            Self::ClusterSetSlotNode { .. } => "cluster-setslot-node",
            Self::ClusterFailover(ClusterFailover::Coordinated) => "cluster-failover",
            Self::ClusterFailover(ClusterFailover::Force) => "cluster-failover-force",
            Self::ClusterFailover(ClusterFailover::Takeover) => "cluster-failover-takeover",
            Self::ClusterBumpEpoch => "cluster-bumpepoch",
            Self::ClusterResetHard => "cluster-reset-hard",
            Self::SentinelProbe => "sentinel-probe",
            Self::SentinelMasters => "sentinel-masters",
            Self::SentinelReplicas(_) => "sentinel-replicas",
            Self::SentinelPeers(_) => "sentinel-sentinels",
            Self::SentinelCheckQuorum(_) => "sentinel-ckquorum",
            Self::SentinelMonitor { .. } => "sentinel-monitor",
            Self::SentinelRemove(_) => "sentinel-remove",
            Self::SentinelReset(_) => "sentinel-reset",
            Self::SentinelFailover(_) => "sentinel-failover",
            Self::SentinelSet { .. } => "sentinel-set",
        }
    }
}

/// A value for CONFIG SET or SENTINEL SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigValue {
    /// Plain.
    Text(String),
    /// A credential; never logged, never journaled.
    Credential(Secret),
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// `OK`, or any simple answer whose text does not matter.
    Done,
    /// A text: INFO, and the like.
    Text(String),
    /// Pairs: CONFIG GET.
    Pairs(BTreeMap<String, String>),
    /// ROLE.
    Role(RoleReply),
    /// A list of things with their properties: SENTINEL MASTERS, REPLICAS, SENTINELS.
    Maps(Vec<BTreeMap<String, String>>),
    /// [`Command::ClusterProbe`].
    ClusterProbe {
        /// INFO.
        info: String,
        /// CLUSTER INFO. Empty while the server loads its data set: it answers nothing but INFO then.
        cluster: String,
        /// Digest of CLUSTER SLOTS. Equal digests of one run of the operator mean the same owners, replicas and addresses of all
        /// slots; different ones may also come from a server that doesn't know its own address yet. 0 while it loads.
        slots_digest: u64,
    },
    /// [`Command::SentinelProbe`].
    SentinelProbe {
        /// INFO server.
        server: String,
        /// INFO sentinel.
        sentinel: String,
        /// The Sentinel's own id.
        id: String,
    },
}

/// Something that a Sentinel published, on a channel of
/// [`vko_model::sentinel::CHANNELS`](vko_model::sentinel::CHANNELS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelEvent {
    /// `+switch-master`, `+sdown`, ...
    pub channel: String,
    /// What it says: `master mymaster 10.0.0.1 6379`, for one.
    pub message: String,
}

impl SentinelEvent {
    /// Stands for events that nobody fetched in time.
    pub fn missed() -> Self {
        Self { channel: String::new(), message: String::new() }
    }
}

/// `ROLE`, for data servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleReply {
    /// A primary with its offset and the replicas' addresses and acknowledged offsets.
    Primary {
        /// Replication offset.
        offset: u64,
        /// Address, port, acknowledged offset.
        replicas: Vec<(String, u16, u64)>,
    },
    /// A replica.
    Replica {
        /// Primary's address.
        host: String,
        /// Primary's port.
        port: u16,
        /// `connect`, `connecting`, `handshake`, `sync`, `connected`, `none`, `unknown`.
        state: String,
        /// Offset; -1 when never synced.
        offset: i64,
    },
}
