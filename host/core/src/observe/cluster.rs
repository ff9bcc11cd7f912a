//! What the servers of a cluster agree on, and where each differs.
//!
//! # Guarantees
//! 1. Only servers that answer have a say in what is agreed.
//! 2. A node is its id. A pod's node is what its own server calls itself; an address only tells strangers apart, and pods that
//!    never answered.
//! 3. The observation grows with the cluster and not with its square: a server's differences are cut at [`DIFFERENCES_MAX`], its
//!    own node first.
//!
//! # Flow
//! 1. Servers that believe the same are one group ([`crate::beliefs`] made them share it).
//! 2. For each node that anybody knows: what most servers believe that know it, of equally many the one with the highest config
//!    epoch. Whoever is only being met is not known.
//! 3. A link or a suspicion is agreed on if more than half of those that know the node have it.
//! 4. Each group, and then each server, against that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use vko_model::cluster::{Direction, OpenSlot};
use vko_model::slots::{Range, SlotSet};
use vko_wit::common::SlotRange;
use vko_wit::observation::{Belief as ObservedBelief, ClusterFacts, OpenSlots, Peer, Pod, Upstream};

use super::Inputs;
use super::servers::Places;
use crate::beliefs::{Belief, Beliefs, View};
use crate::memory::{ClusterMemory, ServerMemory};

/// Differences that are shown of one server; all are counted.
const DIFFERENCES_MAX: usize = 16;

/// What is agreed of a node.
struct Agreed<'a> {
    belief: &'a Belief,
    /// Servers that answer, know it and are done with meeting it.
    known_by: u32,
    linked_by: u32,
    suspected_by: u32,
}

impl Agreed<'_> {
    fn is_linked(&self) -> bool {
        self.linked_by * 2 > self.known_by
    }

    fn is_suspect(&self) -> bool {
        self.suspected_by * 2 > self.known_by
    }
}

/// The agreed view.
pub(super) struct Agreement<'a> {
    /// By id.
    nodes: BTreeMap<&'a str, Agreed<'a>>,
    /// Nodes that most have no link to, and that most suspect, sorted.
    unlinked: Vec<&'a str>,
    suspects: Vec<&'a str>,
    /// Nodes of which a common part says something else, links aside, sorted.
    otherwise: BTreeMap<*const Beliefs, Vec<&'a str>>,
}

/// The views of the servers that answer.
fn views<'a>(inputs: &'a Inputs<'_>) -> impl Iterator<Item = &'a View> {
    inputs.servers.values().filter(|server| server.failing_since.is_none()).filter_map(view)
}

fn view(server: &ServerMemory) -> Option<&View> {
    server.cluster.as_ref()?.view.as_ref()
}

impl<'a> Agreement<'a> {
    pub(super) fn new(inputs: &'a Inputs<'_>) -> Self {
        let mut groups: BTreeMap<*const Beliefs, (&Beliefs, u32)> = BTreeMap::new();
        for view in views(inputs) {
            groups.entry(Arc::as_ptr(&view.beliefs)).or_insert((&view.beliefs, 0)).1 += 1;
        }
        let mut agreed: BTreeMap<&str, Agreed<'_>> =
            opinions(groups.values().copied()).into_iter().filter_map(|(id, all)| Some((id, agree(&all)?))).collect();
        for view in views(inputs) {
            for id in &view.unlinked {
                if let Some(node) = agreed.get_mut(id.as_str()).filter(|_| knows(view, id)) {
                    node.linked_by = node.linked_by.saturating_sub(1);
                }
            }
            for id in &view.suspects {
                if let Some(node) = agreed.get_mut(id.as_str()).filter(|_| knows(view, id)) {
                    node.suspected_by += 1;
                }
            }
        }
        let of = |which: fn(&Agreed<'_>) -> bool| agreed.iter().filter(|(_, node)| which(node)).map(|(id, _)| *id).collect();
        let (unlinked, suspects) = (of(|node| !node.is_linked()), of(|node| node.is_suspect()));
        // Those that don't answer have no say, and their last word is compared all the same.
        let all = inputs.servers.values().filter_map(view).map(|view| &*view.beliefs);
        let mut otherwise: BTreeMap<*const Beliefs, Vec<&str>> = BTreeMap::new();
        for beliefs in all {
            otherwise.entry(std::ptr::from_ref(beliefs)).or_insert_with(|| differing(&agreed, beliefs));
        }
        Self { nodes: agreed, unlinked, suspects, otherwise }
    }

    /// The agreed view as policies see it.
    pub(super) fn peers(&self, inputs: &Inputs<'_>, pods: &[Pod]) -> Vec<Peer> {
        let owners = Owners::new(inputs, pods);
        let peer = |(id, agreed): (&&str, &Agreed<'_>)| Peer {
            id: (*id).to_owned(),
            pod: owners.of(id),
            replica_of: agreed.belief.replica_of.clone(),
            config_epoch: agreed.belief.config_epoch,
            failed: agreed.belief.failed,
            handshake: agreed.belief.handshake,
            suspected_by: agreed.suspected_by,
            linked_by: agreed.linked_by,
            slots: ranges(&agreed.belief.slots),
        };
        self.nodes.iter().map(peer).collect()
    }

    /// What a server says of the cluster; nothing before it has said all of it once.
    pub(super) fn facts(&self, memory: &ClusterMemory) -> Option<ClusterFacts> {
        let view = memory.view.as_ref()?;
        let different = self.different(view);
        Some(ClusterFacts {
            id: view.me.clone(),
            state_ok: memory.info.state_ok == Some(true),
            epoch: memory.info.current_epoch.unwrap_or(0),
            config_epoch: memory.info.my_epoch.unwrap_or(0),
            importing: open(&view.open, Direction::Importing),
            migrating: open(&view.open, Direction::Migrating),
            migrations: Vec::new(),
            differs: different.iter().take(DIFFERENCES_MAX).map(|id| observed_belief(view, id)).collect(),
            differences: u32::try_from(different.len()).unwrap_or(u32::MAX),
        })
    }

    /// Ids of the nodes of which this server believes something else, its own first.
    fn different<'b>(&'b self, view: &'b View) -> Vec<&'b str> {
        let common = self.otherwise.get(&Arc::as_ptr(&view.beliefs)).map(Vec::as_slice).unwrap_or_default();
        let mut ids: BTreeSet<&str> = common.iter().copied().collect();
        let compared = |id: &&str| knows(view, id) && self.nodes.contains_key(id);
        ids.extend(either(&view.unlinked, &self.unlinked).filter(compared));
        ids.extend(either(&view.suspects, &self.suspects).filter(compared));
        let own = ids.take(view.me.as_str());
        own.into_iter().chain(ids).collect()
    }
}

/// What is in one of two sorted lists and not in the other.
fn either<'a>(one: &'a [String], other: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let left = one.iter().map(String::as_str).filter(|id| other.binary_search(id).is_err());
    let right = other.iter().copied().filter(|id| one.binary_search_by(|known| known.as_str().cmp(id)).is_err());
    left.chain(right)
}

/// Ids of the nodes of which this common part says something else than what is agreed: both are sorted. Of a server that doesn't
/// answer now, its last word may name nodes that nobody knows any more.
fn differing<'a>(agreed: &BTreeMap<&'a str, Agreed<'a>>, beliefs: &'a Beliefs) -> Vec<&'a str> {
    let mut ids = Vec::new();
    let mut believed = beliefs.nodes.iter().peekable();
    for (id, node) in agreed {
        while let Some(alone) = believed.next_if(|belief| belief.id.as_str() < *id) {
            ids.extend((!alone.handshake).then_some(alone.id.as_str()));
        }
        let belief = believed.next_if(|belief| belief.id == *id).filter(|belief| !belief.handshake);
        let differs = belief.map_or(!node.belief.handshake, |belief| {
            !std::ptr::eq(std::ptr::from_ref::<Belief>(belief), node.belief) && **belief != *node.belief
        });
        ids.extend(differs.then_some(*id));
    }
    ids.extend(believed.filter(|belief| !belief.handshake).map(|belief| belief.id.as_str()));
    ids
}

/// What there is to believe of each node, and how many servers do. Equal beliefs are one value as a rule, which makes it cheap to
/// count them.
fn opinions<'a>(groups: impl Iterator<Item = (&'a Beliefs, u32)>) -> BTreeMap<&'a str, Vec<(&'a Belief, u32)>> {
    let mut counts: HashMap<*const Belief, (&Belief, u32)> = HashMap::new();
    for (beliefs, servers) in groups {
        for belief in &beliefs.nodes {
            counts.entry(Arc::as_ptr(belief)).or_insert((belief, 0)).1 += servers;
        }
    }
    let mut opinions: BTreeMap<&str, Vec<(&Belief, u32)>> = BTreeMap::new();
    for (belief, servers) in counts.into_values() {
        let known = opinions.entry(&belief.id).or_default();
        match known.iter_mut().find(|(other, _)| *other == belief) {
            Some((_, count)) => *count += servers,
            None => known.push((belief, servers)),
        }
    }
    opinions
}

fn knows(view: &View, id: &str) -> bool {
    view.beliefs.get(id).is_some_and(|belief| !belief.handshake)
}

/// The opinion that counts, of those that there are on a node.
fn agree<'a>(opinions: &[(&'a Belief, u32)]) -> Option<Agreed<'a>> {
    let settled = opinions.iter().filter(|(belief, _)| !belief.handshake);
    let known_by = settled.clone().map(|(_, servers)| servers).sum();
    // The rest only so that the same answers bring the same view, whatever their order.
    let weight = |(belief, servers): &&(&'a Belief, u32)| (*servers, belief.config_epoch, *belief);
    let (belief, _) = settled.max_by_key(weight).or_else(|| opinions.iter().max_by_key(weight))?;
    Some(Agreed { belief, known_by, linked_by: known_by, suspected_by: 0 })
}

/// Whose node an id is.
struct Owners<'a> {
    ids: BTreeMap<&'a str, &'a str>,
    /// Addresses of pods whose servers never said their id.
    unheard: Places<'a>,
    inputs: &'a Inputs<'a>,
}

impl<'a> Owners<'a> {
    fn new(inputs: &'a Inputs<'a>, pods: &'a [Pod]) -> Self {
        let heard = |pod: &Pod| inputs.servers.get(&pod.uid).and_then(view).is_some();
        let recorded = inputs.ledger.members.iter().filter(|member| !member.node_id.is_empty());
        let silent: BTreeSet<&str> = pods.iter().filter(|pod| !heard(pod)).map(|pod| pod.uid.as_str()).collect();
        let live = recorded.filter(|member| silent.contains(member.pod.as_str()));
        let mut ids: BTreeMap<&str, &str> = live.map(|member| (member.node_id.as_str(), member.pod.as_str())).collect();
        ids.extend(inputs.servers.iter().filter_map(|(pod, server)| Some((view(server)?.me.as_str(), pod.as_str()))));
        Self { ids, unheard: Places::new(pods.iter().filter(|pod| !heard(pod))), inputs }
    }

    fn of(&self, id: &str) -> Upstream {
        if let Some(pod) = self.ids.get(id) {
            return Upstream::Pod((*pod).to_owned());
        }
        // At the address of a pod whose server has said its id it is a ghost of an earlier one there.
        self.inputs.places.get(id).map_or(Upstream::Nobody, |place| self.unheard.of(place))
    }
}

fn observed_belief(view: &View, id: &str) -> ObservedBelief {
    let belief = view.beliefs.get(id).filter(|belief| !belief.handshake);
    ObservedBelief {
        id: id.to_owned(),
        known: belief.is_some(),
        replica_of: belief.map(|b| b.replica_of.clone()).unwrap_or_default(),
        config_epoch: belief.map_or(0, |b| b.config_epoch),
        linked: belief.is_some() && view.is_linked(id),
        suspected: view.is_suspect(id),
        failed: belief.is_some_and(|b| b.failed),
        slots: belief.map(|b| ranges(&b.slots)).unwrap_or_default(),
    }
}

fn ranges(slots: &SlotSet) -> Vec<SlotRange> {
    slots.ranges().iter().map(|range| SlotRange { first: range.first(), last: range.last() }).collect()
}

/// Open slots of one direction, by peer.
fn open(slots: &[OpenSlot], direction: Direction) -> Vec<OpenSlots> {
    let mut peers: BTreeMap<&str, Vec<Range>> = BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.direction == direction) {
        peers.entry(&slot.peer).or_default().extend(Range::new(slot.slot, slot.slot));
    }
    let open = |(peer, slots): (&str, Vec<Range>)| OpenSlots { slots: ranges(&slots.into_iter().collect()), peer: peer.into() };
    peers.into_iter().map(open).collect()
}

#[cfg(test)]
mod tests;
