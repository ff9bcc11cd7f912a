//! Evidence: what the rules ask of an observation. Computed here and not taken from any policy.

use std::collections::BTreeMap;

use vko_wit::common::Architecture;
use vko_wit::observation::{
    ContainerState, DataOrigin, LastPrimary, LedgerMember, Lineage, NodeState, Observed, Peer, Pod, Reach, ReplicaLink, Role,
    Server, ServerFacts, Upstream,
};
use vko_wit::planning::{Operation, Step, Takeover, Track};

use super::Circumstances;
use crate::workloads::is_data;

/// An answer older than this is no answer for a dangerous step. Servers are asked once a second while anything is in motion.
pub(super) const ANSWER_AGE_MAX_MS: u64 = 6_000;
/// How far (bytes) a copy may lie below the best offset that is known and still count as complete: what a healthy link has in
/// flight.
const IN_FLIGHT_BYTES: u64 = 1 << 20;

/// How much earlier (ms) than the primary's last word a link may have broken: the two are measured to a second each.
const CUT_TOLERATED_MS: u64 = 2_000;

/// What a consent can allow: first part of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// Promote a copy that may lack writes which another one holds.
    Promote,
    /// Follow a primary that lacks writes which this copy holds.
    Discard,
    /// Restart a server that may hold the only copy.
    Restart,
    /// Give slots to a server although what they held may be elsewhere.
    Slots,
}

impl Consent {
    const fn text(self) -> &'static str {
        match self {
            Self::Promote => "promote-data-loss",
            Self::Discard => "discard-writes",
            Self::Restart => "restart-data-loss",
            Self::Slots => "slots-data-loss",
        }
    }
}

/// An observation as the rules ask it.
pub struct View<'a> {
    /// The observation.
    pub observed: &'a Observed,
    /// What the guard knows beside it.
    pub circumstances: Circumstances,
    index: Index<'a>,
    /// Pods that admitted steps disturb: those of running tracks, and of this plan so far.
    disturbed: Vec<String>,
    /// Pods that admitted steps make primaries.
    heirs: Vec<String>,
    /// The same, of the track that is being checked: only its steps are sure to come after.
    heirs_of_track: Vec<String>,
    /// Whether an admitted step takes a shard over without votes.
    unvoted: bool,
    /// Whether an admitted step lets the Sentinels choose a primary.
    sentinels_choose: bool,
    /// Sentinels (ids) that other tracks take out of service, and those that this track does.
    sentinels_disturbed: Vec<String>,
    sentinels_of_track: Vec<String>,
}

/// Who is who, by identity: an observation may list hundreds of servers, and rules ask for one again and again.
struct Index<'a> {
    pods: BTreeMap<&'a str, &'a Pod>,
    servers: BTreeMap<&'a str, &'a Server>,
    peers: BTreeMap<&'a str, &'a Peer>,
    /// Node ids that the ledger knows, by the pod that had them.
    recorded: BTreeMap<&'a str, &'a str>,
    /// Pods by the node id of their server.
    nodes: BTreeMap<&'a str, &'a Pod>,
}

impl<'a> Index<'a> {
    fn new(observed: &'a Observed) -> Self {
        let known = observed.ledger.members.iter().rev().filter(|member| !member.node_id.is_empty());
        let mut index = Self {
            pods: observed.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect(),
            servers: observed.servers.iter().map(|server| (server.pod.as_str(), server)).collect(),
            peers: observed.agreed_view.iter().map(|peer| (peer.id.as_str(), peer)).collect(),
            recorded: known.map(|member| (member.pod.as_str(), member.node_id.as_str())).collect(),
            nodes: BTreeMap::new(),
        };
        for pod in observed.pods.iter().filter(|pod| is_data(&observed.instance, &pod.workload)) {
            if let Some(node) = index.node_of(&pod.uid) {
                index.nodes.entry(node).or_insert(pod);
            }
        }
        index
    }

    fn node_of(&self, uid: &str) -> Option<&'a str> {
        let facts = self.servers.get(uid).and_then(|server| server.facts.as_ref());
        let said = facts.and_then(|facts| facts.cluster.first()).map(|cluster| cluster.id.as_str());
        said.or_else(|| self.recorded.get(uid).copied())
    }
}

impl<'a> View<'a> {
    /// Nothing admitted yet.
    pub fn new(observed: &'a Observed, circumstances: Circumstances) -> Self {
        let none = Vec::new;
        Self {
            observed,
            circumstances,
            index: Index::new(observed),
            disturbed: none(),
            heirs: none(),
            heirs_of_track: none(),
            unvoted: false,
            sentinels_choose: false,
            sentinels_disturbed: none(),
            sentinels_of_track: none(),
        }
    }

    /// Notes the steps of a track that runs: what they do counts for every other track.
    pub fn admit_running(&mut self, track: &Track) {
        track.steps.iter().for_each(|step| self.admit(step));
        self.begin_track();
    }

    /// A track of the plan begins.
    pub fn begin_track(&mut self) {
        self.heirs_of_track.clear();
        self.sentinels_disturbed.append(&mut self.sentinels_of_track);
    }

    /// Notes what an admitted step will change for the steps after it.
    pub fn admit(&mut self, step: &Step) {
        match &step.operation {
            Operation::Evict(pod) | Operation::ForceDelete(pod) => {
                self.sentinels_of_track.extend(self.sentinel_in(pod).map(|sentinel| sentinel.id.clone()));
                self.disturbed.push(pod.clone());
            }
            // Where a pod uses it: it begins anew.
            Operation::DeleteClaim(claim) => self.disturbed.extend(self.user_of(claim).map(|pod| pod.uid.clone())),
            Operation::HandOver(order) => {
                self.disturbed.push(order.primary.clone());
                self.admit_heir(&order.replica);
            }
            Operation::Promote(pod) => self.admit_heir(pod),
            Operation::OwnSlots(assignment) => self.admit_heir(&assignment.pod),
            Operation::TakeOver(order) => {
                self.unvoted |= order.mode == Takeover::Takeover;
                self.admit_heir(&order.replica);
            }
            Operation::SentinelFailover(_) => self.sentinels_choose = true,
            Operation::Unmonitor(name) | Operation::ResetMonitor(name) => self.sentinels_of_track.push(name.sentinel.clone()),
            // It watches again.
            Operation::Monitor(monitor) => self.sentinels_of_track.retain(|id| *id != monitor.sentinel),
            _ => {}
        }
    }

    /// The pod that fills the place of a claim, outside of clusters.
    fn user_of(&self, claim: &str) -> Option<&'a Pod> {
        let claim = self.observed.claims.iter().find(|c| c.uid == claim)?;
        let in_place = |pod: &&'a Pod| pod.workload == claim.workload && pod.ordinal == claim.ordinal;
        self.members().find(in_place).filter(|_| self.observed.instance.architecture == Architecture::Replica)
    }

    fn admit_heir(&mut self, pod: &str) {
        self.heirs.push(pod.to_owned());
        self.heirs_of_track.push(pod.to_owned());
    }

    /// Whether an admitted step takes a shard over without votes.
    pub fn takes_over_unvoted(&self) -> bool {
        self.unvoted
    }

    /// Whether an admitted step lets the Sentinels choose a primary.
    pub fn sentinels_choose(&self) -> bool {
        self.sentinels_choose
    }

    /// Another Sentinel that admitted steps take out of service and don't bring back before this one.
    pub fn other_sentinel_disturbed(&self, id: &str) -> Option<&str> {
        self.sentinels_disturbed.iter().chain(&self.sentinels_of_track).map(String::as_str).find(|other| *other != id)
    }

    /// Pods that steps admitted so far disturb.
    pub fn disturbed(&self) -> &[String] {
        &self.disturbed
    }

    /// Whether an earlier step of this track makes that pod the primary.
    pub fn becomes_primary(&self, uid: &str) -> bool {
        self.heirs_of_track.iter().any(|pod| pod == uid)
    }

    /// Another pod of the same data set that an admitted step makes the primary.
    pub fn other_heir(&self, uid: &str) -> Option<&str> {
        self.heirs.iter().map(String::as_str).find(|pod| *pod != uid && self.same_workload(pod, uid))
    }

    /// Whether two pods are of one workload: members of one data set, or Sentinels of one group.
    pub fn same_workload(&self, one: &str, other: &str) -> bool {
        let workload = |uid: &str| self.pod(uid).map(|pod| pod.workload.as_str());
        workload(one) == workload(other)
    }

    /// A pod.
    pub fn pod(&self, uid: &str) -> Option<&'a Pod> {
        self.index.pods.get(uid).copied()
    }

    /// A node as most servers see it.
    pub(super) fn peer(&self, node: &str) -> Option<&'a Peer> {
        self.index.peers.get(node).copied()
    }

    /// The node id of a pod's server: what it last said itself, else what the ledger knows of this very pod.
    pub(super) fn node_of(&self, uid: &str) -> Option<&'a str> {
        self.index.node_of(uid)
    }

    /// The pod whose server has that node id.
    pub(super) fn pod_of_node(&self, node: &str) -> Option<&'a Pod> {
        self.index.nodes.get(node).copied()
    }

    /// A pod's name, or its UID.
    pub fn name(&self, uid: &str) -> String {
        self.pod(uid).map_or_else(|| format!("the pod with UID {uid}"), |pod| pod.name.clone())
    }

    pub(super) fn server(&self, uid: &str) -> Option<&'a Server> {
        self.index.servers.get(uid).copied()
    }

    /// Age (ms) of what a server last said; the largest there is if it said nothing.
    pub fn age(&self, uid: &str) -> u64 {
        self.server(uid).map_or(u64::MAX, |server| server.age)
    }

    /// The last known facts, of whatever age.
    pub fn facts(&self, uid: &str) -> Option<&'a ServerFacts> {
        self.server(uid)?.facts.as_ref()
    }

    /// Facts of a server that answers now.
    pub fn answers(&self, uid: &str) -> Option<&'a ServerFacts> {
        let server = self.server(uid)?;
        let now = matches!(server.reach, Reach::Answered) && server.age <= ANSWER_AGE_MAX_MS;
        if now { server.facts.as_ref() } else { None }
    }

    /// Whether it answers as a primary now.
    pub fn is_primary(&self, uid: &str) -> bool {
        self.answers(uid).is_some_and(|facts| facts.role == Role::Primary)
    }

    /// Whether it says now, maybe while loading its data, that it is a replica: it acknowledges no write.
    pub fn is_replica(&self, uid: &str) -> bool {
        self.server(uid).is_some_and(|server| {
            let speaks = matches!(server.reach, Reach::Answered | Reach::Loading(_)) && server.age <= ANSWER_AGE_MAX_MS;
            speaks && server.facts.as_ref().is_some_and(|facts| matches!(facts.role, Role::Replica(_)))
        })
    }

    /// Pods that fill a place in a data set.
    pub fn members(&self) -> impl Iterator<Item = &'a Pod> + use<'a> {
        let observed = self.observed;
        observed.pods.iter().filter(|pod| is_data(&observed.instance, &pod.workload))
    }

    /// The other members of its workload.
    pub fn others<'b>(&self, uid: &'b str) -> impl Iterator<Item = &'a Pod> + use<'a, 'b> {
        let workload = self.pod(uid).map(|pod| pod.workload.as_str());
        self.observed.pods.iter().filter(move |pod| pod.uid != uid && Some(pod.workload.as_str()) == workload)
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

    /// Whether that pod answers as the primary that the ledger names.
    pub fn is_accepted_primary(&self, pod: &Pod) -> bool {
        self.is_primary(&pod.uid) && self.is_last_primary(pod)
    }

    /// Dead: a terminated container, a Node object that is gone or out of service. (A pod that is gone has no entry here.) Silent
    /// is not dead.
    pub fn is_dead(&self, pod: &Pod) -> bool {
        pod.container == ContainerState::Terminated || node_is_lost(pod)
    }

    /// The history that the data set has now.
    fn newest_lineage(&self) -> Option<&'a Lineage> {
        self.observed.ledger.lineages.first()
    }

    /// Whether the ledger knows a replication history.
    pub fn knows(&self, replid: &str) -> bool {
        !replid.is_empty() && self.observed.ledger.lineages.iter().any(|lineage| lineage.replid == replid)
    }

    /// Whether a server's data belongs to this data set's history, old or new.
    pub fn in_lineage(&self, facts: &ServerFacts) -> bool {
        self.knows(&facts.replid) || self.knows(&facts.second_replid)
    }

    /// Synced: its data is of the newest history, reaches as far as that is known to reach, and no sync is under way. The link
    /// may be down.
    pub fn is_synced(&self, facts: &ServerFacts) -> bool {
        let Some(newest) = self.newest_lineage() else { return false };
        let whole = facts.replid == newest.replid && facts.offset.saturating_add(IN_FLIGHT_BYTES) >= newest.best_offset;
        // Made a primary out of the newest history, by a hook: the ledger learns its new name later.
        let descends = !facts.second_replid.is_empty() && facts.second_replid == newest.replid;
        !is_syncing(facts) && facts.offset > 0 && (whole || descends)
    }

    /// Synced, and as far as is known until the last primary's end.
    pub fn is_complete(&self, pod: &Pod, facts: &ServerFacts) -> bool {
        self.is_synced(facts) && !self.was_cut_off(pod, facts)
    }

    /// Whether its link to the primary broke while that one went on serving and writing.
    fn was_cut_off(&self, pod: &Pod, facts: &ServerFacts) -> bool {
        let Role::Replica(ReplicaLink { down_for: Some(down), .. }) = facts.role else { return false };
        let Some(last) = self.last_primary(&pod.workload) else { return false };
        // The fence bounds what it let through after that.
        let fence = self.observed.ledger.fences.iter().find(|fence| fence.pod == last.pod && fence.min_replicas > 0);
        let tolerated = fence.map_or(CUT_TOLERATED_MS, |fence| fence.max_lag.saturating_add(CUT_TOLERATED_MS));
        let broke_ago = down.saturating_add(self.server(&pod.uid).map_or(0, |server| server.age));
        let served = self.server(&last.pod).and_then(|server| Some((server.age, server.facts.as_ref()?)));
        match served.filter(|(_, served)| served.role == Role::Primary) {
            Some((_, served)) if served.replid == facts.replid && served.offset <= facts.offset => false,
            Some((heard_ago, _)) => broke_ago > heard_ago.saturating_add(tolerated),
            // A fence on record: some replica was in sync when it was last looked at.
            None if fence.is_some() => false,
            // It served no longer than until its server was started again.
            None => {
                let started_ago = self.restarted_ago(&last.pod).filter(|ago| broke_ago > *ago);
                started_ago.map_or(down > tolerated, |ago| broke_ago > ago.saturating_add(tolerated))
            }
        }
    }

    /// How long ago (ms) the server was started that runs in a pod now and follows nobody. Uptimes are whole seconds: it may have
    /// been a second earlier.
    fn restarted_ago(&self, uid: &str) -> Option<u64> {
        let server = self.server(uid)?;
        let facts = server.facts.as_ref()?;
        let follows_nobody = matches!(&facts.role, Role::Replica(link) if link.primary == Upstream::Nobody);
        follows_nobody.then(|| server.age.saturating_add(facts.uptime))
    }

    /// Whether some copy's history goes on under a name that the ledger doesn't know: somebody was made a primary unseen.
    pub fn moved_on(&self) -> bool {
        let mut answering = self.members().filter_map(|pod| self.answers(&pod.uid));
        answering.any(|facts| !self.knows(&facts.replid) && self.knows(&facts.second_replid))
    }

    /// A copy of the same history that answers, will stay, and reaches farther than what may be in flight. One that was read from
    /// a file is none beside one that streamed: a synced replica wins over a primary that restarted.
    pub fn better_copy(&self, target: &Pod, facts: &ServerFacts) -> Option<&'a Pod> {
        let wanted = self.wanted_members();
        self.others(&target.uid).find(|pod| {
            let stays = u64::from(pod.ordinal) < wanted && pod.terminating_for == 0 && !node_is_lost(pod);
            let farther = |other: &ServerFacts| {
                let same = !facts.replid.is_empty() && other.replid == facts.replid;
                let counts = !is_syncing(other) && (!was_loaded(other) || was_loaded(facts));
                same && counts && other.offset > facts.offset.saturating_add(IN_FLIGHT_BYTES)
            };
            stays && self.answers(&pod.uid).is_some_and(farther)
        })
    }

    /// How many members the spec asks for, in each shard; as many as can be while it can't be read, so that nothing counts as
    /// surplus.
    pub fn wanted_members(&self) -> u64 {
        let spec: Option<serde_json::Value> = serde_json::from_str(&self.observed.instance.spec).ok();
        let replicas = spec.as_ref().and_then(|spec| spec.get("replicas"));
        replicas.and_then(|replicas| replicas.as_u64().or_else(|| replicas.get("replicasOfShard")?.as_u64())).unwrap_or(u64::MAX)
    }

    /// Members that answer and say that they follow this pod's server, whether their link is up or not.
    pub fn followers(&self, primary: &str) -> impl Iterator<Item = &'a Pod> {
        self.members().filter(move |pod| {
            self.answers(&pod.uid).is_some_and(|facts| match &facts.role {
                Role::Replica(link) => matches!(&link.primary, Upstream::Pod(uid) if uid == primary),
                Role::Primary => false,
            })
        })
    }

    /// Whether a person allowed this: the token names the kind and the target, and isn't used up.
    pub(super) fn consented(&self, step: &Step, kind: Consent, target: &str) -> bool {
        let mut parts = step.consent.split(':');
        let fits = parts.next() == Some(kind.text()) && parts.next() == Some(target);
        fits && self.observed.instance.consents.contains(&step.consent)
    }
}

/// Whether the machine is gone for good, by Kubernetes' word.
pub(super) fn node_is_lost(pod: &Pod) -> bool {
    matches!(pod.node_state, NodeState::Gone | NodeState::OutOfService)
}

pub(super) fn is_syncing(facts: &ServerFacts) -> bool {
    matches!(&facts.role, Role::Replica(link) if link.syncing)
}

/// Whether its data was read from a file at its start.
pub(super) fn was_loaded(facts: &ServerFacts) -> bool {
    matches!(facts.origin, DataOrigin::Snapshot | DataOrigin::AppendOnlyFile)
}
