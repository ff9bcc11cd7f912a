//! What a server says about itself: the reply of INFO, as typed facts.
//!
//! # Guarantees
//! 1. Never panics and never fails, whatever the text is.
//! 2. A field that is not there, or whose value isn't of its type, is `None`: unknown, never a default. The server's own way of
//!    saying "there is none" (an id of zeros, an offset of -1) becomes [`Some`] of an empty text, or `None` where the doc says
//!    so.
//!
//! # Assumptions
//! The text is one whole reply (the protocol carries its length). If a name occurs twice, the last one counts.
//!
//! # Flow
//! 1. Cut into lines; lines with a colon are fields, `# Name` lines say which sections the reply has.
//! 2. Each typed field reads its text once.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use crate::address::Address;
use crate::version::{Line, Version, VersionError};

/// What a server writes to its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFile {
    /// Each write, if `appendonly` is on.
    AppendOnlyFile,
    /// The data set at one moment.
    Snapshot,
}

/// The facts of one reply. Offsets, counters and sizes are of the run that `run_id` names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    /// `run_id`: changes with every start of the process.
    pub run_id: Option<String>,
    /// `valkey_version`, else `redis_version` (servers of the 7.2 line may not have the other).
    pub version: Option<Version>,
    /// `redis_version`: on Valkey the version that it is compatible with.
    pub redis_version: Option<Version>,
    /// `valkey_version`.
    pub valkey_version: Option<Version>,
    /// `uptime_in_seconds`.
    pub uptime_seconds: Option<u64>,

    /// `connected_clients`, without replicas.
    pub connected_clients: Option<u64>,
    /// `total_connections_received` since the start.
    pub total_connections: Option<u64>,
    /// Whether CLIENT PAUSE holds writes back now (`paused_actions`; 8.1 and later show it).
    pub writes_paused: Option<bool>,

    /// `used_memory` in bytes.
    pub used_memory: Option<u64>,
    /// `maxmemory` in bytes; 0 means no limit.
    pub max_memory: Option<u64>,
    /// `maxmemory_policy`.
    pub max_memory_policy: Option<String>,
    /// `evicted_keys` since the start.
    pub evicted_keys: Option<u64>,
    /// Keys in all databases. Zero only if the reply has a keyspace section that names no database.
    pub keys: Option<u64>,

    /// `loading`: the data set is being loaded, from disk or by a sync.
    pub loading: Option<bool>,
    /// `loading_loaded_perc`, cut to whole per cent, at most 100; only there while it loads.
    pub loading_percent: Option<u8>,
    /// `rdb_bgsave_in_progress`.
    pub saving: Option<bool>,
    /// `rdb_last_save_time` as Unix seconds. The time of the start until the first save of this run.
    pub last_save_seconds: Option<u64>,
    /// Whether `rdb_last_bgsave_status` is `ok`; also `ok` before the first save of this run.
    pub last_save_ok: Option<bool>,
    /// `rdb_changes_since_last_save`.
    pub unsaved_changes: Option<u64>,
    /// `rdb_last_load_keys_loaded`: keys that the last load of a snapshot brought, whether from disk or by a sync.
    pub keys_loaded: Option<u64>,
    /// `aof_enabled`.
    pub aof_enabled: Option<bool>,
    /// Whether `aof_last_write_status` is `ok`.
    pub aof_write_ok: Option<bool>,

    /// `role`.
    pub role: Option<Role>,
    /// `master_replid`: the history that the data belongs to.
    pub replid: Option<String>,
    /// `master_repl_offset`: bytes of that history that this server has produced or received.
    pub primary_offset: Option<u64>,
    /// `master_replid2`: the history it belonged to before a promotion; empty if there is none.
    pub second_replid: Option<String>,
    /// `second_repl_offset`: first byte that the second history does **not** share; `None` also if there is no second history.
    pub second_offset: Option<u64>,
    /// `master_failover_state`: `no-failover`, `waiting-for-sync`, `failover-in-progress`.
    pub failover_state: Option<String>,
    /// `min_slaves_good_slaves`: replicas heard of within the max lag; only there while the fence is on.
    pub good_replicas: Option<u32>,
    /// `connected_slaves`: how many replicas are attached; `None` if the reply has no replication section.
    pub replicas_count: Option<u32>,
    /// The `slaveN` lines, sorted by address. A line whose address or state can't be read is left out.
    pub replicas: Vec<AttachedReplica>,
    /// `sync_full`: full resyncs given to replicas since the start.
    pub full_syncs: Option<u64>,
    /// `sync_partial_ok`: partial resyncs given to replicas since the start.
    pub partial_syncs: Option<u64>,

    /// `master_host`, of a replica.
    pub primary_host: Option<String>,
    /// `master_port`, of a replica.
    pub primary_port: Option<u16>,
    /// Whether `master_link_status` is `up`. It stays up for a frozen primary until `repl-timeout`: see
    /// [`Self::last_io_seconds`].
    pub link_up: Option<bool>,
    /// `master_sync_in_progress`.
    pub sync_in_progress: Option<bool>,
    /// `master_last_io_seconds_ago`; `None` also while there is no link.
    pub last_io_seconds: Option<u64>,
    /// `master_link_down_since_seconds`: for how long the link has been down; `None` while it is up, and for one that never was.
    pub link_down_seconds: Option<u64>,
    /// `slave_repl_offset`: bytes of the history that it has applied.
    pub replica_offset: Option<u64>,
    /// `slave_priority`.
    pub replica_priority: Option<u32>,
    /// `slave_read_only`.
    pub read_only: Option<bool>,
}

/// Which part a server plays. Its own word, not what anybody wants it to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `master`.
    Primary,
    /// `slave`.
    Replica,
}

/// How far a primary is with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaState {
    /// `wait_bgsave`: the sync's snapshot is being made.
    WaitingForSave,
    /// `send_bulk`: the snapshot is being sent.
    Sending,
    /// `online`. 9.1 says so before the first sync has ended: see [`crate::replication::promotable`].
    Online,
    /// Any other word.
    Other,
}

/// A `slaveN` line of a primary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttachedReplica {
    /// Where it listens: IP address or announced name, without brackets.
    pub ip: String,
    /// Port.
    pub port: u16,
    /// How far it is.
    pub state: ReplicaState,
    /// Last acknowledged offset; 0 before the first acknowledgement.
    pub offset: Option<u64>,
    /// Seconds since the last acknowledgement.
    pub lag_seconds: Option<u64>,
}

impl Info {
    /// Reads a reply of INFO, with whatever sections it has.
    pub fn parse(text: &str) -> Self {
        let fields = Fields::cut(text);
        let mut info = Self::default();
        fields.server(&mut info);
        fields.memory(&mut info);
        fields.persistence(&mut info);
        fields.replication(&mut info);
        fields.link(&mut info);
        info
    }

    /// The primary that a replica follows.
    pub fn primary(&self) -> Option<Address> {
        Some(Address { host: self.primary_host.clone()?, port: self.primary_port? })
    }

    /// What it can't write to its disk, and so answers MISCONF to each write: its append-only file, or where it has none its
    /// snapshots. `None`: nothing shows.
    pub fn cannot_write(&self) -> Option<DiskFile> {
        match (self.aof_enabled, self.aof_write_ok, self.last_save_ok) {
            (Some(true), Some(false), _) => Some(DiskFile::AppendOnlyFile),
            (Some(false), _, Some(false)) => Some(DiskFile::Snapshot),
            _ => None,
        }
    }

    /// The server's line: by `valkey_version`; without one, a `redis_version` below 8 counts as 7.2. `None` if it doesn't say.
    ///
    /// # Errors
    /// [`VersionError::LineUnsupported`] for a server of a line that the operator doesn't know.
    pub fn line(&self) -> Option<Result<Line, VersionError>> {
        match (self.valkey_version, self.redis_version) {
            (None, Some(redis)) if redis.major < 8 => Some(Ok(Line::V7_2)),
            // Redis 8 and later is another server than Valkey 8: never that line, whatever the number.
            (None, Some(redis)) => {
                Some(Err(VersionError::LineUnsupported { asked: format!("Redis {redis}"), remedy: "use an image of Valkey" }))
            }
            (valkey, _) => valkey.map(|version| Line::of(&version)),
        }
    }
}

/// `none`, or a comma-separated list of what is held back.
fn pauses_writes(actions: &str) -> Option<bool> {
    match actions {
        "" => None,
        "none" => Some(false),
        list => Some(list.split(',').any(|action| matches!(action, "write" | "all"))),
    }
}

/// The cut reply.
struct Fields<'a> {
    fields: HashMap<&'a str, &'a str>,
    sections: HashSet<&'a str>,
}

impl<'a> Fields<'a> {
    fn cut(text: &'a str) -> Self {
        let mut cut = Self { fields: HashMap::new(), sections: HashSet::new() };
        for line in text.lines() {
            if let Some(section) = line.strip_prefix('#') {
                cut.sections.insert(section.trim());
            } else if let Some((name, value)) = line.split_once(':') {
                cut.fields.insert(name, value.trim_end());
            }
        }
        cut
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.fields.get(name).copied()
    }

    /// A text that isn't empty.
    fn text(&self, name: &str) -> Option<String> {
        self.get(name).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// `0` or `1`.
    fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// One word for yes; any other word is no.
    fn word(&self, name: &str, yes: &str) -> Option<bool> {
        self.get(name).filter(|text| !text.is_empty()).map(|text| text == yes)
    }

    fn server(&self, info: &mut Info) {
        info.run_id = self.text("run_id");
        info.valkey_version = self.parsed("valkey_version");
        info.redis_version = self.parsed("redis_version");
        info.version = info.valkey_version.or(info.redis_version);
        info.uptime_seconds = self.parsed("uptime_in_seconds");
        info.connected_clients = self.parsed("connected_clients");
        info.total_connections = self.parsed("total_connections_received");
        info.writes_paused = self.get("paused_actions").and_then(pauses_writes);
    }

    fn memory(&self, info: &mut Info) {
        info.used_memory = self.parsed("used_memory");
        info.max_memory = self.parsed("maxmemory");
        info.max_memory_policy = self.text("maxmemory_policy");
        info.evicted_keys = self.parsed("evicted_keys");
        info.keys = self.keys();
    }

    fn persistence(&self, info: &mut Info) {
        info.loading = self.flag("loading");
        info.loading_percent = self.get("loading_loaded_perc").and_then(percent);
        info.saving = self.flag("rdb_bgsave_in_progress");
        info.last_save_seconds = self.parsed("rdb_last_save_time");
        info.last_save_ok = self.word("rdb_last_bgsave_status", "ok");
        info.unsaved_changes = self.parsed("rdb_changes_since_last_save");
        info.keys_loaded = self.parsed("rdb_last_load_keys_loaded");
        info.aof_enabled = self.flag("aof_enabled");
        info.aof_write_ok = self.word("aof_last_write_status", "ok");
    }

    fn replication(&self, info: &mut Info) {
        info.role = match self.get("role") {
            Some("master") => Some(Role::Primary),
            Some("slave") => Some(Role::Replica),
            _ => None,
        };
        let none_as_empty = |id: String| if id.bytes().all(|byte| byte == b'0') { String::new() } else { id };
        info.replid = self.text("master_replid");
        info.primary_offset = self.parsed("master_repl_offset");
        info.second_replid = self.text("master_replid2").map(none_as_empty);
        info.second_offset = self.parsed("second_repl_offset");
        info.failover_state = self.text("master_failover_state");
        info.good_replicas = self.parsed("min_slaves_good_slaves");
        info.replicas_count = self.parsed("connected_slaves");
        let lines = self.fields.iter().filter(|(name, _)| numbered(name, "slave"));
        info.replicas = lines.filter_map(|(_, line)| attached_replica(line)).collect();
        info.replicas.sort();
        info.full_syncs = self.parsed("sync_full");
        info.partial_syncs = self.parsed("sync_partial_ok");
    }

    fn link(&self, info: &mut Info) {
        info.primary_host = self.text("master_host");
        info.primary_port = self.parsed("master_port");
        info.link_up = self.word("master_link_status", "up");
        info.sync_in_progress = self.flag("master_sync_in_progress");
        info.last_io_seconds = self.parsed("master_last_io_seconds_ago");
        info.link_down_seconds = self.parsed("master_link_down_since_seconds");
        info.replica_offset = self.parsed("slave_repl_offset");
        info.replica_priority = self.parsed("slave_priority");
        info.read_only = self.flag("slave_read_only");
    }

    /// Sum over the `dbN:keys=...` lines.
    fn keys(&self) -> Option<u64> {
        let lines = self.fields.iter().filter(|(name, _)| numbered(name, "db"));
        let counts = lines.map(|(_, line)| pairs(line).find(|(key, _)| *key == "keys")?.1.parse().ok());
        let counts = counts.collect::<Option<Vec<u64>>>()?;
        if counts.is_empty() && !self.sections.contains("Keyspace") {
            return None;
        }
        Some(counts.into_iter().fold(0, u64::saturating_add))
    }
}

/// Whether a name is the prefix and a number: `slave0` is, `slave_priority` isn't.
fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `key=value,key=value`. An IPv6 address has colons, but neither commas nor equals signs.
fn pairs(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split(',').filter_map(|pair| pair.split_once('='))
}

fn attached_replica(line: &str) -> Option<AttachedReplica> {
    let fields: HashMap<_, _> = pairs(line).collect();
    let ip = fields.get("ip").filter(|ip| !ip.is_empty())?;
    Some(AttachedReplica {
        ip: (*ip).to_owned(),
        port: fields.get("port")?.parse().ok()?,
        state: match *fields.get("state")? {
            "wait_bgsave" => ReplicaState::WaitingForSave,
            "send_bulk" => ReplicaState::Sending,
            "online" => ReplicaState::Online,
            _ => ReplicaState::Other,
        },
        offset: fields.get("offset").and_then(|text| text.parse().ok()),
        lag_seconds: fields.get("lag").and_then(|text| text.parse().ok()),
    })
}

/// `12.34` as 12.
fn percent(text: &str) -> Option<u8> {
    let whole = text.split('.').next()?;
    whole.parse::<u64>().ok().map(|number| u8::try_from(number.min(100)).unwrap_or(100))
}

#[cfg(test)]
#[path = "info_tests.rs"]
mod tests;
