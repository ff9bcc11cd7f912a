//! Whether a plan is one at all: every UID in it was observed, every text that should be JSON is, and nothing is asked for twice
//! that is one request to the API server: looks have a rate, so what a plan asks for once has one, too. Whether it is wise is the
//! guard's business, not this module's.
//!
//! Sentinels are named by their own ids and node ids by the cluster; both may be of servers that are no pods of ours, so neither
//! is checked.

use std::collections::HashSet;
use std::mem::discriminant;

use serde_json::Value;
use vko_wit::observation::Observed;
use vko_wit::planning::{Desired, Expectation, Operation, Plan, Step, Writer};

/// Says what is invalid, and where.
pub(crate) fn check(plan: &Plan, observed: &Observed) -> Result<(), String> {
    let known = Known::of(observed);
    object("status.details", &plan.status.details)?;
    if let Writer::Pod(uid) = &plan.routing.writer {
        known.pod("routing.writer", uid)?;
    }
    for (index, uid) in plan.routing.readers.iter().enumerate() {
        known.pod(&format!("routing.readers[{index}]"), uid)?;
    }
    let mut objects = HashSet::new();
    for (index, desired) in plan.desired.iter().enumerate() {
        let name = name(desired);
        if !objects.insert((discriminant(desired), name)) {
            return Err(format!("desired[{index}] describes {name:?} once more"));
        }
        if let Desired::Extension(extension) = desired {
            json(&format!("desired[{index}].content"), &extension.content)?;
        }
    }
    let mut asked = HashSet::new();
    for track in &plan.tracks {
        for (index, step) in track.steps.iter().enumerate() {
            let place = format!("track '{}' step {index}", track.subject);
            check_step(&known, &place, step)?;
            let again = requested(&step.operation).is_some_and(|uid| !asked.insert((discriminant(&step.operation), uid)));
            if again {
                return Err(format!("{place} asks once more for what an earlier step asks for: {:?}", step.operation));
            }
        }
    }
    Ok(())
}

/// What tells one desired object from others of its case.
fn name(desired: &Desired) -> (&str, &str) {
    match desired {
        Desired::Workload(workload) => ("", &workload.name),
        Desired::Service(service) => ("", &service.name),
        Desired::Budget(budget) => ("", &budget.workload),
        Desired::Certificate(request) => ("", &request.name),
        Desired::Extension(extension) => (&extension.kind, &extension.name),
    }
}

/// UID of the object that a step asks the API server to change.
fn requested(operation: &Operation) -> Option<&str> {
    match operation {
        Operation::Evict(uid) | Operation::ForceDelete(uid) | Operation::DeleteClaim(uid) => Some(uid),
        Operation::DeleteObject(deletion) => Some(&deletion.uid),
        Operation::ResizeClaim(size) => Some(&size.claim),
        _ => None,
    }
}

/// UIDs of the observation.
struct Known<'a> {
    pods: HashSet<&'a str>,
    claims: HashSet<&'a str>,
    objects: HashSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(observed: &'a Observed) -> Self {
        Self {
            pods: observed.pods.iter().map(|pod| pod.uid.as_str()).collect(),
            claims: observed.claims.iter().map(|claim| claim.uid.as_str()).collect(),
            objects: observed.objects.iter().map(|object| object.uid.as_str()).collect(),
        }
    }

    fn pod(&self, place: &str, uid: &str) -> Result<(), String> {
        self.pods.contains(uid).then_some(()).ok_or_else(|| format!("{place} names pod '{uid}', which was not observed"))
    }

    fn claim(&self, place: &str, uid: &str) -> Result<(), String> {
        self.claims.contains(uid).then_some(()).ok_or_else(|| format!("{place} names claim '{uid}', which was not observed"))
    }

    fn any(&self, place: &str, uid: &str) -> Result<(), String> {
        let found = self.objects.contains(uid) || self.claims.contains(uid) || self.pods.contains(uid);
        found.then_some(()).ok_or_else(|| format!("{place} names object '{uid}', which was not observed"))
    }
}

fn check_step(known: &Known<'_>, place: &str, step: &Step) -> Result<(), String> {
    let pod = |uid: &str| known.pod(place, uid);
    match &step.operation {
        Operation::Evict(uid)
        | Operation::ForceDelete(uid)
        | Operation::Detach(uid)
        | Operation::Promote(uid)
        | Operation::DropClients(uid)
        | Operation::Save(uid)
        | Operation::BumpEpoch(uid)
        | Operation::ResetEmpty(uid)
        | Operation::SyncUsers(uid)
        | Operation::ReloadCertificates(uid) => pod(uid)?,
        Operation::DeleteObject(deletion) => known.any(place, &deletion.uid)?,
        Operation::ResizeClaim(size) => known.claim(place, &size.claim)?,
        Operation::DeleteClaim(uid) => known.claim(place, uid)?,
        Operation::Follow(follow) => pod(&follow.pod).and_then(|()| pod(&follow.primary))?,
        Operation::HandOver(hand_over) => pod(&hand_over.primary).and_then(|()| pod(&hand_over.replica))?,
        Operation::Fence(fence) => pod(&fence.pod)?,
        Operation::Meet(pair) => pod(&pair.pod).and_then(|()| pod(&pair.peer))?,
        Operation::Replicate(replication) => pod(&replication.pod)?,
        Operation::OwnSlots(assignment) => pod(&assignment.pod)?,
        Operation::TakeOver(takeover) => pod(&takeover.replica)?,
        Operation::MoveSlots(slots) => pod(&slots.source).and_then(|()| pod(&slots.target))?,
        Operation::SettleSlots(settlement) => pod(&settlement.pod)?,
        Operation::Monitor(monitor) => pod(&monitor.primary)?,
        Operation::Configure(configuration) => pod(&configuration.pod)?,
        Operation::RotateCredential(rotation) if !rotation.pod.is_empty() => pod(&rotation.pod)?,
        Operation::Extension(extension) => json(place, &extension.arguments)?,
        Operation::RotateCredential(_)
        | Operation::Forget(_)
        | Operation::CancelJob(_)
        | Operation::Unmonitor(_)
        | Operation::SetMonitor(_)
        | Operation::SentinelFailover(_)
        | Operation::ResetMonitor(_) => {}
    }
    step.expects.iter().try_for_each(|expectation| match expectation {
        Expectation::RunId(known) | Expectation::Replid(known) => pod(&known.pod),
        Expectation::RolePrimary(uid) | Expectation::DataSetEmpty(uid) => pod(uid),
        Expectation::RoleReplicaOf(pair) => pod(&pair.pod).and_then(|()| pod(&pair.peer)),
        Expectation::OffsetAtLeast(offset) => pod(&offset.pod),
        Expectation::Epoch(epoch) => pod(&epoch.pod),
        Expectation::SentinelEpoch(_) => Ok(()),
    })
}

fn json(place: &str, text: &str) -> Result<(), String> {
    parse(place, text).map(drop)
}

fn object(place: &str, text: &str) -> Result<(), String> {
    parse(place, text)?.is_object().then_some(()).ok_or_else(|| format!("{place} is no JSON object"))
}

fn parse(place: &str, text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{place} is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::NativePolicy;
    use vko_core::policy::Policy as _;
    use vko_misbehave::Misbehave;
    use vko_wit::planning::{Budget, FenceSetting, Follow, Known as KnownValue, ObjectDeletion, Track};

    /// Edits a plan that is valid.
    type Edit = fn(&mut Plan);

    fn step(operation: Operation) -> Step {
        Step { operation, reason: String::new(), expects: vec![], consent: String::new() }
    }

    fn with_step(plan: &mut Plan, operation: Operation) {
        plan.tracks = vec![Track { subject: "s".into(), steps: vec![step(operation)] }];
    }

    fn budget(workload: &str) -> Desired {
        Desired::Budget(Budget { workload: workload.into(), max_unavailable: 1 })
    }

    fn evicts(plan: &mut Plan, one: &[&str], other: &[&str]) {
        let steps = |pods: &[&str]| pods.iter().map(|pod| step(Operation::Evict((*pod).into()))).collect();
        plan.tracks =
            [("a", one), ("b", other)].map(|(subject, pods)| Track { subject: subject.into(), steps: steps(pods) }).into();
    }

    #[test]
    #[expect(clippy::unwrap_used, reason = "a test")]
    fn what_was_not_observed_is_no_json_or_comes_twice_is_named() {
        let observed = crate::sample::observed(3);
        let pod = observed.pods[0].uid.clone();
        let plan = NativePolicy::<Misbehave>::new().decide(&observed).unwrap().unwrap();
        assert_eq!((pod.as_str(), observed.claims[0].uid.as_str()), ("pod-0", "claim-0"), "the cases name them");
        let cases: [(&str, Edit, &str); 19] = [
            ("as it came", |_| {}, ""),
            ("details cut", |plan| plan.status.details = "{".into(), "status.details is no JSON:"),
            ("details of another kind", |plan| plan.status.details = "[]".into(), "status.details is no JSON object"),
            ("unknown writer", |plan| plan.routing.writer = Writer::Pod("x".into()), "routing.writer names pod 'x'"),
            (
                "unknown reader",
                |plan| plan.routing.readers = vec!["pod-0".into(), "x".into()],
                "routing.readers[1] names pod 'x'",
            ),
            ("a claim is no pod", |plan| with_step(plan, Operation::Evict("claim-0".into())), "names pod 'claim-0'"),
            ("a pod is no claim", |plan| with_step(plan, Operation::DeleteClaim("pod-0".into())), "names claim 'pod-0'"),
            (
                "unknown primary to follow",
                |plan| with_step(plan, Operation::Follow(Follow { pod: "pod-0".into(), primary: "x".into() })),
                "track 's' step 0 names pod 'x'",
            ),
            ("known fence", |plan| with_step(plan, Operation::Fence(FenceSetting { pod: "pod-0".into(), min_replicas: 1 })), ""),
            (
                "unknown object",
                |plan| {
                    with_step(
                        plan,
                        Operation::DeleteObject(ObjectDeletion { kind: "Service".into(), name: "n".into(), uid: "x".into() }),
                    )
                },
                "names object 'x'",
            ),
            (
                "unknown pod to expect of",
                |plan| {
                    with_step(plan, Operation::Save("pod-0".into()));
                    plan.tracks[0].steps[0].expects = vec![Expectation::RunId(KnownValue { pod: "x".into(), value: "r".into() })];
                },
                "names pod 'x'",
            ),
            ("known claim", |plan| with_step(plan, Operation::DeleteClaim("claim-0".into())), ""),
            ("an eviction by two tracks", |plan| evicts(plan, &["pod-0"], &["pod-0"]), "track 'b' step 0 asks once more"),
            ("an eviction by two steps", |plan| evicts(plan, &["pod-0", "pod-0"], &[]), "track 'a' step 1 asks once more"),
            ("evictions of two", |plan| evicts(plan, &["pod-0"], &["pod-1"]), ""),
            (
                "an eviction, and by force",
                |plan| {
                    evicts(plan, &["pod-0"], &[]);
                    plan.tracks[0].steps.push(step(Operation::ForceDelete("pod-0".into())));
                },
                "",
            ),
            ("two objects", |plan| plan.desired = vec![budget("a"), budget("b")], ""),
            ("an object twice", |plan| plan.desired = vec![budget("a"), budget("a")], "desired[1] describes"),
            ("node ids are not ours to know", |plan| with_step(plan, Operation::Forget("0123".into())), ""),
        ];
        for (name, edit, expected) in cases {
            let mut plan = plan.clone();
            edit(&mut plan);
            let answer = check(&plan, &observed);
            assert_eq!(answer.is_ok(), expected.is_empty(), "{name}: {answer:?}");
            assert!(answer.err().unwrap_or_default().contains(expected), "{name}");
        }
    }
}
