//! Voluntary disruptions: of a workload the operator takes out of service at most one ready member at a time, and none while
//! another is out.

use std::collections::{BTreeMap, BTreeSet};

use super::{Oracle, Violation};

/// What happened to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// It is ready.
    Ready,
    /// It isn't, or is gone.
    Unready,
    /// A workload was asked for fewer members, and this one's place isn't wanted any more: it counts no longer.
    Unwanted,
    /// The operator asked for its end and was obeyed.
    Ended,
}

/// Something that happened to a pod, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its workload.
    pub workload: String,
    /// Its name.
    pub pod: String,
    /// What.
    pub what: Happening,
}

/// Ready members that the operator ended while another member of their workload was out.
pub fn one_at_a_time(events: &[Event]) -> Vec<Violation> {
    let mut members: BTreeMap<&str, BTreeMap<&str, bool>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in events {
        let workload = members.entry(&event.workload).or_default();
        match event.what {
            Happening::Ready => drop(workload.insert(&event.pod, true)),
            Happening::Unready => drop(workload.insert(&event.pod, false)),
            Happening::Unwanted => drop(workload.remove(event.pod.as_str())),
            Happening::Ended => {
                let was_ready = workload.insert(&event.pod, false) == Some(true);
                let out: BTreeSet<&str> =
                    workload.iter().filter(|(pod, ready)| **pod != event.pod && !**ready).map(|(pod, _)| *pod).collect();
                if was_ready && !out.is_empty() {
                    let seen = format!("the operator ended {}, which was ready, while {out:?} were out", event.pod);
                    found.push(Violation::new(Oracle::Disruptions, seen));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a+` ready, `a-` not, `ax` ended, `ao` unwanted.
    fn events(text: &str) -> Vec<Event> {
        let event = |word: &str| {
            let what = match &word[1..] {
                "+" => Happening::Ready,
                "-" => Happening::Unready,
                "x" => Happening::Ended,
                _ => Happening::Unwanted,
            };
            Event { workload: "w".into(), pod: word[..1].into(), what }
        };
        text.split(' ').map(event).collect()
    }

    #[test]
    fn disruptions_by_table() {
        for (case, text, expected) in [
            ("one", "a+ b+ c+ ax", 0),
            ("one after the other", "a+ b+ c+ ax a- a+ bx", 0),
            ("a second before the first is back", "a+ b+ c+ ax a- bx", 1),
            ("a second while one is out by itself", "a+ b+ c+ a- bx", 1),
            ("the one that is out itself", "a+ b+ c+ a- ax", 0),
            ("an unwanted one doesn't count", "a+ b+ c- co bx", 0),
        ] {
            assert_eq!(one_at_a_time(&events(text)).len(), expected, "{case}");
        }
    }
}
