//! EXECUTE: labels, objects, mounts, tracks, in this order.
//!
//! # Guarantees
//! 1. Labels come first: nothing else may keep a Service on the wrong pod.
//! 2. What can't be rendered, applied or told holds up nothing else.
//! 3. Without the Lease nothing is done: a process that stood still may find itself here with a plan of long ago, while another
//!    operator acts.

use std::sync::Arc;

use serde_json::Value;
use vko_model::accounts::ServerRole;
use vko_wit::observation::Observed;
use vko_wit::planning::{Desired, Plan, Purpose, StartMode, Track};

use super::Instance;
use super::gather::{Mounted, mounted};
use super::topology::Named;
use crate::accounts::Accounts;
use crate::execute::{desired, labels};
use crate::guard::{Circumstances, View, members_now};
use crate::object::{Kind, Object, ObjectId};
use crate::refresh;
use crate::render::{self, Live, Topology};
use crate::report::HostFacts;
use crate::site::Site;
use crate::workloads::config_of;
use crate::world::{ApiError, World};

/// What one look has seen and made before it executes.
pub(super) struct Seen<'a, W> {
    pub(super) site: &'a Arc<Site<W>>,
    pub(super) named: &'a Named,
    pub(super) topology: &'a Topology,
    pub(super) observed: &'a Arc<Observed>,
    pub(super) circumstances: Circumstances,
    pub(super) accounts: &'a Accounts,
    pub(super) pods: &'a [Object],
    pub(super) person: &'a Object,
}

impl<W: World> Instance<W> {
    /// EXECUTE. Returns whether mounted files of running pods are still being refreshed.
    pub(super) async fn execute(&mut self, seen: &Seen<'_, W>, plan: &Plan, tracks: &[Track], host: &mut HostFacts) -> bool {
        let Seen { site, named, topology, observed, pods, person, .. } = *seen;
        let key = self.key.clone();
        let (namespace, instance) = (&key.namespace, &key.name);
        let kind = named.id.kind;
        if !self.shared.lease.is_leader() {
            return true;
        }
        let changes = labels::changes(observed, pods, &plan.routing);
        if let Err(error) = labels::apply(site, namespace, &changes).await {
            tracing::warn!(namespace, instance, %error, "labels not applied");
        }
        let mut held_back = false;
        match self.rendered(kind, seen, plan) {
            Ok((objects, held)) => {
                held_back = held;
                let applied = desired::apply(&*self.shared.world, topology, &objects).await;
                if let Some((id, error)) = applied.failed.first() {
                    host.problem = Some(("ObjectNotApplied".into(), format!("{id}: {error}")));
                }
            }
            Err((reason, message)) => host.problem = Some((reason, message)),
        }
        self.show_beside(named, topology, person).await;
        // A pod that can't be told now is told at the next look; nothing else waits for it.
        let unsettled = self.refresh_mounts(kind, pods).await.unwrap_or_else(|error| {
            tracing::warn!(namespace, instance, %error, "mounted files not refreshed");
            true
        });
        let told = self.step_listener(person.clone());
        self.tracks.follow(site, observed, tracks.to_vec(), &told);
        if !tracks.is_empty() {
            self.memory.again.ask_all();
        }
        unsettled || held_back
    }

    /// What is wanted of objects, and whether somebody who is to leave was held back in it.
    fn rendered(&self, kind: Kind, seen: &Seen<'_, W>, plan: &Plan) -> Result<(Vec<Value>, bool), (String, String)> {
        let Seen { topology, observed, accounts, .. } = *seen;
        let view = View::new(observed, seen.circumstances);
        let mut held_back = false;
        let mut desired = plan.desired.clone();
        // What a policy doesn't want now stays as it is; nothing of what its pods mount is rendered then.
        let (mut data, mut sentinels) = (Mounted::default(), Mounted::default());
        let mut start = StartMode::Named;
        for record in &mut desired {
            let Desired::Workload(wanted) = record else { continue };
            let (members, held) = members_now(wanted, &view);
            wanted.members = members;
            held_back |= held;
            match (wanted.purpose, topology.data_role()) {
                (Purpose::Sentinel, _) => sentinels = mounted(topology, ServerRole::Sentinel, &wanted.settings, accounts)?,
                (Purpose::Data, Some(role)) => {
                    data = mounted(topology, role, &wanted.settings, accounts)?;
                    start = wanted.start;
                }
                // Rendering refuses it, and says why.
                (Purpose::Data, None) => {}
            }
        }
        let inputs = render::Inputs { data: data.texts(), sentinels: sentinels.texts(), start, ending: false };
        let sets = self.stateful_sets(kind);
        // Nothing has run yet: a template that can't run (an agent image that is gone, say) must not stay in force.
        let live = Live { stateful_set: &|name| sets.get(name).cloned(), roll_out: observed.ledger.formed == Some(false) };
        render::render(topology, &desired, &inputs, &self.shared.settings, live)
            .map(|objects| (objects, held_back))
            .map_err(|error| (error.reason().to_owned(), error.to_string()))
    }

    /// Tells running pods of a changed ConfigMap, each of the one that it mounts.
    async fn refresh_mounts(&self, topology: Kind, pods: &[Object]) -> Result<bool, ApiError> {
        let now = self.shared.world.unix_ms();
        let mut unsettled = false;
        for pod in pods.iter().filter(|pod| !pod.deleting()) {
            let Some(config) = self.mounted(topology, pod) else { continue };
            let hash = refresh::hash(&config);
            if refresh::due(pod, &hash, now) {
                let id = ObjectId::new(Kind::Pod, &self.key.namespace, pod.name());
                match self.shared.world.merge(&id, &refresh::patch(pod, &hash, now)).await {
                    Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            unsettled |= !refresh::settled(pod, &hash, now, crate::observe::millis(crate::observe::MOUNT_SETTLES));
        }
        Ok(unsettled)
    }

    /// The ConfigMap that a pod mounts, if it is there.
    pub(super) fn mounted(&self, topology: Kind, pod: &Object) -> Option<Object> {
        let (workload, _) = pod.name().rsplit_once('-')?;
        let config = config_of(topology, &self.key.name, workload);
        self.shared.world.cached(&ObjectId::new(Kind::ConfigMap, &self.key.namespace, config))
    }
}
