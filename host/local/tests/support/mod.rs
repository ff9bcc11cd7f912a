//! A folder, and the program in it. What it starts ends with it, also when a test fails.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Reached only when something is wrong.
const PATIENCE: Duration = Duration::from_secs(90);

/// A Valkey named `demo`, with volumes.
pub(crate) fn manifest(arch: &str, replicas: &str) -> String {
    format!(
        "apiVersion: rds.valkey.buf.red/v1alpha1\nkind: Valkey\nmetadata: {{name: demo}}\nspec: {{version: '9.1', arch: {arch}, \
         replicas: {{{replicas}}}, storage: {{capacity: 1Gi}}, resources: {{limits: {{memory: 64Mi}}}}}}\n"
    )
}

pub(crate) struct World {
    folder: PathBuf,
    manifest: PathBuf,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("vko-local-{}-{name}", std::process::id()));
        Self { manifest: base.with_extension("yaml"), folder: base }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valkey-operator-local"));
        command.arg("--dir").arg(&self.folder).args(arguments).stdin(Stdio::null());
        command
    }

    fn write(&self, text: &str) -> &str {
        fs::write(&self.manifest, text).unwrap();
        self.manifest.to_str().unwrap()
    }

    pub(crate) fn up(&self, text: &str) -> Owner {
        Owner::start(self.command(&["up", "-f", self.write(text)]))
    }

    pub(crate) fn up_again(&self) -> Owner {
        Owner::start(self.command(&["up"]))
    }

    /// Standard error of an `up` that doesn't come up.
    pub(crate) fn refused_up(&self, text: &str) -> String {
        self.bad(&["up", "-f", self.write(text)])
    }

    pub(crate) fn apply(&self, text: &str) {
        self.good(&["apply", "-f", self.write(text)]);
    }

    /// Standard output of a delete of what a manifest names.
    pub(crate) fn delete(&self, text: &str) -> String {
        self.good(&["delete", "-f", self.write(text)])
    }

    pub(crate) fn refused_apply(&self, text: &str) -> String {
        self.bad(&["apply", "-f", self.write(text)])
    }

    /// Standard output of a command that works.
    pub(crate) fn good(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of one that doesn't.
    pub(crate) fn bad(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?} works: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.good(&["status", "-o", "json"])).unwrap()
    }

    /// Status, once all is ready.
    pub(crate) fn ready(&self) -> Value {
        let patience = PATIENCE.as_secs().to_string();
        serde_json::from_str(&self.good(&["status", "-o", "json", "--wait", &patience])).unwrap()
    }

    fn pods(&self) -> Vec<Value> {
        self.status()["instances"][0]["pods"].as_array().unwrap().clone()
    }

    pub(crate) fn primary(&self) -> String {
        let pods = self.pods();
        let primaries: Vec<_> = pods.iter().filter(|pod| pod["role"] == "primary").collect();
        assert_eq!(primaries.len(), 1, "{pods:?}");
        primaries[0]["name"].as_str().unwrap().to_owned()
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        self.pods().iter().filter_map(|pod| pod["process"].as_u64()).map(|process| process.try_into().unwrap()).collect()
    }

    /// Those that run of these processes.
    pub(crate) fn running(processes: &[u32]) -> Vec<u32> {
        let runs = |process: &u32| fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
        processes.iter().copied().filter(runs).collect()
    }

    pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < end, "never seen: {what}");
            std::thread::yield_now();
        }
    }

    /// What the server behind a way in answers.
    pub(crate) fn ask(&self, purpose: &str, words: &[&str]) -> String {
        let status = self.status();
        let ways = status["instances"][0]["ways"].as_array().unwrap();
        let way = ways.iter().find(|way| way["purpose"] == purpose).unwrap_or_else(|| panic!("no way {purpose}: {ways:?}"));
        self.exchange(&format!("{}:{}", way["ip"].as_str().unwrap(), way["port"]), words)
    }

    /// The same of a cluster, where the answer may be at another server.
    pub(crate) fn ask_cluster(&self, words: &[&str]) -> String {
        let answer = self.ask("cluster", words);
        match answer.strip_prefix("-MOVED ").and_then(|moved| moved.split(' ').nth(1)) {
            Some(there) => self.exchange(there, words),
            None => answer,
        }
    }

    fn exchange(&self, address: &str, words: &[&str]) -> String {
        let password = fs::read_to_string(self.file("passwords/default.demo")).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(format!("AUTH {password}\r\n{}\r\n", words.join(" ")).as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        let answer = lines.next().unwrap();
        if answer == "$-1" {
            String::new()
        } else if answer.starts_with('$') {
            lines.next().unwrap()
        } else {
            answer
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Owners are declared behind their world, and have ended by now.
        let _ = fs::remove_file(&self.manifest);
        if std::thread::panicking() {
            eprintln!("kept for a look: {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// An `up` that runs.
pub(crate) struct Owner {
    child: RefCell<Child>,
    lines: Receiver<String>,
    said: RefCell<Vec<String>>,
}

impl Owner {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let owner = Self { child: RefCell::new(child), lines, said: RefCell::default() };
        owner.line(|line| line.contains("the operator runs"));
        owner
    }

    /// Waits for a line that it says, from now on.
    pub(crate) fn line(&self, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("it never says that:\n{}", self.said()));
            self.said.borrow_mut().push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }

    /// All that it said.
    pub(crate) fn said(&self) -> String {
        self.said.borrow_mut().extend(self.lines.try_iter());
        self.said.borrow().join("\n")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.borrow().id()
    }

    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child.borrow()), Signal::TERM).unwrap();
    }

    pub(crate) fn kill(&self) {
        self.child.borrow_mut().kill().unwrap();
    }

    pub(crate) fn ended(&self) -> ExitStatus {
        self.child.borrow_mut().wait().unwrap()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        if child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // Its servers end with it.
            let _ = child.kill();
            let _ = child.wait();
            eprintln!("{}", self.said());
        }
    }
}
