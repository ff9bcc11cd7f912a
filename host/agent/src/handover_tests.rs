#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 6379))
}

fn replica(last: u8, offset: u64) -> Attached {
    Attached { address: Some(at(last)), online: true, offset, lag_seconds: 0 }
}

fn primary(replicas: Vec<Attached>) -> View {
    View { role: Role::Primary, failover: false, replicas }
}

/// The next step of a primary that was looked at once, after these were asked.
fn after(replicas: Vec<Attached>, tried: &[SocketAddr]) -> Next {
    let view = primary(replicas);
    let mut memory = Memory { tried: tried.to_vec(), ..Memory::default() };
    memory.note(&view);
    next(&view, &memory)
}

#[test]
fn whom_to_ask() {
    let offline = Attached { online: false, ..replica(3, 900) };
    let lagging = Attached { lag_seconds: 2, ..replica(4, 900) };
    let never = replica(5, 0);
    let nameless = Attached { address: None, ..replica(6, 900) };
    let a_second = Attached { lag_seconds: 1, ..replica(7, 50) };
    let unable = vec![offline, lagging, never.clone(), nameless.clone()];
    let one_able = [unable.clone(), vec![replica(1, 1)]].concat();
    let cases = [
        ("no replica", vec![], vec![], Next::Done(Outcome::NobodyToTakeOver(0))),
        ("the only one", vec![replica(1, 5)], vec![], Next::HandOver(at(1))),
        ("the furthest", vec![replica(1, 5), replica(2, 7), replica(3, 6)], vec![], Next::HandOver(at(2))),
        ("of equals the first address", vec![replica(2, 5), replica(1, 5)], vec![], Next::HandOver(at(1))),
        ("not the offline, lagging, never synced or nameless", one_able, vec![], Next::HandOver(at(1))),
        ("a lag of one second is usual", vec![a_second], vec![], Next::HandOver(at(7))),
        ("none is able yet", unable, vec![], Next::WaitForReplica),
        ("one that announces a name", vec![nameless], vec![], Next::WaitForReplica),
        ("the next one", vec![replica(1, 5), replica(2, 7)], vec![at(2)], Next::HandOver(at(1))),
        ("the other isn't able yet", vec![replica(1, 5), never], vec![at(1)], Next::WaitForReplica),
        ("all were asked", vec![replica(1, 5)], vec![at(1)], Next::Exhausted),
        ("all were asked and are gone", vec![], vec![at(1)], Next::Exhausted),
    ];
    for (name, replicas, tried, expected) in cases {
        assert_eq!(after(replicas, &tried), expected, "{name}");
    }
}

#[test]
fn an_attempt_that_cut_off_the_others_is_no_end() {
    let mut memory = Memory::default();
    memory.note(&primary(vec![replica(1, 7), replica(2, 5)]));
    memory.tried.push(at(1));
    assert_eq!(next(&primary(vec![]), &memory), Next::WaitForReplica);
    assert_eq!(next(&primary(vec![replica(2, 5)]), &memory), Next::HandOver(at(2)));
}

#[test]
fn a_replica_has_nothing_to_hand_over() {
    let view = View { role: Role::Replica(Some(at(1))), failover: false, replicas: vec![replica(2, 5)] };
    assert_eq!(next(&view, &Memory::default()), Next::Done(Outcome::NotPrimary));
}

#[test]
fn a_running_failover_is_waited_for_in_both_its_roles() {
    for role in [Role::Primary, Role::Replica(Some(at(1)))] {
        let view = View { role, failover: true, replicas: vec![replica(1, 5)] };
        assert_eq!(next(&view, &Memory::default()), Next::WaitForFailover);
    }
}

#[test]
fn progress_of_a_failover() {
    let view = |role, failover| View { role, failover, replicas: vec![] };
    let cases = [
        ("waits for the replica", view(Role::Primary, true), Progress::Runs),
        ("reports the new role, and nobody took over", view(Role::Replica(Some(at(1))), true), Progress::Runs),
        ("gave up by its own timeout", view(Role::Primary, false), Progress::GivenUp),
        ("follows", view(Role::Replica(Some(at(1))), false), Progress::Follows),
        ("follows another", view(Role::Replica(Some(at(2))), false), Progress::Elsewhere),
        ("follows a name", view(Role::Replica(None), false), Progress::Elsewhere),
    ];
    for (name, view, expected) in cases {
        assert_eq!(progress(&view, at(1)), expected, "{name}");
    }
}

#[test]
fn info_of_each_line() {
    let info = "role:master\r\nconnected_slaves:1\r\nslave0:ip=10.0.0.1,port=6379,state=online,offset=5,lag=0\r\n\
                master_failover_state:waiting-for-sync\r\n";
    assert_eq!(view(info), Some(View { role: Role::Primary, failover: true, replicas: vec![replica(1, 5)] }));
    let info = "role:slave\r\nmaster_host:fd00::1\r\nmaster_port:6379\r\nmaster_failover_state:no-failover\r\n";
    let followed = Role::Replica("[fd00::1]:6379".parse().ok());
    assert_eq!(view(info), Some(View { role: followed, failover: false, replicas: vec![] }));
    assert_eq!(view("# Replication\r\n"), None);
}
