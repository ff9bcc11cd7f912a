//! Builds plans. The smallest plan asks for nothing; tracks and steps are added to it.

use crate::common::Pair;
use crate::planning::{Blocked, Expectation, Known, OffsetOf, Operation, PairOfPods, Plan, Routing, Status, Step, Track, Writer};

/// A plan that asks for nothing and routes nobody: `desired` empty leaves every object as it is, `writer` none takes the label
/// off.
pub fn holding(status: Status) -> Plan {
    Plan {
        status,
        desired: Vec::new(),
        routing: Routing { writer: Writer::None, readers: Vec::new() },
        tracks: Vec::new(),
        blocked: Vec::new(),
        look_again: 0,
        extensions: Vec::new(),
    }
}

/// A step that expects nothing and relies on no consent. `reason` is for a person.
pub fn step(operation: Operation, reason: impl Into<String>) -> Step {
    Step { operation, reason: reason.into(), expects: Vec::new(), consent: String::new() }
}

/// Adds to a step.
pub trait StepExt {
    /// Something that must still hold when the step is sent.
    fn expecting(self, expectation: Expectation) -> Self;
    /// The token of the consent that it relies on.
    fn consented(self, token: impl Into<String>) -> Self;
}

impl StepExt for Step {
    fn expecting(mut self, expectation: Expectation) -> Self {
        self.expects.push(expectation);
        self
    }

    fn consented(mut self, token: impl Into<String>) -> Self {
        self.consent = token.into();
        self
    }
}

/// Steps in order about one subject. A failed step ends its own track only.
pub fn track(subject: impl Into<String>, steps: Vec<Step>) -> Track {
    Track { subject: subject.into(), steps }
}

/// Something that waits for an event or a person. `token` is what a consent must repeat, empty if none helps.
pub fn blocked(
    subject: impl Into<String>,
    reason: impl Into<String>,
    remedy: impl Into<String>,
    token: impl Into<String>,
) -> Blocked {
    Blocked { subject: subject.into(), reason: reason.into(), remedy: remedy.into(), token: token.into() }
}

/// The server in that pod is still the same run.
pub fn same_run(pod: &str, run_id: &str) -> Expectation {
    Expectation::RunId(Known { pod: pod.into(), value: run_id.into() })
}

/// The server in that pod still holds the same lineage of data.
pub fn same_lineage(pod: &str, replid: &str) -> Expectation {
    Expectation::Replid(Known { pod: pod.into(), value: replid.into() })
}

/// The server in that pod is a primary.
pub fn is_primary(pod: &str) -> Expectation {
    Expectation::RolePrimary(pod.into())
}

/// The server in `pod` follows the one in `primary`.
pub fn follows(pod: &str, primary: &str) -> Expectation {
    Expectation::RoleReplicaOf(PairOfPods { pod: pod.into(), peer: primary.into() })
}

/// The server in that pod has at least this replication offset.
pub fn offset_at_least(pod: &str, offset: u64) -> Expectation {
    Expectation::OffsetAtLeast(OffsetOf { pod: pod.into(), offset })
}

/// A key with its value.
pub fn pair(key: impl Into<String>, value: impl Into<String>) -> Pair {
    Pair { key: key.into(), value: value.into() }
}
