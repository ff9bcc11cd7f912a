//! Renders what a policy wants into Kubernetes objects for server-side apply.
//!
//! # Guarantees
//! 1. A pure function: equal inputs give equal objects. No per-pod fact and no member count is in the pod template, so scaling
//!    restarts nobody.
//! 2. Labels, owners, images, mounts and security are the host's. A policy chooses names from a closed list, a member count and
//!    labels outside the host's domains; anything else is an error, never a guess.
//! 3. The pod template in force stays until the instance's spec changes or a roll-out is asked for ([`template`]): neither a new
//!    operator version nor an edit of the live object restarts a pod or slips into one that crashes.
//! 4. No object but a Secret holds anything derived from a password.
//!
//! # Assumptions
//! 1. The spec passed the validation of its kind; what is missing all the same is an error that names the field.
//! 2. The agent in [`crate::settings::Settings::agent_image`] speaks the command line of [`agent`].
//!
//! # Flow
//! 1. Each desired record is checked against the names that this instance may have.
//! 2. A workload brings its ConfigMap, the Secret with the `user` lines and its StatefulSet; services and budgets bring one each.
//! 3. Objects come out in the order in which they should be applied: what pods mount first, the StatefulSet last.

mod account;
mod agent;
mod metadata;
mod pod;
mod security;
mod service;
mod spec;
pub mod template;
#[cfg(test)]
pub(crate) mod testing;
mod volume;
mod workload;

use serde_json::Value;
use vko_wit::planning::{Desired, StartMode};

pub use account::account_secret;
pub use metadata::{labels, selector};
pub use spec::{is_ipv6, spec_hash};

use crate::object::Object;
use crate::settings::Settings;

/// The topology object as rendering sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Its namespace, and that of everything rendered.
    pub namespace: String,
    /// Its name, which is the instance's.
    pub name: String,
    /// Its UID: owner of everything rendered.
    pub uid: String,
    /// UID of the Valkey behind it: a label, by which a successor of the topology object adopts its children.
    pub valkey_uid: String,
    /// The Failover's spec after defaulting.
    pub spec: Value,
}

/// Texts that are rendered elsewhere, and how servers start. No `Debug`: the `user` lines hold hashes of passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Inputs<'a> {
    /// `valkey.conf` without anything secret and without what the agent adds at each start.
    pub conf: &'a str,
    /// The `user` lines, with hashes.
    pub users_acl: &'a str,
    /// How a data server starts, as it should be mounted now. It is the host's to choose when it follows the policy's wish: the
    /// newer mode is mounted before members are added.
    pub start: StartMode,
    /// Whether the instance is being deleted: the hooks then hand over to nobody, or the role would chain from pod to pod.
    pub ending: bool,
}

/// The live StatefulSet, and whether a person asked for the newest template.
#[derive(Debug, Clone, Copy, Default)]
pub struct Live<'a> {
    /// From the cache, or fresh; `None` if there is none.
    pub stateful_set: Option<&'a Object>,
    /// Take the template as this operator renders it, even if the spec did not change.
    pub roll_out: bool,
}

/// Why what a policy wants can't be rendered. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The topology object lacks a field that its validation promises.
    #[error("spec.{field} of the Failover is missing; set it in the Valkey and the operator writes it here")]
    SpecFieldMissing {
        /// Path below `spec`.
        field: &'static str,
    },
    /// The policy named an object as this instance has none.
    #[error("the policy wants a {kind} named {name:?}; in this instance it is {expected:?}")]
    DesiredNameUnknown {
        /// What it is.
        kind: &'static str,
        /// As the policy wrote it.
        name: String,
        /// As it must be.
        expected: String,
    },
    /// The policy wants a thing that this host does not render for this architecture.
    #[error("the policy wants {what}, which this operator does not render for a Failover without Sentinels")]
    DesiredUnsupported {
        /// What it wants.
        what: String,
    },
    /// The policy wants no member, or more than the interface of the product allows.
    #[error("the policy wants {members} members; a data set has 1 to {MEMBERS_MAX}")]
    MembersOutOfRange {
        /// As the policy wrote it.
        members: u32,
    },
    /// A budget that blocks every drain (0), or lets two members of a shard go at once.
    #[error("the policy wants a disruption budget of {max_unavailable}; one member at a time may go, so it is 1")]
    BudgetUnsafe {
        /// As the policy wrote it.
        max_unavailable: u32,
    },
    /// A label in a domain that belongs to the host or to Kubernetes.
    #[error("the policy wants the pod label {key:?}; labels of buf.red and kubernetes.io are the host's")]
    LabelReserved {
        /// As the policy wrote it.
        key: String,
    },
}

impl RenderError {
    /// The variant's name: metric label, event reason, condition reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SpecFieldMissing { .. } => "SpecFieldMissing",
            Self::DesiredNameUnknown { .. } => "DesiredNameUnknown",
            Self::DesiredUnsupported { .. } => "DesiredUnsupported",
            Self::MembersOutOfRange { .. } => "MembersOutOfRange",
            Self::BudgetUnsafe { .. } => "BudgetUnsafe",
            Self::LabelReserved { .. } => "LabelReserved",
        }
    }
}

/// Members of a data set: the bound of `replicasOfShard`.
pub const MEMBERS_MAX: u32 = 5;

/// Renders the desired records, in the order in which they should be applied. What is not desired is not rendered, and stays
/// as it is.
///
/// # Errors
/// The first record that can't be rendered; nothing is rendered then, because a policy that errs in one thing is not trusted with
/// the rest.
pub fn render(
    topology: &Topology,
    desired: &[Desired],
    inputs: &Inputs<'_>,
    settings: &Settings,
    live: Live<'_>,
) -> Result<Vec<Value>, RenderError> {
    let mut mounted = Vec::new();
    let mut services = Vec::new();
    let mut workloads = Vec::new();
    for record in desired {
        match record {
            Desired::Workload(wanted) => {
                workloads.push(workload::stateful_set(topology, wanted, settings, live)?);
                mounted.push(account::config_map(topology, inputs));
                mounted.push(account::users_secret(topology, inputs.users_acl));
            }
            Desired::Service(wanted) => services.push(service::service(topology, wanted)?),
            Desired::Budget(wanted) => services.push(service::budget(topology, wanted)?),
            Desired::Certificate(wanted) => return Err(unsupported(format!("the certificate {:?}", wanted.name))),
            Desired::Extension(wanted) => return Err(unsupported(format!("{} {:?}", wanted.kind, wanted.name))),
        }
    }
    mounted.extend(services);
    mounted.extend(workloads);
    Ok(mounted)
}

fn unsupported(what: String) -> RenderError {
    RenderError::DesiredUnsupported { what }
}

/// Refuses a name other than the one that this instance gives to the thing.
fn expect_name(kind: &'static str, name: &str, expected: String) -> Result<(), RenderError> {
    if name == expected { Ok(()) } else { Err(RenderError::DesiredNameUnknown { kind, name: name.to_owned(), expected }) }
}

#[cfg(test)]
mod tests {
    use super::testing::{desired, mk_inputs, mk_settings, mk_topology, render_all};
    use super::*;
    use vko_wit::common::Pair;
    use vko_wit::planning::{Budget, CertificateRequest, ExtensionObject, Purpose, Service, ServiceKind, Workload};

    #[test]
    fn what_pods_mount_comes_first_and_the_stateful_set_last() {
        let kinds: Vec<_> = render_all(&mk_topology(), 3).iter().map(|o| o["kind"].as_str().unwrap().to_owned()).collect();
        assert_eq!(kinds, ["ConfigMap", "Secret", "Service", "Service", "Service", "PodDisruptionBudget", "StatefulSet"]);
    }

    #[test]
    fn what_is_not_desired_is_not_rendered() {
        let objects = render(&mk_topology(), &[], &mk_inputs(), &mk_settings(), Live::default()).unwrap();
        assert_eq!(objects, Vec::<Value>::new());
    }

    #[test]
    fn everything_is_in_the_namespace_labelled_and_owned_by_the_topology_object() {
        let topology = mk_topology();
        for object in render_all(&topology, 3) {
            let object = Object::new(object);
            assert_eq!(object.namespace(), topology.namespace, "{}", object.name());
            assert_eq!(object.controller_uid(), topology.uid, "{}", object.name());
            for (key, value) in labels(&topology) {
                assert_eq!(object.label(&key), value, "{} {key}", object.name());
            }
        }
    }

    #[test]
    fn only_secrets_hold_what_is_derived_from_a_password() {
        let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let users_acl = format!("user probe on #{hash} -@all +ping\n");
        let inputs = Inputs { users_acl: &users_acl, ..mk_inputs() };
        let objects = render(&mk_topology(), &desired("demo", 3), &inputs, &mk_settings(), Live::default()).unwrap();
        let encoded = serde_json::json!(k8s_openapi::ByteString(users_acl.clone().into_bytes())).to_string();
        for object in objects {
            let text = object.to_string();
            assert_eq!(text.contains(&encoded), object["kind"] == "Secret", "{}", object["kind"]);
            assert!(!text.contains(hash), "{}", object["kind"]);
        }
    }

    fn mk_workload(change: impl FnOnce(&mut Workload)) -> Desired {
        let mut workload = Workload {
            name: "rfr-demo".into(),
            purpose: Purpose::Data,
            shard: 0,
            members: 3,
            start: StartMode::Named,
            settings: vec![],
            labels: vec![],
        };
        change(&mut workload);
        Desired::Workload(workload)
    }

    fn mk_service(name: &str, kind: ServiceKind, workload: &str) -> Desired {
        Desired::Service(Service { name: name.into(), kind, workload: workload.into() })
    }

    /// One thing that a policy must not ask for: a name for the case, the record, the refusal.
    type Refusal = (&'static str, Desired, &'static str);

    fn refusals() -> Vec<Refusal> {
        let label = |key: &str| vec![Pair { key: key.into(), value: "x".into() }];
        vec![
            ("another workload", mk_workload(|w| w.name = "rfr-other".into()), "DesiredNameUnknown"),
            ("sentinels", mk_workload(|w| w.purpose = Purpose::Sentinel), "DesiredUnsupported"),
            ("a second shard", mk_workload(|w| w.shard = 1), "DesiredUnsupported"),
            ("no members", mk_workload(|w| w.members = 0), "MembersOutOfRange"),
            ("six members", mk_workload(|w| w.members = 6), "MembersOutOfRange"),
            ("the role label", mk_workload(|w| w.labels = label("valkey.buf.red/role")), "LabelReserved"),
            ("the instance label", mk_workload(|w| w.labels = label("buf.red/name")), "LabelReserved"),
            ("a label of Kubernetes", mk_workload(|w| w.labels = label("app.kubernetes.io/name")), "LabelReserved"),
            ("the revision label", mk_workload(|w| w.labels = label("controller-revision-hash")), "LabelReserved"),
            ("another writer", mk_service("demo", ServiceKind::Writer, "rfr-demo"), "DesiredNameUnknown"),
            ("of another workload", mk_service("rfr-demo", ServiceKind::Governing, "rfr-x"), "DesiredNameUnknown"),
            ("a Service per pod", mk_service("rfr-demo-0", ServiceKind::Pod(0), "rfr-demo"), "DesiredUnsupported"),
            ("metrics", mk_service("rfr-demo", ServiceKind::Metrics, "rfr-demo"), "DesiredUnsupported"),
            ("budget of another", Desired::Budget(Budget { workload: "x".into(), max_unavailable: 1 }), "DesiredNameUnknown"),
            ("budget of none", Desired::Budget(Budget { workload: "rfr-demo".into(), max_unavailable: 0 }), "BudgetUnsafe"),
            ("budget of two", Desired::Budget(Budget { workload: "rfr-demo".into(), max_unavailable: 2 }), "BudgetUnsafe"),
            (
                "a certificate",
                Desired::Certificate(CertificateRequest { name: "c".into(), dns_names: vec![] }),
                "DesiredUnsupported",
            ),
            (
                "a kind of its own",
                Desired::Extension(ExtensionObject { kind: "Job".into(), name: "j".into(), content: "{}".into() }),
                "DesiredUnsupported",
            ),
        ]
    }

    #[test]
    fn a_policy_may_not_ask_for_more_than_the_closed_list() {
        for (case, record, reason) in refusals() {
            let refused = render(&mk_topology(), &[record], &mk_inputs(), &mk_settings(), Live::default()).unwrap_err();
            assert_eq!(refused.reason(), reason, "{case}: {refused}");
        }
    }

    #[test]
    fn a_policy_may_label_pods_outside_the_hosts_domains() {
        let record = mk_workload(|w| w.labels = vec![Pair { key: "example.org/team".into(), value: "a".into() }]);
        let objects = render(&mk_topology(), &[record], &mk_inputs(), &mk_settings(), Live::default()).unwrap();
        let stateful_set = objects.last().unwrap();
        assert_eq!(stateful_set["spec"]["template"]["metadata"]["labels"]["example.org/team"], "a");
        assert_eq!(stateful_set["spec"]["selector"]["matchLabels"].get("example.org/team"), None);
    }
}
