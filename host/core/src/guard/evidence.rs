//! Evidence: what the rules ask of an observation. Computed here and not taken from any policy.

use vko_wit::observation::{
    ContainerState, FenceRecord, LastPrimary, LedgerMember, NodeState, Observed, Pod, Reach, Role, ServerFacts, Upstream,
};
use vko_wit::planning::{Operation, Step};

use super::Circumstances;

/// An answer older than this is no answer for a dangerous step. Servers are asked once a second while anything is in motion.
const ANSWER_AGE_MAX_MS: u64 = 6_000;
/// Beyond a fence's max-lag: measured, a fenced primary has acknowledged its last write by then.
const FENCE_MARGIN_MS: u64 = 2_000;

/// An observation as the rules ask it.
pub struct View<'a> {
    /// The observation.
    pub observed: &'a Observed,
    /// What the guard knows beside it.
    pub circumstances: Circumstances,
    /// Pods that admitted steps of this plan disturb.
    disturbed: Vec<String>,
    detached: Vec<String>,
    promoted: Vec<String>,
    handed_over: Vec<String>,
}

impl<'a> View<'a> {
    /// Nothing admitted yet.
    pub fn new(observed: &'a Observed, circumstances: Circumstances) -> Self {
        let none = Vec::new;
        Self { observed, circumstances, disturbed: none(), detached: none(), promoted: none(), handed_over: none() }
    }

    /// Notes what an admitted step will change for the steps after it.
    pub fn admit(&mut self, step: &Step) {
        match &step.operation {
            Operation::Evict(pod) | Operation::ForceDelete(pod) => self.disturbed.push(pod.clone()),
            Operation::HandOver(order) => {
                self.handed_over.push(order.replica.clone());
                self.disturbed.push(order.primary.clone());
            }
            Operation::Detach(pod) => self.detached.push(pod.clone()),
            Operation::Promote(pod) => self.promoted.push(pod.clone()),
            _ => {}
        }
    }

    /// Pods that steps admitted so far disturb.
    pub fn disturbed(&self) -> &[String] {
        &self.disturbed
    }

    /// Whether an earlier step of this plan makes that pod the primary.
    pub fn becomes_primary(&self, uid: &str) -> bool {
        self.promoted.iter().chain(&self.handed_over).any(|pod| pod == uid)
    }

    /// A promotion that was admitted already, of another pod.
    pub fn other_promotion(&self, uid: &str) -> Option<&str> {
        self.promoted.iter().map(String::as_str).find(|pod| *pod != uid)
    }

    /// A pod.
    pub fn pod(&self, uid: &str) -> Option<&'a Pod> {
        self.observed.pods.iter().find(|pod| pod.uid == uid)
    }

    /// A pod's name, or its UID.
    pub fn name(&self, uid: &str) -> String {
        self.pod(uid).map_or_else(|| format!("the pod with UID {uid}"), |pod| pod.name.clone())
    }

    /// The last known facts, of whatever age.
    pub fn facts(&self, uid: &str) -> Option<&'a ServerFacts> {
        self.observed.servers.iter().find(|server| server.pod == uid)?.facts.as_ref()
    }

    /// Facts of a server that answers now.
    pub fn answers(&self, uid: &str) -> Option<&'a ServerFacts> {
        let server = self.observed.servers.iter().find(|server| server.pod == uid)?;
        let now = matches!(server.reach, Reach::Answered) && server.age <= ANSWER_AGE_MAX_MS;
        if now { server.facts.as_ref() } else { None }
    }

    /// Whether it answers as a primary now.
    pub fn is_primary(&self, uid: &str) -> bool {
        self.answers(uid).is_some_and(|facts| facts.role == Role::Primary)
    }

    /// Pods that fill a place in the data set.
    pub fn members(&self) -> impl Iterator<Item = &'a Pod> {
        self.observed.pods.iter()
    }

    /// The ledger's last primary in a workload.
    pub fn last_primary(&self, workload: &str) -> Option<&'a LedgerMember> {
        match &self.observed.ledger.last_primary {
            LastPrimary::None => None,
            LastPrimary::Members(members) => members.iter().find(|member| member.workload == workload),
        }
    }

    /// Whether a pod fills the place of the last primary.
    pub fn is_last_primary(&self, pod: &Pod) -> bool {
        self.last_primary(&pod.workload).is_some_and(|last| last.ordinal == pod.ordinal)
    }

    /// The pod that fills a member's place now.
    pub fn pod_of(&self, member: &LedgerMember) -> Option<&'a Pod> {
        self.observed.pods.iter().find(|pod| pod.workload == member.workload && pod.ordinal == member.ordinal)
    }

    /// Dead: a terminated container, a Node object that is gone or out of service. (A pod that is gone has no entry here.) Silent is not
    /// dead.
    pub fn is_dead(&self, pod: &Pod) -> bool {
        pod.container == ContainerState::Terminated || matches!(pod.node_state, NodeState::Gone | NodeState::OutOfService)
    }

    /// Whether a server's data belongs to this data set's history.
    pub fn in_lineage(&self, facts: &ServerFacts) -> bool {
        self.observed.ledger.lineages.iter().any(|lineage| {
            lineage.replid == facts.replid || (!facts.second_replid.is_empty() && lineage.replid == facts.second_replid)
        })
    }

    /// Synced: finished a sync of this data set's history and is in none now. The link may be down.
    pub fn is_synced(&self, facts: &ServerFacts) -> bool {
        let idle = match &facts.role {
            Role::Primary => true,
            Role::Replica(link) => !link.syncing,
        };
        idle && facts.offset > 0 && self.in_lineage(facts)
    }

    /// Replicas that say now that their link to this pod's server is up: it lives, whatever we hear.
    pub fn heard_by(&self, primary: &str) -> Option<&'a Pod> {
        self.members().find(|pod| {
            self.answers(&pod.uid).is_some_and(|facts| match &facts.role {
                Role::Replica(link) => link.up && link.primary == Upstream::Pod(primary.into()) && !self.detached.contains(&pod.uid),
                Role::Primary => false,
            })
        })
    }

    /// Whether the fence of a silent primary has taken effect.
    ///
    /// # Errors
    /// What is missing.
    pub fn is_fenced(&self, pod: &Pod) -> Result<(), String> {
        let run = self.facts(&pod.uid).map(|facts| facts.run_id.as_str()).unwrap_or_default();
        let record = self.observed.ledger.fences.iter().find(|fence| fence.pod == pod.uid && fence.run_id == run && fence.min_replicas > 0);
        let Some(fence) = record else { return Err(format!("{} is silent and carries no fence that the ledger knows", pod.name)) };
        if fence.detached_at == 0 {
            return Err(format!("the replicas of {} are not detached yet", pod.name));
        }
        let effective = fence.detached_at + fence.max_lag + FENCE_MARGIN_MS;
        if self.observed.now < effective {
            return Err(format!("the fence of {} takes effect in {} ms", pod.name, effective - self.observed.now));
        }
        self.enough_detached(pod, fence)
    }

    /// Members that we can't ask may still follow it; fewer of them than the fence's height can't keep it writing.
    fn enough_detached(&self, primary: &Pod, fence: &FenceRecord) -> Result<(), String> {
        let unknown: Vec<&str> = self
            .members()
            .filter(|pod| pod.uid != primary.uid && !self.is_dead(pod) && !pod.addresses.is_empty() && self.answers(&pod.uid).is_none())
            .map(|pod| pod.name.as_str())
            .collect();
        if unknown.len() < usize::try_from(fence.min_replicas).unwrap_or(usize::MAX) {
            return Ok(());
        }
        Err(format!("{} may still be followed by {}", primary.name, unknown.join(", ")))
    }

    /// Whether a person allowed this step for this target: the token names it and isn't used up.
    pub fn consented(&self, step: &Step, target: &str) -> bool {
        !step.consent.is_empty()
            && self.observed.instance.consents.contains(&step.consent)
            && step.consent.split(':').any(|part| part == target)
    }
}
