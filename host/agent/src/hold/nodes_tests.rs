#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

const FILE: &str = "\
aaaa 10.0.0.1:6379@16379,,tls-port=0,shard-id=5555 myself,master - 0 0 3 connected 0-5460 7000 [93->-bbbb]\n\
bbbb fd00::2:6379@16379,host.example,shard-id=6666 master,fail? - 0 1764 2 connected 5461-6999 7001-16383\n\
cccc 10.0.0.3:6379@16379 slave aaaa 0 1764 3 disconnected\n\
dddd :0@0 slave,fail,noaddr aaaa 0 1764 3 disconnected\n\
vars currentEpoch 3 lastVoteEpoch 2\n";

#[test]
fn a_view_is_read_as_far_as_needed() {
    let nodes = Nodes::parse(FILE).unwrap();
    assert_eq!(nodes.myself().id, "aaaa");
    assert_eq!(nodes.myself().slots, [(0, 5460), (7000, 7000)]);
    assert_eq!(nodes.myself().shard.as_deref(), Some("5555"));
    assert_eq!(nodes.voters().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["aaaa", "bbbb"]);
    let replicas: Vec<_> = nodes.replicas_of("aaaa").map(|node| (node.id.as_str(), node.address)).collect();
    assert_eq!(replicas, [("cccc", "10.0.0.3:6379".parse().ok()), ("dddd", None)]);
    assert_eq!(nodes.all[1].address, "[fd00::2]:6379".parse().ok());
}

#[test]
fn what_is_no_view_is_refused() {
    let cases = [
        ("", Err(NodesError::MyselfMissing)),
        ("vars currentEpoch 0 lastVoteEpoch 0\n", Err(NodesError::MyselfMissing)),
        ("aaaa 10.0.0.1:6379@16379 master - 0 0 3 connected\n", Err(NodesError::MyselfMissing)),
        ("\naaaa 10.0.0.1:6379@16379 mys", Err(NodesError::LineMalformed(2))),
        ("aaaa :0@0 myself,master - 0 0 0 connected 16384\n", Err(NodesError::LineMalformed(1))),
        ("aaaa :0@0 myself,master - 0 0 0 connected 9-5\n", Err(NodesError::LineMalformed(1))),
        ("aaaa :0@0 myself,master - 0 0 0 connected\n", Ok(())),
    ];
    for (text, expected) in cases {
        assert_eq!(Nodes::parse(text).map(|_| ()), expected, "{text}");
    }
}

#[test]
fn slots_are_covered_only_by_all_of_them() {
    let nodes = Nodes::parse(FILE).unwrap();
    for (slots, expected) in
        [(vec![], true), (vec![(5461, 6999)], true), (vec![(5461, 7000)], false), (vec![(7001, 9000), (16383, 16383)], true)]
    {
        assert_eq!(covered(&slots, nodes.all[1..].iter()), expected, "{slots:?}");
    }
}

#[test]
fn a_replica_in_another_shard_than_its_primary_is_seen() {
    let file = |shard: &str| {
        format!(
            "aaaa 10.0.0.1:1@2,,shard-id=5555 myself,master - 0 0 3 connected\n\
             cccc 10.0.0.3:1@2{shard} slave aaaa 0 0 3 connected\n"
        )
    };
    for (shard, expected) in [(",,shard-id=6666", Some("cccc")), (",,shard-id=5555", None), ("", None)] {
        let nodes = Nodes::parse(&file(shard)).unwrap();
        assert_eq!(nodes.two_shards().map(|node| node.id.as_str()), expected, "{shard}");
    }
}
