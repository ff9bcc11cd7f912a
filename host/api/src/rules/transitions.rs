//! Rules about a change of what people write. Most fields of the pod template can't change yet, because nothing rolls pods yet: a
//! change that is accepted and never reaches a pod would be worse than a refusal.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use super::cel::{present_in, text_or};
use super::validation;

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

impl Change {
    /// As the CRD carries it.
    pub(crate) fn validation(&self) -> ValidationRule {
        validation(self.field, "spec", &self.cel, self.shown, self.remedy)
    }
}

/// Fields of a Valkey whose every change needs pods to be replaced.
const FROZEN: [&str; 7] = [
    "spec.resources",
    "spec.affinityPolicy",
    "spec.customAffinity",
    "spec.securityContext",
    "spec.sentinel.resources",
    "spec.sentinel.affinity",
    "spec.sentinel.securityContext",
];
/// The same, where empty means absent.
const FROZEN_LISTS: [&str; 6] = [
    "spec.podAnnotations",
    "spec.nodeSelector",
    "spec.tolerations",
    "spec.sentinel.podAnnotations",
    "spec.sentinel.nodeSelector",
    "spec.sentinel.tolerations",
];
/// Fields of a Sentinel whose every change needs pods to be replaced.
const SENTINEL: [&str; 5] = ["spec.image", "spec.imagePullPolicy", "spec.resources", "spec.affinity", "spec.securityContext"];
/// The same, where empty means absent.
const SENTINEL_LISTS: [&str; 4] = ["spec.podAnnotations", "spec.nodeSelector", "spec.tolerations", "spec.imagePullSecrets"];
const NEEDS_PODS: &str = "was changed, which is not supported yet because it needs pods to be replaced; set it back";
const NOT_YET: &str = "was changed, which is not supported yet; set it back";

/// Those of a Valkey.
pub fn valkey() -> Vec<Change> {
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
        ip_family(),
    ];
    changes.extend(FROZEN.map(|field| frozen(field, NEEDS_PODS)));
    changes.extend(FROZEN_LISTS.map(|field| frozen_list(field, NEEDS_PODS)));
    changes.extend(storage());
    changes.extend(shards());
    changes.extend([
        count("spec.sentinel.replicas", "sentinel.replicas"),
        frozen("spec.sentinel.access.defaultPasswordSecret", NOT_YET),
        frozen("spec.sentinel.sentinelReference", NOT_YET),
    ]);
    changes
}

/// Those of a Sentinel.
pub fn sentinel() -> Vec<Change> {
    let version = |variable: &str| text_or(variable, "version", super::NEWEST);
    let mut changes = vec![
        Change {
            field: "spec.version",
            cel: format!("{} == {}", version("self"), version("oldSelf")),
            shown: "",
            remedy: NEEDS_PODS,
        },
        count("spec.replicas", "replicas"),
        frozen("spec.access.defaultPasswordSecret", NOT_YET),
        ip_family(),
    ];
    changes.extend(SENTINEL.map(|field| frozen(field, NEEDS_PODS)));
    changes.extend(SENTINEL_LISTS.map(|field| frozen_list(field, NEEDS_PODS)));
    changes
}

fn ip_family() -> Change {
    Change {
        field: "spec.access.ipFamilyPrefer",
        cel: format!("{} == {}", family("self"), family("oldSelf")),
        shown: "",
        remedy: "can't be changed, because Services keep their family; set it back, or make another instance",
    }
}

/// A number of Sentinels; absent means 3.
fn count(field: &'static str, path: &str) -> Change {
    let of = |variable: &str| format!("({} ? {variable}.{path} : 3)", present_in(variable, path));
    Change { field, cel: format!("{} == {}", of("self"), of("oldSelf")), shown: "", remedy: NOT_YET }
}

fn frozen(field: &'static str, remedy: &'static str) -> Change {
    let path = field.trim_start_matches("spec.");
    let (new, old) = (present_in("self", path), present_in("oldSelf", path));
    Change { field, cel: unchanged(path, &new, &old), shown: "", remedy }
}

fn frozen_list(field: &'static str, remedy: &'static str) -> Change {
    let path = field.trim_start_matches("spec.");
    let some = |variable: &str| format!("{} && size({variable}.{path}) > 0", present_in(variable, path));
    Change { field, cel: unchanged(path, &some("self"), &some("oldSelf")), shown: "", remedy }
}

fn unchanged(path: &str, new: &str, old: &str) -> String {
    format!("({new}) == ({old}) && (!({new}) || self.{path} == oldSelf.{path})")
}

/// What a cluster's servers and slots are made by.
fn shards() -> Vec<Change> {
    let cluster = "self.arch != 'cluster' || oldSelf.arch != 'cluster'";
    let of = |field: &'static str, old: Change| Change { cel: format!("{cluster} || ({})", old.cel), field, ..old };
    vec![
        of("spec.replicas.shards", frozen("spec.replicas.shards", NOT_YET)),
        of("spec.replicas.shardsConfig", frozen_list("spec.replicas.shardsConfig", NOT_YET)),
        Change {
            field: "spec.replicas.replicasOfShard",
            cel: format!("{cluster} || self.replicas.replicasOfShard == oldSelf.replicas.replicasOfShard"),
            shown: "",
            remedy: "was changed, which is not supported yet in the cluster architecture; set it back",
        },
    ]
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
