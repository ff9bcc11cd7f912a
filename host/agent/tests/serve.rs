//! `agent serve` with real servers of each line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::OFlags;
use support::{ACCOUNTS, Client, LINES, Member, eventually, server_binary};

#[test]
fn alone_it_is_a_primary_and_only_for_those_who_log_in() {
    for line in LINES {
        let member = Member::new(line, "alone\n").start();
        assert_eq!(member.info("role"), "master", "{line}");
        assert_eq!(member.client().text(&["SET", "key", "value"]), "OK", "{line}");
        let refused = Client::plain(member.address()).unwrap().call(&["GET", "key"]).unwrap_err();
        assert!(refused.starts_with("NOAUTH"), "{line}: {refused}");
        // The server logs in to a primary with the password as it is in the file, quotes, blanks and all.
        assert_eq!(
            member.client().text(&["CONFIG", "GET", "masterauth"]),
            format!("masterauth\n{}", support::password("replication"))
        );
        assert_eq!(member.client().text(&["CONFIG", "GET", "port"]), "port\n6379");
    }
}

#[test]
fn named_it_follows_nobody_and_keeps_replicas_safe() {
    for line in LINES {
        let member = Member::new(line, "named").start();
        assert_eq!(
            (member.info("role"), member.info("master_host"), member.info("master_port")),
            ("slave".into(), "127.0.0.1".into(), "1".into())
        );
        let refused = member.client().call(&["SET", "key", "value"]).unwrap_err();
        assert!(refused.starts_with("READONLY"), "{line}: {refused}");
    }
}

#[test]
fn it_starts_with_ipv6() {
    let port = TcpListener::bind("[::1]:0").expect("this machine needs an IPv6 loopback").local_addr().unwrap().port();
    let member = Member::at("9.1", "named", "::1".parse().unwrap(), port).start();
    assert_eq!((member.info("role"), member.info("master_host")), ("slave".into(), "::1".into()));
    assert!(member.probe("live").status.success());
}

#[test]
fn replicas_log_in_with_what_the_agent_rendered() {
    for line in LINES {
        let primary = Member::new(line, "alone").start();
        let replica = Member::new(line, "named").start();
        primary.client().text(&["SET", "key", "value"]);
        replica.follow(&primary);
        eventually("the link is up", || replica.info("master_link_status") == "up");
        assert_eq!(replica.client().text(&["GET", "key"]), "value", "{line}");
    }
}

/// Whether a text is in a file below the folder.
fn on_disk(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() { on_disk(&path, text) } else { holds(&fs::read(&path).unwrap(), text) }
    })
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn proc_file(pid: u32, name: &str) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/{name}")).unwrap()
}

/// What somebody who opens a process's stdin gets.
fn stdin_of(pid: u32) -> Vec<u8> {
    let mut file =
        File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(format!("/proc/{pid}/fd/0")).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let read = file.read(&mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

#[test]
fn no_password_is_left_where_others_can_look() {
    for line in LINES {
        let member = Member::new(line, "alone").start();
        member.client().text(&["SET", "key", "value"]);
        member.client().text(&["SAVE"]);
        let environment = proc_file(member.pid(), "environ");
        assert!(!holds(&environment, "SERVE_MARK") && holds(&environment, "LC_ALL=C"), "{line}");
        assert_eq!(stdin_of(member.pid()), b"", "{line}");
        for (account, password, _) in ACCOUNTS {
            assert!(!holds(&proc_file(member.pid(), "cmdline"), password), "{line} {account}");
            assert!(!holds(&environment, password), "{line} {account}");
            for folder in ["conf", "data", "run"] {
                assert!(!on_disk(&member.folder.join(folder), password), "{line} {account} {folder}");
            }
            assert!(!holds(&fs::read(member.folder.join("log")).unwrap(), password), "{line} {account}");
        }
        // Data files are the server's alone.
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(member.folder.join("data/dump.rdb")).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "{line}");
    }
}

/// The search above, where there is something to find.
#[test]
fn the_search_finds_what_is_planted() {
    let member = Member::new("9.1", "alone");
    fs::create_dir(member.folder.join("data/deep")).unwrap();
    member.write("data/deep/file", "before planted-secret after");
    assert!(on_disk(&member.folder.join("data"), "planted-secret"));

    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"planted-secret").unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "kill -STOP $$", "planted-secret"])
        .env("PLANTED", "planted-secret")
        .stdin(reader)
        .spawn()
        .unwrap();
    eventually("the shell runs", || holds(&proc_file(child.id(), "cmdline"), "STOP"));
    let found = [
        holds(&proc_file(child.id(), "cmdline"), "planted-secret"),
        holds(&proc_file(child.id(), "environ"), "planted-secret"),
        holds(&stdin_of(child.id()), "planted-secret"),
    ];
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, [true; 3]);
}

/// What `serve` hands to the server.
fn rendered(member: &Member) -> Vec<u8> {
    let output = member.serve(Path::new("/bin/cat")).output().unwrap();
    assert!(output.status.success(), "{}", support::stderr(&output));
    output.stdout
}

#[test]
fn a_configuration_cut_short_starts_nothing() {
    for line in LINES {
        let member = Member::new(line, "alone");
        let whole = rendered(&member);
        let closed = whole.iter().rposition(|byte| *byte == b'"').unwrap();
        let users = whole.windows(5).position(|window| window == b"user ").unwrap();
        for cut in ["port 0\n".len(), users, closed - 5, closed - 1, closed] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(&whole[..cut]).unwrap();
            drop(writer);
            let output = Command::new(server_binary(line)).arg("-").env("LC_ALL", "C").stdin(reader).output().unwrap();
            assert!(
                !output.status.success(),
                "{line}, cut at {cut} of {}: {}",
                whole.len(),
                String::from_utf8_lossy(&output.stdout)
            );
        }
    }
}

#[test]
fn a_configuration_that_no_pipe_holds_is_fed_whole() {
    let member = Member::new("9.1", "alone");
    let hash = support::sha256("x");
    let many: String = (0..14_000).map(|number| format!("user many-{number} on #{hash} -@all\n")).collect();
    assert!(many.len() > 1 << 20);
    member.append("accounts/users.acl", &many);
    let whole = rendered(&member);
    assert!(whole.ends_with(b"\nport \"6379\"\n") && whole.len() > 1 << 20);
    let member = member.start();
    assert_eq!(member.client().text(&["ACL", "USERS"]).lines().count(), 14_000 + ACCOUNTS.len());
    assert_eq!(stdin_of(member.pid()), b"");
    // The feeder is the server's child; its next own child reaps it.
    member.client().text(&["BGSAVE"]);
    eventually("no child is left", || {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", member.pid())).unwrap().is_empty()
    });
}

#[test]
fn what_is_missing_or_wrong_starts_nothing() {
    let cases: [(&str, Option<&str>, &str); 7] = [
        ("conf/start", None, "start: No such file"),
        ("conf/start", Some("perhaps"), "the start file says \"perhaps\""),
        ("conf/valkey.conf", None, "valkey.conf: No such file"),
        ("accounts/users.acl", None, "users.acl: No such file"),
        ("accounts/users.acl", Some(""), "no line for 'default'"),
        ("accounts/replication", None, "replication: No such file"),
        ("accounts/replication", Some("two\nlines"), "the password holds a line break"),
    ];
    for (file, content, message) in cases {
        let member = Member::new("9.1", "alone");
        match content {
            Some(content) => member.write(file, content),
            None => fs::remove_file(member.folder.join(file)).unwrap(),
        }
        let output = member.serve(Path::new("/bin/cat")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(output.stdout.is_empty() && support::stderr(&output).contains(message), "{file}: {}", support::stderr(&output));
    }
    let member = Member::new("9.1", "alone");
    let output = member.serve(Path::new("/no/such/server")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(support::stderr(&output).contains("can't run /no/such/server"), "{}", support::stderr(&output));
}

#[test]
fn another_start_file_can_be_named() {
    let member = Member::new("9.1", "alone");
    member.write("conf/other", "named");
    let output = member.serve(Path::new("/bin/cat")).args(["--start-file", "other"]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("\nreplicaof 127.0.0.1 1\n"));
}

#[test]
fn it_installs_itself_and_the_copy_works() {
    let member = Member::new("9.1", "alone");
    let copy = member.folder.join("agent");
    let copy = copy.to_str().unwrap();
    member.write("agent", "an older one");
    assert!(support::agent(&["install", copy]).status.success());
    assert!(!member.folder.join("agent.new").exists());
    let output = Command::new(copy).arg("unknown").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(support::stderr(&output).contains("unknown command 'unknown'"));
    let output = support::agent(&["install", "/no/such/folder/agent"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(support::stderr(&output).contains("must be mounted and writable"));
}
