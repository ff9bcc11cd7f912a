//! Names, labels, annotations and finalizers. Users' manifests, dashboards and scripts rely on them: those of the operator that
//! people have today stay as they are, ours are added.

/// `app.kubernetes.io/managed-by`: on everything we make; the watches select by it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`], field manager, event source.
pub const OPERATOR: &str = "valkey-operator";
/// [`component`]'s names.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// `valkey`.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// What the servers behind it are: `failover`, `cluster` or `sentinel`.
pub const TYPE: &str = "buf.red/type";
/// Value of [`TYPE`] for Sentinels and what is theirs.
pub const TYPE_SENTINEL: &str = "sentinel";
/// On the pods and Services of a shard, and in their selectors: name of the shard's StatefulSet.
pub const STATEFUL_SET: &str = "statefulset";
/// The instance's name.
pub const INSTANCE: &str = "buf.red/name";
/// UID of the Valkey that a topology object and its children belong to: they are adopted by it.
pub const VALKEY_UID: &str = "valkey.buf.red/valkey-uid";
/// `master`, `replica` or empty; the read-write Service selects `master`.
pub const ROLE: &str = "valkey.buf.red/role";
/// `true` on pods that the read-only Service selects (one member: the primary itself).
pub const READER: &str = "valkey.buf.red/reader";
/// On nodes: the name by which volumes that are their disks name them.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// On claims: the node that the volume was made for, as the scheduler writes it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Value of [`ROLE`] for the writer.
pub const ROLE_PRIMARY: &str = "master";
/// Value of [`ROLE`] for replicas.
pub const ROLE_REPLICA: &str = "replica";
/// On a StatefulSet and its pods: hash of what the instance's spec says about the pod template.
pub const SPEC_HASH: &str = "valkey.buf.red/spec-hash";
/// On a StatefulSet and its pods: version of the operator that rendered the template.
pub const SOFTWARE: &str = "valkey.buf.red/software";
/// On a StatefulSet: the pod template as it was authorised, as JSON. It stays in force until the instance's spec changes.
pub const TEMPLATE: &str = "valkey.buf.red/template";
/// On a topology object: image and pull settings as they were when its version was authorised, as JSON. A change of the
/// operator's configuration alone changes no instance.
pub const IMAGE: &str = "valkey.buf.red/image";
/// On a pod: patched so that the kubelet refreshes its mounts at once.
pub const REFRESHED: &str = "valkey.buf.red/refreshed";
/// On the Valkey: repeats the token that a condition shows, to allow what would lose data.
pub const CONSENT: &str = "valkey.buf.red/consent";
/// On a Valkey: version of a policy that shall govern it, whatever is newer.
pub const PIN: &str = "valkey.buf.red/policy-version";
/// On a ConfigMap in the operator's namespace: it holds a policy.
pub const POLICY: &str = "valkey.buf.red/policy";
/// Finalizer of topology objects.
pub const FINALIZER: &str = "buf.red/resource-clean";
/// Finalizer of generated Secrets, while the instance lives.
pub const SECRET_FINALIZER: &str = "buf.red/secret-in-use";
/// Finalizer that people set on a Valkey: delete its claims with it.
pub const DELETE_PVC: &str = "delete-pvc";

/// Name of the claim template; claims are `valkey-data-<pod>`.
pub const CLAIM_TEMPLATE: &str = "valkey-data";
/// Name of a data server's container.
pub const CONTAINER: &str = "valkey";
/// Name of a Sentinel's container.
pub const SENTINEL_CONTAINER: &str = "sentinel";
/// Port of servers.
pub const PORT: u16 = 6379;
/// Port of the cluster bus. It is set explicitly: a server that derives it can't be given another client port later.
pub const CLUSTER_PORT: u16 = 16379;
/// Port of Sentinels.
pub const SENTINEL_PORT: u16 = 26379;
/// Name by which an instance's own Sentinels know its data set.
pub const MONITOR: &str = "mymaster";

/// Values of [`COMPONENT`](super::COMPONENT); names of Secrets begin with them.
pub mod component {
    /// The cluster architecture.
    pub const CLUSTER: &str = "cluster";
    /// Failover and replica architecture, and Sentinels.
    pub const FAILOVER: &str = "failover";
}

/// Workload, its governing Service, its configuration and its budget (failover and replica architecture).
pub fn data_workload(instance: &str) -> String {
    format!("rfr-{instance}")
}
/// Read-write Service.
pub fn writer_service(instance: &str) -> String {
    format!("rfr-{instance}-readwrite")
}
/// Read-only Service.
pub fn reader_service(instance: &str) -> String {
    format!("rfr-{instance}-readonly")
}
/// Secret with the `user` lines (hashes only) that data pods mount (failover and replica architecture).
pub fn data_users(instance: &str) -> String {
    format!("rfr-acl-{instance}")
}

/// Workload of a shard, and its budget.
pub fn shard_workload(instance: &str, shard: u32) -> String {
    format!("drc-{instance}-{shard}")
}
/// Governing Service of a shard.
pub fn shard_service(instance: &str, shard: u32) -> String {
    format!("{instance}-{shard}")
}
/// Service of a whole cluster.
pub fn instance_service(instance: &str) -> String {
    instance.to_owned()
}
/// Configuration of a cluster's servers, one for all shards.
pub fn cluster_config(instance: &str) -> String {
    format!("valkey-cluster-{instance}")
}
/// Secret with the `user` lines that a cluster's pods mount.
pub fn cluster_users(instance: &str) -> String {
    format!("drc-acl-{instance}")
}

/// Workload of Sentinels, their governing Service, their configuration and their budget.
pub fn sentinel_workload(instance: &str) -> String {
    format!("rfs-{instance}")
}
/// Secret with the `user` lines that Sentinels' pods mount.
pub fn sentinel_users(instance: &str) -> String {
    format!("rfs-acl-{instance}")
}

/// Secret with an account's password (keys `username`, `password`). `component` is one of [`component`].
pub fn account_secret(component: &str, instance: &str, account: &str) -> String {
    format!("{component}-acl-{instance}-{account}-secret")
}
/// Name by which Sentinels that serve several instances know a data set.
pub fn shared_monitor(namespace: &str, instance: &str) -> String {
    format!("{namespace}.{instance}")
}
/// Claim of a member.
pub fn claim(workload: &str, ordinal: u32) -> String {
    format!("{CLAIM_TEMPLATE}-{workload}-{ordinal}")
}

/// The accounts that the operator makes, one per purpose.
pub mod account {
    /// Administers servers.
    pub const OPERATOR: &str = "operator";
    /// Replicas log in to their primary with it.
    pub const REPLICATION: &str = "replication";
    /// The preStop hook.
    pub const HOOK: &str = "hook";
    /// Kubelet probes.
    pub const PROBE: &str = "probe";
    /// Sentinels log in to data servers and to each other with it.
    pub const SENTINEL: &str = "sentinel";
    /// Clients that name no user.
    pub const DEFAULT: &str = "default";
    /// All of them, in the order in which they are made.
    pub const ALL: [&str; 6] = [OPERATOR, REPLICATION, HOOK, PROBE, SENTINEL, DEFAULT];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_people_know() {
        for (name, expected) in [
            (data_workload("x"), "rfr-x"),
            (writer_service("x"), "rfr-x-readwrite"),
            (reader_service("x"), "rfr-x-readonly"),
            (data_users("x"), "rfr-acl-x"),
            (shard_workload("x", 2), "drc-x-2"),
            (shard_service("x", 2), "x-2"),
            (instance_service("x"), "x"),
            (cluster_config("x"), "valkey-cluster-x"),
            (cluster_users("x"), "drc-acl-x"),
            (sentinel_workload("x"), "rfs-x"),
            (sentinel_users("x"), "rfs-acl-x"),
            (account_secret(component::CLUSTER, "x", account::OPERATOR), "cluster-acl-x-operator-secret"),
            (account_secret(component::FAILOVER, "x", account::OPERATOR), "failover-acl-x-operator-secret"),
            (claim(&shard_workload("x", 0), 1), "valkey-data-drc-x-0-1"),
            (shared_monitor("shop", "x"), "shop.x"),
        ] {
            assert_eq!(name, expected);
        }
    }
}
