//! Replication and hand-over with the rights of the accounts alone; the default user is off.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr};

use vko_core::command::{Command, Reply};
use vko_core::world::ServerError;
use vko_model::Line;
use vko_model::accounts::Account;
use vko_model::info::Role;
use vko_model::replication::{NotPromotable, Position, is_nobody, promotable};
use vko_valkey::Administration;

use crate::accounts::without;
use crate::support::{Server, call, code, eventually};

const PAIR: &str = "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n";

/// A primary that accepts replicas, and one that follows it.
fn pair(line: Line, conf: &str) -> (Server, Server) {
    let conf = format!("{PAIR}{conf}");
    let primary = Server::start(line, &conf);
    let replica = Server::start(line, &format!("{conf}replicaof 127.0.0.1 {}\n", primary.port));
    (primary, replica)
}

/// Two that follow nobody yet: what the primary's replication account may not do is to be missing from the first try.
fn apart(line: Line, conf: &str) -> (Server, Server) {
    let conf = format!("{PAIR}{conf}");
    (Server::start(line, &conf), Server::start(line, &conf))
}

fn state(primary: &Server, replica: &Server) -> Result<(), NotPromotable> {
    let line = primary.info().replicas.into_iter().find(|line| line.port == replica.port);
    promotable(&replica.info(), line.as_ref())
}

fn until_promotable(primary: &Server, replica: &Server) {
    eventually("the replica is promotable", || state(primary, replica) == Ok(()));
}

#[test]
fn two_rights_are_enough_for_a_replica_and_both_are_needed() {
    for line in Line::ALL {
        let (primary, replica) = pair(line, "");
        primary.run(&["SET", "k", "v"]);
        until_promotable(&primary, &replica);
        assert_eq!(primary.denied("replication"), ["ping"; 0], "{line}");
        let (position, other) = (Position::of(&primary.info()).unwrap(), Position::of(&replica.info()).unwrap());
        assert!(position.compare(&other).is_some(), "{line}: {position:?} {other:?}");
        let right = |right: &str| right.trim_start_matches('+').to_owned();
        for missing in ["+replconf", "+psync"] {
            let (primary, replica) = apart(line, "");
            without(&primary, Account::Replication, missing);
            replica.run(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
            eventually("the right is asked for", || primary.denied("replication").contains(&right(missing)));
            assert_ne!(state(&primary, &replica), Ok(()), "{line} without {missing}");
        }
    }
}

#[test]
fn dual_channel_replication_needs_its_right() {
    for line in [Line::V8_1, Line::V9_1] {
        let (primary, replica) = pair(line, "dual-channel-replication-enabled yes\n");
        until_promotable(&primary, &replica);
        let (primary, replica) = apart(line, "dual-channel-replication-enabled yes\n");
        without(&primary, Account::Replication, "+sync");
        replica.run(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
        eventually("the right is asked for", || primary.denied("replication").contains(&"sync".to_owned()));
        assert_ne!(state(&primary, &replica), Ok(()), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_hands_the_role_over() {
    for line in Line::ALL {
        let (primary, replica) = pair(line, "");
        until_promotable(&primary, &replica);
        let servers = Administration::new();
        let to = Command::FailoverTo { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: replica.port, timeout_ms: 60_000 };
        assert_eq!(call(&servers, &primary.target("operator"), to).await, Ok(Reply::Done), "{line}");
        eventually("the roles are changed", || {
            replica.info().role == Some(Role::Primary) && primary.info().role == Some(Role::Replica)
        });
        until_promotable(&replica, &primary);
        assert_eq!(primary.info().primary().map(|to| to.port), Some(replica.port), "{line}");
        assert_eq!(primary.info().replid, replica.info().replid, "{line}");
        assert!(replica.info().partial_syncs > Some(0), "{line}: the old primary needs no full resync\n{}", replica.log());
    }
}

#[test]
fn the_hook_hands_the_role_over() {
    for line in Line::ALL {
        let (primary, replica) = pair(line, "");
        until_promotable(&primary, &replica);
        let mut hook = primary.plain(Some("hook"));
        assert_eq!(
            code(&mut hook, &["FAILOVER", "TO", "127.0.0.1", &replica.port.to_string(), "TIMEOUT", "60000"]),
            "OK",
            "{line}"
        );
        eventually("the roles are changed", || {
            replica.info().role == Some(Role::Primary) && primary.info().role == Some(Role::Replica)
        });
        assert_eq!(code(&mut replica.plain(Some("hook")), &["ROLE"]), "OK", "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_follows_nobody_is_a_replica_that_refuses_writes_and_is_not_promotable() {
    for line in Line::ALL {
        let (primary, replica) = pair(line, "");
        until_promotable(&primary, &replica);
        let servers = Administration::new();
        let nobody = Command::ReplicaOfNobody { loopback: IpAddr::V4(Ipv4Addr::LOCALHOST) };
        assert_eq!(call(&servers, &replica.target("operator"), nobody).await, Ok(Reply::Done), "{line}");
        let info = replica.info();
        assert!(is_nobody(&info.primary().unwrap()), "{line}");
        assert_eq!(promotable(&info, None), Err(NotPromotable::FollowsNobody), "{line}");
        assert_eq!(code(&mut replica.plain(Some("tester")), &["SET", "k", "v"]), "READONLY", "{line}");
        let to = Command::FailoverTo { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: replica.port, timeout_ms: 1000 };
        eventually("the primary has noticed", || primary.info().replicas.is_empty());
        let refused = call(&servers, &primary.target("operator"), to).await;
        assert!(matches!(&refused, Err(ServerError::Refused { code, .. }) if code == "ERR"), "{line}: {refused:?}");
    }
}

#[test]
fn a_promoted_replica_goes_on_with_the_history_and_a_primary_that_writes_on_parts_from_it() {
    for line in Line::ALL {
        let (primary, replica) = pair(line, "");
        primary.run(&["SET", "k", "v"]);
        until_promotable(&primary, &replica);
        let before = Position::of(&replica.info()).unwrap();
        replica.run(&["REPLICAOF", "NO", "ONE"]);
        replica.run(&["SET", "here", "v"]);
        let after = Position::of(&replica.info()).unwrap();
        assert!(matches!(after.compare(&before), Some(Ordering::Greater | Ordering::Equal)), "{line}: {after:?} {before:?}");
        eventually("the old primary has gone on", || {
            primary.run(&["SET", "there", "v"]);
            Position::of(&primary.info()).unwrap().compare(&Position::of(&replica.info()).unwrap()).is_none()
        });
    }
}

/// By it a replica that was cut off long before its primary died is told from one that streamed to the end, detached or not.
#[test]
fn how_long_a_link_has_been_down_counts_on_when_the_replica_is_detached() {
    for line in Line::ALL {
        let (primary, replica) = pair(line, "");
        until_promotable(&primary, &replica);
        assert_eq!(replica.info().link_down_seconds, None, "{line}: it is up");
        drop(primary);
        eventually("the link has been down for a second", || replica.info().link_down_seconds >= Some(1));
        for port in ["1", "2"] {
            replica.run(&["REPLICAOF", "127.0.0.1", port]);
            assert!(replica.info().link_down_seconds >= Some(1), "{line}: it doesn't begin anew with another upstream");
        }
        let fresh = Server::start(line, "replicaof 127.0.0.1 1\n");
        assert_eq!(
            (fresh.info().role, fresh.info().link_down_seconds),
            (Some(Role::Replica), None),
            "{line}: it never was up in this run"
        );
    }
}
