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
//! 5. A part's template is made of what the spec says about that part: a change of the Sentinels' section restarts no data
//!    server, a shard more or less changes no other shard.
//!
//! # Assumptions
//! 1. The spec passed the validation of its kind; what is missing all the same is an error that names the field.
//! 2. The agent in [`crate::settings::Settings::agent_image`] speaks the command line of [`agent`].
//!
//! # Flow
//! 1. Each desired record is checked against the names that this instance may have.
//! 2. A workload brings its ConfigMap, the Secret with the `user` lines and its StatefulSet; services and budgets bring one each.
//!    What several workloads mount comes once.
//! 3. Objects come out in the order in which they should be applied: what pods mount first, the StatefulSet last.

mod affinity;
mod agent;
mod metadata;
mod mounted;
mod part;
mod pod;
mod security;
mod service;
mod spec;
pub mod template;
#[cfg(test)]
pub(crate) mod testing;
mod topology;
mod volume;
mod workload;

use std::collections::BTreeMap;

use serde_json::Value;
use vko_wit::common::Pair;
use vko_wit::planning::{Desired, StartMode};

pub use metadata::{labels, pod_selector, selector};
pub use mounted::account_secret;
pub use part::{MEMBERS_MAX, Part, SHARDS_MAX};
pub use spec::is_ipv6;
pub use topology::{LoginElsewhere, Topology, TopologyKind};

use crate::object::Object;
use crate::settings::Settings;

/// What the pods of a part mount, rendered elsewhere. No `Debug`: the `user` lines hold hashes of passwords.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Texts<'a> {
    /// `valkey.conf` or `sentinel.conf`, without anything secret and without what the agent adds at each start.
    pub conf: &'a str,
    /// The `user` lines, with hashes.
    pub users_acl: &'a str,
}

/// Texts that are rendered elsewhere, and how servers start. No `Debug`, as [`Texts`] has none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Inputs<'a> {
    /// Of data servers; not read where there are none.
    pub data: Texts<'a>,
    /// Of the instance's own Sentinels; not read where there are none.
    pub sentinels: Texts<'a>,
    /// How a data server starts outside of clusters, as it should be mounted now. It is the host's to choose when it follows the
    /// policy's wish: the newer mode is mounted before members are added.
    pub start: StartMode,
    /// Whether the instance is being deleted: the hooks then hand over to nobody, or the role would chain from pod to pod.
    pub ending: bool,
}

/// The live StatefulSets, and whether a person asked for the newest templates.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    /// The StatefulSet of that name in the instance's namespace, from the cache or fresh; `None` if there is none.
    pub stateful_set: &'a dyn Fn(&str) -> Option<Object>,
    /// Take the templates as this operator renders them, even if the spec did not change.
    pub roll_out: bool,
}

/// Why what a policy wants can't be rendered. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The topology object lacks a field that its validation promises.
    #[error("spec.{field} of the {kind} is missing; the operator writes it from what people set and from its own configuration")]
    SpecFieldMissing {
        /// What the topology object is.
        kind: &'static str,
        /// Path below `spec`.
        field: &'static str,
    },
    /// The policy named an object as this instance has none.
    #[error("the policy wants a {kind} named {name:?}; in this instance it is {expected}")]
    DesiredNameUnknown {
        /// What it is.
        kind: &'static str,
        /// As the policy wrote it.
        name: String,
        /// How it must be called, for a person.
        expected: String,
    },
    /// The policy wants a thing that this host does not render for this architecture.
    #[error("the policy wants {what}, which this operator does not render for a {topology}")]
    DesiredUnsupported {
        /// What it wants.
        what: String,
        /// What the topology object is.
        topology: &'static str,
    },
    /// The policy wants two workloads to mount one configuration, and each something else in it.
    #[error(
        "the policy wants other settings for {workload} than for a workload that mounts the same ConfigMap; give all of them the same"
    )]
    SettingsDiffer {
        /// The second one.
        workload: String,
    },
    /// The policy wants no member, or another number than the interface of the product allows.
    #[error("the policy wants {members} members; {bounds}")]
    MembersOutOfRange {
        /// As the policy wrote it.
        members: u32,
        /// How many there may be.
        bounds: &'static str,
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
            Self::SettingsDiffer { .. } => "SettingsDiffer",
            Self::MembersOutOfRange { .. } => "MembersOutOfRange",
            Self::BudgetUnsafe { .. } => "BudgetUnsafe",
            Self::LabelReserved { .. } => "LabelReserved",
        }
    }
}

/// The stamp that a template made of this spec carries, of the workload of that name; nothing if the instance has no such one.
pub fn spec_hash(topology: &Topology, workload: &str) -> Option<String> {
    Part::named(topology, workload).map(|part| spec::PodSpec::new(topology, part).hash())
}

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
    let mut configured: BTreeMap<String, &[Pair]> = BTreeMap::new();
    let mut mounted = Vec::new();
    let mut services = Vec::new();
    let mut workloads = Vec::new();
    for record in desired {
        match record {
            Desired::Workload(wanted) => {
                let part = Part::wanted(topology, wanted.purpose, wanted.shard, &wanted.name)?;
                workloads.push(workload::stateful_set(topology, part, wanted, settings, live)?);
                match configured.insert(part.config_map(&topology.name), &wanted.settings) {
                    Some(others) if others != wanted.settings => {
                        return Err(RenderError::SettingsDiffer { workload: wanted.name.clone() });
                    }
                    Some(_) => {}
                    None => {
                        mounted.push(mounted::config_map(topology, part, inputs, settings));
                        mounted.push(mounted::users_secret(topology, part, inputs));
                    }
                }
            }
            Desired::Service(wanted) => services.push(service::service(topology, wanted)?),
            Desired::Budget(wanted) => services.push(service::budget(topology, wanted)?),
            Desired::Certificate(wanted) => return Err(topology.unsupported(format!("the certificate {:?}", wanted.name))),
            Desired::Extension(wanted) => return Err(topology.unsupported(format!("{} {:?}", wanted.kind, wanted.name))),
        }
    }
    mounted.extend(services);
    mounted.extend(workloads);
    Ok(mounted)
}

/// Refuses a name other than the one that this instance gives to the thing.
fn expect_name(kind: &'static str, name: &str, expected: String) -> Result<(), RenderError> {
    if name == expected {
        Ok(())
    } else {
        Err(RenderError::DesiredNameUnknown { kind, name: name.to_owned(), expected: format!("{expected:?}") })
    }
}

#[cfg(test)]
mod tests;
