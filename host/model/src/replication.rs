//! Decisions about replication: who follows nobody, who may take over, whose data is further.

use std::cmp::Ordering;
use std::net::IpAddr;

use crate::address::Address;
use crate::info::{AttachedReplica, Info, ReplicaState, Role};

/// The port of "nobody": a server that follows the loopback's port 1 is a replica of nobody, read-only, until it is named.
pub const NOBODY_PORT: u16 = 1;

/// A lag of more than this many seconds means that acknowledgements are missing: one comes each second.
pub const LAG_SECONDS_MAX: u64 = 1;

/// Whether the primary that a server follows is nobody.
pub fn is_nobody(primary: &Address) -> bool {
    primary.port == NOBODY_PORT && primary.ip().is_some_and(|ip| ip.is_loopback())
}

/// Where a server of this loopback's family is told to look for nobody.
pub fn nobody(loopback: IpAddr) -> Address {
    Address::of_ip(loopback, NOBODY_PORT)
}

/// Why a replica may not take over now. The variant is a metric label and an event reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPromotable {
    /// Its INFO lacks a field that this needs, or the primary's does.
    #[error("it can't be told: a server doesn't say all that is needed")]
    Unknown,
    /// It is a primary.
    #[error("it is no replica")]
    NotAReplica,
    /// It follows nobody.
    #[error("it follows nobody")]
    FollowsNobody,
    /// Its link to the primary is down.
    #[error("its link to the primary is down")]
    LinkDown,
    /// It is being synced.
    #[error("its sync is not finished")]
    Syncing,
    /// It loads its data set.
    #[error("it loads its data set")]
    Loading,
    /// The primary doesn't list it.
    #[error("the primary doesn't know it")]
    NotAttached,
    /// The primary has not sent it the data set yet.
    #[error("the primary doesn't call it online")]
    NotOnline,
    /// The primary never had an acknowledgement from it. Offsets that are equal because both are zero mean nothing.
    #[error("it has never acknowledged anything to the primary")]
    NeverAcknowledged,
    /// Its last acknowledgement is too old.
    #[error("its last acknowledgement is older than {LAG_SECONDS_MAX} s")]
    Lagging,
}

/// Whether a replica may be given the primary's role: the link is up, no sync and no loading goes on, and the primary calls it
/// online, with an offset above zero and a fresh acknowledgement. Each sign alone was seen wrong at some moment of a first sync,
/// and the server checks none of them: a FAILOVER to an empty replica would be carried out.
///
/// `attached` is the replica's line in the INFO of the primary that it follows.
///
/// # Errors
/// Names the first sign that is missing.
pub fn promotable(replica: &Info, attached: Option<&AttachedReplica>) -> Result<(), NotPromotable> {
    match replica.role {
        Some(Role::Replica) => {}
        Some(Role::Primary) => return Err(NotPromotable::NotAReplica),
        None => return Err(NotPromotable::Unknown),
    }
    if is_nobody(&replica.primary().ok_or(NotPromotable::Unknown)?) {
        return Err(NotPromotable::FollowsNobody);
    }
    holds(replica.loading.map(|loading| !loading), NotPromotable::Loading)?;
    holds(replica.sync_in_progress.map(|syncing| !syncing), NotPromotable::Syncing)?;
    holds(replica.link_up, NotPromotable::LinkDown)?;
    let attached = attached.ok_or(NotPromotable::NotAttached)?;
    holds(Some(attached.state == ReplicaState::Online), NotPromotable::NotOnline)?;
    holds(attached.offset.map(|offset| offset > 0), NotPromotable::NeverAcknowledged)?;
    holds(attached.lag_seconds.map(|lag| lag <= LAG_SECONDS_MAX), NotPromotable::Lagging)
}

/// A sign that must be there: unknown is no.
fn holds(sign: Option<bool>, otherwise: NotPromotable) -> Result<(), NotPromotable> {
    match sign {
        Some(true) => Ok(()),
        Some(false) => Err(otherwise),
        None => Err(NotPromotable::Unknown),
    }
}

/// Where a server's data stands in its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The history.
    pub replid: String,
    /// Bytes of it that the data holds.
    pub offset: u64,
    /// The history before the last promotion, with the first byte that is not shared with it.
    pub before: Option<(String, u64)>,
}

impl Position {
    /// Of a server's own words; `None` if it doesn't say enough. A replica counts what it has applied.
    pub fn of(info: &Info) -> Option<Self> {
        let offset = match info.role? {
            Role::Primary => info.primary_offset?,
            Role::Replica => info.replica_offset?,
        };
        let before = match (info.second_replid.as_deref(), info.second_offset) {
            (Some(id), Some(offset)) if !id.is_empty() => Some((id.to_owned(), offset)),
            _ => None,
        };
        Some(Self { replid: info.replid.clone()?, offset, before })
    }

    /// Which of two servers' data is further. `None` if they can't be compared: of different histories, or gone separate ways
    /// (each may hold writes that the other lacks). An append-only file forgets its history at a restart, so such a server
    /// compares with nobody.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        if self.replid == other.replid {
            return Some(self.offset.cmp(&other.offset));
        }
        match (self.continues(other), other.continues(self)) {
            (true, false) => Some(self.offset.cmp(&other.offset)),
            (false, true) => Some(other.offset.cmp(&self.offset).reverse()),
            _ => None,
        }
    }

    /// Whether our history is that of `other` and went on: all that `other` holds lies before the point where we left it.
    fn continues(&self, other: &Self) -> bool {
        self.before.as_ref().is_some_and(|(id, end)| *id == other.replid && other.offset < *end && other.offset <= self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_the_loopbacks_port_one() {
        let cases =
            [("127.0.0.1:1", true), ("[::1]:1", true), ("127.0.0.1:6379", false), ("10.0.0.1:1", false), ("localhost:1", false)];
        for (text, expected) in cases {
            assert_eq!(is_nobody(&text.parse().unwrap()), expected, "{text}");
        }
        assert!(is_nobody(&nobody("::1".parse().unwrap())));
    }

    fn synced_replica() -> Info {
        Info::parse(
            "role:slave\nloading:0\nmaster_host:10.0.0.1\nmaster_port:6379\nmaster_link_status:up\n\
             master_sync_in_progress:0\nslave_repl_offset:9\n",
        )
    }

    fn line(state: ReplicaState, offset: Option<u64>, lag_seconds: Option<u64>) -> Option<AttachedReplica> {
        Some(AttachedReplica { ip: "10.0.0.2".to_owned(), port: 6379, state, offset, lag_seconds })
    }

    #[test]
    fn a_replica_is_promotable_only_with_every_sign() {
        use NotPromotable::*;
        use ReplicaState::{Online, Sending};
        let fine = line(Online, Some(9), Some(0));
        let mut cases = vec![
            ("all signs", synced_replica(), fine.clone(), Ok(())),
            ("lag of one", synced_replica(), line(Online, Some(9), Some(1)), Ok(())),
            ("not listed", synced_replica(), None, Err(NotAttached)),
            ("still sending", synced_replica(), line(Sending, Some(9), Some(0)), Err(NotOnline)),
            ("both offsets zero", synced_replica(), line(Online, Some(0), Some(0)), Err(NeverAcknowledged)),
            ("no offset", synced_replica(), line(Online, None, Some(0)), Err(Unknown)),
            ("lag of two", synced_replica(), line(Online, Some(9), Some(2)), Err(Lagging)),
            ("no lag", synced_replica(), line(Online, Some(9), None), Err(Unknown)),
            ("nothing known", Info::default(), fine.clone(), Err(Unknown)),
        ];
        let mut with = |name, change: &dyn Fn(&mut Info), expected| {
            let mut info = synced_replica();
            change(&mut info);
            cases.push((name, info, fine.clone(), Err(expected)));
        };
        with("a primary", &|info| info.role = Some(Role::Primary), NotAReplica);
        with("nobody", &|info| (info.primary_host, info.primary_port) = (Some("127.0.0.1".to_owned()), Some(1)), FollowsNobody);
        with("no primary told", &|info| info.primary_host = None, Unknown);
        with("loading", &|info| info.loading = Some(true), Loading);
        with("loading unknown", &|info| info.loading = None, Unknown);
        with("syncing", &|info| info.sync_in_progress = Some(true), Syncing);
        with("syncing unknown", &|info| info.sync_in_progress = None, Unknown);
        with("link down", &|info| info.link_up = Some(false), LinkDown);
        with("link unknown", &|info| info.link_up = None, Unknown);
        for (name, info, attached, expected) in cases {
            assert_eq!(promotable(&info, attached.as_ref()), expected, "{name}");
        }
    }

    fn position(replid: &str, offset: u64, before: Option<(&str, u64)>) -> Position {
        Position { replid: replid.to_owned(), offset, before: before.map(|(id, end)| (id.to_owned(), end)) }
    }

    #[test]
    fn offsets_compare_within_one_history_only() {
        use Ordering::*;
        let cases = [
            ("the same history", position("a", 5, None), position("a", 7, None), Some(Less)),
            ("equal", position("a", 7, None), position("a", 7, None), Some(Equal)),
            ("other histories", position("a", 5, None), position("b", 7, None), None),
            (
                "promoted, the other is behind the fork",
                position("b", 30, Some(("a", 21))),
                position("a", 15, None),
                Some(Greater),
            ),
            ("promoted, the other is at the fork", position("b", 20, Some(("a", 21))), position("a", 20, None), Some(Equal)),
            ("promoted, the old primary wrote on", position("b", 30, Some(("a", 21))), position("a", 21, None), None),
            ("promoted, the old primary is far ahead", position("b", 30, Some(("a", 21))), position("a", 90, None), None),
            ("two promoted from one history", position("b", 30, Some(("a", 21))), position("c", 31, Some(("a", 25))), None),
            ("an append-only file was loaded", position("x", 0, None), position("a", 90, None), None),
        ];
        for (name, one, two, expected) in cases {
            assert_eq!(one.compare(&two), expected, "{name}");
            assert_eq!(two.compare(&one), expected.map(Ordering::reverse), "{name}, turned round");
        }
    }

    #[test]
    fn positions_are_what_a_server_has_applied() {
        let cases = [
            (
                "role:master\nmaster_replid:a\nmaster_repl_offset:9\nmaster_replid2:0000\nsecond_repl_offset:-1",
                Some(position("a", 9, None)),
            ),
            (
                "role:master\nmaster_replid:b\nmaster_repl_offset:9\nmaster_replid2:a\nsecond_repl_offset:4",
                Some(position("b", 9, Some(("a", 4)))),
            ),
            ("role:slave\nmaster_replid:a\nmaster_repl_offset:9\nslave_repl_offset:8", Some(position("a", 8, None))),
            ("role:slave\nmaster_replid:a\nmaster_repl_offset:9", None),
            ("role:master\nmaster_repl_offset:9", None),
            ("master_replid:a\nmaster_repl_offset:9", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Position::of(&Info::parse(text)), expected, "{text}");
        }
    }
}
