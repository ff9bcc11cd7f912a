//! Series of times, and what is said of them.

use std::time::Duration;

/// One thing, timed several times.
#[derive(Debug, Default)]
pub(crate) struct Series {
    times: Vec<Duration>,
}

impl Series {
    /// One more.
    pub(crate) fn push(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// The middle one: of an even number the later of the two.
    pub(crate) fn median(&self) -> Option<Duration> {
        let mut sorted = self.times.clone();
        sorted.sort();
        sorted.get(sorted.len() / 2).copied()
    }

    /// As a row.
    pub(crate) fn print(&self, name: &str) {
        let all: Vec<String> = self.times.iter().map(|time| time.as_millis().to_string()).collect();
        let median = self.median().map_or_else(|| "-".to_owned(), |time| time.as_millis().to_string());
        println!("{name:<44} median {median:>7} ms   of {}", all.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let table: [(&[u64], Option<u64>); 4] = [(&[], None), (&[7], Some(7)), (&[9, 1, 5], Some(5)), (&[1, 2], Some(2))];
        for (times, expected) in table {
            let series = Series { times: times.iter().copied().map(Duration::from_millis).collect() };
            assert_eq!(series.median(), expected.map(Duration::from_millis), "{times:?}");
        }
    }
}
