//! The typed list of commands. What is not here can't be sent: there is no FLUSHALL, FLUSHDB, DEBUG, SHUTDOWN NOSAVE, and no way to
//! send text. `host/valkey` turns a command into words and the answer into a [`Reply`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::secret::Secret;

/// A command to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `INFO server replication persistence keyspace`: the light probe. The keyspace is in it because "empty" must be a fact and not the lack
    /// of one.
    LightProbe,
    /// `INFO` of the sections that a full look needs (server, clients, memory, persistence, stats, replication, keyspace).
    FullInfo,
    /// `ROLE`.
    Role,
    /// `CONFIG GET name...`.
    ConfigGet(Vec<String>),
    /// `CONFIG SET name value ...`: all or nothing.
    ConfigSet(Vec<(String, ConfigValue)>),
    /// `ACL LIST`.
    AclList,
    /// `ACL SETUSER name reset rule...`; the rules carry hashes, never passwords.
    AclSetUser {
        /// Account.
        name: String,
        /// Rules in order, `reset` first.
        rules: Vec<String>,
    },
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
        /// The server's own clock; it does not always fire (with equal offsets and a frozen replica, say), so the caller keeps one too.
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
}

impl Command {
    /// Whether it changes anything on the server. Reads may be sent again without thought.
    pub fn is_effect(&self) -> bool {
        !matches!(self, Self::LightProbe | Self::FullInfo | Self::Role | Self::ConfigGet(_) | Self::AclList)
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
            Self::AclList => "acl-list",
            Self::AclSetUser { .. } => "acl-setuser",
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
        }
    }
}

/// A value for CONFIG SET.
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
    /// Lines: ACL LIST.
    Lines(Vec<String>),
    /// Pairs: CONFIG GET.
    Pairs(BTreeMap<String, String>),
    /// ROLE.
    Role(RoleReply),
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
