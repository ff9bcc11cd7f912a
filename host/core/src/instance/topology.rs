//! The objects that an instance lives by: what a person wrote, and the topology object, which holds ledger and status.
//!
//! | a person wrote | topology object | architecture |
//! | --- | --- | --- |
//! | Valkey, `arch: cluster` | Cluster | cluster |
//! | Valkey, `arch: failover` | Failover with `spec.sentinel`, and a Sentinel object to look at ([`super::view`]) | failover |
//! | Valkey, `arch: replica` | Failover | replica |
//! | Sentinel, without a controller | itself | failover, without data servers |
//!
//! # Guarantees
//! One topology object governs at a time: the children of two would have the same labels. Where names collide, whoever has one
//! already keeps the name, and the other is told.

use vko_api::names;

use super::Instance;
use crate::object::{Kind, Object, ObjectId};
use crate::workloads::purpose;
use crate::world::World;

/// An object of an instance's own kinds, and how it is found again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    pub(super) id: ObjectId,
    pub(super) object: Object,
}

impl<W: World> Instance<W> {
    pub(super) fn own_id(&self, kind: Kind) -> ObjectId {
        ObjectId::new(kind, &self.key.namespace, &self.key.name)
    }

    pub(super) fn valkey_id(&self) -> ObjectId {
        self.own_id(Kind::Valkey)
    }

    pub(super) fn cached(&self, kind: Kind) -> Option<Named> {
        let id = self.own_id(kind);
        Some(Named { object: self.shared.world.cached(&id)?, id })
    }

    /// The topology object that governs. A Sentinel beside a Failover is none.
    pub(super) fn topology(&self) -> Option<Named> {
        let translated = [Kind::Cluster, Kind::Failover].into_iter().find_map(|kind| self.cached(kind));
        translated.or_else(|| self.cached(Kind::Sentinel).filter(|sentinel| stands_alone(&sentinel.object)))
    }

    /// Pods of all workloads that an instance with this topology object has.
    pub(super) fn pods(&self, topology: Kind) -> Vec<Object> {
        let ours = |pod: &Object| {
            let workload = pod.name().rsplit_once('-').map_or("", |(workload, _)| workload);
            purpose(topology, &self.key.name, workload).is_some()
        };
        self.shared.world.cached_of(Kind::Pod, &self.key.namespace, &self.key.name).into_iter().filter(ours).collect()
    }

    /// Claims of their places.
    pub(super) fn claims(&self, topology: Kind) -> Vec<Object> {
        let ours = |claim: &Object| {
            crate::observe::place_of_claim(claim.name())
                .is_some_and(|(workload, _)| purpose(topology, &self.key.name, workload).is_some())
        };
        let all = self.shared.world.cached_of(Kind::PersistentVolumeClaim, &self.key.namespace, &self.key.name);
        all.into_iter().filter(ours).collect()
    }
}

/// Whether nobody but a person made this Sentinel.
pub(super) fn stands_alone(sentinel: &Object) -> bool {
    sentinel.controller_uid().is_empty()
}

/// The kind of topology object that a Valkey becomes.
pub(super) fn kind_of(valkey: &Object) -> Kind {
    if valkey.text("/spec/arch") == "cluster" { Kind::Cluster } else { Kind::Failover }
}

/// Whether a topology object belongs to something else than this Valkey. One that nobody controls is adopted.
pub(super) fn is_foreign(topology: &Object, valkey: &Object) -> bool {
    let owner = topology.controller_uid();
    topology.label(names::VALKEY_UID) != valkey.uid() && !owner.is_empty() && owner != valkey.uid()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whose_topology_object_it_is() {
        let valkey = Object::new(json!({"metadata": {"uid": "v2"}}));
        let owners = |uid: &str| json!([{"uid": uid, "controller": true}]);
        let cases = [
            ("its own", json!({"labels": {names::VALKEY_UID: "v2"}, "ownerReferences": owners("v2")}), false),
            ("nobody's: it is adopted", json!({"labels": {names::VALKEY_UID: "v1"}}), false),
            ("a former Valkey's", json!({"labels": {names::VALKEY_UID: "v1"}, "ownerReferences": owners("v1")}), true),
            ("somebody else's", json!({"ownerReferences": owners("other")}), true),
        ];
        for (case, metadata, expected) in cases {
            assert_eq!(is_foreign(&Object::new(json!({"metadata": metadata})), &valkey), expected, "{case}");
        }
    }
}
