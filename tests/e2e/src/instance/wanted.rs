//! What can be asked for: a `Valkey` as the tests write it.

use serde_json::{Value, json};

use crate::{Result, kubectl};

/// Architecture, and what comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// One data set, recovered by the operator.
    Replica,
    /// One data set, with so many Sentinels of its own.
    Failover {
        /// Sentinels.
        sentinels: u32,
    },
    /// So many shards.
    Cluster {
        /// Shards.
        shards: u32,
    },
}

impl Arch {
    /// As in `spec.arch`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Failover { .. } => "failover",
            Self::Cluster { .. } => "cluster",
        }
    }

    /// What the topology object is called in commands.
    pub fn topology(self) -> &'static str {
        if matches!(self, Self::Cluster { .. }) { "cluster" } else { "failover" }
    }

    fn data_sets(self) -> u32 {
        if let Self::Cluster { shards } = self { shards } else { 1 }
    }

    fn sentinels(self) -> u32 {
        if let Self::Failover { sentinels } = self { sentinels } else { 0 }
    }
}

/// Sentinels where nothing is said.
pub const MEMBERS_OF_SENTINELS: u32 = 3;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Architecture.
    pub arch: Arch,
    /// Server line.
    pub version: &'static str,
    /// Members of each data set.
    pub members: u32,
    /// Whether data is on claims.
    pub claims: bool,
    /// Each member on a node of its own, or not at all.
    pub apart: bool,
    /// Annotations of the Valkey.
    pub annotations: Value,
    /// Finalizers of the Valkey.
    pub finalizers: Value,
    /// `storage.retainAfterDeleted`.
    pub retain: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            arch: Arch::Replica,
            version: "9.1",
            members: 3,
            claims: false,
            apart: false,
            annotations: json!({}),
            finalizers: json!([]),
            retain: false,
        }
    }
}

impl Wanted {
    /// A cluster.
    pub fn cluster(shards: u32, members: u32) -> Self {
        Self { arch: Arch::Cluster { shards }, members, ..Self::default() }
    }

    /// A primary, its replicas, and Sentinels.
    pub fn failover(members: u32, sentinels: u32) -> Self {
        Self { arch: Arch::Failover { sentinels }, members, ..Self::default() }
    }

    /// How many pods that makes: of servers and of Sentinels.
    pub fn pods(&self) -> usize {
        (self.arch.data_sets() * self.members + self.arch.sentinels()) as usize
    }

    /// The manifest: on the cluster's address family.
    ///
    /// # Errors
    /// The cluster doesn't say which one that is.
    pub fn manifest(&self, name: &str) -> Result<Value> {
        let mut spec = json!({
            "version": self.version,
            "arch": self.arch.name(),
            "replicas": {"replicasOfShard": self.members},
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "192Mi"}},
        });
        match self.arch {
            Arch::Replica => {}
            Arch::Failover { sentinels } => {
                spec["sentinel"] = json!({
                    "replicas": sentinels,
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
                    // The least that is served: tests wait for it.
                    "monitorConfig": {"down-after-milliseconds": "3000", "failover-timeout": "30000", "parallel-syncs": "1"},
                });
            }
            Arch::Cluster { shards } => spec["replicas"]["shards"] = json!(shards),
        }
        if self.claims {
            spec["storage"] = json!({"capacity": "1Gi", "retainAfterDeleted": self.retain});
        }
        if self.apart {
            spec["affinityPolicy"] = json!("AntiAffinityInShard");
        }
        let mut metadata = json!({"name": name, "annotations": self.annotations});
        if self.finalizers.as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
            metadata["finalizers"] = self.finalizers.clone();
        }
        on_its_family(json!({"apiVersion": "rds.valkey.buf.red/v1alpha1", "kind": "Valkey", "metadata": metadata, "spec": spec}))
    }
}

/// A manifest of a `Valkey` or `Sentinel`, asking for the address family that the cluster under test has.
///
/// # Errors
/// The cluster doesn't say which one that is.
pub fn on_its_family(mut manifest: Value) -> Result<Value> {
    if kubectl::is_ipv6()? {
        manifest["spec"]["access"]["ipFamilyPrefer"] = "IPv6".into();
    }
    Ok(manifest)
}
