//! Rules about a change of what people write, each in CEL, for the API server, and in Rust, for where none evaluates CEL. Fields
//! of the pod template can change in the architecture `replica` alone, because elsewhere nothing replaces pods yet: a change that
//! is accepted and never reaches a pod would be worse than a refusal.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use super::cel::{present_in, text_or};
use super::{text, validation};
use crate::quantity;

/// The Rust half of a rule: whether the change from the old spec to the new one is allowed.
type Allowed = Box<dyn Fn(&Value, &Value) -> bool>;

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
    allowed: Allowed,
}

impl Change {
    /// As the CRD carries it.
    pub(crate) fn validation(&self) -> ValidationRule {
        validation(self.field, "spec", &self.cel, self.shown, self.remedy)
    }
}

/// The refusals of a change of specs, as texts; the values aren't shown.
pub fn refused(changes: &[Change], old: &Value, new: &Value) -> Vec<String> {
    let refused = changes.iter().filter(|change| !(change.allowed)(old, new));
    refused.map(|change| text(change.field, "", &said(change.remedy))).collect()
}

/// A remedy behind a field's name: those that are made to stand behind a value say of themselves that something changed.
fn said(remedy: &str) -> String {
    if remedy.starts_with("set it back") { format!("was changed; {remedy}") } else { remedy.to_owned() }
}

/// A field by its path; what says nothing is absent, and so is what is empty if that means absent.
fn found<'a>(spec: &'a Value, path: &str, empty_is_absent: bool) -> Option<&'a Value> {
    let value = path.split('.').try_fold(spec, |value, name| value.get(name)).filter(|value| !value.is_null())?;
    let empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|fields| fields.is_empty());
    (!(empty && empty_is_absent)).then_some(value)
}

/// Allowed where the field is the same.
fn same(path: &'static str, empty_is_absent: bool) -> Allowed {
    Box::new(move |old, new| found(old, path, empty_is_absent) == found(new, path, empty_is_absent))
}

/// Allowed where the field, or what its absence means, is the same.
fn same_or(path: &'static str, absent: impl Into<Value>) -> Allowed {
    let absent = absent.into();
    Box::new(move |old, new| found(old, path, false).unwrap_or(&absent) == found(new, path, false).unwrap_or(&absent))
}

/// Fields of a Valkey whose every change needs pods to be replaced, which is done in the architecture `replica`.
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
const NEEDS_PODS: &str =
    "was changed, which is not supported yet in this architecture because it needs pods to be replaced; set it back";
const NOT_YET: &str = "was changed, which is not supported yet; set it back";

/// Those of a Valkey.
pub fn valkey() -> Vec<Change> {
    let mut changes = vec![
        unless_replica(Change {
            field: "spec.version",
            allowed: same("version", false),
            cel: "self.version == oldSelf.version".into(),
            shown: "self.version + ' and was ' + oldSelf.version",
            remedy: "set it back: rolling upgrades are not supported yet in this architecture",
        }),
        Change {
            field: "spec.arch",
            allowed: same("arch", false),
            cel: "self.arch == oldSelf.arch".into(),
            shown: "self.arch + ' and was ' + oldSelf.arch",
            remedy: "set it back: the architecture can't be changed, make another instance",
        },
        ip_family(),
        default_user(),
    ];
    changes.extend(FROZEN.map(|field| unless_replica(frozen(field, NEEDS_PODS))));
    changes.extend(FROZEN_LISTS.map(|field| unless_replica(frozen_list(field, NEEDS_PODS))));
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
            allowed: same_or("version", super::NEWEST),
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

/// The same, but for the architecture whose members are replaced in turn.
fn unless_replica(change: Change) -> Change {
    let Change { field, cel, shown, remedy, allowed } = change;
    let replica = |spec: &Value| spec["arch"] == "replica";
    Change {
        field,
        cel: format!("(self.arch == 'replica' && oldSelf.arch == 'replica') || ({cel})"),
        shown,
        remedy,
        allowed: Box::new(move |old, new| (replica(old) && replica(new)) || allowed(old, new)),
    }
}

fn ip_family() -> Change {
    Change {
        field: "spec.access.ipFamilyPrefer",
        allowed: Box::new(|old, new| {
            let is_ipv6 = |spec| found(spec, "access.ipFamilyPrefer", false).is_some_and(|family| family == "IPv6");
            is_ipv6(old) == is_ipv6(new)
        }),
        cel: format!("{} == {}", family("self"), family("oldSelf")),
        shown: "",
        remedy: "can't be changed, because Services keep their family; set it back, or make another instance",
    }
}

/// Running servers would keep the account as it was until each one's next start.
fn default_user() -> Change {
    let of =
        |variable: &str| format!("({} && {variable}.access.openDefaultUser)", present_in(variable, "access.openDefaultUser"));
    Change {
        field: "spec.access.openDefaultUser",
        cel: format!("{} == {}", of("self"), of("oldSelf")),
        shown: "",
        remedy: "was changed, which is not supported yet because running servers would keep the account as it was; set it back",
        allowed: same_or("access.openDefaultUser", false),
    }
}

/// A number of Sentinels; absent means 3.
fn count(field: &'static str, path: &'static str) -> Change {
    let of = |variable: &str| format!("({} ? {variable}.{path} : 3)", present_in(variable, path));
    Change { field, cel: format!("{} == {}", of("self"), of("oldSelf")), shown: "", remedy: NOT_YET, allowed: same_or(path, 3) }
}

fn frozen(field: &'static str, remedy: &'static str) -> Change {
    let path = field.trim_start_matches("spec.");
    let (new, old) = (present_in("self", path), present_in("oldSelf", path));
    Change { field, cel: unchanged(path, &new, &old), shown: "", remedy, allowed: same(path, false) }
}

fn frozen_list(field: &'static str, remedy: &'static str) -> Change {
    let path = field.trim_start_matches("spec.");
    let some = |variable: &str| format!("{} && size({variable}.{path}) > 0", present_in(variable, path));
    let cel = unchanged(path, &some("self"), &some("oldSelf"));
    Change { field, cel, shown: "", remedy, allowed: same(path, true) }
}

fn unchanged(path: &str, new: &str, old: &str) -> String {
    format!("({new}) == ({old}) && (!({new}) || self.{path} == oldSelf.{path})")
}

/// What a cluster's servers and slots are made by.
fn shards() -> Vec<Change> {
    let cluster = "self.arch != 'cluster' || oldSelf.arch != 'cluster'";
    let both = |old: &Value, new: &Value| [old, new].into_iter().all(|spec| spec["arch"] == "cluster");
    let in_clusters = move |allowed: Allowed| -> Allowed { Box::new(move |old, new| !both(old, new) || allowed(old, new)) };
    let of = |field: &'static str, old: Change| Change {
        cel: format!("{cluster} || ({})", old.cel),
        field,
        allowed: in_clusters(old.allowed),
        ..old
    };
    vec![
        of("spec.replicas.shards", frozen("spec.replicas.shards", NOT_YET)),
        of("spec.replicas.shardsConfig", frozen_list("spec.replicas.shardsConfig", NOT_YET)),
        Change {
            field: "spec.replicas.replicasOfShard",
            allowed: in_clusters(same("replicas.replicasOfShard", false)),
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
    // Rules about what is in both are silent where one has no storage: the first rule speaks then.
    let where_both = |allowed: Allowed| -> Allowed {
        Box::new(move |old, new| [old, new].into_iter().any(|spec| found(spec, "storage", false).is_none()) || allowed(old, new))
    };
    let capacity = |spec: &Value| quantity::nano(&Quantity(written(found(spec, "storage.capacity", false)?)));
    let compare = move |allowed: fn(u128, u128) -> bool| -> Allowed {
        Box::new(move |old, new| match (capacity(old), capacity(new)) {
            (Some(old), Some(new)) => allowed(old, new),
            _ => true,
        })
    };
    let capacities = "string(self.storage.capacity) + ' and was ' + string(oldSelf.storage.capacity)";
    vec![
        Change {
            field: "spec.storage",
            allowed: Box::new(|old, new| found(old, "storage", false).is_some() == found(new, "storage", false).is_some()),
            cel: "has(self.storage) == has(oldSelf.storage)".into(),
            shown: "",
            remedy: "can't be added or removed; set it back, or make another instance and copy the data",
        },
        Change {
            field: "spec.storage.storageClassName",
            allowed: where_both(same("storage.storageClassName", false)),
            cel: format!(
                "{both} || (has(self.storage.storageClassName) == has(oldSelf.storage.storageClassName) \
                 && (!has(self.storage.storageClassName) || self.storage.storageClassName == oldSelf.storage.storageClassName))"
            ),
            shown: "",
            remedy: "can't be changed, because volumes keep their class; set it back, or make another instance",
        },
        Change {
            field: "spec.storage.capacity",
            allowed: where_both(Box::new(|old, new| {
                let has = |spec| found(spec, "storage.capacity", false).is_some();
                has(old) == has(new)
            })),
            cel: format!("{both} || has(self.storage.capacity) == has(oldSelf.storage.capacity)"),
            shown: "",
            remedy: "can't be added or removed; set it back",
        },
        Change {
            field: "spec.storage.capacity",
            allowed: compare(|old, new| new >= old),
            cel: compared(">= 0"),
            shown: capacities,
            remedy: "set it back: volumes can't shrink",
        },
        Change {
            field: "spec.storage.capacity",
            allowed: compare(|old, new| new <= old),
            cel: compared("<= 0"),
            shown: capacities,
            remedy: "set it back: growing volumes is not supported yet",
        },
    ]
}

/// A quantity as people wrote it: a text or a number.
fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(more: Value) -> Value {
        let mut spec = json!({"version": "9.1", "arch": "cluster", "replicas": {"shards": 3, "replicasOfShard": 2},
            "storage": {"capacity": "1Gi"}, "resources": {"limits": {"memory": "64Mi"}}});
        more.as_object().into_iter().flatten().for_each(|(name, value)| spec[name] = value.clone());
        spec
    }

    #[test]
    fn refused_changes_of_a_valkey_by_table() {
        let group = |members: u32| json!({"arch": "replica", "replicas": {"replicasOfShard": members}});
        for (name, old, new, expected) in [
            ("nothing", json!({}), json!({}), vec![]),
            ("a line", json!({}), json!({"version": "8.1"}), vec!["spec.version"]),
            (
                "a line, where members are replaced in turn",
                json!({"arch": "replica"}),
                json!({"arch": "replica", "version": "8.1"}),
                vec![],
            ),
            (
                "a line, beside Sentinels",
                json!({"arch": "failover"}),
                json!({"arch": "failover", "version": "8.1"}),
                vec!["spec.version"],
            ),
            ("an architecture", json!({}), json!({"arch": "replica"}), vec!["spec.arch"]),
            (
                "an architecture and a line",
                json!({}),
                json!({"arch": "replica", "version": "8.1"}),
                vec!["spec.version", "spec.arch"],
            ),
            ("shards", json!({}), json!({"replicas": {"shards": 4, "replicasOfShard": 2}}), vec!["spec.replicas.shards"]),
            (
                "members of shards",
                json!({}),
                json!({"replicas": {"shards": 3, "replicasOfShard": 3}}),
                vec!["spec.replicas.replicasOfShard"],
            ),
            ("members of a group", group(2), group(3), vec![]),
            ("no storage any more", json!({}), json!({"storage": null}), vec!["spec.storage"]),
            ("a larger volume", json!({}), json!({"storage": {"capacity": "2Gi"}}), vec!["spec.storage.capacity"]),
            ("a smaller volume", json!({}), json!({"storage": {"capacity": 1}}), vec!["spec.storage.capacity"]),
            ("the same size in other words", json!({}), json!({"storage": {"capacity": "1024Mi"}}), vec![]),
            ("no size any more", json!({}), json!({"storage": {}}), vec!["spec.storage.capacity"]),
            (
                "a class",
                json!({}),
                json!({"storage": {"capacity": "1Gi", "storageClassName": "x"}}),
                vec!["spec.storage.storageClassName"],
            ),
            ("memory", json!({}), json!({"resources": {"limits": {"memory": "65Mi"}}}), vec!["spec.resources"]),
            (
                "memory and a restart, where members are replaced in turn",
                json!({"arch": "replica"}),
                json!({"arch": "replica", "resources": {"limits": {"memory": "65Mi"}},
                    "podAnnotations": {"kubectl.kubernetes.io/restartedAt": "2027-01-15T08:00:00Z"}}),
                vec![],
            ),
            (
                "a restart",
                json!({}),
                json!({"podAnnotations": {"kubectl.kubernetes.io/restartedAt": "2"}}),
                vec!["spec.podAnnotations"],
            ),
            ("an empty list", json!({}), json!({"tolerations": []}), vec![]),
            ("a list", json!({"tolerations": []}), json!({"tolerations": [{"key": "a"}]}), vec!["spec.tolerations"]),
            ("the family that was meant", json!({}), json!({"access": {"ipFamilyPrefer": "IPv4"}}), vec![]),
            ("another family", json!({}), json!({"access": {"ipFamilyPrefer": "IPv6"}}), vec!["spec.access.ipFamilyPrefer"]),
            ("Sentinels, as many as were meant", json!({}), json!({"sentinel": {"replicas": 3}}), vec![]),
            ("more Sentinels", json!({}), json!({"sentinel": {"replicas": 5}}), vec!["spec.sentinel.replicas"]),
        ] {
            let told = refused(&valkey(), &spec(old), &spec(new));
            let fields: Vec<&str> = told.iter().filter_map(|text| text.split(' ').next()).collect();
            assert_eq!(fields, expected, "{name}: {told:?}");
        }
    }

    #[test]
    fn refused_changes_of_a_sentinel_by_table() {
        for (old, new, expected) in [
            (json!({}), json!({"version": "9.1", "replicas": 3}), vec![]),
            (
                json!({}),
                json!({"version": "8.1"}),
                vec![
                    "spec.version was changed, which is not supported yet in this architecture because it needs pods to be replaced; set it back",
                ],
            ),
            (
                json!({"replicas": 3}),
                json!({"replicas": 5}),
                vec!["spec.replicas was changed, which is not supported yet; set it back"],
            ),
        ] {
            assert_eq!(refused(&sentinel(), &old, &new), expected, "{new}");
        }
    }
}
