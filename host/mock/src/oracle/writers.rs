//! Who takes writes: for each slot that is asked about never two servers for longer than the bound, and one at the end: the one
//! that is called the primary, to which applications are led.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Oracle, Violation};

/// What a server said to a write of nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It would have been done.
    Taken,
    /// It is refused; the error's first word.
    Refused(String),
    /// There was no answer.
    Silent,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When, since the recording began.
    pub at: Duration,
    /// Instance.
    pub instance: String,
    /// Which of the keys that are asked about.
    pub key: usize,
    /// UID of the pod that was asked.
    pub pod: String,
    /// Its name.
    pub name: String,
    /// What it said.
    pub verdict: Verdict,
}

/// From the first to the last answer of a pod that all said yes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reign {
    pod: String,
    name: String,
    from: Duration,
    to: Duration,
}

/// Two servers that took writes for one key, for longer than the bound.
pub fn two_at_once(samples: &[Sample], bound: Duration) -> Vec<Violation> {
    let mut found = Vec::new();
    for ((instance, key), reigns) in reigns(samples) {
        for (index, one) in reigns.iter().enumerate() {
            for other in reigns.iter().skip(index + 1).filter(|other| other.pod != one.pod) {
                let (from, to) = (one.from.max(other.from), one.to.min(other.to));
                let both = to.saturating_sub(from);
                if from < to && both > bound {
                    let seen = format!(
                        "{} ({}) and {} ({}) both took writes of {instance}'s key {key} for {both:.1?} from {from:.1?} on; the bound is {bound:.1?}",
                        one.name, one.pod, other.name, other.pod
                    );
                    found.push(Violation::new(Oracle::TwoWriters, seen));
                }
            }
        }
    }
    found
}

fn reigns(samples: &[Sample]) -> BTreeMap<(&str, usize), Vec<Reign>> {
    let mut all: BTreeMap<(&str, usize), Vec<Reign>> = BTreeMap::new();
    let mut open: BTreeMap<(&str, usize, &str), Reign> = BTreeMap::new();
    for sample in samples {
        let of = (sample.instance.as_str(), sample.key);
        let who = (of.0, of.1, sample.pod.as_str());
        if sample.verdict == Verdict::Taken {
            let new = || Reign { pod: sample.pod.clone(), name: sample.name.clone(), from: sample.at, to: sample.at };
            open.entry(who).or_insert_with(new).to = sample.at;
        } else if let Some(over) = open.remove(&who) {
            all.entry(of).or_default().push(over);
        }
    }
    for ((instance, key, _), last) in open {
        all.entry((instance, key)).or_default().push(last);
    }
    all
}

/// Keys that not exactly one of the pods that are there takes writes for, by their last answers, or one that isn't called the
/// primary. `pods`: by UID, whether it is.
pub fn one_at_the_end(samples: &[Sample], instance: &str, pods: &BTreeMap<String, bool>) -> Vec<Violation> {
    let mut last: BTreeMap<usize, BTreeMap<&str, &Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.instance == instance && pods.contains_key(&sample.pod)) {
        last.entry(sample.key).or_default().insert(&sample.pod, sample);
    }
    if last.is_empty() {
        return vec![Violation::new(Oracle::OneWriter, format!("no server of {instance} was asked"))];
    }
    let wrong = |(key, by_pod): (usize, BTreeMap<&str, &Sample>)| {
        let takers: Vec<&&Sample> = by_pod.values().filter(|sample| sample.verdict == Verdict::Taken).collect();
        let answers: Vec<String> = by_pod.values().map(|sample| format!("{} {:?}", sample.name, sample.verdict)).collect();
        let not_by = match takers[..] {
            [one] if pods.get(&one.pod) == Some(&true) => return None,
            [_] => "the one that is called the primary",
            _ => "one",
        };
        let takers: Vec<&str> = takers.into_iter().map(|sample| sample.name.as_str()).collect();
        let seen = format!("writes of {instance}'s key {key} are taken by {takers:?}, not by {not_by}: {}", answers.join(", "));
        Some(Violation::new(Oracle::OneWriter, seen))
    };
    last.into_iter().filter_map(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a+` pod a takes it, `a-` it refuses it, `a?` it is silent; one a second.
    fn samples(text: &str) -> Vec<Sample> {
        let sample = |(second, word): (usize, &str)| {
            let verdict = match &word[1..] {
                "+" => Verdict::Taken,
                "-" => Verdict::Refused("READONLY".into()),
                _ => Verdict::Silent,
            };
            let pod = word[..1].to_owned();
            Sample { at: Duration::from_secs(second as u64), instance: "demo".into(), key: 0, name: pod.clone(), pod, verdict }
        };
        text.split(' ').enumerate().map(sample).collect()
    }

    #[test]
    fn two_writers_by_table() {
        for (case, text, bound, expected) in [
            ("one all the time", "a+ b- a+ b- a+", 0, 0),
            ("one after the other", "a+ a+ a- b+ b+", 0, 0),
            ("one after the other, the first falls silent", "a+ a+ b+ a? b+", 0, 0),
            ("a single yes amid another's proves no time", "a+ b+ a+ b-", 0, 0),
            ("both", "a+ b+ a+ b+ a+", 0, 1),
            ("both, within the bound", "a+ b+ a+ b+ a+", 2, 0),
            ("both, beyond the bound", "a+ b+ a+ b+ a+ b+", 2, 1),
            ("a pause of one ends its reign", "a+ b+ a- b+ a+ b-", 0, 0),
            ("three", "a+ b+ c+ a+ b+ c+", 0, 3),
        ] {
            let found = two_at_once(&samples(text), Duration::from_secs(bound));
            assert_eq!(found.len(), expected, "{case}: {found:?}");
        }
    }

    #[test]
    fn one_writer_at_the_end_by_table() {
        for (case, text, primary, expected) in [
            ("one", "a- b+ a+ b-", "a", 0),
            ("none", "a+ b- a-", "a", 1),
            ("two", "a+ b+", "a", 1),
            ("silent is none", "a+ a? b-", "a", 1),
            ("another's that is gone doesn't count", "c+ a+ b-", "a", 0),
            ("one, and another is called the primary", "a+ b-", "b", 1),
            ("one, and nobody is called the primary", "a+ b-", "", 1),
        ] {
            let pods = ["a", "b"].map(|pod| (pod.to_owned(), pod == primary)).into();
            assert_eq!(one_at_the_end(&samples(text), "demo", &pods).len(), expected, "{case}");
        }
        assert_eq!(one_at_the_end(&[], "demo", &BTreeMap::new()).len(), 1, "nobody was asked");
    }
}
