//! Cluster: the topology object of the cluster architecture. Generated from a Valkey, everything resolved; edits are reverted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, PodSecurityContext, ResourceRequirements, Toleration};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::status::ClusterStatus;
use crate::topology::{TopologyAccess, TopologyStorage};
use crate::valkey::ShardConfig;

/// The resolved state that the servers are brought to.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "valkey.buf.red",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    shortname = "vkc",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    doc = "Generated from a Valkey; edit that one instead.",
    printcolumn(name = "Shards", type_ = "integer", json_path = ".spec.replicas.shards"),
    printcolumn(name = "Service Status", type_ = "string", json_path = ".status.clusterStatus"),
    printcolumn(name = "Access", type_ = "string", json_path = ".spec.access.serviceType"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Image of the servers.
    #[schemars(length(max = 1024))]
    pub image: String,
    /// Pull policy; absent: Kubernetes' own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub image_pull_policy: Option<String>,
    /// Secrets for pulling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Server line.
    #[schemars(length(max = 16))]
    pub version: String,
    /// Shards, members and slots.
    pub replicas: ClusterReplicas,
    /// CPU and memory of each server.
    pub resources: ResourceRequirements,
    /// A volume for each member; absent: data lives as long as its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<TopologyStorage>,
    /// How clients reach the instance.
    pub access: TopologyAccess,
    /// Annotations for the pods.
    #[serde(default, rename = "annotations", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub pod_annotations: BTreeMap<String, String>,
    /// How members spread over nodes: `SoftAntiAffinity`, `AntiAffinityInShard`, `AntiAffinity` or `CustomAffinity`. What the
    /// pods get differs from shard to shard.
    #[schemars(length(max = 32))]
    pub affinity_policy: String,
    /// Affinity of the pods, with `affinityPolicy: CustomAffinity` only.
    #[serde(default, rename = "CustomAffinity", skip_serializing_if = "Option::is_none")]
    pub custom_affinity: Option<Affinity>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// Labels that nodes must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::node_selector")]
    pub node_selector: BTreeMap<String, String>,
    /// What the Valkey says of the pods' security context; the operator adds the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,
}

/// Shards, members and slots.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReplicas {
    /// Number of shards.
    pub shards: i32,
    /// Members of each shard, the primary included.
    pub replicas_of_shard: i32,
    /// Slots of each shard, in their order; empty: they are spread evenly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub shards_config: Vec<ShardConfig>,
}
