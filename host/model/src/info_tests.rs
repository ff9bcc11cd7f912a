//! Cases of INFO: replies as servers give them, and rubbish.

use super::*;

const PRIMARY: &str = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrun_id:0a1b\r\nuptime_in_seconds:71\r\n\r\n\
# Clients\r\nconnected_clients:3\r\npaused_reason:client_pause\r\npaused_actions:write\r\n\r\n\
# Memory\r\nused_memory:1048576\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\n\
# Persistence\r\nloading:0\r\nrdb_changes_since_last_save:7\r\nrdb_bgsave_in_progress:1\r\nrdb_last_save_time:1796168232\r\n\
rdb_last_bgsave_status:err\r\nrdb_last_load_keys_loaded:12\r\naof_enabled:1\r\naof_last_write_status:ok\r\n\r\n\
# Stats\r\ntotal_connections_received:9\r\nsync_full:1\r\nsync_partial_ok:2\r\nevicted_keys:0\r\n\r\n\
# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmin_slaves_good_slaves:2\r\n\
slave0:ip=fd00:213::12,port=6379,state=online,offset=2964,lag=1,type=replica\r\n\
slave1:ip=fd00:213::11,port=6379,state=wait_bgsave,offset=0,lag=0,type=replica\r\n\
master_failover_state:no-failover\r\nmaster_replid:8c5ce7\r\nmaster_replid2:0000000000000000000000000000000000000000\r\n\
master_repl_offset:2964\r\nsecond_repl_offset:-1\r\n\r\n\
# Keyspace\r\ndb0:keys=40,expires=1,avg_ttl=5\r\ndb3:keys=2,expires=0,avg_ttl=0\r\n";

const REPLICA: &str = "# Replication\r\nrole:slave\r\nmaster_host:fd00::9\r\nmaster_port:6379\r\nmaster_link_status:up\r\n\
master_last_io_seconds_ago:0\r\nmaster_sync_in_progress:0\r\nslave_read_repl_offset:31\r\nslave_repl_offset:30\r\n\
slave_priority:100\r\nslave_read_only:1\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:aa\r\n\
master_replid2:bb\r\nmaster_repl_offset:30\r\nsecond_repl_offset:21\r\n";

#[test]
fn a_primary() {
    let attached = |ip: &str, state, offset, lag| AttachedReplica {
        ip: ip.to_owned(),
        port: 6379,
        state,
        offset: Some(offset),
        lag_seconds: Some(lag),
    };
    let expected = Info {
        run_id: Some("0a1b".to_owned()),
        version: Some(Version::new(9, 1, 2)),
        valkey_version: Some(Version::new(9, 1, 2)),
        redis_version: Some(Version::new(7, 2, 4)),
        uptime_seconds: Some(71),
        connected_clients: Some(3),
        total_connections: Some(9),
        writes_paused: Some(true),
        used_memory: Some(1_048_576),
        max_memory: Some(0),
        max_memory_policy: Some("noeviction".to_owned()),
        evicted_keys: Some(0),
        keys: Some(42),
        loading: Some(false),
        saving: Some(true),
        last_save_seconds: Some(1_796_168_232),
        last_save_ok: Some(false),
        unsaved_changes: Some(7),
        keys_loaded: Some(12),
        aof_enabled: Some(true),
        aof_write_ok: Some(true),
        role: Some(Role::Primary),
        replid: Some("8c5ce7".to_owned()),
        primary_offset: Some(2964),
        second_replid: Some(String::new()),
        failover_state: Some("no-failover".to_owned()),
        good_replicas: Some(2),
        replicas_count: Some(2),
        replicas: vec![
            attached("fd00:213::11", ReplicaState::WaitingForSave, 0, 0),
            attached("fd00:213::12", ReplicaState::Online, 2964, 1),
        ],
        full_syncs: Some(1),
        partial_syncs: Some(2),
        ..Info::default()
    };
    assert_eq!(Info::parse(PRIMARY), expected);
}

#[test]
fn a_replica() {
    let expected = Info {
        role: Some(Role::Replica),
        replid: Some("aa".to_owned()),
        primary_offset: Some(30),
        second_replid: Some("bb".to_owned()),
        second_offset: Some(21),
        failover_state: Some("no-failover".to_owned()),
        replicas_count: Some(0),
        primary_host: Some("fd00::9".to_owned()),
        primary_port: Some(6379),
        link_up: Some(true),
        sync_in_progress: Some(false),
        last_io_seconds: Some(0),
        replica_offset: Some(30),
        replica_priority: Some(100),
        read_only: Some(true),
        ..Info::default()
    };
    let info = Info::parse(REPLICA);
    assert_eq!(info, expected);
    assert_eq!(info.primary(), Some("[fd00::9]:6379".parse().unwrap()));
}

#[test]
fn unreadable_replica_lines_are_left_out() {
    let lines = [
        "slave0:ip=10.0.0.1,port=no,state=online,offset=1,lag=0",
        "slave0:ip=,port=1,state=online,offset=1,lag=0",
        "slave0:ip=10.0.0.1,port=1,offset=1,lag=0",
        "slave0:",
        "slave0:garbage,,=,==",
        "slave:ip=10.0.0.1,port=1,state=online,offset=1,lag=0",
    ];
    for line in lines {
        let info = Info::parse(&format!("connected_slaves:1\r\n{line}\r\n"));
        assert_eq!((info.replicas_count, info.replicas), (Some(1), vec![]), "{line}");
    }
    let states = [("send_bulk", ReplicaState::Sending), ("bg_transfer", ReplicaState::Other), ("", ReplicaState::Other)];
    for (word, state) in states {
        let info = Info::parse(&format!("slave7:ip=name.local,port=1,state={word},offset=x\r\n"));
        let expected = AttachedReplica { ip: "name.local".to_owned(), port: 1, state, offset: None, lag_seconds: None };
        assert_eq!(info.replicas, vec![expected], "{word}");
    }
}

#[test]
fn what_is_missing_or_of_another_type_is_unknown() {
    let empty = Info::default();
    let cases = [
        "",
        "\r\n\r\n",
        "rubbish",
        ":::",
        "# Replication",
        "run_id:",
        "role:sentinel",
        "loading:2",
        "loading:",
        "uptime_in_seconds:-1",
        "uptime_in_seconds:99999999999999999999999999",
        "used_memory:1.5",
        "master_repl_offset:12x",
        "master_host:",
        "master_port:70000",
        "master_last_io_seconds_ago:-1",
        "second_repl_offset:-1",
        "valkey_version:nine",
        "paused_actions:",
        "connected_slaves:many",
        "dbs:keys=1",
        "db0:expires=1",
        "db0:keys=99999999999999999999",
        "loading_loaded_perc:.5",
        "\u{0}\u{1}\u{fffd}",
    ];
    for text in cases {
        assert_eq!(Info::parse(text), empty, "{text:?}");
    }
}

#[test]
fn every_prefix_of_a_reply_is_read_without_a_panic() {
    for text in [PRIMARY, REPLICA] {
        for end in 0..text.len() {
            let info = Info::parse(&text[..end]);
            assert!(info.replicas.len() <= 2, "cut at {end}");
        }
    }
}

#[test]
fn line_ends_do_not_matter() {
    assert_eq!(Info::parse(PRIMARY), Info::parse(&PRIMARY.replace("\r\n", "\n")));
}

#[test]
fn an_empty_data_set_is_no_unknown_one() {
    let cases = [
        ("# Keyspace\r\n", Some(0)),
        ("# Replication\r\n", None),
        ("db0:keys=1,expires=0\r\n", Some(1)),
        ("db0:keys=18446744073709551615\r\ndb1:keys=5\r\n", Some(u64::MAX)),
        ("# Keyspace\r\ndb0:keys=x\r\n", None),
    ];
    for (text, expected) in cases {
        assert_eq!(Info::parse(text).keys, expected, "{text:?}");
    }
}

#[test]
fn loading_shows_its_progress() {
    let cases = [("12.34", Some(12)), ("0.00", Some(0)), ("100.00", Some(100)), ("250", Some(100)), ("-1", None), ("nan", None)];
    for (text, expected) in cases {
        let info = Info::parse(&format!("loading:1\r\nloading_loaded_perc:{text}\r\n"));
        assert_eq!((info.loading, info.loading_percent), (Some(true), expected), "{text}");
    }
}

#[test]
fn paused_writes() {
    let cases = [
        ("none", Some(false)),
        ("write", Some(true)),
        ("all", Some(true)),
        ("expire,evict", Some(false)),
        ("expire,write", Some(true)),
    ];
    for (actions, expected) in cases {
        assert_eq!(Info::parse(&format!("paused_actions:{actions}\r\n")).writes_paused, expected, "{actions}");
    }
}

#[test]
fn line_of_a_server() {
    let unsupported = |asked: &str, remedy| Some(Err(VersionError::LineUnsupported { asked: asked.to_owned(), remedy }));
    let cases = [
        ("redis_version:7.2.4\nvalkey_version:8.1.1", Some(Ok(Line::V8_1))),
        ("redis_version:7.2.4\nvalkey_version:7.2.11", Some(Ok(Line::V7_2))),
        ("redis_version:7.2.4", Some(Ok(Line::V7_2))),
        ("redis_version:7.0.15", Some(Ok(Line::V7_2))),
        ("redis_version:7.2.4\nvalkey_version:8.0.2", unsupported("8.0.2", "use 8.1")),
        ("redis_version:8.2.0", unsupported("Redis 8.2.0", "use an image of Valkey")),
        ("redis_version:7.2.4\nvalkey_version:12.0.0", unsupported("12.0.0", "use 9.1")),
        ("role:master", None),
    ];
    for (text, expected) in cases {
        assert_eq!(Info::parse(text).line(), expected, "{text}");
    }
}

#[test]
fn how_long_a_link_has_been_down() {
    let down = |text: &str| Info::parse(text).link_down_seconds;
    let broken = "# Replication\r\nrole:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:";
    assert_eq!(down(&format!("{broken}3600\r\n")), Some(3600));
    assert_eq!(down(&format!("{broken}-1\r\n")), None, "it never was up");
    assert_eq!(down(REPLICA), None, "it is up");
}

#[test]
fn what_cannot_be_written_by_table() {
    for (enabled, written, saved, expected) in [
        ("1", "ok", "ok", None),
        ("1", "err", "ok", Some(DiskFile::AppendOnlyFile)),
        ("1", "ok", "err", None),
        ("0", "ok", "err", Some(DiskFile::Snapshot)),
        ("0", "err", "ok", None),
    ] {
        let text = format!("aof_enabled:{enabled}\r\naof_last_write_status:{written}\r\nrdb_last_bgsave_status:{saved}\r\n");
        assert_eq!(Info::parse(&text).cannot_write(), expected, "{text}");
    }
    assert_eq!(Info::parse("").cannot_write(), None, "what isn't said is no fault");
}
