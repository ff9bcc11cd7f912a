//! What a script can say. A step is one key with its arguments; names are those of Kubernetes and of docs/losses.md.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vko_apiserver::fault::Fault;

use crate::target::Target;

/// Ready for so long, an instance has got over what was before: a look comes at least every five seconds.
pub const CALM: Duration = Duration::from_secs(6);

/// A step of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// A person applies the objects of a file of the folder.
    Apply(String),
    /// A person changes an object by a merge patch.
    Patch {
        /// Which.
        object: ObjectName,
        /// The patch.
        with: Value,
    },
    /// A person deletes an object.
    Delete {
        /// Which.
        object: ObjectName,
        /// Background (where nothing is said), Foreground or Orphan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        propagation: Option<String>,
    },
    /// A person deletes pods.
    DeletePods {
        /// Which.
        pods: Targets,
        /// Seconds; the pods' own number where nothing is said. 0 is by force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace: Option<u64>,
    },
    /// A drain evicts pods; one that its budget keeps is asked for again until it goes.
    Evict(Targets),
    /// Gives pods a name, by which they are known (`$name`) whatever becomes of their roles.
    Remember(BTreeMap<String, Targets>),
    /// Waits for something; the script fails if it doesn't come.
    Wait(Wait),
    /// Goes on for so many seconds, while the oracles look.
    Hold(u64),
    /// The client that writes numbers.
    Writes(Writes),
    /// A signal to pods' servers.
    Signal {
        /// Whose.
        pods: Targets,
        /// Which.
        signal: SignalName,
    },
    /// Something happens to the nodes of pods.
    Node {
        /// Whose nodes.
        of: Targets,
        /// What.
        becomes: NodeState,
    },
    /// Requests to the API server go wrong, or events of its watches.
    ApiFault(Fault),
    /// The API server forgets its history: watches that aren't up to date have to list anew.
    ApiCompact,
    /// The operator's processes.
    Operator {
        /// Which; the first where nothing is said.
        #[serde(default = "first_operator")]
        name: String,
        /// What becomes of it.
        becomes: OperatorState,
    },
    /// The next pods get the addresses that these have, once these are gone.
    ReuseAddresses(Targets),
    /// The servers of pods and those of others don't reach each other any more, by their addresses of now; the operator and
    /// clients reach all. Needs a network namespace of its own.
    Partition {
        /// Whose.
        pods: Targets,
        /// From whom.
        from: Targets,
    },
    /// Claims that are made from now on have disks of their own, of so many MiB. Needs a mount namespace of its own.
    SmallDisks(u64),
    /// Nothing more can be written to the disks of pods.
    FillDisks(Targets),
    /// There is room on all disks again.
    ClearDisks,
    /// The next start of pods' servers takes long: so many commands that take time and change nothing, a tenth of a millisecond
    /// each, are put at the end of what they read then. They must not run.
    Burden {
        /// Whose.
        pods: Targets,
        /// How many.
        commands: usize,
    },
    /// A policy beside the built-in ones.
    Policy {
        /// File name of its component in the folder of built policies (`VKO_GUESTS`), without `.wasm`.
        name: String,
        /// What becomes of it.
        becomes: PolicyState,
    },
    /// The servers' image of a line, for containers that start from now on.
    Image {
        /// Which line.
        line: String,
        /// What becomes of it.
        becomes: ImageState,
    },
    /// All faults end: signals, nodes, cuts, full disks, requests, connections; an operator runs.
    Heal,
}

impl Step {
    /// Whom it means.
    pub fn targets(&self) -> Vec<&Targets> {
        match self {
            Self::DeletePods { pods, .. }
            | Self::Signal { pods, .. }
            | Self::Burden { pods, .. }
            | Self::Evict(pods)
            | Self::ReuseAddresses(pods)
            | Self::FillDisks(pods)
            | Self::Operator { becomes: OperatorState::CutOffFrom(pods), .. }
            | Self::Node { of: pods, .. } => vec![pods],
            Self::Partition { pods, from } => vec![pods, from],
            Self::Remember(names) => names.values().collect(),
            Self::Wait(wait) => wait.targets().into_iter().collect(),
            Self::Apply(_)
            | Self::Patch { .. }
            | Self::Delete { .. }
            | Self::Hold(_)
            | Self::Writes(_)
            | Self::ApiFault(_)
            | Self::ApiCompact
            | Self::Operator { .. }
            | Self::SmallDisks(_)
            | Self::ClearDisks
            | Self::Policy { .. }
            | Self::Image { .. }
            | Self::Heal => Vec::new(),
        }
    }
}

/// What becomes of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PolicyState {
    /// Its ConfigMap is made.
    Installed,
    /// Its ConfigMap is deleted.
    Removed,
}

/// What becomes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ImageState {
    /// It can't be had.
    Missing,
    /// Its server ends as soon as it is started.
    Crashing,
    /// It is well.
    Well,
}

/// The operator that is there from the beginning.
pub const FIRST_OPERATOR: &str = "operator-0";

fn first_operator() -> String {
    FIRST_OPERATOR.into()
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ObjectName {
    /// Its namespace; the instances' where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// As in `pods`, `statefulsets.apps`, `valkeys.rds.valkey.buf.red`.
    pub resource: String,
    /// Its name.
    pub name: String,
}

/// One target or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Words", into = "Words")]
pub struct Targets(pub Vec<Target>);

/// [`Targets`] as they are written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

impl TryFrom<Words> for Targets {
    type Error = String;

    fn try_from(words: Words) -> Result<Self, String> {
        let words = match words {
            Words::One(one) => vec![one],
            Words::Several(several) => several,
        };
        words.into_iter().map(Target::try_from).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Targets> for Words {
    fn from(targets: Targets) -> Self {
        let mut words: Vec<String> = targets.0.into_iter().map(String::from).collect();
        if words.len() == 1 { Self::One(words.remove(0)) } else { Self::Several(words) }
    }
}

/// What can be waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wait {
    /// The instance of that name is ready, for the spec of now.
    Ready(String),
    /// An operator leads, and the instance of that name was ready for [`CALM`] on end: what was before is over.
    Calm(String),
    /// A condition of an instance.
    Condition {
        /// Instance.
        of: String,
        /// Which, and how it stands.
        is: Condition,
    },
    /// The policy that decided last about an instance.
    Policy {
        /// Instance.
        of: String,
        /// Its name.
        is: String,
    },
    /// An event of that reason was written since the script began.
    Event(String),
    /// Another pod than these carries the primary's label of their workload.
    PrimaryNot(Targets),
    /// The pods of these names are other ones by now, and ready.
    Replaced(Targets),
    /// The pods aren't there any more, whoever has their names.
    Gone(Targets),
    /// The pods aren't ready.
    Unready(Targets),
    /// The pods are ready.
    PodsReady(Targets),
    /// The pods' servers say that they load their data.
    Loading(Targets),
    /// So many pods of the instances are there.
    Pods(usize),
    /// That operator holds the Lease.
    Leader(String),
    /// An operator ended by itself: the effect after which it was to die has happened.
    OperatorEnded(String),
}

impl Wait {
    /// The pods that it is about.
    pub fn targets(&self) -> Option<&Targets> {
        match self {
            Self::PrimaryNot(pods)
            | Self::Replaced(pods)
            | Self::Gone(pods)
            | Self::Unready(pods)
            | Self::PodsReady(pods)
            | Self::Loading(pods) => Some(pods),
            _ => None,
        }
    }
}

/// A condition. Only what is said counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What the client does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Writes {
    /// It begins, at the instance of that name.
    On(String),
    /// It goes on until so many more writes were acknowledged.
    Acks(usize),
    /// It ends. No more may be missing than docs/losses.md says for that fault and this architecture.
    Verify(String),
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SignalName {
    /// The process ends at once, as out of memory.
    Kill,
    /// It stands still.
    Stop,
    /// It goes on.
    Cont,
    /// It is asked to end.
    Term,
}

/// What becomes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum NodeState {
    /// The API server doesn't hear of it any more; its pods run on.
    CutOff,
    /// The same, and its processes stand still.
    StandsStill,
    /// It lost its power.
    PowerLost,
    /// It lost its power, and somebody says so by the taint out-of-service.
    OutOfService,
    /// It lost its power, and its object is deleted.
    Gone,
    /// Nothing new is put on it.
    Cordoned,
    /// It is well.
    Well,
}

/// What becomes of an operator's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum OperatorState {
    /// It is started.
    Started,
    /// It is started, and ends right after so many effects, as if it were killed.
    StartedToDieAfter(u64),
    /// It ends as SIGTERM ends it: the Lease is released.
    Stopped,
    /// It is killed.
    Killed,
    /// It can't reach the servers of these pods any more; the pods reach each other.
    CutOffFrom(Targets),
}
