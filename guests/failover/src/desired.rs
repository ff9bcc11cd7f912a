//! What should exist beside the data set: own Sentinels.

use vko_sdk::planning::{Budget, Desired, Purpose, Service, ServiceKind, StartMode, Workload};

use crate::group::Group;

/// The Sentinels' workload, governing Service and budget. Their number doesn't depend on what runs: a lost one comes back by
/// itself.
pub fn sentinels(group: &Group<'_>) -> Vec<Desired> {
    let workload = &group.workload;
    vec![
        Desired::Service(Service { name: workload.clone(), kind: ServiceKind::Governing, workload: workload.clone() }),
        Desired::Budget(Budget { workload: workload.clone(), max_unavailable: 1 }),
        Desired::Workload(Workload {
            name: workload.clone(),
            purpose: Purpose::Sentinel,
            shard: 0,
            members: u32::try_from(group.seats.len()).unwrap_or(u32::MAX),
            // Means nothing to a Sentinel.
            start: StartMode::Named,
            settings: Vec::new(),
            labels: Vec::new(),
        }),
    ]
}
