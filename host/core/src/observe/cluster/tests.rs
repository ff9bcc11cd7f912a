//! Agreement and differences out of made-up CLUSTER NODES.

use std::time::Duration;

use vko_wit::observation::{ClusterFacts, Observed, Peer, Upstream};

use super::DIFFERENCES_MAX;
use crate::ledger::{Ledger, Member};
use crate::memory::Memory;
use crate::observe::testing::{node_id, node_ip, nodes_text, observe_cluster, observe_with};
use crate::world::ServerError;

fn facts(observed: &Observed, node: u32) -> &ClusterFacts {
    let uid = format!("uid-{node}");
    &observed.servers.iter().find(|server| server.pod == uid).unwrap().facts.as_ref().unwrap().cluster[0]
}

fn peer(observed: &Observed, node: u32) -> &Peer {
    observed.agreed_view.iter().find(|peer| peer.id == node_id(node)).unwrap()
}

/// How many differences each of the six has.
fn differences(observed: &Observed) -> Vec<u32> {
    (0..6).map(|node| facts(observed, node).differences).collect()
}

/// The line of a node in a text, changed.
fn edit(text: &str, node: u32, from: &str, to: &str) -> String {
    let edited = |line: &str| if line.starts_with(&node_id(node)) { line.replacen(from, to, 1) } else { line.to_owned() };
    text.lines().map(|line| edited(line) + "\n").collect()
}

#[test]
fn servers_that_believe_the_same_have_no_differences() {
    let observed = observe_cluster(3, 2, |_, text| Some(text));
    assert_eq!(differences(&observed), [0; 6]);
    assert_eq!(observed.agreed_view.len(), 6);
    for node in 0..6 {
        let peer = peer(&observed, node);
        assert_eq!(peer.pod, Upstream::Pod(format!("uid-{node}")));
        assert_eq!((peer.linked_by, peer.suspected_by, peer.slots.len()), (6, 0, usize::from(node < 3)));
        assert_eq!(peer.replica_of, if node < 3 { String::new() } else { node_id(node - 3) });
        assert_eq!((facts(&observed, node).id.as_str(), facts(&observed, node).state_ok), (node_id(node).as_str(), true));
    }
}

#[test]
fn most_servers_are_agreed_with_and_the_stale_one_differs() {
    // Node 4 has taken over from node 1, and node 5 hasn't heard of it.
    let switched = |text: &str| {
        let text = edit(text, 1, "master - 0 0 2 connected 5461-10922", &format!("slave {} 0 0 7 connected", node_id(4)));
        edit(&text, 4, &format!("slave {} 0 0 2 connected", node_id(1)), "master - 0 0 7 connected 5461-10922")
    };
    let observed = observe_cluster(3, 2, |node, text| Some(if node == 5 { text } else { switched(&text) }));
    assert_eq!(differences(&observed), [0, 0, 0, 0, 0, 2]);
    assert_eq!((peer(&observed, 1).slots.len(), peer(&observed, 4).slots.len()), (0, 1));
    let stale = &facts(&observed, 5).differs;
    assert_eq!(stale.iter().map(|b| (b.id.clone(), b.slots.len())).collect::<Vec<_>>(), [(node_id(1), 1), (node_id(4), 0)]);
}

#[test]
fn of_equally_many_the_higher_epoch_wins_and_two_owners_are_seen() {
    // Nodes 0 and 1 both claim slot 0; half of the servers believe either.
    let claims = |text: &str| edit(text, 1, "0 0 2 connected 5461", "0 0 8 connected 0 5461");
    let observed = observe_cluster(3, 2, |node, text| Some(if node % 2 == 1 { claims(&text) } else { text }));
    assert_eq!((peer(&observed, 1).config_epoch, peer(&observed, 1).slots[0].last), (8, 0));
    assert_eq!(peer(&observed, 0).slots[0].first, 0, "both claims are shown");
    assert_eq!(differences(&observed), [1, 0, 1, 0, 1, 0]);
}

#[test]
fn who_is_being_met_is_no_difference() {
    let ghost = format!("{} 10.9.9.9:6379@16379 handshake - 0 0 0 disconnected\n", node_id(99));
    let observed = observe_cluster(3, 2, |node, text| Some(if node == 0 { text + &ghost } else { text }));
    assert_eq!(differences(&observed), [0; 6]);
    let ghost = peer(&observed, 99);
    assert!(ghost.handshake && ghost.linked_by == 0);
    assert!(matches!(&ghost.pod, Upstream::Other(place) if place.host == "10.9.9.9"));
}

#[test]
fn whoever_knows_only_itself_differs_by_all_others() {
    let alone = |node: u32, text: String| {
        let own = |line: &&str| line.starts_with(&node_id(node));
        text.lines().filter(own).map(|line| format!("{line}\n")).collect::<String>()
    };
    let observed = observe_cluster(3, 2, |node, text| Some(if node == 3 { alone(node, text) } else { text }));
    assert_eq!(differences(&observed), [0, 0, 0, 5, 0, 0]);
    assert!(facts(&observed, 3).differs.iter().all(|belief| !belief.known));
    let none = observe_cluster(3, 2, |node, text| Some(alone(node, text)));
    assert_eq!((differences(&none), none.agreed_view.len()), (vec![5; 6], 6), "before the first meeting");
}

#[test]
fn addresses_are_no_identity() {
    // After a restart of all, each server is listed without an address, or under a former one; node 0's is node 1's now.
    type Says = fn(u32, String) -> Option<String>;
    let cases: [(&str, Says); 2] = [
        ("no address", |of, text| {
            let gone = |text: String, node| edit(&text, node, &format!("{}:6379@16379 ", node_ip(node)), ":0@0 noaddr,");
            Some((0..6).filter(|node| *node != of).fold(text, gone))
        }),
        ("another one", |of, text| Some(if of == 0 { text } else { edit(&text, 0, &node_ip(0), &node_ip(1)) })),
    ];
    for (case, says) in cases {
        let observed = observe_cluster(3, 2, says);
        for node in 0..6 {
            assert_eq!(peer(&observed, node).pod, Upstream::Pod(format!("uid-{node}")), "{case}");
        }
    }
    // A ghost at the address of a pod whose server has another id is not that pod.
    let ghost = format!("{} {}:6379@16379 master,fail - 0 0 1 disconnected\n", node_id(99), node_ip(2));
    let observed = observe_cluster(3, 2, |_, text| Some(text + &ghost));
    assert!(matches!(peer(&observed, 99).pod, Upstream::Other(_)));
}

#[test]
fn who_never_answered_is_known_by_the_ledger_or_by_its_address() {
    let member = Member { pod: "uid-5".into(), node_id: node_id(5), ..Member::default() };
    for ledger in [Ledger::default(), Ledger { members: vec![member], ..Ledger::default() }] {
        let observed = observe_with(3, 2, &ledger, |_| {}, |node, text| (node != 5).then_some(text));
        assert_eq!(peer(&observed, 5).pod, Upstream::Pod("uid-5".into()));
        assert_eq!((peer(&observed, 5).linked_by, differences_of_five(&observed)), (5, [0; 5]));
    }
}

fn differences_of_five(observed: &Observed) -> [u32; 5] {
    std::array::from_fn(|node| facts(observed, u32::try_from(node).unwrap()).differences)
}

#[test]
fn who_is_silent_has_no_say() {
    let silent = |memory: &Memory| {
        memory.note("uid-0", Duration::from_secs(99), Duration::from_secs(99), Err(ServerError::Silent(Duration::from_secs(2))));
    };
    let suspect = |node: u32, text: String| {
        Some(if node == 0 { text } else { edit(&text, 0, "master - 0 0 1 connected", "master,fail? - 0 0 1 disconnected") })
    };
    let observed = observe_with(3, 2, &Ledger::default(), silent, suspect);
    assert_eq!((peer(&observed, 0).linked_by, peer(&observed, 0).suspected_by), (0, 5));
    assert_eq!((facts(&observed, 1).differences, facts(&observed, 0).differences), (0, 1), "its last word was another");
}

#[test]
fn open_slots_are_shown_by_peer() {
    let open = format!(" [5->-{}] [6->-{}] [9-<-{}]", node_id(1), node_id(1), node_id(2));
    let observed = observe_cluster(3, 2, |node, text| {
        Some(if node == 0 { edit(&text, 0, " 0-5460", &format!(" 0-5460{open}")) } else { text })
    });
    let facts = facts(&observed, 0);
    assert_eq!((facts.migrating.len(), facts.migrating[0].slots[0].first, facts.migrating[0].slots[0].last), (1, 5, 6));
    assert_eq!((facts.importing.len(), facts.importing[0].peer.as_str()), (1, node_id(2).as_str()));
    assert_eq!(facts.differences, 0, "what is open is its own business");
}

#[test]
fn an_observation_grows_with_the_cluster_and_not_with_its_square() {
    let alone =
        |node: u32, _: String| nodes_text(32, 3, node).lines().find(|l| l.starts_with(&node_id(node))).map(|l| format!("{l}\n"));
    let observed = observe_cluster(32, 3, alone);
    assert_eq!(observed.agreed_view.len(), 96);
    for node in 0..96 {
        assert_eq!((facts(&observed, node).differs.len(), facts(&observed, node).differences), (DIFFERENCES_MAX, 95));
    }
}
