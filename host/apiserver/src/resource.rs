//! What is served: Kubernetes' own kinds by a table, custom ones by their definitions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind of objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// API group; empty for the core.
    pub group: String,
    /// Version; one is served.
    pub version: String,
    /// `kind`.
    pub kind: String,
    /// As in paths.
    pub plural: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether status is a part of its own.
    pub status: bool,
    /// Whether changes of the spec are counted.
    pub generation: bool,
    /// OpenAPI schema, of custom kinds.
    pub schema: Option<Value>,
}

/// A row of the table: group, version, kind, plural, namespaced, status, generation.
type Row = (&'static str, &'static str, &'static str, &'static str, bool, bool, bool);

const TABLE: [Row; 15] = [
    ("", "v1", "Namespace", "namespaces", false, true, false),
    ("", "v1", "Node", "nodes", false, true, false),
    ("", "v1", "Pod", "pods", true, true, false),
    ("", "v1", "Service", "services", true, true, false),
    ("", "v1", "ConfigMap", "configmaps", true, false, false),
    ("", "v1", "Secret", "secrets", true, false, false),
    ("", "v1", "ServiceAccount", "serviceaccounts", true, false, false),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, true, false),
    ("", "v1", "PersistentVolume", "persistentvolumes", false, true, false),
    ("apps", "v1", "StatefulSet", "statefulsets", true, true, true),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, true, true),
    ("coordination.k8s.io", "v1", "Lease", "leases", true, false, false),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true, false, true),
    ("events.k8s.io", "v1", "Event", "events", true, false, false),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false, true, true),
];

impl Resource {
    /// Kubernetes' own.
    pub(crate) fn built_in() -> Vec<Self> {
        let resource = |(group, version, kind, plural, namespaced, status, generation): Row| Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced,
            status,
            generation,
            schema: None,
        };
        TABLE.into_iter().map(resource).collect()
    }

    /// Id of the kind that defines others.
    pub const fn definitions() -> &'static str {
        "customresourcedefinitions.apiextensions.k8s.io"
    }

    /// What a CustomResourceDefinition serves: its storage version. `None` if it isn't one.
    pub fn defined_by(definition: &Value) -> Option<Self> {
        let spec = definition.get("spec")?;
        let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let version = spec.get("versions")?.as_array()?.iter().find(|version| version["storage"] == true)?;
        Some(Self {
            group: text("/group")?,
            version: version["name"].as_str()?.to_owned(),
            kind: text("/names/kind")?,
            plural: text("/names/plural")?,
            namespaced: text("/scope")? == "Namespaced",
            status: version.pointer("/subresources/status").is_some(),
            generation: true,
            schema: version.pointer("/schema/openAPIV3Schema").cloned(),
        })
    }

    /// As written in `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods`, `statefulsets.apps`: names the kind in keys and messages.
    pub fn id(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether it was defined by its users.
    pub fn is_custom(&self) -> bool {
        self.schema.is_some()
    }
}

/// Names an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// [`Resource::id`].
    pub resource: String,
    /// Empty where there are none.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// Names an object.
    pub fn new(resource: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}
