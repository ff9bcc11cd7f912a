//! What must stay: claims and Secrets.

use super::Violation;

/// An object that was deleted, or marked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// As `RESOURCE/NAME`.
    pub object: String,
    /// Its instance; empty: it is nobody's.
    pub instance: String,
    /// Whether the instance itself was being deleted, or gone.
    pub with_instance: bool,
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
        .map(|deletion| Violation::new("deleted", format!("{} of {:?} was deleted", deletion.object, deletion.instance)))
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_by_table() {
        let deletion = |object: &str, with_instance| Deletion { object: object.into(), instance: "demo".into(), with_instance };
        let claim = "persistentvolumeclaims/valkey-data-rfr-demo-2";
        for (case, deletion, may_go, expected) in [
            ("a claim", deletion(claim, false), vec![], 1),
            ("a claim that may", deletion(claim, false), vec![claim.to_owned()], 0),
            ("with its instance", deletion(claim, true), vec![], 0),
            ("a Secret", deletion("secrets/failover-acl-demo-default-secret", false), vec![], 1),
            ("a pod", deletion("pods/rfr-demo-0", false), vec![], 0),
        ] {
            assert_eq!(kept(&[deletion], &may_go).len(), expected, "{case}");
        }
    }
}
