//! Rule 1: acquainting two servers. What one knows the other learns, and all that they know: two clusters that meet are one, and
//! of two that own the same slot one gives way, with the keys that it has there.

use vko_wit::common::SlotRange;
use vko_wit::planning::PairOfPods;

use super::evidence::overlap;
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
    check_claims(&pair.pod, &pair.peer, view)?;
    check_claims(&pair.peer, &pair.pod, view)
}

/// A server with keys in slots that a node owns which the other one may know, and it doesn't: the higher epoch would win, even
/// that of a node that failed long ago.
fn check_claims(uid: &str, other: &str, view: &View<'_>) -> Result<(), String> {
    let claims = view.claims(uid);
    let (Some(facts), Some(cluster)) = (view.answers(uid), view.cluster(uid)) else { return Ok(()) };
    if claims.is_empty() || facts.keys == 0 {
        return Ok(());
    }
    let news = |node: &str, slots: &[SlotRange]| {
        let unheard = node != cluster.id && view.knows_node(uid, node) != Some(true);
        unheard && view.knows_node(other, node) != Some(false) && overlap(slots, claims)
    };
    let rival = view.owners().map(|peer| (peer.id.as_str(), peer.slots.as_slice()));
    let own = view.node_of(other).map(|node| (node, view.claims(other)));
    match rival.chain(own).find(|(node, slots)| news(node, slots)) {
        None => Ok(()),
        Some((node, _)) => Err(format!(
            "{} holds keys in slots that {} owns, too, and they don't know each other: one would delete its keys",
            view.name(uid),
            view.node_name(node)
        )),
    }
}
