//! What one look decides: tracks of steps, what waits and why, and how soon to look again.

use vko_sdk::observation::Upstream;
use vko_sdk::plan::{self, StepExt};
use vko_sdk::planning::{Blocked, Expectation, Operation, Step, Track};

use crate::view::{Member, Standing, View};

/// Pace (ms) while something is wrong or under way: as often as the host asks the servers then.
pub const SOON_MS: u64 = 1_000;
/// Pace (ms) while two words about the same server contradict each other and the next look settles it.
pub const AT_ONCE_MS: u64 = 250;
/// Pace (ms) while the primary serves and something else is waited for.
pub const LATER_MS: u64 = 5_000;

/// Remedy of what ends by itself.
pub const BY_ITSELF: &str = "none needed";

/// Subject of the track that gives or moves the primary role: one at a time.
pub const PRIMARY: &str = "primary";

/// Why something waits. The variant is the condition's reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The primary gives no answer and may still acknowledge writes.
    PrimarySilent,
    /// The primary is fenced; the fence must have closed for certain.
    FenceClosing,
    /// A replica hears the primary, though the operator doesn't.
    PrimaryStillHeard,
    /// Too many members are out of reach for the fence to bind.
    TooManySilent,
    /// Copies that may be better are out of reach.
    DataMayReturn,
    /// Nobody answers who could take the role.
    NoCandidate,
    /// Those who could take the role answered too long ago for anything to rest on it.
    AnswersTooOld,
    /// Claims from before this instance may hold data.
    RetainedData,
    /// Several copies, and nothing says which one is the newest.
    LineagesDiffer,
    /// The ledger was lost: whether this instance ever held data is unknown.
    LedgerLost,
    /// Several members answer as primaries, each with writes of its own.
    TwoPrimaries,
    /// The only primary holds nothing, while the data is elsewhere.
    EmptyPrimary,
    /// The only primary is one of which the ledger knows nothing.
    PrimaryUnproven,
    /// Following would discard what this member alone holds.
    WritesWouldBeLost,
    /// A hand-over is under way and has one owner.
    HandOverUnderWay,
    /// Members can't be removed yet.
    ShrinkWaits,
    /// The next member of a roll can't be replaced yet.
    RollWaits,
    /// The running pod must learn first that a restart follows nobody.
    StartModePending,
    /// The host doesn't carry out a step that this needs.
    HostLacksOperation,
}

impl Cause {
    /// The variant's name: reason of conditions.
    pub fn reason(self) -> String {
        format!("{self:?}")
    }
}

/// Something that waits for an event or a person. `C`: the policy's own causes.
#[derive(Debug, Clone, PartialEq)]
pub struct Block<C = Cause> {
    /// What it is about: a member, or the primary role.
    pub subject: String,
    /// Why.
    pub cause: C,
    /// The same for a person, with names.
    pub message: String,
    /// What a person can do.
    pub remedy: String,
    /// Token of the consent that ends it; empty if none does.
    pub token: String,
}

impl<C> Block<C> {
    /// Something that ends by itself or by repairing what is broken.
    pub fn new(subject: &str, cause: C, message: String, remedy: &str) -> Self {
        Self { subject: subject.into(), cause, message, remedy: remedy.into(), token: String::new() }
    }

    /// The same, with a consent that ends it.
    pub fn or_consent(mut self, token: String) -> Self {
        self.token = token;
        self
    }

    /// In the form of the interface.
    pub fn publish(self) -> Blocked {
        plan::blocked(self.subject, self.message, self.remedy, self.token)
    }
}

/// What one look decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<C = Cause> {
    /// What to do.
    pub tracks: Vec<Track>,
    /// What waits.
    pub blocks: Vec<Block<C>>,
    /// Look again after this long (ms); 0: at the next event.
    pub look_again: u64,
    /// What was lost, where something was.
    pub data_lost: Option<String>,
}

impl<C> Default for Decision<C> {
    fn default() -> Self {
        Self { tracks: Vec::new(), blocks: Vec::new(), look_again: 0, data_lost: None }
    }
}

impl<C> Decision<C> {
    /// One track.
    pub fn act(track: Track) -> Self {
        Self { tracks: vec![track], look_again: SOON_MS, ..Self::default() }
    }

    /// Some tracks, maybe none.
    pub fn act_all(tracks: impl IntoIterator<Item = Track>) -> Self {
        Self { tracks: tracks.into_iter().collect(), look_again: SOON_MS, ..Self::default() }
    }

    /// Nothing but waiting.
    pub fn wait(block: Block<C>) -> Self {
        Self { blocks: vec![block], look_again: SOON_MS, ..Self::default() }
    }

    /// Nothing but looking again.
    pub fn look(after_ms: u64) -> Self {
        Self { look_again: after_ms, ..Self::default() }
    }

    /// Both.
    pub fn and(mut self, other: Self) -> Self {
        self.tracks.extend(other.tracks);
        self.blocks.extend(other.blocks);
        self.look_again = sooner(self.look_again, other.look_again);
        self.data_lost = self.data_lost.or(other.data_lost);
        self
    }
}

impl<C> Decision<C> {
    /// The same, among the causes of a policy that has more of them.
    pub fn widen<D: From<C>>(self) -> Decision<D> {
        let widen = |b: Block<C>| Block {
            subject: b.subject,
            cause: b.cause.into(),
            message: b.message,
            remedy: b.remedy,
            token: b.token,
        };
        Decision {
            tracks: self.tracks,
            blocks: self.blocks.into_iter().map(widen).collect(),
            look_again: self.look_again,
            data_lost: self.data_lost,
        }
    }
}

/// The sooner of two looks; 0 is none.
pub fn sooner(a: u64, b: u64) -> u64 {
    match (a, b) {
        (0, other) | (other, 0) => other,
        (a, b) => a.min(b),
    }
}

/// A step on a member's server that is bound to what it is now: its run, its lineage, how far it reaches, its role. Whom it
/// follows is named where that one is there to be compared with; following nobody can't be expected, but the run and its lineage
/// can.
pub fn bound_step(view: &View<'_>, member: &Member<'_>, operation: Operation, reason: String) -> Step {
    let step = plan::step(operation, reason);
    let (Some(uid), Some(facts)) = (member.uid(), member.facts_now()) else { return step };
    let step = step.expecting(plan::same_run(uid, &facts.run_id)).expecting(plan::offset_at_least(uid, facts.offset));
    let step = if facts.replid.is_empty() { step } else { step.expecting(plan::same_lineage(uid, &facts.replid)) };
    match member.standing {
        Standing::Primary(_) => step.expecting(plan::is_primary(uid)),
        Standing::Replica(_, link) => match &link.primary {
            Upstream::Pod(primary) if view.by_pod(primary).is_some_and(|m| m.facts_now().is_some()) => {
                step.expecting(plan::follows(uid, primary))
            }
            Upstream::Nobody | Upstream::Pod(_) | Upstream::Other(_) => step,
        },
        _ => step,
    }
}

/// The track that makes a member the primary. (The host lifts a fence that the server kept from an earlier life as one.)
pub fn promote(view: &View<'_>, member: &Member<'_>, reason: String, consent: String) -> Track {
    let uid = member.uid().unwrap_or_default().to_owned();
    let mut step = bound_step(view, member, Operation::Promote(uid.clone()), reason).consented(consent);
    if member.facts_now().is_some_and(|f| f.keys == 0) {
        step = step.expecting(Expectation::DataSetEmpty(uid));
    }
    plan::track(PRIMARY, vec![step])
}

/// Names of members, for a person.
pub fn names(members: &[&Member<'_>]) -> String {
    members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    #[test]
    fn a_promotion_is_bound_to_run_lineage_and_offset() {
        let bound = [
            plan::same_run("uid-x-1", "run-x-1"),
            plan::offset_at_least("uid-x-1", 1_000),
            plan::same_lineage("uid-x-1", "lineage-a"),
        ];
        let expects = |scene: &Scene| {
            let view = scene.view();
            promote(&view, &view.members[1], "because".into(), String::new()).steps[0].expects.clone()
        };
        let mut scene = Scene::healthy("x", 2);
        assert_eq!(expects(&scene)[..3], bound);
        assert_eq!(expects(&scene)[3..], [plan::follows("uid-x-1", "uid-x-0")], "whom it follows, while that one answers");
        assert_eq!(expects(scene.kill(0)), bound, "a dead one can't be compared with");
        scene.facts(1, |f| f.keys = 0);
        assert_eq!(expects(&scene)[3..], [Expectation::DataSetEmpty("uid-x-1".into())], "an empty one must still be empty");
    }

    #[test]
    fn zero_is_no_look() {
        assert_eq!([sooner(0, 0), sooner(0, 5), sooner(5, 0), sooner(5, 3)], [0, 5, 5, 3]);
    }
}
