//! Promotion without the old primary's help.
//!
//! # Guarantees
//! 1. The ledger says `formed` and names the new primary before the server may take a write.
//! 2. The new primary carries no fence of an earlier life, which would refuse writes until replicas are back; the ledger forgets
//!    that fence first.
//!
//! # Assumptions
//! The guard has seen the evidence that no other primary can acknowledge writes any more.
//!
//! # Flow
//! 1. Ledger.
//! 2. Lift what fence the server may carry.
//! 3. The step's expectations, [`nobody_else_leads`] and [`no_failover_runs`]: last before the command. A fence isn't read again:
//!    who answers must be no primary, and who doesn't can't be asked.
//! 4. REPLICAOF NO ONE.
//! 5. Read the role back.
//! 6. Note the new replication history.

use futures_util::future::join_all;
use vko_model::info::{Info, Role};
use vko_wit::observation::Observed;
use vko_wit::planning::Step;

use crate::command::{Command, ConfigValue};
use crate::execute::{ExecuteError, step};
use crate::ledger::Ledger;
use crate::site::Site;
use crate::world::World;

/// Promotes a pod's server.
///
/// # Errors
/// The promotion may or may not have happened when a command's answer is missing; the next look tells.
pub async fn run<W: World>(site: &Site<W>, observed: &Observed, wanted: &Step, pod: &str) -> Result<(), ExecuteError> {
    let member = step::member(observed, pod)?;
    let change = |ledger: &mut Ledger| {
        ledger.formed = Some(true);
        ledger.set_last_primary(member);
        ledger.drop_fence(pod);
    };
    site.store.appoint(&observed.ledger.last_primary, change).await?;
    site.send(pod, no_fence()).await?;
    step::check(site, wanted).await?;
    site.send(pod, Command::ReplicaOfNoOne).await?;
    let info = site.look(pod).await?;
    if info.role != Some(Role::Primary) {
        let (name, _) = site.target(pod)?;
        return Err(ExecuteError::NotVerified(format!("{name} is no primary after REPLICAOF NO ONE")));
    }
    let now = site.world.unix_ms();
    if let Some(replid) = info.replid {
        site.store.change(|ledger| ledger.note_lineage(&replid, info.primary_offset.unwrap_or(0), now)).await?;
    }
    Ok(())
}

/// Asks the servers that answered when they were last asked, all at once: a hook may have handed the role to one of them since.
/// Those that didn't answer are the guard's business.
///
/// # Errors
/// [`ExecuteError::ExpectationFailed`] names the one that is a primary.
pub(crate) async fn nobody_else_leads<W: World>(site: &Site<W>, pod: &str) -> Result<(), ExecuteError> {
    let others = super::answering(site).into_iter().filter(|(uid, _)| uid != pod);
    let asked = others.map(|(uid, name)| async move { (site.look(&uid).await, name) });
    let leads = |(info, name): (Result<Info, ExecuteError>, String)| {
        info.is_ok_and(|info| info.role == Some(Role::Primary)).then_some(name)
    };
    match join_all(asked).await.into_iter().find_map(leads) {
        None => Ok(()),
        Some(name) => Err(ExecuteError::ExpectationFailed(format!("{name} to be no primary"))),
    }
}

/// Asks the Sentinels that answered when they were last asked, all at once: one may have begun a failover since, and would
/// promote another.
///
/// # Errors
/// [`ExecuteError::ExpectationFailed`] names it.
pub(crate) async fn no_failover_runs<W: World>(site: &Site<W>) -> Result<(), ExecuteError> {
    match super::sentinel::mover(site).await {
        None => Ok(()),
        Some(name) => Err(ExecuteError::ExpectationFailed(format!("{name} to be in no failover"))),
    }
}

/// Lifts a fence.
pub(super) fn no_fence() -> Command {
    Command::ConfigSet(vec![("min-replicas-to-write".into(), ConfigValue::Text("0".into()))])
}
