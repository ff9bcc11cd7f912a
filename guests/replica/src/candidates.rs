//! Who could become the primary, and what data may still come back.
//!
//! # Guarantees
//! 1. A candidate answers now, on fresh facts; it isn't loading, syncing or terminating, and its node is there.
//! 2. Offsets are compared within one lineage only.
//! 3. What may hold data counts as holding it until it answers or is gone.

use vko_sdk::observation::{DataOrigin, FenceRecord, NodeState, Pod, Reach, Role, ServerFacts, Upstream};

use crate::primary::FENCE_MARGIN_MS;
use crate::view::{IN_FLIGHT_BYTES, Member, Standing, View, link_down_for};

/// What a user of this policy as a library may prefer.
pub struct Preferences<'p> {
    /// Pods that shall not become the primary while another candidate exists. It chooses among copies that are equally safe in
    /// kind (streamed to the end, say), not in offset: the one that it picks may lack a few writes that the other one has.
    pub may_promote: &'p dyn Fn(&Pod) -> bool,
}

impl Default for Preferences<'_> {
    fn default() -> Self {
        Self { may_promote: &|_| true }
    }
}

/// Whether a member can take the primary role at all, whatever it holds.
pub fn eligible(member: &Member<'_>) -> bool {
    let node = member.pod.is_some_and(|p| matches!(p.node_state, NodeState::Alive | NodeState::Silent | NodeState::Unknown));
    let replica = matches!(member.standing, Standing::Replica(_, link) if !link.syncing);
    replica && node && member.fresh() && !member.terminating()
}

/// Whether a member's data set carries the newest lineage of the ledger, as far as the ledger knows it to reach.
pub fn in_lineage(view: &View<'_>, facts: &ServerFacts) -> bool {
    view.newest_lineage().is_some_and(|newest| {
        facts.replid == newest.replid && facts.offset > 0 && facts.offset.saturating_add(IN_FLIGHT_BYTES) >= newest.best_offset
    })
}

/// Whether a member streamed from the last primary to the end: its data is what the primary's was, but for what was in flight.
pub fn promotable(view: &View<'_>, member: &Member<'_>) -> bool {
    let Standing::Replica(facts, link) = member.standing else { return false };
    if !eligible(member) || !in_lineage(view, facts) {
        return false;
    }
    if fell_behind(view, member, facts) {
        return false;
    }
    // Its data came by a full sync in this run. That may be long ago.
    facts.origin == DataOrigin::Sync
        || match link.primary {
            // It was synced in this run: the probe says so.
            Upstream::Pod(_) | Upstream::Other(_) => member.ready(),
            // It follows nobody: it counts if it was detached, not restarted.
            Upstream::Nobody => ran_through(view, member, facts),
        }
}

/// Whether a replica's link broke (before it was detached, if it was) while the last primary served on, so that it lacks what was
/// written since. What a fence lets through meanwhile is within the bound for lost writes; without one the two moments must
/// agree.
fn fell_behind(view: &View<'_>, member: &Member<'_>, facts: &ServerFacts) -> bool {
    let Some(down) = link_down_for(facts) else { return false };
    let broke = view.observed.now.saturating_sub(member.server.map_or(0, |s| s.age)).saturating_sub(down);
    let fence = view.last.and_then(|l| view.observed.ledger.fences.iter().find(|f| f.pod == l.pod && f.min_replicas > 0));
    let tolerated = fence.map_or(FENCE_MARGIN_MS, |f| f.max_lag.saturating_add(FENCE_MARGIN_MS));
    match last_word(view) {
        Some((_, served)) if served.replid == facts.replid && served.offset <= facts.offset => false,
        Some((heard, _)) => broke.saturating_add(tolerated) < heard,
        // Nobody knows until when it served. A fence on record says that replicas were in sync when it was last looked at.
        None if fence.is_some() => false,
        // It served no longer than until its server was started again.
        None => restarted(view).filter(|at| broke < *at).map_or(down > tolerated, |at| broke.saturating_add(tolerated) < at),
    }
}

/// When (Unix ms) the last primary's server was started that runs in its pod now and follows nobody. Uptimes are whole seconds:
/// it may have been a second earlier.
fn restarted(view: &View<'_>) -> Option<u64> {
    let last = view.last_member().filter(|m| m.unnamed() && m.uid() == view.last.map(|l| l.pod.as_str()))?;
    let (server, facts) = (last.server?, last.facts_known()?);
    Some(view.observed.now.saturating_sub(server.age).saturating_sub(facts.uptime))
}

/// When the last primary was last heard as such (Unix ms), and what it said.
fn last_word<'a>(view: &View<'a>) -> Option<(u64, &'a ServerFacts)> {
    let member = view.last_member().filter(|m| m.uid() == view.last.map(|l| l.pod.as_str()))?;
    let facts = member.facts_known().filter(|f| f.role == Role::Primary)?;
    Some((view.observed.now.saturating_sub(member.server?.age), facts))
}

/// Whether a server that follows nobody was detached rather than restarted: it runs since before the last primary fell silent,
/// since before the detaching that a fence records, or since before the last primary was fenced. (The record of the detaching
/// comes after the detaching: where the primary is back between the two, or the operator ended there, only the fence is left.)
fn ran_through(view: &View<'_>, member: &Member<'_>, facts: &ServerFacts) -> bool {
    let now = view.observed.now;
    let age = member.server.map_or(0, |s| s.age);
    let started = now.saturating_sub(age).saturating_sub(facts.uptime);
    let ran = |f: &FenceRecord| {
        let detached = f.detached_at > 0 && started < f.detached_at.min(f.detached_at_written);
        detached || view.last.is_some_and(|l| l.pod == f.pod) && started < f.set_at
    };
    let silent = || view.members.iter().filter_map(|m| silent_since(view, m)).any(|since| started < since);
    view.observed.ledger.fences.iter().any(ran) || silent()
}

/// Since when (Unix ms) a fenced member is silent; if that began before this operator looked, the moment when the fence was set
/// must do.
fn silent_since(view: &View<'_>, member: &Member<'_>) -> Option<u64> {
    let (Standing::Silent(facts), Some(Reach::Silent(lasting))) = (member.standing, member.server.map(|s| &s.reach)) else {
        return None;
    };
    let fence = crate::primary::fence_of(view, member, facts)?;
    let witnessed = facts.is_some() && *lasting < view.observed.environment.looking_for;
    Some(if witnessed { view.observed.now.saturating_sub(*lasting) } else { fence.set_at })
}

/// The best of some members: those that people want before those that are to go, those that are preferred before others, then the
/// highest offset, the most keys, the lowest ordinal. Give it members of one lineage, or of none.
pub fn best<'v, 'a>(view: &View<'a>, among: &[&'v Member<'a>], preferences: &Preferences<'_>) -> Option<&'v Member<'a>> {
    let rank = |m: &&&'v Member<'a>| {
        let wanted = m.ordinal < view.wanted();
        let preferred = m.pod.is_some_and(|p| (preferences.may_promote)(p));
        let (offset, keys) = m.facts_now().map_or((0, 0), |f| (f.offset, f.keys));
        (wanted, preferred, offset, keys, std::cmp::Reverse(m.ordinal))
    };
    among.iter().max_by_key(rank).copied()
}

/// Whether a member that doesn't answer on fresh facts may hold data that can come back.
pub fn may_return(view: &View<'_>, member: &Member<'_>) -> bool {
    match member.standing {
        Standing::Primary(_) | Standing::Replica(..) => !member.fresh(),
        Standing::Loading { .. } | Standing::Refusing(_) | Standing::Silent(_) => true,
        Standing::Starting | Standing::Dead | Standing::Absent => claim_returns(view, member) || pod_returns(view, member),
    }
}

/// A claim whose place will have a pod again, on a volume that isn't gone with its node. Claims beyond the workload are left over
/// from members that were removed while the data set was whole.
fn claim_returns(view: &View<'_>, member: &Member<'_>) -> bool {
    let there = member.claim.is_some_and(|c| c.node_exists != Some(false) && c.phase != "Lost");
    there && member.ordinal < view.current.max(view.spec.replicas)
}

/// A pod without a claim keeps its data over a restart of its container. A pod that the ledger doesn't know and that never
/// restarted is new: it holds nothing.
fn pod_returns(view: &View<'_>, member: &Member<'_>) -> bool {
    let (Some(pod), None) = (member.pod, member.claim) else { return false };
    let node = !matches!(pod.node_state, NodeState::Gone | NodeState::OutOfService);
    let restarts = !matches!(pod.phase.as_str(), "Failed" | "Succeeded") && pod.terminating_for == 0;
    let known = view.observed.ledger.members.iter().any(|m| m.pod == pod.uid) || view.last.is_some_and(|l| l.pod == pod.uid);
    node && restarts && (known || pod.restarts > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    type Change = fn(&mut Scene) -> &mut Scene;

    #[test]
    fn who_is_promotable() {
        // Member 1 after the primary died, unless the case says otherwise.
        let table: &[(&str, Change, bool)] = &[
            ("synced, primary dead", |s| s.kill(0), true),
            ("link down", |s| s.kill(0).unlink(1), true),
            ("not ready, but its data came by a sync", |s| s.kill(0).unready(1), true),
            ("syncing", |s| s.kill(0).set_syncing(1), false),
            ("loading", |s| s.kill(0).load(1, true), false),
            ("silent", |s| s.kill(0).silence(1), false),
            ("facts too old", |s| s.kill(0).age(1, 3_001), false),
            ("terminating", |s| s.kill(0).terminate(1), false),
            ("its node is gone", |s| s.kill(0).lose_node(1), false),
            ("another lineage", |s| s.kill(0).facts(1, |f| f.replid = "foreign".into()), false),
            ("an older lineage", |s| s.kill(0).older_lineage("before").facts(1, |f| f.replid = "before".into()), false),
            ("never synced", |s| s.kill(0).facts(1, |f| f.offset = 0), false),
            ("far behind what is known to exist", |s| s.kill(0).best_offset(1_000 + IN_FLIGHT_BYTES + 1), false),
            ("behind by what may be in flight", |s| s.kill(0).best_offset(1_000 + IN_FLIGHT_BYTES), true),
            ("restarted: follows nobody", |s| s.kill(0).restart(1, "snapshot"), false),
            (
                "restarted under the dead one, never linked since",
                |s| s.kill(0).restart(1, "snapshot").follow(1, 0).unready(1),
                false,
            ),
            ("detached under a silent, fenced primary", |s| s.fence(0, 1).silence(0).detach(1), true),
            ("restarted under a silent, fenced primary", |s| s.fence(0, 1).silence(0).restart(1, "snapshot"), false),
            (
                "detached, but its link broke an hour before",
                |s| s.fence(0, 1).silence(0).detach(1).link_down(1, 3_600_000),
                false,
            ),
            ("detached, which broke its link", |s| s.fence(0, 1).silence(0).detach(1).link_down(1, 9_000), true),
            ("detached; the operator is new", |s| s.fence(0, 1).silence(0).unhear(0).detach(1), true),
            (
                "restarted after the fence was set; the operator is new",
                |s| s.fence(0, 1).silence(0).unhear(0).restart(1, "snapshot"),
                false,
            ),
            ("its link broke an hour before the primary died", |s| s.kill(0).link_down(1, 3_600_000), false),
            ("its link broke when the primary died", |s| s.kill(0).link_down(1, 1_000), true),
            ("the same, the operator is new", |s| s.kill(0).unhear(0).link_down(1, 60_000), true),
            (
                "an hour ago; the operator is new, no replica was in sync",
                |s| s.kill(0).unhear(0).forget_fences().link_down(1, 60_000),
                false,
            ),
            (
                "an hour ago, but nothing was written since",
                |s| s.kill(0).link_down(1, 3_600_000).facts(1, |f| f.offset = 1_000),
                true,
            ),
            (
                "the primary restarted; nobody was in sync",
                |s| s.forget_fences().restart(0, "snapshot").link_down(1, 60_000),
                false,
            ),
            ("the primary restarted, which broke its link", |s| s.forget_fences().restart(0, "empty").link_down(1, 6_000), true),
            (
                "its link broke three seconds before the primary restarted",
                |s| s.forget_fences().restart(0, "empty").link_down(1, 8_500),
                false,
            ),
            ("shortly before it fell silent behind a fence", |s| s.silence(0).link_down(1, 26_000), true),
            ("shortly before it died without a fence", |s| s.unfence(0).kill(0).link_down(1, 5_000), false),
            (
                "restarted between the detaching and this operator's first look",
                |s| s.fence(0, 1).silence(0).unhear(0).restart(1, "snapshot").detached(0, 1_000).written_down(0, 8_000),
                false,
            ),
            ("detached, then the primary died", |s| s.fence(0, 1).silence(0).detach(1).detached(0, 8_000).kill(0), true),
            (
                "detached, and the primary is back before that was written down",
                |s| s.fence(0, 1).detach(1).restart(0, "empty"),
                true,
            ),
            (
                "the same, its data came by a partial sync",
                |s| s.fence(0, 1).detach(1).restart(0, "empty").facts(1, |f| f.origin = DataOrigin::Snapshot),
                true,
            ),
            (
                "the same, and it was restarted after the fence was set",
                |s| s.fence(0, 1).restart(0, "empty").restart(1, "snapshot"),
                false,
            ),
            (
                "the same, and no fence was set",
                |s| s.forget_fences().detach(1).restart(0, "empty").facts(1, |f| f.origin = DataOrigin::Snapshot),
                false,
            ),
            (
                "detached an hour ago without a fence; the primary is back",
                |s| s.forget_fences().detach(1).link_down(1, 3_600_000).restart(0, "empty"),
                false,
            ),
        ];
        for (case, change, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            let view = scene.view();
            assert_eq!(promotable(&view, &view.members[1]), *expected, "{case}");
        }
    }

    #[test]
    fn the_best_of_them() {
        let table: &[(&str, Change, u32)] = &[
            ("equal: the lowest ordinal", |s| s, 1),
            ("the highest offset", |s| s.facts(2, |f| f.offset = 2_000), 2),
            ("wanted before higher offset", |s| s.want(2).facts(2, |f| f.offset = 2_000), 1),
        ];
        for (case, change, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            let view = scene.view();
            let among: Vec<_> = view.members.iter().skip(1).collect();
            assert_eq!(best(&view, &among, &Preferences::default()).map(|m| m.ordinal), Some(*expected), "{case}");
        }
        let scene = Scene::healthy("x", 3);
        let view = scene.view();
        let among: Vec<_> = view.members.iter().skip(1).collect();
        let not_one = Preferences { may_promote: &|p| p.ordinal != 1 };
        assert_eq!(best(&view, &among, &not_one).map(|m| m.ordinal), Some(2), "preferred before lower ordinal");
        assert_eq!(best(&view, &among[..1], &not_one).map(|m| m.ordinal), Some(1), "the only one, though not preferred");
    }

    #[test]
    fn what_may_come_back() {
        let table: &[(&str, Change, bool)] = &[
            ("answers: it is judged by what it says", |s| s, false),
            ("answers on old facts", |s| s.age(1, 3_001), true),
            ("silent", |s| s.silence(1), true),
            ("container ended in a living pod", |s| s.kill(1), true),
            ("pod gone without a claim", |s| s.remove_pod(1), false),
            ("pod gone, claim stays", |s| s.with_claims().remove_pod(1), true),
            ("claim of a node that is gone", |s| s.with_claims().remove_pod(1).lose_volume(1), false),
            ("node gone, no claim", |s| s.lose_node(1), false),
            ("node gone, claim elsewhere", |s| s.with_claims().lose_node(1), true),
            ("a new pod that starts, no claim", |s| s.replace_pod(1).wait_start(1), false),
            ("terminating and ended, no claim", |s| s.terminate(1).kill(1), false),
            ("a claim beyond the workload", |s| s.with_claims().remove_pod(2).want(2).shrink(2), false),
        ];
        for (case, change, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            let view = scene.view();
            let member = if case.contains("beyond") { 2 } else { 1 };
            assert_eq!(may_return(&view, &view.members[member]), *expected, "{case}");
        }
    }
}
