//! The end of an instance, and the accidental end of its topology object.
//!
//! # Guarantees
//! 1. While the Valkey lives, deleting its topology object stops nothing: the children are released first, the ledger is kept for
//!    the successor.
//! 2. An ending instance hands over to nobody: its hooks are told before its pods are stopped.
//! 3. Claims go only when the spec or the `delete-pvc` finalizer says so; of the two, a spec that retains wins.
//! 4. Nothing ends on the word of a cache alone.
//! 5. Nothing hangs: a pod on a node that doesn't answer isn't waited for, and neither are Sentinels elsewhere. Secrets
//!    that an end left behind are let go by whoever acts then: a namespace that goes takes its objects in any order.
//!
//! # Flow of an end
//! 1. The ConfigMap says `ending`, pods are told.
//! 2. Sentinels that exist elsewhere forget the data set ([`super::leaving`]), again until all have or the pods are gone.
//! 3. The StatefulSet goes, and its pods with it.
//! 4. When the pods are gone: claims, if asked, and those that still come.
//! 5. Finalizers of Secrets.
//! 6. The topology object's finalizer; what is left goes with it.
//! 7. `delete-pvc` of the Valkey; where its topology object went before it (deleted alone, and its successor not made yet),
//!    all of this first.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use vko_api::names;

use super::topology::{Named, kind_of};
use super::{Instance, Next};
use crate::accounts;
use crate::ledger::Ledger;
use crate::object::{Kind, Object, ObjectId};
use crate::refresh;
use crate::render::Topology;
use crate::world::{ApiError, Delete, World};

/// How long the kubelet gets to refresh the mounts before the pods are stopped. Too short costs hand-overs that serve nobody, no
/// data.
const TOLD_MS: u64 = 1_500;
/// Looks while something is ending: the deletion of pods and claims is seen by their watches, this is for what isn't watched.
const AGAIN: Duration = Duration::from_secs(2);

/// How long after a StatefulSet went claims of it may still appear: its controller makes those of all pods in one go, and was
/// seen to be at it.
const AFTER_SETS: Duration = Duration::from_secs(4);

/// Whether a Secret waits for us to let it go.
pub(crate) fn is_held(secret: &Object) -> bool {
    secret.deleting() && secret.finalizers().any(|finalizer| finalizer == names::SECRET_FINALIZER)
}

/// Kinds that an instance owns.
const CHILDREN: [Kind; 5] = [Kind::StatefulSet, Kind::Service, Kind::PodDisruptionBudget, Kind::ConfigMap, Kind::Secret];

impl<W: World> Instance<W> {
    /// The topology object was deleted while its Valkey lives: children are released, the ledger is kept, the object may go.
    ///
    /// The two kinds have a watch each: that the Valkey is gone, which is why its topology object goes, may be known a moment
    /// later. So it is read anew: the children of a Valkey that is gone would be nobody's once released.
    pub(super) async fn release(&mut self, topology: &Named) -> Result<Next, ApiError> {
        let fresh = self.shared.world.get(&self.valkey_id()).await?;
        let Some(valkey) = fresh.as_ref().filter(|valkey| !valkey.deleting()) else {
            return self.end(fresh.as_ref(), topology).await;
        };
        if kind_of(valkey) != topology.id.kind {
            // A former Valkey of the name had another architecture: its servers are no use to this one.
            return self.end(None, topology).await;
        }
        let ledger = Ledger::read(topology.object.0.get("status"));
        if ledger != Ledger::default() {
            self.rescued = Some(ledger);
        }
        for kind in CHILDREN {
            for child in self.shared.world.cached_of(kind, &self.key.namespace, &self.key.name) {
                if child.list("/metadata/ownerReferences").iter().any(|owner| owner["uid"] == topology.object.uid()) {
                    // Meanwhile they are the Valkey's: should it go before a successor adopts them, they go too.
                    let patch = json!({"metadata": {"uid": child.uid(), "ownerReferences": [owner_reference(valkey)]}});
                    self.shared.world.merge(&ObjectId::new(kind, &self.key.namespace, child.name()), &patch).await?;
                }
            }
        }
        self.drop_finalizer(&topology.id, &topology.object, names::FINALIZER).await?;
        self.site = None;
        Ok(Next::After(AGAIN))
    }

    /// Whether there is a Valkey that isn't being deleted, past the cache.
    pub(super) async fn valkey_lives(&self) -> Result<bool, ApiError> {
        Ok(self.shared.world.get(&self.valkey_id()).await?.is_some_and(|valkey| !valkey.deleting()))
    }

    /// Ends the instance, a step further at each look.
    pub(super) async fn end(
        &mut self,
        valkey: Option<&Object>,
        Named { id, object: topology }: &Named,
    ) -> Result<Next, ApiError> {
        self.tracks = crate::execute::tracks::Tracks::default();
        self.probes.follow(Vec::new());
        if !self.tell_hooks(id.kind).await? {
            return Ok(Next::After(Duration::from_millis(TOLD_MS)));
        }
        let watching = self.leave_sentinels(id.kind, topology).await;
        for set in self.stateful_sets(id.kind).values() {
            if !set.deleting() {
                self.delete(Kind::StatefulSet, set).await?;
            }
        }
        if self.pods_left(id.kind) {
            return Ok(Next::After(AGAIN));
        }
        if claims_go(valkey, topology) {
            for claim in self.claims(id.kind) {
                if !claim.deleting() {
                    self.delete(Kind::PersistentVolumeClaim, &claim).await?;
                }
            }
            if self.claims_may_come(id.kind) {
                return Ok(Next::After(AGAIN));
            }
        }
        self.tell_left(valkey.unwrap_or(topology), &watching).await;
        self.let_accounts_go(&self.render_topology(&Named { id: id.clone(), object: topology.clone() })).await?;
        self.drop_finalizer(id, topology, names::FINALIZER).await?;
        Ok(Next::After(AGAIN))
    }

    /// Takes our finalizer off the Secrets of the accounts: by their names, too, whatever labels somebody took from them.
    async fn let_accounts_go(&self, topology: &Topology) -> Result<(), ApiError> {
        let labelled = self.shared.world.cached_of(Kind::Secret, &self.key.namespace, &self.key.name);
        let ids = labelled.iter().map(|secret| ObjectId::new(Kind::Secret, &self.key.namespace, secret.name()));
        for id in ids.chain(accounts::secrets(topology)).collect::<BTreeSet<_>>() {
            let secret = match self.shared.world.cached(&id) {
                Some(secret) => Some(secret),
                None => self.shared.world.get(&id).await?,
            };
            if let Some(secret) = secret {
                self.drop_finalizer(&id, &secret, names::SECRET_FINALIZER).await?;
            }
        }
        Ok(())
    }

    /// Nobody is left who could use the accounts: lets their Secrets go. The end came in another order than ours (a
    /// namespace that goes deletes topology objects before their Valkeys), or its last steps met Secrets that had just changed.
    pub(super) async fn let_secrets_go(&self) -> Result<Next, ApiError> {
        let secrets = self.shared.world.cached_of(Kind::Secret, &self.key.namespace, &self.key.name);
        let held: Vec<Object> = secrets.into_iter().filter(is_held).collect();
        if held.is_empty() {
            return Ok(Next::Gone);
        }
        for kind in Kind::INSTANCES {
            if self.shared.world.get(&self.own_id(kind)).await?.is_some() {
                return Ok(Next::After(AGAIN));
            }
        }
        for secret in held {
            let id = ObjectId::new(Kind::Secret, &self.key.namespace, secret.name());
            self.drop_finalizer(&id, &secret, names::SECRET_FINALIZER).await?;
        }
        Ok(Next::After(AGAIN))
    }

    /// The topology object is gone; the Valkey may still wait for its servers and claims.
    pub(super) async fn finish(&mut self, valkey: &Object) -> Result<Next, ApiError> {
        let kind = kind_of(valkey);
        if !self.stateful_sets(kind).is_empty() || self.pods_left(kind) {
            return self.end(Some(valkey), &self.imagined(valkey)).await;
        }
        if !valkey.finalizers().any(|finalizer| finalizer == names::DELETE_PVC) {
            return Ok(Next::After(AGAIN));
        }
        self.drop_finalizer(&self.valkey_id(), valkey, names::DELETE_PVC).await?;
        Ok(Next::After(AGAIN))
    }

    /// Says `ending` in the ConfigMaps and tells the pods. `true` once they had time to see it, or there is nothing to tell.
    async fn tell_hooks(&self, topology: Kind) -> Result<bool, ApiError> {
        let told = |config: &Object| config.text("/data/ending") == "yes";
        let (pods, mut asked) = (self.pods(topology), false);
        for pod in &pods {
            // Read anew for each pod: the first of several that mount the same one changes it.
            let Some(config) = self.mounted(topology, pod).filter(|config| !told(config)) else { continue };
            let id = ObjectId::new(Kind::ConfigMap, &self.key.namespace, config.name());
            let patch = json!({"metadata": {"uid": config.uid()}, "data": {"ending": "yes"}});
            self.shared.world.merge(&id, &patch).await?;
            asked = true;
        }
        if asked {
            return Ok(false);
        }
        let (now, mut settled) = (self.shared.world.unix_ms(), true);
        for pod in &pods {
            let Some(config) = self.mounted(topology, pod) else { continue };
            let hash = refresh::hash(&config);
            if refresh::due(pod, &hash, now) {
                let id = ObjectId::new(Kind::Pod, &self.key.namespace, pod.name());
                self.shared.world.merge(&id, &refresh::patch(pod, &hash, now)).await?;
            }
            settled &= pod.deleting() || refresh::settled(pod, &hash, now, TOLD_MS);
        }
        Ok(settled)
    }

    /// Whether the StatefulSet controller may still be making what a set asked for that went a moment ago. Claims don't go with
    /// the set.
    fn claims_may_come(&mut self, topology: Kind) -> bool {
        let now = self.shared.world.monotonic();
        if !self.stateful_sets(topology).is_empty() {
            return true;
        }
        now.saturating_sub(*self.sets_gone.get_or_insert(now)) < AFTER_SETS
    }

    /// Pods that still run somewhere that can be asked.
    fn pods_left(&self, topology: Kind) -> bool {
        let nodes = self.shared.world.cached_all(Kind::Node);
        let answers = |name: &str| {
            nodes
                .iter()
                .find(|node| node.name() == name)
                .is_some_and(|node| node.condition("Ready").is_some_and(|ready| ready["status"] == "True"))
        };
        self.pods(topology).iter().any(|pod| answers(pod.text("/spec/nodeName")))
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
pub(super) fn claims_go(valkey: Option<&Object>, topology: &Object) -> bool {
    let retains = topology.0.pointer("/spec/storage/retainAfterDeleted").and_then(Value::as_bool);
    let asked = valkey.is_some_and(|valkey| valkey.finalizers().any(|finalizer| finalizer == names::DELETE_PVC));
    retains == Some(false) || (asked && retains != Some(true))
}
