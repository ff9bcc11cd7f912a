//! Status of the custom resources: for writing. Whoever reads an object takes `spec` and the parts of `status` that it needs by
//! JSON pointer, so that a word that another version wrote never makes an object unreadable.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// What an instance is doing, in one word.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Being made, or getting back to what it should be.
    Initializing,
    /// Members or slots are moving.
    Rebalancing,
    /// As declared.
    Ready,
    /// Waits for a person; `message` says for what.
    Failed,
    /// Stopped by a person.
    Paused,
}

/// The same for a topology object, in the words that topology objects have always had.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyPhase {
    /// Being made, or getting back to what it should be.
    Creating,
    /// Slots are moving; of a Cluster.
    Rebalancing,
    /// As declared.
    Ready,
    /// Waits for a person; `message` says for what.
    Failed,
    /// Stopped by a person.
    Paused,
}

impl From<Phase> for TopologyPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Initializing => Self::Creating,
            Phase::Rebalancing => Self::Rebalancing,
            Phase::Ready => Self::Ready,
            Phase::Failed => Self::Failed,
            Phase::Paused => Self::Paused,
        }
    }
}

/// One server.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyNode {
    /// Node id; only in the cluster architecture.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Shard; only in the cluster architecture.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shard_id: String,
    /// Role as the server itself says: `master`, `replica`, `Sentinel`, or `none` while it has none or is not known.
    pub role: String,
    /// Address.
    pub ip: String,
    /// Port, as text.
    pub port: String,
    /// Slots; only in the cluster architecture.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slots: String,
    /// The primary that it follows: the name of its pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub master_ref: String,
    /// StatefulSet.
    pub stateful_set: String,
    /// Pod.
    pub pod_name: String,
    /// Name of the Kubernetes node; empty while the pod has none.
    pub node_name: String,
}

/// The policy that governed the last plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyStatus {
    /// Name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Lower-case SHA-256 of the component; `native` for one that is compiled in.
    pub digest: String,
    /// The interface that it was built for, with its version.
    pub interface: String,
}

/// What is, as against what should be.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyStatus {
    /// What the instance is doing, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The same in a sentence; if something is in the way, what, and what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ValkeyNode>,
    /// Labels that select the instance's pods and claims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Shards when last seen complete: 1 where there is one data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_shard_count: Option<i32>,
    /// Newest server line that every member has finished.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_version: String,
    /// The policy that governed the last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyStatus>,
}

/// What is, as against what should be, and the host's memory.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// What the instance is doing, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TopologyPhase>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ValkeyNode>,
    /// Whether every slot is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_status: Option<ServiceStatus>,
    /// Shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardStatus>,
    /// The policy that governed the last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyStatus>,
    /// The operator's memory of the instance. Not for people to edit: without it nothing that could lose data is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub ledger: Option<Value>,
}

/// Whether a cluster serves every slot.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceStatus {
    /// Every slot is served.
    InService,
    /// Some slot is not served.
    OutOfService,
}

/// A shard.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ShardStatus {
    /// Index, as in the name of its StatefulSet.
    pub index: i32,
    /// Slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotsStatus>,
}

/// Slots of a shard.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotsStatus {
    /// Slots and ranges of slots.
    pub slots: String,
    /// `SlotAssigned`, `SlotImporting`, `SlotMigrating` or `SlotUnassigned`.
    pub status: String,
}

/// What is, as against what should be, and the host's memory.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FailoverStatus {
    /// What the instance is doing, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TopologyPhase>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ValkeyNode>,
    /// Who decides which server is the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<MonitorStatus>,
    /// The policy that governed the last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyStatus>,
    /// The operator's memory of the instance. Not for people to edit: without it nothing that could lose data is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub ledger: Option<Value>,
}

/// Who decides which server is the primary.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorStatus {
    /// `sentinel`, or `manual` where the operator does.
    pub policy: String,
    /// Name under which Sentinels watch the data set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Sentinels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<MonitorNode>,
}

/// Address of a Sentinel.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorNode {
    /// IP address.
    pub ip: String,
    /// Port.
    pub port: i32,
}

/// What is, as against what should be, and the host's memory.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SentinelStatus {
    /// What the instance is doing, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TopologyPhase>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ValkeyNode>,
    /// The policy that governed the last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyStatus>,
    /// The operator's memory of the instance. Not for people to edit: without it nothing that could lose data is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub ledger: Option<Value>,
}

/// What became of an account.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct UserStatus {
    /// `Ready`, `Pending` or `Fail`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
