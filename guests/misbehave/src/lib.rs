//! A policy of the replica architecture that fails on request: the host is tested against it. The fault is named by the
//! annotation [`ANNOTATION`] of the observed instance (for `validate`: by the key `misbehave` of the spec); without one it holds.
//!
//! One build with all faults, so that a test of the sandbox compiles one component only.

use vko_sdk::common::Architecture;
use vko_sdk::observation::{Reach, Role, Server};
use vko_sdk::plan::{holding, step, track};
use vko_sdk::planning::{Operation, Phase, Severity, Status, Writer};
use vko_sdk::{ModuleInfo, Observed, Plan, Policy, PolicyError, Violation, lookup};

/// Names the fault: one of [`Fault::ALL`].
pub const ANNOTATION: &str = "buf.red/misbehave";

/// The faults. What the host makes of each is said beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None: a plan that asks for nothing.
    None,
    /// A panic: `PolicyTrapped`.
    Trap,
    /// Recursion without end: `PolicyTrapped`.
    Recursion,
    /// A loop without end: `PolicyDeadline`.
    Loop,
    /// Memory without end: `PolicyOutOfMemory`.
    Hunger,
    /// An answer of 16 MiB: `PolicyOutputTooLarge`.
    Oversized,
    /// `status.details` is no JSON: `PolicyOutputInvalid`.
    BrokenJson,
    /// Routes writers to a pod that nobody observed: `PolicyOutputInvalid`.
    UnknownPod,
    /// A megabyte of log lines: cut, and otherwise a plan that asks for nothing.
    Chatter,
    /// Promotes a replica beside a primary that answers: refused by the guard.
    SecondPrimary,
    /// Deletes the first claim: refused by the guard.
    DeleteClaim,
    /// Its own word that it failed: `PolicyError::Internal`.
    Internal,
    /// Its own word that it lacks a fact: `PolicyError::Insufficient`.
    Insufficient,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::None,
        Self::Trap,
        Self::Recursion,
        Self::Loop,
        Self::Hunger,
        Self::Oversized,
        Self::BrokenJson,
        Self::UnknownPod,
        Self::Chatter,
        Self::SecondPrimary,
        Self::DeleteClaim,
        Self::Internal,
        Self::Insufficient,
    ];

    /// The annotation's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Trap => "trap",
            Self::Recursion => "recursion",
            Self::Loop => "loop",
            Self::Hunger => "hunger",
            Self::Oversized => "oversized",
            Self::BrokenJson => "broken-json",
            Self::UnknownPod => "unknown-pod",
            Self::Chatter => "chatter",
            Self::SecondPrimary => "second-primary",
            Self::DeleteClaim => "delete-claim",
            Self::Internal => "internal",
            Self::Insufficient => "insufficient",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// The policy.
pub struct Misbehave;

impl Policy for Misbehave {
    fn describe() -> ModuleInfo {
        ModuleInfo {
            name: "misbehave".into(),
            architecture: Architecture::Replica,
            version: env!("CARGO_PKG_VERSION").into(),
            server_lines: ["7.2", "8.1", "9.1"].map(String::from).into(),
            description: "Fails in the way that the annotation buf.red/misbehave names. For tests of the host.".into(),
        }
    }

    fn validate(spec: String, _previous: String) -> Vec<Violation> {
        let spec: serde_json::Value = serde_json::from_str(&spec).unwrap_or_default();
        let asked = spec["misbehave"].as_str().unwrap_or("none");
        match Fault::from_name(asked) {
            Some(Fault::None) => Vec::new(),
            Some(Fault::Oversized) => vec![violation("x".repeat(OVERSIZED_BYTES))],
            Some(fault) => {
                disturb(fault);
                vec![violation(format!("'{}' is no fault of validate", fault.name()))]
            }
            None => vec![violation(format!("'{asked}' is no fault"))],
        }
    }

    fn decide(observed: Observed) -> Result<Plan, PolicyError> {
        let asked = lookup::annotation(&observed.instance, ANNOTATION).unwrap_or("none");
        let fault = Fault::from_name(asked).ok_or_else(|| PolicyError::Internal(format!("'{asked}' is no fault")))?;
        disturb(fault);
        let mut plan = holding(status(&observed));
        match fault {
            Fault::Oversized => plan.status.message = "x".repeat(OVERSIZED_BYTES),
            Fault::BrokenJson => plan.status.details = "{\"nodes\":".into(),
            Fault::UnknownPod => plan.routing.writer = Writer::Pod("no-such-pod".into()),
            Fault::SecondPrimary => {
                let replica = servers(&observed, |role| matches!(role, Role::Replica(_))).next();
                let replica = replica.ok_or_else(|| PolicyError::Insufficient("there is no replica to promote".into()))?;
                let promotion = step(Operation::Promote(replica.pod.clone()), "asked to misbehave");
                plan.tracks.push(track("second-primary", vec![promotion]));
            }
            Fault::DeleteClaim => {
                let claim =
                    observed.claims.first().ok_or_else(|| PolicyError::Insufficient("there is no claim to delete".into()))?;
                let deletion = step(Operation::DeleteClaim(claim.uid.clone()), "asked to misbehave");
                plan.tracks.push(track("delete-claim", vec![deletion]));
            }
            Fault::Internal => return Err(PolicyError::Internal("asked to fail".into())),
            Fault::Insufficient => return Err(PolicyError::Insufficient("asked to hold".into())),
            Fault::None | Fault::Trap | Fault::Recursion | Fault::Loop | Fault::Hunger | Fault::Chatter => {}
        }
        Ok(plan)
    }
}

/// Well above the host's bound of an answer, well below its bound of memory.
const OVERSIZED_BYTES: usize = 16 << 20;

/// The faults that end or burden a call whatever it was to answer.
fn disturb(fault: Fault) {
    match fault {
        #[expect(clippy::panic, reason = "the fault is a panic")]
        Fault::Trap => panic!("asked to trap"),
        Fault::Recursion => {
            std::hint::black_box(recurse(0));
        }
        Fault::Loop => loop {
            std::hint::black_box(());
        },
        Fault::Hunger => {
            let mut eaten: Vec<Vec<u8>> = Vec::new();
            loop {
                eaten.push(vec![1; 1 << 20]);
                std::hint::black_box(&eaten);
            }
        }
        Fault::Chatter => (0..1024).for_each(|_| vko_sdk::log::warn(&"chatter\n".repeat(128))),
        _ => {}
    }
}

fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == u64::MAX { depth } else { recurse(depth + 1) + frame[0] }
}

fn violation(message: String) -> Violation {
    Violation { severity: Severity::Error, field: "misbehave".into(), message }
}

fn servers(observed: &Observed, role: impl Fn(&Role) -> bool) -> impl Iterator<Item = &Server> {
    observed.servers.iter().filter(move |server| {
        matches!(server.reach, Reach::Answered) && server.facts.as_ref().is_some_and(|facts| role(&facts.role))
    })
}

fn status(observed: &Observed) -> Status {
    let primaries = servers(observed, |role| matches!(role, Role::Primary)).count();
    Status {
        phase: if primaries == 1 { Phase::Ready } else { Phase::Initializing },
        message: format!("{primaries} of {} servers are primaries", observed.servers.len()),
        conditions: Vec::new(),
        details: "{}".into(),
    }
}

#[cfg(feature = "component")]
vko_sdk::export_policy!(Misbehave);
