//! What should exist: a workload with its governing Service and its budget for each shard, and the Service of all.

use vko_sdk::planning::{Budget, Desired, Purpose, Service, ServiceKind, StartMode, Workload};

use crate::view::View;

/// The objects of the cluster.
pub fn desired(view: &View<'_>) -> Vec<Desired> {
    let instance = &view.observed.instance.name;
    let all = Service { name: instance.clone(), kind: ServiceKind::Instance, workload: String::new() };
    let mut desired = vec![Desired::Service(all)];
    for shard in &view.shards {
        let workload = &shard.workload;
        let name = format!("{instance}-{}", shard.index);
        desired.push(Desired::Service(Service { name, kind: ServiceKind::Governing, workload: workload.clone() }));
        desired.push(Desired::Budget(Budget { workload: workload.clone(), max_unavailable: 1 }));
        desired.push(Desired::Workload(Workload {
            name: workload.clone(),
            purpose: Purpose::Data,
            shard: shard.index,
            members: view.spec.replicas.replicas_of_shard,
            // A server of a cluster starts as what its own file says; the mode has no meaning there.
            start: StartMode::Named,
            settings: Vec::new(),
            labels: Vec::new(),
        }));
    }
    desired
}
