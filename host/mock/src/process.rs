//! A process that ends with the value that stands for it, and with this process.
//!
//! # Guarantees
//! 1. Dropped, it is killed with its group.
//! 2. A program that the agent runs `tied` ([`tied`]) ends with this process, however that ends. The kernel's signal for it comes
//!    when the *thread* ends that started a program, so one thread, which never ends, starts all of them.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Where its output goes, behind what is there.
    pub log: PathBuf,
}

/// A running process, leader of a group of its own.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Ends of any children of ours.
    ends: tokio::signal::unix::Signal,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// The program or its log can't be opened.
    pub fn start(program: &Program) -> io::Result<Self> {
        let Some((name, arguments)) = program.words.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a container without a command"));
        };
        let log = File::options().create(true).append(true).open(&program.log)?;
        let mut command = Command::new(name);
        command.args(arguments).env_clear().envs(program.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        // Listening before the start, so that no end is missed.
        let ends = signal(SignalKind::child())?;
        Ok(Self { child: spawn(command)?, ends, status: None })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; may be dropped and asked again.
    ///
    /// # Errors
    /// The kernel doesn't say.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.status {
                return Ok(status);
            }
            if let Some(status) = self.child.try_wait()? {
                self.status = Some(status);
                return Ok(status);
            }
            if self.ends.recv().await.is_none() {
                return Err(io::Error::other("ends of processes aren't told any more"));
            }
        }
    }

    /// Sends a signal to it; nothing if it has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.is_running() {
            // It was not reaped, so its id is still its own.
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
        }
    }

    fn is_running(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The words of a program that ends with this process: the agent becomes it.
pub fn tied(agent: &Path, words: Vec<String>) -> Vec<String> {
    let before = [agent.to_string_lossy().into_owned(), "tied".to_owned(), std::process::id().to_string()];
    before.into_iter().chain(words).collect()
}

/// What the starting thread is asked, and where it answers.
type Order = (Command, SyncSender<io::Result<Child>>);

/// Starts a process from the one thread that does.
fn spawn(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, taken) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                // Whoever asked waits for it.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, answered) = sync_channel(1);
    let gone = || io::Error::other("the thread that starts processes has ended");
    orders.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

/// As the kubelet writes it: the code, or 128 and the signal's number.
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(words: &[&str], log: &str) -> Program {
        let log = std::env::temp_dir().join(format!("vko-process-{}-{log}", std::process::id()));
        Program { words: words.iter().map(|word| (*word).to_owned()).collect(), environment: vec![("A".into(), "b".into())], log }
    }

    #[tokio::test]
    async fn its_output_and_its_end_are_known() {
        let program = program(&["/bin/sh", "-c", "echo $A; exit 3"], "end");
        let status = Process::start(&program).unwrap().ended().await.unwrap();
        assert_eq!((exit_code(status), std::fs::read_to_string(&program.log).unwrap().as_str()), (3, "b\n"));
        std::fs::remove_file(&program.log).unwrap();
    }

    #[tokio::test]
    async fn signals_end_it() {
        let program = program(&["/bin/sh", "-c", "exec sleep 600"], "signal");
        for (signal, code) in [(Signal::TERM, 143), (Signal::KILL, 137)] {
            let mut process = Process::start(&program).unwrap();
            process.signal(signal);
            assert_eq!(exit_code(process.ended().await.unwrap()), code);
        }
        std::fs::remove_file(&program.log).unwrap();
    }

    #[tokio::test]
    async fn dropped_it_is_gone_with_its_children() {
        let program = program(&["/bin/sh", "-c", "sleep 600 & echo $!; wait"], "drop");
        let process = Process::start(&program).unwrap();
        let (own, mut child) = (process.id(), String::new());
        while !child.ends_with('\n') {
            tokio::task::yield_now().await;
            child = std::fs::read_to_string(&program.log).unwrap();
        }
        drop(process);
        let runs = |id: &str| std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
        assert!(!runs(&own.to_string()));
        // The child was killed with its group; whoever inherits it reaps it.
        while runs(child.trim()) {
            tokio::task::yield_now().await;
        }
        std::fs::remove_file(&program.log).unwrap();
    }
}
