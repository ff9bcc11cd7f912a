//! Succession under Sentinels: nobody answers as a primary, and the instance was complete before.
//!
//! # Guarantees
//! 1. A failover that Sentinels carry out, or are about to, has one owner: nothing is done to the role meanwhile.
//! 2. A primary that may merely be silent is replaced by Sentinels alone.
//! 3. One that is certainly none any more (ended, gone, back following nobody) is replaced at once: by a failover at a Sentinel,
//!    if its choice would be a copy that streamed to the end; else by the operator, on the evidence that the replica architecture
//!    asks for.
//! 4. The operator goes on without Sentinels only when they can't act: too few of them run.
//!
//! # Assumptions
//! Sentinels choose by priority, then offset, then run id, whatever the lineage. They begin a failover within seconds after they
//! agree that the primary is down, or not for a long time.
//!
//! # Flow
//! 1. While a failover is [`under_way`], wait.
//! 2. What the group can do ([`Power`]). A majority: [`by_sentinels`]. Silent ones: wait, or go by consent. Coming ones: wait for
//!    a minute. None: as in the replica architecture.
//! 3. After a promotion by the operator, [`crate::monitors`] points the Sentinels at the new primary.

use std::cmp::Reverse;

use vko_replica::Preferences;
use vko_replica::candidates::promotable;
use vko_replica::consent;
use vko_replica::decision::{AT_ONCE_MS, BY_ITSELF, Cause as DataCause, PRIMARY, SOON_MS, bound_step, promote};
use vko_replica::promotion::{self, Choice, choose, clear, loss_token};
use vko_replica::view::{Member, Standing, View, link_down_for};
use vko_sdk::lookup::misses_in_a_row;
use vko_sdk::observation::{ContainerState, Monitor, OutcomeKind, Reach, ReplicaLink, ServerFacts, Upstream};
use vko_sdk::plan;
use vko_sdk::planning::{Expectation, Operation, SentinelEpochOf, SentinelName};

use crate::cause::{Block, Cause, Decision};
use crate::group::{Group, Power, Seat, State, Word};

/// Once Sentinels agree that the primary is down, they begin within a second or two. What they haven't begun after this long (ms)
/// they don't begin for a long time: an attempt failed, and the next one waits for twice the failover timeout.
pub const TURN_MS: u64 = 15_000;
/// How long (ms) Sentinels that start again are waited for.
pub const COMING_MS: u64 = 60_000;
/// An accepted order shows in what the Sentinels say within this time (ms).
const ORDER_MS: u64 = 5_000;
/// After so many orders in a row that a Sentinel didn't carry out, the operator acts itself.
const REFUSALS_MAX: usize = 3;

/// Whether Sentinels move the role or are about to; what it is, for a person. `primary`: the accepted one.
pub fn under_way(view: &View<'_>, group: &Group<'_>, primary: Option<&Member<'_>>) -> Option<String> {
    if let Some(seat) = group.mover() {
        let state = seat.monitor.map_or("", |m| &m.failover_state);
        return Some(format!("Sentinel {} carries out a failover ({state})", seat.name));
    }
    let down =
        |named: &dyn Fn(&Monitor) -> bool| group.seats.iter().find(|s| s.monitor.is_some_and(|m| m.objectively_down && named(m)));
    match primary.and_then(Member::uid) {
        None if group.busy().is_some() => Some("the Sentinels are about to finish a failover".into()),
        Some(uid) => {
            let seat = down(&|m| matches!(&m.primary, Upstream::Pod(named) if named == uid))?;
            Some(format!("by Sentinel {} the Sentinels agree that the primary is down: they are about to replace it", seat.name))
        }
        None => {
            let ordered = view.observed.recent.iter().any(|o| {
                o.operation == "sentinel-failover" && o.outcome == OutcomeKind::Done && o.age < ORDER_MS && o.subject == PRIMARY
            });
            if ordered {
                return Some("a Sentinel was asked for a failover a moment ago".into());
            }
            let seat = down(&|_| true)?;
            let turn = outage_ms(view).is_some_and(|ms| ms < group.down_after_ms.saturating_add(TURN_MS));
            turn.then(|| {
                format!("by Sentinel {} the Sentinels agree that the primary is down: they choose another one", seat.name)
            })
        }
    }
}

/// What to do while nobody answers as a primary.
pub fn succeed(view: &View<'_>, group: &Group<'_>, preferences: &Preferences<'_>) -> Decision {
    if view.failover_under_way() {
        return promotion::succeed(view, preferences).widen();
    }
    if let Some(decision) = successor(view, group) {
        return decision;
    }
    match group.power() {
        Power::Majority => by_sentinels(view, group, preferences),
        Power::Silent(names) => {
            let message = format!("{names}: no answer, which is not dead; with them the Sentinels may move the role unseen");
            let remedy = "bring the Sentinels back into reach, or make their end certain: delete their pods and see them gone; or give \
                          the consent, if it is certain that no failover goes on";
            by_consent(view, Block::new(PRIMARY, Cause::SentinelsSilent, message, remedy), preferences)
        }
        Power::Coming(names) if outage_ms(view).is_none_or(|ms| ms < COMING_MS) => {
            let message = format!("{names}: starting again; with them the Sentinels are a majority and decide");
            Decision::wait(Block::new(PRIMARY, Cause::SentinelsComing, message, BY_ITSELF))
        }
        Power::Coming(_) | Power::Lost => by_data(view, group, preferences),
    }
}

/// Somebody else than the last primary is called the primary, and nothing proves that wrong yet.
fn successor(view: &View<'_>, group: &Group<'_>) -> Option<Decision> {
    let named = view.named().filter(|m| view.last.is_none_or(|l| l.ordinal != m.ordinal))?;
    match group.judge(named) {
        Word::Disproved => None,
        Word::Unasked => Some(Decision::look(AT_ONCE_MS)),
        Word::Open => {
            let message = format!("the Sentinels call {} the primary, and it gives no answer that proves them wrong", named.name);
            Some(Decision::wait(Block::new(PRIMARY, Cause::SentinelsDecide, message, BY_ITSELF)))
        }
    }
}

/// As in the replica architecture, on the data alone. A member that gives no answer may have been made the primary by Sentinels,
/// unless most of them say whom they made it.
fn by_data(view: &View<'_>, group: &Group<'_>, preferences: &Preferences<'_>) -> Decision {
    let decision = promotion::succeed(view, preferences);
    let promotes = decision.tracks.iter().any(|t| t.subject == PRIMARY);
    match unseen(view).filter(|_| promotes && group.agreed().is_none()) {
        None => decision.widen(),
        Some(member) => Decision::wait(nobody_says(member)),
    }
}

/// A member that may run, gives no answer and so may be a primary.
fn unseen<'v, 'a>(view: &'v View<'a>) -> Option<&'v Member<'a>> {
    view.members.iter().find(|m| match m.standing {
        Standing::Absent | Standing::Dead | Standing::Primary(_) | Standing::Replica(..) => false,
        Standing::Starting => m.pod.is_some_and(|p| p.container != ContainerState::Starting && !p.addresses.is_empty()),
        Standing::Loading { .. } | Standing::Refusing(_) | Standing::Silent(_) => true,
    })
}

fn nobody_says(member: &Member<'_>) -> Block {
    let message = format!("{} gives no answer, and no majority of the Sentinels says whom they made the primary", member.name);
    let remedy = "bring that member or a majority of the Sentinels back into reach, or make its end certain: delete its pod and see it gone";
    Block::new(PRIMARY, Cause::SentinelsSilent, message, remedy)
}

/// A majority of the Sentinels can act.
fn by_sentinels(view: &View<'_>, group: &Group<'_>, preferences: &Preferences<'_>) -> Decision {
    let Choice::Promote { member, .. } = choose(view, preferences) else {
        return theirs(group, promotion::succeed(view, preferences).widen());
    };
    if let Some(obstacle) = clear(view, member) {
        return theirs(group, obstacle.widen());
    }
    let refused = misses_in_a_row(view.observed, "sentinel-failover", PRIMARY) >= REFUSALS_MAX;
    // Where their words differ, a member that gives no answer may be the primary of some of them.
    let one_word = unseen(view).is_none() || group.agreed().is_some();
    if let Some(wait) = hesitate(view, group) {
        return wait;
    }
    let order = if promotable(view, member) && !refused && one_word { order(view, group) } else { None };
    order.unwrap_or_else(|| by_data(view, group, preferences))
}

/// Why Sentinels that can act aren't passed over yet, although no order can be given: their answers are merely old, or one
/// doesn't trust its clock, which keeps the others from nothing. A promotion beside theirs would make two primaries.
fn hesitate(view: &View<'_>, group: &Group<'_>) -> Option<Decision> {
    if !group.majority_without(None) {
        return Some(Decision::look(AT_ONCE_MS));
    }
    let tilted = group.seats.iter().find(|s| s.state == State::Tilt)?;
    let turn = outage_ms(view).is_none_or(|ms| ms < group.down_after_ms.saturating_add(TURN_MS));
    turn.then(|| {
        let message = format!(
            "the primary is lost for certain; Sentinel {} is in TILT, so none is told to replace it: the others do so by themselves",
            tilted.name
        );
        Decision::wait(Block::new(PRIMARY, Cause::SentinelsDecide, message, BY_ITSELF))
    })
}

/// What is waited for where a primary may merely be silent: the Sentinels' judgement.
fn theirs(group: &Group<'_>, mut decision: Decision) -> Decision {
    let able = group.seats.iter().filter(|s| s.state == State::Answers && s.monitor.is_some()).count();
    for block in decision.blocks.iter_mut().filter(|b| b.cause == Cause::Data(DataCause::PrimarySilent)) {
        if able < usize::try_from(group.quorum).unwrap_or(usize::MAX) {
            let message =
                format!("{}; {able} Sentinel(s) watch it, and {} must agree that it is down", block.message, group.quorum);
            let remedy = format!("bring the other Sentinels back, or lower the quorum; or {}", block.remedy);
            *block = Block::new(&block.subject, Cause::QuorumOutOfReach, message, &remedy);
            continue;
        }
        let after = group.down_after_ms;
        let message =
            format!("{}; the Sentinels decide, {after} ms after its last answer to them at the earliest", block.message);
        *block = Block::new(&block.subject, Cause::SentinelsDecide, message, BY_ITSELF);
    }
    decision
}

/// A failover at the first Sentinel that would choose a copy which streamed to the end. A majority must answer at this moment,
/// and none of them be in TILT.
fn order(view: &View<'_>, group: &Group<'_>) -> Option<Decision> {
    if !group.majority_without(None) || group.seats.iter().any(|s| s.state == State::Tilt) {
        return None;
    }
    let pick = |seat: &Seat<'_>| {
        let (id, monitor) = (seat.steerable()?.to_owned(), seat.monitor.filter(|m| names_a_lost_one(view, m))?);
        let taken = choice_of(view, monitor).filter(|m| promotable(view, m))?;
        Some((id, monitor.config_epoch, seat.name.clone(), taken.ordinal))
    };
    let (sentinel, epoch, seat, ordinal) = group.seats.iter().find_map(pick)?;
    let taken = view.members.iter().find(|m| m.ordinal == ordinal)?;
    let name = group.name.clone();
    let reason = format!("the primary is lost for certain; Sentinel {seat} shall replace it now, by {} as it seems", taken.name);
    let operation = Operation::SentinelFailover(SentinelName { sentinel: sentinel.clone(), name: name.clone() });
    let mut step = bound_step(view, taken, operation, reason);
    step.expects.push(Expectation::SentinelEpoch(SentinelEpochOf { sentinel, name, epoch }));
    Some(Decision { look_again: SOON_MS, ..Decision::act(plan::track(PRIMARY, vec![step])) })
}

/// Whether a Sentinel names a member as the primary that has ended, or says now that it is none, or a pod of this instance that
/// is gone. An address of which nobody remembers whose it was isn't known to be lost: the operator promotes by itself then.
fn names_a_lost_one(view: &View<'_>, monitor: &Monitor) -> bool {
    let Upstream::Pod(uid) = &monitor.primary else { return false };
    view.by_pod(uid).is_none_or(|m| m.standing == Standing::Dead || (matches!(m.standing, Standing::Replica(..)) && m.fresh()))
}

/// Whom a Sentinel would promote: of the replicas that it knows and can reach the one of the lowest priority number (0 is never
/// chosen), the highest offset, the lowest run id.
fn choice_of<'v, 'a>(view: &'v View<'a>, monitor: &Monitor) -> Option<&'v Member<'a>> {
    let leads = |uid: &str| matches!(&monitor.primary, Upstream::Pod(pod) if pod == uid);
    let knows = |uid: &str| monitor.replicas.iter().any(|r| !r.down && matches!(&r.pod, Upstream::Pod(pod) if pod == uid));
    let known = view.members.iter().filter(|m| m.uid().is_some_and(|uid| knows(uid) && !leads(uid)));
    let able = known.filter_map(|m| link(m).filter(|(_, link)| link.priority > 0).map(|(facts, link)| (m, facts, link)));
    let first = able.min_by_key(|(_, facts, link)| (link.priority, Reverse(facts.offset), facts.run_id.as_str()));
    first.map(|(member, ..)| member)
}

fn link<'a>(member: &Member<'a>) -> Option<(&'a ServerFacts, &'a ReplicaLink)> {
    match member.standing {
        Standing::Replica(facts, link) => Some((facts, link)),
        _ => None,
    }
}

/// Silent Sentinels may act: a person can say that they don't.
fn by_consent(view: &View<'_>, block: Block, preferences: &Preferences<'_>) -> Decision {
    let Choice::Promote { member, reason, consent, lost } = choose(view, preferences) else {
        return promotion::succeed(view, preferences).widen();
    };
    if clear(view, member).is_some() {
        return Decision::wait(block);
    }
    if let Some(member) = unseen(view) {
        return Decision::wait(nobody_says(member));
    }
    let token = loss_token(view, member, &[]);
    if !consent::given(view.observed, &token) {
        return Decision::wait(block.or_consent(token));
    }
    let used = if consent.is_empty() { token } else { consent };
    let reason = format!("a person consents to act without the Sentinels; {reason}");
    Decision { data_lost: lost, ..Decision::act(promote(view, member, reason, used)) }
}

/// How long (ms) nobody has led, by the shortest of what shows: replicas' broken links, the silence of the last primary.
pub fn outage_ms(view: &View<'_>) -> Option<u64> {
    let links = view.members.iter().filter_map(Member::facts_now).filter_map(link_down_for);
    let silence = view.last_member().and_then(|m| m.server).and_then(|s| match &s.reach {
        Reach::Silent(ms) => Some(*ms),
        _ => None,
    });
    links.chain(silence).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Watched;

    type Change = fn(&mut Watched) -> &mut Watched;

    #[test]
    fn who_moves_the_role() {
        // Three members, 0 is the primary, all with claims; three Sentinels at epoch 5.
        let table: &[(&str, Change, &str)] = &[
            ("the primary came back following nobody", |w| w.data(|s| s.restart(0, "snapshot")), "sentinel-failover sid-0"),
            ("it came back empty", |w| w.data(|s| s.restart(0, "empty")), "sentinel-failover sid-0"),
            ("its container ended", |w| w.data(|s| s.kill(0)), "sentinel-failover sid-0"),
            ("its pod is gone", |w| w.data(|s| s.remove_pod(0)), "sentinel-failover sid-0"),
            (
                "its pod is gone, and whose the address was nobody remembers",
                |w| w.says_stranger(0).says_stranger(1).says_stranger(2).data(|s| s.remove_pod(0)),
                "promote rfr-x-1",
            ),
            ("a Sentinel in tilt: the others have their turn", |w| w.tilt(2).data(|s| s.kill(0)), "wait SentinelsDecide"),
            ("the same, and they didn't take it", |w| w.tilt(2).data(|s| s.kill(0)).outage(21_000), "promote rfr-x-1"),
            (
                "too few answer in time for an order: they are asked again",
                |w| w.aged(0, 4_000).aged(1, 4_000).data(|s| s.kill(0)),
                "-",
            ),
            (
                "a member is silent, and the Sentinels' words differ",
                |w| w.says(0, 1, 5).says_stranger(1).data(|s| s.remove_pod(0).silence(2)),
                "wait SentinelsSilent",
            ),
            (
                "the same, and the dead one's pod is there",
                |w| w.says(0, 1, 5).says_stranger(1).data(|s| s.kill(0).silence(2)),
                "wait SentinelsSilent",
            ),
            ("a member is silent, and they agree on another", |w| w.data(|s| s.kill(0).silence(2)), "sentinel-failover sid-0"),
            (
                "the same, with no majority that says so",
                |w| w.drop_sentinel(0).drop_sentinel(1).data(|s| s.kill(0).silence(2)),
                "wait SentinelsSilent",
            ),
            ("it is silent", |w| w.data(|s| s.silence(0)), "wait SentinelsDecide"),
            (
                "it is silent, and those that answer are fewer than the quorum",
                |w| w.want_quorum(3).mute(2).data(|s| s.silence(0)),
                "wait QuorumOutOfReach",
            ),
            ("it answers with errors", |w| w.data(|s| s.refuse(0, "BUSY")), "wait SentinelsDecide"),
            ("a replica still hears it", |w| w.data(|s| s.remove_pod(0).hears_stranger(2)), "wait PrimaryStillHeard"),
            ("the first Sentinel is silent: the next one", |w| w.mute(0).data(|s| s.kill(0)), "sentinel-failover sid-1"),
            ("the first one's word is old", |w| w.aged(0, 4_000).data(|s| s.kill(0)), "sentinel-failover sid-1"),
            ("the first one knows no replica", |w| w.knows_none(0).data(|s| s.kill(0)), "sentinel-failover sid-1"),
            ("none knows a replica", |w| w.knows_none(0).knows_none(1).knows_none(2).data(|s| s.kill(0)), "promote rfr-x-1"),
            (
                "their choice would be a restarted copy",
                |w| w.data(|s| s.kill(0).restart(2, "snapshot").facts(2, |f| f.offset = 9_000)),
                "promote rfr-x-1",
            ),
            (
                "they never choose the only synced copy",
                |w| w.data(|s| s.kill(0).restart(1, "empty")).priority(2, 0),
                "promote rfr-x-2",
            ),
            ("priority goes before offset", |w| w.data(|s| s.kill(0).restart(1, "empty")).priority(1, 10), "promote rfr-x-2"),
            (
                "all restarted: the data decides",
                |w| w.data(|s| s.restart(0, "append-only-file").restart(1, "append-only-file").restart(2, "append-only-file")),
                "promote rfr-x-0",
            ),
            (
                "the only data is away",
                |w| w.data(|s| s.kill(0).restart(1, "empty").restart(2, "empty")),
                "wait DataMayReturn rfr-x-1",
            ),
            (
                "three orders were refused",
                |w| {
                    for _ in 0..3 {
                        w.recent("sentinel-failover", OutcomeKind::Failed("NOGOODSLAVE".into()), 9_000);
                    }
                    w.data(|s| s.kill(0))
                },
                "promote rfr-x-1",
            ),
            (
                "a hand-over hangs in the air",
                |w| w.data(|s| s.kill(0).facts(1, |f| f.failover_state = "failover-in-progress".into())),
                "wait HandOverUnderWay",
            ),
            ("two Sentinels are silent", |w| w.mute(0).mute(1).data(|s| s.kill(0)), "wait SentinelsSilent rfr-x-1"),
            ("the same by consent", |w| w.mute(0).mute(1).data(|s| s.kill(0).consent_to_all()), "promote rfr-x-1 by consent"),
            (
                "two are silent, and so is the primary: no consent helps",
                |w| w.mute(0).mute(1).data(|s| s.silence(0)),
                "wait SentinelsSilent",
            ),
            ("two start again", |w| w.restart_sentinel(0).restart_sentinel(1).data(|s| s.kill(0)), "wait SentinelsComing"),
            (
                "two start again, for over a minute now",
                |w| w.restart_sentinel(0).restart_sentinel(1).data(|s| s.silence(0).kill(0)).outage(61_000),
                "promote rfr-x-1",
            ),
            ("two are gone", |w| w.drop_sentinel(0).drop_sentinel(1).data(|s| s.kill(0)), "promote rfr-x-1"),
            (
                "two are gone, the primary is silent",
                |w| w.drop_sentinel(0).drop_sentinel(1).data(|s| s.unfence(0).silence(0)),
                "wait PrimarySilent",
            ),
            (
                "they call another one the primary, and it was asked before they said so",
                |w| w.says(0, 1, 6).says(1, 1, 6).says(2, 1, 6).data(|s| s.kill(0).age(1, 900)),
                "-",
            ),
            (
                "all have said so for longer than that: their answers only repeat it",
                |w| {
                    let w = w.says(0, 1, 6).says(1, 1, 6).says(2, 1, 6).data(|s| s.kill(0).age(1, 900));
                    w.word_age(0, 1_000).word_age(1, 1_000).word_age(2, 1_000)
                },
                "sentinel-failover sid-0",
            ),
            (
                "one of them says so only since then",
                |w| {
                    let w = w.says(0, 1, 6).says(1, 1, 6).says(2, 1, 6).data(|s| s.kill(0).age(1, 900));
                    w.word_age(0, 60_000).word_age(1, 60_000)
                },
                "-",
            ),
            (
                "it was asked since and is none",
                |w| w.says(0, 1, 6).says(1, 1, 6).says(2, 1, 6).data(|s| s.kill(0).age(1, 100)),
                "sentinel-failover sid-0",
            ),
            (
                "it is silent",
                |w| w.says(0, 1, 6).says(1, 1, 6).says(2, 1, 6).data(|s| s.kill(0).silence(1)),
                "wait SentinelsDecide",
            ),
            ("all came back knowing nothing", |w| w.blank(0).blank(1).blank(2).data(|s| s.kill(0)), "promote rfr-x-1"),
        ];
        for (case, change, expected) in table {
            let mut watched = Watched::healthy("x", 3);
            watched.data(|s| s.with_claims());
            change(&mut watched);
            assert_eq!(watched.decided(|view, group| succeed(view, group, &Preferences::default())), *expected, "{case}");
        }
    }

    #[test]
    fn an_order_is_bound_to_the_epoch_and_to_the_copy() {
        let mut watched = Watched::healthy("x", 3);
        watched.data(|s| s.kill(0));
        let view = watched.view();
        let decision = succeed(&view, &watched.group(), &Preferences::default());
        let expects = &decision.tracks[0].steps[0].expects;
        let epoch = SentinelEpochOf { sentinel: "sid-0".into(), name: "mymaster".into(), epoch: 5 };
        assert!(expects.contains(&Expectation::SentinelEpoch(epoch)), "{expects:?}");
        assert!(expects.contains(&plan::same_run("uid-x-1", "run-x-1")), "{expects:?}");
    }

    #[test]
    fn when_it_is_the_sentinels_turn() {
        let table: &[(&str, Change, bool)] = &[
            ("quiet", |w| w, false),
            ("one chooses a replica", |w| w.failing_over(1, "select_slave"), true),
            ("only replicas change over", |w| w.failing_over(1, "reconf_slaves"), false),
            ("they hold the serving primary for down", |w| w.objectively_down(0), true),
            ("one of a stale monitor does", |w| w.says_stranger(0).objectively_down(0), false),
            ("the primary is dead, nobody noticed yet", |w| w.data(|s| s.kill(0)), false),
            ("it is dead and they agree", |w| w.objectively_down(0).data(|s| s.kill(0)), true),
            ("they agreed long ago and do nothing", |w| w.objectively_down(0).data(|s| s.kill(0)).outage(46_000), false),
            ("one was asked a moment ago", |w| w.recent("sentinel-failover", OutcomeKind::Done, 1_000).data(|s| s.kill(0)), true),
            ("one was asked a while ago", |w| w.recent("sentinel-failover", OutcomeKind::Done, 6_000).data(|s| s.kill(0)), false),
        ];
        for (case, change, expected) in table {
            let mut watched = Watched::healthy("x", 3);
            change(&mut watched);
            let view = watched.view();
            let accepted = vko_replica::primary::accept(&view);
            assert_eq!(under_way(&view, &watched.group(), accepted.primary()).is_some(), *expected, "{case}");
        }
    }
}
