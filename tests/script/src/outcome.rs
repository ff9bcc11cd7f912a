//! What must hold at the end beside the declared state, as a folder says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::folder::Expect;
use crate::target::Pod;

/// Names and [`Oracle::ALL`] from one list, so that none is missing in either.
macro_rules! oracles {
    ($($(#[$about:meta])* $oracle:ident = $name:literal,)+) => {
        /// Who objects. The test bed has not all of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Oracle {
            $($(#[$about])* $oracle,)+
        }

        impl Oracle {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$oracle,)+];

            /// What people read.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$oracle => $name,)+
                }
            }
        }
    };
}

oracles! {
    /// Two servers took writes at once for too long.
    TwoWriters = "two-writers",
    /// At the end not exactly the primary takes writes.
    OneWriter = "one-writer",
    /// A claim or a Secret went that should stay.
    Deleted = "deleted",
    /// A pod's life ended that was to be kept.
    Lives = "lives",
    /// The operator took a second member out of service.
    Disruptions = "disruptions",
    /// The operator asked for one thing again and again.
    Storm = "storm",
    /// The instances ended otherwise than as created.
    Ending = "ending",
    /// An event that was expected is missing, or one that must not be was written.
    Events = "events",
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Who says so.
    pub oracle: Oracle,
    /// What was seen.
    pub seen: String,
}

impl Violation {
    /// One.
    pub fn new(oracle: Oracle, seen: impl Into<String>) -> Self {
        Self { oracle, seen: seen.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle.name(), self.seen)
    }
}

/// An event for people: reason and note.
pub type Event = (String, String);

/// Events that are missing, or must not have been written.
pub fn events(expect: &Expect, seen: &[Event]) -> Vec<Violation> {
    let reasons: BTreeSet<&str> = seen.iter().map(|(reason, _)| reason.as_str()).collect();
    let missing = expect.events.iter().filter(|reason| !reasons.contains(reason.as_str()));
    let missing = missing.map(|reason| format!("no event {reason} was written; there were {reasons:?}"));
    let unwanted = seen.iter().filter(|(reason, _)| expect.no_events.contains(reason));
    let unwanted = unwanted.map(|(reason, note)| format!("an event {reason} was written: {note}"));
    missing.chain(unwanted).map(|seen| Violation::new(Oracle::Events, seen)).collect()
}

/// Lives that ended: a pod of the same name is another one, or was started again.
pub fn lives(before: &[Pod], after: &[Pod]) -> Vec<Violation> {
    let life = |pod: &Pod| (pod.uid.clone(), pod.restarts);
    let after: BTreeMap<&str, (String, u64)> = after.iter().map(|pod| (pod.name.as_str(), life(pod))).collect();
    let ended = |pod: &Pod| {
        let (name, was, now) = (&pod.name, life(pod), after.get(pod.name.as_str()));
        let seen = || format!("{name} was to live on: it was {was:?} (UID, starts), and is {now:?}");
        (now != Some(&was)).then(|| Violation::new(Oracle::Lives, seen()))
    };
    before.iter().filter_map(ended).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lives_by_table() {
        let pods = |text: &str| -> Vec<Pod> {
            let pod = |word: &str| {
                let parts: Vec<&str> = word.split('/').collect();
                let starts: u64 = parts[2].parse().unwrap();
                Pod::of(&json!({
                    "metadata": {"name": parts[0], "uid": parts[1]}, "status": {"containerStatuses": [{"restartCount": starts}]}
                }))
            };
            text.split_whitespace().map(pod).collect()
        };
        for (case, after, expected) in [
            ("the same", "a/1/0 b/2/0", 0),
            ("others may come", "a/1/0 b/2/0 c/3/0", 0),
            ("another pod of the name", "a/1/0 b/9/0", 1),
            ("started again", "a/1/1 b/2/0", 1),
            ("gone", "a/1/0", 1),
        ] {
            assert_eq!(lives(&pods("a/1/0 b/2/0"), &pods(after)).len(), expected, "{case}");
        }
    }

    #[test]
    fn events_by_table() {
        let expect = Expect { events: vec!["Promoted".into()], no_events: vec!["DataLost".into()], ..Expect::default() };
        for (case, seen, expected) in [
            ("as expected", vec!["Promoted", "Created"], None),
            ("one is missing", vec!["Created"], Some("no event Promoted was written")),
            ("one too many", vec!["Promoted", "DataLost"], Some("an event DataLost was written")),
        ] {
            let seen: Vec<Event> = seen.into_iter().map(|reason| (reason.to_owned(), String::new())).collect();
            let found = events(&expect, &seen);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{case}: {found:?}");
            assert!(expected.is_none_or(|says| found[0].seen.contains(says)), "{case}: {found:?}");
        }
    }
}
