//! Rule 1: acquainting two servers. What one knows the other learns, and all that they know: two clusters that meet are one.

use vko_wit::planning::PairOfPods;

use crate::guard::View;

pub(super) fn check(pair: &PairOfPods, view: &View<'_>) -> Result<(), String> {
    if pair.pod == pair.peer {
        return Err(format!("{} can't meet itself", view.name(&pair.pod)));
    }
    for uid in [&pair.pod, &pair.peer] {
        let name = view.name(uid);
        if view.pod(uid).is_some_and(|pod| pod.terminating_for > 0) {
            return Err(format!("{name} is terminating"));
        }
        // Without an answer it is unknown whom it knows.
        if view.cluster(uid).is_none() {
            return Err(format!("{name} does not say now whom it knows"));
        }
        if let Some(stranger) = view.foreigner(uid) {
            return Err(format!("{name} may know the node {}, which is alive and no pod of this instance", stranger.id));
        }
    }
    Ok(())
}
