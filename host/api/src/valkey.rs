//! Valkey: the desired state of an instance, written by people.
//!
//! Field names are those of the operator that people have today. A field that is not served yet stays in the schema and is
//! refused (see [`rules`](crate::rules)): pruned silently, `enableTLS: true` would be served in plaintext.
//!
//! Texts are plain strings, not schema enums: a schema error hides the messages of all other rules, and a rule can say more.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, PodSecurityContext, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;
use crate::sentinel::SentinelSettings;
use crate::status::ValkeyStatus;

/// The desired state of an instance.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "rds.valkey.buf.red",
    version = "v1alpha1",
    kind = "Valkey",
    plural = "valkeys",
    shortname = "vk",
    namespaced,
    status = "ValkeyStatus",
    derive = "PartialEq",
    doc = "A Valkey instance: a cluster, or one data set with a primary and replicas.",
    printcolumn(name = "Arch", type_ = "string", json_path = ".spec.arch"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Access", type_ = "string", json_path = ".spec.access.serviceType"),
    printcolumn(name = "Storage Class", type_ = "string", json_path = ".spec.storage.storageClassName"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ValkeySpec {
    /// Server line: 7.2, 8.1 or 9.1. The image of a line comes from the operator's configuration. Can be changed in the
    /// architecture `replica`, where members are then replaced in turn; not below what all members have finished.
    #[schemars(length(max = 16))]
    pub version: String,
    /// Architecture: `cluster` (slots over several shards), `failover` (one data set, Sentinels promote), `replica` (one data
    /// set, the operator promotes). Can't be changed after creation.
    #[schemars(length(max = 16))]
    pub arch: String,
    /// How many servers.
    pub replicas: Replicas,
    /// CPU and memory of each server. `limits.memory` is required, because `maxmemory` is derived from it. Can be changed in the
    /// architecture `replica`.
    pub resources: ResourceRequirements,
    /// Persistent volumes, one per member. Absent: data lives as long as its pod. Can't be added or removed after creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// How clients reach the instance. Default: Services of type ClusterIP, IPv4, a protected `default` user.
    #[serde(default)]
    pub access: Access,
    /// Annotations for the pods. Can be changed in the architecture `replica`: another `kubectl.kubernetes.io/restartedAt`
    /// restarts all members in turn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub pod_annotations: BTreeMap<String, String>,
    /// How members spread over nodes: `SoftAntiAffinity` (different nodes if possible, those of one shard first),
    /// `AntiAffinityInShard` (the members of a shard on different nodes or not at all), `AntiAffinity` (all members of the
    /// instance on different nodes or not at all), `CustomAffinity` (as `customAffinity` says). Sentinels are spread among
    /// themselves likewise, unless `sentinel.affinity` says otherwise. Absent: SoftAntiAffinity, because a small Kubernetes
    /// cluster must be able to hold every member. Can be changed in the architecture `replica`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub affinity_policy: Option<String>,
    /// Affinity of the pods, with `affinityPolicy: CustomAffinity` only. Can be changed in the architecture `replica`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_affinity: Option<Affinity>,
    /// Labels that nodes must have. Can be changed in the architecture `replica`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::node_selector")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods tolerate. Can be changed in the architecture `replica`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// Pod security context: `runAsUser`, `fsGroup` and `supplementalGroups`. The rest is set by the operator, so that pods fit
    /// the restricted Pod Security Standard. Can be changed in the architecture `replica`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,
    /// Metrics exporter beside each server. Not supported yet: leave it out, or `disable: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::exporter")]
    pub exporter: Option<Exporter>,
    /// Server directives. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text_map")]
    pub custom_configs: Option<Value>,
    /// Server modules. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::list_of_anything")]
    pub modules: Option<Value>,
    /// Sentinels, in the failover architecture only. Absent there: three Sentinels of the instance's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<SentinelSettings>,
}

/// How many servers.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    /// Number of shards: 3 to 128 in the cluster architecture, where it can't be changed yet; else 1 or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<i32>,
    /// Members in total of each shard, or of the data set, the primary included: 1 to 5. Can be changed at any time, but in the
    /// cluster architecture, where it can't yet.
    pub replicas_of_shard: i32,
    /// Own slot ranges, in the cluster architecture only: one item for each shard, all 16384 slots, none twice. Empty: they are
    /// spread evenly. Can't be changed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub shards_config: Vec<ShardConfig>,
}

/// Slots of a shard.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ShardConfig {
    /// Slots and ranges of slots, 0 to 16383, ends included: `0-5460` or `0-99,200,300-399`.
    #[schemars(length(max = 512))]
    pub slots: String,
}

/// A persistent volume for each member.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Storage class. Absent: the default class of the Kubernetes cluster. Can't be changed after creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Size of each volume. Absent: twice the memory limit, so that a rewritten append-only file fits beside the one that it
    /// replaces. Can't shrink; can't grow yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// Access mode: `ReadWriteOnce`, because a volume belongs to one server.
    #[serde(default = "read_write_once")]
    #[schemars(length(max = 32))]
    pub access_mode: String,
    /// Whether claims (and the data) stay when members are removed or the instance is deleted. `true`: always. `false`: a claim
    /// goes with its instance, or when its member is removed for good, once a synced copy of the data lives elsewhere. Absent:
    /// claims stay, unless the Valkey carries the finalizer `delete-pvc` when it is deleted. Nobody loses data by leaving a line
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain_after_deleted: Option<bool>,
    /// Annotations of the claims. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text_map")]
    pub annotations: Option<Value>,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            storage_class_name: None,
            capacity: None,
            access_mode: read_write_once(),
            retain_after_deleted: None,
            annotations: None,
        }
    }
}

fn read_write_once() -> String {
    "ReadWriteOnce".into()
}

/// How clients reach the instance.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// Type of the Services: `ClusterIP`.
    #[serde(default = "cluster_ip")]
    #[schemars(length(max = 16))]
    pub service_type: String,
    /// `IPv4` or `IPv6`: the one family that servers listen on and Services have. Absent: IPv4. Can't be changed after creation,
    /// because Services keep their family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub ip_family_prefer: Option<String>,
    /// Whether the `default` user needs no password. Default false: its password is generated, in a Secret.
    #[serde(default)]
    pub open_default_user: bool,
    /// Annotations of the Services. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text_map")]
    pub annotations: Option<Value>,
    /// Fixed node ports. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub ports: Option<String>,
    /// TLS. Not supported yet: leave it out, or false.
    #[serde(default, rename = "enableTLS", skip_serializing_if = "Option::is_none")]
    pub enable_tls: Option<bool>,
    /// Issuer of certificates. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub cert_issuer: Option<String>,
    /// Kind of the issuer. Not supported yet; `ClusterIssuer` is let through, since the operator that people have today wrote it
    /// into every object, and it says nothing without an issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cert_issuer_type: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            service_type: cluster_ip(),
            ip_family_prefer: None,
            open_default_user: false,
            annotations: None,
            ports: None,
            enable_tls: None,
            cert_issuer: None,
            cert_issuer_type: None,
        }
    }
}

fn cluster_ip() -> String {
    "ClusterIP".into()
}

/// Metrics exporter. Its other fields (image, resources ...) are in the schema and are not read while it can only be off.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Exporter {
    /// No exporter.
    #[serde(default)]
    pub disable: bool,
}
