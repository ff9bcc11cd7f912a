//! Server lines within one data set: mixed in an upgrade, and what an upgrade that is taken back leaves behind.
//!
//! # Guarantees
//! 1. A member's volume counts as unreadable only for a line that is older than one that was tried, and never the primary's.
//! 2. One that is known to run the wanted line, or an older one, keeps its volume.
//!
//! # Assumptions
//! The host writes down which line is tried before anybody is started with it.

use vko_model::version::{Line, Version};
use vko_sdk::facts;
use vko_sdk::observation::ServerFacts;

use crate::view::{Member, Standing, View};

/// The line that people want.
pub fn wanted(view: &View<'_>) -> Option<Line> {
    view.spec.version.parse().ok()
}

/// The line of a server.
pub fn of(facts: &ServerFacts) -> Option<Line> {
    let version = facts.version;
    Line::of(&Version::new(version.major, version.minor, version.patch)).ok()
}

/// Whether servers of several lines answer, or did when they were last heard: members come and go when they don't.
pub fn are_mixed(view: &View<'_>) -> bool {
    let mut lines = view.members.iter().filter_map(Member::facts_known).filter_map(of);
    let first = lines.next();
    lines.any(|line| Some(line) != first)
}

/// Whether a member runs a newer line than people want.
pub fn is_newer_than_wanted(view: &View<'_>, member: &Member<'_>) -> bool {
    let newer = |wanted: Line| member.facts_known().and_then(of).is_some_and(|line| line > wanted);
    wanted(view).is_some_and(newer)
}

/// Whether an upgrade is being taken back.
fn taken_back(view: &View<'_>) -> bool {
    let tried = facts::tried_line(view.observed).and_then(|line| line.parse::<Line>().ok());
    tried.zip(wanted(view)).is_some_and(|(tried, wanted)| wanted < tried)
}

/// Whether a member may have saved what the wanted line can't read: it runs a newer one, or never said which.
pub fn may_be_unreadable(view: &View<'_>, member: &Member<'_>) -> bool {
    let last = view.last.is_some_and(|last| last.ordinal == member.ordinal);
    let unknown = member.facts_known().is_none() && !member.ready();
    taken_back(view) && !last && (unknown || is_newer_than_wanted(view, member))
}

/// Whether a member's server ends again and again without ever having answered, on a volume from before. One that was made anew
/// holds nothing that could be the cause.
pub fn is_stuck_on_newer(view: &View<'_>, member: &Member<'_>) -> bool {
    let (Some(pod), Some(claim)) = (member.pod, member.claim) else { return false };
    let from_before = view.observed.ledger.members.iter().any(|m| m.claim == claim.uid && m.ordinal == member.ordinal);
    let ends = member.standing == Standing::Dead && pod.restarts > 0 && pod.terminating_for == 0;
    ends && from_before && member.facts_known().is_none() && may_be_unreadable(view, member)
}
