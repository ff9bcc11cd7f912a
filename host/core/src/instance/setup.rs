//! What a look starts from: the shared parts of the instance, with a ledger, and probes of its servers.
//!
//! # Guarantees
//! 1. A new topology object gets the ledger of its predecessor, if this process saw that one.
//! 2. `formed: false` is written only where nothing exists that could hold data, past the cache.

use std::sync::Arc;

use serde_json::Value;
use vko_api::names;
use vko_wit::planning::Purpose;

use super::Instance;
use super::gather::targets;
use super::look::LookError;
use super::topology::Named;
use crate::accounts::Accounts;
use crate::ledger::Ledger;
use crate::object::{Kind, Object, ObjectId};
use crate::observe::{monitor_name, referenced};
use crate::probe::{Asked, Subject};
use crate::secret::Secret;
use crate::site::Site;
use crate::store::Store;
use crate::workloads;
use crate::world::{ApiError, Credential, Target, World};

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
        let (world, lease) = (self.shared.world.clone(), self.shared.lease.clone());
        let store = Store::new(world, lease, topology.id.clone(), topology.object.clone(), ledger.clone());
        let site = Site::new(
            self.shared.world.clone(),
            self.shared.settings.clone(),
            self.shared.lease.clone(),
            store,
            self.memory.clone(),
            self.wake.clone(),
        );
        if ledger.formed.is_none() {
            match self.rescued.clone() {
                // Given up only once it is written: a write may fail, and nobody else remembers.
                Some(rescued) => {
                    site.store.change(|ledger| *ledger = rescued).await?;
                    self.rescued = None;
                }
                None if self.nothing_there(topology.id.kind).await? => {
                    site.store.change(|ledger| (ledger.formed, ledger.held) = (Some(false), Some(false))).await?;
                }
                None => {}
            }
        }
        let site = Arc::new(site);
        self.site = Some(site.clone());
        Ok(site)
    }

    /// Whether nothing exists that could hold data: then the instance was never formed. The first workload is asked for past the
    /// cache, too; how many shards there were nobody knows.
    async fn nothing_there(&self, topology: Kind) -> Result<bool, ApiError> {
        let world = &self.shared.world;
        let known =
            [Kind::PersistentVolumeClaim, Kind::Pod, Kind::StatefulSet].iter().all(|kind| world.cache_age(*kind).is_some());
        let cached = self.stateful_sets(topology);
        if !known || !cached.is_empty() || !self.claims(topology).is_empty() || !self.pods(topology).is_empty() {
            return Ok(false);
        }
        let first = workloads::first(topology, &self.key.name);
        let id = ObjectId::new(Kind::StatefulSet, &self.key.namespace, first);
        Ok(world.get(&id).await?.is_none())
    }

    /// Probes of exactly the servers and Sentinels that there are now. Returns why Sentinels elsewhere can't be asked, if they
    /// can't: reason and message.
    pub(super) fn follow(
        &mut self,
        site: &Site<W>,
        topology: &Named,
        pods: &[Object],
        accounts: &Accounts,
    ) -> Option<(String, String)> {
        let spec = topology.object.0.get("spec").unwrap_or(&Value::Null);
        let monitor = monitor_name(&self.key.namespace, &self.key.name, spec);
        let (kind, name) = (topology.id.kind, self.key.name.as_str());
        let of = |purpose: Purpose| {
            let ours = move |pod: &&Object| {
                let workload = pod.name().rsplit_once('-').map_or("", |(workload, _)| workload);
                workloads::purpose(kind, name, workload) == Some(purpose)
            };
            pods.iter().filter(ours)
        };
        let data = targets(of(Purpose::Data), names::PORT, &accounts.operator());
        let mut sentinels = targets(of(Purpose::Sentinel), names::SENTINEL_PORT, &accounts.operator());
        let (credential, problem) = match accounts.elsewhere() {
            // Whoever asks for no password lets the default user in with any.
            Ok(credential) => (credential.or_else(|| Some(nobody())), None),
            Err(error) => (None, Some((error.reason().to_owned(), error.to_string()))),
        };
        sentinels.extend(referenced(spec).into_iter().filter_map(|other| {
            let credential = credential.clone()?;
            let target = Target { pod: other.key.clone(), ip: other.ip, port: other.port, credential };
            Some((other.key, (format!("Sentinel {}", other.ip), target)))
        }));
        let asked = if kind == Kind::Cluster { Asked::Cluster } else { Asked::Data };
        let elsewhere: Vec<String> = referenced(spec).into_iter().map(|other| other.key).collect();
        let subject = |asked: Asked| {
            let elsewhere = &elsewhere;
            move |(_, target): &(String, Target)| Subject {
                target: target.clone(),
                asked: asked.clone(),
                shared: elsewhere.contains(&target.pod),
            }
        };
        site.set_monitor(monitor.clone());
        let watched = sentinels.values().map(subject(Asked::Sentinel(monitor)));
        self.probes.follow(data.values().map(subject(asked)).chain(watched).collect());
        let heard = self.memory.snapshot();
        let by_id = sentinels.into_iter().filter_map(|(key, place)| {
            let id = heard.get(&key)?.sentinel.as_ref()?.light.id.clone();
            (!id.is_empty()).then_some((id, place))
        });
        site.set_sentinels(by_id.collect());
        site.set_targets(data);
        site.set_credentials(accounts.credentials());
        problem
    }
}

/// Whoever asks for no password lets the default user in with any.
pub(super) fn nobody() -> Credential {
    Credential { user: names::account::DEFAULT.into(), password: Secret::default() }
}
