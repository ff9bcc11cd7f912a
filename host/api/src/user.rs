//! User: an account on an instance, written by people. Not served yet: the schema is complete, and one rule refuses every object,
//! so that nobody takes an account that was accepted for one that works.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::status::UserStatus;

/// An account on an instance.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "valkey.buf.red",
    version = "v1alpha1",
    kind = "User",
    plural = "users",
    shortname = "vku",
    namespaced,
    status = "UserStatus",
    derive = "PartialEq",
    doc = "An account on an instance. Not supported yet.",
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.instanceName"),
    printcolumn(name = "username", type_ = "string", json_path = ".spec.username"),
    printcolumn(name = "phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// `custom`, or `system` for accounts of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub account_type: Option<String>,
    /// Architecture of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub arch: Option<String>,
    /// Name of the account.
    #[schemars(length(max = 128))]
    pub username: String,
    /// Secrets of the namespace whose key `password` is one of the account's passwords.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 253)))]
    pub password_secrets: Vec<String>,
    /// ACL rules, without passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8192))]
    pub acl_rules: Option<String>,
    /// The Valkey.
    #[schemars(length(max = 63))]
    pub instance_name: String,
}
