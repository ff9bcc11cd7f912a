//! Condition types, and how a condition is written.
//!
//! kstatus reads `Reconciling`, `Stalled` and `Ready`: an object is current when `observedGeneration` is its generation and
//! neither Reconciling nor Stalled is True.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Types of conditions on a Valkey and on its topology object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// The spec is understood, an image is known for it, and no change that is refused is in it. While it is False the instance
    /// serves as it was before.
    Accepted,
    /// True: this generation is in force, the writer is verified and all declared members are synced. Derived from live pods and
    /// servers at each look, never remembered. Unknown: the operator can't see enough to say so.
    Ready,
    /// True: something is being done about a difference between what is and what should be.
    Progressing,
    /// True: it serves, with fewer members than declared.
    Degraded,
    /// True: the data set has at least two synced copies.
    Redundant,
    /// True: every slot of the cluster is served, as all servers agree.
    SlotsCovered,
    /// True: every server runs with the configuration that the spec asks for, read back from it.
    ConfigApplied,
    /// True: every server has the accounts that it should have, read back from it.
    UsersApplied,
    /// True: every member that should have a claim has one that is bound.
    StorageReady,
    /// True: the newest admitted policy governs the instance. False: another one does, or none could decide; the message says
    /// why.
    PolicyActive,
    /// True: a person has to do something; the message says what.
    Stalled,
    /// True: the same as Progressing, under the name that kstatus reads.
    Reconciling,
}

impl ConditionType {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Accepted,
        Self::Ready,
        Self::Progressing,
        Self::Degraded,
        Self::Redundant,
        Self::SlotsCovered,
        Self::ConfigApplied,
        Self::UsersApplied,
        Self::StorageReady,
        Self::PolicyActive,
        Self::Stalled,
        Self::Reconciling,
    ];

    /// As written in `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Ready => "Ready",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::Redundant => "Redundant",
            Self::SlotsCovered => "SlotsCovered",
            Self::ConfigApplied => "ConfigApplied",
            Self::UsersApplied => "UsersApplied",
            Self::StorageReady => "StorageReady",
            Self::PolicyActive => "PolicyActive",
            Self::Stalled => "Stalled",
            Self::Reconciling => "Reconciling",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Three-valued: no answer is not a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// `True`.
    Yes,
    /// `False`.
    No,
    /// `Unknown`.
    Unknown,
}

impl Truth {
    /// As written in `status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "True",
            Self::No => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Longest message of a condition, in bytes: the API's own bound for conditions.
pub const MESSAGE_MAX: usize = 32_768;

/// Sets a condition. Its transition time moves only when its status does; conditions are kept sorted by type. Returns whether
/// anything but the transition time differs from before, so that a quiet instance is not written.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: ConditionType,
    truth: Truth,
    reason: &str,
    message: &str,
    generation: i64,
    now: &Time,
) -> bool {
    let old = conditions.iter().position(|condition| condition.type_ == kind.as_str()).map(|at| conditions.swap_remove(at));
    let since = old
        .as_ref()
        .filter(|old| old.status == truth.as_str())
        .map_or_else(|| now.clone(), |old| old.last_transition_time.clone());
    let new = Condition {
        type_: kind.as_str().into(),
        status: truth.as_str().into(),
        reason: reason.into(),
        message: clipped(message).into(),
        observed_generation: Some(generation),
        last_transition_time: since,
    };
    let changed = old.as_ref() != Some(&new);
    conditions.push(new);
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    changed
}

/// The message, cut at a character's end.
fn clipped(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ConditionType::Ready, Truth::No, "Starting", "a", 1, &at(1)));
        assert!(!set(&mut conditions, ConditionType::Ready, Truth::No, "Starting", "a", 1, &at(2)));
        assert!(set(&mut conditions, ConditionType::Ready, Truth::No, "Starting", "b", 2, &at(3)));
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(set(&mut conditions, ConditionType::Ready, Truth::Yes, "Serving", "b", 2, &at(4)));
        assert_eq!((conditions.len(), &conditions[0].last_transition_time), (1, &at(4)));
    }

    #[test]
    fn conditions_are_sorted_whatever_the_order_of_setting() {
        let mut conditions = Vec::new();
        for kind in ConditionType::ALL.into_iter().rev() {
            set(&mut conditions, kind, Truth::Unknown, "Looking", "", 1, &at(1));
        }
        assert!(conditions.windows(2).all(|pair| pair[0].type_ < pair[1].type_));
        assert!(ConditionType::ALL.into_iter().all(|kind| ConditionType::from_name(kind.as_str()) == Some(kind)));
        assert_eq!(ConditionType::from_name("ready"), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut conditions = Vec::new();
        set(&mut conditions, ConditionType::Stalled, Truth::Yes, "Waiting", &"ä".repeat(MESSAGE_MAX), 1, &at(1));
        assert_eq!(conditions[0].message.len(), MESSAGE_MAX);
    }
}
