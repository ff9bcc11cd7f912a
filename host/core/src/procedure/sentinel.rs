//! Steps at Sentinels: whom they watch, and with what.
//!
//! # Guarantees
//! 1. What a Sentinel watches is read before and after: a name that it has is not given another primary by the way.
//! 2. A credential goes to the Sentinel and nowhere else: it is named by its account until it is sent.
//! 3. A monitor that is half made shows: it has a quorum that nobody reaches until everything else is set, the credential too. So
//!    it starts no failover either.
//! 4. What was done is in the host's memory before the step ends: the next look asks for nothing twice.
//!
//! # Flow
//! Monitor: 1. MASTERS. 2. MONITOR, unless it watches that very primary. 3. SET, credential and options, the quorum last. 4.
//! MASTERS. Failover: 1. MASTERS: no failover runs. 2. FAILOVER. 3. Wait until it names another primary that says it is one. 4.
//! Ledger.

use std::time::Duration;

use futures_util::future::join_all;
use vko_model::sentinel::Monitored;
use vko_wit::common::Pair;
use vko_wit::observation::Observed;
use vko_wit::planning::{SentinelMonitor, SentinelName, SentinelOptions};

use super::{is_primary, until};
use crate::command::{Command, ConfigValue, Reply};
use crate::execute::ExecuteError;
use crate::execute::step::member;
use crate::ledger::Ledger;
use crate::probe::DEADLINE;
use crate::site::Site;
use crate::world::{Target, World};

/// Measured: 0.6 s; a Sentinel that loses an election tries again after twice the failover timeout, which nobody waits for here.
const FAILOVER_LIMIT: Duration = Duration::from_secs(10);
/// Of a monitor that isn't complete: more than there can be Sentinels.
const QUORUM_UNREACHED: u32 = 1_000;
/// What it was told shows at once; a reset finds the others again within about a second.
const SHOWS_WITHIN: Duration = Duration::from_secs(2);

/// What one Sentinel says of one data set.
pub(super) struct Watch(Monitored);

impl Watch {
    /// Whether it is in the middle of a failover.
    pub(super) fn is_busy(&self) -> bool {
        self.0.failover_state.as_deref().is_some_and(|state| !matches!(state, "none" | "no-failover" | ""))
    }

    /// Whether that server is the primary by its word.
    pub(super) fn names(&self, target: &Target) -> bool {
        self.0.address.is(target.ip, target.port)
    }
}

/// What each Sentinel says of a data set; `None` of one that doesn't answer or doesn't watch it.
pub(super) async fn watches<W: World>(site: &Site<W>, name: &str) -> Vec<(String, Option<Watch>)> {
    let asked = site.all_sentinels().into_iter().map(|(id, _, target)| async move {
        let reply = site.world.call(&target, Command::SentinelMasters, DEADLINE).await;
        (id, reply.ok().and_then(|reply| find(reply, name)))
    });
    join_all(asked).await
}

/// The name of a Sentinel that is in the middle of a failover of this data set. Those that didn't answer when they were last
/// asked aren't asked again.
pub(super) async fn mover<W: World>(site: &Site<W>) -> Option<String> {
    let monitor = site.monitor()?;
    let memory = site.memory.snapshot();
    let answers = |target: &Target| memory.get(&target.pod).is_none_or(|server| server.failing_since.is_none());
    let name = &monitor;
    let asked =
        site.all_sentinels().into_iter().filter(|(_, _, target)| answers(target)).map(|(_, sentinel, target)| async move {
            let reply = site.world.call(&target, Command::SentinelMasters, DEADLINE).await.ok()?;
            find(reply, name).filter(Watch::is_busy).map(|_| sentinel)
        });
    join_all(asked).await.into_iter().flatten().next()
}

fn find(reply: Reply, name: &str) -> Option<Watch> {
    let Reply::Maps(maps) = reply else { return None };
    maps.iter().filter_map(Monitored::read).find(|monitored| monitored.name == name).map(Watch)
}

/// What a Sentinel says of a data set now.
async fn watch<W: World>(site: &Site<W>, id: &str, name: &str) -> Result<Option<Watch>, ExecuteError> {
    Ok(find(site.send_sentinel(id, Command::SentinelMasters).await?, name))
}

/// The config epoch of a monitor as a Sentinel sees it; `None` if it doesn't watch it.
///
/// # Errors
/// The Sentinel's.
pub(crate) async fn epoch<W: World>(site: &Site<W>, id: &str, name: &str) -> Result<Option<u64>, ExecuteError> {
    Ok(watch(site, id, name).await?.and_then(|watch| watch.0.config_epoch))
}

/// Makes a Sentinel watch a primary.
///
/// # Errors
/// It watches another one under that name; or what the Sentinel said.
pub async fn monitor<W: World>(site: &Site<W>, order: &SentinelMonitor) -> Result<(), ExecuteError> {
    let (sentinel, _) = site.sentinel_target(&order.sentinel)?;
    let (primary, target) = site.target(&order.primary)?;
    let options = options(site, &order.options, &order.credential, Some(order.quorum))?;
    if !is_primary(site, &target).await {
        return Err(ExecuteError::ExpectationFailed(format!("{primary} to be a primary")));
    }
    match watch(site, &order.sentinel, &order.name).await? {
        Some(known) if !known.names(&target) => {
            return Err(ExecuteError::ExpectationFailed(format!("{sentinel} to watch no other primary as {}", order.name)));
        }
        Some(_) => {}
        None => {
            let (ip, port, quorum) = (target.ip, target.port, QUORUM_UNREACHED);
            site.send_sentinel(&order.sentinel, Command::SentinelMonitor { name: order.name.clone(), ip, port, quorum }).await?;
        }
    }
    site.send_sentinel(&order.sentinel, Command::SentinelSet { name: order.name.clone(), options }).await?;
    let shown = watch(site, &order.sentinel, &order.name).await?;
    site.look_at_sentinel(&order.sentinel, &order.name).await;
    let quorum = Pair { key: "quorum".into(), value: order.quorum.to_string() };
    let as_told = shown.is_some_and(|watch| watch.names(&target) && shows(&watch, &order.options) && shows(&watch, &[quorum]));
    if as_told { Ok(()) } else { Err(ExecuteError::NotVerified(format!("{sentinel} does not watch {primary} as it was told"))) }
}

/// Changes what a Sentinel watches with.
///
/// # Errors
/// It doesn't watch that name; or what the Sentinel said.
pub async fn set<W: World>(site: &Site<W>, order: &SentinelOptions) -> Result<(), ExecuteError> {
    let (sentinel, _) = site.sentinel_target(&order.sentinel)?;
    let options = options(site, &order.options, &order.credential, None)?;
    if watch(site, &order.sentinel, &order.name).await?.is_none() {
        return Err(ExecuteError::ExpectationFailed(format!("{sentinel} to watch {}", order.name)));
    }
    site.send_sentinel(&order.sentinel, Command::SentinelSet { name: order.name.clone(), options }).await?;
    let shown = watch(site, &order.sentinel, &order.name).await?;
    site.look_at_sentinel(&order.sentinel, &order.name).await;
    if shown.is_some_and(|watch| shows(&watch, &order.options)) {
        return Ok(());
    }
    Err(ExecuteError::NotVerified(format!("{sentinel} does not show the options of {} that it was told", order.name)))
}

/// Options in the order in which they are set: the credential first and the quorum last. A Sentinel doesn't show its credential;
/// what it shows of the quorum says that all before it was set.
fn options<W: World>(
    site: &Site<W>,
    options: &[Pair],
    account: &str,
    quorum: Option<u32>,
) -> Result<Vec<(String, ConfigValue)>, ExecuteError> {
    let text = |pair: &Pair| (pair.key.clone(), ConfigValue::Text(pair.value.clone()));
    let mut all = Vec::new();
    if !account.is_empty() {
        let credential = site.credential(account)?;
        all.push(("auth-user".into(), ConfigValue::Text(credential.user)));
        all.push(("auth-pass".into(), ConfigValue::Credential(credential.password)));
    }
    let is_quorum = |pair: &&Pair| pair.key == "quorum";
    all.extend(options.iter().filter(|pair| !is_quorum(pair)).map(text));
    all.extend(options.iter().filter(is_quorum).map(text));
    all.extend(quorum.map(|quorum| ("quorum".to_owned(), ConfigValue::Text(quorum.to_string()))));
    Ok(all)
}

/// Whether those of the options that a Sentinel shows have the wanted values.
fn shows(watch: &Watch, options: &[Pair]) -> bool {
    options.iter().all(|pair| match pair.key.as_str() {
        "quorum" => watch.0.quorum.is_some_and(|quorum| quorum.to_string() == pair.value),
        key => watch.0.options.get(key).is_none_or(|shown| *shown == pair.value),
    })
}

/// Ends a Sentinel's watching.
///
/// # Errors
/// What the Sentinel said, or that it still watches.
pub async fn unmonitor<W: World>(site: &Site<W>, order: &SentinelName) -> Result<(), ExecuteError> {
    let (sentinel, _) = site.sentinel_target(&order.sentinel)?;
    match watch(site, &order.sentinel, &order.name).await? {
        None => return Ok(()),
        Some(watch) if watch.is_busy() => {
            return Err(ExecuteError::ExpectationFailed(format!("{sentinel} to be in no failover")));
        }
        Some(_) => {}
    }
    site.send_sentinel(&order.sentinel, Command::SentinelRemove(order.name.clone())).await?;
    site.look_at_sentinel(&order.sentinel, &order.name).await;
    match watch(site, &order.sentinel, &order.name).await? {
        None => Ok(()),
        Some(_) => Err(ExecuteError::NotVerified(format!("{sentinel} still watches {}", order.name))),
    }
}

/// Makes a Sentinel forget the replicas and the other Sentinels, which it then finds again.
///
/// # Errors
/// A failover runs; or what the Sentinel said.
pub async fn reset<W: World>(site: &Site<W>, order: &SentinelName) -> Result<(), ExecuteError> {
    let (sentinel, _) = site.sentinel_target(&order.sentinel)?;
    // SENTINEL RESET takes a pattern: only a name that can be none is sent.
    if order.name.contains(['*', '?', '[', ']', '\\']) {
        return Err(ExecuteError::OperationUnknown(format!("reset-monitor of the pattern {}", order.name)));
    }
    match watch(site, &order.sentinel, &order.name).await? {
        None => return Err(ExecuteError::ExpectationFailed(format!("{sentinel} to watch {}", order.name))),
        Some(watch) if watch.is_busy() => {
            return Err(ExecuteError::ExpectationFailed(format!("{sentinel} to be in no failover")));
        }
        Some(_) => {}
    }
    site.send_sentinel(&order.sentinel, Command::SentinelReset(order.name.clone())).await?;
    let majority = site.all_sentinels().len() / 2;
    let found = until(site, SHOWS_WITHIN, || async {
        let shown = watch(site, &order.sentinel, &order.name).await.ok().flatten();
        shown.and_then(|watch| watch.0.other_sentinels).is_some_and(|others| others as usize >= majority)
    });
    let found = found.await;
    site.look_at_sentinel(&order.sentinel, &order.name).await;
    if found {
        return Ok(());
    }
    Err(ExecuteError::NotVerified(format!("{sentinel} has not found a majority of the others again yet")))
}

/// Makes the Sentinels replace a primary that is not in service any more.
///
/// # Errors
/// A failover runs already, or the named primary is one; or nobody took over in time.
pub async fn failover<W: World>(site: &Site<W>, observed: &Observed, order: &SentinelName) -> Result<(), ExecuteError> {
    let (sentinel, _) = site.sentinel_target(&order.sentinel)?;
    let before = match watch(site, &order.sentinel, &order.name).await? {
        None => return Err(ExecuteError::ExpectationFailed(format!("{sentinel} to watch {}", order.name))),
        Some(watch) if watch.is_busy() => {
            return Err(ExecuteError::ExpectationFailed(format!("{sentinel} to be in no failover")));
        }
        Some(watch) => watch,
    };
    let targets = site.all_targets();
    let over = targets.iter().find(|(_, _, target)| before.names(target));
    // One that was silent is not asked for as long as a deadline takes: that it is dead is the guard's evidence.
    if let Some((uid, name, target)) = over
        && super::answering(site).iter().any(|(other, _)| other == uid)
        && is_primary(site, target).await
    {
        return Err(ExecuteError::ExpectationFailed(format!("{name} to be no primary")));
    }
    site.send_sentinel(&order.sentinel, Command::SentinelFailover(order.name.clone())).await?;
    let end = site.world.monotonic() + FAILOVER_LIMIT;
    loop {
        let now = watch(site, &order.sentinel, &order.name).await.ok().flatten();
        let heir = now.and_then(|now| targets.iter().find(|(_, _, target)| now.names(target) && !before.names(target)));
        if let Some((uid, _, target)) = heir
            && is_primary(site, target).await
        {
            let member = member(observed, uid)?;
            site.look_at_sentinel(&order.sentinel, &order.name).await;
            let change = |ledger: &mut Ledger| ledger.set_last_primary(member);
            return Ok(site.store.appoint(&observed.ledger.last_primary, change).await?);
        }
        if site.world.monotonic() >= end {
            return Err(ExecuteError::NotVerified(format!("{sentinel} names no new primary yet")));
        }
        site.world.sleep(super::POLL).await;
    }
}
