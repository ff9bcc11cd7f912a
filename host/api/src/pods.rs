//! What a Valkey and a Sentinel say of their pods, under the same names.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSecurityContext, ResourceRequirements, Toleration};

use crate::sentinel::SentinelSpec;
use crate::valkey::ValkeySpec;

/// A spec that pods are made from.
pub(crate) trait Pods: serde::Serialize + 'static {
    fn resources(&self) -> Option<&ResourceRequirements>;
    fn pod_annotations(&self) -> &BTreeMap<String, String>;
    fn node_selector(&self) -> &BTreeMap<String, String>;
    fn tolerations(&self) -> &[Toleration];
    fn security_context(&self) -> Option<&PodSecurityContext>;
}

impl Pods for ValkeySpec {
    fn resources(&self) -> Option<&ResourceRequirements> {
        Some(&self.resources)
    }
    fn pod_annotations(&self) -> &BTreeMap<String, String> {
        &self.pod_annotations
    }
    fn node_selector(&self) -> &BTreeMap<String, String> {
        &self.node_selector
    }
    fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }
    fn security_context(&self) -> Option<&PodSecurityContext> {
        self.security_context.as_ref()
    }
}

impl Pods for SentinelSpec {
    fn resources(&self) -> Option<&ResourceRequirements> {
        self.resources.as_ref()
    }
    fn pod_annotations(&self) -> &BTreeMap<String, String> {
        &self.pod_annotations
    }
    fn node_selector(&self) -> &BTreeMap<String, String> {
        &self.node_selector
    }
    fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }
    fn security_context(&self) -> Option<&PodSecurityContext> {
        self.security_context.as_ref()
    }
}
