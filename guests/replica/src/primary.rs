//! Who is, who was and who may be the primary.
//!
//! # Guarantees
//! 1. At most one member is accepted as the primary, and only one that answers as such.
//! 2. A member that may still acknowledge writes is never called replaceable: silent is not dead, unknown is not no.
//!
//! # Assumptions
//! The fence: from max-lag + 2 s after the last replica that it could hear was detached, a fenced primary acknowledges nothing.
//!
//! # Flow
//! 1. [`classify_primary`] says what became of the ledger's last primary; this is the row of the table.
//! 2. [`writer`] says of any member whether it may still acknowledge writes.
//! 3. [`accept`] picks the primary among those that answer as one.

use vko_sdk::observation::{FenceRecord, Role, ServerFacts, Upstream};

use crate::view::{FRESH_MS, Member, Standing, View};

/// After max-lag, so long (ms) until a fenced primary acknowledges nothing any more (measured: max-lag + 1.5 s at most).
pub const FENCE_MARGIN_MS: u64 = 2_000;

/// What became of the last primary.
#[derive(Debug, Clone, PartialEq)]
pub enum PrimaryState {
    /// The ledger names none.
    Unknown,
    /// It answers as a primary.
    Answers,
    /// It follows another member: the role was handed over.
    Demoted,
    /// It was started again and follows nobody.
    Restarted,
    /// It loads; whether as a primary isn't known.
    Loading,
    /// Its container ended, or its node is gone.
    Dead,
    /// Its pod is gone.
    Gone,
    /// Its place has a pod that runs no server yet.
    Starting,
    /// It answers with errors.
    Refuses(String),
    /// No answer, and nothing keeps it from acknowledging writes.
    Silent,
    /// No answer, but it is fenced.
    Fenced(FenceRecord),
}

/// Whether a member may acknowledge writes.
#[derive(Debug, Clone, PartialEq)]
pub enum Writer {
    /// It can't.
    No,
    /// It says that it does.
    Answers,
    /// Nobody knows, and nothing bounds it. What it is, for a person.
    Unbounded(String),
    /// Nobody knows, but its fence bounds it.
    Fenced(FenceRecord),
}

/// What became of the last primary.
pub fn classify_primary(view: &View<'_>) -> PrimaryState {
    let (Some(last), Some(member)) = (view.last, view.last_member()) else { return PrimaryState::Unknown };
    let same_pod = last.pod.is_empty() || member.uid() == Some(&last.pod);
    match &member.standing {
        Standing::Primary(_) => PrimaryState::Answers,
        Standing::Replica(..) if member.unnamed() => PrimaryState::Restarted,
        Standing::Replica(..) => PrimaryState::Demoted,
        Standing::Loading { unnamed: true } => PrimaryState::Restarted,
        Standing::Loading { unnamed: false } => PrimaryState::Loading,
        Standing::Dead => PrimaryState::Dead,
        Standing::Absent => PrimaryState::Gone,
        Standing::Starting => PrimaryState::Starting,
        Standing::Refusing(reason) => PrimaryState::Refuses((*reason).into()),
        // The old pod is gone; the new one starts following nobody and merely isn't heard yet.
        Standing::Silent(None) if !same_pod && !member.ready() => PrimaryState::Starting,
        Standing::Silent(facts) => match fence_of(view, member, *facts) {
            Some(fence) => PrimaryState::Fenced(fence),
            None => PrimaryState::Silent,
        },
    }
}

/// Whether a member may acknowledge writes now.
pub fn writer(view: &View<'_>, member: &Member<'_>) -> Writer {
    let name = &member.name;
    match &member.standing {
        Standing::Absent | Standing::Dead | Standing::Starting | Standing::Replica(..) | Standing::Loading { unnamed: true } => {
            Writer::No
        }
        Standing::Primary(_) => Writer::Answers,
        Standing::Loading { unnamed: false } => {
            Writer::Unbounded(format!("{name} loads its data and may come up as the primary"))
        }
        Standing::Refusing(reason) if suspected(view, member, member.facts_known()) => {
            Writer::Unbounded(format!("{name} lives, but answers with an error ({reason})"))
        }
        Standing::Silent(facts) if suspected(view, member, *facts) => match fence_of(view, member, *facts) {
            Some(fence) => Writer::Fenced(fence),
            None => {
                Writer::Unbounded(format!("{name} is silent, which is not dead, and no fence keeps it from acknowledging writes"))
            }
        },
        Standing::Refusing(_) | Standing::Silent(_) => Writer::No,
    }
}

/// Whether a member that gives no usable answer may be a primary: it is the last one by the ledger (which is written before the
/// role is given), its last word was "primary", it was never heard, somebody said later that he follows it, a hook may have
/// handed the role to it, or the data moved on to a lineage that nobody recorded.
fn suspected(view: &View<'_>, member: &Member<'_>, facts: Option<&ServerFacts>) -> bool {
    let uid = member.uid().unwrap_or_default();
    let was_last = view.last.is_some_and(|l| l.pod == uid || (l.pod.is_empty() && l.ordinal == member.ordinal));
    let said_primary = facts.is_none_or(|f| f.role == Role::Primary);
    was_last || said_primary || followed_later(view, member) || handed_over_unseen(view, member, facts) || moved_on(view)
}

/// Whether it streamed from the last primary when it was last heard, and that one's pod has been ended since, by a hand-over as a
/// rule. (The end of a container or of a machine runs no hook.) What it says after the start of the successor's server counts.
fn handed_over_unseen(view: &View<'_>, member: &Member<'_>, facts: Option<&ServerFacts>) -> bool {
    let (Some(last), Some(Role::Replica(link))) = (view.last, facts.map(|f| &f.role)) else { return false };
    let place = view.last_member().filter(|m| m.pod.is_some());
    let ended = place.is_none_or(|m| m.uid() != Some(&last.pod) || m.terminating());
    let from_it = match &link.primary {
        Upstream::Nobody => false,
        Upstream::Pod(uid) => *uid == last.pod,
        Upstream::Other(_) => view.by_pod(&last.pod).is_none(),
    };
    let age = |m: &Member<'_>| m.server.map_or(u64::MAX, |s| s.age);
    let successor = place.filter(|m| m.uid() != Some(&last.pod)).and_then(|m| Some(m.facts_now()?.uptime.saturating_add(age(m))));
    ended && link.up && from_it && successor.is_none_or(|started| age(member) >= started)
}

/// Whether another member, heard later than this one, follows it.
fn followed_later(view: &View<'_>, member: &Member<'_>) -> bool {
    let (Some(uid), Some(age)) = (member.uid(), member.server.map(|s| s.age)) else { return false };
    let later = view.members.iter().filter(|m| m.server.is_some_and(|s| s.age < age));
    later.filter_map(Member::facts_known).any(|f| vko_sdk::lookup::followed_pod(f) == Some(uid))
}

/// Whether a member that answers carries on a known lineage under an id that the ledger doesn't know: somebody was made primary
/// unseen.
fn moved_on(view: &View<'_>) -> bool {
    let facts = view.members.iter().filter_map(Member::facts_now);
    facts.into_iter().any(|f| view.lineage(&f.replid).is_none() && view.lineage(&f.second_replid).is_some())
}

/// The fence that binds this run of a member; none where an authority decides.
pub fn fence_of(view: &View<'_>, member: &Member<'_>, facts: Option<&ServerFacts>) -> Option<FenceRecord> {
    let uid = member.uid().filter(|_| view.authority.is_none())?;
    let this_run = |f: &&FenceRecord| f.pod == uid && f.min_replicas > 0 && facts.is_none_or(|known| known.run_id == f.run_id);
    view.observed.ledger.fences.iter().find(this_run).cloned()
}

/// When (Unix ms) a fence has closed for certain; nothing while a replica may follow.
pub fn closed_at(fence: &FenceRecord) -> Option<u64> {
    (fence.detached_at > 0).then(|| fence.detached_at.saturating_add(fence.max_lag).saturating_add(FENCE_MARGIN_MS))
}

/// A replica that still hears a primary which we don't: link up, and something came in within the fence's max lag.
pub fn hears_primary<'v, 'a>(view: &'v View<'a>) -> Option<&'v Member<'a>> {
    let max_lag = view.observed.environment.fence_max_lag;
    view.members.iter().find(|m| {
        let Standing::Replica(_, link) = m.standing else { return false };
        let age = m.server.map_or(0, |s| s.age);
        let recent = link.last_io.is_none_or(|io| io.saturating_add(age) < max_lag);
        let primary = match &link.primary {
            Upstream::Nobody => false,
            Upstream::Other(_) => true,
            Upstream::Pod(uid) => !view.by_pod(uid).is_some_and(|up| matches!(up.standing, Standing::Replica(..))),
        };
        link.up && recent && primary && age <= FRESH_MS
    })
}

/// Who is the primary among those that answer as one.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted<'v, 'a> {
    /// Nobody answers as a primary.
    Nobody,
    /// This one is, alone.
    One(&'v Member<'a>),
    /// This one is; the others answer as primaries too.
    OneOf(&'v Member<'a>, Vec<&'v Member<'a>>),
    /// Several, and nothing says which.
    Undecided(Vec<&'v Member<'a>>),
    /// One that nobody recorded, while the recorded one may still acknowledge writes.
    Unrecorded(&'v Member<'a>),
    /// One that holds nothing, while the data of this instance is elsewhere.
    Empty(&'v Member<'a>),
}

impl<'v, 'a> Accepted<'v, 'a> {
    /// The primary, where there is one to follow.
    pub fn primary(&self) -> Option<&'v Member<'a>> {
        match self {
            Self::One(member) | Self::OneOf(member, _) => Some(member),
            Self::Nobody | Self::Undecided(_) | Self::Unrecorded(_) | Self::Empty(_) => None,
        }
    }
}

/// Picks the primary among those that answer as one. Several: whom the authority names, else the ledger's last one. A single one:
/// if it is one of these, or the last one gave way and it carries the instance's data (or nobody else may).
pub fn accept<'v, 'a>(view: &'v View<'a>) -> Accepted<'v, 'a> {
    let primaries = view.primaries();
    let last = view.last.map(|l| l.ordinal);
    let named = view.named().map(|m| m.ordinal);
    match primaries.split_first() {
        None => Accepted::Nobody,
        Some((one, [])) => {
            let recorded = last.is_none_or(|l| l == one.ordinal);
            let gave_way = view.last_member().is_none_or(|l| writer(view, l) == Writer::No);
            if !recorded && !carries_data(view, one) && data_elsewhere(view, one) {
                Accepted::Empty(one)
            } else if recorded || gave_way || named == Some(one.ordinal) {
                Accepted::One(one)
            } else {
                Accepted::Unrecorded(one)
            }
        }
        Some(_) => {
            let at = |wanted: Option<u32>| primaries.iter().position(|m| Some(m.ordinal) == wanted);
            match at(named).or_else(|| at(last)) {
                Some(at) => {
                    let mut others = primaries;
                    let one = others.remove(at);
                    Accepted::OneOf(one, others)
                }
                None => Accepted::Undecided(primaries),
            }
        }
    }
}

fn carries_data(view: &View<'_>, member: &Member<'_>) -> bool {
    let lineage = |f: &ServerFacts| view.lineage(&f.replid).is_some() || view.lineage(&f.second_replid).is_some();
    member.facts_now().is_some_and(|f| f.keys > 0 || lineage(f))
}

fn data_elsewhere(view: &View<'_>, but: &Member<'_>) -> bool {
    let others = || view.members.iter().filter(|m| m.ordinal != but.ordinal);
    others().any(|m| m.facts_now().is_some_and(|f| f.keys > 0) || crate::candidates::may_return(view, m))
}

/// Whether everything that `loser` holds is in `winner` too, by their lineages. Offsets mean something within one lineage only.
pub fn lacks_nothing_of(winner: &ServerFacts, loser: &ServerFacts) -> bool {
    if loser.keys == 0 {
        return true;
    }
    let same = !loser.replid.is_empty() && loser.replid == winner.replid && loser.offset <= winner.offset;
    // The winner was promoted out of the loser's lineage, after all that the loser wrote.
    let ancestor = !loser.replid.is_empty() && winner.second_replid == loser.replid && loser.offset < winner.second_offset;
    // The loser was promoted out of the winner's lineage and has written nothing since.
    let idle = !winner.replid.is_empty()
        && loser.second_replid == winner.replid
        && loser.offset < loser.second_offset
        && loser.offset <= winner.offset;
    same || ancestor || idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, mk_primary, with_second};
    use crate::view::Authority;

    #[test]
    fn the_last_primary_by_what_is_known_of_it() {
        type Change = fn(&mut Scene) -> &mut Scene;
        let table: &[(&str, Change, &str)] = &[
            ("answers", |s| s, "Answers"),
            ("container ended", |s| s.kill(0), "Dead"),
            ("node gone", |s| s.lose_node(0), "Dead"),
            ("pod gone", |s| s.remove_pod(0), "Gone"),
            ("restarted, follows nobody", |s| s.restart(0, "append-only-file"), "Restarted"),
            ("follows another: handed over", |s| s.demote(0, 1), "Demoted"),
            ("silent", |s| s.unfence(0).silence(0), "Silent"),
            ("silent under a fence of this run", |s| s.fence(0, 1).silence(0), "Fenced"),
            ("silent under a fence of another run", |s| s.fence_run(0, "older", 1).silence(0), "Silent"),
            ("silent under a lifted fence", |s| s.fence(0, 0).silence(0), "Silent"),
            ("answers with errors", |s| s.refuse(0, "BUSY"), "Refuses"),
            ("loading, role unknown", |s| s.load(0, false), "Loading"),
            ("loading after a restart", |s| s.load(0, true), "Restarted"),
            ("container waits", |s| s.replace_pod(0).wait_start(0), "Starting"),
            ("ledger names nobody", |s| s.forget_primary(), "Unknown"),
            ("another pod holds its place and isn't heard", |s| s.replace_pod(0), "Starting"),
        ];
        for (case, change, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            let found = format!("{:?}", classify_primary(&scene.view()));
            assert!(found.starts_with(expected), "{case}: {found} instead of {expected}");
        }
    }

    #[test]
    fn who_may_acknowledge_writes() {
        type Change = fn(&mut Scene) -> &mut Scene;
        let table: &[(&str, usize, Change, &str)] = &[
            ("a silent replica whose last word was replica", 1, |s| s.silence(1), "No"),
            ("a silent member that was never heard", 1, |s| s.silence(1).unhear(1), "Unbounded"),
            ("never heard, and the kubelet says not ready", 1, |s| s.silence(1).unhear(1).unready(1), "No"),
            ("a silent former primary", 1, |s| s.restart(0, "snapshot").promote(1).silence(1), "Unbounded"),
            ("a silent replica that another one follows since", 1, |s| s.silence(1).follow(2, 1), "Unbounded"),
            ("a silent replica while the data moved on unseen", 1, |s| s.kill(0).silence(1).move_on(2), "Unbounded"),
            (
                "silent since before the primary's pod went: a hook may have handed the role to it",
                1,
                |s| s.silence(1).remove_pod(0).link_up(1),
                "Unbounded",
            ),
            ("the same, its link was down", 1, |s| s.silence(1).remove_pod(0), "No"),
            ("the primary's pod is ending", 1, |s| s.silence(1).terminate(0), "Unbounded"),
            ("its container ended: that runs no hook", 1, |s| s.silence(1).kill(0).link_up(1), "No"),
            ("heard since its successor's start", 1, |s| s.silence(1).replace_pod(0).answer_empty(0).link_up(1), "No"),
            ("a primary that ended", 0, |s| s.kill(0), "No"),
            ("an error is a sign of life", 0, |s| s.refuse(0, "BUSY"), "Unbounded"),
        ];
        for (case, member, change, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            let view = scene.view();
            let found = format!("{:?}", writer(&view, &view.members[*member]));
            assert!(found.starts_with(expected), "{case}: {found} instead of {expected}");
        }
    }

    #[test]
    fn whom_the_authority_names_goes_before_the_ledger() {
        type Change = fn(&mut Scene) -> &mut Scene;
        // Member 0 is the ledger's last primary.
        let table: &[(&str, Change, Option<u32>, &str)] = &[
            ("one answers and is recorded, whoever is named", |s| s, Some(1), "One 0"),
            ("another rose, the last one is silent, nobody is named", |s| s.silence(0).rise(1), None, "Unrecorded 1"),
            ("the same, and it is named", |s| s.silence(0).rise(1), Some(1), "One 1"),
            ("the same, and a third one is named", |s| s.silence(0).rise(1), Some(2), "Unrecorded 1"),
            ("two answer, nobody is named", |s| s.rise(1), None, "OneOf 0"),
            ("two answer, the newer one is named", |s| s.rise(1), Some(1), "OneOf 1"),
            ("two answer, neither is recorded, one is named", |s| s.restart(0, "snapshot").rise(1).rise(2), Some(2), "OneOf 2"),
            (
                "an empty one that nobody recorded stays out, even named",
                |s| s.restart(0, "snapshot").restart(1, "empty").facts(1, |f| f.role = Role::Primary),
                Some(1),
                "Empty 1",
            ),
        ];
        for (case, change, named, expected) in table {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            let named = named.map(|i| format!("uid-x-{i}"));
            let view = scene.view().under(Authority { monitor: "m".into(), named });
            let found = match accept(&view) {
                Accepted::Nobody => "Nobody".into(),
                Accepted::One(m) => format!("One {}", m.ordinal),
                Accepted::OneOf(m, _) => format!("OneOf {}", m.ordinal),
                Accepted::Undecided(_) => "Undecided".into(),
                Accepted::Unrecorded(m) => format!("Unrecorded {}", m.ordinal),
                Accepted::Empty(m) => format!("Empty {}", m.ordinal),
            };
            assert_eq!(found, *expected, "{case}");
        }
    }

    #[test]
    fn nothing_is_lost_by_lineage_only() {
        let at = |replid, offset| mk_primary(replid, offset);
        let table = [
            ("same lineage, behind", at("a", 9), at("a", 5), true),
            ("same lineage, ahead", at("a", 5), at("a", 9), false),
            ("promoted after all of it", with_second(at("b", 9), "a", 6), at("a", 5), true),
            ("promoted before the last write", with_second(at("b", 9), "a", 5), at("a", 5), false),
            ("foreign", at("b", 9), at("a", 5), false),
            ("promoted beside and idle", at("a", 9), with_second(at("b", 5), "a", 6), true),
            ("promoted beside and written to", at("a", 9), with_second(at("b", 7), "a", 6), false),
            ("no lineage at all", at("", 9), at("", 5), false),
        ];
        for (case, winner, loser, expected) in table {
            assert_eq!(lacks_nothing_of(&winner, &loser), expected, "{case}");
        }
        let mut empty = at("a", 99);
        empty.keys = 0;
        assert!(lacks_nothing_of(&at("b", 1), &empty), "an empty one loses nothing");
    }
}
