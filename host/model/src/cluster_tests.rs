//! Cases of what servers in cluster mode say.

use super::*;

fn id(letter: char) -> String {
    letter.to_string().repeat(40)
}

fn set(text: &str) -> SlotSet {
    text.parse().unwrap()
}

#[test]
fn info_of_a_cluster() {
    let text = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\ncluster_slots_pfail:1\r\n\
                cluster_slots_fail:0\r\ncluster_known_nodes:6\r\ncluster_size:3\r\ncluster_current_epoch:7\r\n\
                cluster_my_epoch:2\r\ncluster_stats_messages_sent:9\r\n";
    let expected = ClusterInfo {
        state_ok: Some(true),
        slots_assigned: Some(16_384),
        slots_suspected: Some(1),
        slots_failed: Some(0),
        known_nodes: Some(6),
        size: Some(3),
        current_epoch: Some(7),
        my_epoch: Some(2),
    };
    assert_eq!(ClusterInfo::parse(text), expected);
    let cases = [
        ("", ClusterInfo::default()),
        ("cluster_state:fail", ClusterInfo { state_ok: Some(false), ..ClusterInfo::default() }),
        ("cluster_state:", ClusterInfo::default()),
        ("cluster_size:many\ncluster_my_epoch:-1", ClusterInfo::default()),
    ];
    for (text, expected) in cases {
        assert_eq!(ClusterInfo::parse(text), expected, "{text:?}");
    }
}

/// A line with `myself` beside it, since an answer needs one.
fn parse_one(line: &str) -> Result<Node, ClusterError> {
    let own = format!("{} 10.0.0.9:6379@16379 myself,master - 0 0 0 connected", id('f'));
    let all = ClusterNodes::parse(&format!("{line}\n{own}\n"))?;
    Ok(all.nodes.into_iter().find(|node| !node.myself).unwrap())
}

#[test]
fn lines_of_nodes() {
    let plain = Node {
        id: id('a'),
        host: Some("10.0.0.1".into()),
        port: 6379,
        bus_port: 16379,
        role: Some(Role::Primary),
        config_epoch: 1,
        linked: true,
        ..Node::default()
    };
    let a = id('a');
    let cases = [
        (
            "a primary with slots",
            format!("{a} 10.0.0.1:6379@16379 master - 0 1764650000000 1 connected 0-5460 5462"),
            Node { slots: set("0-5460 5462"), ..plain.clone() },
        ),
        ("without slots", format!("{a} 10.0.0.1:6379@16379 master - 0 1764650000000 1 connected"), plain.clone()),
        (
            "a replica with a name",
            format!("{a} 10.0.0.1:6379@16379,one.example slave {} 0 1 1 connected", id('b')),
            Node { hostname: Some("one.example".into()), role: Some(Role::Replica), replica_of: Some(id('b')), ..plain.clone() },
        ),
        (
            "of nodes.conf",
            format!("{a} 10.0.0.1:6379@16379,,tls-port=0,shard-id={} master - 0 0 1 connected", id('5')),
            plain.clone(),
        ),
        (
            "IPv6",
            format!("{a} fd00::1:6379@16379 master - 0 1 1 connected"),
            Node { host: Some("fd00::1".into()), ..plain.clone() },
        ),
        (
            "suspected",
            format!("{a} 10.0.0.1:6379@16379 master,fail? - 1 1 1 disconnected"),
            Node { suspected: true, linked: false, ..plain.clone() },
        ),
        (
            "failed",
            format!("{a} 10.0.0.1:6379@16379 master,fail - 1 1 1 disconnected 7"),
            Node { failed: true, linked: false, slots: set("7"), ..plain.clone() },
        ),
        (
            "no address",
            format!("{a} :0@0 master,fail,noaddr - 1 1 1 disconnected"),
            Node { host: None, port: 0, bus_port: 0, failed: true, no_address: true, linked: false, ..plain.clone() },
        ),
        (
            "being met",
            format!("{a} 10.0.0.1:6379@16379 handshake - 1 0 0 disconnected"),
            Node { role: None, handshake: true, linked: false, config_epoch: 0, ..plain.clone() },
        ),
        ("flags of a later version", format!("{a} 10.0.0.1:6379@16379 master,nofailover,light - 0 1 1 connected"), plain.clone()),
    ];
    for (name, line, expected) in cases {
        assert_eq!(parse_one(&line), Ok(expected), "{name}");
    }
}

#[test]
fn addresses_are_known_or_not() {
    let cases = [
        ("10.0.0.1:6379@16379", Some("10.0.0.1:6379")),
        ("fd00::1:6379@16379", Some("[fd00::1]:6379")),
        (":6379@16379", None),
        (":0@0", None),
    ];
    for (place, expected) in cases {
        let node = parse_one(&format!("{} {place} master - 0 0 0 connected", id('a'))).unwrap();
        assert_eq!(node.address().map(|address| address.to_string()).as_deref(), expected, "{place}");
    }
}

#[test]
fn all_nodes_and_the_servers_own() {
    let (a, b, c) = (id('a'), id('b'), id('c'));
    let text = format!(
        "{c} 10.0.0.3:6379@16379 slave {a} 0 1 1 connected\n\
         {a} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-9 [7->-{b}] [8-<-{c}]\n\
         {b} 10.0.0.2:6379@16379 master - 0 1 2 connected 10-16383\n\
         vars currentEpoch 2 lastVoteEpoch 0\n"
    );
    let nodes = ClusterNodes::parse(&text).unwrap();
    assert_eq!(nodes.nodes.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), [&a, &b, &c]);
    let own = nodes.myself().unwrap();
    assert_eq!((&own.id, &own.slots), (&a, &set("0-9")));
    let open = [
        OpenSlot { slot: 7, direction: Direction::Migrating, peer: b.clone() },
        OpenSlot { slot: 8, direction: Direction::Importing, peer: c.clone() },
    ];
    assert_eq!(own.open, open);
    assert_eq!(nodes.get(&b).map(|node| &node.slots), Some(&set("10-16383")));
    assert_eq!(nodes.get(&id('d')), None);
    assert_eq!(nodes.replicas_of(&a).map(|node| node.id.as_str()).collect::<Vec<_>>(), [&c]);
    assert!(nodes.get(&b).is_some_and(Node::is_primary) && !nodes.get(&c).is_some_and(Node::is_primary));
}

#[test]
fn a_line_that_cannot_be_read_spoils_the_answer() {
    let a = id('a');
    let cases = [
        ("id", "abc 10.0.0.1:6379@16379 master - 0 0 0 connected".to_owned()),
        ("address", a.clone()),
        ("address", format!("{a} 10.0.0.1 master - 0 0 0 connected")),
        ("port", format!("{a} 10.0.0.1:x@16379 master - 0 0 0 connected")),
        ("bus port", format!("{a} 10.0.0.1:6379@99999 master - 0 0 0 connected")),
        ("id of the primary", format!("{a} 10.0.0.1:6379@16379 slave xyz 0 0 0 connected")),
        ("epoch", format!("{a} 10.0.0.1:6379@16379 master - 0 0 x connected")),
        ("link state", format!("{a} 10.0.0.1:6379@16379 master - 0 0 0")),
        ("link state", format!("{a} 10.0.0.1:6379@16379 master - 0 0 0 perhaps")),
        ("slot", format!("{a} 10.0.0.1:6379@16379 master - 0 0 0 connected 16384")),
        ("open slot", format!("{a} 10.0.0.1:6379@16379 master - 0 0 0 connected [7->-x]")),
        ("open slot", format!("{a} 10.0.0.1:6379@16379 master - 0 0 0 connected [7-9->-{a}]")),
    ];
    for (what, line) in cases {
        let expected = ClusterError::LineMalformed { line: 1, what, text: line.clone() };
        assert_eq!(parse_one(&line), Err(expected), "{line}");
    }
    let other = format!("{a} 10.0.0.1:6379@16379 master - 0 0 0 connected");
    let own = format!("{} 10.0.0.1:6379@16379 myself,master - 0 0 0 connected", id('b'));
    for text in [String::new(), "vars currentEpoch 0 lastVoteEpoch 0".to_owned(), other, format!("{own}\n{own}")] {
        assert_eq!(ClusterNodes::parse(&text), Err(ClusterError::MyselfMissing), "{text:?}");
    }
}
