//! Facts of an observation that have no field of their own yet, by key (`observed.extensions`): each has one name, here, for the
//! host that writes it and the policy that reads it. A key that is missing, or says something else, is unknown.

use crate::common::Pair;
use crate::observation::Observed;

const HELD: &str = "ledger.held";

/// Whether a member of the data set was ever seen to hold a key, by the ledger. Unknown for an instance whose ledger was lost
/// or is from before this was kept.
pub fn held(observed: &Observed) -> Option<bool> {
    truth(observed, HELD)
}

/// What [`held`] reads.
pub fn mk_held(held: Option<bool>) -> Vec<Pair> {
    held.map(|held| Pair { key: HELD.into(), value: held.to_string() }).into_iter().collect()
}

fn truth(observed: &Observed, key: &str) -> Option<bool> {
    observed.extensions.iter().find(|pair| pair.key == key)?.value.parse().ok()
}
