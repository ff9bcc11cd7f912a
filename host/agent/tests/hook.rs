//! `agent hook pre-stop` with real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::thread;

use rustix::process::Signal;
use support::writer::{Writer, hand_over_back_and_forth, lost};
use support::{Client, LINES, Member, eventually, stderr};

fn pair(line: &'static str) -> (Member, Member) {
    let primary = Member::new(line, "alone").start();
    let replica = primary.join();
    (primary, replica)
}

#[track_caller]
fn says(member: &Member, code: i32, text: &str) {
    let output = member.pre_stop("6000");
    assert!(output.status.code() == Some(code) && stderr(&output).contains(text), "{}: {}", member.line, stderr(&output));
}

fn hand_over_under_writes(line: &'static str, times: usize) {
    let (primary, replica) = pair(line);
    hand_over_back_and_forth(&primary, &replica, times, |_, old| {
        eventually("the old one follows", || old.info("master_link_status") == "up");
    });
}

#[test]
fn ten_hand_overs_under_writes_lose_nothing() {
    hand_over_under_writes("9.1", 10);
}

#[test]
fn a_hand_over_on_each_older_line() {
    for line in ["8.1", "7.2"] {
        hand_over_under_writes(line, 2);
    }
}

/// The check of the check: a promotion without a hand-over is seen to lose writes.
#[test]
fn the_count_sees_a_loss() {
    let (primary, replica) = pair("9.1");
    let writer = Writer::start(vec![primary.address()]);
    eventually("writes are under way", || writer.count() > 100);
    assert_eq!(replica.client().text(&["REPLICAOF", "NO", "ONE"]), "OK");
    let promoted = writer.count();
    eventually("the old primary goes on", || writer.count() > promoted + 100);
    let written = writer.finish();
    assert_eq!(lost(&written, &primary), Vec::<u64>::new());
    assert!(lost(&written, &replica).len() >= 100);
}

#[test]
fn what_needs_no_hand_over() {
    for line in LINES {
        let (primary, replica) = pair(line);
        says(&replica, 0, "no hand-over needed");
        primary.write("conf/ending", "yes\n");
        says(&primary, 0, "the instance is being deleted");
        assert_eq!(primary.info("role"), "master");
        let lone = Member::new(line, "alone").start();
        says(&lone, 0, "no replica is attached");
    }
}

#[test]
fn a_frozen_replica_leaves_the_primary_writable() {
    for line in LINES {
        for write_first in [false, true] {
            let (primary, replica) = pair(line);
            replica.signal(Signal::STOP);
            if write_first {
                // Not acknowledged by the replica: the server waits for it instead of stepping down at once.
                primary.client().text(&["SET", "key", "value"]);
            }
            let output = primary.pre_stop("8000");
            assert_eq!(output.status.code(), Some(1), "{line}: {}", stderr(&output));
            assert!(stderr(&output).contains(&format!("{} was asked last", replica.address())), "{line}: {}", stderr(&output));
            assert_eq!((primary.info("role"), primary.info("master_failover_state")), ("master".into(), "no-failover".into()));
            assert_eq!(primary.client().text(&["SET", "key", "after"]), "OK", "{line}");

            replica.signal(Signal::CONT);
            eventually("the replica follows again", || replica.client().call(&["GET", "key"]) == Ok("after".to_owned()));
            assert_eq!((primary.info("role"), replica.info("role")), ("master".to_owned(), "slave".to_owned()));
        }
    }
}

#[test]
fn the_next_replica_is_asked_when_the_best_is_frozen() {
    let (primary, frozen) = pair("9.1");
    let other = primary.join();
    // Right now both have acknowledged the same, and of equals the lower address is asked first: the frozen one.
    assert!(frozen.ip < other.ip);
    frozen.signal(Signal::STOP);
    let output = primary.pre_stop("30000");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("handed over to {}", other.address())), "{}", stderr(&output));
    assert_eq!(other.info("role"), "master");
}

#[test]
fn a_failover_that_runs_already_is_waited_for() {
    let (primary, replica) = pair("9.1");
    replica.signal(Signal::STOP);
    primary.client().text(&["SET", "key", "value"]);
    let (ip, port) = (replica.ip.to_string(), replica.port.to_string());
    assert_eq!(primary.client().text(&["FAILOVER", "TO", &ip, &port]), "OK");
    let address = primary.address();
    thread::scope(|scope| {
        let hook = scope.spawn(|| primary.pre_stop("60000"));
        eventually("the hook looks", || {
            let clients = Client::login(address).unwrap().text(&["INFO", "commandstats"]);
            clients.contains("cmdstat_auth:")
                && clients.lines().any(|line| line.starts_with("cmdstat_info:") && !line.contains("calls=1,"))
        });
        replica.signal(Signal::CONT);
        let output = hook.join().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    });
    assert_eq!((primary.info("role"), replica.info("role")), ("slave".to_owned(), "master".to_owned()));
}

#[test]
fn somebodys_forgotten_failover_is_taken_back() {
    let (primary, frozen) = pair("9.1");
    let other = primary.join();
    frozen.signal(Signal::STOP);
    primary.client().text(&["SET", "key", "value"]);
    let (ip, port) = (frozen.ip.to_string(), frozen.port.to_string());
    assert_eq!(primary.client().text(&["FAILOVER", "TO", &ip, &port]), "OK");
    let output = primary.pre_stop("12000");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("handed over to {}", other.address())), "{}", stderr(&output));
}

#[test]
fn a_server_that_doesnt_answer_is_said() {
    let member = Member::new("9.1", "alone");
    says(&member, 1, "the server's role is unknown: no connection to");
    let member = Member::new("9.1", "alone").start();
    member.write("accounts/hook", "wrong");
    says(&member, 1, "refuses the login");
    std::fs::remove_file(member.folder.join("accounts/hook")).unwrap();
    says(&member, 1, "hook: No such file");
}
