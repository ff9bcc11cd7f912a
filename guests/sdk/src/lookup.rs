//! Finds things in an observation by their identity. All of it answers `None` for what was not observed.

pub use vko_wit::operation_name;

use crate::observation::{Claim, Instance, Observed, Outcome, OutcomeKind, Pod, Role, Server, ServerFacts, Upstream};

/// The pod with that UID.
pub fn pod<'a>(observed: &'a Observed, uid: &str) -> Option<&'a Pod> {
    observed.pods.iter().find(|pod| pod.uid == uid)
}

/// The pod that holds a place in a workload.
pub fn member<'a>(observed: &'a Observed, workload: &str, ordinal: u32) -> Option<&'a Pod> {
    observed.pods.iter().find(|pod| pod.workload == workload && pod.ordinal == ordinal)
}

/// The server in the pod with that UID.
pub fn server<'a>(observed: &'a Observed, uid: &str) -> Option<&'a Server> {
    observed.servers.iter().find(|server| server.pod == uid)
}

/// What is known of the server in the pod with that UID. The facts are the last known ones: see [`Server::age`] and
/// [`Server::reach`].
pub fn facts<'a>(observed: &'a Observed, uid: &str) -> Option<&'a ServerFacts> {
    server(observed, uid)?.facts.as_ref()
}

/// The claim of a place in a workload; it outlives the pods that hold the place.
pub fn claim<'a>(observed: &'a Observed, workload: &str, ordinal: u32) -> Option<&'a Claim> {
    observed.claims.iter().find(|claim| claim.workload == workload && claim.ordinal == ordinal)
}

/// The value of an annotation of the Valkey (those under `buf.red` are observed).
pub fn annotation<'a>(instance: &'a Instance, key: &str) -> Option<&'a str> {
    instance.annotations.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
}

/// UID of the pod that this server says it follows. `None` for a primary, for one that follows nobody, and for one that follows a
/// stranger.
pub fn followed_pod(facts: &ServerFacts) -> Option<&str> {
    match &facts.role {
        Role::Replica(link) => match &link.primary {
            Upstream::Pod(uid) => Some(uid),
            Upstream::Nobody | Upstream::Other(_) => None,
        },
        Role::Primary => None,
    }
}

/// The newest outcome of this operation on this subject.
pub fn recent<'a>(observed: &'a Observed, operation: &str, subject: &str) -> Option<&'a Outcome> {
    observed.recent.iter().find(|outcome| outcome.operation == operation && outcome.subject == subject)
}

/// How often, counted from the newest, the last outcomes of this operation on this subject were no success. A policy backs off by
/// it.
pub fn misses_in_a_row(observed: &Observed, operation: &str, subject: &str) -> usize {
    let outcomes = observed.recent.iter().filter(|outcome| outcome.operation == operation && outcome.subject == subject);
    outcomes.take_while(|Outcome { outcome, .. }| !matches!(outcome, OutcomeKind::Done)).count()
}
