//! Sentinels that the agent starts, and a primary that stops where they watch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use support::writer::{Writer, lost};
use support::{ACCOUNTS, Client, LINES, Member, eventually, sentinels, sha256, stderr};

#[test]
fn its_id_is_its_identitys_and_its_state_outlives_a_restart() {
    for line in LINES {
        let primary = Member::new(line, "alone").start();
        let replica = primary.join();
        let mut sentinel = Member::sentinel(line).start();
        let id = sha256(&sentinel.identity())[..40].to_owned();
        assert_eq!(sentinel.client().text(&["SENTINEL", "MYID"]), id, "{line}");
        sentinel.monitor(&primary, "1");
        eventually("the replica is known", || sentinel.watched("num-slaves") == "1");
        let saved = || fs::read_to_string(sentinel.folder.join("data/sentinel.conf")).unwrap();
        eventually("and written down", || saved().contains(&format!("mymaster {} 6379", replica.ip)));

        sentinel.kill();
        sentinel.start_again();
        assert_eq!(sentinel.client().text(&["SENTINEL", "MYID"]), id, "{line}");
        assert_eq!((sentinel.watched("ip"), sentinel.watched("num-slaves")), (primary.ip.to_string(), "1".to_owned()), "{line}");
        let said = sentinel.client().text(&["SENTINEL", "REPLICAS", "mymaster"]);
        assert!(said.contains(&format!("{}:6379", replica.ip)), "{line}: {said}");
    }
}

#[test]
fn its_accounts_are_the_operators_and_new_at_each_start() {
    for line in LINES {
        let mut sentinel = Member::sentinel(line).start();
        assert!(Client::plain(sentinel.address()).unwrap().call(&["PING"]).unwrap_err().starts_with("NOAUTH"), "{line}");
        sentinel.kill();
        sentinel.append("accounts/users.acl", &format!("user another on #{} -@all +ping\n", sha256("x")));
        sentinel.start_again();
        let mut client = Client::plain(sentinel.address()).unwrap();
        client.text(&["AUTH", "another", "x"]);
        assert_eq!(client.text(&["PING"]), "PONG", "{line}");
    }
}

#[test]
fn its_file_is_its_own_alone() {
    let sentinel = Member::sentinel("9.1").start();
    let file = sentinel.folder.join("data/sentinel.conf");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    for (account, password, _) in ACCOUNTS {
        // In the file only what it logs in to other Sentinels with; in no case in arguments.
        let quoted = password.replace('\\', "\\\\").replace('"', "\\\"");
        assert_eq!(text.contains(&quoted), account == "sentinel", "{account}");
        let arguments = fs::read(format!("/proc/{}/cmdline", sentinel.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&arguments).contains(password), "{account}");
    }
}

#[test]
fn it_is_ready_when_it_answers() {
    for line in LINES {
        let sentinel = Member::sentinel(line).start();
        assert!(sentinel.ready() && sentinel.probe("live").status.success(), "{line}");
        let output = sentinel.pre_stop("6000");
        assert!(output.status.success() && stderr(&output).contains("a Sentinel stops"), "{line}: {}", stderr(&output));
        sentinel.write("accounts/probe", "wrong");
        assert!(!sentinel.ready() && sentinel.probe("live").status.success(), "{line}");
        sentinel.signal(Signal::STOP);
        assert!(!sentinel.probe("live").status.success(), "{line}");
        sentinel.signal(Signal::CONT);
    }
}

/// A primary with a replica, watched by three Sentinels.
fn watched(line: &'static str) -> (Member, Member, Vec<Member>) {
    let mut primary = Member::new(line, "alone").start();
    let mut replica = primary.join();
    let sentinels = sentinels::three(line, &primary, 1);
    let hosts: String = sentinels.iter().map(|sentinel| format!("{} {} mymaster\n", sentinel.ip, sentinel.port)).collect();
    for member in [&mut primary, &mut replica] {
        member.hook_mode = "failover";
        member.write("conf/sentinels", &hosts);
    }
    (primary, replica, sentinels)
}

#[test]
fn a_stop_under_writes_loses_nothing() {
    for line in LINES {
        let (mut primary, replica, sentinels) = watched(line);
        let writer = Writer::start(vec![primary.address(), replica.address()]);
        eventually("writes are under way", || writer.count() > 100);
        let output = primary.pre_stop("30000");
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(&format!("handed over to {}", replica.address())), "{line}: {}", stderr(&output));
        // As the kubelet does.
        primary.signal(Signal::TERM);
        assert_eq!(primary.ended(), Some(0), "{line}");
        let after = writer.count();
        eventually("writes go on", || writer.count() > after + 100);
        assert_eq!(replica.info("role"), "master", "{line}");
        let written = writer.finish();
        assert_eq!(lost(&written, &replica), Vec::<u64>::new(), "{line}");
        eventually("all Sentinels agree", || sentinels.iter().all(|sentinel| sentinel.watched("ip") == replica.ip.to_string()));
    }
}

#[test]
fn a_replica_that_isnt_synced_is_a_reason_not_to_ask() {
    let (primary, replica, sentinels) = watched("9.1");
    let frozen = primary.join();
    frozen.signal(Signal::STOP);
    let output = primary.pre_stop("12000");
    frozen.signal(Signal::CONT);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("isn't synced and the Sentinels could choose it"), "{}", stderr(&output));
    assert_eq!(primary.client().text(&["SET", "key", "after"]), "OK");
    assert_eq!((primary.info("role"), replica.info("role")), ("master".to_owned(), "slave".to_owned()));
    assert!(sentinels.iter().all(|sentinel| sentinel.watched("config-epoch") == "0"));
}

#[test]
fn without_a_sentinel_writes_go_on() {
    let (primary, _replica, mut sentinels) = watched("9.1");
    for sentinel in &mut sentinels {
        sentinel.kill();
    }
    let output = primary.pre_stop("8000");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no Sentinel took the order"), "{}", stderr(&output));
    assert_eq!(primary.client().text(&["SET", "key", "after"]), "OK");
    fs::remove_file(primary.folder.join("conf/sentinels")).unwrap();
    assert!(stderr(&primary.pre_stop("8000")).contains("sentinels: No such file"));
}

/// Says OK to everything it is asked, and does nothing.
fn idle_sentinel() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut sent = [0; 1024];
            if stream.read(&mut sent).is_ok() {
                let _ = stream.write_all(b"+OK\r\n+OK\r\n");
            }
        }
    });
    address
}

/// The Sentinels may still be at it: what the primary took now would be lost.
#[test]
fn an_order_that_was_taken_holds_writes_back_until_the_stop() {
    let (primary, replica, _sentinels) = watched("9.1");
    let idle = idle_sentinel();
    primary.write("conf/sentinels", &format!("{} {} mymaster\n", idle.ip(), idle.port()));
    let output = primary.pre_stop("8000");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("have promoted nobody yet; writes wait"), "{}", stderr(&output));
    let (address, (told, answer)) = (primary.address(), mpsc::channel());
    let writing = thread::spawn(move || told.send(Client::login(address).unwrap().call(&["SET", "key", "after"])));
    assert!(answer.recv_timeout(Duration::from_millis(500)).is_err(), "it was written");
    assert_eq!((primary.info("role"), replica.info("role")), ("master".to_owned(), "slave".to_owned()));
    assert_eq!(primary.client().text(&["CLIENT", "UNPAUSE"]), "OK");
    writing.join().unwrap().unwrap();
}

/// A login that the file names, at Sentinels that don't know the hook.
#[test]
fn sentinels_elsewhere_are_asked_with_a_login_of_their_own() {
    let (primary, replica, sentinels) = watched("9.1");
    for sentinel in &sentinels {
        assert_eq!(sentinel.client().text(&["ACL", "SETUSER", "hook", "off"]), "OK");
        assert_eq!(sentinel.client().text(&["ACL", "SETUSER", "theirs", "on", ">their-word", "+sentinel|failover"]), "OK");
    }
    let hosts: String = sentinels.iter().map(|sentinel| format!("{} {} mymaster theirs\n", sentinel.ip, sentinel.port)).collect();
    primary.write("conf/sentinels", &hosts);
    let refused = primary.pre_stop("8000");
    assert_eq!(refused.status.code(), Some(1), "without the password: {}", stderr(&refused));
    primary.write("accounts/sentinels", "their-word");
    let output = primary.pre_stop("30000");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(replica.info("role"), "master");
}
