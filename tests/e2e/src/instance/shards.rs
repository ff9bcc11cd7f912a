//! A cluster's roles, moved by command.

use anyhow::{Context, ensure};

use super::{Arch, Instance, Pod};
use crate::Result;

impl Instance {
    /// All primaries: of each shard one.
    ///
    /// # Errors
    /// A data set has none, or more than one.
    pub fn primaries(&self) -> Result<Vec<Pod>> {
        match self.arch {
            Arch::Cluster { shards } => (0..shards).map(|shard| self.shard_primary(shard)).collect(),
            Arch::Replica | Arch::Failover { .. } => Ok(vec![self.primary()?]),
        }
    }

    /// The primary's role goes to a replica of its shard, as a person would have it: CLUSTER FAILOVER there.
    ///
    /// # Errors
    /// There is no replica, or it doesn't get the role.
    pub fn hand_over(&self, primary: &Pod) -> Result<Pod> {
        let mate = |pod: &Pod| pod.workload == primary.workload && pod.uid != primary.uid;
        let heir = self.servers()?.into_iter().find(mate).with_context(|| format!("{} has no replica", primary.name))?;
        let answer: String = self.at(&heir, "operator")?.ask(&["CLUSTER", "FAILOVER"])?;
        ensure!(answer == "OK", "CLUSTER FAILOVER at {}: {answer}", heir.name);
        self.wait_shard_primary_other_than(primary.shard()?, primary)
    }

    /// Moves the roles of a cluster's primaries away that share a node with a pod. Members of a shard must be on different nodes.
    ///
    /// # Errors
    /// One can't be moved.
    pub fn part_from_primaries(&self, pod: &Pod) -> Result {
        if !matches!(self.arch, Arch::Cluster { .. }) {
            return Ok(());
        }
        let beside = |other: &Pod| other.node == pod.node && other.uid != pod.uid;
        self.primaries()?.iter().filter(|other| beside(other)).try_for_each(|other| self.hand_over(other).map(|_| ()))
    }
}
