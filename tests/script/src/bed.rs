//! What a real cluster can do of what a script can say. The mock host can do all of it.
//!
//! # Assumptions
//! 1. The operator of the test bed is one installation for all tests: nobody stops it, cuts it off or starts another beside it.
//! 2. A node of the test bed is cut off as a whole, from clients and servers too; that is another fault than `cut-off`.

use crate::folder::Expect;
use crate::step::{NodeState, Step, Wait};

/// Where a step can be carried out, beside the mock host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBed {
    /// On every cluster.
    Anywhere,
    /// Where the nodes are ours: on the test bed.
    WithNodes,
    /// Nowhere, and why.
    Never(&'static str),
}

const ONE_OPERATOR: &str = "the operator is one installation for all tests";

/// Where a step can be carried out.
pub fn on_bed(step: &Step) -> OnBed {
    match step {
        Step::Delete { object, .. } | Step::Patch { object, .. } if object.namespace.is_some() => {
            OnBed::Never("what is in other namespaces is all tests'")
        }
        Step::Wait(Wait::Leader(_) | Wait::OperatorEnded(_)) | Step::Operator { .. } => OnBed::Never(ONE_OPERATOR),
        Step::Wait(Wait::Loading(_)) => OnBed::Never("nothing makes a server load for so long that it is seen"),
        Step::Node { becomes, .. } => node(*becomes),
        Step::Signal { .. } => OnBed::WithNodes,
        Step::ApiFault(_) => OnBed::Never("nothing stands between the operator and its API server"),
        Step::ApiCompact => OnBed::Never("the API server's history is all tests'"),
        Step::ReuseAddresses(_) => OnBed::Never("the network gives addresses as it likes"),
        Step::Partition { .. } => OnBed::Never("nodes are cut off as a whole"),
        Step::SmallDisks(_) | Step::FillDisks(_) | Step::ClearDisks => OnBed::Never("claims have no disks of their own"),
        Step::Burden { .. } => OnBed::Never("nothing is written to a pod's files from outside"),
        Step::Image { .. } => OnBed::Never("images are all tests'"),
        Step::Policy { .. } => OnBed::Never("a policy is for the instances of all tests"),
        Step::Apply(_)
        | Step::Patch { .. }
        | Step::Delete { .. }
        | Step::DeletePods { .. }
        | Step::Evict(_)
        | Step::Remember(_)
        | Step::Wait(_)
        | Step::Hold(_)
        | Step::Writes(_)
        | Step::Heal => OnBed::Anywhere,
    }
}

fn node(becomes: NodeState) -> OnBed {
    match becomes {
        NodeState::PowerLost | NodeState::Well => OnBed::WithNodes,
        NodeState::CutOff => OnBed::Never("a node is cut off as a whole, and here its servers are reached"),
        NodeState::StandsStill => OnBed::Never("all that a node runs can't be stopped at one moment"),
        NodeState::OutOfService | NodeState::Gone => OnBed::Never("nobody gives a node up for lost"),
        NodeState::Cordoned => OnBed::Never("no node is closed to other tests' pods"),
    }
}

/// Whether what is expected can be judged there.
///
/// # Errors
/// What can't.
pub fn can_judge(expect: &Expect) -> Result<(), &'static str> {
    match expect.two_writers_seconds {
        Some(_) => Err("two-writers-seconds is judged by an oracle that the test bed hasn't; take the mark 'bed' out"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_by_table() {
        for (step, expected) in [
            (r#"{"apply": "manifest.yaml"}"#, Ok(OnBed::Anywhere)),
            (r#"{"evict": "primary"}"#, Ok(OnBed::Anywhere)),
            (r#"{"wait": {"calm": "demo"}}"#, Ok(OnBed::Anywhere)),
            (r#"{"delete": {"object": {"resource": "pods", "name": "a-0"}}}"#, Ok(OnBed::Anywhere)),
            (r#"{"signal": {"pods": "primary", "signal": "KILL"}}"#, Ok(OnBed::WithNodes)),
            (r#"{"node": {"of": "primary", "becomes": "power-lost"}}"#, Ok(OnBed::WithNodes)),
            (r#"{"node": {"of": "primary", "becomes": "cut-off"}}"#, Err("as a whole")),
            (r#"{"node": {"of": "primary", "becomes": "gone"}}"#, Err("for lost")),
            (r#"{"operator": {"becomes": {"started-to-die-after": 9}}}"#, Err("one installation")),
            (r#"{"operator": {"becomes": "stopped"}}"#, Err("one installation")),
            (r#"{"wait": {"leader": "operator-1"}}"#, Err("one installation")),
            (r#"{"api-fault": {"verb": "watch", "resource": "pods", "act": "drop"}}"#, Err("between the operator")),
            (r#"{"delete": {"object": {"namespace": "x", "resource": "pods", "name": "a-0"}}}"#, Err("all tests'")),
            (r#"{"fill-disks": "primary"}"#, Err("disks")),
        ] {
            let found = on_bed(&serde_json::from_str(step).unwrap());
            match (found, expected) {
                (OnBed::Never(why), Err(says)) => assert!(why.contains(says), "{step}: {why}"),
                (found, expected) => assert_eq!(Ok(found), expected, "{step}"),
            }
        }
    }
}
