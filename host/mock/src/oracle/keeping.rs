//! What must stay: claims and Secrets.

use serde_json::Value;

use super::{Oracle, Violation};

/// An object that was deleted, or marked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// As `RESOURCE/NAME`.
    pub object: String,
    /// Its instance by its label; empty: it has none.
    pub instance: String,
    /// Whether the instance itself was being deleted, or gone.
    pub with_instance: bool,
}

impl Deletion {
    /// `holder`: the instance's object, if there is one. Without a label nothing says that it went with anybody.
    pub fn of(object: String, instance: String, holder: Option<&Value>) -> Self {
        let with_instance = !instance.is_empty() && holder.is_none_or(is_deleting);
        Self { object, instance, with_instance }
    }
}

/// Whether an object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Claims and Secrets that went, though their instance stays and nobody allowed it.
pub fn kept(deletions: &[Deletion], may_go: &[String]) -> Vec<Violation> {
    let precious = |deletion: &&Deletion| {
        ["persistentvolumeclaims/", "secrets/"].iter().any(|kind| deletion.object.starts_with(kind))
            && !deletion.with_instance
            && !may_go.contains(&deletion.object)
    };
    let mut found: Vec<Violation> = deletions
        .iter()
        .filter(precious)
        .map(|deletion| Violation::new(Oracle::Deleted, format!("{} of {:?} was deleted", deletion.object, deletion.instance)))
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deletions_by_table() {
        let (lives, ends) = (json!({"metadata": {}}), json!({"metadata": {"deletionTimestamp": "now"}}));
        let deletion = |object: &str, holder| Deletion::of(object.into(), "demo".into(), holder);
        let claim = "persistentvolumeclaims/valkey-data-rfr-demo-2";
        for (case, deletion, may_go, expected) in [
            ("a claim", deletion(claim, Some(&lives)), vec![], 1),
            ("a claim that may", deletion(claim, Some(&lives)), vec![claim.to_owned()], 0),
            ("with its instance", deletion(claim, Some(&ends)), vec![], 0),
            ("after its instance", deletion(claim, None), vec![], 0),
            ("a claim without a label", Deletion::of(claim.into(), String::new(), None), vec![], 1),
            ("a Secret", deletion("secrets/failover-acl-demo-default-secret", Some(&lives)), vec![], 1),
            ("a pod", deletion("pods/rfr-demo-0", Some(&lives)), vec![], 0),
        ] {
            assert_eq!(kept(&[deletion], &may_go).len(), expected, "{case}");
        }
    }
}
