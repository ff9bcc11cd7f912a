//! The command line. Each flag is given once, as `--name value` or `--name=value`; what isn't known is refused, so that a typing
//! error in a pod template shows at the first start and not at the first fault.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Shown after an error.
pub(crate) const USAGE: &str = "\
usage: agent install DEST
       agent serve --server FILE --conf DIR --accounts DIR --data DIR --ip IP --port PORT
                   [--mode data|cluster|sentinel] [--start-file NAME] [--identity TEXT]
       agent probe live|ready --accounts DIR --ip IP --port PORT --run DIR --timeout-ms N [--mode data|cluster|sentinel]
       agent hook pre-stop --conf DIR --accounts DIR --ip IP --port PORT --grace-ms N
                   [--mode data|failover|cluster|sentinel]
       agent tied PID PROGRAM [ARGUMENT...]

--mode is data if it isn't given.";

/// What the server is a part of. `data` where nothing is said, so that templates of before there were modes stay valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Replication that the operator alone steers; for `serve` and probes every data server outside of a cluster.
    Data,
    /// Replication that Sentinels watch. Only a stop differs from [`Mode::Data`].
    Failover,
    /// A node of a cluster.
    Cluster,
    /// A Sentinel.
    Sentinel,
}

impl std::str::FromStr for Mode {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "data" => Ok(Self::Data),
            "failover" => Ok(Self::Failover),
            "cluster" => Ok(Self::Cluster),
            "sentinel" => Ok(Self::Sentinel),
            _ => Err(()),
        }
    }
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Copy this binary.
    Install {
        /// The file to write.
        destination: PathBuf,
    },
    /// Become the server.
    Serve(Serve),
    /// Become a program that ends with its starter.
    Tied {
        /// Process id of the starter.
        starter: i32,
        /// Program and arguments.
        words: Vec<String>,
    },
    /// Feed a configuration that a pipe can't hold: stdin to stdout. Only `serve` starts it.
    Feed,
    /// Liveness.
    Live(Probe),
    /// Readiness.
    Ready(Probe),
    /// Hand over before the server stops.
    PreStop(PreStop),
}

/// `serve`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Serve {
    /// What the server is.
    pub(crate) mode: Mode,
    /// The server's binary.
    pub(crate) server: PathBuf,
    /// Folder with `valkey.conf` and, outside of clusters, the start file; of a Sentinel with `sentinel.conf`.
    pub(crate) conf: PathBuf,
    /// Folder with `users.acl` and `replication`; of a Sentinel `users.acl` and `sentinel`.
    pub(crate) accounts: PathBuf,
    /// The server's working directory: data files, `nodes.conf`; of a Sentinel the folder in memory with its one writable file.
    pub(crate) data: PathBuf,
    /// The pod's address.
    pub(crate) ip: IpAddr,
    /// Client port.
    pub(crate) port: u16,
    /// Name of the file in `conf` that says how to start.
    pub(crate) start_file: String,
    /// What a Sentinel's id is made of: the same text gives the same id. Empty in the other modes.
    pub(crate) identity: String,
}

/// `probe`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// What the server is.
    pub(crate) mode: Mode,
    /// Folder with `probe`.
    pub(crate) accounts: PathBuf,
    /// The server's address; the loopback of its family is what gets dialled.
    pub(crate) ip: IpAddr,
    /// Client port.
    pub(crate) port: u16,
    /// Folder that lives as long as the pod: the note of the synced run.
    pub(crate) run: PathBuf,
    /// For the whole probe.
    pub(crate) timeout: Duration,
}

/// `hook pre-stop`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreStop {
    /// What the server is, and who moves the primary's role.
    pub(crate) mode: Mode,
    /// Folder with `ending` and, in mode `failover`, `sentinels`.
    pub(crate) conf: PathBuf,
    /// Folder with `hook`.
    pub(crate) accounts: PathBuf,
    /// The server's address; the loopback of its family is what gets dialled.
    pub(crate) ip: IpAddr,
    /// Client port.
    pub(crate) port: u16,
    /// The pod's termination grace period: hook and stop together.
    pub(crate) grace: Duration,
}

/// What is wrong with the arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArgsError {
    /// No such command.
    CommandUnknown(String),
    /// Not a flag of this command.
    FlagUnknown(String),
    /// Given twice.
    FlagRepeated(String),
    /// A flag at the end of the line.
    ValueMissing(String),
    /// A flag that this command needs.
    FlagMissing(&'static str),
    /// A value that isn't what the flag takes.
    ValueInvalid(&'static str, String, &'static str),
}

impl fmt::Display for ArgsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandUnknown(command) => write!(f, "unknown command '{command}'"),
            Self::FlagUnknown(flag) => write!(f, "unknown argument '{flag}'"),
            Self::FlagRepeated(flag) => write!(f, "'{flag}' is given twice; give it once"),
            Self::ValueMissing(flag) => write!(f, "'{flag}' needs a value"),
            Self::FlagMissing(name) => write!(f, "--{name} is missing"),
            Self::ValueInvalid(name, value, wanted) => write!(f, "--{name} '{value}' isn't {wanted}"),
        }
    }
}

/// The address of this server that is always there, for an agent beside it: the loopback of the family. An address that is a
/// loopback itself (servers side by side on one machine) is taken as it is.
pub(crate) fn local_address(ip: IpAddr) -> IpAddr {
    if ip.is_loopback() { ip } else { loopback(ip) }
}

/// `127.0.0.1` or `::1`, in the family of the address.
pub(crate) fn loopback(ip: IpAddr) -> IpAddr {
    if ip.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// Reads the arguments behind the program's name.
///
/// # Errors
/// Names the argument that is wrong.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, ArgsError> {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["install", destination] if !destination.starts_with('-') => {
            Ok(Command::Install { destination: PathBuf::from(destination) })
        }
        ["install", ..] => Err(ArgsError::FlagMissing("DEST, one file to write, ")),
        ["tied", starter, words @ ..] if !words.is_empty() => {
            let invalid = || ArgsError::ValueInvalid("PID", (*starter).to_owned(), "a process id");
            let starter = starter.parse().map_err(|_| invalid())?;
            Ok(Command::Tied { starter, words: words.iter().map(|word| (*word).to_owned()).collect() })
        }
        ["feed"] => Ok(Command::Feed),
        ["serve", rest @ ..] => serve(Flags::read(rest)?),
        ["probe", "live", rest @ ..] => probe(Flags::read(rest)?).map(Command::Live),
        ["probe", "ready", rest @ ..] => probe(Flags::read(rest)?).map(Command::Ready),
        ["hook", "pre-stop", rest @ ..] => pre_stop(Flags::read(rest)?),
        words => Err(ArgsError::CommandUnknown(words.iter().take(2).copied().collect::<Vec<_>>().join(" "))),
    }
}

fn serve(mut flags: Flags) -> Result<Command, ArgsError> {
    let mode = flags.server_mode()?;
    let serve = Serve {
        mode,
        server: flags.path("server")?,
        conf: flags.path("conf")?,
        accounts: flags.path("accounts")?,
        data: flags.path("data")?,
        ip: flags.parsed("ip", "an IP address")?,
        port: flags.port()?,
        start_file: flags.optional("start-file").unwrap_or_else(|| "start".to_owned()),
        identity: if mode == Mode::Sentinel { flags.required("identity")? } else { String::new() },
    };
    if serve.start_file.is_empty() || serve.start_file.contains('/') {
        return Err(ArgsError::ValueInvalid("start-file", serve.start_file, "a file's name without its folder"));
    }
    if mode == Mode::Sentinel && serve.identity.is_empty() {
        return Err(ArgsError::ValueInvalid("identity", String::new(), "a text that no other Sentinel has"));
    }
    flags.end().map(|()| Command::Serve(serve))
}

fn probe(mut flags: Flags) -> Result<Probe, ArgsError> {
    let probe = Probe {
        mode: flags.server_mode()?,
        accounts: flags.path("accounts")?,
        ip: flags.parsed("ip", "an IP address")?,
        port: flags.port()?,
        run: flags.path("run")?,
        timeout: flags.milliseconds("timeout-ms")?,
    };
    flags.end().map(|()| probe)
}

fn pre_stop(mut flags: Flags) -> Result<Command, ArgsError> {
    let stop = PreStop {
        mode: flags.mode("data, failover, cluster or sentinel")?,
        conf: flags.path("conf")?,
        accounts: flags.path("accounts")?,
        ip: flags.parsed("ip", "an IP address")?,
        port: flags.port()?,
        grace: flags.milliseconds("grace-ms")?,
    };
    flags.end().map(|()| Command::PreStop(stop))
}

/// Flags that nobody has taken yet.
struct Flags(Vec<(String, String)>);

impl Flags {
    fn read(words: &[&str]) -> Result<Self, ArgsError> {
        let mut flags: Vec<(String, String)> = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix("--") else { return Err(ArgsError::FlagUnknown((*word).to_owned())) };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value),
                None => (flag, *words.next().ok_or_else(|| ArgsError::ValueMissing((*word).to_owned()))?),
            };
            if flags.iter().any(|(known, _)| known == name) {
                return Err(ArgsError::FlagRepeated(format!("--{name}")));
            }
            flags.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self(flags))
    }

    fn optional(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn required(&mut self, name: &'static str) -> Result<String, ArgsError> {
        self.optional(name).ok_or(ArgsError::FlagMissing(name))
    }

    fn path(&mut self, name: &'static str) -> Result<PathBuf, ArgsError> {
        let value = self.required(name)?;
        if value.is_empty() { Err(ArgsError::ValueInvalid(name, value, "a path")) } else { Ok(value.into()) }
    }

    fn parsed<T: std::str::FromStr>(&mut self, name: &'static str, wanted: &'static str) -> Result<T, ArgsError> {
        let value = self.required(name)?;
        value.parse().map_err(|_| ArgsError::ValueInvalid(name, value, wanted))
    }

    fn mode(&mut self, wanted: &'static str) -> Result<Mode, ArgsError> {
        let Some(value) = self.optional("mode") else { return Ok(Mode::Data) };
        value.parse().map_err(|()| ArgsError::ValueInvalid("mode", value, wanted))
    }

    /// The mode of a server by itself: who watches it makes no difference to its start and its probes.
    fn server_mode(&mut self) -> Result<Mode, ArgsError> {
        const WANTED: &str = "data, cluster or sentinel";
        match self.mode(WANTED)? {
            Mode::Failover => Err(ArgsError::ValueInvalid("mode", "failover".to_owned(), WANTED)),
            mode => Ok(mode),
        }
    }

    fn port(&mut self) -> Result<u16, ArgsError> {
        match self.parsed("port", "a port (1 to 65535)")? {
            0 => Err(ArgsError::ValueInvalid("port", "0".to_owned(), "a port (1 to 65535)")),
            port => Ok(port),
        }
    }

    fn milliseconds(&mut self, name: &'static str) -> Result<Duration, ArgsError> {
        // An hour at most: a longer one is a mistake in units, and additions stay far from overflow.
        const WANTED: &str = "a number of milliseconds (1 to 3600000)";
        match self.parsed(name, WANTED)? {
            ms @ 1..=3_600_000 => Ok(Duration::from_millis(ms)),
            ms => Err(ArgsError::ValueInvalid(name, ms.to_string(), WANTED)),
        }
    }

    fn end(mut self) -> Result<(), ArgsError> {
        self.0.pop().map_or(Ok(()), |(name, _)| Err(ArgsError::FlagUnknown(format!("--{name}"))))
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
