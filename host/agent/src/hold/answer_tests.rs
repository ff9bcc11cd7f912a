#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::Ipv4Addr;
use std::time::Instant;

use super::*;
use crate::resp::{self, Reply, RespError};

/// A listener on a port that is free; its reason is `it waits`.
fn answering() -> (Answering, SocketAddr) {
    let ip: IpAddr = Ipv4Addr::LOCALHOST.into();
    let port = TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().port();
    let answering = Answering::start(ip, port, "pw").unwrap();
    answering.say("it\nwaits");
    (answering, SocketAddr::new(ip, port))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn commands_are_told_apart() {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let whole = b"*2\r\n$4\r\nPING\r\n$3\r\na\r\n\r\nnext";
    assert_eq!(command(whole), Ok(Some((words(&["PING", "a\r\n"]), whole.len() - 4))));
    for end in 0..whole.len() - 4 {
        assert_eq!(command(&whole[..end]), Ok(None), "cut at {end}");
    }
    assert_eq!(command(b"SET a  b\r\nx"), Ok(Some((words(&["SET", "a", "b"]), 10))));
    assert_eq!(command(b"\r\n"), Ok(Some((vec![], 2))));
    assert_eq!(command(b"*0\r\n"), Ok(Some((vec![], 4))));
    for wrong in [&b"*x\r\n"[..], b"*1\r\nPING\r\n", b"*1\r\n$x\r\n", b"*1\r\n$99999999\r\n", b"*-1\r\n"] {
        assert_eq!(command(wrong), Err(()), "{wrong:?}");
    }
}

#[test]
fn every_command_is_answered_with_the_reason() {
    let (_answering, server) = answering();
    let replies = resp::exchange(server, &[&["AUTH", "a", "b"], &["GET", "key"], &["PING"]], soon()).unwrap();
    assert_eq!(replies, vec![Reply::Error("HELD it waits".to_owned()); 3]);
    let error = resp::ask(server, "probe", "x", &["PING"], soon()).unwrap_err();
    assert!(matches!(error, RespError::Held(_, why) if why == "it waits"));
}

#[test]
fn only_the_hook_ends_it() {
    let (answering, server) = answering();
    let tries: [&[&[&str]]; 4] = [
        &[&["SHUTDOWN"]],
        &[&["AUTH", "hook", "wrong"], &["SHUTDOWN"]],
        &[&["AUTH", "default", "pw"], &["SHUTDOWN"]],
        &[&["AUTH", "hook", "pw"], &["AUTH", "hook", "wrong"], &["SHUTDOWN"]],
    ];
    for commands in tries {
        resp::exchange(server, commands, soon()).unwrap();
        assert!(answering.ended.try_recv().is_err(), "{commands:?}");
    }
    resp::exchange(server, &[&["AUTH", "hook", "pw"], &["shutdown", "nosave"]], soon()).unwrap();
    assert!(answering.ended.try_recv().is_ok());
}

#[test]
fn a_port_that_is_taken_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    assert!(Answering::start(address.ip(), address.port(), "pw").is_err_and(|(at, _)| at == address));
}
