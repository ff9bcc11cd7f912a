//! The ledger: the host's memory of an instance, kept in the topology object's status.
//!
//! # Guarantees
//! 1. The host alone writes it, whole, under the object's resourceVersion; a conflict means: observe again.
//! 2. It never claims more than holds. What permits something dangerous later (a fence) is written after it was read back; what
//!    forbids something (`formed`, a lifted fence, a used consent) is written before the act.
//! 3. Missing or unreadable means unknown, and unknown blocks creation and everything that could lose data.
//!
//! # Assumptions
//! The status subresource isn't edited by people; if it is, guarantee 3 is what remains.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vko_wit::common::Version;
use vko_wit::observation::{
    FenceRecord, LastPrimary, Ledger as Observed, LedgerMember, Lineage as ObservedLineage, Observed as Observation,
    OperationRecord, Pod,
};

use crate::world::UnixMs;

/// How many lineages are remembered: the current one, the one before, and a margin for failovers in a row.
const LINEAGES_MAX: usize = 8;
/// How many used consents are remembered. A token names a situation by a hash, so an old one never fits a new situation.
const CONSENTS_MAX: usize = 32;

/// The ledger as stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ledger {
    /// Whether a primary was ever named or slots were ever given; written before. `None` is unknown.
    pub formed: Option<bool>,
    /// Whether a member of the data set was ever seen to hold a key; written when first seen, and kept. `None` is unknown.
    pub held: Option<bool>,
    /// Members that were observed, by workload and ordinal.
    pub members: Vec<Member>,
    /// Replication histories of this data set, newest first. A cluster has a history per shard and keeps none here: its slots'
    /// owners and their epochs say who leads.
    pub lineages: Vec<Lineage>,
    /// The last primary as a member (a pod's UID dies with it, the member stays). One per shard.
    pub last_primary: Vec<Member>,
    /// Fences in force.
    pub fences: Vec<Fence>,
    /// Operations in flight, one per track.
    pub operations: Vec<Operation>,
    /// Consents that were used up.
    pub consents_used: Vec<String>,
    /// The newest server version that every member has finished.
    pub finished_version: Option<String>,
    /// The newest server line that members may have been started with and that not all have finished: what they saved may be of
    /// a form that older ones can't read. Written before the template that starts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried_line: Option<String>,
}

/// A member: the place, and who fills it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Member {
    /// StatefulSet.
    pub workload: String,
    /// Ordinal.
    pub ordinal: u32,
    /// UID of the pod.
    pub pod: String,
    /// UID of the claim; empty where there is none.
    pub claim: String,
    /// The server's own id in a cluster, by which the others know it; empty in the other architectures and while it never said
    /// it. It lives as long as the server's data: a pod that finds no `nodes.conf` comes with another one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_id: String,
}

/// A replication history.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lineage {
    /// `master_replid`.
    pub replid: String,
    /// A lower bound of the best offset: it is written only along with something else.
    pub best_offset: u64,
    /// When it was first seen.
    pub seen: UnixMs,
}

/// A fence: the primary refuses writes by itself once it hears too few replicas. Holds for one run of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fence {
    /// UID of the primary's pod.
    pub pod: String,
    /// Run id of its server.
    pub run_id: String,
    /// `min-replicas-to-write`.
    pub min_replicas: u32,
    /// `min-replicas-max-lag`, in milliseconds.
    pub max_lag_ms: u64,
    /// When it was read back.
    pub set_at: UnixMs,
    /// When the last reachable replica was detached; zero while one may follow.
    pub detached_at: UnixMs,
}

/// An operation in flight.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Operation {
    /// Id.
    pub id: String,
    /// Name of the operation.
    pub kind: String,
    /// Track.
    pub track: String,
    /// What it is about.
    pub target: Value,
    /// Digest of the policy that asked for it.
    pub policy_digest: String,
    /// When.
    pub started_at: UnixMs,
}

impl Ledger {
    /// Reads the ledger of a topology object's status. What can't be read is unknown.
    pub fn read(status: Option<&Value>) -> Self {
        status.and_then(|s| s.get("ledger")).and_then(|l| serde_json::from_value(l.clone()).ok()).unwrap_or_default()
    }

    /// Whether the last primary is that member.
    pub fn is_last_primary(&self, workload: &str, ordinal: u32) -> bool {
        self.last_primary.iter().any(|m| m.workload == workload && m.ordinal == ordinal)
    }

    /// Whether each primary that this names and `before` doesn't comes after the one that `decided_on` names.
    pub fn names_after(&self, before: &Self, decided_on: &LastPrimary) -> bool {
        let known = |workload: &str| before.last_primary.iter().find(|m| m.workload == workload).map(Member::place);
        let expected = |workload: &str| match decided_on {
            LastPrimary::None => None,
            LastPrimary::Members(members) => members.iter().find(|m| m.workload == workload).map(|m| (m.ordinal, m.pod.as_str())),
        };
        let named = self.last_primary.iter().filter(|m| known(&m.workload) != Some(m.place()));
        named.into_iter().all(|m| known(&m.workload) == expected(&m.workload))
    }

    /// Remembers the primary of a workload. As far as is known it has replicas again: a fence of it from before hasn't closed.
    pub fn set_last_primary(&mut self, member: Member) {
        self.may_be_followed(&member.pod);
        // In its place: what says the same again is no change, and isn't written.
        match self.last_primary.iter_mut().find(|known| known.workload == member.workload) {
            Some(known) => *known = member,
            None => self.last_primary.push(member),
        }
    }

    /// Replicas may follow this pod's server from now on: what its fence said of their absence is over.
    pub fn may_be_followed(&mut self, pod: &str) {
        self.fences.iter_mut().filter(|fence| fence.pod == pod).for_each(|fence| fence.detached_at = 0);
    }

    /// The fence of this pod's server is lifted, or about to be.
    pub fn drop_fence(&mut self, pod: &str) {
        self.fences.retain(|fence| fence.pod != pod);
    }

    /// Remembers a lineage, newest first; a known one gets a better lower bound.
    pub fn note_lineage(&mut self, replid: &str, offset: u64, now: UnixMs) {
        match self.lineages.iter_mut().find(|l| l.replid == replid) {
            Some(known) => known.best_offset = known.best_offset.max(offset),
            None => {
                // A clock that was set back must not make the newest history look like an older one.
                let seen = self.lineages.first().map_or(now, |newest| now.max(newest.seen.saturating_add(1)));
                self.lineages.insert(0, Lineage { replid: replid.into(), best_offset: offset, seen });
            }
        }
        self.lineages.truncate(LINEAGES_MAX);
    }

    /// Remembers that a consent was used.
    pub fn use_consent(&mut self, token: &str) {
        if !token.is_empty() && !self.consents_used.iter().any(|t| t == token) {
            self.consents_used.push(token.into());
            let surplus = self.consents_used.len().saturating_sub(CONSENTS_MAX);
            self.consents_used.drain(..surplus);
        }
    }

    /// The ledger as policies see it.
    pub fn observed(&self) -> Observed {
        Observed {
            formed: self.formed,
            members: self.members.iter().map(Member::observed).collect(),
            lineages: self
                .lineages
                .iter()
                .map(|l| ObservedLineage { replid: l.replid.clone(), best_offset: l.best_offset, seen: l.seen })
                .collect(),
            last_primary: match self.last_primary.as_slice() {
                [] => LastPrimary::None,
                members => LastPrimary::Members(members.iter().map(Member::observed).collect()),
            },
            operations: self.operations.iter().map(Operation::observed).collect(),
            fences: self.fences.iter().map(Fence::observed).collect(),
            finished_version: self.finished_version.as_deref().and_then(version),
            consents_used: self.consents_used.clone(),
        }
    }
}

impl Member {
    /// Who fills a place now, as observed. The node id is the last one that this pod's server said.
    pub fn of(observed: &Observation, pod: &Pod) -> Self {
        let claim = observed.claims.iter().find(|claim| claim.workload == pod.workload && claim.ordinal == pod.ordinal);
        let facts = observed.servers.iter().find(|server| server.pod == pod.uid).and_then(|server| server.facts.as_ref());
        Self {
            workload: pod.workload.clone(),
            ordinal: pod.ordinal,
            pod: pod.uid.clone(),
            claim: claim.map(|claim| claim.uid.clone()).unwrap_or_default(),
            node_id: facts.and_then(|facts| facts.cluster.first()).map(|cluster| cluster.id.clone()).unwrap_or_default(),
        }
    }

    /// Where it is, and who fills the place.
    fn place(&self) -> (u32, &str) {
        (self.ordinal, &self.pod)
    }

    fn observed(&self) -> LedgerMember {
        LedgerMember {
            workload: self.workload.clone(),
            ordinal: self.ordinal,
            pod: self.pod.clone(),
            claim: self.claim.clone(),
            node_id: self.node_id.clone(),
        }
    }
}

impl Fence {
    fn observed(&self) -> FenceRecord {
        FenceRecord {
            pod: self.pod.clone(),
            run_id: self.run_id.clone(),
            min_replicas: self.min_replicas,
            max_lag: self.max_lag_ms,
            set_at: self.set_at,
            detached_at: self.detached_at,
            detached_at_written: self.detached_at,
        }
    }
}

impl Operation {
    fn observed(&self) -> OperationRecord {
        OperationRecord {
            id: self.id.clone(),
            kind: self.kind.clone(),
            track: self.track.clone(),
            target: self.target.to_string(),
            policy_digest: self.policy_digest.clone(),
            started_at: self.started_at,
        }
    }
}

fn version(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some(Version { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let cases = [
            ("no status", None),
            ("no ledger", Some(json!({"phase": "Ready"}))),
            ("of another form", Some(json!({"ledger": {"formed": "perhaps"}}))),
            ("a text", Some(json!({"ledger": "yes"}))),
        ];
        for (name, status) in cases {
            assert_eq!(Ledger::read(status.as_ref()).formed, None, "{name}");
        }
    }

    #[test]
    fn it_reads_what_it_wrote() {
        let mut ledger = Ledger { formed: Some(true), ..Ledger::default() };
        ledger.set_last_primary(Member {
            workload: "rfr-a".into(),
            ordinal: 1,
            pod: "p".into(),
            claim: "c".into(),
            node_id: "n".into(),
        });
        ledger.note_lineage("r1", 5, 9);
        ledger.use_consent("t");
        let status = json!({ "ledger": ledger });
        assert_eq!(Ledger::read(Some(&status)), ledger);
    }

    #[test]
    fn members_of_an_older_operator_have_no_node_id() {
        let member = json!({"workload": "rfr-a", "ordinal": 1, "pod": "p", "claim": "c"});
        let ledger = Ledger::read(Some(&json!({"ledger": {"formed": true, "members": [member], "lastPrimary": [member]}})));
        assert_eq!((ledger.formed, ledger.members[0].node_id.as_str()), (Some(true), ""));
        assert_eq!(serde_json::to_value(&ledger.members[0]).unwrap(), member, "nor is one written where there is none");
    }

    #[test]
    fn unknown_fields_of_a_newer_operator_do_not_hurt() {
        assert_eq!(Ledger::read(Some(&json!({"ledger": {"formed": true, "later": 1}}))).formed, Some(true));
    }

    #[test]
    fn lineages_are_bounded_and_keep_their_best_offset() {
        let mut ledger = Ledger::default();
        ledger.note_lineage("a", 10, 1);
        ledger.note_lineage("a", 4, 2);
        assert_eq!(ledger.lineages[0].best_offset, 10);
        for n in 0..20 {
            ledger.note_lineage(&format!("r{n}"), 0, 3);
        }
        assert_eq!(ledger.lineages.len(), LINEAGES_MAX);
        assert_eq!(ledger.lineages[0].replid, "r19");
    }

    #[test]
    fn the_newest_lineage_is_the_newest_by_its_time_too() {
        let mut ledger = Ledger::default();
        for (replid, now) in [("a", 500), ("b", 500), ("c", 20)] {
            ledger.note_lineage(replid, 0, now);
        }
        let order: Vec<_> = ledger.lineages.iter().map(|l| (l.replid.as_str(), l.seen)).collect();
        assert_eq!(order, [("c", 502), ("b", 501), ("a", 500)], "the clock stood still, then was set back");
    }

    #[test]
    fn one_last_primary_for_each_workload() {
        let mut ledger = Ledger::default();
        for ordinal in [0, 2] {
            ledger.set_last_primary(Member { workload: "rfr-a".into(), ordinal, ..Member::default() });
        }
        assert!(ledger.is_last_primary("rfr-a", 2) && !ledger.is_last_primary("rfr-a", 0));
    }

    #[test]
    fn versions() {
        assert_eq!(version("9.1.2"), Some(Version { major: 9, minor: 1, patch: 2 }));
        assert_eq!(version("9.1"), None);
    }
}
