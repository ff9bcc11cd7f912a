//! Facts of an observation that have no field of their own yet, by key (`extensions`): each has one name, here, for the host that
//! writes it and the policy that reads it. A key that is missing, or says something else, is unknown.

use crate::common::Pair;
use crate::observation::{Observed, ServerFacts};

const HELD: &str = "ledger.held";
const TRIED: &str = "ledger.tried-line";
/// Before the name of a StatefulSet.
const TEMPLATE_OF_SPEC: &str = "object.template-of-spec/";
const APPENDS: &str = "server-facts.appends";

/// Whether a member of the data set was ever seen to hold a key, by the ledger. Unknown for an instance whose ledger was lost
/// or is from before this was kept.
pub fn held(observed: &Observed) -> Option<bool> {
    truth(&observed.extensions, HELD)
}

/// What [`held`] reads.
pub fn mk_held(held: Option<bool>) -> Vec<Pair> {
    held.map(|held| pair(HELD, held)).into_iter().collect()
}

/// The newest server line ("9.1") that members may have been started with and that not all of them have finished; nothing where
/// no upgrade is under way. It is written before the first of them can be started so.
pub fn tried_line(observed: &Observed) -> Option<&str> {
    text(&observed.extensions, TRIED)
}

/// What [`tried_line`] reads.
pub fn mk_tried_line(line: Option<&str>) -> Vec<Pair> {
    line.map(|line| pair(TRIED, line)).into_iter().collect()
}

/// Whether the live template of the StatefulSet of that name is made of the newest spec: `template` of its pods is measured by
/// the live one, which is older for a moment after a change.
pub fn template_of_spec(observed: &Observed, workload: &str) -> Option<bool> {
    truth(&observed.extensions, &format!("{TEMPLATE_OF_SPEC}{workload}"))
}

/// What [`template_of_spec`] reads.
pub fn mk_template_of_spec(workload: &str, is_so: bool) -> Pair {
    pair(&format!("{TEMPLATE_OF_SPEC}{workload}"), is_so)
}

/// Whether this run of the server appends each write to a file (`aof_enabled`), so that a start after its end has them all.
pub fn appends(facts: &ServerFacts) -> Option<bool> {
    truth(&facts.extensions, APPENDS)
}

/// What [`appends`] reads.
pub fn mk_appends(appends: Option<bool>) -> Vec<Pair> {
    appends.map(|appends| pair(APPENDS, appends)).into_iter().collect()
}

fn pair(key: &str, value: impl ToString) -> Pair {
    Pair { key: key.into(), value: value.to_string() }
}

fn text<'a>(pairs: &'a [Pair], key: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
}

fn truth(pairs: &[Pair], key: &str) -> Option<bool> {
    text(pairs, key)?.parse().ok()
}
