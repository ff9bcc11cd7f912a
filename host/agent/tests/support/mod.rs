//! A member as it is in a pod: its folders, the agent, and a real server. Addresses are loopback ones that no other test uses.
//!
//! The servers come from the folder in `VALKEY_SERVERS`: `9.1/valkey-server` and so on.

#![allow(dead_code, missing_docs)]

pub(crate) mod cluster;
pub(crate) mod sentinels;
pub(crate) mod writer;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The server lines that are supported.
pub(crate) const LINES: [&str; 3] = ["9.1", "8.1", "7.2"];
/// What each account logs in with. Long and unlike anything else: searches for them must not find something else.
pub(crate) const ACCOUNTS: [(&str, &str, &str); 5] = [
    ("default", "default-Zq83\"x\\ #kUe7", "~* &* +@all"),
    ("replication", "replication-Vb52\"y\\ #mWq1", "resetkeys resetchannels -@all +psync +replconf +sync"),
    ("probe", "probe-Hn19\"z\\ #pLx4", "resetkeys resetchannels -@all +ping +info +cluster|info"),
    (
        "hook",
        "hook-Rt64\"w\\ #sGc8",
        "resetkeys resetchannels -@all +info +role +failover +cluster|failover +cluster|nodes +client|pause +client|unpause",
    ),
    (
        "sentinel",
        "sentinel-Jd27\"v\\ #tMb3",
        "resetkeys resetchannels -@all +ping +info +publish +subscribe +multi +exec +slaveof +client|setname +client|kill \
         +config|rewrite &__sentinel__:hello",
    ),
];
/// The rules that a Sentinel has instead.
const AT_SENTINELS: [(&str, &str); 4] = [
    ("default", "resetkeys allchannels +@all"),
    ("probe", "resetkeys resetchannels -@all +ping"),
    ("hook", "resetkeys resetchannels -@all +sentinel|failover"),
    (
        "sentinel",
        "resetkeys resetchannels -@all +ping +publish +client|setname +sentinel|is-master-down-by-addr &__sentinel__:hello",
    ),
];

fn user_lines(mode: &str) -> String {
    let rules = |name: &str, rules: &'static str| match mode {
        "sentinel" => AT_SENTINELS.iter().find(|(there, _)| *there == name).map(|(_, rules)| *rules),
        _ => Some(rules),
    };
    let lines = ACCOUNTS
        .iter()
        .filter_map(|(name, password, usual)| Some(format!("user {name} on #{} {}\n", sha256(password), rules(name, usual)?)));
    lines.collect()
}

pub(crate) fn password(account: &str) -> &'static str {
    ACCOUNTS.iter().find(|(name, ..)| *name == account).map(|(_, password, _)| *password).unwrap()
}

pub(crate) fn server_binary(line: &str) -> PathBuf {
    let folder = std::env::var_os("VALKEY_SERVERS").expect(
        "VALKEY_SERVERS must name the folder with the servers of each line (9.1/valkey-server ...); tests/testbed makes it",
    );
    let binary = Path::new(&folder).join(line).join("valkey-server");
    assert!(binary.exists(), "{} doesn't exist: VALKEY_SERVERS is incomplete", binary.display());
    binary
}

pub(crate) fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vko-agent")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Looks again until it holds. The bound is there for a test that would hang; nothing depends on how long it took.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "never came: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What the tests of data servers start with.
const CONF: &str =
    "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\ntcp-keepalive 5\nsave \"\"\nenable-debug-command no\n";

static NEXT: AtomicU8 = AtomicU8::new(1);

fn address(number: u8) -> IpAddr {
    let pid = std::process::id();
    Ipv4Addr::new(127, 64 + (pid / 256 % 128) as u8, (pid % 256) as u8, number).into()
}

pub(crate) struct Member {
    /// As `--mode` of `serve` and the probes.
    pub(crate) mode: &'static str,
    /// As `--mode` of the hook.
    pub(crate) hook_mode: &'static str,
    pub(crate) line: &'static str,
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
    pub(crate) folder: PathBuf,
    child: Option<Child>,
}

impl Member {
    /// The folders as the operator fills them; nothing runs yet.
    pub(crate) fn new(line: &'static str, start: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self::at(line, start, address(number), 6379)
    }

    pub(crate) fn at(line: &'static str, start: &str, ip: IpAddr, port: u16) -> Self {
        let member = Self::with_folders("data", line, ip, port);
        member.write("conf/valkey.conf", CONF);
        member.write("conf/start", start);
        member.write("conf/ending", "no");
        member
    }

    /// A member whose folders have its accounts, and no configuration yet.
    fn with_folders(mode: &'static str, line: &'static str, ip: IpAddr, port: u16) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("vko-agent-{}-{number}", std::process::id()));
        let member = Self { mode, hook_mode: mode, line, ip, port, folder, child: None };
        for name in ["conf", "accounts", "data", "run"] {
            fs::create_dir_all(member.folder.join(name)).unwrap();
        }
        for (name, password, _) in ACCOUNTS {
            // What no pod mounts: the default account's password.
            if name != "default" {
                member.write(&format!("accounts/{name}"), password);
            }
        }
        member.write("accounts/users.acl", &user_lines(mode));
        member
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.join(name), content).unwrap();
    }

    pub(crate) fn append(&self, name: &str, content: &str) {
        let old = fs::read_to_string(self.folder.join(name)).unwrap();
        self.write(name, &(old + content));
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    /// `agent serve` with the given program as the server.
    pub(crate) fn serve(&self, server: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vko-agent"));
        command
            .args(["serve", "--server", server.to_str().unwrap(), "--conf", &self.path("conf")])
            .args(["--accounts", &self.path("accounts"), "--data", &self.path("data")])
            .args(["--ip", &self.ip.to_string(), "--port", &self.port.to_string(), "--mode", self.mode])
            .env("SERVE_MARK", "must not get through")
            .env("LC_ALL", "no_SUCH.locale");
        if self.mode == "sentinel" {
            command.args(["--identity", &self.identity()]);
        }
        command
    }

    /// What a Sentinel's id is made of.
    pub(crate) fn identity(&self) -> String {
        format!("uid.{}", self.ip)
    }

    pub(crate) fn start(mut self) -> Self {
        self.start_again();
        self
    }

    /// Starts and waits until it serves.
    pub(crate) fn start_again(&mut self) {
        let question: &[&str] = if self.mode == "data" { &["EXISTS", "key"] } else { &["PING"] };
        self.start_until("the server serves", |server| {
            Client::login(server).and_then(|mut client| client.call(question)).is_ok()
        });
    }

    /// Starts and waits for the first answer, which may be that it loads.
    pub(crate) fn start_again_loading(&mut self) {
        self.start_until("the server answers", |server| Client::login(server).is_ok());
    }

    /// Starts and waits until the agent says that it holds the start back.
    pub(crate) fn start_again_held(&mut self) {
        self.start_until("held", |server| Client::login(server).is_err_and(|error| error.starts_with("HELD behind: ")));
    }

    fn start_until(&mut self, what: &str, holds: impl Fn(SocketAddr) -> bool) {
        let log = File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let mut command = self.serve(&server_binary(self.line));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        eventually(what, || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {}", self.log());
            holds(self.address())
        });
    }

    /// What agent and server wrote.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Waits for the process to end by itself; its code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let mut status = None;
        eventually("the process ends", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }

    pub(crate) fn client(&self) -> Client {
        Client::login(self.address()).unwrap()
    }

    pub(crate) fn info(&self, name: &str) -> String {
        let info = self.client().text(&["INFO", "everything"]);
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().to_owned()
    }

    pub(crate) fn follow(&self, primary: &Self) {
        let ok = self.client().text(&["REPLICAOF", &primary.ip.to_string(), &primary.port.to_string()]);
        assert_eq!(ok, "OK");
    }

    /// One more replica, synced, and its primary knows.
    pub(crate) fn join(&self) -> Self {
        let replica = Self::new(self.line, "named").start();
        replica.follow(self);
        eventually("synced", || replica.ready());
        self.wait_acknowledged(&replica);
        replica
    }

    /// Waits until this primary has a replica's acknowledgement.
    pub(crate) fn wait_acknowledged(&self, replica: &Self) {
        eventually("acknowledged", || self.acknowledged(replica).is_some_and(|offset| offset > 0));
    }

    /// Waits until a replica has acknowledged all that was written so far.
    pub(crate) fn wait_acknowledged_all(&self, replica: &Self) {
        let end: u64 = self.info("master_repl_offset").parse().unwrap();
        eventually("all acknowledged", || self.acknowledged(replica).is_some_and(|offset| offset >= end));
    }

    fn acknowledged(&self, replica: &Self) -> Option<u64> {
        let known = format!("ip={},port={},state=online,", replica.ip, replica.port);
        let info = self.client().text(&["INFO", "replication"]);
        let line = info.lines().find(|line| line.contains(&known))?;
        line.split(',').find_map(|part| part.strip_prefix("offset=")?.parse().ok())
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn probe(&self, kind: &str) -> Output {
        agent(&[
            "probe",
            kind,
            "--accounts",
            &self.path("accounts"),
            "--ip",
            &self.ip.to_string(),
            "--port",
            &self.port.to_string(),
            "--run",
            &self.path("run"),
            "--timeout-ms",
            "2000",
            "--mode",
            self.mode,
        ])
    }

    pub(crate) fn ready(&self) -> bool {
        self.probe("ready").status.success()
    }

    pub(crate) fn pre_stop(&self, grace_ms: &str) -> Output {
        agent(&[
            "hook",
            "pre-stop",
            "--conf",
            &self.path("conf"),
            "--accounts",
            &self.path("accounts"),
            "--ip",
            &self.ip.to_string(),
            "--port",
            &self.port.to_string(),
            "--grace-ms",
            grace_ms,
            "--mode",
            self.hook_mode,
        ])
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("kept for a look: {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

pub(crate) fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One lasting connection.
pub(crate) struct Client(BufReader<TcpStream>);

/// A reply, or why there is none.
pub(crate) type Answer = Result<String, String>;

impl Client {
    /// Without a login.
    pub(crate) fn plain(server: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect_timeout(&server, Duration::from_secs(5)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Ok(Self(BufReader::new(stream)))
    }

    /// As the default user.
    pub(crate) fn login(server: SocketAddr) -> Result<Self, String> {
        let mut client = Self::plain(server)?;
        client.call(&["AUTH", password("default")])?;
        Ok(client)
    }

    pub(crate) fn call(&mut self, words: &[&str]) -> Answer {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(bytes.as_bytes()).map_err(|error| error.to_string())?;
        self.read()
    }

    pub(crate) fn text(&mut self, words: &[&str]) -> String {
        self.call(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Lists come as their elements, a line each.
    fn read(&mut self) -> Answer {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).map_err(|error| error.to_string())?;
        let (Some(kind), true) = (line.chars().next(), read > 0) else { return Err("closed".to_owned()) };
        let rest = line[1..].trim_end().to_owned();
        match kind {
            '-' => Err(rest),
            '$' if rest != "-1" => {
                let mut body = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut body).map_err(|error| error.to_string())?;
                body.truncate(body.len() - 2);
                Ok(String::from_utf8(body).unwrap())
            }
            '*' => {
                (0..rest.parse().unwrap_or(0)).map(|_| self.read()).collect::<Result<Vec<_>, _>>().map(|lines| lines.join("\n"))
            }
            _ => Ok(rest),
        }
    }
}
