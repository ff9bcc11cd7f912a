//! Addresses of this instance's former pods. The last word of a silent primary may name replicas whose pods are gone since: they
//! were members, and ended with their pods; only what never was a member is a stranger. Likewise the primary that Sentinels name
//! is certainly lost if its pod is known to be gone, and an address of nobody else.
//!
//! # Guarantees
//! At most [`KEPT`] addresses are remembered, the newest ones.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use vko_wit::observation::{Observed, Upstream};

/// A few generations of the largest instance's pods.
const KEPT: usize = 64;

/// Address and UID of pods, newest first.
#[derive(Debug, Default)]
pub struct Former(Mutex<VecDeque<(String, String)>>);

impl Former {
    /// Remembers the pods of an observation, and names attached replicas and the Sentinels' primaries that were members by their
    /// pods.
    pub fn resolve(&self, observed: &mut Observed) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for pod in &observed.pods {
            for address in &pod.addresses {
                known.retain(|(other, _)| other != address);
                known.push_front((address.clone(), pod.uid.clone()));
            }
        }
        known.truncate(KEPT);
        let attached =
            observed.servers.iter_mut().filter_map(|server| server.facts.as_mut()).flat_map(|facts| &mut facts.replicas);
        let monitored = observed.sentinels.iter_mut().flat_map(|sentinel| &mut sentinel.monitors);
        for pod in attached.map(|replica| &mut replica.pod).chain(monitored.map(|monitor| &mut monitor.primary)) {
            let Upstream::Other(address) = &*pod else { continue };
            if let Some((_, uid)) = known.iter().find(|(known, _)| *known == address.host) {
                *pod = Upstream::Pod(uid.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::{Scene, uid};
    use vko_wit::common::Address;

    /// Whom a primary of three names, when its second replica's pod is gone and that one's address is this.
    fn named(former: &Former, host: &str) -> Upstream {
        let mut scene = Scene::healthy(3);
        scene.remove(2).facts(0).replicas[1].pod = Upstream::Other(Address { host: host.into(), port: 6379 });
        former.resolve(&mut scene.0);
        scene.facts(0).replicas[1].pod.clone()
    }

    #[test]
    fn former_members_are_no_strangers() {
        let former = Former::default();
        assert!(matches!(named(&former, "10.0.0.3"), Upstream::Other(_)), "this process never saw its pod");
        former.resolve(&mut Scene::healthy(3).0);
        assert_eq!(named(&former, "10.0.0.3"), Upstream::Pod(uid(2)));
        assert!(matches!(named(&former, "10.9.9.9"), Upstream::Other(_)), "never a member");
    }

    #[test]
    fn the_sentinels_primary_is_known_beyond_its_pod() {
        let former = Former::default();
        let watched = || {
            let mut scene = Scene::watched();
            scene.pod(0).addresses = vec!["10.7.0.1".into()];
            scene
        };
        let primary = |former: &Former| {
            let mut scene = watched();
            scene.remove(0).monitor(1).primary = Upstream::Other(Address { host: "10.7.0.1".into(), port: 6379 });
            former.resolve(&mut scene.0);
            scene.monitor(1).primary.clone()
        };
        assert!(matches!(primary(&former), Upstream::Other(_)), "this process never saw its pod");
        former.resolve(&mut watched().0);
        assert_eq!(primary(&former), Upstream::Pod(uid(0)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let former = Former::default();
        for n in 0..1_000_u32 {
            let mut scene = Scene::healthy(1);
            scene.pod(0).addresses = vec![format!("10.1.{}.{}", n / 250, n % 250)];
            former.resolve(&mut scene.0);
        }
        assert_eq!(former.0.lock().unwrap().len(), KEPT);
    }
}
