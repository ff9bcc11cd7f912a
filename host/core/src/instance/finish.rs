//! The end of a look: what the ledger notes once everything is as declared, and when to look again.

use std::sync::Arc;
use std::time::Duration;

use vko_model::version::Line;
use vko_wit::observation::{Observed, Reach};
use vko_wit::planning::{Phase, Plan};

use super::look::LookError;
use super::{Instance, LOOK_ANYWAY};
use crate::governor::Decision;
use crate::ledger::{Ledger, Member};
use crate::object::Object;
use crate::observe::millis;
use crate::probe;
use crate::report::HostFacts;
use crate::site::Site;
use crate::world::World;

/// While a mounted file waits for the kubelet, its having settled is no event: look again.
const MOUNTS: Duration = Duration::from_secs(2);
/// While something of the host's own doesn't work, that it would now is no event either.
const PROBLEM: Duration = Duration::from_secs(10);

/// A plan that isn't looked at again within this time waits for a person: nothing is in motion.
const PATIENT: Duration = Duration::from_secs(10);
/// How long a server that fell silent, or began, is watched closely whatever the plan waits for.
const WATCHED: Duration = Duration::from_secs(60);

impl<W: World> Instance<W> {
    /// Once everything is as declared: who the members are, and which version they all run.
    pub(super) async fn note_finished(
        &self,
        site: &Arc<Site<W>>,
        observed: &Observed,
        plan: Option<&Plan>,
    ) -> Result<(), LookError> {
        if plan.is_none_or(|plan| plan.status.phase != Phase::Ready) {
            return Ok(());
        }
        let serving = observed.servers.iter().filter_map(|server| observed.pods.iter().find(|pod| pod.uid == server.pod));
        let mut members: Vec<Member> = serving.map(|pod| Member::of(observed, pod)).collect();
        // A removed member stays on record until its claim is gone: only recorded claims may be deleted.
        let claimed = |known: &Member| observed.claims.iter().any(|claim| claim.uid == known.claim);
        let left: Vec<Member> = site.store.ledger().await.members.into_iter().filter(claimed).collect();
        for known in left {
            if !members.iter().any(|m| m.workload == known.workload && m.ordinal == known.ordinal) {
                members.push(known);
            }
        }
        let finished = finished_version(observed);
        Ok(site
            .store
            .change(|ledger| {
                ledger.members = members;
                if finished.is_some() {
                    ledger.finished_version = finished;
                }
                ledger.tried_line = None;
                let pods: Vec<&str> = observed.pods.iter().map(|pod| pod.uid.as_str()).collect();
                ledger.fences.retain(|fence| pods.contains(&fence.pod.as_str()));
            })
            .await?)
    }

    /// Before the template of a newer line is in force, and anybody can be started with it: that somebody may have been.
    pub(super) async fn note_tried(&self, site: &Arc<Site<W>>, topology: &Object) -> Result<(), LookError> {
        let Some(tried) = newly_tried(&site.store.ledger().await, topology.text("/spec/version")) else { return Ok(()) };
        Ok(site.store.change(|ledger| ledger.tried_line = Some(tried.as_str().to_owned())).await?)
    }

    /// How soon to ask servers and to look again.
    pub(super) fn pace(&mut self, observed: &Observed, decision: &Decision, unsettled: bool, host: &HostFacts) -> Duration {
        let at_rest =
            self.tracks.running().is_empty() && decision.guarded.tracks.is_empty() && !unsettled && host.problem.is_none();
        let ready = decision.plan.as_ref().is_some_and(|plan| plan.status.phase == Phase::Ready);
        let asked = decision.plan.as_ref().map_or(0, |plan| plan.look_again);
        let waits = asked >= millis(PATIENT) && settled(observed);
        let quiet = at_rest && (all_answer(observed) && ready || waits);
        self.probes.set_pace(if quiet { self.shared.settings.probe_interval } else { probe::ALERT });
        let mut again = if asked == 0 { LOOK_ANYWAY } else { Duration::from_millis(asked) };
        if unsettled {
            again = again.min(MOUNTS);
        }
        if host.problem.is_some() || decision.plan.is_none() || decision.ask_again {
            again = again.min(PROBLEM);
        }
        again
    }
}

/// Every pod has a server or Sentinel in it, and all of these answer.
fn all_answer(observed: &Observed) -> bool {
    observed.pods.len() <= observed.servers.len() + observed.sentinels.len()
        && observed.servers.iter().all(|server| server.reach == Reach::Answered)
        && observed.sentinels.iter().all(|sentinel| sentinel.reach == Reach::Answered)
}

/// Whether no server has fallen silent or begun lately.
fn settled(observed: &Observed) -> bool {
    let watched = millis(WATCHED);
    observed.servers.iter().all(|server| match &server.reach {
        Reach::Answered => server.facts.as_ref().is_some_and(|facts| facts.uptime >= watched),
        Reach::Silent(lasting) => *lasting >= watched,
        Reach::Refused(failure) => failure.lasting >= watched,
        Reach::Loading(_) => false,
    })
}

/// The line that a spec asks for, if it is newer than what all members finished, and than what is noted as tried.
fn newly_tried(ledger: &Ledger, wanted: &str) -> Option<Line> {
    let (finished, wanted) = (finished_line(ledger)?, wanted.parse::<Line>().ok()?);
    let noted = ledger.tried_line.as_deref().and_then(|line| line.parse::<Line>().ok());
    (ledger.formed == Some(true) && wanted > finished && noted.is_none_or(|noted| noted < wanted)).then_some(wanted)
}

/// The line that all members have finished, as far as it is known.
pub(super) fn finished_line(ledger: &Ledger) -> Option<Line> {
    Line::of(&ledger.finished_version.as_deref()?.parse().ok()?).ok()
}

/// The version that all data servers have; where there are none, nothing says.
fn finished_version(observed: &Observed) -> Option<String> {
    let mut versions = observed.servers.iter().filter_map(|server| server.facts.as_ref()).map(|facts| facts.version);
    let first = versions.next()?;
    versions.all(|version| version == first).then(|| format!("{}.{}.{}", first.major, first.minor, first.patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_line_is_noted_before_anybody_is_started_with_it() {
        let table = [
            ("the line that all finished", Some(true), Some("8.1.4"), None, "8.1", None),
            ("a newer one", Some(true), Some("8.1.4"), None, "9.1", Some(Line::V9_1)),
            ("noted already", Some(true), Some("8.1.4"), Some("9.1"), "9.1", None),
            ("a newer one than was noted", Some(true), Some("7.3.6"), Some("8.1"), "9.1", Some(Line::V9_1)),
            ("taken back: what was tried stays", Some(true), Some("8.1.4"), Some("9.1"), "8.1", None),
            ("nothing is finished yet", Some(true), None, None, "9.1", None),
            ("no member may hold anything", Some(false), Some("8.1.4"), None, "9.1", None),
            ("no line", Some(true), Some("8.1.4"), None, "8.0", None),
        ];
        for (case, formed, finished, tried, wanted, expected) in table {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let ledger = Ledger { formed, finished_version: text(finished), tried_line: text(tried), ..Ledger::default() };
            assert_eq!(newly_tried(&ledger, wanted), expected, "{case}");
        }
    }
}
