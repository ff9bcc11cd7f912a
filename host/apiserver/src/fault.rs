//! What goes wrong between a client and the API server, by script: data, so that a seed can draw it and a folder can hold it.
//!
//! A fault says which requests it strikes, how many it lets pass first, and how many it strikes. The first that fits is taken.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// What happens to a request, or to an event of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// It is refused: 409, 429, 500 ...
    Refuse {
        /// Code.
        code: u16,
    },
    /// It comes late.
    Delay {
        /// By so much.
        ms: u64,
    },
    /// It never arrives, and no answer comes.
    Lose,
    /// It is done, and no answer comes.
    LoseAnswer,
    /// It is done, and the connection breaks before the answer.
    Break,
    /// Of a list: it is answered as things stood so many versions before, as from a watch cache that lags. What has happened
    /// since comes with the watch.
    Stale {
        /// Versions.
        versions: u64,
    },
    /// Of a watch: the event isn't sent. The watch itself stays, so nothing tells the client.
    Drop,
    /// Of a watch: the event is sent twice.
    Double,
    /// Of a watch: it ends as one that is too old.
    Expire,
    /// Of a watch: it ends.
    End,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fault {
    /// get, list, watch, create, replace, merge, apply, delete, evict; empty: any but watch.
    #[serde(default)]
    pub verb: String,
    /// As in `pods`, `statefulsets.apps`; empty: any.
    #[serde(default)]
    pub resource: String,
    /// How the object's name begins; empty: any.
    #[serde(default)]
    pub name: String,
    /// Which client; empty: any.
    #[serde(default)]
    pub client: String,
    /// How many requests pass first.
    #[serde(default)]
    pub after: u32,
    /// How many it strikes.
    #[serde(default = "one")]
    pub times: u32,
    /// What happens.
    pub act: Act,
}

const fn one() -> u32 {
    1
}

/// A request, as faults see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// As in [`Fault::verb`].
    pub verb: &'a str,
    /// As in [`Fault::resource`].
    pub resource: &'a str,
    /// Of the object; empty for lists.
    pub name: &'a str,
    /// Who asks.
    pub client: &'a str,
}

impl Fault {
    fn fits(&self, asked: Asked<'_>) -> bool {
        let verb = if self.verb.is_empty() { asked.verb != "watch" } else { self.verb == asked.verb };
        let any = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        verb && any(&self.resource, asked.resource) && any(&self.client, asked.client) && asked.name.starts_with(&self.name)
    }
}

/// The faults that are still to come.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Waiting>>);

#[derive(Debug)]
struct Waiting {
    fault: Fault,
    /// It struck something already.
    has_struck: bool,
}

impl Faults {
    /// One more.
    pub fn add(&self, fault: Fault) {
        self.lock().push(Waiting { fault, has_struck: false });
    }

    /// Those that are left.
    pub fn left(&self) -> Vec<Fault> {
        self.lock().iter().map(|waiting| waiting.fault.clone()).collect()
    }

    /// None any more; returns those that have struck nothing.
    pub fn clear(&self) -> Vec<Fault> {
        let all = std::mem::take(&mut *self.lock());
        all.into_iter().filter(|waiting| !waiting.has_struck).map(|waiting| waiting.fault).collect()
    }

    /// What happens to a request.
    pub fn strike(&self, asked: Asked<'_>) -> Option<Act> {
        let mut all = self.lock();
        let mut struck = None;
        for Waiting { fault, has_struck } in all.iter_mut().filter(|waiting| waiting.fault.fits(asked)) {
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            fault.times = fault.times.saturating_sub(1);
            struck = Some(fault.act.clone());
            *has_struck = true;
            break;
        }
        all.retain(|waiting| waiting.fault.times > 0);
        struck
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fault_strikes_what_it_says_and_as_often() {
        let faults = Faults::default();
        let fault = json!({"verb": "apply", "resource": "pods", "name": "rfr-", "after": 1, "times": 2, "act": {"refuse": {"code": 429}}});
        faults.add(serde_json::from_value(fault).unwrap());
        let asked = |verb, name| Asked { verb, resource: "pods", name, client: "operator" };
        let refused = Some(Act::Refuse { code: 429 });
        for (case, verb, name, expected) in [
            ("another verb", "get", "rfr-a", None),
            ("another name", "apply", "rfs-a", None),
            ("the first passes", "apply", "rfr-a", None),
            ("the second doesn't", "apply", "rfr-a", refused.clone()),
            ("nor the third", "apply", "rfr-b", refused),
            ("then it is over", "apply", "rfr-a", None),
        ] {
            assert_eq!(faults.strike(asked(verb, name)), expected, "{case}");
        }
        assert!(faults.left().is_empty());
    }

    #[test]
    fn what_struck_nothing_is_told() {
        for (case, after, times, expected) in
            [("it struck", 0, 1, 0), ("it would strike more", 0, 2, 0), ("it let all pass", 1, 1, 1)]
        {
            let faults = Faults::default();
            faults.add(serde_json::from_value(json!({"verb": "apply", "after": after, "times": times, "act": "lose"})).unwrap());
            faults.strike(Asked { verb: "apply", resource: "pods", name: "a", client: "operator" });
            assert_eq!((faults.clear().len(), faults.clear().len()), (expected, 0), "{case}");
        }
    }

    #[test]
    fn watches_are_struck_only_when_named() {
        let faults = Faults::default();
        let asked = Asked { verb: "watch", resource: "pods", name: "a", client: "operator" };
        let fault = |verb: &str, act: Act| Fault {
            verb: verb.into(),
            resource: String::new(),
            name: String::new(),
            client: String::new(),
            after: 0,
            times: 1,
            act,
        };
        faults.add(fault("", Act::Lose));
        assert_eq!(faults.strike(asked), None);
        faults.add(fault("watch", Act::Double));
        assert_eq!(faults.strike(asked), Some(Act::Double));
    }
}
