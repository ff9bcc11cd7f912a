//! The parts of an instance: which there are, and what the objects of each are called.

use vko_api::names;
use vko_wit::planning::Purpose;

use super::{RenderError, Topology, TopologyKind, expect_name};

/// Shards of a cluster: the bound of `replicas.shards`.
pub const SHARDS_MAX: u32 = 128;
/// Members of a data set: the bound of `replicasOfShard`.
pub const MEMBERS_MAX: u32 = 5;
/// Own Sentinels: fewer outlive nobody's loss.
const SENTINELS_MIN: u32 = 3;
/// Own Sentinels: each one more asks all the others, and no decision gets better by it.
const SENTINELS_MAX: u32 = 9;

/// Servers that share a StatefulSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The data set of the failover and replica architecture.
    Data,
    /// A shard of a cluster, by its index.
    Shard(u32),
    /// The instance's own Sentinels.
    Sentinels,
}

impl Part {
    /// The part that a policy means.
    ///
    /// # Errors
    /// The instance has no such part, or another name for it.
    pub(super) fn wanted(topology: &Topology, purpose: Purpose, shard: u32, name: &str) -> Result<Self, RenderError> {
        let part = match (purpose, topology.kind) {
            (Purpose::Sentinel, _) if shard == 0 && topology.own_sentinels().is_some() => Self::Sentinels,
            (Purpose::Sentinel, _) => return Err(topology.unsupported(format!("Sentinels (shard {shard})"))),
            (Purpose::Data, TopologyKind::Failover) if shard == 0 => Self::Data,
            (Purpose::Data, TopologyKind::Cluster) if shard < SHARDS_MAX => Self::Shard(shard),
            (Purpose::Data, _) => return Err(topology.unsupported(format!("shard {shard}"))),
        };
        expect_name("StatefulSet", name, part.workload(&topology.name)).map(|()| part)
    }

    /// The part whose workload has that name.
    pub fn named(topology: &Topology, workload: &str) -> Option<Self> {
        let instance = &topology.name;
        let shard = || workload.rsplit_once('-').and_then(|(_, index)| index.parse().ok()).filter(|shard| *shard < SHARDS_MAX);
        let data = match topology.kind {
            TopologyKind::Cluster => shard().map(Self::Shard),
            TopologyKind::Failover => Some(Self::Data),
            TopologyKind::Sentinel => None,
        };
        let sentinels = topology.own_sentinels().map(|_| Self::Sentinels);
        [data, sentinels].into_iter().flatten().find(|part| part.workload(instance) == workload)
    }

    /// The workloads that the instance may have, for messages.
    pub(super) fn list(topology: &Topology) -> String {
        let instance = &topology.name;
        let data = match topology.kind {
            TopologyKind::Cluster => Some(format!("{} and so on", Self::Shard(0).workload(instance))),
            TopologyKind::Failover => Some(Self::Data.workload(instance)),
            TopologyKind::Sentinel => None,
        };
        let sentinels = topology.own_sentinels().map(|_| Self::Sentinels.workload(instance));
        data.into_iter().chain(sentinels).collect::<Vec<_>>().join(" or ")
    }

    /// How many members it may have.
    ///
    /// # Errors
    /// It may not have so many.
    pub(super) fn check_members(self, members: u32) -> Result<(), RenderError> {
        let (fits, bounds) = match self {
            Self::Data | Self::Shard(_) => ((1..=MEMBERS_MAX).contains(&members), "a data set has 1 to 5"),
            Self::Sentinels => (
                (SENTINELS_MIN..=SENTINELS_MAX).contains(&members) && members % 2 == 1,
                "Sentinels are 3, 5, 7 or 9, so that a majority outlives a loss",
            ),
        };
        if fits { Ok(()) } else { Err(RenderError::MembersOutOfRange { members, bounds }) }
    }

    /// StatefulSet and budget.
    pub fn workload(self, instance: &str) -> String {
        match self {
            Self::Data => names::data_workload(instance),
            Self::Shard(shard) => names::shard_workload(instance, shard),
            Self::Sentinels => names::sentinel_workload(instance),
        }
    }

    /// Governing Service.
    pub fn governing(self, instance: &str) -> String {
        match self {
            Self::Shard(shard) => names::shard_service(instance, shard),
            Self::Data | Self::Sentinels => self.workload(instance),
        }
    }

    /// ConfigMap that its pods mount. Shards share one.
    pub fn config_map(self, instance: &str) -> String {
        match self {
            Self::Shard(_) => names::cluster_config(instance),
            Self::Data | Self::Sentinels => self.workload(instance),
        }
    }

    /// Secret with the `user` lines that its pods mount. Shards share one.
    pub fn users(self, instance: &str) -> String {
        match self {
            Self::Data => names::data_users(instance),
            Self::Shard(_) => names::cluster_users(instance),
            Self::Sentinels => names::sentinel_users(instance),
        }
    }

    /// The server's container.
    pub const fn container(self) -> &'static str {
        match self {
            Self::Data | Self::Shard(_) => names::CONTAINER,
            Self::Sentinels => names::SENTINEL_CONTAINER,
        }
    }

    /// The port that clients use.
    pub const fn port(self) -> u16 {
        match self {
            Self::Data | Self::Shard(_) => names::PORT,
            Self::Sentinels => names::SENTINEL_PORT,
        }
    }

    /// The name of that port, in the container.
    pub(super) const fn port_name(self) -> &'static str {
        match self {
            Self::Data | Self::Shard(_) => "server",
            Self::Sentinels => "sentinel",
        }
    }

    /// Accounts whose passwords its pods need: a data server follows a primary and hands its role over, a Sentinel logs in to
    /// data servers and to its like; both are probed. The operator's password stays outside.
    pub(super) const fn accounts(self) -> &'static [&'static str] {
        match self {
            Self::Data | Self::Shard(_) => &[names::account::REPLICATION, names::account::PROBE, names::account::HOOK],
            Self::Sentinels => &[names::account::SENTINEL, names::account::PROBE],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_cluster, mk_failover, mk_sentinel, mk_topology};
    use super::*;

    #[test]
    fn workloads_lead_back_to_parts() {
        for (topology, name, part) in [
            (mk_topology(), "rfr-demo", Some(Part::Data)),
            (mk_topology(), "rfs-demo", None),
            (mk_topology(), "drc-demo-0", None),
            (mk_failover(), "rfs-demo", Some(Part::Sentinels)),
            (mk_failover(), "rfr-demo", Some(Part::Data)),
            (mk_sentinel(), "rfs-demo", Some(Part::Sentinels)),
            (mk_sentinel(), "rfr-demo", None),
            (mk_cluster(), "drc-demo-0", Some(Part::Shard(0))),
            (mk_cluster(), "drc-demo-127", Some(Part::Shard(127))),
            (mk_cluster(), "drc-demo-128", None),
            (mk_cluster(), "drc-demo-01", None),
            (mk_cluster(), "drc-demo", None),
            (mk_cluster(), "drc-other-0", None),
            (mk_cluster(), "", None),
        ] {
            assert_eq!(Part::named(&topology, name), part, "{:?} {name}", topology.kind);
        }
    }

    #[test]
    fn how_many_members_a_part_may_have() {
        for (part, least, most, odd) in [(Part::Data, 1, 5, false), (Part::Shard(7), 1, 5, false), (Part::Sentinels, 3, 9, true)]
        {
            for members in 0..=11 {
                let fits = (least..=most).contains(&members) && (!odd || members % 2 == 1);
                assert_eq!(part.check_members(members).is_ok(), fits, "{part:?} {members}");
            }
        }
    }
}
