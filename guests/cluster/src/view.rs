//! The observation as this policy reads it: shards by index, each with its places, and who owns which slots.
//!
//! # Guarantees
//! 1. Every place that the spec or a pod names is in the view, once. A node is known by its id, never by an address.
//! 2. What one server believes is the agreed view with that server's differences; where those were cut off, it is unknown.
//!
//! # Assumptions
//! The host lists in `differs` what a server believes otherwise (with its own node, if it claims other slots than agreed), and
//! counts all of it in `differences`.

use std::collections::BTreeMap;

use vko_replica::view::{Member, Standing, standing};
use vko_sdk::common::SlotRange;
use vko_sdk::observation::{Belief, Claim, ClusterFacts, LastPrimary, LedgerMember, NodeState, Observed, Peer, Pod, Server};
use vko_sdk::slots;

use crate::spec::Spec;

/// A place with the node that fills it.
#[derive(Debug, Clone)]
pub struct Node<'a> {
    /// Place, pod, server and standing.
    pub member: Member<'a>,
    /// Its id, by its own last word, or by the ledger for this very pod.
    pub id: Option<&'a str>,
    /// What it says of the cluster now; nothing if it doesn't answer.
    pub says: Option<&'a ClusterFacts>,
}

/// A shard: one workload.
#[derive(Debug, Clone)]
pub struct Shard<'a> {
    /// From 0.
    pub index: u32,
    /// `drc-<instance>-<index>`.
    pub workload: String,
    /// By ordinal.
    pub nodes: Vec<Node<'a>>,
    /// Those that own slots by the agreed view and belong to this shard, present or gone.
    pub owners: Vec<&'a Peer>,
    /// Slots that it was created with, by the spec.
    pub planned: Vec<SlotRange>,
}

/// The observation, sorted for decisions.
#[derive(Debug)]
pub struct View<'a> {
    /// As the host gave it.
    pub observed: &'a Observed,
    /// What people want.
    pub spec: Spec,
    /// By index.
    pub shards: Vec<Shard<'a>>,
    /// The agreed view by id.
    pub peers: BTreeMap<&'a str, &'a Peer>,
    /// Servers that say what they see of the cluster now.
    pub answering: u32,
    places: BTreeMap<&'a str, (usize, usize)>,
}

impl<'a> View<'a> {
    /// Sorts an observation.
    pub fn new(observed: &'a Observed, spec: Spec) -> Self {
        let servers: BTreeMap<&str, &Server> = observed.servers.iter().map(|s| (s.pod.as_str(), s)).collect();
        let mut pods: BTreeMap<(&str, u32), &Pod> = BTreeMap::new();
        // Of two pods in one place, the one that stays.
        for pod in &observed.pods {
            let place = pods.entry((&pod.workload, pod.ordinal)).or_insert(pod);
            if pod.terminating_for < place.terminating_for {
                *place = pod;
            }
        }
        let claims: BTreeMap<(&str, u32), &Claim> =
            observed.claims.iter().map(|c| ((c.workload.as_str(), c.ordinal), c)).collect();
        let sources = Sources { observed, servers, pods, claims };
        let mut shards: Vec<Shard<'a>> = (0..spec.replicas.shards).map(|index| sources.shard(index, &spec)).collect();
        let mut places = BTreeMap::new();
        for (s, shard) in shards.iter().enumerate() {
            places.extend(shard.nodes.iter().enumerate().filter_map(|(n, node)| Some((node.id?, (s, n)))));
        }
        let peers: BTreeMap<&str, &Peer> = observed.agreed_view.iter().map(|p| (p.id.as_str(), p)).collect();
        let answering = shards.iter().flat_map(|s| &s.nodes).filter(|n| n.says.is_some()).count();
        for peer in observed.agreed_view.iter().filter(|p| !p.slots.is_empty() && p.replica_of.is_empty()) {
            let index = shard_of(&shards, &places, observed, peer);
            if let Some(shard) = index.and_then(|i| shards.get_mut(i)) {
                shard.owners.push(peer);
            }
        }
        Self { observed, spec, shards, peers, answering: u32::try_from(answering).unwrap_or(u32::MAX), places }
    }

    /// All places.
    pub fn nodes(&self) -> impl Iterator<Item = &Node<'a>> {
        self.shards.iter().flat_map(|s| &s.nodes)
    }

    /// The place whose node has that id.
    pub fn by_id(&self, id: &str) -> Option<&Node<'a>> {
        let (shard, node) = self.places.get(id)?;
        self.shards.get(*shard)?.nodes.get(*node)
    }

    /// The shard in which the node with that id has its place.
    pub fn shard_by_id(&self, id: &str) -> Option<&Shard<'a>> {
        self.shards.get(self.places.get(id)?.0)
    }

    /// The agreed word on a place's node.
    pub fn peer(&self, node: &Node<'_>) -> Option<&'a Peer> {
        self.peers.get(node.id?).copied()
    }

    /// Whether a server knows the node with that id. Nothing: its differences were cut off, or it doesn't answer.
    pub fn knows(&self, node: &Node<'_>, id: &str) -> Option<bool> {
        let says = node.says?;
        if says.id == id {
            return Some(true);
        }
        if let Some(belief) = belief(says, id) {
            return Some(belief.known);
        }
        complete(says).then(|| self.peers.get(id).is_some_and(|p| !p.handshake))
    }

    /// Whether a server sees another owner's slots as most do. A server that joined learns them from the owner alone, at its next
    /// pings; until then it would take over nothing but the role. Unknown is a yes here: the host looks again before the order.
    pub fn knows_slots_of(&self, node: &Node<'_>, owner: &Peer) -> bool {
        let belief = node.says.and_then(|says| belief(says, &owner.id));
        belief.is_none_or(|b| slots::minus(&owner.slots, &b.slots).is_empty())
    }

    /// Whether a server has a link to the node with that id, by its own word, and where that was cut off by what most say.
    pub fn reaches(&self, node: &Node<'_>, id: &str) -> bool {
        let own = node.says.and_then(|says| belief(says, id));
        own.map_or_else(|| self.peers.get(id).is_some_and(|p| p.linked_by > 1), |belief| belief.linked)
    }

    /// Slots that a node owns by its own word, and where it gives none by the agreed one.
    pub fn claims(&self, node: &Node<'a>) -> &'a [SlotRange] {
        if let Some(own) = node.says.and_then(|s| own_belief(s)) {
            return &own.slots;
        }
        self.peer(node).map_or(&[], |p| &p.slots)
    }

    /// Whom a node replicates, by its own word, and where it gives none by the agreed one; empty: nobody.
    pub fn replicates(&self, node: &Node<'a>) -> &'a str {
        if let Some(own) = node.says.and_then(|s| own_belief(s)) {
            return &own.replica_of;
        }
        self.peer(node).map_or("", |p| &p.replica_of)
    }

    /// Whether nobody else has a link to that node that answers: the one that is counted is its own.
    pub fn alone(&self, node: &Node<'_>) -> bool {
        self.answering > 1 && self.peer(node).is_none_or(|p| p.linked_by <= 1)
    }

    /// Slots that anybody owns: by the agreed view, or by the word of one who answers.
    pub fn taken(&self) -> Vec<SlotRange> {
        let agreed = self.observed.agreed_view.iter().flat_map(|p| p.slots.iter().copied());
        let claimed = self.nodes().flat_map(|n| self.claims(n).iter().copied());
        slots::normal(&agreed.chain(claimed).collect::<Vec<_>>())
    }

    /// Whether the ledger says that this shard had a primary.
    pub fn had_primary(&self, shard: &Shard<'_>) -> bool {
        last_primaries(self.observed).iter().any(|m| m.workload == shard.workload)
    }

    /// Whether the ledger names this very node as the shard's last primary.
    pub fn was_named(&self, shard: &Shard<'_>, node: &Node<'_>) -> bool {
        let named = |m: &LedgerMember| m.workload == shard.workload && !m.node_id.is_empty() && node.id == Some(&m.node_id);
        last_primaries(self.observed).iter().any(named)
    }

    /// Primaries with slots: how many there are, and how many of them answer as such.
    pub fn primaries(&self) -> (usize, usize) {
        let all = || self.peers.values().filter(|p| !p.slots.is_empty() && p.replica_of.is_empty());
        let alive = all().filter(|p| self.by_id(&p.id).is_some_and(|n| matches!(n.member.standing, Standing::Primary(_))));
        (all().count(), alive.count())
    }

    /// Whether more than half of the primaries answer as such: only they elect.
    pub fn majority(&self) -> bool {
        let (all, alive) = self.primaries();
        alive * 2 > all
    }
}

impl<'a> Shard<'a> {
    /// The one owner of its slots; nothing if there is none or several.
    pub fn owner(&self) -> Option<&'a Peer> {
        match self.owners.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }
}

impl<'a> Node<'a> {
    /// Whether it may be told something: its facts are fresh, it stays, and its node in the cluster is known.
    pub fn able(&self) -> bool {
        self.says.is_some() && self.id.is_some() && self.member.fresh() && !self.member.terminating()
    }

    /// UID of its pod; empty without one.
    pub fn uid(&self) -> &'a str {
        self.member.uid().unwrap_or_default()
    }

    /// Keys that it holds; unknown unless it answers.
    pub fn keys(&self) -> Option<u64> {
        self.member.facts_now().map(|f| f.keys)
    }

    /// Whether it may run a node whose id nobody has heard yet.
    pub fn unidentified(&self) -> bool {
        let runs = self.member.pod.is_some_and(|p| !p.addresses.is_empty()) && self.member.standing != Standing::Dead;
        runs && self.id.is_none()
    }

    /// Whether the agent holds its server back because its data lies behind a replica's.
    pub fn held(&self) -> bool {
        matches!(self.member.standing, Standing::Refusing(reason) if reason.starts_with("HELD behind"))
    }

    /// Whether its end is certain and its pod can't bring the same server back: the pod or its node is gone.
    pub fn gone(&self) -> bool {
        let lost = |p: &Pod| matches!(p.node_state, NodeState::Gone | NodeState::OutOfService);
        self.member.pod.is_none_or(lost)
    }
}

/// Whether all differences of a server are listed.
pub fn complete(says: &ClusterFacts) -> bool {
    usize::try_from(says.differences).is_ok_and(|all| all <= says.differs.len())
}

/// Slots that a server has open, whichever way.
pub fn open(node: &Node<'_>) -> Vec<SlotRange> {
    let marks = node.says.into_iter().flat_map(|says| says.importing.iter().chain(&says.migrating));
    slots::normal(&marks.flat_map(|o| o.slots.iter().copied()).collect::<Vec<_>>())
}

fn own_belief(says: &ClusterFacts) -> Option<&Belief> {
    belief(says, &says.id)
}

/// What a server believes of a node, where that isn't what most believe, as far as the host lists it.
fn belief<'a>(says: &'a ClusterFacts, id: &str) -> Option<&'a Belief> {
    says.differs.iter().find(|b| b.id == id)
}

/// The ledger's member with that node id.
pub fn recorded<'a>(observed: &'a Observed, id: &str) -> Option<&'a LedgerMember> {
    observed.ledger.members.iter().find(|m| !id.is_empty() && m.node_id == id)
}

/// The last primaries, one for each shard that had one.
fn last_primaries(observed: &Observed) -> &[LedgerMember] {
    match &observed.ledger.last_primary {
        LastPrimary::None => &[],
        LastPrimary::Members(members) => members,
    }
}

/// To which shard an owner of slots belongs: by its place, else by the ledger, by who replicates it, by its slots.
fn shard_of(shards: &[Shard<'_>], places: &BTreeMap<&str, (usize, usize)>, observed: &Observed, peer: &Peer) -> Option<usize> {
    if let Some((shard, _)) = places.get(peer.id.as_str()) {
        return Some(*shard);
    }
    let last = || last_primaries(observed).iter().find(|m| !m.node_id.is_empty() && m.node_id == peer.id);
    if let Some(member) = recorded(observed, &peer.id).or_else(last) {
        return shards.iter().position(|s| s.workload == member.workload);
    }
    let follower = observed.agreed_view.iter().find(|p| p.replica_of == peer.id).and_then(|p| places.get(p.id.as_str()));
    if let Some((shard, _)) = follower {
        return Some(*shard);
    }
    shards.iter().position(|s| !slots::common(&s.planned, &peer.slots).is_empty())
}

struct Sources<'a> {
    observed: &'a Observed,
    servers: BTreeMap<&'a str, &'a Server>,
    pods: BTreeMap<(&'a str, u32), &'a Pod>,
    claims: BTreeMap<(&'a str, u32), &'a Claim>,
}

impl<'a> Sources<'a> {
    fn shard(&self, index: u32, spec: &Spec) -> Shard<'a> {
        let workload = format!("drc-{}-{index}", self.observed.instance.name);
        let nodes = (0..spec.replicas.replicas_of_shard).map(|ordinal| self.node(&workload, ordinal)).collect();
        Shard { index, nodes, owners: Vec::new(), planned: spec.planned(index), workload }
    }

    fn node(&self, workload: &str, ordinal: u32) -> Node<'a> {
        let pod = self.pods.get(&(workload, ordinal)).copied();
        let server = pod.and_then(|p| self.servers.get(p.uid.as_str()).copied());
        let claim = self.claims.get(&(workload, ordinal)).copied();
        let recorded = pod.and_then(|p| self.observed.ledger.members.iter().find(|m| m.pod == p.uid));
        let last = last_primaries(self.observed);
        let was_primary = pod.is_some_and(|p| last.iter().any(|m| m.pod == p.uid));
        let standing = pod.map_or(Standing::Absent, |p| standing(p, server, was_primary));
        let member = Member { ordinal, name: format!("{workload}-{ordinal}"), pod, server, claim, standing };
        let heard = member.facts_known().and_then(|f| f.cluster.first());
        let says = heard.filter(|_| member.facts_now().is_some());
        let by_ledger = recorded.map(|m| m.node_id.as_str()).filter(|id| !id.is_empty());
        let id = heard.map(|c| c.id.as_str()).filter(|id| !id.is_empty()).or(by_ledger);
        Node { member, id, says }
    }
}
