//! What a server of a cluster believes of all nodes, in a form that many servers can share.
//!
//! Servers of a healthy cluster believe the same but for trifles: whom each has a link to, and which line is its own. With 640
//! servers that is 410,000 lines; taken apart it is one list of 640 beliefs and 640 short lists of exceptions.
//!
//! # Guarantees
//! 1. Equal common parts are one value in memory ([`share`]), and so are equal beliefs of different common parts ([`Pool`]):
//!    where every server has its own view, they differ in few lines.
//! 2. Nothing in it moves on its own: two answers of a quiet server are equal.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use vko_model::address::Address;
use vko_model::cluster::{ClusterNodes, Node, OpenSlot};
use vko_model::slots::SlotSet;

/// What servers believe of a node, who has a link to it aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Belief {
    /// Its id.
    pub id: String,
    /// Id of its primary; empty if it has none.
    pub replica_of: String,
    /// Config epoch; of a replica, its primary's.
    pub config_epoch: u64,
    /// Failed by the word of most primaries.
    pub failed: bool,
    /// It is being met: the id is not its own yet.
    pub handshake: bool,
    /// What it owns.
    pub slots: SlotSet,
}

/// The common part: all nodes, sorted by id.
#[derive(Debug, PartialEq, Eq)]
pub struct Beliefs {
    hash: u64,
    /// By id.
    pub nodes: Vec<Arc<Belief>>,
}

/// Beliefs that servers have, each once.
#[derive(Debug, Default)]
pub struct Pool(HashSet<Arc<Belief>>);

impl Pool {
    /// Replaces what is in a view by what is there already. A view that is shared with others went through here before.
    pub fn intern(&mut self, view: &mut View) {
        let Some(beliefs) = Arc::get_mut(&mut view.beliefs) else { return };
        for belief in &mut beliefs.nodes {
            match self.0.get(belief) {
                Some(known) => *belief = known.clone(),
                None => _ = self.0.insert(belief.clone()),
            }
        }
        // What nobody believes any more goes once it is much.
        if self.0.len() > 4 * beliefs.nodes.len() + 256 {
            self.0.retain(|belief| Arc::strong_count(belief) > 1);
        }
    }
}

impl Beliefs {
    fn new(nodes: Vec<Arc<Belief>>) -> Self {
        let mut hasher = DefaultHasher::new();
        nodes.hash(&mut hasher);
        Self { hash: hasher.finish(), nodes }
    }

    /// What is believed of a node; nothing if it isn't known.
    pub fn get(&self, id: &str) -> Option<&Belief> {
        self.nodes.binary_search_by(|belief| belief.id.as_str().cmp(id)).ok().map(|index| &*self.nodes[index])
    }
}

/// What one server believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its own id.
    pub me: String,
    /// Its slots that are on their way.
    pub open: Vec<OpenSlot>,
    /// Nodes that it has no link to, sorted. A link that brings no answers is none: towards an address that nobody has any more a
    /// server says `connected` for as long as it tries, and suspects the node meanwhile.
    pub unlinked: Vec<String>,
    /// Nodes that it suspects, sorted.
    pub suspects: Vec<String>,
    /// What it has in common with others.
    pub beliefs: Arc<Beliefs>,
}

impl View {
    /// Takes an answer apart, and where each node was last seen.
    pub fn new(answer: &ClusterNodes) -> Option<(Self, Vec<(String, Address)>)> {
        let me = answer.myself()?;
        let ids = |which: fn(&Node) -> bool| answer.nodes.iter().filter(|n| which(n)).map(|n| n.id.clone()).collect();
        let view = Self {
            me: me.id.clone(),
            open: me.open.clone(),
            unlinked: ids(|node| !node.myself && (!node.linked || node.suspected || node.failed)),
            suspects: ids(|node| node.suspected),
            beliefs: Arc::new(Beliefs::new(answer.nodes.iter().map(|node| Arc::new(belief(node))).collect())),
        };
        let places = answer.nodes.iter().filter_map(|node| Some((node.id.clone(), node.address()?))).collect();
        Some((view, places))
    }

    /// Whether it has a link to a node, itself included.
    pub fn is_linked(&self, id: &str) -> bool {
        !contains(&self.unlinked, id)
    }

    /// Whether it suspects a node.
    pub fn is_suspect(&self, id: &str) -> bool {
        contains(&self.suspects, id)
    }
}

fn contains(sorted: &[String], id: &str) -> bool {
    sorted.binary_search_by(|known| known.as_str().cmp(id)).is_ok()
}

fn belief(node: &Node) -> Belief {
    Belief {
        id: node.id.clone(),
        replica_of: node.replica_of.clone().unwrap_or_default(),
        config_epoch: node.config_epoch,
        failed: node.failed,
        handshake: node.handshake,
        slots: node.slots.clone(),
    }
}

/// The same view with a common part that is there already, if one of the others is equal.
pub fn share<'a>(mut view: View, others: impl Iterator<Item = &'a View>) -> View {
    let equal = |other: &&View| other.beliefs.hash == view.beliefs.hash && other.beliefs == view.beliefs;
    let mut others = others;
    if let Some(other) = others.find(equal) {
        view.beliefs = other.beliefs.clone();
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::testing::{node_id, nodes_text};

    fn view(of: u32) -> View {
        View::new(&ClusterNodes::parse(&nodes_text(3, 2, of)).unwrap()).unwrap().0
    }

    #[test]
    fn servers_that_agree_share_what_they_believe() {
        let one = view(0);
        let other = share(view(3), [&one].into_iter());
        assert_ne!(one.me, other.me);
        assert!(Arc::ptr_eq(&one.beliefs, &other.beliefs));
        let mut changed = nodes_text(3, 2, 4);
        changed = changed.replacen("connected 0-5460", "connected 0-5459", 1);
        let third = View::new(&ClusterNodes::parse(&changed).unwrap()).unwrap().0;
        assert!(!Arc::ptr_eq(&share(third, [&one].into_iter()).beliefs, &one.beliefs), "another set of slots");
    }

    #[test]
    fn views_that_differ_in_a_line_share_the_others() {
        let mut pool = Pool::default();
        let (mut one, mut other) = (view(0), view(3));
        let changed = nodes_text(3, 2, 4).replacen("connected 0-5460", "connected 0-5459", 1);
        let mut third = View::new(&ClusterNodes::parse(&changed).unwrap()).unwrap().0;
        [&mut one, &mut other, &mut third].into_iter().for_each(|view| pool.intern(view));
        let alike = |a: &View, b: &View| {
            let pairs = a.beliefs.nodes.iter().zip(&b.beliefs.nodes);
            pairs.filter(|(a, b)| Arc::ptr_eq(a, b)).count()
        };
        assert_eq!((alike(&one, &other), alike(&one, &third), pool.0.len()), (6, 5, 7));
    }

    #[test]
    fn links_and_suspicions_are_each_servers_own() {
        let text = nodes_text(3, 2, 0).replacen("connected 5461", "disconnected 5461", 1).replacen(
            "@16379 master -",
            "@16379 master,fail? -",
            1,
        );
        let view = View::new(&ClusterNodes::parse(&text).unwrap()).unwrap().0;
        assert_eq!((view.unlinked, view.suspects.len()), (vec![node_id(1)], 1));
    }
}
