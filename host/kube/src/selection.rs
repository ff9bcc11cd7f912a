//! What is watched: each selection is one watch.

use vko_api::names;
use vko_core::object::{Kind, Object};

use crate::Options;

/// Objects of a kind, of one namespace or all, with a label or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Kind.
    pub kind: Kind,
    /// `None`: all namespaces, or a cluster-scoped kind.
    pub namespace: Option<String>,
    /// Label key, and its value unless any will do.
    pub label: Option<(&'static str, Option<&'static str>)>,
}

impl Selection {
    /// The label selector as the API takes it.
    pub fn label_selector(&self) -> Option<String> {
        self.label.map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.to_owned(),
        })
    }

    /// Whether the watch would bring this object.
    pub fn matches(&self, kind: Kind, object: &Object) -> bool {
        let labels = || object.0.pointer("/metadata/labels");
        let label = |key: &str| labels().and_then(|labels| labels.get(key)).and_then(|value| value.as_str());
        self.kind == kind
            && self.namespace.as_ref().is_none_or(|namespace| namespace == object.namespace())
            && self.label.is_none_or(|(key, value)| label(key).is_some_and(|found| value.is_none_or(|value| value == found)))
    }
}

/// All watches of an operator. Leases are not among them: the election reads its one Lease itself.
pub fn selections(options: &Options) -> Vec<Selection> {
    let ours =
        |kind| Selection { kind, namespace: options.namespace.clone(), label: Some((names::MANAGED_BY, Some(names::OPERATOR))) };
    let every = |kind| Selection { kind, namespace: options.namespace.clone(), label: None };
    let instances = Kind::INSTANCES.map(every);
    let rest = [
        ours(Kind::StatefulSet),
        ours(Kind::Service),
        ours(Kind::ConfigMap),
        ours(Kind::Secret),
        ours(Kind::Pod),
        ours(Kind::PersistentVolumeClaim),
        ours(Kind::PodDisruptionBudget),
        Selection { kind: Kind::Node, namespace: None, label: None },
        // Policies: in the operator's own namespace only, whoever made them.
        Selection {
            kind: Kind::ConfigMap,
            namespace: Some(options.operator_namespace.clone()),
            label: Some((names::POLICY, None)),
        },
    ];
    instances.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(namespace: &str, labels: serde_json::Value) -> Object {
        Object::new(json!({"metadata": {"namespace": namespace, "name": "x", "labels": labels}}))
    }

    #[test]
    fn matches_by_table() {
        let ours = Selection {
            kind: Kind::Secret,
            namespace: Some("a".to_owned()),
            label: Some((names::MANAGED_BY, Some(names::OPERATOR))),
        };
        let policy = Selection { label: Some((names::POLICY, None)), namespace: None, ..ours.clone() };
        let managed = json!({ names::MANAGED_BY: names::OPERATOR });
        for (name, selection, kind, object, expected) in [
            ("ours", &ours, Kind::Secret, object("a", managed.clone()), true),
            ("another kind", &ours, Kind::Pod, object("a", managed.clone()), false),
            ("another namespace", &ours, Kind::Secret, object("b", managed.clone()), false),
            ("somebody else's", &ours, Kind::Secret, object("a", json!({ names::MANAGED_BY: "helm" })), false),
            ("no labels", &ours, Kind::Secret, object("a", json!(null)), false),
            ("a key with any value", &policy, Kind::Secret, object("b", json!({ names::POLICY: "" })), true),
            ("a key that isn't there", &policy, Kind::Secret, object("b", managed), false),
        ] {
            assert_eq!(selection.matches(kind, &object), expected, "{name}");
        }
    }
}
