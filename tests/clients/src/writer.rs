//! The numbered-writes client: an application that writes while a fault lasts, and knows afterwards what it was promised.
//!
//! # Guarantees
//! 1. Each number is written once, to a key of its own, and noted only when its `OK` was read. A write without an answer is
//!    promised nothing.
//! 2. All threads have ended when [`Writer::stop`] returns.
//!
//! # Flow
//! 1. Several connections write side by side, each with a pause that bounds the rate (and so the memory of the instance).
//! 2. Now and then each reads its newest acknowledged number back, on the same Service.
//! 3. An error ends the connection; the next one is made after a breath, as client libraries do.
//! 4. [`Record::verify`] reads every acknowledged number and holds the missing ones against the published bound.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure};
use redis::RedisResult;

use crate::entrance::{Entrance, Session};
use crate::losses::Bound;
use crate::{Result, figure};

/// Connections side by side: enough for the rate where an answer takes several milliseconds.
const CONNECTIONS: u64 = 6;
/// Between two writes of a connection: at most 1,200 a second together.
const PAUSE: Duration = Duration::from_millis(5);
/// Before a new connection after an error.
const BREATH: Duration = Duration::from_millis(20);
/// Acknowledged writes per second below which a run shows nothing about losses.
pub const RATE_MIN: f64 = 500.0;
/// Without any acknowledgement for longer than this, there is an outage; it doesn't count against the rate.
const OUTAGE: Duration = Duration::from_millis(500);
/// Every so many writes, the newest acknowledged number is read back.
const READ_EVERY: u64 = 20;
/// Keys in one request of the final reading.
const BATCH: usize = 1000;

/// How hard a client writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Connections side by side.
    pub connections: u64,
    /// Between two writes of a connection.
    pub pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { connections: CONNECTIONS, pause: PAUSE }
    }
}

/// An acknowledged number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The number.
    pub number: u64,
    /// When the acknowledgement was read.
    pub at: Instant,
}

#[derive(Debug, Default)]
struct Notes {
    name: String,
    acks: Vec<Ack>,
    reads: u64,
    missed: Vec<Ack>,
    errors: u64,
    last_error: String,
}

/// A running client.
#[derive(Debug)]
pub struct Writer {
    stop: Arc<AtomicBool>,
    notes: Arc<Mutex<Notes>>,
    threads: Vec<JoinHandle<()>>,
    started: Instant,
}

/// What a client was promised.
#[derive(Debug)]
pub struct Record {
    /// First part of the keys' names.
    pub name: String,
    /// Acknowledged writes in the order of their acknowledgements.
    pub acks: Vec<Ack>,
    /// How many numbers were read back during the run, and those of them that were not there.
    pub reads: (u64, Vec<Ack>),
    /// Failed writes and reads.
    pub errors: u64,
    /// The last of them.
    pub last_error: String,
    started: Instant,
    ended: Instant,
}

impl Writer {
    /// Starts to write, to keys of the name `w`.
    pub fn start(entrance: impl Into<Entrance>) -> Self {
        Self::start_named(entrance, "w", Pace::default())
    }

    /// The same with another name: two clients of one instance must not write to the same keys.
    pub fn start_named(entrance: impl Into<Entrance>, name: &str, pace: Pace) -> Self {
        let notes = Notes { name: name.to_owned(), ..Notes::default() };
        let (stop, notes) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(notes)));
        let entrance = entrance.into();
        let threads = (0..pace.connections)
            .map(|number| {
                let (entrance, stop, notes, name) = (entrance.clone(), stop.clone(), notes.clone(), name.to_owned());
                std::thread::spawn(move || Connections { entrance, stop, notes, name, pace, number, last: None }.run())
            })
            .collect();
        Self { stop, notes, threads, started: Instant::now() }
    }

    /// Waits until so many more writes were acknowledged.
    ///
    /// # Errors
    /// They aren't within a minute.
    pub fn wait_acks(&self, more: usize) -> Result {
        let goal = self.acks() + more;
        crate::wait::until(&format!("{more} more acknowledged writes"), Duration::from_secs(60), || {
            let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(crate::wait::Look::when((notes.acks.len() >= goal).then_some(()), || {
                format!("{} of {goal}; last error: {}", notes.acks.len(), notes.last_error)
            }))
        })
    }

    /// Acknowledged so far.
    pub fn acks(&self) -> usize {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).acks.len()
    }

    /// When the newest acknowledgement was read.
    pub fn last_ack(&self) -> Option<Instant> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).acks.iter().map(|ack| ack.at).max()
    }

    /// Stops writing.
    ///
    /// # Errors
    /// A thread of it panicked.
    pub fn stop(mut self) -> Result<Record> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in std::mem::take(&mut self.threads) {
            thread.join().map_err(|_| anyhow!("a connection of the client panicked"))?;
        }
        let mut notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        notes.acks.sort_by_key(|ack| ack.at);
        let Notes { name, acks, reads, missed, errors, last_error } = notes;
        Ok(Record { name, acks, reads: (reads, missed), errors, last_error, started: self.started, ended: Instant::now() })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// One connection after the other, in a thread of their own.
struct Connections {
    entrance: Entrance,
    stop: Arc<AtomicBool>,
    notes: Arc<Mutex<Notes>>,
    name: String,
    pace: Pace,
    number: u64,
    last: Option<Ack>,
}

impl Connections {
    fn run(mut self) {
        while !self.stopped() {
            let ended = self.entrance.connect().and_then(|mut session| self.write(&mut session));
            if let Err(error) = ended {
                let mut notes = self.notes();
                notes.errors += 1;
                notes.last_error = error.to_string();
                drop(notes);
                std::thread::sleep(BREATH);
            }
        }
    }

    /// Writes until the connection fails or the client is stopped.
    fn write(&mut self, session: &mut Session) -> RedisResult<()> {
        // A new connection may lead to another server: what it was promised last must be there.
        self.read_back(session)?;
        while !self.stopped() {
            let number = self.number;
            // Also when it fails: a number that may have been written is not written again.
            self.number += self.pace.connections;
            session.query::<()>(redis::cmd("SET").arg(key(&self.name, number)).arg(number))?;
            let ack = Ack { number, at: Instant::now() };
            self.last = Some(ack);
            self.notes().acks.push(ack);
            if (number / self.pace.connections).is_multiple_of(READ_EVERY) {
                self.read_back(session)?;
            }
            std::thread::sleep(self.pace.pause);
        }
        Ok(())
    }

    fn read_back(&self, session: &mut Session) -> RedisResult<()> {
        let Some(ack) = self.last else { return Ok(()) };
        let found: Option<u64> = session.query(redis::cmd("GET").arg(key(&self.name, ack.number)))?;
        let mut notes = self.notes();
        notes.reads += 1;
        if found != Some(ack.number) {
            notes.missed.push(ack);
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(name: &str, number: u64) -> String {
    format!("{name}:{number}")
}

impl Record {
    /// Acknowledged writes per second, outages left out.
    pub fn rate(&self) -> f64 {
        let outages: Duration = self.gaps().into_iter().filter(|gap| *gap > OUTAGE).sum();
        let busy = (self.ended - self.started).saturating_sub(outages).as_secs_f64();
        if busy > 0.0 { self.acks.len() as f64 / busy } else { 0.0 }
    }

    /// The longest time without an acknowledgement.
    pub fn longest_gap(&self) -> Duration {
        self.gaps().into_iter().max().unwrap_or_default()
    }

    fn gaps(&self) -> Vec<Duration> {
        let times = std::iter::once(self.started).chain(self.acks.iter().map(|ack| ack.at)).chain(std::iter::once(self.ended));
        let times: Vec<Instant> = times.collect();
        times.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0])).collect()
    }

    /// The first acknowledgement after the longest gap: of the successor, after a fault.
    pub fn resumed(&self) -> Option<Instant> {
        let gap = self.longest_gap();
        self.acks.windows(2).find(|pair| pair[1].at.saturating_duration_since(pair[0].at) == gap).map(|pair| pair[1].at)
    }

    /// Acknowledged numbers that the instance doesn't have.
    ///
    /// # Errors
    /// It can't be asked.
    pub fn lost(&self, entrance: &Entrance) -> Result<Vec<Ack>> {
        let mut session = entrance.connect()?;
        let mut lost = Vec::new();
        for batch in self.acks.chunks(BATCH) {
            let keys: Vec<String> = batch.iter().map(|ack| key(&self.name, ack.number)).collect();
            let found: Vec<Option<u64>> = session.query(redis::cmd("MGET").arg(&keys))?;
            lost.extend(batch.iter().zip(found).filter(|(ack, found)| *found != Some(ack.number)).map(|(ack, _)| *ack));
        }
        Ok(lost)
    }

    /// Holds the run against a bound, and prints its figures.
    ///
    /// # Errors
    /// `invalid run`: too few writes to show anything. Otherwise: more was lost than the page promises.
    pub fn verify(&self, entrance: &Entrance, fault: &str, bound: Bound) -> Result {
        let (rate, lost) = (self.rate(), self.lost(entrance)?);
        self.print(fault, &lost);
        ensure!(
            rate >= RATE_MIN,
            "invalid run: {rate:.0} acknowledged writes per second, below {RATE_MIN}; last error: {}",
            self.last_error
        );
        ensure!(self.reads.0 > 0, "invalid run: nothing was read back");
        self.held(&lost, bound)
    }

    /// The run's figures, with what the instance doesn't have of it ([`Record::lost`]).
    pub fn print(&self, fault: &str, lost: &[Ack]) {
        figure(&format!("{fault}: acknowledged"), self.acks.len());
        figure(&format!("{fault}: writes per second"), format!("{:.0}", self.rate()));
        figure(&format!("{fault}: longest gap, ms"), self.longest_gap().as_millis());
        figure(&format!("{fault}: lost"), lost.len());
        figure(&format!("{fault}: failed requests"), self.errors);
    }

    /// Whether what is lost, and what was read and missing during the run, stays within the bound. The latter counts as lost also
    /// if a later promotion brought it back.
    ///
    /// # Errors
    /// It doesn't; says how much it was.
    pub fn held(&self, lost: &[Ack], bound: Bound) -> Result {
        within(lost, bound)?;
        within(&self.reads.1, bound)
    }
}

/// Whether what was lost stays within the bound: all of it was acknowledged within that many seconds.
///
/// # Errors
/// It doesn't; says how much it was.
fn within(lost: &[Ack], bound: Bound) -> Result {
    let Bound::Seconds(seconds) = bound else { return Ok(()) };
    let (Some(first), Some(last)) = (lost.iter().map(|ack| ack.at).min(), lost.iter().map(|ack| ack.at).max()) else {
        return Ok(());
    };
    let numbers: BTreeSet<u64> = lost.iter().map(|ack| ack.number).take(5).collect();
    let span = (last - first).as_secs_f64();
    if seconds == 0.0 || span > seconds {
        bail!("{} acknowledged writes of {span:.3} s were lost ({numbers:?} ...), the bound is {seconds} s", lost.len());
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn acks(start: Instant, at_ms: &[u64]) -> Vec<Ack> {
        at_ms
            .iter()
            .enumerate()
            .map(|(number, ms)| Ack { number: number as u64, at: start + Duration::from_millis(*ms) })
            .collect()
    }

    #[test]
    fn what_is_lost_is_held_against_the_bound() {
        let start = Instant::now();
        let table: [(&str, &[u64], Bound, bool); 6] = [
            ("nothing lost, none may be", &[], Bound::Seconds(0.0), true),
            ("one lost, none may be", &[5], Bound::Seconds(0.0), false),
            ("half a second of one", &[0, 200, 500], Bound::Seconds(1.0), true),
            ("two seconds of one", &[0, 2000], Bound::Seconds(1.0), false),
            ("order doesn't matter", &[2000, 0], Bound::Seconds(1.0), false),
            ("all may be lost", &[0, 9000], Bound::Everything, true),
        ];
        for (case, lost, bound, kept) in table {
            assert_eq!(within(&acks(start, lost), bound).is_ok(), kept, "{case}");
        }
    }

    #[test]
    fn an_outage_is_no_slowness() {
        let started = Instant::now();
        let record = Record {
            name: "w".into(),
            acks: acks(started, &[100, 200, 300, 10_300, 10_400]),
            reads: (1, Vec::new()),
            errors: 0,
            last_error: String::new(),
            started,
            ended: started + Duration::from_millis(10_500),
        };
        assert_eq!(record.longest_gap(), Duration::from_secs(10));
        assert!((record.rate() - 10.0).abs() < 0.01, "{}", record.rate());
    }
}
