//! What a look starts from: the shared parts of the instance, with a ledger, and probes of its servers.
//!
//! # Guarantees
//! 1. A new topology object gets the ledger of its predecessor, if this process saw that one.
//! 2. `formed: false` is written only where nothing exists that could hold data, past the cache.

use std::sync::Arc;

use super::Instance;
use super::gather::targets;
use super::look::LookError;
use super::topology::Named;
use crate::accounts::Accounts;
use crate::ledger::Ledger;
use crate::object::{Kind, Object};
use crate::site::Site;
use crate::store::Store;
use crate::workloads;
use crate::world::{ApiError, World};

impl<W: World> Instance<W> {
    /// The shared parts, made anew for a new topology object.
    pub(super) async fn site(&mut self, topology: &Named) -> Result<Arc<Site<W>>, LookError> {
        if let Some(site) = &self.site
            && site.store.is_of(topology.object.uid()).await
        {
            site.store.refresh(&topology.object).await;
            return Ok(site.clone());
        }
        let ledger = Ledger::read(topology.object.0.get("status"));
        let store = Store::new(self.shared.world.clone(), topology.id.clone(), topology.object.clone(), ledger.clone());
        let site = Site::new(
            self.shared.world.clone(),
            self.shared.settings.clone(),
            self.shared.lease.clone(),
            store,
            self.memory.clone(),
            self.wake.clone(),
        );
        if ledger.formed.is_none() {
            match self.rescued.take() {
                Some(rescued) => site.store.change(|ledger| *ledger = rescued).await?,
                None if self.nothing_there(topology.id.kind).await? => {
                    site.store.change(|ledger| ledger.formed = Some(false)).await?;
                }
                None => {}
            }
        }
        let site = Arc::new(site);
        self.site = Some(site.clone());
        Ok(site)
    }

    /// Whether nothing exists that could hold data: then the instance was never formed. The first workload is asked for past the cache, too; how
    /// many shards there were nobody knows.
    async fn nothing_there(&self, topology: Kind) -> Result<bool, ApiError> {
        let world = &self.shared.world;
        let known =
            [Kind::PersistentVolumeClaim, Kind::Pod, Kind::StatefulSet].iter().all(|kind| world.cache_age(*kind).is_some());
        let cached = self.stateful_sets(topology);
        if !known || !cached.is_empty() || !self.claims(topology).is_empty() || !self.pods(topology).is_empty() {
            return Ok(false);
        }
        let first = workloads::first(topology, &self.key.name);
        let id = crate::object::ObjectId::new(Kind::StatefulSet, &self.key.namespace, first);
        Ok(world.get(&id).await?.is_none())
    }

    /// Probes of exactly the servers that there are now.
    pub(super) fn follow(&mut self, site: &Site<W>, pods: &[Object], accounts: &Accounts) {
        let targets = targets(pods, &accounts.operator());
        self.probes.follow(targets.values().map(|(_, target)| target.clone()).collect());
        site.set_targets(targets);
    }
}
