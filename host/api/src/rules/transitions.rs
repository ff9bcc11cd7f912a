//! Rules about a change of a Valkey. Most fields of the pod template can't change yet, because nothing rolls pods yet: a change that
//! is accepted and never reaches a pod would be worse than a refusal.

use super::cel::{present_in, text_or};

/// A change that is refused.
pub struct Change {
    /// Path of the field, from the object's root.
    pub field: &'static str,
    /// CEL over the specs (`self`, `oldSelf`); true if the change is allowed.
    pub cel: String,
    /// CEL of what is shown as the value.
    pub shown: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Fields whose every change needs pods to be replaced.
const FROZEN: [&str; 4] = ["spec.resources", "spec.affinityPolicy", "spec.customAffinity", "spec.securityContext"];
/// The same, where empty means absent.
const FROZEN_LISTS: [&str; 3] = ["spec.podAnnotations", "spec.nodeSelector", "spec.tolerations"];
const NEEDS_PODS: &str = "was changed, which is not supported yet because it needs pods to be replaced; set it back";

/// All of them.
pub fn table() -> Vec<Change> {
    let mut changes = vec![
        Change {
            field: "spec.version",
            cel: "self.version == oldSelf.version".into(),
            shown: "self.version + ' and was ' + oldSelf.version",
            remedy: "set it back: rolling upgrades are not supported yet",
        },
        Change {
            field: "spec.arch",
            cel: "self.arch == oldSelf.arch".into(),
            shown: "self.arch + ' and was ' + oldSelf.arch",
            remedy: "set it back: the architecture can't be changed, make another instance",
        },
        Change {
            field: "spec.access.ipFamilyPrefer",
            cel: format!("{} == {}", family("self"), family("oldSelf")),
            shown: "",
            remedy: "can't be changed, because Services keep their family; set it back, or make another instance",
        },
    ];
    changes.extend(FROZEN.map(frozen));
    changes.extend(FROZEN_LISTS.map(frozen_list));
    changes.extend(storage());
    changes
}

fn frozen(field: &'static str) -> Change {
    let name = field.trim_start_matches("spec.");
    let cel = format!("has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})");
    Change { field, cel, shown: "", remedy: NEEDS_PODS }
}

fn frozen_list(field: &'static str) -> Change {
    let name = field.trim_start_matches("spec.");
    let some = |variable: &str| format!("has({variable}.{name}) && size({variable}.{name}) > 0");
    let (new, old) = (some("self"), some("oldSelf"));
    let cel = format!("({new}) == ({old}) && (!({new}) || self.{name} == oldSelf.{name})");
    Change { field, cel, shown: "", remedy: NEEDS_PODS }
}

/// CEL: the address family in force. Absent and empty mean IPv4.
fn family(variable: &str) -> String {
    format!("({} == 'IPv6')", text_or(variable, "access.ipFamilyPrefer", ""))
}

fn storage() -> Vec<Change> {
    let both = "!has(self.storage) || !has(oldSelf.storage)";
    let sized = format!("{} && {}", present_in("self", "storage.capacity"), present_in("oldSelf", "storage.capacity"));
    let compared = |condition: &str| {
        format!(
            "!({sized}) || !isQuantity(string(self.storage.capacity)) || !isQuantity(string(oldSelf.storage.capacity)) || \
             quantity(string(self.storage.capacity)).compareTo(quantity(string(oldSelf.storage.capacity))) {condition}"
        )
    };
    let capacities = "string(self.storage.capacity) + ' and was ' + string(oldSelf.storage.capacity)";
    vec![
        Change {
            field: "spec.storage",
            cel: "has(self.storage) == has(oldSelf.storage)".into(),
            shown: "",
            remedy: "can't be added or removed; set it back, or make another instance and copy the data",
        },
        Change {
            field: "spec.storage.storageClassName",
            cel: format!(
                "{both} || (has(self.storage.storageClassName) == has(oldSelf.storage.storageClassName) \
                 && (!has(self.storage.storageClassName) || self.storage.storageClassName == oldSelf.storage.storageClassName))"
            ),
            shown: "",
            remedy: "can't be changed, because volumes keep their class; set it back, or make another instance",
        },
        Change {
            field: "spec.storage.capacity",
            cel: format!("{both} || has(self.storage.capacity) == has(oldSelf.storage.capacity)"),
            shown: "",
            remedy: "can't be added or removed; set it back",
        },
        Change {
            field: "spec.storage.capacity",
            cel: compared(">= 0"),
            shown: capacities,
            remedy: "set it back: volumes can't shrink",
        },
        Change {
            field: "spec.storage.capacity",
            cel: compared("<= 0"),
            shown: capacities,
            remedy: "set it back: growing volumes is not supported yet",
        },
    ]
}
