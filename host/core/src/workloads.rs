//! Which workloads an instance has, by their names. A name is all that a pod or claim shows of it once the StatefulSet is gone.

use vko_api::names;
use vko_wit::observation::Instance;
use vko_wit::planning::Purpose;

use crate::object::Kind;

/// What a workload of that name is to an instance; `None` if the instance has none of that name.
pub fn purpose(topology: Kind, instance: &str, workload: &str) -> Option<Purpose> {
    let shard = || {
        let number = workload.rsplit_once('-').and_then(|(_, number)| number.parse().ok())?;
        (names::shard_workload(instance, number) == workload).then_some(Purpose::Data)
    };
    match topology {
        Kind::Cluster => shard(),
        Kind::Failover if workload == names::data_workload(instance) => Some(Purpose::Data),
        Kind::Failover | Kind::Sentinel if workload == names::sentinel_workload(instance) => Some(Purpose::Sentinel),
        _ => None,
    }
}

/// Whether a pod of that workload holds data.
pub fn is_data(instance: &Instance, workload: &str) -> bool {
    Kind::from_name(&instance.kind).and_then(|kind| purpose(kind, &instance.name, workload)) == Some(Purpose::Data)
}

/// The workload that every instance of that kind has.
pub fn first(topology: Kind, instance: &str) -> String {
    match topology {
        Kind::Cluster => names::shard_workload(instance, 0),
        Kind::Sentinel => names::sentinel_workload(instance),
        _ => names::data_workload(instance),
    }
}

/// The ConfigMap that a workload's pods mount: the shards of a cluster share one.
pub fn config_of(topology: Kind, instance: &str, workload: &str) -> String {
    if topology == Kind::Cluster { names::cluster_config(instance) } else { workload.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_workload_it_is() {
        let data = Some(Purpose::Data);
        let cases = [
            ("the data of a Failover", Kind::Failover, "x", "rfr-x", data),
            ("its Sentinels", Kind::Failover, "x", "rfs-x", Some(Purpose::Sentinel)),
            ("a shard is none of a Failover's", Kind::Failover, "x", "drc-x-0", None),
            ("a shard", Kind::Cluster, "x", "drc-x-12", data),
            ("no such number", Kind::Cluster, "x", "drc-x-012", None),
            ("a shard of an instance whose name goes on", Kind::Cluster, "x", "drc-x-1-0", None),
            ("that one's own", Kind::Cluster, "x-1", "drc-x-1-0", data),
            ("a Failover's data is none of a Cluster's", Kind::Cluster, "x", "rfr-x", None),
            ("Sentinels that stand alone", Kind::Sentinel, "x", "rfs-x", Some(Purpose::Sentinel)),
            ("they have no data", Kind::Sentinel, "x", "rfr-x", None),
            ("no workload at all", Kind::Failover, "x", "", None),
        ];
        for (case, kind, instance, workload, expected) in cases {
            assert_eq!(purpose(kind, instance, workload), expected, "{case}");
        }
    }

    #[test]
    fn the_first_workload_is_one_of_the_instance() {
        for kind in [Kind::Cluster, Kind::Failover, Kind::Sentinel] {
            assert!(purpose(kind, "x", &first(kind, "x")).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn the_shards_of_a_cluster_share_their_configuration() {
        assert_eq!(config_of(Kind::Cluster, "x", "drc-x-0"), config_of(Kind::Cluster, "x", "drc-x-1"));
        assert_ne!(config_of(Kind::Failover, "x", "rfr-x"), config_of(Kind::Failover, "x", "rfs-x"));
    }
}
