//! One step: check, remember, act, verify.
//!
//! # Guarantees
//! 1. Nothing dangerous is sent without the Lease, while cut off, or when an expectation doesn't hold.
//! 2. What must be remembered of an act is in the ledger before it; what must have been seen is in the ledger after it.
//! 3. Each command and each write is an effect of its own, so that a crash after any of them can be tested.
//!
//! # Flow
//! 1. May we act?
//! 2. Expectations are read; before a promotion, what the others say of their role too.
//! 3. A consent is recorded as used, and the expectations are read once more: a consent isn't used up by a step that is dropped.
//! 4. The operation. One that writes the ledger first reads the expectations again after that: they are the last thing before the
//!    command.
//! 5. Its effect is read back.

use vko_model::info::{Info, Role};
use vko_wit::observation::Observed;
use vko_wit::planning::{Operation, Step};

use super::{ExecuteError, expect, names};
use crate::command::Command;
use crate::ledger::Member;
use crate::object::{Kind, ObjectId};
use crate::procedure::{cluster, detach, fence, hand_over, promote, sentinel};
use crate::site::Site;
use crate::world::{Delete, World};

/// Carries out one step of a plan that was made for `observed`.
///
/// # Errors
/// The step ended here; whether its last command took effect may be unknown, the next look tells.
pub async fn run<W: World>(site: &Site<W>, observed: &Observed, step: &Step) -> Result<(), ExecuteError> {
    if names::is_dangerous(&step.operation) {
        site.may_act()?;
    }
    check(site, step).await?;
    if !step.consent.is_empty() {
        site.store.change(|ledger| ledger.use_consent(&step.consent)).await?;
        check(site, step).await?;
    }
    match &step.operation {
        Operation::Evict(pod) => evict(site, observed, pod).await,
        Operation::ForceDelete(pod) => force_delete(site, observed, pod).await,
        Operation::DeleteClaim(claim) => delete_claim(site, observed, claim).await,
        Operation::Follow(follow) => follow_primary(site, step, &follow.pod, &follow.primary).await,
        Operation::Detach(pod) => detach::run(site, pod).await,
        Operation::Promote(pod) => promote::run(site, observed, step, pod).await,
        Operation::HandOver(order) => hand_over::run(site, observed, order).await,
        Operation::Fence(setting) => fence::run(site, &setting.pod, setting.min_replicas).await,
        Operation::DropClients(pod) => site.send(pod, Command::KillNormalClients).await.map(drop),
        Operation::Save(pod) => site.send(pod, Command::BackgroundSave).await.map(drop),
        Operation::Meet(pair) => cluster::meet(site, pair).await,
        Operation::Forget(node) => cluster::forget(site, node).await,
        Operation::Replicate(order) => cluster::replicate(site, order).await,
        Operation::OwnSlots(assignment) => cluster::own(site, observed, step, assignment).await,
        Operation::TakeOver(order) => cluster::take_over(site, observed, step, order).await,
        Operation::BumpEpoch(pod) => cluster::bump_epoch(site, pod).await,
        Operation::SettleSlots(settlement) => cluster::settle(site, settlement).await,
        Operation::ResetEmpty(pod) => cluster::reset_empty(site, pod).await,
        Operation::Monitor(order) => sentinel::monitor(site, order).await,
        Operation::Unmonitor(name) => sentinel::unmonitor(site, name).await,
        Operation::SetMonitor(order) => sentinel::set(site, order).await,
        Operation::SentinelFailover(name) => sentinel::failover(site, observed, name).await,
        Operation::ResetMonitor(name) => sentinel::reset(site, name).await,
        other => Err(ExecuteError::OperationUnknown(names::operation(other).into())),
    }
}

/// What the step expects, and what every step of its kind does.
///
/// # Errors
/// [`ExecuteError::ExpectationFailed`] names the first that doesn't hold.
pub(crate) async fn check<W: World>(site: &Site<W>, step: &Step) -> Result<(), ExecuteError> {
    expect::check(site, &step.expects).await?;
    match &step.operation {
        Operation::Promote(pod) => {
            promote::nobody_else_leads(site, pod).await?;
            promote::no_failover_runs(site).await
        }
        Operation::TakeOver(order) => cluster::owner_does_not_lead(site, &order.replica).await,
        _ => Ok(()),
    }
}

/// The member that a pod fills.
pub(crate) fn member(observed: &Observed, pod: &str) -> Result<Member, ExecuteError> {
    let found =
        observed.pods.iter().find(|p| p.uid == pod).ok_or_else(|| ExecuteError::TargetGone(format!("the pod with UID {pod}")))?;
    Ok(Member::of(observed, found))
}

fn pod_name(observed: &Observed, pod: &str) -> Result<String, ExecuteError> {
    let found = observed.pods.iter().find(|p| p.uid == pod);
    found.map(|p| p.name.clone()).ok_or_else(|| ExecuteError::TargetGone(format!("the pod with UID {pod}")))
}

async fn evict<W: World>(site: &Site<W>, observed: &Observed, pod: &str) -> Result<(), ExecuteError> {
    let name = pod_name(observed, pod)?;
    Ok(site.world.evict(&observed.instance.namespace, &name, pod).await?)
}

async fn force_delete<W: World>(site: &Site<W>, observed: &Observed, pod: &str) -> Result<(), ExecuteError> {
    let id = ObjectId::new(Kind::Pod, &observed.instance.namespace, pod_name(observed, pod)?);
    Ok(site.world.delete(&id, Delete { uid: pod.into(), grace_seconds: Some(0), orphan: false }).await?)
}

async fn delete_claim<W: World>(site: &Site<W>, observed: &Observed, claim: &str) -> Result<(), ExecuteError> {
    let found = observed.claims.iter().find(|c| c.uid == claim);
    let found = found.ok_or_else(|| ExecuteError::TargetGone(format!("the claim with UID {claim}")))?;
    let id = ObjectId::new(Kind::PersistentVolumeClaim, &observed.instance.namespace, &found.name);
    Ok(site.world.delete(&id, Delete { uid: claim.into(), grace_seconds: None, orphan: false }).await?)
}

async fn follow_primary<W: World>(site: &Site<W>, step: &Step, pod: &str, primary: &str) -> Result<(), ExecuteError> {
    // Before the act: a fence that counted as closed opens with the first replica that is back.
    site.store.change(|ledger| ledger.may_be_followed(primary)).await?;
    check(site, step).await?;
    follow_read_back(site, pod, primary).await
}

/// REPLICAOF, read back.
pub(crate) async fn follow_read_back<W: World>(site: &Site<W>, pod: &str, primary: &str) -> Result<(), ExecuteError> {
    let (primary_name, upstream) = site.target(primary)?;
    site.send(pod, Command::ReplicaOf { ip: upstream.ip, port: upstream.port }).await?;
    let info = site.look(pod).await?;
    let follows = info.role == Some(Role::Replica) && points_at(&info, &upstream);
    let (name, _) = site.target(pod)?;
    if follows {
        Ok(())
    } else {
        Err(ExecuteError::NotVerified(format!("{name} does not follow {primary_name} after REPLICAOF")))
    }
}

/// Whether a replica's upstream is that server.
pub(crate) fn points_at(info: &Info, upstream: &crate::world::Target) -> bool {
    info.primary().is_some_and(|address| address.is(upstream.ip, upstream.port))
}
