#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn replica(host: &str, port: &str, link: &str, sync: &str) -> String {
    format!(
        "run_id:r1\r\nrole:slave\r\nmaster_host:{host}\r\nmaster_port:{port}\r\n\
         master_link_status:{link}\r\nmaster_sync_in_progress:{sync}\r\nloading:0\r\n"
    )
}

#[test]
fn readiness_through_a_life() {
    let up = replica("10.0.0.9", "6379", "up", "0");
    let syncing = replica("10.0.0.9", "6379", "down", "1");
    let down = replica("10.0.0.9", "6379", "down", "0");
    let early = replica("10.0.0.9", "6379", "up", "1");
    let nobody = replica("127.0.0.1", "1", "down", "0");
    let nobody6 = replica("::1", "1", "down", "0");
    let beside = replica("127.0.0.1", "6380", "up", "0");
    let strange = replica("10.0.0.9", "1", "up", "0");
    let loading = up.replace("loading:0", "loading:1");
    let primary = "run_id:r1\r\nrole:master\r\nloading:0\r\n";
    let loading_primary = "run_id:r1\r\nrole:master\r\nloading:1\r\n";

    let synced = Ok(Ready::Synced("r1"));
    let cases = [
        ("a primary", primary, None, Ok(Ready::Still)),
        ("a primary that loads", loading_primary, None, Err(NotReady::Loading)),
        ("a primary that loads, noted before", loading_primary, Some("r1"), Err(NotReady::Loading)),
        ("following nobody", nobody.as_str(), None, Err(NotReady::FollowsNobody)),
        ("following nobody, IPv6", nobody6.as_str(), None, Err(NotReady::FollowsNobody)),
        ("detached after a sync", nobody.as_str(), Some("r1"), Err(NotReady::FollowsNobody)),
        ("first sync", syncing.as_str(), None, Err(NotReady::NotSynced)),
        ("link up while it syncs", early.as_str(), None, Err(NotReady::NotSynced)),
        ("synced", up.as_str(), None, synced),
        ("synced, noted", up.as_str(), Some("r1"), Ok(Ready::Still)),
        ("synced, a note of an earlier process", up.as_str(), Some("r0"), Ok(Ready::Synced("r1"))),
        ("link lost after a sync", down.as_str(), Some("r1"), Ok(Ready::Still)),
        ("synced again after a lost link", syncing.as_str(), Some("r1"), Ok(Ready::Still)),
        ("restarted, its primary is gone", down.as_str(), Some("r0"), Err(NotReady::NotSynced)),
        ("loads what it got in a full sync", loading.as_str(), Some("r1"), Err(NotReady::Loading)),
        ("a primary on the same machine", beside.as_str(), None, Ok(Ready::Synced("r1"))),
        ("a primary that listens on port 1", strange.as_str(), None, Ok(Ready::Synced("r1"))),
    ];
    for (name, info, noted, expected) in cases {
        assert_eq!(decide(info, Mode::Data, noted), expected, "{name}");
    }
}

#[test]
fn readiness_in_a_cluster() {
    let primary = |state: &str| format!("run_id:r1\r\nrole:master\r\nloading:0\r\ncluster_state:{state}\r\n");
    let replica = |link: &str| format!("{}cluster_state:fail\r\n", replica("10.0.0.9", "6379", link, "0"));
    let cases = [
        ("a primary", primary("ok"), None, Ok(Ready::Still)),
        ("a primary without a majority or in a cluster with holes", primary("fail"), None, Err(NotReady::ClusterDown)),
        ("a primary that loads", primary("ok").replace("loading:0", "loading:1"), None, Err(NotReady::Loading)),
        ("a synced replica, whatever the cluster", replica("up"), None, Ok(Ready::Synced("r1"))),
        ("a replica that lost its primary", replica("down"), Some("r1"), Ok(Ready::Still)),
        ("a replica before its first sync", replica("down"), None, Err(NotReady::NotSynced)),
        ("no word of the cluster", "loading:0\r\nrole:master\r\n".to_owned(), None, Err(NotReady::FieldMissing("cluster_state"))),
    ];
    for (name, info, noted, expected) in cases {
        assert_eq!(decide(&info, Mode::Cluster, noted), expected, "{name}");
    }
}

#[test]
fn a_field_that_lacks_is_no_guess() {
    for (info, missing) in [
        ("", "loading"),
        ("loading:0\r\n", "role"),
        ("loading:0\r\nrole:slave\r\n", "master_host"),
        ("loading:0\r\nrole:slave\r\nmaster_host:10.0.0.9\r\nmaster_port:6379\r\n", "run_id"),
    ] {
        assert_eq!(decide(info, Mode::Data, None), Err(NotReady::FieldMissing(missing)));
    }
}

#[test]
fn a_note_is_whole_and_leaves_nothing_beside() {
    let folder = std::env::temp_dir().join(format!("agent-note-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    note(&folder, "r0").unwrap();
    note(&folder, "r1").unwrap();
    assert_eq!(files::text(&folder, NOTE).unwrap(), "r1");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(&folder).unwrap();
    assert!(note(&folder, "r1").is_err());
}
