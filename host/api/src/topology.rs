//! What the topology objects have in common. Nothing in them has a default: what the operator applies is what the API server
//! stores.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster::ClusterSpec;
use crate::failover::FailoverSpec;

/// Spec of the topology object that a Valkey becomes.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "there is one of them at a time, for the moment of a translation")]
pub enum TopologySpec {
    /// Of the cluster architecture.
    Cluster(ClusterSpec),
    /// Of the failover and the replica architecture.
    Failover(FailoverSpec),
}

impl TopologySpec {
    /// The topology object's kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Cluster(_) => "Cluster",
            Self::Failover(_) => "Failover",
        }
    }

    /// The spec of a stored topology object of that kind; `None` if it has another form, which says nothing about the instance.
    pub fn read(kind: &str, spec: &Value) -> Option<Self> {
        match kind {
            "Cluster" => serde_json::from_value(spec.clone()).ok().map(Self::Cluster),
            "Failover" => serde_json::from_value(spec.clone()).ok().map(Self::Failover),
            _ => None,
        }
    }
}

/// A volume for each member.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TopologyStorage {
    /// Storage class; absent: the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Size.
    pub capacity: Quantity,
    /// Access mode.
    #[schemars(length(max = 32))]
    pub access_mode: String,
    /// Whether claims stay when members are removed or the instance is deleted; absent: they stay, unless `delete-pvc` asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain_after_deleted: Option<bool>,
}

/// How clients reach the instance.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TopologyAccess {
    /// Type of the Services.
    #[schemars(length(max = 16))]
    pub service_type: String,
    /// `IPv4` or `IPv6`.
    #[schemars(length(max = 8))]
    pub ip_family_prefer: String,
    /// Whether the `default` user needs no password.
    pub open_default_user: bool,
}
