//! Evidence of clusters: nodes, owners of slots, and who of them answers.

use vko_wit::common::SlotRange;
use vko_wit::observation::{Belief, ClusterFacts, Peer, Pod, Reach, Role, Upstream};

use crate::guard::View;
use crate::guard::evidence::ANSWER_AGE_MAX_MS;
use crate::procedure::cluster::slot_set;

impl<'a> View<'a> {
    /// What a server that answers says of its cluster.
    pub(in crate::guard) fn cluster(&self, uid: &str) -> Option<&'a ClusterFacts> {
        self.answers(uid)?.cluster.first()
    }

    /// A node for people: its pod's name, or its id.
    pub(super) fn node_name(&self, node: &str) -> String {
        self.pod_of_node(node).map_or_else(|| format!("the node {node}"), |pod| pod.name.clone())
    }

    /// Members that may run a server whose node id nobody has heard yet.
    pub(super) fn unidentified(&self) -> impl Iterator<Item = &'a Pod> {
        self.members().filter(|pod| !pod.addresses.is_empty() && !self.is_dead(pod) && self.node_of(&pod.uid).is_none())
    }

    /// Nodes that own slots, by the view that most share.
    pub(in crate::guard) fn owners(&self) -> impl Iterator<Item = &'a Peer> + use<'a> {
        self.observed.agreed_view.iter().filter(|peer| !peer.slots.is_empty())
    }

    /// Whether a node's server answers as a primary.
    pub(super) fn leads(&self, node: &str) -> bool {
        self.pod_of_node(node).is_some_and(|pod| self.is_primary(&pod.uid))
    }

    /// Owners of slots that answer as primaries, and all of them.
    pub(super) fn owners_answering(&self) -> (usize, usize) {
        self.owners_left(|_| false)
    }

    /// Owners of slots that answer as primaries and aren't disturbed, and all of them.
    pub(in crate::guard) fn owners_left(&self, disturbed: impl Fn(&str) -> bool) -> (usize, usize) {
        let left = |node: &str| self.pod_of_node(node).is_some_and(|pod| self.is_primary(&pod.uid) && !disturbed(&pod.uid));
        self.owners().fold((0, 0), |(count, all), owner| (count + usize::from(left(&owner.id)), all + 1))
    }

    /// Whether more than half of the owners of slots answer: elections and hand-overs get their votes.
    pub(in crate::guard) fn majority_answers(&self) -> bool {
        let (answering, all) = self.owners_answering();
        answering * 2 > all
    }

    /// Whether a pod's server owns slots, by the view that most share or by its own.
    pub(in crate::guard) fn owns_slots(&self, uid: &str) -> bool {
        let Some(node) = self.node_of(uid) else { return false };
        let agreed = self.peer(node).is_some_and(|peer| !peer.slots.is_empty());
        agreed || self.own_belief(uid).is_some_and(|belief| !belief.slots.is_empty())
    }

    /// What a server believes of itself, where that isn't what most believe.
    fn own_belief(&self, uid: &str) -> Option<&'a Belief> {
        let cluster = self.facts(uid)?.cluster.first()?;
        belief(cluster, &cluster.id)
    }

    /// Slots that a server claims by its own word, and where it gives none by what most believe.
    pub(super) fn claims(&self, uid: &str) -> &'a [SlotRange] {
        let agreed = || self.node_of(uid).and_then(|node| self.peer(node)).map_or(&[][..], |peer| &peer.slots);
        self.own_belief(uid).map_or_else(agreed, |belief| &belief.slots)
    }

    /// Whether a server knows a node. `None`: it doesn't answer, or its differences were cut off.
    pub(super) fn knows_node(&self, uid: &str, node: &str) -> Option<bool> {
        let cluster = self.cluster(uid)?;
        if cluster.id == node {
            return Some(true);
        }
        if let Some(belief) = belief(cluster, node) {
            return Some(belief.known);
        }
        let all = usize::try_from(cluster.differences).is_ok_and(|all| all <= cluster.differs.len());
        all.then(|| self.peer(node).is_some_and(|peer| !peer.handshake))
    }

    /// Whether a server is known not to know all slots of an owner: told to take over, it would get the role without them.
    pub(super) fn lacks_slots_of(&self, uid: &str, owner: &Peer) -> bool {
        let belief = self.cluster(uid).and_then(|cluster| belief(cluster, &owner.id));
        belief.is_some_and(|belief| !covers(&belief.slots, &owner.slots))
    }

    /// Whether a server's view of itself is the one that most share.
    pub(super) fn agrees_on_itself(&self, uid: &str) -> bool {
        let cluster = self.cluster(uid);
        cluster.is_some_and(|cluster| self.peer(&cluster.id).is_some()) && self.own_belief(uid).is_none()
    }

    /// A node that is alive and no server of ours, as far as this server may know it.
    pub(super) fn foreigner(&self, uid: &str) -> Option<&'a Peer> {
        let differs = self.cluster(uid).map(|cluster| cluster.differs.as_slice()).unwrap_or_default();
        let unknown = |node: &str| differs.iter().any(|belief| belief.id == node && !belief.known);
        self.observed.agreed_view.iter().find(|peer| self.is_foreign(peer) && !unknown(&peer.id))
    }

    /// Alive, and neither a pod's server nor one that was: a former pod's id stays in views until it is forgotten. While a member
    /// isn't identified, it may be the one.
    fn is_foreign(&self, peer: &Peer) -> bool {
        let alive = peer.linked_by > 0 && !peer.failed && !peer.handshake;
        let ours = || {
            matches!(peer.pod, Upstream::Pod(_))
                || self.pod_of_node(&peer.id).is_some()
                || self.observed.ledger.members.iter().any(|member| member.node_id == peer.id)
        };
        alive && !ours()
    }

    /// Whether our agent holds a server back because a replica has more than it. One that only waits for an answer may start yet.
    pub(in crate::guard) fn is_held(&self, uid: &str) -> bool {
        let server = self.server(uid);
        // The answer is the agent's and of now, however old the facts are.
        server.is_some_and(|server| matches!(&server.reach, Reach::Refused(failure) if failure.reason.starts_with("HELD behind")))
    }

    /// The other members of its shard that answer and hold data.
    pub(super) fn copies<'b>(&self, uid: &'b str) -> impl Iterator<Item = &'a Pod> + use<'a, 'b, '_> {
        self.others(uid).filter(|pod| self.answers(&pod.uid).is_some_and(|facts| facts.keys > 0))
    }

    /// Whether it says now that it is a replica, and is heard.
    pub(super) fn is_answering_replica(&self, uid: &str) -> bool {
        let fresh = self.age(uid) <= ANSWER_AGE_MAX_MS;
        fresh && self.answers(uid).is_some_and(|facts| matches!(facts.role, Role::Replica(_)))
    }
}

/// What a server believes of a node, where that isn't what most believe, as far as it is listed.
fn belief<'a>(cluster: &'a ClusterFacts, node: &str) -> Option<&'a Belief> {
    cluster.differs.iter().find(|belief| belief.id == node)
}

/// Whether two lists of slots have one in common.
pub(super) fn overlap(one: &[SlotRange], other: &[SlotRange]) -> bool {
    one.iter().any(|a| other.iter().any(|b| a.first <= b.last && b.first <= a.last))
}

/// Whether all of these slots are in the other list, which may cut them in pieces. What is no range is in none.
pub(super) fn covers(all: &[SlotRange], slots: &[SlotRange]) -> bool {
    match (slot_set(all), slot_set(slots)) {
        (Ok(all), Ok(slots)) => slots.difference(&all).is_empty(),
        _ => false,
    }
}
