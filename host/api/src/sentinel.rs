//! Sentinel: Sentinels as an object. Beside a Failover it is made by the operator, resolved, and edits are reverted. One that no
//! controller owns is written by people: its Sentinels stand alone, and instances share them by `sentinelReference`.
//!
//! The same fields are `spec.sentinel` of a Valkey (as people write them) and of a Failover (resolved).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, PodSecurityContext, ResourceRequirements, Toleration};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;
use crate::status::SentinelStatus;
use crate::valkey::Exporter;

/// Sentinels: how many, where and how they run.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "valkey.buf.red",
    version = "v1alpha1",
    kind = "Sentinel",
    plural = "sentinels",
    shortname = "vks",
    namespaced,
    status = "SentinelStatus",
    derive = "PartialEq",
    doc = "Sentinels that stand alone, to be shared by sentinelReference; or, owned by a Failover, those of its instance (generated: edit the Valkey instead).",
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Access", type_ = "string", json_path = ".spec.access.serviceType"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SentinelSpec {
    /// Server line: 7.2, 8.1 or 9.1; default 9.1. Of Sentinels that stand alone: those of a Valkey have its line. Can't be
    /// changed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub version: Option<String>,
    /// Image, of Sentinels that stand alone, together with `version`, because accounts and directives differ from line to line.
    /// Absent: the operator's configuration has one for each line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
    /// Pull policy (Always, IfNotPresent, Never), of Sentinels that stand alone. Absent: as the operator's configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub image_pull_policy: Option<String>,
    /// Secrets for pulling, of Sentinels that stand alone. Absent: as the operator's configuration says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How many: 3, 5, 7 or 9; default 3, the least that outlives one. Odd, because an even number outlives no more than one less
    /// does. Can't be changed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// CPU and memory of each Sentinel. Default: requests of 50m and 64Mi, a limit of 128Mi, which is several times what one that
    /// watches some tens of data sets needs. Can't be changed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// How clients reach the Sentinels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<SentinelAccess>,
    /// Affinity of the pods. Absent: different nodes, if possible or at all, as the instance's `affinityPolicy` says; if possible
    /// where Sentinels stand alone. Can't be changed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that the pods tolerate. Absent: as the instance's. Can't be changed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// Labels that nodes must have. Absent: as the instance's. Can't be changed yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::node_selector")]
    pub node_selector: BTreeMap<String, String>,
    /// Pod security context, read like the instance's. Absent: as the instance's. Can't be changed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,
    /// Annotations for the pods. Absent: as the instance's. Can't be changed yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub pod_annotations: BTreeMap<String, String>,
    /// Sentinel directives. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text_map")]
    pub custom_configs: Option<Value>,
    /// Metrics exporter beside each Sentinel. Not supported yet: leave it out, or `disable: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::exporter")]
    pub exporter: Option<Exporter>,
}

/// How clients reach the Sentinels.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SentinelAccess {
    /// Type of the Services: `ClusterIP`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub service_type: Option<String>,
    /// `IPv4` or `IPv6`. Absent: as the instance's; IPv4 where Sentinels stand alone. Can't be changed after creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub ip_family_prefer: Option<String>,
    /// Secret of the namespace whose key `password` clients that name no user log in with. Absent: they need none, and may read
    /// and subscribe. Can't be changed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub default_password_secret: Option<String>,
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
    /// Kind of the issuer. Not supported yet; `ClusterIssuer` is let through, as for the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cert_issuer_type: Option<String>,
    /// Secret with a certificate. Not supported yet.
    #[serde(default, rename = "externalTLSSecret", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub external_tls_secret: Option<String>,
}

/// The Sentinels of an instance and what they are told about it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SentinelSettings {
    /// The instance's own Sentinels.
    #[serde(flatten)]
    pub own: SentinelSpec,
    /// Sentinels that exist already, in place of own ones. They watch the instance as `NAMESPACE.NAME`; own ones as `mymaster`.
    /// Can't be added, removed or changed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel_reference: Option<SentinelReference>,
    /// How they judge: `down-after-milliseconds` (3000 or more; default 5000: a pause of the server, while it forks say, is no
    /// death), `failover-timeout` (milliseconds; default 60000: twice as long passes before another attempt), `parallel-syncs`
    /// (replicas that change over at the same time; default 1, so that the others go on serving reads). Changes are applied live.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::monitor_config")]
    pub monitor_config: BTreeMap<String, String>,
    /// How many Sentinels must hold the primary for dead before a failover: 1 to their number; default: the majority. (A majority
    /// must agree on who carries it out in any case.) Changes are applied live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<i32>,
}

/// Sentinels that exist already.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SentinelReference {
    /// Their addresses: 3 to 9.
    #[schemars(length(max = 9))]
    pub nodes: Vec<SentinelNode>,
    /// How to log in to them. Absent: without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<SentinelAuth>,
}

/// A Sentinel that exists already.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SentinelNode {
    /// IP address.
    #[schemars(length(max = 45))]
    pub ip: String,
    /// Port.
    pub port: i32,
    /// Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub flags: Option<String>,
}

/// How to log in to Sentinels that exist already.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SentinelAuth {
    /// User; absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub username: Option<String>,
    /// Secret of the namespace whose key `password` is theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub password_secret: Option<String>,
    /// Secret with certificates. Not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub tls_secret: Option<String>,
}
