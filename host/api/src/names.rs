//! Names, labels, annotations and finalizers. Users' manifests, dashboards and scripts rely on them: those of the operator that people
//! have today stay as they are, ours are added.

/// `app.kubernetes.io/managed-by`: on everything we make; the watches select by it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`], field manager, event source.
pub const OPERATOR: &str = "valkey-operator";
/// `cluster` or `failover` (the replica architecture counts as failover here).
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// `valkey`.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// `failover`, `cluster`, `sentinel`.
pub const TYPE: &str = "buf.red/type";
/// The instance's name.
pub const INSTANCE: &str = "buf.red/name";
/// UID of the Valkey that a topology object and its children belong to: they are adopted by it.
pub const VALKEY_UID: &str = "valkey.buf.red/valkey-uid";
/// `master`, `replica` or empty; the read-write Service selects `master`.
pub const ROLE: &str = "valkey.buf.red/role";
/// `true` on pods that the read-only Service selects (one member: the primary itself).
pub const READER: &str = "valkey.buf.red/reader";
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
/// On a topology object: image and pull settings as they were when its version was authorised, as JSON. A change of the operator's
/// configuration alone changes no instance.
pub const IMAGE: &str = "valkey.buf.red/image";
/// On a pod: patched so that the kubelet refreshes its mounts at once.
pub const REFRESHED: &str = "valkey.buf.red/refreshed";
/// On the Valkey: repeats the token that a condition shows, to allow what would lose data.
pub const CONSENT: &str = "valkey.buf.red/consent";
/// On a Valkey: version of a policy that shall govern it, whatever is newer.
pub const PIN: &str = "valkey.buf.red/policy-version";
/// On a ConfigMap in the operator's namespace: it holds a policy.
pub const POLICY: &str = "valkey.buf.red/policy";
/// Restart stamp in `podAnnotations`.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// Finalizer of topology objects.
pub const FINALIZER: &str = "buf.red/resource-clean";
/// Finalizer of generated Secrets, while the instance lives.
pub const SECRET_FINALIZER: &str = "buf.red/secret-in-use";
/// Finalizer that people set on a Valkey: delete its claims with it.
pub const DELETE_PVC: &str = "delete-pvc";

/// Name of the claim template; claims are `valkey-data-<pod>`.
pub const CLAIM_TEMPLATE: &str = "valkey-data";
/// Name of the server's container.
pub const CONTAINER: &str = "valkey";
/// Port of servers.
pub const PORT: u16 = 6379;

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
/// Secret with the `user` lines (hashes only) that pods mount.
pub fn accounts_secret(instance: &str) -> String {
    format!("rfr-acl-{instance}")
}
/// Secret with an account's password (keys `username`, `password`).
pub fn account_secret(instance: &str, account: &str) -> String {
    format!("failover-acl-{instance}-{account}-secret")
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
    /// Clients that name no user.
    pub const DEFAULT: &str = "default";
    /// All of them, in the order in which they are made.
    pub const ALL: [&str; 5] = [OPERATOR, REPLICATION, HOOK, PROBE, DEFAULT];
}
