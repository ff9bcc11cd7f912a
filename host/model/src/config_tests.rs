//! Cases of the rendered configuration.

use super::*;

fn conf(settings: &BTreeMap<String, String>) -> ServerConf<'_> {
    ServerConf { role: ServerRole::Replica, line: Line::V8_1, on_claim: true, memory_limit: Some(1 << 30), settings }
}

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn on_a_claim() {
    let expected = "appendfsync everysec\nappendonly yes\nmaxmemory 751619276\nmin-replicas-max-lag 5\nprotected-mode no\n\
                    repl-backlog-size 10737418\nrepl-diskless-sync yes\nrepl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n\
                    replica-read-only yes\nsave \"\"\ntcp-keepalive 5\n";
    assert_eq!(server_conf(&conf(&BTreeMap::new())).unwrap(), expected);
}

#[test]
fn without_a_claim_and_without_a_limit() {
    let none = BTreeMap::new();
    let conf = ServerConf { role: ServerRole::Replica, line: Line::V8_1, on_claim: false, memory_limit: None, settings: &none };
    let expected = "appendonly no\nmin-replicas-max-lag 5\nprotected-mode no\nrepl-diskless-sync yes\nrepl-diskless-sync-delay 0\n\
                    repl-ping-replica-period 1\nreplica-read-only yes\nsave \"3600 1 300 100 60 10000\"\ntcp-keepalive 5\n";
    assert_eq!(server_conf(&conf).unwrap(), expected);
}

#[test]
fn of_a_cluster() {
    let none = BTreeMap::new();
    let of = |role, line| ServerConf { role, line, ..conf(&none) };
    let plain = directives(&of(ServerRole::Replica, Line::V9_1)).unwrap();
    assert_eq!(directives(&of(ServerRole::Failover, Line::V9_1)).unwrap(), plain);
    for line in Line::ALL {
        let mut all = directives(&of(ServerRole::Cluster, line)).unwrap();
        all.retain(|name, _| !plain.contains_key(name));
        let mut expected = settings(&[
            ("cluster-allow-replica-migration", "no"),
            ("cluster-config-file", "nodes.conf"),
            ("cluster-enabled", "yes"),
            ("cluster-node-timeout", "5000"),
            ("cluster-port", "16379"),
        ]);
        if line == Line::V9_1 {
            expected.insert("shutdown-on-sigterm".into(), "failover".into());
        }
        assert_eq!(all, expected, "{line}");
    }
    let patient = settings(&[("cluster-node-timeout", "15000")]);
    let patient = ServerConf { role: ServerRole::Cluster, ..conf(&patient) };
    assert_eq!(directives(&patient).unwrap().get("cluster-node-timeout").map(String::as_str), Some("15000"));
}

#[test]
fn of_a_sentinel() {
    let text = sentinel_conf(&settings(&[("loglevel", "verbose")])).unwrap();
    assert_eq!(text, "loglevel verbose\nprotected-mode no\ntcp-keepalive 5\n");
    for (name, value) in
        [("sentinel", "monitor x 10.0.0.1 6379 1"), ("dir", "/"), ("user", "x on nopass"), ("protected-mode", "yes")]
    {
        assert_eq!(sentinel_conf(&settings(&[(name, value)])).unwrap_err().reason(), "DirectiveOwned", "{name}");
    }
}

#[test]
fn settings_win_over_defaults() {
    let wanted = settings(&[("appendonly", "no"), ("maxmemory-policy", "noeviction"), ("save", "900 1"), ("timeout", "30")]);
    let all = directives(&conf(&wanted)).unwrap();
    let cases = [("appendonly", "no"), ("save", "900 1"), ("timeout", "30"), ("maxmemory", "858993459"), ("tcp-keepalive", "5")];
    for (name, value) in cases {
        assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn settings_that_are_not_for_specs_are_refused_with_the_reason() {
    let cases = [
        ("bind", "0.0.0.0", "directive 'bind' can't be set: the pod's address is known at its start only; remove it"),
        ("masterauth", "x", "directive 'masterauth' can't be set: the replication account is the operator's; remove it"),
        ("Bind", "0.0.0.0", "\"Bind\" is no name of a directive: lower-case letters, digits and '-' are"),
        ("", "x", "\"\" is no name of a directive: lower-case letters, digits and '-' are"),
        ("save 1 1\nuser", "x", "\"save 1 1\\nuser\" is no name of a directive: lower-case letters, digits and '-' are"),
        ("timeout", "1\nuser x on nopass", "the value of directive 'timeout' has a line break or a control character; remove it"),
    ];
    for (name, value, message) in cases {
        let wanted = settings(&[(name, value)]);
        assert_eq!(server_conf(&conf(&wanted)).unwrap_err().to_string(), message, "{name:?}");
    }
    for (name, _, _) in [HOST_SET, CLUSTER_SET, SENTINEL_SET].into_iter().flatten() {
        let wanted = settings(&[(name, "1")]);
        assert_eq!(server_conf(&conf(&wanted)).unwrap_err().reason(), "DirectiveOwned", "{name}");
    }
}

#[test]
fn tables_are_sorted_and_say_why() {
    assert!(HOST_OWNED.is_sorted() && HOST_OWNED.iter().all(|(_, why)| !why.is_empty()));
    for set in [HOST_SET, CLUSTER_SET, SENTINEL_SET] {
        assert!(set.is_sorted() && set.iter().all(|(_, _, why)| !why.is_empty()));
    }
    let port = CLUSTER_SET.iter().find(|(name, _, _)| *name == "cluster-port").map(|(_, value, _)| value.parse());
    assert_eq!(port, Some(Ok(crate::cluster::BUS_PORT)));
    let lag = HOST_SET.iter().find(|(name, _, _)| *name == "min-replicas-max-lag").map(|(_, value, _)| value.parse());
    assert_eq!(lag, Some(Ok(FENCE_MAX_LAG_S)));
}

#[test]
fn memory_of_a_limit() {
    let gib = 1_u64 << 30;
    let cases = [
        (0, None, 0),
        (9, None, 6),
        (10, None, 7),
        (10, Some("noeviction"), 8),
        (gib, None, 751_619_276),
        (gib, Some("noeviction"), 858_993_459),
        (gib, Some("allkeys-lru"), 751_619_276),
        (u64::MAX, None, 12_912_720_851_596_686_130),
    ];
    for (limit, policy, expected) in cases {
        assert_eq!(max_memory(limit, policy), expected, "{limit} {policy:?}");
    }
}

#[test]
fn backlog_of_a_limit() {
    let mib = 1_u64 << 20;
    for (limit, expected) in [(0, mib), (64 * mib, mib), (200 * mib, 2 * mib), (100 << 30, 256 * mib), (u64::MAX, 256 * mib)] {
        assert_eq!(backlog_size(limit), expected, "{limit}");
    }
}

#[test]
fn quoting() {
    let cases = [
        ("", "\"\""),
        ("yes", "yes"),
        ("/data", "/data"),
        ("fd00::1", "fd00::1"),
        ("3600 1", "\"3600 1\""),
        ("#comment", "\"#comment\""),
        ("it's", "\"it's\""),
        ("say \"hi\"", "\"say \\\"hi\\\"\""),
        ("back\\slash", "\"back\\\\slash\""),
        ("a\nb\r\tc", "\"a\\nb\\r\\tc\""),
        ("\u{0}\u{7f}", "\"\\x00\\x7f\""),
        ("grün", "\"grün\""),
    ];
    for (value, expected) in cases {
        assert_eq!(quote(value), expected, "{value:?}");
    }
}
