//! `agent probe` with real servers of each line, through a member's life.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;

use rustix::process::Signal;
use support::{LINES, Member, eventually, stderr};

#[track_caller]
fn not_ready(member: &Member, why: &str) {
    let output = member.probe("ready");
    assert_eq!(output.status.code(), Some(1), "{}", member.line);
    assert!(stderr(&output).contains(why), "{}: {}", member.line, stderr(&output));
    assert!(member.probe("live").status.success(), "{}: not ready isn't dead", member.line);
}

#[track_caller]
fn ready(member: &Member) {
    let output = member.probe("ready");
    assert!(output.status.success(), "{}: {}", member.line, stderr(&output));
    assert_eq!((stderr(&output).as_str(), output.stdout.as_slice()), ("", &b""[..]));
}

#[test]
fn a_replica_from_birth_to_the_loss_of_its_primary() {
    for line in LINES {
        let mut primary = Member::new(line, "alone").start();
        let mut replica = Member::new(line, "named").start();
        ready(&primary);
        not_ready(&replica, "follows nobody");

        // A primary that stands still: the first sync doesn't begin.
        primary.signal(Signal::STOP);
        replica.follow(&primary);
        not_ready(&replica, "hasn't been synced");
        primary.signal(Signal::CONT);
        eventually("synced", || replica.ready());
        assert_eq!(fs::read_to_string(replica.folder.join("run/synced")).unwrap(), replica.info("run_id"), "{line}");

        primary.kill();
        eventually("the link is down", || replica.info("master_link_status") == "down");
        ready(&replica);

        // Another process: what the one before had says nothing of it.
        replica.kill();
        replica.start_again();
        replica.follow(&primary);
        not_ready(&replica, "hasn't been synced");
    }
}

#[test]
fn detached_from_its_primary_it_isnt_ready() {
    let primary = Member::new("9.1", "alone").start();
    let replica = Member::new("9.1", "named").start();
    replica.follow(&primary);
    eventually("synced", || replica.ready());
    assert_eq!(replica.client().text(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    not_ready(&replica, "follows nobody");
}

#[test]
fn loading_it_is_alive_and_not_ready() {
    for line in LINES {
        let mut member = Member::new(line, "alone").start();
        let fill = "for i = 1, 5000 do server.call('SET', 'key:' .. i, i) end";
        let fill = if line == "7.2" { fill.replace("server.call", "redis.call") } else { fill.to_owned() };
        member.client().call(&["EVAL", &fill, "0"]).unwrap();
        member.client().text(&["SAVE"]);
        member.kill();
        // 5000 keys at 20 ms: it would load for 100 s, and the test doesn't wait for it.
        member.append("conf/valkey.conf", "key-load-delay 20000\nloading-process-events-interval-bytes 1024\n");
        member.start_again_loading();
        eventually("loading", || stderr(&member.probe("ready")).contains("loading its data set"));
        not_ready(&member, "loading its data set");
    }
}

#[test]
fn any_answer_is_alive_and_silence_is_not() {
    for line in LINES {
        let member = Member::new(line, "alone").start();
        fs::remove_file(member.folder.join("accounts/probe")).unwrap();
        assert!(member.probe("live").status.success(), "{line}: without a password");
        member.write("accounts/probe", "wrong");
        assert!(member.probe("live").status.success(), "{line}: with a wrong password");
        let output = member.probe("ready");
        assert!(!output.status.success() && stderr(&output).contains("refuses the login"), "{line}: {}", stderr(&output));

        member.signal(Signal::STOP);
        let output = member.probe("live");
        assert!(!output.status.success() && stderr(&output).contains("no answer from"), "{line}: {}", stderr(&output));
        member.signal(Signal::CONT);
    }
}

#[test]
fn nobody_there_is_dead() {
    let member = Member::new("9.1", "alone");
    let output = member.probe("live");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no connection to"), "{}", stderr(&output));
}

#[test]
fn a_long_script_is_no_reason_to_restart() {
    let mut member = Member::new("9.1", "alone");
    member.append("conf/valkey.conf", "busy-reply-threshold 1\n");
    member.start_again();
    let address = member.address();
    let runs = std::thread::spawn(move || support::Client::login(address).unwrap().call(&["EVAL", "while true do end", "0"]));
    eventually("the script runs", || {
        support::Client::login(address)
            .and_then(|mut client| client.call(&["PING"]))
            .is_err_and(|error| error.starts_with("BUSY"))
    });
    assert!(member.probe("live").status.success());
    // SCRIPT KILL is one of the few that are taken now.
    member.client().text(&["SCRIPT", "KILL"]);
    assert!(runs.join().unwrap().is_err());
}

#[test]
fn a_note_that_cant_be_written_is_said() {
    let primary = Member::new("9.1", "alone").start();
    let replica = Member::new("9.1", "named").start();
    replica.follow(&primary);
    eventually("the link is up", || replica.info("master_link_status") == "up");
    fs::remove_dir(replica.folder.join("run")).unwrap();
    eventually("said", || stderr(&replica.probe("ready")).contains("synced: No such file"));
}
