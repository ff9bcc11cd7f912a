//! The operator in a bed: the real loop over the real clients.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use vko_api::images::Images;
use vko_apiserver::http::{Entrance, serve};
use vko_core::composite::Composite;
use vko_core::instance::{Key, Shared};
use vko_core::lease::{Elector, LeaseOptions};
use vko_core::manager::{Journals, Manager};
use vko_core::metrics::Metrics;
use vko_core::policy::{Admit, Policy};
use vko_core::registry::Registry;
use vko_core::settings::Settings;
use vko_kube::{KubeWorld, Options, SystemClock};
use vko_valkey::Administration;

use crate::bed::{Bed, BedError, OPERATORS};
use crate::images;

/// What decides.
pub struct Policies {
    /// The built-in ones.
    pub built_in: Vec<Arc<dyn Policy>>,
    /// Who admits others.
    pub admit: Arc<dyn Admit>,
}

/// An operator that runs. Dropped, it ends as if it were killed: nothing is released.
pub struct Operator {
    journals: Journals,
    stop: watch::Sender<bool>,
    at_rest: Option<oneshot::Sender<()>>,
    managing: JoinHandle<()>,
    electing: JoinHandle<()>,
    _entrance: Entrance,
}

impl Operator {
    /// Starts one of that name, by which faults tell it from others.
    ///
    /// # Errors
    /// It can't reach the API server.
    pub async fn start(bed: &Bed, name: &str, policies: Policies) -> Result<Self, BedError> {
        let machine = |error: &dyn std::fmt::Display| BedError::Machine(format!("the operator can't be started: {error}"));
        let entrance = serve(bed.api.clone(), name).await.map_err(|error| machine(&error))?;
        let options = Options { namespace: None, operator_namespace: OPERATORS.into(), pod: name.into() };
        let kube = KubeWorld::at(&entrance.url(), &options).await.map_err(|error| machine(&error))?;
        let world = Arc::new(Composite { kube, servers: Administration::new(), clock: SystemClock::default() });
        let lease = LeaseOptions {
            namespace: OPERATORS.into(),
            name: "valkey-operator".into(),
            identity: LeaseOptions::identity(name, &*world),
        };
        let settings = Settings {
            operator_version: env!("CARGO_PKG_VERSION").into(),
            agent_image: images::OPERATOR.into(),
            cluster_domain: "cluster.local".into(),
            operator_namespace: OPERATORS.into(),
            identity: lease.identity.clone(),
            probe_interval: vko_core::probe::QUIET,
        };
        let (elector, state) = Elector::new(world.clone(), lease);
        let shared = Arc::new(Shared {
            world,
            settings: Arc::new(settings),
            images: Arc::new(Images { lines: bed.images().lines().clone(), ..Images::default() }),
            lease: state,
            registry: Arc::new(Registry::new(policies.built_in)),
            metrics: Metrics::default(),
        });
        let manager = Manager::new(shared, policies.admit);
        let journals = manager.journals();
        let (stop, stopping) = watch::channel(false);
        let (at_rest, rested) = oneshot::channel::<()>();
        let electing = tokio::spawn(elector.run(async move {
            // A sender that is gone means that nothing is under way either.
            let _ = rested.await;
        }));
        let managing = tokio::spawn(manager.run(stopping));
        Ok(Self { journals, stop, at_rest: Some(at_rest), managing, electing, _entrance: entrance })
    }

    /// Stops it as SIGTERM does: instances first, then the Lease.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.managing).await;
        drop(self.at_rest.take());
        let released = tokio::time::timeout(Duration::from_secs(10), &mut self.electing).await;
        if released.is_err() {
            tracing::warn!("the Lease was not released");
        }
    }

    /// The decision journal of an instance, a JSON entry per line.
    pub fn journal(&self, namespace: &str, name: &str) -> Vec<String> {
        let key = Key { namespace: namespace.into(), name: name.into() };
        let journals = self.journals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        journals.get(&key).map(|journal| journal.lines()).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.managing.abort();
        self.electing.abort();
    }
}
