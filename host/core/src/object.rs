//! Kubernetes objects as JSON, with the few readings that the core needs.

use std::sync::Arc;

use serde_json::Value;

/// The kinds that the operator touches. Nothing outside this list can be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// rds.valkey.buf.red/v1alpha1 Valkey.
    Valkey,
    /// valkey.buf.red/v1alpha1 User: an account of a Valkey.
    User,
    /// valkey.buf.red/v1alpha1 Cluster: what a Valkey of the cluster architecture is translated to.
    Cluster,
    /// valkey.buf.red/v1alpha1 Failover: what one of the failover or replica architecture is translated to.
    Failover,
    /// valkey.buf.red/v1alpha1 Sentinel: a Failover's own Sentinels as people see them, or a group of Sentinels that stands
    /// alone.
    Sentinel,
    /// apps/v1.
    StatefulSet,
    /// v1.
    Service,
    /// v1.
    ConfigMap,
    /// v1.
    Secret,
    /// v1.
    Pod,
    /// v1.
    PersistentVolumeClaim,
    /// v1, cluster-scoped.
    PersistentVolume,
    /// v1, cluster-scoped.
    Node,
    /// policy/v1.
    PodDisruptionBudget,
    /// coordination.k8s.io/v1.
    Lease,
}

impl Kind {
    /// Group and version as written in `apiVersion`.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Valkey => "rds.valkey.buf.red/v1alpha1",
            Self::User | Self::Cluster | Self::Failover | Self::Sentinel => "valkey.buf.red/v1alpha1",
            Self::StatefulSet => "apps/v1",
            Self::Service | Self::ConfigMap | Self::Secret | Self::Pod => "v1",
            Self::PersistentVolumeClaim | Self::PersistentVolume | Self::Node => "v1",
            Self::PodDisruptionBudget => "policy/v1",
            Self::Lease => "coordination.k8s.io/v1",
        }
    }

    /// `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valkey => "Valkey",
            Self::User => "User",
            Self::Cluster => "Cluster",
            Self::Failover => "Failover",
            Self::Sentinel => "Sentinel",
            Self::StatefulSet => "StatefulSet",
            Self::Service => "Service",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Pod => "Pod",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::PersistentVolume => "PersistentVolume",
            Self::Node => "Node",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Lease => "Lease",
        }
    }

    /// Plural, as in paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Valkey => "valkeys",
            Self::User => "users",
            Self::Cluster => "clusters",
            Self::Failover => "failovers",
            Self::Sentinel => "sentinels",
            Self::StatefulSet => "statefulsets",
            Self::Service => "services",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Pod => "pods",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::PersistentVolume => "persistentvolumes",
            Self::Node => "nodes",
            Self::PodDisruptionBudget => "poddisruptionbudgets",
            Self::Lease => "leases",
        }
    }

    /// Whether objects of it live in a namespace.
    pub const fn namespaced(self) -> bool {
        !matches!(self, Self::PersistentVolume | Self::Node)
    }

    /// Whether an instance lives by it, under its name: what people write and what that is translated to.
    pub const fn is_instance(self) -> bool {
        matches!(self, Self::Valkey) || self.is_topology()
    }

    /// Whether it holds the ledger and status of an instance.
    pub const fn is_topology(self) -> bool {
        matches!(self, Self::Cluster | Self::Failover | Self::Sentinel)
    }

    /// The kinds that [`Self::is_instance`] says yes to.
    pub const INSTANCES: [Self; 4] = [Self::Valkey, Self::Cluster, Self::Failover, Self::Sentinel];

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Valkey,
        Self::User,
        Self::Cluster,
        Self::Failover,
        Self::Sentinel,
        Self::StatefulSet,
        Self::Service,
        Self::ConfigMap,
        Self::Secret,
        Self::Pod,
        Self::PersistentVolumeClaim,
        Self::PersistentVolume,
        Self::Node,
        Self::PodDisruptionBudget,
        Self::Lease,
    ];
}

/// Names an object, without saying which incarnation (that is the UID's job).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Kind.
    pub kind: Kind,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectId {
    /// Names an object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind.name(), self.namespace, self.name)
    }
}

/// A cached or answered object; shared, never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(pub Arc<Value>);

impl Object {
    /// Wraps JSON.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// A text by JSON pointer; empty when it isn't there.
    pub fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number by JSON pointer.
    pub fn number(&self, pointer: &str) -> Option<u64> {
        self.0.pointer(pointer).and_then(Value::as_u64)
    }

    /// A list by JSON pointer; empty when it isn't there.
    pub fn list(&self, pointer: &str) -> &[Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// `kind`, if it is on the list.
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_name(self.text("/kind"))
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> u64 {
        self.number("/metadata/generation").unwrap_or(0)
    }

    /// Whether it has a deletion timestamp.
    pub fn deleting(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// A label; empty when it isn't there.
    pub fn label(&self, key: &str) -> &str {
        self.0.get("metadata").and_then(|m| m.get("labels")).and_then(|l| l.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    /// An annotation; empty when it isn't there.
    pub fn annotation(&self, key: &str) -> &str {
        self.0
            .get("metadata")
            .and_then(|m| m.get("annotations"))
            .and_then(|l| l.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// UID of the controlling owner; empty when there is none.
    pub fn controller_uid(&self) -> &str {
        self.list("/metadata/ownerReferences")
            .iter()
            .find(|owner| owner["controller"].as_bool() == Some(true))
            .and_then(|owner| owner["uid"].as_str())
            .unwrap_or_default()
    }

    /// The condition of that type in its status.
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        self.list("/status/conditions").iter().find(|condition| condition["type"] == kind)
    }

    /// Names of the finalizers.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.list("/metadata/finalizers").iter().filter_map(Value::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name_and_the_lists_agree() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
            assert_eq!(Kind::INSTANCES.contains(&kind), kind.is_instance(), "{kind:?}");
        }
        assert!(!Kind::Valkey.is_topology() && Kind::Sentinel.is_topology());
    }
}
