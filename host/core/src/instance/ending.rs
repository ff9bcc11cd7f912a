//! The end of an instance, and the accidental end of its topology object.
//!
//! # Guarantees
//! 1. While the Valkey lives, deleting its topology object stops nothing: the children are released first, the ledger is kept for the successor.
//! 2. An ending instance hands over to nobody: its hooks are told before its pods are stopped.
//! 3. Claims go only when the spec or the `delete-pvc` finalizer says so; of the two, a spec that retains wins.
//! 4. Nothing ends on the word of a cache alone.
//! 5. Nothing hangs: a pod on a node that doesn't answer isn't waited for.
//!
//! # Flow of an end
//! 1. The ConfigMap says `ending`, pods are told.
//! 2. The StatefulSet goes, and its pods with it.
//! 3. When the pods are gone: claims, if asked.
//! 4. Finalizers of Secrets.
//! 5. The topology object's finalizer; what is left goes with it.
//! 6. `delete-pvc` of the Valkey.

use std::time::Duration;

use serde_json::{Value, json};
use vko_api::names;

use super::{Instance, Next};
use crate::ledger::Ledger;
use crate::object::{Kind, Object, ObjectId};
use crate::world::{ApiError, Delete, World};
use crate::{refresh, render};

/// How long the kubelet gets to refresh the mounts before the pods are stopped. Too short costs hand-overs that serve nobody, no data.
const TOLD_MS: u64 = 1_500;
/// Looks while something is ending: the deletion of pods and claims is seen by their watches, this is for what isn't watched.
const AGAIN: Duration = Duration::from_secs(2);

/// Kinds that an instance owns.
const CHILDREN: [Kind; 5] = [Kind::StatefulSet, Kind::Service, Kind::PodDisruptionBudget, Kind::ConfigMap, Kind::Secret];

impl<W: World> Instance<W> {
    /// The topology object was deleted while its Valkey lives: children are released, the ledger is kept, the object may go.
    ///
    /// The two kinds have a watch each: that the Valkey is gone, which is why its topology object goes, may be known a moment later. So it is
    /// read anew: the children of a Valkey that is gone would be nobody's once released.
    pub(super) async fn release(&mut self, topology: &Object) -> Result<Next, ApiError> {
        let fresh = self.shared.world.get(&self.valkey_id()).await?;
        let Some(valkey) = fresh.as_ref().filter(|valkey| !valkey.deleting()) else {
            return self.end(fresh.as_ref(), topology).await;
        };
        let ledger = Ledger::read(topology.0.get("status"));
        if ledger != Ledger::default() {
            self.rescued = Some(ledger);
        }
        for kind in CHILDREN {
            for child in self.shared.world.cached_of(kind, &self.key.namespace, &self.key.name) {
                if child.list("/metadata/ownerReferences").iter().any(|owner| owner["uid"] == topology.uid()) {
                    // Meanwhile they are the Valkey's: should it go before a successor adopts them, they go too.
                    let patch = json!({"metadata": {"uid": child.uid(), "ownerReferences": [owner_reference(valkey)]}});
                    self.shared.world.merge(&ObjectId::new(kind, &self.key.namespace, child.name()), &patch).await?;
                }
            }
        }
        self.drop_finalizer(&self.topology_id(), topology, names::FINALIZER).await?;
        self.site = None;
        Ok(Next::After(AGAIN))
    }

    /// Whether there is a Valkey that isn't being deleted, past the cache.
    pub(super) async fn valkey_lives(&self) -> Result<bool, ApiError> {
        Ok(self.shared.world.get(&self.valkey_id()).await?.is_some_and(|valkey| !valkey.deleting()))
    }

    /// Ends the instance, a step further at each look.
    pub(super) async fn end(&mut self, valkey: Option<&Object>, topology: &Object) -> Result<Next, ApiError> {
        self.tracks = crate::execute::tracks::Tracks::default();
        self.probes.follow(Vec::new());
        if !self.tell_hooks().await? {
            return Ok(Next::After(Duration::from_millis(TOLD_MS)));
        }
        for set in self.shared.world.cached_of(Kind::StatefulSet, &self.key.namespace, &self.key.name) {
            if !set.deleting() {
                self.delete(Kind::StatefulSet, &set).await?;
            }
        }
        if self.pods_left() {
            return Ok(Next::After(AGAIN));
        }
        if claims_go(valkey, topology) {
            for claim in self.claims() {
                if !claim.deleting() {
                    self.delete(Kind::PersistentVolumeClaim, &claim).await?;
                }
            }
        }
        for secret in self.shared.world.cached_of(Kind::Secret, &self.key.namespace, &self.key.name) {
            let id = ObjectId::new(Kind::Secret, &self.key.namespace, secret.name());
            self.drop_finalizer(&id, &secret, names::SECRET_FINALIZER).await?;
        }
        self.drop_finalizer(&self.topology_id(), topology, names::FINALIZER).await?;
        Ok(Next::After(AGAIN))
    }

    /// The topology object is gone; the Valkey may still wait for its claims.
    pub(super) async fn finish(&mut self, valkey: &Object) -> Result<Next, ApiError> {
        if !valkey.finalizers().any(|finalizer| finalizer == names::DELETE_PVC) {
            return Ok(Next::After(AGAIN));
        }
        self.drop_finalizer(&self.valkey_id(), valkey, names::DELETE_PVC).await?;
        Ok(Next::After(AGAIN))
    }

    /// Says `ending` in the ConfigMap and tells the pods. `true` once they had time to see it, or there is nothing to tell.
    async fn tell_hooks(&self) -> Result<bool, ApiError> {
        let id = ObjectId::new(Kind::ConfigMap, &self.key.namespace, names::data_workload(&self.key.name));
        let Some(config) = self.shared.world.cached(&id) else { return Ok(true) };
        if config.text("/data/ending") != "yes" {
            let patch = json!({"metadata": {"uid": config.uid()}, "data": {"ending": "yes"}});
            self.shared.world.merge(&id, &patch).await?;
            return Ok(false);
        }
        let (hash, now) = (refresh::hash(&config), self.shared.world.unix_ms());
        let pods = self.pods();
        for pod in pods.iter().filter(|pod| refresh::due(pod, &hash, now)) {
            let id = ObjectId::new(Kind::Pod, &self.key.namespace, pod.name());
            self.shared.world.merge(&id, &refresh::patch(pod, &hash, now)).await?;
        }
        Ok(pods.iter().all(|pod| pod.deleting() || refresh::settled(pod, &hash, now, TOLD_MS)))
    }

    /// Pods that still run somewhere that can be asked.
    fn pods_left(&self) -> bool {
        let nodes = self.shared.world.cached_all(Kind::Node);
        let answers = |name: &str| {
            nodes
                .iter()
                .find(|node| node.name() == name)
                .is_some_and(|node| node.condition("Ready").is_some_and(|ready| ready["status"] == "True"))
        };
        self.pods().iter().any(|pod| answers(pod.text("/spec/nodeName")))
    }

    async fn delete(&self, kind: Kind, object: &Object) -> Result<(), ApiError> {
        if !self.shared.lease.is_leader() {
            return Err(ApiError::Conflict("the Lease was lost; another operator may be acting".into()));
        }
        let id = ObjectId::new(kind, &self.key.namespace, object.name());
        self.shared.world.delete(&id, Delete { uid: object.uid().into(), grace_seconds: None, orphan: false }).await
    }

    /// Takes one finalizer off, under the resourceVersion: finalizers of others stay.
    async fn drop_finalizer(&self, id: &ObjectId, object: &Object, finalizer: &str) -> Result<(), ApiError> {
        if !object.finalizers().any(|own| own == finalizer) {
            return Ok(());
        }
        let kept: Vec<&str> = object.finalizers().filter(|own| *own != finalizer).collect();
        let patch = json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": kept}});
        match self.shared.world.merge(id, &patch).await {
            // Gone, or moved on: the next look sees which.
            Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn pods(&self) -> Vec<Object> {
        let selector = render::selector(&self.key.name);
        let fits = |pod: &Object| selector.iter().all(|(key, value)| pod.label(key) == value);
        self.shared.world.cached_of(Kind::Pod, &self.key.namespace, &self.key.name).into_iter().filter(fits).collect()
    }

    pub(super) fn claims(&self) -> Vec<Object> {
        let workload = names::data_workload(&self.key.name);
        let ours = |claim: &Object| crate::observe::place_of_claim(claim.name()).is_some_and(|(of, _)| of == workload);
        self.shared
            .world
            .cached_of(Kind::PersistentVolumeClaim, &self.key.namespace, &self.key.name)
            .into_iter()
            .filter(ours)
            .collect()
    }
}

/// A reference to an owner that isn't the controller.
fn owner_reference(valkey: &Object) -> Value {
    json!({
        "apiVersion": Kind::Valkey.api_version(),
        "kind": Kind::Valkey.name(),
        "name": valkey.name(),
        "uid": valkey.uid(),
    })
}

/// Whether claims go with the instance.
fn claims_go(valkey: Option<&Object>, topology: &Object) -> bool {
    let retains = topology.0.pointer("/spec/storage/retainAfterDeleted").and_then(Value::as_bool);
    let asked = valkey.is_some_and(|valkey| valkey.finalizers().any(|finalizer| finalizer == names::DELETE_PVC));
    retains == Some(false) || (asked && retains != Some(true))
}
