//! The parts joined, and the operator that runs of them.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use vko_api::images::Images;
use vko_core::instance::{Key, Shared};
use vko_core::lease::{Elector, LeaseOptions};
use vko_core::manager::{Journals, Manager};
use vko_core::metrics::Metrics;
use vko_core::registry::Registry;
use vko_core::settings::Settings;
use vko_core::world::World;

use crate::Policies;

/// What an operator is told when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Its pod's name: in events and in the Lease.
    pub pod: String,
    /// Its namespace: the Lease and the policies' ConfigMaps are there.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Its own image, which holds the agent.
    pub image: String,
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Between two questions to a server while all is quiet and ready.
    pub probe_interval: Duration,
    /// Servers' images.
    pub images: Images,
}

/// A part of the operator ended badly, or unasked.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// By a panic.
    #[error("{part} panicked: {error}")]
    Panicked {
        /// Which.
        part: &'static str,
        /// How.
        error: JoinError,
    },
    /// By itself.
    #[error("{0} ended unasked; the process ends, to start anew")]
    Unasked(&'static str),
}

const MANAGER: &str = "the manager";
const ELECTOR: &str = "the elector";

/// The parts, joined; nothing runs yet.
pub struct Wired<W> {
    shared: Arc<Shared<W>>,
    elector: Elector<W>,
    manager: Manager<W>,
}

impl<W: World> Wired<W> {
    /// Joins them.
    pub fn new(world: Arc<W>, setup: Setup, policies: Policies) -> Self {
        let identity = LeaseOptions::identity(&setup.pod, &*world);
        let lease = LeaseOptions { namespace: setup.namespace.clone(), name: setup.lease, identity };
        let settings = Settings {
            operator_version: env!("CARGO_PKG_VERSION").into(),
            agent_image: setup.image,
            cluster_domain: setup.cluster_domain,
            operator_namespace: setup.namespace,
            identity: lease.identity.clone(),
            probe_interval: setup.probe_interval,
        };
        let (elector, state) = Elector::new(world.clone(), lease);
        let shared = Arc::new(Shared {
            world,
            settings: Arc::new(settings),
            images: Arc::new(setup.images),
            lease: state,
            registry: Arc::new(Registry::new(policies.built_in)),
            metrics: Metrics::default(),
        });
        let manager = Manager::new(shared.clone(), policies.admit);
        Self { shared, elector, manager }
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// What is decided; [`journal`] reads it.
    pub fn journals(&self) -> Journals {
        self.manager.journals()
    }

    /// Runs elector and manager side by side.
    pub fn start(self) -> Operator {
        let journals = self.journals();
        let (stop, stopping) = watch::channel(false);
        let (at_rest, rested) = oneshot::channel::<()>();
        let electing = tokio::spawn(self.elector.run(async move {
            // A sender that is gone means that the manager ended: nothing is under way either.
            let _ = rested.await;
        }));
        let managing = tokio::spawn(self.manager.run(stopping));
        Operator { journals, stop, at_rest: Some(at_rest), managing, electing }
    }
}

/// An operator that runs. Dropped, it ends as if it were killed.
pub struct Operator {
    journals: Journals,
    stop: watch::Sender<bool>,
    at_rest: Option<oneshot::Sender<()>>,
    managing: JoinHandle<()>,
    electing: JoinHandle<()>,
}

impl Operator {
    /// Returns when a part of it has ended unasked, and says which. May be dropped and asked again until then.
    pub async fn ended(&mut self) -> Ended {
        let (part, ended) = tokio::select! {
            ended = &mut self.managing => (MANAGER, ended),
            ended = &mut self.electing => (ELECTOR, ended),
        };
        ended.map_or_else(|error| Ended::Panicked { part, error }, |()| Ended::Unasked(part))
    }

    /// Stops it as SIGTERM does: instances first, then the Lease.
    ///
    /// # Errors
    /// A part of it panicked.
    pub async fn stop(mut self) -> Result<(), Ended> {
        let panicked = |part| move |error| Ended::Panicked { part, error };
        self.stop.send_replace(true);
        (&mut self.managing).await.map_err(panicked(MANAGER))?;
        drop(self.at_rest.take());
        (&mut self.electing).await.map_err(panicked(ELECTOR))
    }

    /// The decision journal of an instance, see [`journal`].
    pub fn journal(&self, namespace: &str, name: &str) -> Option<Vec<String>> {
        journal(&self.journals, namespace, name)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.managing.abort();
        self.electing.abort();
    }
}

/// The decision journal of an instance, a JSON entry per line, oldest first; `None` if this operator doesn't look after it.
pub fn journal(journals: &Journals, namespace: &str, name: &str) -> Option<Vec<String>> {
    let key = Key { namespace: namespace.into(), name: name.into() };
    let journals = journals.lock().unwrap_or_else(PoisonError::into_inner);
    journals.get(&key).map(|journal| journal.lines())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn operator(managing: JoinHandle<()>, electing: JoinHandle<()>) -> Operator {
        let (journals, stop) = (Journals::default(), watch::channel(false).0);
        Operator { journals, stop, at_rest: None, managing, electing }
    }

    #[tokio::test]
    async fn a_part_that_ends_unasked_is_named() {
        let runs = || tokio::spawn(pending::<()>());
        let ends = || tokio::spawn(ready(()));
        let panics = || tokio::spawn(async { panic!("for a test") });
        for (name, managing, electing, expected) in [
            ("the manager ends", ends(), runs(), "the manager ended unasked"),
            ("the elector ends", runs(), ends(), "the elector ended unasked"),
            ("the elector panics", runs(), panics(), "the elector panicked"),
        ] {
            let told = operator(managing, electing).ended().await.to_string();
            assert!(told.contains(expected), "{name}: {told}");
        }
    }

    #[tokio::test]
    async fn asked_to_stop_both_parts_ending_is_no_error() {
        let stopped = operator(tokio::spawn(ready(())), tokio::spawn(ready(()))).stop().await;
        assert!(stopped.is_ok(), "{stopped:?}");
    }
}
