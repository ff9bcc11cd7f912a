//! Life of connections, against a server that says what a test wants it to say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vko_core::command::{Command, ConfigValue, Reply, RoleReply};
use vko_core::secret::Secret;
use vko_core::world::{Credential, ServerError, Servers, Target};
use vko_valkey::Administration;

/// Long enough for anything that is going to happen.
const LONG: Duration = Duration::from_secs(60);
/// Shorter than what never happens.
const SHORT: Duration = Duration::from_millis(50);

/// What the server does with a command.
enum Then {
    Say(&'static str),
    Nothing,
    Close,
}

/// What happened at the server.
#[derive(Debug, PartialEq)]
enum Seen {
    /// A connection was made.
    Dialled(usize),
    /// A command came.
    Sent(usize, String),
    /// The other end closed it.
    Closed(usize),
}

struct Fake {
    address: SocketAddr,
    seen: Receiver<Seen>,
}

impl Fake {
    /// `answer` gets the connection's number (from 0) and the command's words.
    fn start(answer: impl Fn(usize, &str) -> Then + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, seen) = channel();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (tell, answer) = (tell.clone(), Arc::clone(&answer));
                // The test may be over.
                let _ = tell.send(Seen::Dialled(number));
                std::thread::spawn(move || serve(number, stream.unwrap(), &tell, &*answer));
            }
        });
        Self { address, seen }
    }

    fn target(&self, pod: &str, password: &str) -> Target {
        let credential = Credential { user: "operator".into(), password: Secret::new(password) };
        Target { pod: pod.into(), ip: self.address.ip(), port: self.address.port(), credential }
    }

    fn next(&self) -> Seen {
        self.seen.recv_timeout(LONG).expect("something should have happened at the server")
    }

    fn until(&self, wanted: &Seen) {
        while self.next() != *wanted {}
    }

    /// Everything seen so far.
    fn so_far(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }
}

fn serve(number: usize, stream: TcpStream, tell: &Sender<Seen>, answer: &dyn Fn(usize, &str) -> Then) {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    while let Some(words) = read_command(&mut input) {
        let _ = tell.send(Seen::Sent(number, words.clone()));
        match answer(number, &words) {
            Then::Say(text) => drop(output.write_all(text.as_bytes())),
            Then::Nothing => {}
            Then::Close => return,
        }
    }
    let _ = tell.send(Seen::Closed(number));
}

/// `*2 $4 ROLE ...` as words with blanks between them; `None` at the end.
fn read_command(input: &mut impl BufRead) -> Option<String> {
    let mut words = Vec::new();
    for _ in 0..read_number(input, '*')? {
        let mut word = vec![0; read_number(input, '$')? + 2];
        input.read_exact(&mut word).ok()?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Some(words.join(" "))
}

fn read_number(input: &mut impl BufRead, mark: char) -> Option<usize> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(mark)?.parse().ok()
}

/// What a healthy server says.
fn healthy(words: &str) -> Then {
    match words.split(' ').next().unwrap() {
        "HELLO" => Then::Say("%1\r\n$5\r\nproto\r\n:3\r\n"),
        "ROLE" => Then::Say("*3\r\n$6\r\nmaster\r\n:7\r\n*0\r\n"),
        _ => Then::Say("+OK\r\n"),
    }
}

fn primary() -> Reply {
    Reply::Role(RoleReply::Primary { offset: 7, replicas: vec![] })
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_share_one_connection_that_is_logged_in_and_named() {
    let fake = Fake::start(|_, words| healthy(words));
    let (servers, target) = (Administration::new(), fake.target("pod", "hunter2"));
    let calls = (0..10).map(|_| servers.call(&target, Command::Role, LONG));
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(reply, Ok(primary()));
    }
    let seen = fake.so_far();
    let start = [
        Seen::Dialled(0),
        Seen::Sent(0, "HELLO 3 AUTH operator hunter2".into()),
        Seen::Sent(0, "CLIENT SETNAME valkey-operator".into()),
    ];
    assert_eq!(seen[..3], start);
    assert_eq!(seen[3..], (0..10).map(|_| Seen::Sent(0, "ROLE".into())).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_the_connection_and_the_next_call_dials_anew() {
    let fake = Fake::start(|number, words| if number == 0 && words == "ROLE" { Then::Nothing } else { healthy(words) });
    let (servers, target) = (Administration::new(), fake.target("pod", "p"));
    assert_eq!(servers.call(&target, Command::Role, SHORT).await, Err(ServerError::Silent(SHORT)));
    fake.until(&Seen::Closed(0));
    assert_eq!(servers.call(&target, Command::Role, LONG).await, Ok(primary()));
    fake.until(&Seen::Sent(1, "ROLE".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_covers_the_dial() {
    let fake = Fake::start(|number, words| if number == 0 { Then::Nothing } else { healthy(words) });
    let (servers, target) = (Administration::new(), fake.target("pod", "p"));
    assert_eq!(servers.call(&target, Command::Role, SHORT).await, Err(ServerError::Silent(SHORT)));
    assert_eq!(servers.call(&target, Command::Role, LONG).await, Ok(primary()));
    assert!(!fake.so_far().contains(&Seen::Sent(0, "ROLE".into())), "a command must not go to a connection that isn't logged in");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_gives_up_leaves_the_dial_to_the_next() {
    let (open, gate) = channel();
    let gate = Mutex::new(gate);
    let fake = Fake::start(move |_, words| {
        if words.starts_with("HELLO") {
            gate.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        healthy(words)
    });
    let (servers, target) = (Arc::new(Administration::new()), fake.target("pod", "p"));
    let call = || {
        let (servers, target) = (Arc::clone(&servers), target.clone());
        tokio::spawn(async move { servers.call(&target, Command::Role, LONG).await })
    };
    let given_up = call();
    fake.until(&Seen::Sent(0, "HELLO 3 AUTH operator p".into()));
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let next = call();
    open.send(()).unwrap();
    assert_eq!(next.await.unwrap(), Ok(primary()));
    fake.until(&Seen::Sent(0, "ROLE".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_told_and_not_tried_again() {
    let fake = Fake::start(|number, words| if number == 0 && words == "REPLICAOF NO ONE" { Then::Close } else { healthy(words) });
    let (servers, target) = (Administration::new(), fake.target("pod", "p"));
    let lost = servers.call(&target, Command::ReplicaOfNoOne, LONG).await;
    assert!(matches!(lost, Err(ServerError::Lost(_))), "{lost:?}");
    let sent =
        fake.so_far().into_iter().filter(|seen| matches!(seen, Seen::Sent(_, words) if words == "REPLICAOF NO ONE")).count();
    assert_eq!(sent, 1);
    assert_eq!(servers.call(&target, Command::ReplicaOfNoOne, LONG).await, Ok(Reply::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let credential = Credential { user: "operator".into(), password: Secret::new("p") };
    let target = Target { pod: "pod".into(), ip: address.ip(), port: address.port(), credential };
    let lost = Administration::new().call(&target, Command::Role, LONG).await;
    assert!(matches!(lost, Err(ServerError::Lost(_))), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_command_keeps_the_connection_and_a_senseless_answer_does_not() {
    let fake = Fake::start(|number, words| match (number, words) {
        (0, "BGSAVE") => Then::Say("-ERR Background save already in progress\r\n"),
        (0, "ROLE") => Then::Say("+OK\r\n"),
        _ => healthy(words),
    });
    let (servers, target) = (Administration::new(), fake.target("pod", "p"));
    let refused = ServerError::Refused { code: "ERR".into(), text: "Background save already in progress".into() };
    assert_eq!(servers.call(&target, Command::BackgroundSave, LONG).await, Err(refused));
    let senseless = servers.call(&target, Command::Role, LONG).await;
    assert!(matches!(senseless, Err(ServerError::Unexpected(_))), "{senseless:?}");
    fake.until(&Seen::Sent(0, "ROLE".into()));
    assert_eq!(servers.call(&target, Command::Role, LONG).await, Ok(primary()));
    fake.until(&Seen::Sent(1, "ROLE".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_is_told_without_the_password_and_tried_anew() {
    let fake = Fake::start(|number, words| match (number, words) {
        (0, "HELLO 3 AUTH operator hunter2") => Then::Say("-WRONGPASS hunter2 is no password\r\n"),
        _ => healthy(words),
    });
    let (servers, target) = (Administration::new(), fake.target("pod", "hunter2"));
    let refused = servers.call(&target, Command::Role, LONG).await;
    assert_eq!(refused, Err(ServerError::Login("WRONGPASS *** is no password".into())));
    assert_eq!(servers.call(&target, Command::Role, LONG).await, Ok(primary()));
}

/// What is said of a moment to whoever logs in: a server that our agent holds, one that loads, a user without a right yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_dial_that_failed_is_not_remembered() {
    for answer in [
        "-HELD behind: a replica has data that this primary lacks\r\n",
        "-LOADING the data set\r\n",
        "-NOPERM no right to run hello\r\n",
    ] {
        for word in ["HELLO", "CLIENT"] {
            let fake = Fake::start(move |number, words| match words.split(' ').next() {
                Some(first) if number == 0 && first == word => Then::Say(answer),
                _ => healthy(words),
            });
            let (servers, target) = (Administration::new(), fake.target("pod", "p"));
            let refused = servers.call(&target, Command::Role, LONG).await;
            assert!(refused.is_err(), "{word}, {answer}: {refused:?}");
            assert_eq!(servers.call(&target, Command::Role, LONG).await, Ok(primary()), "{word}, {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_not_repeated() {
    let fake = Fake::start(|_, words| match words.split(' ').next() {
        Some("CONFIG") => Then::Say("-ERR unknown command 'CONFIG', with args beginning with: 'SET' 'masterauth' 'hunter2' \r\n"),
        Some("SENTINEL") => Then::Say("-ERR Invalid argument 'hunter2' for SENTINEL SET 'auth-pass'\r\n"),
        _ => healthy(words),
    });
    let (servers, target) = (Administration::new(), fake.target("pod", "p"));
    let set = Command::ConfigSet(vec![("masterauth".into(), ConfigValue::Credential(Secret::new("hunter2")))]);
    let options = vec![("auth-pass".into(), ConfigValue::Credential(Secret::new("hunter2")))];
    for command in [set, Command::SentinelSet { name: "mymaster".into(), options }] {
        let error = servers.call(&target, command, LONG).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        assert!(error.to_string().starts_with("ERR "), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_call_has_a_connection_of_its_own_and_closes_it() {
    let fake = Fake::start(|_, words| healthy(words));
    let (servers, target) = (Administration::new(), fake.target("pod", "p"));
    assert_eq!(servers.call(&target, Command::Role, LONG).await, Ok(primary()));
    assert_eq!(servers.call_fresh(&target, Command::Role, LONG).await, Ok(primary()));
    fake.until(&Seen::Closed(1));
    assert_eq!(servers.call(&target, Command::Role, LONG).await, Ok(primary()));
    assert_eq!(fake.so_far(), [Seen::Sent(0, "ROLE".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_pods_lose_their_connections_and_others_keep_theirs() {
    let fake = Fake::start(|_, words| healthy(words));
    let (servers, gone, stays) = (Administration::new(), fake.target("gone", "p"), fake.target("stays", "p"));
    for target in [&gone, &stays] {
        assert_eq!(servers.call(target, Command::Role, LONG).await, Ok(primary()));
    }
    servers.forget(&["gone".to_owned()]);
    fake.until(&Seen::Closed(0));
    assert_eq!(servers.call(&stays, Command::Role, LONG).await, Ok(primary()));
    assert_eq!(fake.so_far(), [Seen::Sent(1, "ROLE".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_password_leaves_no_old_connection() {
    let fake = Fake::start(|_, words| healthy(words));
    let servers = Administration::new();
    assert_eq!(servers.call(&fake.target("pod", "old"), Command::Role, LONG).await, Ok(primary()));
    assert_eq!(servers.call(&fake.target("pod", "new"), Command::Role, LONG).await, Ok(primary()));
    fake.until(&Seen::Closed(0));
    assert_eq!(servers.call(&fake.target("pod", "new"), Command::Role, LONG).await, Ok(primary()));
    assert!(!fake.so_far().iter().any(|seen| matches!(seen, Seen::Dialled(2))));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_everything_ends_calls_under_way() {
    let fake = Fake::start(|_, words| if words == "REPLICAOF NO ONE" { Then::Nothing } else { healthy(words) });
    let servers = Arc::new(Administration::new());
    let ended = Arc::new(Mutex::new(Vec::new()));
    let calls: Vec<_> = [false, true]
        .into_iter()
        .map(|fresh| {
            let (servers, target, ended) = (Arc::clone(&servers), fake.target("pod", "p"), Arc::clone(&ended));
            tokio::spawn(async move {
                let outcome = if fresh {
                    servers.call_fresh(&target, Command::ReplicaOfNoOne, LONG).await
                } else {
                    servers.call(&target, Command::ReplicaOfNoOne, LONG).await
                };
                ended.lock().unwrap().push(outcome);
            })
        })
        .collect();
    let mut waiting = 0;
    while waiting < 2 {
        waiting += usize::from(matches!(fake.next(), Seen::Sent(_, words) if words == "REPLICAOF NO ONE"));
    }
    servers.close_all();
    for call in calls {
        call.await.unwrap();
    }
    assert!(ended.lock().unwrap().iter().all(|outcome| matches!(outcome, Err(ServerError::Lost(_)))), "{ended:?}");
    let mut closed = 0;
    while closed < 2 {
        closed += usize::from(matches!(fake.next(), Seen::Closed(_)));
    }
    assert_eq!(
        servers.call(&fake.target("pod", "p"), Command::Role, LONG).await,
        Ok(primary()),
        "closing is no end: the next term dials anew"
    );
}
