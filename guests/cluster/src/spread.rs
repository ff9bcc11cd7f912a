//! On which node a shard gets its first primary: a node's or zone's loss should take few primaries with it, and never a majority
//! where that can be helped.
//!
//! # Guarantees
//! 1. Of the members that may be chosen, one is chosen: this only orders them.
//! 2. A member that starts is waited for only where it would spare a node with a primary, and never for longer than
//!    [`PATIENCE_MS`] from the start of the ones that answer.
//!
//! # Assumptions
//! Later failovers go where the data is, not where there are few primaries: nothing is handed over to balance nodes.
//!
//! # Flow
//! 1. Primaries that there are count for their node and zone, and so does each one that is chosen in this look.
//! 2. Fewest in the zone, then on the node, then the node that fewest shards without a primary could use; of equals the lowest
//!    ordinal.

use std::collections::BTreeMap;

use vko_replica::view::Standing;
use vko_sdk::observation::{NodeState, Pod};

use crate::view::{Node, Shard, View};

/// How long (ms of the candidates' uptime) a shard's first primary waits for a better placed member that starts: pods that are
/// made together start within seconds of each other.
pub const PATIENCE_MS: u64 = 5_000;

/// Primaries and choices by place, as far as this look has come.
#[derive(Debug, Default)]
pub struct Spread<'a> {
    on_node: BTreeMap<&'a str, usize>,
    in_zone: BTreeMap<&'a str, usize>,
    /// Shards without a primary, not chosen for yet, by the nodes that they have members on.
    wanted: BTreeMap<&'a str, usize>,
}

impl<'a> Spread<'a> {
    /// Of the primaries that there are.
    pub fn new(view: &View<'a>) -> Self {
        let mut spread = Self::default();
        for shard in &view.shards {
            shard.owners.iter().filter_map(|owner| view.by_id(&owner.id)?.member.pod).for_each(|pod| spread.burden(pod));
            if shard.owners.is_empty() {
                shard.nodes.iter().filter_map(place).for_each(|pod| *spread.wanted.entry(&pod.node).or_default() += 1);
            }
        }
        spread
    }

    fn burden(&mut self, pod: &'a Pod) {
        *self.on_node.entry(&pod.node).or_default() += 1;
        *self.in_zone.entry(&pod.zone).or_default() += 1;
    }

    /// Less is better. A member whose node isn't known comes last.
    fn cost(&self, node: &Node<'_>) -> (bool, usize, usize) {
        let of = |map: &BTreeMap<&str, usize>, key: &str| map.get(key).copied().unwrap_or(0);
        match place(node) {
            // Without zones all are in one: that orders nothing.
            Some(pod) => (false, of(&self.in_zone, &pod.zone), of(&self.on_node, &pod.node)),
            None => (true, 0, 0),
        }
    }

    /// The best placed of `able`, members of a shard without a primary that may become it.
    pub fn best<'n>(&self, able: impl Iterator<Item = &'n Node<'a>>) -> Option<&'n Node<'a>>
    where
        'a: 'n,
    {
        let scarce = |n: &Node<'_>| place(n).and_then(|pod| self.wanted.get(pod.node.as_str()).copied());
        able.min_by_key(|n| (self.cost(n), scarce(n), n.member.ordinal))
    }

    /// A member that starts where there are fewer primaries than where `best` is, while that is worth a wait.
    pub fn worth_a_wait<'n>(&self, shard: &'n Shard<'a>, best: &Node<'a>) -> Option<&'n Node<'a>> {
        let young = best.member.facts_now().is_some_and(|facts| facts.uptime < PATIENCE_MS);
        let starts = |n: &&Node<'_>| n.member.standing == Standing::Starting && place(n).is_some();
        shard.nodes.iter().filter(starts).find(|n| young && self.cost(n) < self.cost(best))
    }

    /// Notes that a shard's first primary will be there.
    pub fn chosen(&mut self, shard: &Shard<'a>, node: &Node<'a>) {
        if let Some(pod) = place(node) {
            self.burden(pod);
        }
        for pod in shard.nodes.iter().filter_map(place) {
            if let Some(wanted) = self.wanted.get_mut(pod.node.as_str()) {
                *wanted = wanted.saturating_sub(1);
            }
        }
    }
}

/// The pod of a member that is on a node which is there.
fn place<'a>(node: &Node<'a>) -> Option<&'a Pod> {
    node.member.pod.filter(|pod| !pod.node.is_empty() && pod.node_state == NodeState::Alive)
}

#[cfg(test)]
mod tests {
    use vko_sdk::Observed;
    use vko_sdk::observation::ContainerState;
    use vko_sdk::planning::Operation;

    use crate::testing::World;

    /// A new cluster of three shards of two, on these nodes: shard by shard, a letter each; the zone is the node's.
    fn new(nodes: &str) -> Observed {
        placed(World::new(3, 2), nodes)
    }

    fn placed(world: World, nodes: &str) -> Observed {
        let mut observed = world.observe();
        let nodes: Vec<char> = nodes.chars().filter(|c| *c != ' ').collect();
        for (pod, node) in observed.pods.iter_mut().zip(nodes) {
            (pod.node, pod.zone) = (node.to_string(), format!("zone-{node}"));
        }
        observed
    }

    fn zones(mut observed: Observed, zone: fn(&str) -> &'static str) -> Observed {
        observed.pods.iter_mut().for_each(|pod| pod.zone = zone(&pod.node).into());
        observed
    }

    /// The second member of the second shard runs no server yet; the others run for so long (ms).
    fn starting(mut observed: Observed, uptime: u64) -> Observed {
        observed.servers.iter_mut().filter_map(|s| s.facts.as_mut()).for_each(|facts| facts.uptime = uptime);
        let late = observed.pods.iter_mut().find(|pod| pod.name == "drc-x-1-1").unwrap();
        (late.container, late.ready) = (ContainerState::Starting, false);
        late.addresses.clear();
        let uid = late.uid.clone();
        observed.servers.retain(|server| server.pod != uid);
        observed
    }

    fn unscheduled(mut observed: Observed) -> Observed {
        observed.pods.iter_mut().filter(|pod| pod.node == "_").for_each(|pod| pod.node.clear());
        observed
    }

    /// Who gets slots, by shard: the node.
    fn chosen(observed: &Observed) -> String {
        let plan = crate::decide(observed).unwrap();
        let mut owners: Vec<(&str, &str)> = plan
            .tracks
            .iter()
            .flat_map(|track| &track.steps)
            .filter_map(|step| match &step.operation {
                Operation::OwnSlots(own) => observed.pods.iter().find(|pod| pod.uid == own.pod),
                _ => None,
            })
            .map(|pod| (pod.workload.as_str(), pod.node.as_str()))
            .collect();
        owners.sort_unstable();
        owners.iter().map(|(shard, node)| format!("{}{node}", shard.trim_start_matches("drc-x-"))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn first_primaries_are_on_different_nodes() {
        let ended = || {
            // A shard that has its primary on b already; the others are new.
            let mut world = World::new(3, 2);
            world.at(0, 0).slots = vko_sdk::slots::share(0, 3);
            let id = world.at(0, 0).id.clone();
            world.last.insert(0, (0, id));
            world
        };
        let table: [(&str, Observed, &str); 12] = [
            ("a node for each", new("ab ab ca"), "0b 1a 2c"),
            ("all first members on one node", new("ab ac ab"), "0b 1c 2a"),
            ("the first choice leaves the next shard its only one", new("ab bc ab"), "0a 1c 2b"),
            ("two nodes: no node has all", new("ab ab ab"), "0a 1b 2a"),
            ("one node: the lowest ordinals", new("aa aa aa"), "0a 1a 2a"),
            ("a primary is there already", placed(ended(), "ba ba bc"), "1a 2c"),
            ("zones before nodes", zones(new("ab ca ab"), |node| if node == "a" { "x" } else { "y" }), "0b 1a 2a"),
            ("no zones", zones(new("ab ac ab"), |_| ""), "0b 1c 2a"),
            ("better placed, and starting with the others", starting(new("aa ac ab"), 1_000), "0a 2b"),
            ("the same, and the others wait for long enough", starting(new("aa ac ab"), super::PATIENCE_MS), "0a 1a 2b"),
            ("starting, and no better placed", starting(new("ab cb ab"), 1_000), "0a 1c 2b"),
            ("starting, and not scheduled", starting(unscheduled(new("aa a_ ab")), 1_000), "0a 1a 2b"),
        ];
        for (case, observed, expected) in table {
            assert_eq!(chosen(&observed), expected, "{case}");
        }
    }

    #[test]
    fn what_starts_anew_is_spread_as_well() {
        let mut world = World::healthy(3, 2);
        for (shard, ordinal) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
            world.replace(shard, ordinal, false);
        }
        world.others.clear();
        assert_eq!(chosen(&placed(world, "ab ac ab")), "0b 1c 2a");
    }
}
