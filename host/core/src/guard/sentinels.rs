//! Rule 9: Sentinels are few, and what they decide needs a majority of them. None is taken out of service while that would leave
//! too few, or while they move a primary.
//!
//! # Guarantees
//! 1. One Sentinel at a time forgets, is reset or restarts, and a majority of all answers without it.
//! 2. No monitor is removed or reset while a failover of this instance runs.
//! 3. Sentinels are told to fail over only when the primary that they name is certain not to serve, and a synced replica can be
//!    chosen.
//! 4. A Sentinel watches the accepted primary, or the one that this track has just made: replicas that it finds elsewhere it
//!    would re-parent.
//! 5. What they are told are numbers, and a quorum that they can reach.

use vko_wit::common::Pair;
use vko_wit::observation::{Monitor, Reach, Role, Sentinel, Upstream};
use vko_wit::planning::{Operation, SentinelMonitor, Step};

use super::View;
use super::evidence::{ANSWER_AGE_MAX_MS, node_is_lost};

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    match &step.operation {
        Operation::Evict(pod) => match view.sentinel_in(pod) {
            Some(sentinel) => check_removal(sentinel, view),
            None => Ok(()),
        },
        Operation::Unmonitor(name) | Operation::ResetMonitor(name) => check_removal(answering(&name.sentinel, view)?, view),
        Operation::SetMonitor(options) => {
            answering(&options.sentinel, view)?;
            check_values(&options.options, view)
        }
        Operation::Monitor(monitor) => check_monitor(monitor, view),
        Operation::SentinelFailover(name) => check_failover(&name.sentinel, &name.name, view),
        _ => Ok(()),
    }
}

/// A Sentinel that answers now.
fn answering<'a>(id: &str, view: &View<'a>) -> Result<&'a Sentinel, String> {
    let sentinel = view.observed.sentinels.iter().find(|sentinel| sentinel.id == id && !id.is_empty());
    let sentinel = sentinel.ok_or_else(|| format!("no Sentinel of this instance has the id {id}"))?;
    if answers(sentinel) { Ok(sentinel) } else { Err(format!("{} does not answer now", name_of(sentinel, view))) }
}

fn answers(sentinel: &Sentinel) -> bool {
    matches!(sentinel.reach, Reach::Answered) && sentinel.age <= ANSWER_AGE_MAX_MS
}

fn name_of(sentinel: &Sentinel, view: &View<'_>) -> String {
    match &sentinel.pod {
        Upstream::Pod(uid) => view.name(uid),
        _ => format!("the Sentinel {}", sentinel.id),
    }
}

/// Whether a failover runs by that monitor's word.
fn fails_over(monitor: &Monitor) -> bool {
    !matches!(monitor.failover_state.as_str(), "" | "none" | "no-failover")
}

/// Out of service for a while: the rest must be a majority of all, and nothing may be under way.
fn check_removal(sentinel: &Sentinel, view: &View<'_>) -> Result<(), String> {
    if let Some(other) = view.other_sentinel_disturbed(&sentinel.id) {
        return Err(format!("the Sentinel {other} is taken out of service by this plan already"));
    }
    check_no_failover(view)?;
    let all = &view.observed.sentinels;
    let rest = all.iter().filter(|other| other.id != sentinel.id && answers(other)).count();
    // The monitor of the last ones can't be mended in any other way than by removing it: nobody counts on them.
    if answers(sentinel) && rest * 2 <= all.len() {
        return Err(format!("only {rest} of {} Sentinels would be left", all.len()));
    }
    Ok(())
}

fn check_no_failover(view: &View<'_>) -> Result<(), String> {
    match view.failover_under_way() {
        None => Ok(()),
        Some(sentinel) => Err(format!("{} is in the middle of a failover", name_of(sentinel, view))),
    }
}

/// Options are whole numbers above 0, and a quorum is one that the Sentinels can reach. (Which options there are is rule 6's.)
fn check_values(options: &[Pair], view: &View<'_>) -> Result<(), String> {
    options.iter().try_for_each(|option| match (option.key.as_str(), option.value.parse::<u32>()) {
        (_, Err(_) | Ok(0)) => Err(format!("{} '{}' is no whole number above 0", option.key, option.value)),
        ("quorum", Ok(quorum)) => check_quorum(quorum, view),
        _ => Ok(()),
    })
}

fn check_quorum(quorum: u32, view: &View<'_>) -> Result<(), String> {
    let all = u32::try_from(view.observed.sentinels.len()).unwrap_or(u32::MAX);
    if (1..=all).contains(&quorum) { Ok(()) } else { Err(format!("a quorum of {quorum} of {all} Sentinels")) }
}

fn check_monitor(monitor: &SentinelMonitor, view: &View<'_>) -> Result<(), String> {
    answering(&monitor.sentinel, view)?;
    check_quorum(monitor.quorum, view)?;
    check_values(&monitor.options, view)?;
    let Some(primary) = view.pod(&monitor.primary) else { return Ok(()) };
    if view.becomes_primary(&primary.uid) || view.is_accepted_primary(primary) {
        return Ok(());
    }
    Err(format!("{} is not the primary that the ledger names, or does not answer as one", primary.name))
}

fn check_failover(id: &str, name: &str, view: &View<'_>) -> Result<(), String> {
    let sentinel = answering(id, view)?;
    let Some(monitor) = sentinel.monitors.iter().find(|monitor| monitor.name == name) else {
        return Err(format!("{} does not monitor {name}", name_of(sentinel, view)));
    };
    if view.sentinels_choose() {
        return Err("the Sentinels choose a primary already".into());
    }
    check_no_failover(view)?;
    check_majority(view)?;
    let Upstream::Pod(primary) = &monitor.primary else {
        return Err(format!("{} names a primary that is no pod of this instance", name_of(sentinel, view)));
    };
    check_primary_over(primary, view)?;
    let able = |pod: &&vko_wit::observation::Pod| {
        let stays = pod.uid != *primary && pod.terminating_for == 0 && !node_is_lost(pod);
        let follows = |facts: &&vko_wit::observation::ServerFacts| {
            matches!(&facts.role, Role::Replica(link) if link.priority > 0) && view.is_synced(facts)
        };
        stays && view.answers(&pod.uid).filter(follows).is_some()
    };
    if view.members().any(|pod| able(&pod)) { Ok(()) } else { Err("no synced replica answers that could be chosen".into()) }
}

/// What the Sentinels name must be certain not to serve: a plain failover loses every write that the old primary still takes.
fn check_primary_over(uid: &str, view: &View<'_>) -> Result<(), String> {
    let Some(pod) = view.pod(uid) else { return Ok(()) };
    if view.is_primary(uid) {
        return Err(format!("{} answers as a primary: only a hand-over may take its role", pod.name));
    }
    if view.is_dead(pod) || view.is_held(uid) || view.is_replica(uid) {
        return Ok(());
    }
    Err(format!("{} is not proven dead: silent is for the Sentinels to judge", pod.name))
}

/// A majority answers, and none that answers has lost its sense of time.
fn check_majority(view: &View<'_>) -> Result<(), String> {
    let all = &view.observed.sentinels;
    let (answering, tilted) = (all.iter().filter(|s| answers(s)).count(), all.iter().find(|s| answers(s) && s.tilt));
    if answering * 2 <= all.len() {
        return Err(format!("{answering} of {} Sentinels answer", all.len()));
    }
    match tilted {
        None => Ok(()),
        Some(sentinel) => Err(format!("{} is in TILT mode", name_of(sentinel, view))),
    }
}

impl<'a> View<'a> {
    /// The Sentinel in a pod.
    pub(super) fn sentinel_in(&self, pod: &str) -> Option<&'a Sentinel> {
        self.observed.sentinels.iter().find(|sentinel| matches!(&sentinel.pod, Upstream::Pod(uid) if uid == pod))
    }

    /// A Sentinel that says now that it moves a primary of this instance.
    pub(super) fn failover_under_way(&self) -> Option<&'a Sentinel> {
        let ours = |sentinel: &&Sentinel| {
            sentinel.monitors.iter().filter(|monitor| monitor.name == self.monitor_name(sentinel)).any(fails_over)
        };
        self.observed.sentinels.iter().filter(|sentinel| answers(sentinel)).find(ours)
    }

    /// The one name under which a Sentinel may watch this instance: its own Sentinels serve nobody else, referenced ones may.
    pub(super) fn monitor_name(&self, sentinel: &Sentinel) -> String {
        let instance = &self.observed.instance;
        match &sentinel.pod {
            Upstream::Pod(_) => vko_api::names::MONITOR.into(),
            _ => vko_api::names::shared_monitor(&instance.namespace, &instance.name),
        }
    }

    /// Whom a majority of all Sentinels names as the primary now; `None` if no majority agrees.
    pub(super) fn named_by_majority(&self) -> Option<&'a Upstream> {
        let all = &self.observed.sentinels;
        let named = |sentinel: &&'a Sentinel| {
            let name = self.monitor_name(sentinel);
            sentinel.monitors.iter().find(|monitor| monitor.name == name).map(|monitor| &monitor.primary)
        };
        let names: Vec<&Upstream> = all.iter().filter(|sentinel| answers(sentinel)).filter_map(|s| named(&s)).collect();
        names.iter().copied().find(|name| names.iter().filter(|other| *other == name).count() * 2 > all.len())
    }
}
