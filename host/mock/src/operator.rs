//! The operator in a bed: the real one ([`vko_run`]) over the real clients.

use std::sync::Arc;

use vko_api::images::Images;
use vko_apiserver::http::{Entrance, serve};
use vko_core::faulty::{Faults, faulty};
use vko_kube::{KubeWorld, Options};
use vko_run::{Ended, Policies, Setup, Wired};

use crate::bed::{Bed, BedError, OPERATORS};
use crate::images;

/// An operator that runs. Dropped, it ends as if it were killed: nothing is released.
pub struct Operator {
    inner: vko_run::Operator,
    _entrance: Entrance,
}

impl Operator {
    /// Starts one of that name, by which faults tell it from others.
    ///
    /// # Errors
    /// It can't reach the API server.
    pub async fn start(bed: &Bed, name: &str, policies: Policies) -> Result<Self, BedError> {
        Self::start_with(bed, name, policies, Arc::new(Faults::new(None, || {}))).await
    }

    /// Starts one that fails by itself.
    ///
    /// # Errors
    /// It can't reach the API server.
    pub async fn start_with(bed: &Bed, name: &str, policies: Policies, faults: Arc<Faults>) -> Result<Self, BedError> {
        let machine = |error: &dyn std::fmt::Display| BedError::Machine(format!("the operator can't be started: {error}"));
        let entrance = serve(bed.api.clone(), name).await.map_err(|error| machine(&error))?;
        let options = Options { namespace: None, operator_namespace: OPERATORS.into(), pod: name.into() };
        let kube = KubeWorld::at(&entrance.url(), entrance.token(), &options).await.map_err(|error| machine(&error))?;
        let setup = Setup {
            pod: name.into(),
            namespace: OPERATORS.into(),
            lease: "valkey-operator".into(),
            image: images::OPERATOR.into(),
            cluster_domain: "cluster.local".into(),
            probe_interval: vko_core::probe::QUIET,
            images: Images { lines: bed.images().lines().clone(), ..Images::default() },
        };
        let inner = Wired::new(Arc::new(faulty(vko_run::world(kube), faults)), setup, policies).start();
        Ok(Self { inner, _entrance: entrance })
    }

    /// Returns when a part of it has ended unasked, and says which.
    pub async fn ended(&mut self) -> Ended {
        self.inner.ended().await
    }

    /// Stops it as SIGTERM does: instances first, then the Lease.
    ///
    /// # Errors
    /// A part of it panicked.
    pub async fn stop(self) -> Result<(), Ended> {
        self.inner.stop().await
    }

    /// The decision journal of an instance, a JSON entry per line.
    pub fn journal(&self, namespace: &str, name: &str) -> Vec<String> {
        self.inner.journal(namespace, name).unwrap_or_default()
    }
}
