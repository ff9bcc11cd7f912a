//! The rights of each account, by what the server is there for. One line per right, with what it is for.

use super::{Account, ServerRole};
use crate::version::Line;

/// The rules of an account, in the order in which servers repeat them: keys, channels, commands.
pub(super) fn of(account: Account, role: ServerRole, line: Line) -> Vec<&'static str> {
    if account == Account::Default && role.is_data() {
        let subcommands = if role == ServerRole::Cluster { clients_in_cluster(line) } else { Vec::new() };
        return [DEFAULT, &subcommands].concat();
    }
    let rights = match account {
        Account::Operator => operator(role),
        Account::Replication => replication(role, line),
        Account::Hook => hook(role),
        Account::Probe => probe(role),
        Account::Sentinel => sentinel(role),
        Account::Default => clients_of_sentinel(line),
    };
    [NO_PATTERN, patterns(account, role, line), NO_COMMAND, &rights].concat()
}

/// No key, no channel: patterns are added to this.
const NO_PATTERN: &[&str] = &["resetkeys", "resetchannels"];

/// No command: rights are added to this.
const NO_COMMAND: &[&str] = &["-@all"];

/// Keys and channels.
fn patterns(account: Account, role: ServerRole, line: Line) -> &'static [&'static str] {
    match (account, role) {
        // Slots move by writing their keys at the new owner.
        (Account::Replication, ServerRole::Cluster) if line >= Line::V9_1 => &["~*"],
        // A Sentinel's channels are its events and nothing else.
        (Account::Operator | Account::Default, ServerRole::Sentinel) => &["&*"],
        // Where Sentinels find each other.
        (Account::Sentinel, ServerRole::Failover | ServerRole::Sentinel) => &["&__sentinel__:hello"],
        _ => &[],
    }
}

/// One right per typed command that the operator sends.
fn operator(role: ServerRole) -> Vec<&'static str> {
    let of_role = match role {
        ServerRole::Replica => [OPERATOR_DATA, OPERATOR_REPLICATION].concat(),
        ServerRole::Failover => [OPERATOR_DATA, OPERATOR_REPLICATION, OPERATOR_FAILOVER].concat(),
        ServerRole::Cluster => [OPERATOR_DATA, OPERATOR_CLUSTER].concat(),
        ServerRole::Sentinel => OPERATOR_SENTINEL.to_vec(),
    };
    [OPERATOR, &of_role].concat()
}

/// On every server.
const OPERATOR: &[&str] = &[
    "+info",           // what a server says of itself: light probe, full look
    "+client|kill",    // end clients of a demoted primary, and sessions of an operator that is gone
    "+client|setname", // shows in CLIENT LIST and in logs whose connection it is
];

const OPERATOR_DATA: &[&str] = &[
    "+bgsave", // a save that a policy asks for
];

const OPERATOR_REPLICATION: &[&str] = &[
    "+role",       // role read again just before a dangerous step
    "+config|get", // read the fence back
    "+config|set", // raise and lower it
    "+replicaof",  // follow, detach, promote
    "+failover",   // hand-over of the primary's role: the server holds writes back itself
];

const OPERATOR_FAILOVER: &[&str] = &[
    "+client|pause",   // hold writes back in a hand-over that Sentinels carry out
    "+client|unpause", // and let them go on
];

const OPERATOR_CLUSTER: &[&str] = &[
    "+cluster|info",          // light probe: its state and epochs
    "+cluster|slots",         // light probe: whether slots or their owners have changed
    "+cluster|nodes",         // all that it believes
    "+cluster|meet",          // acquaint nodes, tell a new address
    "+cluster|forget",        // a node that is gone for good
    "+cluster|replicate",     // give a replica its primary
    "+cluster|addslotsrange", // slots that nobody owns
    "+cluster|setslot",       // close slots that were left open, name owners
    "+cluster|failover",      // hand-over and takeover
    "+cluster|bumpepoch",     // let an owner's claim win
    "+cluster|reset",         // an empty node that was in another cluster
];

const OPERATOR_SENTINEL: &[&str] = &[
    "+subscribe",          // events, so that a switch is seen at once
    "+sentinel|myid",      // probe: which Sentinel it is
    "+sentinel|masters",   // what it monitors
    "+sentinel|replicas",  // whom it could promote
    "+sentinel|sentinels", // whom it counts for the quorum
    "+sentinel|ckquorum",  // whether they are enough
    "+sentinel|monitor",   // monitor, by the true primary
    "+sentinel|remove",    // and no more
    "+sentinel|reset",     // forget Sentinels and replicas that are gone
    "+sentinel|set",       // options and credentials of a monitor
    "+sentinel|failover",  // a primary that must not serve
];

fn replication(role: ServerRole, line: Line) -> Vec<&'static str> {
    let of_line = if line >= Line::V8_1 { DUAL_CHANNEL } else { &[] };
    match role {
        ServerRole::Replica | ServerRole::Failover => [REPLICATION, of_line].concat(),
        ServerRole::Cluster if line >= Line::V9_1 => [REPLICATION, of_line, SLOT_MIGRATION].concat(),
        ServerRole::Cluster => [REPLICATION, of_line].concat(),
        ServerRole::Sentinel => Vec::new(),
    }
}

/// Without replconf the link comes up but nothing is acknowledged, so fence, WAIT and FAILOVER can't work.
const REPLICATION: &[&str] = &["+psync", "+replconf"];

/// The second channel of dual-channel replication (8.1 and later, off by default) asks by SYNC and is refused for ever without
/// it.
const DUAL_CHANNEL: &[&str] = &["+sync"];

/// 9.x moves slots between their owners: the source logs in to the target and writes there.
const SLOT_MIGRATION: &[&str] = &["+cluster|syncslots", "+select", "+@write"];

/// Who is primary, which replica is synced, and the hand-over to it.
fn hook(role: ServerRole) -> Vec<&'static str> {
    match role {
        ServerRole::Replica => [HOOK, HOOK_REPLICATION].concat(),
        ServerRole::Failover => [HOOK, HOOK_REPLICATION, HOOK_FAILOVER].concat(),
        ServerRole::Cluster => [HOOK, HOOK_CLUSTER].concat(),
        ServerRole::Sentinel => vec!["+sentinel|failover"], // ordered while the data server holds writes back
    }
}

const HOOK: &[&str] = &["+info", "+role"];

/// FAILOVER TO a replica (writes are held back by the server itself), and FAILOVER ABORT of anybody's that is stuck.
const HOOK_REPLICATION: &[&str] = &["+failover"];

/// Sentinels don't hold writes back.
const HOOK_FAILOVER: &[&str] = &["+client|pause", "+client|unpause"];

/// CLUSTER FAILOVER at a replica; and who else knows of this node, before it starts with less data than its replicas hold.
const HOOK_CLUSTER: &[&str] = &["+cluster|nodes", "+cluster|failover"];

/// Liveness asks PING, readiness asks INFO, in a cluster its state, too.
fn probe(role: ServerRole) -> Vec<&'static str> {
    match role {
        ServerRole::Replica | ServerRole::Failover => vec!["+ping", "+info"],
        ServerRole::Cluster => vec!["+ping", "+info", "+cluster|info"],
        ServerRole::Sentinel => vec!["+ping"],
    }
}

fn sentinel(role: ServerRole) -> Vec<&'static str> {
    match role {
        ServerRole::Failover => [SENTINEL, SENTINEL_TO_DATA].concat(),
        ServerRole::Sentinel => [SENTINEL, SENTINEL_TO_SENTINEL].concat(),
        ServerRole::Replica | ServerRole::Cluster => Vec::new(),
    }
}

const SENTINEL: &[&str] = &[
    "+ping",           // whether it lives
    "+publish",        // tell of itself
    "+client|setname", // shows whose connection it is
];

/// A failover is one transaction: without any of its parts nobody is promoted. CONFIG REWRITE is one of them: it may fail (there
/// is no file), but must not be refused.
const SENTINEL_TO_DATA: &[&str] = &[
    "+info",           // role, replicas, offsets
    "+subscribe",      // hear of other Sentinels
    "+multi",          // a failover's transaction: its begin
    "+slaveof",        // promote, follow
    "+config|rewrite", // remember it
    "+client|kill",    // clients look the primary up again
    "+exec",           // its end
];

/// Whether the other finds a primary down, too, and whom it votes for.
const SENTINEL_TO_SENTINEL: &[&str] = &["+sentinel|is-master-down-by-addr"];

/// Clients of a Sentinel ask where the primary is and who else is there, and listen.
fn clients_of_sentinel(line: Line) -> Vec<&'static str> {
    let of_line: &[&str] = if line >= Line::V8_1 { &["+client|setinfo"] } else { &[] };
    [CLIENTS_OF_SENTINEL, of_line].concat()
}

const CLIENTS_OF_SENTINEL: &[&str] = &[
    "+ping",
    "+info",
    "+role",
    "+command",
    "+client|setname",
    "+client|id",
    "+subscribe",
    "+unsubscribe",
    "+psubscribe",
    "+punsubscribe",
    "+sentinel|get-master-addr-by-name",
    "+sentinel|master",
    "+sentinel|masters",
    "+sentinel|replicas",
    "+sentinel|slaves",
    "+sentinel|sentinels",
    "+sentinel|ckquorum",
    "+sentinel|myid",
];

/// What changes a cluster is the operator's; what tells about it is for all. A list of what is allowed: later versions may add
/// more that changes something.
fn clients_in_cluster(line: Line) -> Vec<&'static str> {
    let of_line: &[&str] = if line >= Line::V8_1 { &["+cluster|myshardid", "+cluster|slot-stats"] } else { &[] };
    [CLIENTS_IN_CLUSTER, of_line].concat()
}

const CLIENTS_IN_CLUSTER: &[&str] = &[
    "-cluster",
    "+cluster|slots",
    "+cluster|shards",
    "+cluster|nodes",
    "+cluster|info",
    "+cluster|myid",
    "+cluster|links",
    "+cluster|replicas",
    "+cluster|slaves",
    "+cluster|keyslot",
    "+cluster|countkeysinslot",
    "+cluster|getkeysinslot",
    "+cluster|count-failure-reports",
    "+cluster|help",
];

/// Everything that is about the user's own data; not what would take the instance out of the operator's hands. DEBUG and MODULE
/// LOAD need no rule: the configuration has them off for everybody.
const DEFAULT: &[&str] = &[
    "~*",
    "&*",
    "+@all",
    "-acl",            // accounts are the operator's: a right given here would be gone at the next restart
    "-config",         // CONFIG GET shows the replication password; a directive set here would be gone at the next restart
    "-replicaof",      // re-parents a server: two primaries, or a wiped one
    "-slaveof",        // its old name
    "-failover",       // moves the primary's role behind the operator's back
    "-shutdown",       // NOSAVE loses data; pods are restarted by the operator
    "-psync",          // whoever acts as a replica gets the whole data set, and counts as one for the fence
    "-sync",           // the same
    "-replconf",       // false acknowledgements would open the fence and mislead a hand-over
    "-client|pause",   // freezes everybody, the operator and the probes included
    "-client|unpause", // ends the pause that makes a hand-over lose nothing
];
