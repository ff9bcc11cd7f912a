//! Each Sentinel watches the accepted primary, under the right options.
//!
//! # Guarantees
//! 1. A Sentinel is pointed elsewhere only when its word is proven wrong, and never while it carries a failover out.
//! 2. One Sentinel at a time loses its monitor. None is pointed at the new primary while another one still spreads the old word,
//!    be it one in TILT, which can't be corrected.
//! 3. Options that are as they should be, or aren't known, are not set again: each setting makes the Sentinel write its file.
//! 4. A Sentinel isn't told of a new primary before that one has its replicas, as far as they are about to come.
//!
//! # Assumptions
//! A new monitor begins at config epoch 0. Sentinels take over the word of a higher epoch within seconds, so one stale Sentinel
//! would turn fresh ones back. A Sentinel asks a primary for its replicas as soon as it watches it, and again only every 10 s.
//! The host sets a monitor's credential before its quorum, so one that was cut short has another quorum.
//!
//! # Flow, while one primary serves that the ledger knows
//! 1. [`classify`] each Sentinel.
//! 2. Somebody is astray: the first one loses its monitor; the last one gets the new one in the same track.
//! 3. Nobody is: who lacks the monitor gets it, and options that differ are set live.
//! 4. All are right, and one counts so many Sentinels that are gone that no majority is left: it gets the monitor anew.

use vko_replica::decision::{BY_ITSELF, SOON_MS, bound_step};
use vko_replica::view::{Member, Standing, View};
use vko_sdk::lookup::recent;
use vko_sdk::observation::{Monitor, Upstream};
use vko_sdk::plan::{self, pair};
use vko_sdk::planning::{Operation, SentinelMonitor, SentinelName, SentinelOptions, Step, Track};

use crate::cause::{Block, Cause, Decision};
use crate::group::{Group, Seat, State, Word, idle, judge};
use crate::report::unmeshed;

/// Account that Sentinels log in to the data servers with.
const ACCOUNT: &str = "sentinel";
/// Within this time (ms) after a new primary's history was first seen, a Sentinel that names another one may merely not have
/// heard of it.
const HEARSAY_MS: u64 = 15_000;
/// How often (ms) a Sentinel asks a primary for its replicas. One that is told before they follow learns of them so much later.
const REPLICAS_ASKED_MS: u64 = 10_000;

/// What a Sentinel knows, against what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing can be said or done now: it doesn't answer on fresh facts, or carries a failover out.
    Unclear,
    /// It watches the primary as it should.
    Right,
    /// It watches the primary, but these options differ; none: it holds a primary for down that answers, so its credentials may
    /// be old.
    Drifted(Vec<(String, String)>),
    /// It doesn't watch this data set.
    Lacking,
    /// It names another one, and will hear the better word from the others.
    Lagging,
    /// It names another one, and is wrong.
    Astray,
    /// It names another one that may be one.
    Open(String),
}

/// Makes every Sentinel watch the primary.
pub fn reconcile(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>) -> Decision {
    let known: Vec<(&Seat<'_>, Knowledge)> = group.seats.iter().map(|s| (s, classify(view, group, primary, s))).collect();
    let astray: Vec<&Seat<'_>> = known.iter().filter(|(_, k)| *k == Knowledge::Astray).map(|(seat, _)| *seat).collect();
    let open = known.iter().filter_map(|(seat, k)| match k {
        Knowledge::Open(named) => Some(Decision::wait(open(seat, named, primary))),
        _ => None,
    });
    let waiting = open.fold(Decision::default(), Decision::and);
    let spreads = group.seats.iter().find(|seat| spreads_in_tilt(group, primary, seat));
    if let Some((first, others)) = astray.split_first() {
        return waiting.and(correct(view, group, primary, first, others.is_empty() && spreads.is_none()));
    }
    if let Some(seat) = spreads.filter(|_| known.iter().any(|(_, k)| *k == Knowledge::Lacking)) {
        return waiting.and(Decision::wait(spreading(seat, primary)));
    }
    let mut tracks: Vec<Track> = known.iter().filter_map(|(seat, k)| complete(view, group, primary, seat, k)).collect();
    if known.iter().all(|(_, k)| *k == Knowledge::Right) {
        tracks.extend(renew(view, group, primary));
    }
    // One whose word is too old to act on, and wasn't right, is looked at again soon.
    let amiss = |s: &Seat<'_>| s.answers() && s.monitor.is_none_or(|m| !names(m, primary) || !drift(group, m).is_empty());
    let soon = known.iter().any(|(seat, k)| match k {
        Knowledge::Lagging | Knowledge::Lacking => true,
        Knowledge::Unclear => amiss(seat),
        Knowledge::Right | Knowledge::Drifted(_) | Knowledge::Astray | Knowledge::Open(_) => false,
    });
    let decision = if tracks.is_empty() { Decision::default() } else { Decision::act_all(tracks) };
    waiting.and(decision).and(Decision::look(if soon { SOON_MS } else { 0 }))
}

/// Whether replicas are about to come that the primary doesn't have yet: those that answer, and in a new instance those that
/// start. They are waited for while its history is younger than a Sentinel would take to ask for them a second time.
fn replicas_come(view: &View<'_>, primary: &Member<'_>) -> bool {
    let Some(facts) = primary.facts_now() else { return false };
    let young = |seen: u64| view.observed.now.saturating_sub(seen) < REPLICAS_ASKED_MS;
    let new_instance = view.observed.ledger.lineages.iter().all(|l| young(l.seen));
    let attached = |m: &Member<'_>| facts.replicas.iter().any(|r| matches!(&r.pod, Upstream::Pod(uid) if m.uid() == Some(uid)));
    let comes = |m: &Member<'_>| match m.standing {
        Standing::Replica(..) => !m.terminating(),
        Standing::Absent | Standing::Starting | Standing::Loading { .. } => new_instance,
        Standing::Dead | Standing::Primary(_) | Standing::Refusing(_) | Standing::Silent(_) => false,
    };
    let known = view.lineage(&facts.replid).or_else(|| view.lineage(&facts.second_replid));
    let wanted = |m: &&Member<'_>| m.ordinal < view.spec.replicas && m.ordinal != primary.ordinal;
    known.is_some_and(|l| young(l.seen)) && view.members.iter().filter(wanted).any(|m| comes(m) && !attached(m))
}

/// The first Sentinel that sees no majority because it counts some that are gone: it forgets all of them and finds those that
/// live. Not where the quorum asks for every one.
fn renew(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>) -> Option<Track> {
    let ids: Vec<&str> = group.seats.iter().filter_map(|s| s.sentinel).map(|s| s.id.as_str()).collect();
    let counts_ghosts = |m: &Monitor| m.peers.iter().any(|p| p.down && !ids.contains(&p.id.as_str()));
    let short = |s: &&Seat<'_>| s.monitor.is_some_and(|m| m.quorum_reached == Some(false) && counts_ghosts(m));
    let seat = group.seats.iter().find(short)?;
    let quorum = usize::try_from(group.quorum).unwrap_or(usize::MAX);
    let able = quorum < group.seats.len() && group.majority_without(Some(seat)) && unmeshed(view, group, primary).is_none();
    if able { repoint(view, group, primary, seat, true, "counts Sentinels that are gone") } else { None }
}

/// Whether it names another primary and can't be corrected, because it doesn't trust its clock, while nobody knows the better
/// word under a higher epoch: what it goes on telling others would turn fresh monitors back.
fn spreads_in_tilt(group: &Group<'_>, primary: &Member<'_>, seat: &Seat<'_>) -> bool {
    let monitors = || group.seats.iter().filter_map(|s| s.monitor);
    let of_another = |m: &&Monitor| !names(m, primary);
    let outvoted = |word: &Monitor| monitors().any(|m| names(m, primary) && m.config_epoch > word.config_epoch);
    seat.state == State::Tilt && seat.monitor.filter(of_another).is_some_and(|word| !outvoted(word))
}

fn spreading(seat: &Seat<'_>, primary: &Member<'_>) -> Block {
    let message = format!(
        "Sentinel {} doesn't trust its clock (TILT) and still tells the others of another primary than {}; none is pointed at it \
         before this one can be",
        seat.name, primary.name
    );
    Block::new(
        &seat.name,
        Cause::SentinelsDisagree,
        message,
        "it trusts its clock again after 30 s without a jump; if it never does, restart it",
    )
}

/// What a Sentinel knows, against what it should.
pub fn classify(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>, seat: &Seat<'_>) -> Knowledge {
    if seat.steerable().is_none() {
        return Knowledge::Unclear;
    }
    let Some(monitor) = seat.monitor else { return Knowledge::Lacking };
    if !idle(&monitor.failover_state) {
        return Knowledge::Unclear;
    }
    if names(monitor, primary) {
        let options = drift(group, monitor);
        let right = options.is_empty() && !(monitor.subjectively_down && untold(view, seat));
        return if right { Knowledge::Right } else { Knowledge::Drifted(options) };
    }
    let better = |m: &Monitor| names(m, primary) && m.config_epoch > monitor.config_epoch;
    if hearsay(view, primary) && group.seats.iter().filter_map(|s| s.monitor).any(better) {
        return Knowledge::Lagging;
    }
    let Upstream::Pod(uid) = &monitor.primary else { return Knowledge::Astray };
    match view.by_pod(uid).map(|m| (m, judge(m, seat.word_age))) {
        None | Some((_, Word::Disproved)) => Knowledge::Astray,
        Some((_, Word::Unasked)) => Knowledge::Lagging,
        Some((named, Word::Open)) => Knowledge::Open(named.name.clone()),
    }
}

/// Whether a Sentinel names that member.
pub fn names(monitor: &Monitor, member: &Member<'_>) -> bool {
    matches!(&monitor.primary, Upstream::Pod(uid) if member.uid() == Some(uid))
}

/// Whether the primary is so new that not everybody may have heard of it.
fn hearsay(view: &View<'_>, primary: &Member<'_>) -> bool {
    let lineage = primary.facts_now().and_then(|f| view.lineage(&f.replid));
    lineage.is_none_or(|l| view.observed.now.saturating_sub(l.seen) < HEARSAY_MS)
}

/// Whether a Sentinel was told nothing lately. One that holds a primary for down that answers gets its credential again, but not
/// over and over: it may be the network, and each setting makes it write its file.
fn untold(view: &View<'_>, seat: &Seat<'_>) -> bool {
    ["monitor", "set-monitor"].iter().all(|operation| recent(view.observed, operation, &seat.name).is_none())
}

/// Options that differ from what they should be. What a Sentinel doesn't show is unknown, and no drift.
pub fn drift(group: &Group<'_>, monitor: &Monitor) -> Vec<(String, String)> {
    let shown = |key: &str| monitor.options.iter().find(|p| p.key == key).map(|p| p.value.as_str());
    let mut differing: Vec<_> =
        group.options.iter().filter(|(key, value)| shown(key).is_some_and(|live| live != value)).cloned().collect();
    if monitor.quorum != group.quorum {
        differing.push(("quorum".into(), group.quorum.to_string()));
    }
    differing
}

fn open(seat: &Seat<'_>, named: &str, primary: &Member<'_>) -> Block {
    let message =
        format!("Sentinel {} calls {named} the primary, which doesn't prove it wrong, while {} serves", seat.name, primary.name);
    let remedy = "bring the named member into reach, or make its end certain: delete its pod and see it gone";
    Block::new(&seat.name, Cause::SentinelsDisagree, message, remedy)
}

/// What is done about the first Sentinel that is astray: nothing while a failover goes on, or while the others are no majority.
fn correct(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>, seat: &Seat<'_>, last: bool) -> Decision {
    if group.busy().is_some() {
        return Decision::look(SOON_MS);
    }
    if !group.majority_without(Some(seat)) {
        let message = format!(
            "Sentinel {} watches another server than {}, and too few others answer to take that from it",
            seat.name, primary.name
        );
        return Decision::wait(Block::new(&seat.name, Cause::SentinelsTooFew, message, BY_ITSELF));
    }
    if last && replicas_come(view, primary) {
        return Decision::look(SOON_MS);
    }
    Decision::act_all(repoint(view, group, primary, seat, last, "watches another server than the primary"))
}

/// Takes the monitor off one Sentinel; the last one gets the new one at once.
fn repoint(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>, seat: &Seat<'_>, last: bool, why: &str) -> Option<Track> {
    let sentinel = seat.steerable()?.to_owned();
    let reason = format!("Sentinel {} {why}; {} is the primary", seat.name, primary.name);
    let operation = Operation::Unmonitor(SentinelName { sentinel, name: group.name.clone() });
    let mut steps = vec![bound_step(view, primary, operation, reason)];
    if last {
        steps.push(monitor(view, group, primary, seat)?);
    }
    Some(plan::track(&seat.name, steps))
}

fn complete(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>, seat: &Seat<'_>, knowledge: &Knowledge) -> Option<Track> {
    let step = match knowledge {
        Knowledge::Lacking if replicas_come(view, primary) => return None,
        Knowledge::Lacking => monitor(view, group, primary, seat)?,
        Knowledge::Drifted(options) => {
            let what: Vec<&str> = options.iter().map(|(key, _)| key.as_str()).collect();
            let reason = match what.as_slice() {
                [] => {
                    format!("Sentinel {} holds {} for down, which answers: it may have old credentials", seat.name, primary.name)
                }
                _ => format!("Sentinel {}: {} differ from what is declared", seat.name, what.join(", ")),
            };
            let operation = Operation::SetMonitor(SentinelOptions {
                sentinel: seat.steerable()?.into(),
                name: group.name.clone(),
                options: options.iter().map(|(key, value)| pair(key, value)).collect(),
                credential: ACCOUNT.into(),
            });
            plan::step(operation, reason)
        }
        Knowledge::Unclear | Knowledge::Right | Knowledge::Lagging | Knowledge::Astray | Knowledge::Open(_) => return None,
    };
    Some(plan::track(&seat.name, vec![step]))
}

fn monitor(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>, seat: &Seat<'_>) -> Option<Step> {
    // A quorum that those which are there can't reach isn't set: the rest comes first.
    if usize::try_from(group.quorum).unwrap_or(usize::MAX) > view.observed.sentinels.len() {
        return None;
    }
    let operation = Operation::Monitor(SentinelMonitor {
        sentinel: seat.steerable()?.into(),
        name: group.name.clone(),
        primary: primary.uid()?.into(),
        quorum: group.quorum,
        options: group.options.iter().map(|(key, value)| pair(key, value)).collect(),
        credential: ACCOUNT.into(),
    });
    Some(bound_step(view, primary, operation, format!("Sentinel {} shall watch the primary {}", seat.name, primary.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Watched;

    type Change = fn(&mut Watched) -> &mut Watched;

    #[test]
    fn what_each_sentinel_is_told() {
        // Three members, 0 is the primary; three Sentinels at epoch 5 watch it.
        let table: &[(&str, Change, &str)] = &[
            ("all is right", |w| w, "-"),
            (
                "none watches yet",
                |w| w.blank(0).blank(1).blank(2),
                "monitor sid-0 rfr-x-0; monitor sid-1 rfr-x-0; monitor sid-2 rfr-x-0",
            ),
            ("one was replaced", |w| w.blank(1), "monitor sid-1 rfr-x-0"),
            ("one is silent", |w| w.mute(1), "-"),
            ("one in tilt is left alone", |w| w.blank(1).tilt(1), "-"),
            (
                "one in tilt spreads the old word: others lose it and get no new one yet",
                |w| w.says_stranger(0).says_stranger(1).tilt(1),
                "unmonitor sid-0",
            ),
            ("the same, when the others have lost it", |w| w.blank(0).says_stranger(1).tilt(1), "wait SentinelsDisagree"),
            ("it repeats an older word than the others have", |w| w.blank(0).says(1, 1, 4).tilt(1), "monitor sid-0 rfr-x-0"),
            ("nobody is to be told anything", |w| w.says_stranger(1).tilt(1), "-"),
            ("one is astray, another one is silent", |w| w.says_stranger(1).mute(2), "wait SentinelsTooFew"),
            ("one is astray, another one finishes a failover", |w| w.says_stranger(1).failing_over(2, "update_config"), "-"),
            ("one lacks it, and the quorum is out of reach", |w| w.want_quorum(3).blank(0).drop_sentinel(1).quorum(2, 3), "-"),
            ("one lacks it, on old facts", |w| w.blank(1).aged(1, 4_000), "-"),
            ("one carries a failover out", |w| w.says_stranger(1).failing_over(1, "reconf_slaves"), "-"),
            ("one names an address that no pod has", |w| w.says_stranger(1), "unmonitor sid-1, monitor sid-1 rfr-x-0"),
            (
                "all do: one after the other, and nobody is pointed anew before the last",
                |w| w.says_stranger(0).says_stranger(1).says_stranger(2),
                "unmonitor sid-0",
            ),
            ("two still do, one has lost it", |w| w.blank(0).says_stranger(1).says_stranger(2), "unmonitor sid-1"),
            ("the last one", |w| w.blank(0).blank(1).says_stranger(2), "unmonitor sid-2, monitor sid-2 rfr-x-0"),
            (
                "one names a replica that was asked since",
                |w| w.says(1, 1, 6).data(|s| s.age(1, 100)),
                "unmonitor sid-1, monitor sid-1 rfr-x-0",
            ),
            ("one names a replica that was asked before", |w| w.says(1, 1, 6).data(|s| s.age(1, 900)), "-"),
            (
                "the same, but it has said so for longer, and only repeats it",
                |w| w.says(1, 1, 6).data(|s| s.age(1, 900)).word_age(1, 1_000),
                "unmonitor sid-1, monitor sid-1 rfr-x-0",
            ),
            ("its word is younger than that", |w| w.says(1, 1, 6).data(|s| s.age(1, 900)).word_age(1, 800), "-"),
            ("one names a silent member", |w| w.says(1, 1, 6).data(|s| s.silence(1)), "wait SentinelsDisagree"),
            ("one names a dead member", |w| w.says(1, 1, 6).data(|s| s.kill(1)), "unmonitor sid-1, monitor sid-1 rfr-x-0"),
            (
                "the primary is new, and one hasn't heard of it",
                |w| w.says(1, 1, 4).data(|s| s.age(1, 100)).new_lineage(5_000),
                "-",
            ),
            (
                "it should have by now",
                |w| w.says(1, 1, 4).data(|s| s.age(1, 100)).new_lineage(16_000),
                "unmonitor sid-1, monitor sid-1 rfr-x-0",
            ),
            ("an option differs", |w| w.option(1, "down-after-milliseconds", "9000"), "set-monitor sid-1"),
            ("an option isn't shown", |w| w.no_options(1), "-"),
            ("the quorum differs", |w| w.quorum(2, 3), "set-monitor sid-2"),
            ("it was cut short before it had a credential", |w| w.quorum(1, 1_000), "set-monitor sid-1"),
            ("it holds a primary for down that answers", |w| w.subjectively_down(0), "set-monitor sid-0"),
            ("and was told a while ago", |w| w.subjectively_down(0).told(0, "set-monitor", 400_000), "-"),
            ("none watches, and the replicas are on their way", |w| w.blank_all().unattached().new_lineage(2_000), "-"),
            (
                "the same, for as long as a Sentinel takes to ask again",
                |w| w.blank_all().unattached().new_lineage(11_000),
                "monitor sid-0 rfr-x-0; monitor sid-1 rfr-x-0; monitor sid-2 rfr-x-0",
            ),
            (
                "none watches, and the replicas are there",
                |w| w.blank_all().new_lineage(2_000),
                "monitor sid-0 rfr-x-0; monitor sid-1 rfr-x-0; monitor sid-2 rfr-x-0",
            ),
            ("a new instance whose last pod starts", |w| w.blank(1).data(|s| s.remove_pod(2)).new_lineage(2_000), "-"),
            (
                "a pod starts after a promotion: nobody waits for it",
                |w| w.blank(1).data(|s| s.remove_pod(2)).new_lineage(2_000).older_lineage(),
                "monitor sid-1 rfr-x-0",
            ),
            (
                "the last one that is astray waits for replicas, too",
                |w| w.blank(0).blank(1).says_stranger(2).unattached().new_lineage(2_000),
                "-",
            ),
            ("a ghost alone is no reason", |w| w.ghost(1), "-"),
            ("with its ghosts it sees no majority", |w| w.ghost(1).no_quorum(1), "unmonitor sid-1, monitor sid-1 rfr-x-0"),
            ("no majority, and no ghosts", |w| w.no_quorum(1), "-"),
            (
                "it is needed for the quorum",
                |w| w.want_quorum(3).quorum(0, 3).quorum(1, 3).quorum(2, 3).ghost(1).no_quorum(1),
                "-",
            ),
            ("another one doesn't see all", |w| w.ghost(1).no_quorum(1).lonely(2), "-"),
        ];
        for (case, change, expected) in table {
            let mut watched = Watched::healthy("x", 3);
            change(&mut watched);
            let found = watched.decided(|view, group| reconcile(view, group, &view.members[0]));
            assert_eq!(found, *expected, "{case}");
        }
    }

    #[test]
    fn only_what_differs_is_set() {
        let mut watched = Watched::healthy("x", 3);
        watched.option(1, "down-after-milliseconds", "9000").quorum(1, 3);
        let view = watched.view();
        let decision = reconcile(&view, &watched.group(), &view.members[0]);
        let Operation::SetMonitor(set) = &decision.tracks[0].steps[0].operation else { panic!("{decision:?}") };
        assert_eq!(set.options, [pair("down-after-milliseconds", "5000"), pair("quorum", "2")]);
        assert_eq!((set.name.as_str(), set.credential.as_str()), ("mymaster", "sentinel"), "what it logs in with comes along");
    }

    #[test]
    fn a_new_monitor_says_everything() {
        let mut watched = Watched::healthy("x", 3);
        watched.blank(0);
        let view = watched.view();
        let decision = reconcile(&view, &watched.group(), &view.members[0]);
        let step = &decision.tracks[0].steps[0];
        let Operation::Monitor(monitor) = &step.operation else { panic!("{step:?}") };
        assert_eq!((monitor.quorum, monitor.credential.as_str(), monitor.options.len()), (2, "sentinel", 3));
        assert!(step.expects.contains(&plan::is_primary("uid-x-0")));
    }
}
