//! A hand-over by Sentinels that loses nothing.
//!
//! # Guarantees
//! - No acknowledged write is lost. A plain SENTINEL FAILOVER leaves the old primary taking writes for some 11 s, all of them
//!   lost: so writes are held back here before it is ordered, and every replica that the Sentinels could choose has all of them.
//! - If no Sentinel takes the order, writes go on. If one does, they stay held back, also when nobody has taken over in time: the
//!   Sentinels may still be at it. The server stops next; whatever keeps it running, the Sentinels make it a replica before the
//!   pause is over, or it ends.
//! - A Sentinel that can't be reached keeps nobody from asking the next one, and neither does a name service that doesn't answer.
//!
//! # Assumptions
//! - Which replica they choose is the Sentinels' matter; they know offsets only as of their last look, up to 10 s old. So all
//!   replicas count, and one that isn't synced is a reason not to ask.
//! - The account `hook` is known to the Sentinels, with the same password, or they are open to everybody, or the file names a
//!   login.
//!
//! # Flow
//! 1. CLIENT PAUSE (writes, short), then wait until every replica says by itself that it has all.
//! 2. CLIENT PAUSE again, for longer than the Sentinels need for all of it.
//! 3. SENTINEL FAILOVER at the first Sentinel that takes it. Nobody does: CLIENT UNPAUSE.
//! 4. Wait until one replica says, on a new connection, that it is the primary.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::attempt::{LOOK_EVERY, LOOK_TIMEOUT, Server};
use crate::files;
use crate::handover::{self, View};
use crate::info;
use crate::resp::{self, Reply, RespError};

/// The file that says whom to ask.
const FILE: &str = "sentinels";
/// Sentinels that are asked, at most: there are seldom more than five, and a name may stand for many addresses.
const SENTINELS_MAX: usize = 16;
/// How long names are looked up, all of them together. A name service that works answers in milliseconds.
const LOOK_UP: Duration = Duration::from_secs(3);
/// How long writes are held back while replicas catch up; the pause ends by itself if we are killed.
const CATCH_UP: Duration = Duration::from_secs(2);
/// How long writes are held back while the Sentinels act: a promotion takes 0.2 s, and until this server is made a replica 11 to
/// 12 s.
const ACT_PAUSE_MS: &str = "15000";

/// Whom to ask, and by what name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    watchers: Vec<Watcher>,
    /// Of the user that a line names.
    password: Option<String>,
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Watcher {
    /// An address, or a name that stands for all of them.
    host: String,
    port: u16,
    /// What they call the primary.
    monitor: String,
    /// Who logs in there, if not the hook.
    user: Option<String>,
}

/// Why the Sentinels didn't move the role.
#[derive(Debug)]
pub(crate) enum SentinelsError {
    /// The file isn't there or not readable.
    File(files::FileError),
    /// A line that isn't `HOST PORT NAME` or `HOST PORT NAME USER`. Lines count from 1.
    LineMalformed(usize),
    /// A replica that they could choose isn't synced; its address if it is known.
    ReplicaBehind(Option<SocketAddr>),
    /// The server here refused to hold writes back, or doesn't say how far it is.
    NotPaused(RespError),
    /// No host of the file has an address, or none was there to ask.
    NobodyToAsk,
    /// All refused or didn't answer; the last one.
    Refused(RespError),
    /// It was ordered, and no replica became the primary.
    NobodyPromoted,
}

impl fmt::Display for SentinelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::LineMalformed(line) => write!(f, "{FILE}:{line}: must be 'HOST PORT NAME' or 'HOST PORT NAME USER'"),
            Self::ReplicaBehind(Some(replica)) => {
                write!(f, "{replica} isn't synced and the Sentinels could choose it; writes go on")
            }
            Self::ReplicaBehind(None) => f.write_str("a replica isn't synced and the Sentinels could choose it; writes go on"),
            Self::NotPaused(error) => write!(f, "writes can't be held back: {error}"),
            Self::NobodyToAsk => f.write_str("no Sentinel has an address"),
            Self::Refused(error) => write!(f, "no Sentinel took the order: {error}"),
            Self::NobodyPromoted => f.write_str("the Sentinels took the order and have promoted nobody yet; writes wait"),
        }
    }
}

impl Sentinels {
    /// Reads the file, and the password of whom it names.
    ///
    /// # Errors
    /// It isn't there, or a line is wrong.
    pub(crate) fn read(conf: &Path, accounts: &Path) -> Result<Self, SentinelsError> {
        let watchers = parse(&files::text(conf, FILE).map_err(SentinelsError::File)?)?;
        // Without it everybody is tried as where no user is named.
        let password = watchers.iter().any(|watcher| watcher.user.is_some()).then(|| files::password(accounts, FILE).ok());
        Ok(Self { watchers, password: password.flatten() })
    }

    /// All of it, by `end` at the latest but for the last answer. Says who took over.
    ///
    /// # Errors
    /// Nobody did.
    pub(crate) fn hand_over(
        &self,
        server: &Server,
        view: &View,
        time: Duration,
        end: Instant,
    ) -> Result<SocketAddr, SentinelsError> {
        let replicas = able(view)?;
        // Before writes are held back: a name may take its time.
        let sentinels = self.places(end.min(Instant::now() + LOOK_UP));
        if sentinels.is_empty() {
            return Err(SentinelsError::NobodyToAsk);
        }
        if let Err(error) = hold_writes(server, &replicas).and_then(|()| self.order(server, &sentinels, end)) {
            // A server that doesn't answer lets writes go on when the pause is over.
            let _ = server.ask(server.address, &["CLIENT", "UNPAUSE"]);
            return Err(error);
        }
        promoted(server, &replicas, end.min(Instant::now() + time)).ok_or(SentinelsError::NobodyPromoted)
    }

    /// Each address, and the line that it comes from.
    fn places(&self, until: Instant) -> Vec<(SocketAddr, &Watcher)> {
        let found = self
            .watchers
            .iter()
            .flat_map(|watcher| addresses(&watcher.host, watcher.port, until).into_iter().map(move |address| (address, watcher)));
        let mut places: Vec<_> = found.collect();
        places.sort_unstable();
        places.dedup();
        places.truncate(SENTINELS_MAX);
        places
    }

    /// The first that takes it. Two would begin two failovers; so after silence nobody else is asked.
    fn order(&self, server: &Server, sentinels: &[(SocketAddr, &Watcher)], end: Instant) -> Result<(), SentinelsError> {
        let mut last = SentinelsError::NobodyToAsk;
        for (sentinel, watcher) in sentinels.iter().take_while(|_| Instant::now() < end) {
            match self.ask(server, *sentinel, watcher, &["SENTINEL", "FAILOVER", &watcher.monitor]) {
                Ok(_) | Err(RespError::ServerSilent(_) | RespError::ConnectionLost(..)) => return Ok(()),
                // Another's is under way: what it leads to is what we wait for.
                Err(RespError::CommandRefused(_, text)) if text.starts_with("INPROG") => return Ok(()),
                Err(error) => last = SentinelsError::Refused(error),
            }
        }
        Err(last)
    }

    /// As whom the file names, or else as the hook; where nobody knows that one, as everybody.
    fn ask(&self, server: &Server, sentinel: SocketAddr, watcher: &Watcher, command: &[&str]) -> Result<Reply, RespError> {
        if let (Some(user), Some(password)) = (&watcher.user, &self.password) {
            return resp::ask(sentinel, user, password, command, Instant::now() + LOOK_TIMEOUT);
        }
        let refused = match server.ask(sentinel, command) {
            Err(error @ RespError::LoginRefused(..)) => error,
            other => return other,
        };
        match resp::exchange(sentinel, &[command], Instant::now() + LOOK_TIMEOUT)?.pop() {
            Some(Reply::Error(text)) if text.starts_with("NOAUTH") => Err(refused),
            Some(Reply::Error(text)) => Err(RespError::CommandRefused(sentinel, text)),
            Some(reply) => Ok(reply),
            None => Err(refused),
        }
    }
}

fn parse(text: &str) -> Result<Vec<Watcher>, SentinelsError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| watcher(line).ok_or(SentinelsError::LineMalformed(index + 1))).collect()
}

fn watcher(line: &str) -> Option<Watcher> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (host, port, monitor, user) = match words[..] {
        [host, port, monitor] => (host, port, monitor, None),
        [host, port, monitor, user] => (host, port, monitor, Some(user.to_owned())),
        _ => return None,
    };
    Some(Watcher { host: host.to_owned(), port: port.parse().ok()?, monitor: monitor.to_owned(), user })
}

/// What a host stands for. A look-up that hangs is left behind: it ends with this process.
fn addresses(host: &str, port: u16, until: Instant) -> Vec<SocketAddr> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return vec![SocketAddr::new(ip, port)];
    }
    let (found, answer) = mpsc::channel();
    let name = host.to_owned();
    thread::spawn(move || {
        let addresses = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Nobody may be waiting any more.
        let _ = found.send(addresses.unwrap_or_default());
    });
    answer.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap_or_default()
}

/// The replicas' addresses, if every one of them could take over.
fn able(view: &View) -> Result<Vec<SocketAddr>, SentinelsError> {
    let address = |replica: &info::Attached| match replica.address {
        Some(address) if handover::able(replica) => Ok(address),
        other => Err(SentinelsError::ReplicaBehind(other)),
    };
    view.replicas.iter().map(address).collect()
}

/// Holds writes back until every replica has all of them.
fn hold_writes(server: &Server, replicas: &[SocketAddr]) -> Result<(), SentinelsError> {
    let pause = |ms: &str| server.ask(server.address, &["CLIENT", "PAUSE", ms, "WRITE"]).map_err(SentinelsError::NotPaused);
    pause(&CATCH_UP.as_millis().to_string())?;
    let until = Instant::now() + CATCH_UP;
    let end = offset(server, server.address, "master_repl_offset").map_err(SentinelsError::NotPaused)?;
    for replica in replicas {
        while offset(server, *replica, "slave_repl_offset").is_ok_and(|offset| offset < end) && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        if !offset(server, *replica, "slave_repl_offset").is_ok_and(|offset| offset >= end) {
            return Err(SentinelsError::ReplicaBehind(Some(*replica)));
        }
    }
    pause(ACT_PAUSE_MS)?;
    // Had the first pause run out before the second began, writes could have come between.
    if Instant::now() < until { Ok(()) } else { Err(SentinelsError::ReplicaBehind(replicas.last().copied())) }
}

/// Who says that it is the primary.
fn promoted(server: &Server, replicas: &[SocketAddr], until: Instant) -> Option<SocketAddr> {
    loop {
        if let Some(primary) = replicas.iter().find(|replica| server.is_primary(**replica)) {
            return Some(*primary);
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn offset(server: &Server, of: SocketAddr, name: &str) -> Result<u64, RespError> {
    let invalid = || RespError::ReplyInvalid(of, "no offset to INFO replication");
    match server.ask(of, &["INFO", "replication"])? {
        Reply::Text(info) => info::field(&info, name).and_then(|value| value.parse().ok()).ok_or_else(invalid),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::handover::Role;
    use crate::info::Attached;

    fn places(text: &str) -> Vec<(String, String)> {
        let sentinels = Sentinels { watchers: parse(text).unwrap(), password: None };
        let places = sentinels.places(Instant::now());
        places.iter().map(|(address, watcher)| (address.to_string(), watcher.monitor.clone())).collect()
    }

    #[test]
    fn the_file_names_hosts_and_what_is_watched_there() {
        let pair = |address: &str, monitor: &str| (address.to_owned(), monitor.to_owned());
        let text = "10.0.0.1 26379 ns.a\n\nfd00::1 26380 mymaster\n10.0.0.1 26379 ns.a\n";
        assert_eq!(places(text), [pair("10.0.0.1:26379", "ns.a"), pair("[fd00::1]:26380", "mymaster")]);
        assert_eq!(places(""), []);
        let user = |text: &str| parse(text).unwrap()[0].user.clone();
        assert_eq!((user("a 1 m"), user("a 1 m u")), (None, Some("u".to_owned())));
        for (text, line) in [("a", 1), ("a 1 m\nb x m", 2), ("a 1", 1), ("a 70000 m", 1), ("a 1 m u more", 1), ("monitor m", 1)] {
            assert!(matches!(parse(text), Err(SentinelsError::LineMalformed(at)) if at == line), "{text}");
        }
    }

    /// The file as the operator renders it; the snapshots are its own test's.
    #[test]
    fn what_the_operator_renders_is_read() {
        for (map, expected) in [
            (
                include_str!("../../core/tests/snapshots/failover-own/ConfigMap-rfr-failover-own.json"),
                vec!["rfs-failover-own.shop.svc.cluster.local. 26379 mymaster"],
            ),
            (
                include_str!("../../core/tests/snapshots/failover-referring/ConfigMap-rfr-failover-referring.json"),
                vec![
                    "10.0.0.1 26379 shop.failover-referring",
                    "10.0.0.2 26379 shop.failover-referring",
                    "10.0.0.3 26379 shop.failover-referring",
                ],
            ),
        ] {
            let text = map.split_once("\"sentinels\": \"").unwrap().1.split_once('"').unwrap().0.replace("\\n", "\n");
            let lines = |watcher: &Watcher| format!("{} {} {}", watcher.host, watcher.port, watcher.monitor);
            assert_eq!(parse(&text).unwrap().iter().map(lines).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_name_is_looked_up_and_not_for_ever() {
        let soon = Instant::now() + Duration::from_secs(5);
        assert!(addresses("localhost", 7, soon).iter().all(|address| address.ip().is_loopback() && address.port() == 7));
        assert!(!addresses("localhost", 7, soon).is_empty());
        assert_eq!(addresses("localhost", 7, Instant::now() - Duration::from_secs(1)), [], "the time is up");
    }

    #[test]
    fn one_replica_that_cant_take_over_is_enough() {
        let at = |last: u8| Some(SocketAddr::from(([10, 0, 0, last], 6379)));
        let good = |last| Attached { address: at(last), online: true, offset: 5, lag_seconds: 0 };
        let view = |replicas| View { role: Role::Primary, failover: false, replicas };
        assert_eq!(able(&view(vec![good(1), good(2)])).unwrap(), [at(1).unwrap(), at(2).unwrap()]);
        for bad in [
            Attached { online: false, ..good(3) },
            Attached { offset: 0, ..good(3) },
            Attached { lag_seconds: 2, ..good(3) },
            Attached { address: None, ..good(3) },
        ] {
            let address = bad.address;
            let error = able(&view(vec![good(1), bad])).unwrap_err();
            assert!(matches!(error, SentinelsError::ReplicaBehind(of) if of == address), "{error}");
        }
    }
}
