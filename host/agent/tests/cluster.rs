//! Nodes of real clusters: when they start, when they wait, and how they stop.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;

use rustix::process::Signal;
use support::cluster::{Cluster, nodes_conf};
use support::writer::hand_over_back_and_forth;
use support::{Client, LINES, Member, eventually, stderr};

/// How many of the keys a member has.
fn kept(member: &Member, keys: &[String]) -> usize {
    let mut client = member.client();
    let _ = client.call(&["READONLY"]);
    keys.iter().filter(|key| client.call(&["GET", key]).as_deref() == Ok("value")).count()
}

#[test]
fn an_empty_restart_is_overtaken_by_its_replica() {
    for line in LINES {
        let mut cluster = Cluster::start(line, "");
        let keys = cluster.fill();
        cluster.primaries[0].kill();
        // It asks and starts by itself; there is nobody else here who would.
        cluster.primaries[0].start_again();
        let (old, new) = (&cluster.primaries[0], &cluster.replicas[0]);
        assert!(old.log().contains("another node has taken over its slots"), "{line}: {}", old.log());
        assert_eq!(new.info("role"), "master", "{line}");
        cluster.wait_synced(new, old);
        assert_eq!((kept(old, &keys), kept(new, &keys)), (keys.len(), keys.len()), "{line}");
    }
}

#[test]
fn a_clean_restart_starts_at_once_as_the_primary() {
    for line in LINES {
        let mut cluster = Cluster::start(line, "save 3600 1\nshutdown-on-sigterm save\n");
        let keys = cluster.fill();
        cluster.primaries[0].signal(Signal::TERM);
        assert_eq!(cluster.primaries[0].ended(), Some(0), "{line}");
        cluster.primaries[0].start_again();
        let (primary, replica) = (&cluster.primaries[0], &cluster.replicas[0]);
        assert!(primary.log().contains("no replica has more data"), "{line}: {}", primary.log());
        assert_eq!(primary.info("role"), "master", "{line}");
        cluster.wait_synced(primary, replica);
        assert_eq!((kept(primary, &keys), kept(replica, &keys)), (keys.len(), keys.len()), "{line}");
    }
}

#[test]
fn an_older_snapshot_is_no_ground_to_start() {
    let mut cluster = Cluster::start("9.1", "");
    assert_eq!(cluster.primaries[0].client().text(&["SAVE"]), "OK");
    let keys = cluster.fill();
    cluster.primaries[0].kill();
    cluster.primaries[0].start_again();
    let (old, new) = (&cluster.primaries[0], &cluster.replicas[0]);
    assert_eq!(new.info("role"), "master");
    cluster.wait_synced(new, old);
    assert_eq!((kept(old, &keys), kept(new, &keys)), (keys.len(), keys.len()));
}

#[test]
fn a_log_of_every_write_is() {
    let mut cluster = Cluster::start("9.1", "appendonly yes\n");
    let keys = cluster.fill();
    cluster.primaries[0].kill();
    cluster.primaries[0].start_again();
    let primary = &cluster.primaries[0];
    assert_eq!(primary.info("role"), "master");
    cluster.wait_synced(primary, &cluster.replicas[0]);
    assert_eq!(kept(primary, &keys), keys.len());
}

/// Two of three primaries are dead, and the first is told to start again.
fn without_majority(line: &'static str) -> (Cluster, Vec<String>) {
    let mut cluster = Cluster::start(line, "");
    let keys = cluster.fill();
    cluster.primaries[0].kill();
    cluster.primaries[1].kill();
    cluster.primaries[0].start_again_held();
    (cluster, keys)
}

#[test]
fn without_a_majority_it_waits_for_a_takeover() {
    for line in LINES {
        let (cluster, keys) = without_majority(line);
        let (held, replica) = (&cluster.primaries[0], &cluster.replicas[0]);
        let reason = Client::plain(held.address()).unwrap().call(&["GET", "key:1"]).unwrap_err();
        assert!(
            reason.starts_with("HELD behind: a replica has data that this primary lacks, and only 1 of 3"),
            "{line}: {reason}"
        );
        assert!(held.probe("live").status.success(), "{line}");
        let ready = held.probe("ready");
        assert!(!ready.status.success() && stderr(&ready).contains("isn't started yet"), "{line}: {}", stderr(&ready));

        assert_eq!(replica.client().text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "OK");
        eventually("it starts as a replica", || Client::login(held.address()).is_ok() && held.info("role") == "slave");
        eventually("synced", || held.ready());
        assert_eq!((kept(held, &keys), kept(replica, &keys)), (keys.len(), keys.len()), "{line}");
    }
}

#[test]
fn a_copy_that_fell_silent_is_waited_for_until_it_shows_that_it_is_gone() {
    let (mut cluster, _) = without_majority("9.1");
    cluster.replicas[0].kill();
    let address = cluster.primaries[0].address();
    eventually("said", || Client::login(address).is_err_and(|error| error.contains("doesn't answer any more")));
    // It comes back without its data: now there is nothing to wait for.
    cluster.replicas[0].start_again();
    eventually("the server starts", || Client::login(address).is_ok());
    assert!(cluster.primaries[0].log().contains("no replica has more data"), "{}", cluster.primaries[0].log());
}

#[test]
fn a_held_start_ends_when_the_pod_stops() {
    let (mut cluster, _) = without_majority("9.1");
    let output = cluster.primaries[0].pre_stop("8000");
    assert!(output.status.success() && stderr(&output).contains("hadn't been started"), "{}", stderr(&output));
    assert_eq!(cluster.primaries[0].ended(), Some(0));
}

#[test]
fn nobody_who_answers_is_waited_for_two_node_timeouts() {
    let mut cluster = Cluster::start("9.1", "");
    cluster.primaries[0].kill();
    cluster.replicas[0].kill();
    cluster.primaries[0].append("conf/valkey.conf", "cluster-node-timeout 500\n");
    cluster.primaries[0].start_again();
    assert!(cluster.primaries[0].log().contains("no replica answered in time"), "{}", cluster.primaries[0].log());
    assert_eq!(cluster.primaries[0].info("role"), "master");
}

#[test]
fn a_broken_nodes_conf_stays_and_starts_nothing() {
    let member = Member::node("9.1", "");
    for content in ["aaaa 10.0.0.1:6379@16379 mys", "vars currentEpoch 0 lastVoteEpoch 0\n"] {
        member.write("data/nodes.conf", content);
        let output = member.serve(std::path::Path::new("/bin/cat")).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains("data/nodes.conf: ") && said.contains("delete this file"), "{said}");
        assert_eq!(nodes_conf(&member.folder), content);
    }
    fs::write(member.folder.join("data/nodes.conf"), "").unwrap();
    assert!(member.serve(std::path::Path::new("/bin/cat")).output().unwrap().status.success());
}

fn hand_over_under_writes(line: &'static str, times: usize) {
    let cluster = Cluster::start(line, "");
    let (primary, replica) = (&cluster.primaries[0], &cluster.replicas[0]);
    hand_over_back_and_forth(primary, replica, times, |new, old| cluster.wait_synced(new, old));
}

#[test]
fn hand_overs_under_writes_lose_nothing() {
    hand_over_under_writes("9.1", 5);
}

#[test]
fn a_hand_over_on_each_older_line() {
    for line in ["8.1", "7.2"] {
        hand_over_under_writes(line, 1);
    }
}

#[test]
fn whoever_takes_over_has_all_slots() {
    for line in LINES {
        let cluster = Cluster::start(line, "");
        let (primary, replica) = (&cluster.primaries[0], &cluster.replicas[0]);
        for member in cluster.members() {
            // Who has heard of it already refuses.
            let _ = member.client().call(&["CLUSTER", "DELSLOTS", "7"]);
        }
        // The others hear of it with the next pings; its replica with the one that tells it from which offset on writes are held
        // back, and it isn't elected before.
        assert_eq!(primary.client().text(&["CLUSTER", "ADDSLOTS", "7"]), "OK", "{line}");
        let output = primary.pre_stop("12000");
        let (owner, other) = if output.status.success() { (replica, primary) } else { (primary, replica) };
        let own = owner.client().text(&["CLUSTER", "NODES"]);
        let own = own.lines().find(|line| line.contains("myself")).unwrap();
        assert!(own.contains("master") && own.ends_with(" 0-16000"), "{line}: {own}: {}", stderr(&output));
        assert_eq!(other.info("role"), "slave", "{line}: {}", stderr(&output));
    }
}

#[test]
fn what_needs_no_hand_over() {
    let cluster = Cluster::start("9.1", "");
    let (primary, replica) = (&cluster.primaries[0], &cluster.replicas[0]);
    assert!(stderr(&replica.pre_stop("6000")).contains("no hand-over needed"));
    primary.write("conf/ending", "yes");
    assert!(stderr(&primary.pre_stop("6000")).contains("the instance is being deleted"));
    assert_eq!(primary.info("role"), "master");
}

#[test]
fn a_frozen_replica_leaves_the_primary_writable() {
    let cluster = Cluster::start("9.1", "");
    let (primary, replica) = (&cluster.primaries[0], &cluster.replicas[0]);
    replica.signal(Signal::STOP);
    let output = primary.pre_stop("8000");
    replica.signal(Signal::CONT);
    // It may have been asked before its silence showed; then it takes over when it wakes, and that is a hand-over as well.
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    eventually("writes are taken by one of the two", || {
        [primary, replica].iter().any(|member| member.client().call(&["SET", "number:{a}", "after"]).is_ok())
    });
}

#[test]
fn readiness_follows_the_cluster() {
    let member = Member::node("9.1", "").start();
    let output = member.probe("ready");
    assert!(!output.status.success() && stderr(&output).contains("cluster_state"), "{}", stderr(&output));
    assert!(member.probe("live").status.success());
    assert_eq!(member.client().text(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    eventually("ready", || member.ready());
}
