//! Failover: the topology object of the failover and replica architectures. Generated from a Valkey, everything resolved; edits
//! are reverted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, PodSecurityContext, ResourceRequirements, Toleration};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::sentinel::SentinelSettings;
use crate::status::FailoverStatus;
use crate::topology::{TopologyAccess, TopologyStorage};

/// The resolved state that the servers are brought to. With `sentinel` it is the failover architecture, without it the replica
/// architecture.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "valkey.buf.red",
    version = "v1alpha1",
    kind = "Failover",
    plural = "failovers",
    shortname = "vkf",
    namespaced,
    status = "FailoverStatus",
    derive = "PartialEq",
    doc = "Generated from a Valkey; edit that one instead.",
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Sentinels", type_ = "integer", json_path = ".spec.sentinel.replicas"),
    printcolumn(name = "Access", type_ = "string", json_path = ".spec.access.serviceType"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct FailoverSpec {
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
    /// Members, the primary included.
    pub replicas: i32,
    /// CPU and memory of each server.
    pub resources: ResourceRequirements,
    /// A volume for each member; absent: data lives as long as its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<TopologyStorage>,
    /// How clients reach the instance.
    pub access: TopologyAccess,
    /// Annotations for the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub pod_annotations: BTreeMap<String, String>,
    /// Affinity of the pods, as they get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
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
    /// The Sentinels that decide who is the primary, own or referenced ones; absent: the operator does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<SentinelSettings>,
}
