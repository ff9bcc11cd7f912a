//! The observation as this policy reads it: members by ordinal, each with one standing.
//!
//! # Guarantees
//! 1. Every member that a pod or a claim names is in the view, once, by ordinal; so is every one that should exist.
//! 2. A standing is what can be known now. "Silent" is never turned into "dead", and old facts never into new ones.
//!
//! # Assumptions
//! A pod's UID is its identity; a container that ended can't write; with more than one member a server starts following nobody,
//! read-only.

use vko_sdk::observation::{
    Claim, ContainerState, LastPrimary, LedgerMember, Lineage, NodeState, Observed, Pod, Reach, ReplicaLink, Role, Server,
    ServerFacts, Upstream,
};

use crate::spec::Spec;

/// Facts are fresh up to this age (ms). The host looks once a second while something is wrong, so fresh facts miss two looks at
/// most; nothing dangerous rests on older ones.
pub const FRESH_MS: u64 = 3_000;
/// Beyond this age (ms) an answer is no answer any more: two light probes (5 s each) and then some.
pub const STALE_MS: u64 = 15_000;
/// How far (bytes) a replica's offset may lie below the best that the ledger knows and still count as having streamed to the end:
/// what a healthy link may have in flight.
pub const IN_FLIGHT_BYTES: u64 = 1 << 20;

/// What a member is now, as far as it can be known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Standing<'a> {
    /// There is no pod.
    Absent,
    /// Its container ended, or its node is gone or out of service: that run acknowledges nothing any more.
    Dead,
    /// A pod that runs no server yet; its earlier run, if any, has ended.
    Starting,
    /// It loads its data set. `unnamed`: it is known to follow nobody, so it will not come up as a primary.
    Loading {
        /// Whether it is known to follow nobody.
        unnamed: bool,
    },
    /// It answers as a primary.
    Primary(&'a ServerFacts),
    /// It answers as a replica, maybe of nobody.
    Replica(&'a ServerFacts, &'a ReplicaLink),
    /// It lives, but answers with errors.
    Refusing(&'a str),
    /// No answer. The facts are the last known ones.
    Silent(Option<&'a ServerFacts>),
}

/// A place in the workload with what holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Member<'a> {
    /// Place.
    pub ordinal: u32,
    /// Name of its pod, whether there is one or not.
    pub name: String,
    /// Its pod.
    pub pod: Option<&'a Pod>,
    /// The server in that pod.
    pub server: Option<&'a Server>,
    /// Its claim.
    pub claim: Option<&'a Claim>,
    /// What it is now.
    pub standing: Standing<'a>,
}

/// Who decides beside the operator which member is the primary: Sentinels, in a policy that is built on this one. Under an
/// authority there is no fence: the operator replaces nobody who may merely be silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// Their name for the data set.
    pub monitor: String,
    /// UID of the pod that they call the primary; nothing while they don't agree, or call one that is none of this instance's.
    pub named: Option<String>,
}

/// The observation, sorted for decisions.
#[derive(Debug, Clone, PartialEq)]
pub struct View<'a> {
    /// As the host gave it.
    pub observed: &'a Observed,
    /// What people want.
    pub spec: Spec,
    /// Name of the one workload.
    pub workload: String,
    /// By ordinal.
    pub members: Vec<Member<'a>>,
    /// The last primary, as the ledger remembers it.
    pub last: Option<&'a LedgerMember>,
    /// Members that the workload has now; 0: there is no workload.
    pub current: u32,
    /// Who decides beside the operator; nobody in the replica architecture.
    pub authority: Option<Authority>,
}

impl<'a> View<'a> {
    /// Sorts an observation.
    pub fn new(observed: &'a Observed, spec: Spec) -> Self {
        let workload = format!("rfr-{}", observed.instance.name);
        let last = match &observed.ledger.last_primary {
            LastPrimary::None => None,
            LastPrimary::Members(members) => members.iter().find(|m| m.workload == workload),
        };
        let current = members_now(observed, &workload);
        let mut ordinals: Vec<u32> = (0..spec.replicas.max(current))
            .chain(observed.pods.iter().filter(|p| p.workload == workload).map(|p| p.ordinal))
            .chain(observed.claims.iter().filter(|c| c.workload == workload).map(|c| c.ordinal))
            .chain(last.map(|l| l.ordinal))
            .collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        let members = ordinals.into_iter().map(|ordinal| member(observed, &workload, ordinal, last)).collect();
        Self { observed, spec, workload, members, last, current, authority: None }
    }

    /// The same, where somebody decides beside the operator.
    pub fn under(self, authority: Authority) -> Self {
        Self { authority: Some(authority), ..self }
    }

    /// The member that the authority calls the primary.
    pub fn named(&self) -> Option<&Member<'a>> {
        self.by_pod(self.authority.as_ref()?.named.as_deref()?)
    }

    /// Members that count for a promotion: no more than people want, no more than there are.
    pub fn wanted(&self) -> u32 {
        if self.current == 0 { self.spec.replicas } else { self.spec.replicas.min(self.current) }
    }

    /// The member that holds the pod with that UID.
    pub fn by_pod(&self, uid: &str) -> Option<&Member<'a>> {
        self.members.iter().find(|m| m.uid() == Some(uid))
    }

    /// The member that the ledger names as last primary, whatever pod holds the place now.
    pub fn last_member(&self) -> Option<&Member<'a>> {
        let last = self.last?;
        self.members.iter().find(|m| m.ordinal == last.ordinal)
    }

    /// Members that answer as primaries.
    pub fn primaries(&self) -> Vec<&Member<'a>> {
        self.members.iter().filter(|m| matches!(m.standing, Standing::Primary(_))).collect()
    }

    /// The lineage that a replication id belongs to, by the ledger.
    pub fn lineage(&self, replid: &str) -> Option<&'a Lineage> {
        self.observed.ledger.lineages.iter().find(|l| !replid.is_empty() && l.replid == replid)
    }

    /// The lineage that was seen last: the one that the last primary wrote.
    pub fn newest_lineage(&self) -> Option<&'a Lineage> {
        self.observed.ledger.lineages.iter().max_by_key(|l| l.seen)
    }

    /// Whether some server says that a hand-over is under way.
    pub fn failover_under_way(&self) -> bool {
        self.members.iter().filter_map(Member::facts_now).any(|f| !matches!(f.failover_state.as_str(), "" | "no-failover"))
    }
}

impl<'a> Member<'a> {
    /// UID of its pod.
    pub fn uid(&self) -> Option<&'a str> {
        self.pod.map(|p| p.uid.as_str())
    }

    /// What it says now; nothing if it doesn't answer.
    pub fn facts_now(&self) -> Option<&'a ServerFacts> {
        match self.standing {
            Standing::Primary(facts) | Standing::Replica(facts, _) => Some(facts),
            _ => None,
        }
    }

    /// The newest that is known of its server, however old.
    pub fn facts_known(&self) -> Option<&'a ServerFacts> {
        self.server.and_then(|s| s.facts.as_ref())
    }

    /// Whether its facts may carry a dangerous step.
    pub fn fresh(&self) -> bool {
        self.facts_now().is_some() && self.server.is_some_and(|s| s.age <= FRESH_MS)
    }

    /// Whether its pod is about to end.
    pub fn terminating(&self) -> bool {
        self.pod.is_some_and(|p| p.terminating_for > 0)
    }

    /// Whether its pod is ready: synced in this run, or primary.
    pub fn ready(&self) -> bool {
        self.pod.is_some_and(|p| p.ready)
    }

    /// Whether it follows nobody.
    pub fn unnamed(&self) -> bool {
        matches!(self.standing, Standing::Replica(_, link) if link.primary == Upstream::Nobody)
    }

    /// Whether it follows that pod.
    pub fn follows(&self, uid: &str) -> bool {
        matches!(self.standing, Standing::Replica(_, link) if matches!(&link.primary, Upstream::Pod(p) if p == uid))
    }
}

/// For how long (ms) a replica's link has been down.
pub fn link_down_for(facts: &ServerFacts) -> Option<u64> {
    match &facts.role {
        Role::Replica(link) => link.down_for,
        Role::Primary => None,
    }
}

/// Members of the workload now: what the host says of it, else what shows of it. No more than there can be: a pod of any number
/// may carry our labels, and a list of billions of places takes all memory.
fn members_now(observed: &Observed, workload: &str) -> u32 {
    let set = observed.objects.iter().find(|o| o.kind == "StatefulSet" && o.name == workload);
    if let Some(members) = set.and_then(|set| set.members) {
        return members.min(crate::spec::MEMBERS_MAX);
    }
    let pods = observed.pods.iter().filter(|p| p.workload == workload && p.terminating_for == 0);
    let by_pods = pods.map(|p| p.ordinal.saturating_add(1)).max().unwrap_or(0);
    let status: Option<serde_json::Value> = set.and_then(|o| serde_json::from_str(&o.status).ok());
    let by_status = status.and_then(|s| s.get("replicas").and_then(serde_json::Value::as_u64)).unwrap_or(0);
    by_pods.max(u32::try_from(by_status).unwrap_or(u32::MAX)).min(crate::spec::MEMBERS_MAX)
}

fn member<'a>(observed: &'a Observed, workload: &str, ordinal: u32, last: Option<&LedgerMember>) -> Member<'a> {
    let here = |p: &&Pod| p.workload == workload && p.ordinal == ordinal;
    let pod = observed.pods.iter().filter(here).min_by_key(|p| p.terminating_for);
    let server = pod.and_then(|p| vko_sdk::lookup::server(observed, &p.uid));
    let claim = vko_sdk::lookup::claim(observed, workload, ordinal);
    let was_primary = pod.zip(last).is_some_and(|(p, l)| p.uid == l.pod);
    let standing = pod.map_or(Standing::Absent, |p| standing(p, server, was_primary));
    Member { ordinal, name: format!("{workload}-{ordinal}"), pod, server, claim, standing }
}

/// What a pod's server is now. `was_primary`: this very pod is the last primary.
pub fn standing<'a>(pod: &'a Pod, server: Option<&'a Server>, was_primary: bool) -> Standing<'a> {
    let ended = pod.container == ContainerState::Terminated || matches!(pod.phase.as_str(), "Failed" | "Succeeded");
    if ended || matches!(pod.node_state, NodeState::Gone | NodeState::OutOfService) {
        return Standing::Dead;
    }
    // A container of the last primary itself that "starts" is no proof that its run has ended; "terminated" would be.
    if pod.container == ContainerState::Starting && !was_primary {
        return Standing::Starting;
    }
    let Some(server) = server else { return unheard(pod, was_primary) };
    let facts = server.facts.as_ref();
    match &server.reach {
        Reach::Answered if server.age <= STALE_MS => match facts {
            Some(facts) => match &facts.role {
                Role::Primary => Standing::Primary(facts),
                Role::Replica(link) => Standing::Replica(facts, link),
            },
            None => Standing::Silent(None),
        },
        Reach::Loading(_) => Standing::Loading {
            unnamed: server.age <= FRESH_MS
                && facts.is_some_and(|f| matches!(&f.role, Role::Replica(link) if link.primary == Upstream::Nobody)),
        },
        Reach::Refused(failure) => Standing::Refusing(&failure.reason),
        Reach::Answered | Reach::Silent(_) if facts.is_none() => unheard(pod, was_primary),
        Reach::Answered | Reach::Silent(_) => Standing::Silent(facts),
    }
}

/// A running container that was never heard. The kubelet is the second point of view: a primary is ready, so a pod that a living
/// kubelet calls not ready is none - unless it is the last primary itself, which may merely stand still.
fn unheard(pod: &Pod, was_primary: bool) -> Standing<'_> {
    if !was_primary && !pod.ready && pod.node_state == NodeState::Alive { Standing::Starting } else { Standing::Silent(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{mk_pod, mk_primary, mk_replica, mk_server};

    #[test]
    fn a_pod_of_any_number_makes_no_empty_places() {
        for (ordinal, expected) in [(2, 3), (4, 5), (9, 6), (u32::MAX, 6)] {
            let mut scene = crate::testing::Scene::healthy("x", 3);
            scene.pod(2, |pod| pod.ordinal = ordinal);
            let spec = crate::spec::read(&scene.observed.instance.spec).unwrap();
            assert_eq!(View::new(&scene.observed, spec).members.len(), expected, "rfr-x-{ordinal}");
        }
    }

    #[test]
    fn standings() {
        let pod = |change: &dyn Fn(&mut Pod)| {
            let mut pod = mk_pod("x", 0);
            change(&mut pod);
            pod
        };
        let name = |s: Standing<'_>| match s {
            Standing::Absent => "absent",
            Standing::Dead => "dead",
            Standing::Starting => "starting",
            Standing::Loading { unnamed: true } => "loading unnamed",
            Standing::Loading { unnamed: false } => "loading",
            Standing::Primary(_) => "primary",
            Standing::Replica(..) => "replica",
            Standing::Refusing(_) => "refusing",
            Standing::Silent(_) => "silent",
        };
        let running = pod(&|_| {});
        let heard = mk_server(&running, mk_primary("r", 9));
        let with = |reach: Reach, age: u64, facts: bool| {
            let facts = facts.then(|| mk_replica("r", 9, Upstream::Nobody));
            Some(Server { pod: running.uid.clone(), reach, age, facts })
        };
        let not_ready = pod(&|p| p.ready = false);
        let heard = Some(heard);
        let table = [
            ("a primary that answers", running.clone(), heard.clone(), true, "primary"),
            ("a container that ended", pod(&|p| p.container = ContainerState::Terminated), heard.clone(), true, "dead"),
            ("a node that is gone", pod(&|p| p.node_state = NodeState::Gone), heard.clone(), true, "dead"),
            ("a node out of service", pod(&|p| p.node_state = NodeState::OutOfService), heard.clone(), true, "dead"),
            ("a silent node proves nothing", pod(&|p| p.node_state = NodeState::Silent), heard.clone(), true, "primary"),
            ("a pod that failed", pod(&|p| p.phase = "Failed".into()), heard.clone(), true, "dead"),
            ("a container that waits", pod(&|p| p.container = ContainerState::Starting), heard.clone(), false, "starting"),
            (
                "a container that waits, of the last primary: no proof",
                pod(&|p| p.container = ContainerState::Starting),
                heard,
                true,
                "primary",
            ),
            ("an old answer is none", running.clone(), with(Reach::Answered, STALE_MS + 1, true), false, "silent"),
            ("silent", running.clone(), with(Reach::Silent(4_000), 4_000, true), false, "silent"),
            ("loading under a role of now", running.clone(), with(Reach::Loading(Some(3)), 10, true), false, "loading unnamed"),
            ("loading, role unknown", running.clone(), with(Reach::Loading(None), 10, false), false, "loading"),
            ("loading, role of before", running.clone(), with(Reach::Loading(None), FRESH_MS + 1, true), false, "loading"),
            ("never heard, but ready", running.clone(), None, false, "silent"),
            ("never heard and not ready", not_ready.clone(), None, false, "starting"),
            ("never heard, not ready, last primary: it may stand still", not_ready, None, true, "silent"),
        ];
        for (case, pod, server, was_primary, expected) in table {
            assert_eq!(name(standing(&pod, server.as_ref(), was_primary)), expected, "{case}");
        }
    }
}
