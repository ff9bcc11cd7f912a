//! Paths of collections. The operator's kinds are a closed list, so no discovery is needed.

use vko_core::object::Kind;

/// Path of a kind's collection, of one namespace or of all of them.
pub(crate) fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let version = kind.api_version();
    let root = if version.contains('/') { "apis" } else { "api" };
    match namespace {
        Some(namespace) if kind.namespaced() => format!("/{root}/{version}/namespaces/{namespace}/{}", kind.plural()),
        _ => format!("/{root}/{version}/{}", kind.plural()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_by_table() {
        for (kind, namespace, expected) in [
            (Kind::Pod, Some("a"), "/api/v1/namespaces/a/pods"),
            (Kind::Pod, None, "/api/v1/pods"),
            (Kind::Node, Some(""), "/api/v1/nodes"),
            (Kind::PersistentVolume, Some(""), "/api/v1/persistentvolumes"),
            (Kind::StatefulSet, Some("a"), "/apis/apps/v1/namespaces/a/statefulsets"),
            (Kind::Valkey, None, "/apis/rds.valkey.buf.red/v1alpha1/valkeys"),
            (Kind::Lease, Some("ops"), "/apis/coordination.k8s.io/v1/namespaces/ops/leases"),
        ] {
            assert_eq!(collection(kind, namespace), expected);
        }
    }
}
