#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::TcpListener;
use std::thread;

use super::*;

fn text(value: &str) -> Reply {
    Reply::Text(value.to_owned())
}

#[test]
fn replies_of_each_form() {
    let cases: [(&[u8], Reply); 8] = [
        (b"+OK\r\n", Reply::Simple("OK".to_owned())),
        (b"-LOADING x\r\n", Reply::Error("LOADING x".to_owned())),
        (b":-7\r\n", Reply::Integer(-7)),
        (b"$-1\r\n", Reply::Nil),
        (b"*-1\r\n", Reply::Nil),
        (b"$0\r\n\r\n", text("")),
        (b"$4\r\na\r\nb\r\n", text("a\r\nb")),
        (b"*2\r\n$1\r\nm\r\n*1\r\n:1\r\n", Reply::List(vec![text("m"), Reply::List(vec![Reply::Integer(1)])])),
    ];
    for (bytes, reply) in cases {
        assert_eq!(parse(bytes, 0), Ok(Some((reply, bytes.len()))));
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end], 0), Ok(None), "cut at {end}: {bytes:?}");
        }
    }
}

#[test]
fn nonsense_and_lies_about_length_are_refused() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"\r\n",
        b":x\r\n",
        b"$999999999\r\n",
        b"$-2\r\n",
        b"$1\r\nabc\r\n",
        b"*99999\r\n",
        b"+\xff\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    ] {
        assert!(parse(bytes, 0).is_err(), "{bytes:?}");
    }
}

/// A server that takes one connection and says this, then closes or, if `hold`, waits until the client does.
fn says(answer: &'static [u8], hold: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(answer).unwrap();
        // Until the client is done: what it sent must be taken, or closing would reset the connection.
        let mut sent = [0; 1024];
        while hold && stream.read(&mut sent).is_ok_and(|read| read > 0) {}
    });
    address
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn a_server_without_room_is_heard() {
    let replies =
        exchange(says(b"-ERR max number of clients reached\r\n", false), &[&["AUTH", "a", "b"], &["PING"]], soon()).unwrap();
    assert_eq!(replies, [Reply::Error("ERR max number of clients reached".to_owned())]);
}

#[test]
fn login_and_command_fail_apart() {
    let refused = |answer| ask(says(answer, true), "a", "b", &["ROLE"], soon()).unwrap_err();
    assert!(matches!(refused(b"-WRONGPASS no\r\n-NOAUTH no\r\n"), RespError::LoginRefused(_, text) if text == "WRONGPASS no"));
    assert!(matches!(refused(b"+OK\r\n-NOPERM no\r\n"), RespError::CommandRefused(_, text) if text == "NOPERM no"));
    assert!(matches!(refused(b"-HELD it waits\r\n-HELD it waits\r\n"), RespError::Held(_, why) if why == "it waits"));
    assert_eq!(ask(says(b"+OK\r\n+PONG\r\n", true), "a", "b", &["PING"], soon()).unwrap(), Reply::Simple("PONG".to_owned()));
}

#[test]
fn of_several_commands_each_has_its_answer() {
    let ask_all = |answer| ask_all(says(answer, false), "a", "b", &[&["INFO"], &["ROLE"]], soon());
    let both = ask_all(b"+OK\r\n-NOPERM no\r\n:1\r\n").unwrap();
    assert_eq!(both, [Reply::Error("NOPERM no".to_owned()), Reply::Integer(1)]);
    assert!(matches!(ask_all(b"+OK\r\n:1\r\n"), Err(RespError::ConnectionLost(..))));
}

#[test]
fn silence_and_absence_are_told_apart() {
    let soon = Instant::now() + Duration::from_millis(50);
    assert!(matches!(exchange(says(b"", true), &[&["PING"]], soon), Err(RespError::ServerSilent(_))));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let later = Instant::now() + Duration::from_secs(20);
    assert!(matches!(exchange(nobody, &[&["PING"]], later), Err(RespError::ConnectionRefused(..))));
}

#[test]
fn an_endless_answer_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[b'+'; 65536]).is_ok() {}
    });
    assert!(matches!(exchange(address, &[&["PING"]], soon()), Err(RespError::ReplyInvalid(..))));
}

#[test]
fn words_are_sent_by_length() {
    assert_eq!(encode(&[&["AUTH", "a\r\nb"], &["é"]]), "*2\r\n$4\r\nAUTH\r\n$4\r\na\r\nb\r\n*1\r\n$2\r\né\r\n".as_bytes());
}

/// Whoever asks several in turn may go on to the next one: this one can't have taken anything.
#[test]
fn a_connection_that_does_not_come_about_in_time_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts: once its queue is full, the kernel drops what else arrives.
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        queue.push(stream);
    }
    let asked = exchange(address, &[&["PING"]], Instant::now() + Duration::from_millis(200));
    assert!(matches!(&asked, Err(RespError::ConnectionRefused(..))), "{} wait; {asked:?}", queue.len());
}
