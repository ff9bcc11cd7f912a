//! Rule 1: a server that becomes a replica throws away what its new primary lacks.

use vko_wit::observation::{Role, Upstream};
use vko_wit::planning::{Replication, Step};

use crate::guard::View;
use crate::guard::data::lacks_nothing_of;
use crate::guard::evidence::{Consent, is_syncing};

pub(super) fn check(step: &Step, order: &Replication, view: &View<'_>) -> Result<(), String> {
    let name = view.name(&order.pod);
    let (Some(own), Some(cluster)) = (view.answers(&order.pod), view.cluster(&order.pod)) else {
        return Err(format!("{name} does not answer now"));
    };
    let Some(primary) = view.pod_of_node(&order.primary) else {
        return Err(format!("no pod of this instance has the node id {}", order.primary));
    };
    if primary.uid == order.pod {
        return Err(format!("{name} can't be its own replica"));
    }
    if view.owns_slots(&order.pod) || !cluster.importing.is_empty() || !cluster.migrating.is_empty() {
        return Err(format!("{name} owns slots, or is about to"));
    }
    let Some(upstream) = view.answers(&primary.uid).filter(|facts| facts.role == Role::Primary) else {
        return Err(format!("{} does not answer as a primary now", primary.name));
    };
    let attached = matches!(&own.role, Role::Replica(link) if link.primary == Upstream::Pod(primary.uid.clone()));
    let follows = attached || view.peer(&cluster.id).is_some_and(|peer| peer.replica_of == order.primary);
    // Half of one data set and half of another may be whatever; what it had is gone already.
    let safe = own.keys == 0 || follows || is_syncing(own) || lacks_nothing_of(upstream, own);
    if safe || view.consented(step, Consent::Discard, &name) {
        return Ok(());
    }
    Err(format!("{name} holds {} keys that {} may lack", own.keys, primary.name))
}
