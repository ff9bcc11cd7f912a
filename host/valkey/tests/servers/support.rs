//! Real servers for tests: started with their configuration on stdin, killed by their own handle at the end.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vko_core::command::{Command, Reply};
use vko_core::secret::Secret;
use vko_core::world::{Credential, ServerError, Servers, Target};
use vko_model::accounts::{Account, ServerRole};
use vko_model::{Info, Line};
use vko_valkey::Administration;

/// Long enough for anything that is going to happen, on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A user of the tests' own that may do everything.
const TESTER: &str = "tester";

/// Numbers folders and pods within this process.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// The password of an account.
pub(crate) fn password(account: &str) -> String {
    format!("password-of-{account}")
}

/// Hash of the password of an account.
pub(crate) fn hashes(account: &str) -> Vec<String> {
    vec![Secret::new(password(account)).acl_hash()]
}

/// The operator's `user` lines of a server. The default user is off, as it is when nobody has a password for it.
pub(crate) fn user_lines(role: ServerRole, line: Line) -> String {
    let line_of = |account: Account| match account {
        Account::Default => account.user_line(role, line, &[], false).unwrap(),
        _ => account.user_line(role, line, &hashes(account.name()), false).unwrap(),
    };
    Account::of(role).iter().copied().map(line_of).collect::<Vec<_>>().join("\n")
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    process: Child,
    folder: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    pub(crate) role: ServerRole,
    pub(crate) line: Line,
    pub(crate) ip: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) pod: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; nothing else can go wrong that matters any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    /// Starts a data server with the operator's accounts and waits until it takes connections.
    pub(crate) fn start(line: Line, conf: &str) -> Self {
        Self::start_as(ServerRole::Replica, line, conf)
    }

    /// The same of any server. The nodes of a cluster have an address of their own each, since their second port is fixed.
    pub(crate) fn start_as(role: ServerRole, line: Line, conf: &str) -> Self {
        executable(line);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("vko-valkey-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let until = if role.is_data() { "Ready to accept connections" } else { "Sentinel ID is" };
        Self::start_in(role, line, conf, until, folder)
    }

    fn start_in(role: ServerRole, line: Line, conf: &str, until: &str, folder: PathBuf) -> Self {
        // Another process may take the free port before the server does.
        for _ in 0..5 {
            match Self::try_start(role, line, conf, until, folder.clone()) {
                Ok(server) => return server,
                Err(log) if log.contains("in use") => {}
                Err(log) => panic!("{line}: the server did not start:\n{log}"),
            }
        }
        panic!("{line}: no free port in five tries")
    }

    fn try_start(role: ServerRole, line: Line, conf: &str, until: &str, folder: PathBuf) -> Result<Self, String> {
        let ip = if role == ServerRole::Cluster { own_loopback() } else { Ipv4Addr::LOCALHOST };
        let port = TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().port();
        let tester = format!("user {TESTER} on #{} ~* &* +@all\n", hashes(TESTER)[0]);
        let place = format!("bind {ip}\nbind-source-addr {ip}\nport {port}\ndir {}\n", folder.display());
        let text = format!("{place}{}{tester}{}\n{conf}\n", login_elsewhere(role), user_lines(role, line));
        let mut start = Process::new(executable(line));
        if role.is_data() {
            start.arg("-");
        } else {
            // A Sentinel writes its file again and again.
            std::fs::write(folder.join("sentinel.conf"), &text).unwrap();
            start.arg(folder.join("sentinel.conf")).arg("--sentinel");
        }
        let mut process = start
            .env_clear()
            .env("LC_ALL", "C")
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server's executable should run");
        let mut stdin = process.stdin.take().unwrap();
        if role.is_data() {
            stdin.write_all(text.as_bytes()).unwrap();
        }
        drop(stdin);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut log = Vec::new();
        loop {
            match lines.next() {
                Some(Ok(text)) if text.contains(until) => break,
                Some(Ok(text)) => log.push(text),
                _ => {
                    let _ = process.wait();
                    return Err(log.join("\n"));
                }
            }
        }
        let log = Arc::new(Mutex::new(log));
        let more = Arc::clone(&log);
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|text| more.lock().unwrap().push(text)));
        let pod = format!("pod-{}", NUMBERS.fetch_add(1, Ordering::Relaxed));
        Ok(Self { process, folder, log, role, line, ip, port, pod })
    }

    /// Ends the process and starts another one in the same folder.
    pub(crate) fn restart(mut self, conf: &str, until: &str) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let folder = std::mem::take(&mut self.folder);
        Self::start_in(self.role, self.line, conf, until, folder)
    }

    /// Where an account of the operator's finds it.
    pub(crate) fn target(&self, account: &str) -> Target {
        let credential = Credential { user: account.to_owned(), password: Secret::new(password(account)) };
        Target { pod: self.pod.clone(), ip: IpAddr::V4(self.ip), port: self.port, credential }
    }

    /// A plain connection of an account, or without login.
    pub(crate) fn plain(&self, account: Option<&str>) -> redis::Connection {
        use redis::IntoConnectionInfo;
        let mut login = redis::RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(account) = account {
            login = login.set_username(account).set_password(password(account));
        }
        let address = redis::ConnectionAddr::Tcp(self.ip.to_string(), self.port);
        let info = address.into_connection_info().unwrap().set_redis_settings(login);
        redis::Client::open(info).unwrap().get_connection_with_timeout(LONG).unwrap()
    }

    /// Runs a command as the user that may do everything.
    pub(crate) fn run(&self, words: &[&str]) -> redis::Value {
        command(words).query(&mut self.plain(Some(TESTER))).unwrap_or_else(|error| panic!("{}: {words:?}: {error}", self.line))
    }

    /// All of INFO.
    pub(crate) fn info(&self) -> Info {
        let text: String = redis::from_redis_value(self.run(&["INFO"])).unwrap();
        Info::parse(&text)
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// The command names that the server denied to an account, newest first.
    pub(crate) fn denied(&self, account: &str) -> Vec<String> {
        let entries: Vec<std::collections::HashMap<String, redis::Value>> =
            redis::from_redis_value(self.run(&["ACL", "LOG"])).unwrap();
        let text = |entry: &std::collections::HashMap<String, redis::Value>, key: &str| -> String {
            redis::from_redis_value(entry[key].clone()).unwrap()
        };
        entries.iter().filter(|entry| text(entry, "username") == account).map(|entry| text(entry, "object")).collect()
    }
}

/// Who a server is where it logs in by itself.
fn login_elsewhere(role: ServerRole) -> String {
    let (replication, sentinel) = (Account::Replication.name(), Account::Sentinel.name());
    match role {
        ServerRole::Sentinel => {
            format!("sentinel sentinel-user {sentinel}\nsentinel sentinel-pass {}\n", password(sentinel))
        }
        _ => format!("masteruser {replication}\nmasterauth {}\n", password(replication)),
    }
}

/// A loopback address that no other server of this process has, nor likely one of another's.
fn own_loopback() -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed) % 250;
    Ipv4Addr::new(127, high % 127 + 1, low, u8::try_from(number).unwrap() + 2)
}

/// A command of plain words.
pub(crate) fn command(words: &[&str]) -> redis::Cmd {
    let mut cmd = redis::Cmd::new();
    for word in words {
        cmd.arg(*word);
    }
    cmd
}

/// The code of the error that a command brings, or `OK`.
pub(crate) fn code(connection: &mut redis::Connection, words: &[&str]) -> String {
    match command(words).query::<redis::Value>(connection) {
        Ok(_) => "OK".to_owned(),
        Err(error) => error.code().unwrap_or("no reply").to_owned(),
    }
}

fn executable(line: Line) -> PathBuf {
    let folder = std::env::var_os("VALKEY_SERVERS").expect(
        "VALKEY_SERVERS must name the folder of test servers (9.1/valkey-server ...): run 'tests/testbed/testbed servers'",
    );
    let path = PathBuf::from(folder).join(line.as_str()).join("valkey-server");
    assert!(path.is_file(), "{} is missing: run 'tests/testbed/testbed servers'", path.display());
    path
}

/// Asks again until it is so. A server announces nothing of this; the pause keeps the asking cheap.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < LONG, "{what}: not within {LONG:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The same where asking takes time.
pub(crate) async fn eventually_async(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !so().await {
        assert!(start.elapsed() < LONG, "{what}: not within {LONG:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One typed command, as an account.
pub(crate) async fn call(servers: &Administration, target: &Target, command: Command) -> Result<Reply, ServerError> {
    servers.call(target, command, LONG).await
}
