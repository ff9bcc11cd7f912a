//! Planned hand-over beside Sentinels. SENTINEL FAILOVER alone loses what the old primary takes until it is demoted (about 11 s
//! of writes), so writes are held back around it.
//!
//! # Guarantees
//! 1. Writes are held back by the server's own clock: if this process ends, they go on after 2 s, or after 15 s once the
//!    Sentinels were asked, by when they demote the old primary themselves.
//! 2. The Sentinels choose among replicas that all have everything, so whichever they choose, nothing is lost.
//!
//! # Flow
//! 1. A majority of the Sentinels names this primary, and none is busy with it.
//! 2. The replica loses the fence of an earlier life, in the ledger first.
//! 3. CLIENT PAUSE WRITE for 2 s; every replica that may be chosen reaches the primary's offset.
//! 4. The pause is extended to 15 s, confirmed while the first one surely lasts; SENTINEL FAILOVER at one Sentinel.
//! 5. Wait for the new primary; REPLICAOF to the old one by us, read back; CLIENT UNPAUSE; ledger.
//! 6. Nobody took over: UNPAUSE, unless the Sentinel still says that it is at it.

use std::time::Duration;

use vko_model::info::Role;
use vko_wit::observation::Observed;
use vko_wit::planning::HandOver;

use super::{in_step, note_primary};
use crate::command::Command;
use crate::execute::ExecuteError;
use crate::execute::step::{follow_read_back, member, points_at};
use crate::procedure::promote::no_fence;
use crate::procedure::sentinel::{Watch, watches};
use crate::procedure::{answering, is_primary, until};
use crate::site::Site;
use crate::world::{Target, World};

/// The first pause: until offsets are equal.
const PAUSE: Duration = Duration::from_secs(2);
/// The second one: beyond the 11 s after which Sentinels demote the old primary by themselves.
const PAUSE_FOR_SENTINELS: Duration = Duration::from_secs(15);
/// How long we wait for the Sentinels (measured: 0.2 s), so that the pause is still on when we give up.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn run<W: World>(site: &Site<W>, observed: &Observed, order: &HandOver) -> Result<(), ExecuteError> {
    member(observed, &order.replica)?;
    let (primary_name, primary) = site.target(&order.primary)?;
    let sentinel = able_sentinel(site, order, &primary).await?;
    site.store.change(|ledger| ledger.drop_fence(&order.replica)).await?;
    site.send(&order.replica, no_fence()).await?;
    let eligible = eligible(site, order).await?;
    let held = site.world.monotonic() + PAUSE;
    site.send(&order.primary, pause(PAUSE)).await?;
    if !until(site, PAUSE / 2, || equal(site, &order.primary, &eligible)).await {
        site.send(&order.primary, Command::Unpause).await?;
        return Err(ExecuteError::NotVerified(format!(
            "not every replica has reached what {primary_name} wrote; nothing was changed"
        )));
    }
    site.send(&order.primary, pause(PAUSE_FOR_SENTINELS)).await?;
    // The server began to hold writes after we asked for it, so within this time the second pause met the first.
    if site.world.monotonic() >= held {
        site.send(&order.primary, Command::Unpause).await?;
        return Err(ExecuteError::NotVerified(format!(
            "{primary_name} was asked to hold writes back for longer only when it may have taken some again; nothing was changed"
        )));
    }
    // An answer that is lost may have been an order that was taken: only waiting tells.
    let asked = site.send_sentinel(&sentinel, Command::SentinelFailover(order.monitor.clone())).await;
    let Some(heir) = await_heir(site, &eligible).await else {
        return give_up(site, order, &sentinel, asked.err()).await;
    };
    let led = settle(site, &order.primary, &heir).await;
    note_primary(site, observed, member(observed, &heir)?).await?;
    led?;
    if heir == order.replica {
        return Ok(());
    }
    let (chosen, wanted) = (site.target(&heir)?.0, site.target(&order.replica)?.0);
    Err(ExecuteError::NotVerified(format!("the Sentinels chose {chosen} and not {wanted}; it has the role and all data")))
}

fn pause(time: Duration) -> Command {
    Command::PauseWrites { time_ms: crate::observe::millis(time) }
}

/// A Sentinel that can be asked, if a majority agrees on this primary and none is at work on it.
async fn able_sentinel<W: World>(site: &Site<W>, order: &HandOver, primary: &Target) -> Result<String, ExecuteError> {
    let all = watches(site, &order.monitor).await;
    let busy = all.iter().find(|(_, watch)| watch.as_ref().is_some_and(Watch::is_busy));
    if let Some((id, _)) = busy {
        return Err(ExecuteError::ExpectationFailed(format!("the Sentinel {id} to be in no failover")));
    }
    let agree: Vec<&String> =
        all.iter().filter(|(_, watch)| watch.as_ref().is_some_and(|watch| watch.names(primary))).map(|(id, _)| id).collect();
    match agree.first() {
        Some(id) if agree.len() * 2 > all.len() => Ok((*id).clone()),
        _ => Err(ExecuteError::ExpectationFailed(format!("a majority of the Sentinels to name {} as the primary", primary.ip))),
    }
}

/// The replicas that Sentinels may choose: all that follow the primary, if the wanted one is among them and in step.
async fn eligible<W: World>(site: &Site<W>, order: &HandOver) -> Result<Vec<String>, ExecuteError> {
    let (_, primary) = site.target(&order.primary)?;
    let (name, target) = site.target(&order.replica)?;
    let leading = site.look(&order.primary).await?;
    let mut eligible = Vec::new();
    for (uid, _) in answering(site) {
        let Ok(info) = site.look(&uid).await else { continue };
        if uid == order.replica && !in_step(&leading, &info, &target) {
            return Err(ExecuteError::ExpectationFailed(format!("{name} to be in step with its primary")));
        }
        if info.role == Some(Role::Replica) && points_at(&info, &primary) && info.replica_priority != Some(0) {
            eligible.push(uid);
        }
    }
    if eligible.contains(&order.replica) {
        return Ok(eligible);
    }
    Err(ExecuteError::ExpectationFailed(format!("{name} to follow {} with a priority above 0", primary.ip)))
}

/// Whether every one of them has what the primary wrote.
async fn equal<W: World>(site: &Site<W>, primary: &str, replicas: &[String]) -> bool {
    let Ok(leading) = site.look(primary).await else { return false };
    let Some(written) = leading.primary_offset.filter(|offset| *offset > 0) else { return false };
    for replica in replicas {
        let has = |info: vko_model::info::Info| info.link_up == Some(true) && info.replica_offset == Some(written);
        if !site.look(replica).await.is_ok_and(has) {
            return false;
        }
    }
    true
}

/// Whoever of them is a primary, as soon as one is.
async fn await_heir<W: World>(site: &Site<W>, replicas: &[String]) -> Option<String> {
    let targets: Vec<(String, Target)> =
        replicas.iter().filter_map(|uid| Some((uid.clone(), site.target(uid).ok()?.1))).collect();
    let end = site.world.monotonic() + LIMIT;
    loop {
        for (uid, target) in &targets {
            if is_primary(site, target).await {
                return Some(uid.clone());
            }
        }
        if site.world.monotonic() >= end {
            return None;
        }
        site.world.sleep(super::super::POLL).await;
    }
}

/// The old one follows the new one before its pause ends; then writers may learn that it is no primary.
async fn settle<W: World>(site: &Site<W>, old: &str, heir: &str) -> Result<(), ExecuteError> {
    follow_read_back(site, old, heir).await?;
    site.send(old, Command::Unpause).await.map(drop)
}

/// Writes go on at the old primary, unless the Sentinel may still take its role: then they wait until the pause runs out.
async fn give_up<W: World>(
    site: &Site<W>,
    order: &HandOver,
    sentinel: &str,
    refusal: Option<ExecuteError>,
) -> Result<(), ExecuteError> {
    let (name, _) = site.target(&order.primary)?;
    let all = watches(site, &order.monitor).await;
    let at_it = all.iter().any(|(id, watch)| id == sentinel && watch.as_ref().is_none_or(Watch::is_busy));
    if at_it {
        return Err(ExecuteError::NotVerified(format!(
            "nobody has taken over from {name} yet, and the Sentinel {sentinel} has not given up: writes wait for at most 15 s"
        )));
    }
    site.send(&order.primary, Command::Unpause).await?;
    Err(refusal.unwrap_or_else(|| ExecuteError::NotVerified(format!("nobody took over from {name}; it takes writes again"))))
}
