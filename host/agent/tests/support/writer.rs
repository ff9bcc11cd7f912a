//! A client that writes while something else is tested, and the count of what was lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Client, Member, eventually, stderr};

/// In a cluster all keys are in one slot, 15495.
fn key(number: u64) -> String {
    format!("number:{{a}}:{number}")
}

/// Writes numbers, each to a key of its own, as fast as they are acknowledged; stays on its connection until an error.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    thread: JoinHandle<Vec<u64>>,
}

impl Writer {
    pub(crate) fn start(servers: Vec<SocketAddr>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (stopped, count) = (stop.clone(), acknowledged.clone());
        let thread = thread::spawn(move || {
            let mut written = Vec::new();
            let mut servers = servers.iter().cycle();
            let mut client = Client::login(*servers.next().unwrap());
            for number in 1.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let answer = client
                    .as_mut()
                    .map_err(|error| error.clone())
                    .and_then(|client| client.call(&["SET", &key(number), &number.to_string()]));
                match answer {
                    Ok(_) => {
                        written.push(number);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => client = Client::login(*servers.next().unwrap()),
                }
                // About 2000 a second: enough to be under way at each moment, and it leaves the cores to the servers.
                thread::sleep(Duration::from_micros(400));
            }
            written
        });
        Self { stop, acknowledged, thread }
    }

    pub(crate) fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn finish(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Which of these numbers a member doesn't have.
pub(crate) fn lost(written: &[u64], member: &Member) -> Vec<u64> {
    let mut client = member.client();
    let is_lost = |number: &&u64| client.call(&["GET", &key(**number)]) != Ok(number.to_string());
    written.iter().filter(is_lost).copied().collect()
}

/// The role goes to the replica and back by pre-stop hooks while a client writes, and nothing is lost. `settle` waits until the
/// old primary follows the new one: it is given both.
pub(crate) fn hand_over_back_and_forth(one: &Member, other: &Member, times: usize, settle: impl Fn(&Member, &Member)) {
    let (mut primary, mut replica, line) = (one, other, one.line);
    let writer = Writer::start(vec![primary.address(), replica.address()]);
    for round in 0..times {
        let before = writer.count();
        eventually("writes are under way", || writer.count() > before + 100);
        let output = primary.pre_stop("30000");
        assert!(output.status.success(), "{line}, round {round}: {}", stderr(&output));
        assert!(stderr(&output).contains(&format!("handed over to {}", replica.address())), "{line}: {}", stderr(&output));
        assert_eq!((primary.info("role"), replica.info("role")), ("slave".to_owned(), "master".to_owned()));
        let after = writer.count();
        eventually("writes go on", || writer.count() > after + 100);
        settle(replica, primary);
        (primary, replica) = (replica, primary);
    }
    let written = writer.finish();
    assert!(written.len() > 200 * times, "{line}: only {} writes", written.len());
    assert_eq!(lost(&written, primary), Vec::<u64>::new(), "{line}");
}
