//! Succession: nobody answers as a primary, and the instance was complete before. Who takes over, and when.
//!
//! # Guarantees
//! 1. Nobody is promoted while some other member may acknowledge writes: it must have ended, say that it is no primary, or be
//!    fenced for certain. A replica that still hears a primary is evidence that there is one.
//! 2. A copy that streamed to the end goes before any other. Where there is none, copies out of reach that may be better are
//!    waited for, unless a person consents; where nothing can come back, the first choice is promoted at once and the loss is
//!    said.
//! 3. The same facts give the same choice.
//!
//! # Assumptions
//! With more than one member, a server starts following nobody: whoever was restarted can't write before it is named.
//!
//! # Flow
//! 1. [`choose`]: whom the data speaks for, or what is waited for.
//! 2. [`clear`]: whether somebody may still write. A fenced one: detach the replicas, wait until the fence has closed.
//! 3. Promote.

use vko_sdk::observation::{DataOrigin, FenceRecord, Reach, Role, Upstream};
use vko_sdk::planning::Operation;
use vko_sdk::{facts, plan, planning::Track};

use crate::candidates::{Preferences, best, eligible, in_lineage, may_return, promotable};
use crate::consent::{self, Kind};
use crate::decision::{AT_ONCE_MS, BY_ITSELF, Block, Cause, Decision, PRIMARY, SOON_MS, bound_step, names, promote};
use crate::primary::{FENCE_MARGIN_MS, Writer, closed_at, hears_primary, writer};
use crate::view::{Member, STALE_MS, Standing, View};

/// Whom the data speaks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice<'v, 'a> {
    /// This one.
    Promote {
        /// Whom.
        member: &'v Member<'a>,
        /// Why, for a person.
        reason: String,
        /// The consent that it rests on; empty if none.
        consent: String,
        /// What is lost by it, where something is.
        lost: Option<String>,
    },
    /// Nobody yet.
    Wait(Block),
}

/// What to do while nobody answers as a primary.
pub fn succeed(view: &View<'_>, preferences: &Preferences<'_>) -> Decision {
    if view.failover_under_way() {
        let message = "a server says that a hand-over is under way; it has one owner, and the result will show".to_owned();
        return Decision::wait(Block::new(PRIMARY, Cause::HandOverUnderWay, message, BY_ITSELF));
    }
    match choose(view, preferences) {
        Choice::Wait(block) => Decision::wait(block),
        Choice::Promote { member, reason, consent, lost } => clear(view, member)
            .unwrap_or_else(|| Decision { data_lost: lost, ..Decision::act(promote(view, member, reason, consent)) }),
    }
}

/// Whom the data speaks for.
pub fn choose<'v, 'a>(view: &'v View<'a>, preferences: &Preferences<'_>) -> Choice<'v, 'a> {
    let synced: Vec<_> = view.members.iter().filter(|m| promotable(view, m)).collect();
    if let Some(member) = best(view, &synced, preferences) {
        let reason = format!("the primary {} is lost; {} streamed from it to the end", last_name(view), member.name);
        return Choice::Promote { member, reason, consent: String::new(), lost: None };
    }
    let able: Vec<_> = view.members.iter().filter(|m| eligible(m)).collect();
    let awaited: Vec<_> = view.members.iter().filter(|m| may_return(view, m)).collect();
    // Appointed, and no history was ever seen: the naming of the first primary was cut short. Nothing was written yet.
    let never_led = view.observed.ledger.lineages.is_empty() && able.iter().all(|m| m.facts_now().is_some_and(|f| f.keys == 0));
    let holds = |m: &Member<'_>| m.facts_now().is_some_and(|f| f.keys > 0 || in_lineage(view, f));
    match view.last_member().filter(|m| eligible(m) && (never_led || holds(m))) {
        Some(last) => last_is_back(view, last, &able, &awaited, preferences),
        None => last_is_away(view, &able, &awaited, preferences),
    }
}

/// No copy streamed to the end, but the last primary is back with data.
fn last_is_back<'v, 'a>(
    view: &'v View<'a>,
    last: &'v Member<'a>,
    able: &[&'v Member<'a>],
    awaited: &[&'v Member<'a>],
    preferences: &Preferences<'_>,
) -> Choice<'v, 'a> {
    // An append-only file names no lineage, but it holds what the last primary wrote: no restarted replica is ahead of it.
    let by_file = last.facts_now().is_some_and(|f| f.origin == DataOrigin::AppendOnlyFile);
    let comparable = |m: &&Member<'_>| !by_file && m.facts_now().is_some_and(|f| in_lineage(view, f));
    let comparable: Vec<_> = able.iter().copied().filter(comparable).collect();
    if let Some(member) = best(view, &comparable, preferences) {
        let reason = format!("nobody streamed to the end; {} has the best offset of the last lineage", member.name);
        return Choice::Promote { member, reason, consent: String::new(), lost: None };
    }
    // A snapshot that is known to be older than what existed: a replica out of reach may be ahead of it.
    let known_behind = last.facts_now().is_some_and(|f| view.lineage(&f.replid).is_some_and(|l| f.offset < l.best_offset));
    if known_behind && !awaited.is_empty() {
        return wait_or_consent(view, last, awaited, "its data is older than what is known to have existed");
    }
    let lost = known_behind.then(|| format!("{} came back with older data, and no better copy is left", last.name));
    let reason = format!("nobody streamed to the end; {} was the last primary and is back with its data", last.name);
    Choice::Promote { member: last, reason, consent: String::new(), lost }
}

/// No copy streamed to the end, and the last primary is away, or back without data.
fn last_is_away<'v, 'a>(
    view: &'v View<'a>,
    able: &[&'v Member<'a>],
    awaited: &[&'v Member<'a>],
    preferences: &Preferences<'_>,
) -> Choice<'v, 'a> {
    let comparable: Vec<_> = able.iter().copied().filter(|m| m.facts_now().is_some_and(|f| in_lineage(view, f))).collect();
    let filled: Vec<_> = able.iter().copied().filter(|m| m.facts_now().is_some_and(|f| f.keys > 0)).collect();
    let choice = best(view, &comparable, preferences).or_else(|| best(view, &filled, preferences));
    let Some(member) = choice.or_else(|| best(view, able, preferences)) else {
        return Choice::Wait(nobody(view));
    };
    let unasked = unasked(view, member, awaited, comparable.is_empty());
    if !unasked.is_empty() {
        return wait_or_consent(view, member, &unasked, "no copy that answers is known to be complete");
    }
    if comparable.is_empty() && filled.len() > 1 {
        return apart(view, member, &filled);
    }
    let reason = format!("no claim or running pod is left that may hold better data; {} is the first choice", member.name);
    if nothing_known_lost(view) && filled.is_empty() {
        let reason = format!("{reason}, and no member was ever seen to hold a key");
        return Choice::Promote { member, reason, consent: String::new(), lost: None };
    }
    let lost =
        format!("no copy is left that streamed from {} to the end; {} is the best of what remains", last_name(view), member.name);
    Choice::Promote { member, reason, consent: String::new(), lost: Some(lost) }
}

/// Whether no key was ever seen, so that an empty data set is no sign of a loss. What was written and lost between two looks
/// at the servers, nobody saw.
pub fn nothing_known_lost(view: &View<'_>) -> bool {
    facts::held(view.observed) == Some(false)
}

/// Why nobody can be the choice.
fn nobody(view: &View<'_>) -> Block {
    let old: Vec<_> = view.members.iter().filter(|m| m.facts_now().is_some() && !m.fresh()).collect();
    if old.is_empty() {
        let message = format!("no member of {} answers that could become the primary", view.workload);
        return Block::new(
            PRIMARY,
            Cause::NoCandidate,
            message,
            "see why the pods don't run or don't answer: kubectl describe pod",
        );
    }
    let message = format!("the newest answers of {} are too old to decide on; they are being asked anew", names(&old));
    Block::new(PRIMARY, Cause::AnswersTooOld, message, BY_ITSELF)
}

/// Who has to be waited for. Where the choice has no known lineage, that is everybody who might hold a key: a server that wasn't
/// asked yet, and the claims of members that were removed.
fn unasked<'v, 'a>(
    view: &'v View<'a>,
    chosen: &Member<'a>,
    awaited: &[&'v Member<'a>],
    without_lineage: bool,
) -> Vec<&'v Member<'a>> {
    if !without_lineage {
        return awaited.to_vec();
    }
    let claim = |m: &Member<'_>| m.claim.is_some_and(|c| c.node_exists != Some(false) && c.phase != "Lost");
    let server = |m: &Member<'_>| m.pod.is_some_and(|p| !p.addresses.is_empty());
    let others = view.members.iter().filter(|m| m.ordinal != chosen.ordinal);
    // One that syncs or ends can't be the choice, but what it holds would be overwritten all the same.
    let holds = |m: &Member<'_>| !eligible(m) && m.facts_now().is_some_and(|f| f.keys > 0);
    let open = |m: &&Member<'_>| if m.fresh() { holds(m) } else { may_return(view, m) || claim(m) || server(m) };
    others.filter(open).collect()
}

/// Several copies that can't be compared.
fn apart<'v, 'a>(view: &View<'a>, member: &'v Member<'a>, filled: &[&Member<'a>]) -> Choice<'v, 'a> {
    let token = loss_token(view, member, filled);
    if consent::given(view.observed, &token) {
        let lost = Some(format!("{} was promoted by consent; what {} hold besides is discarded", member.name, names(filled)));
        let reason = format!("a person consents to go on with {}", member.name);
        return Choice::Promote { member, reason, consent: token, lost };
    }
    let message = format!("{} hold data, and nothing says whose is the newest", names(filled));
    let remedy = "look at the data, then consent to go on with the named copy";
    Choice::Wait(Block::new(PRIMARY, Cause::LineagesDiffer, message, remedy).or_consent(token))
}

fn wait_or_consent<'v, 'a>(view: &View<'a>, member: &'v Member<'a>, awaited: &[&Member<'a>], why: &str) -> Choice<'v, 'a> {
    let token = loss_token(view, member, awaited);
    let waiting = names(awaited);
    if consent::given(view.observed, &token) {
        let lost = format!("{} was promoted by consent, without waiting for {waiting}", member.name);
        let reason = format!("a person consents to go on with {} and without what {waiting} may hold", member.name);
        return Choice::Promote { member, reason, consent: token, lost: Some(lost) };
    }
    let message = format!("{waiting} may hold better data and does not answer; {} could take over, but {why}", member.name);
    let remedy =
        "bring the named members back (their pods, nodes, volumes); or give the consent, which loses what they alone hold";
    Choice::Wait(Block::new(PRIMARY, Cause::DataMayReturn, message, remedy).or_consent(token))
}

/// The consent to promote one copy without waiting for others: bound to the copy's run and to what is waited for.
pub fn loss_token(view: &View<'_>, member: &Member<'_>, awaited: &[&Member<'_>]) -> String {
    let facts = member.facts_now();
    let mut situation = vec![
        member.uid().unwrap_or_default(),
        facts.map_or("", |f| &f.run_id),
        facts.map_or("", |f| &f.replid),
        view.last.map_or("", |l| &l.claim),
    ];
    for m in awaited {
        situation.push(&m.name);
        situation.push(m.claim.map_or(m.uid().unwrap_or_default(), |c| &c.uid));
    }
    consent::token(view.observed, Kind::PromoteDataLoss, &member.name, &situation)
}

/// What must happen before that member may be promoted: nothing, if nobody else may acknowledge writes.
pub fn clear(view: &View<'_>, chosen: &Member<'_>) -> Option<Decision> {
    let mut fenced = Vec::new();
    for member in view.members.iter().filter(|m| m.ordinal != chosen.ordinal) {
        match writer(view, member) {
            // The kubelet says that it ended; the server's own last word is older than that, and the next look at it says so,
            // too.
            Writer::No if contradicts(member) => return Some(Decision::look(AT_ONCE_MS)),
            // That it is no primary was true a while ago; it is asked again before anybody relies on it.
            Writer::No if member.facts_now().is_some() && !member.fresh() => return Some(Decision::look(AT_ONCE_MS)),
            Writer::No => {}
            Writer::Answers => {
                let message = format!("{} answers as a primary", member.name);
                return Some(Decision::wait(Block::new(PRIMARY, Cause::TwoPrimaries, message, BY_ITSELF)));
            }
            Writer::Unbounded(why) => {
                let remedy = "bring it back, or make its end certain: delete its pod and see it gone, or taint its node \
                              node.kubernetes.io/out-of-service if the machine is off";
                return Some(Decision::wait(Block::new(PRIMARY, Cause::PrimarySilent, why, remedy)));
            }
            Writer::Fenced(fence) => fenced.push((member, fence)),
        }
    }
    if let Some(hearing) = hears_primary(view) {
        let message = format!("{} still hears a primary that the operator can't reach", hearing.name);
        let remedy = "see what cuts the operator off from the primary (NetworkPolicy, node network)";
        return Some(Decision::wait(Block::new(PRIMARY, Cause::PrimaryStillHeard, message, remedy)));
    }
    fenced.iter().find_map(|(member, fence)| close(view, member, fence))
}

/// Whether a dead member's server still counts as answering as a primary.
fn contradicts(member: &Member<'_>) -> bool {
    member.standing == Standing::Dead
        && member.server.is_some_and(|s| s.reach == Reach::Answered && s.age <= STALE_MS)
        && member.facts_known().is_some_and(|f| f.role == Role::Primary)
}

/// Closes the fence of a silent primary: nothing left to do once it is closed for certain.
fn close(view: &View<'_>, silent: &Member<'_>, fence: &FenceRecord) -> Option<Decision> {
    let others = || view.members.iter().filter(|m| m.ordinal != silent.ordinal && m.pod.is_some());
    let away: Vec<_> = others().filter(|m| m.facts_now().is_none() && may_run(m)).collect();
    let strangers = strangers(silent);
    if away.len().saturating_add(strangers) >= usize::try_from(fence.min_replicas).unwrap_or(usize::MAX) {
        if strangers > 0 {
            return Some(Decision::wait(strangers_follow(silent)));
        }
        let message = format!(
            "{} is silent, and so is {}: together they may still acknowledge writes (the fence asks for {} replica(s))",
            silent.name,
            names(&away),
            fence.min_replicas
        );
        let remedy = "bring a majority of the members back into reach";
        return Some(Decision::wait(Block::new(PRIMARY, Cause::TooManySilent, message, remedy)));
    }
    let following: Vec<_> = others().filter(|m| m.facts_now().is_some() && (!m.unnamed() || fence.detached_at == 0)).collect();
    if !following.is_empty() {
        let tracks = following.into_iter().filter(|m| m.fresh()).filter_map(|m| detach(view, m, silent)).collect();
        return Some(Decision { tracks, ..Decision::look(SOON_MS) });
    }
    let now = view.observed.now;
    let left = closed_at(fence).map_or(SOON_MS, |at| at.saturating_sub(now));
    (left > 0).then(|| {
        // No countdown: each look would write another status, and each write wakes a look.
        let after = (fence.max_lag + FENCE_MARGIN_MS).div_ceil(1000);
        let message = format!(
            "{} is silent and fenced; it acknowledges no write any more {after} s after its last replica was detached",
            silent.name
        );
        Decision { look_again: left, ..Decision::wait(Block::new(PRIMARY, Cause::FenceClosing, message, BY_ITSELF)) }
    })
}

/// Replicas that are no members and were attached when it was last heard: the fence counts them, and nobody here can detach them.
fn strangers(silent: &Member<'_>) -> usize {
    let attached = silent.facts_known().map(|f| f.replicas.as_slice()).unwrap_or_default();
    attached.iter().filter(|r| r.online && !matches!(r.pod, Upstream::Pod(_))).count()
}

fn strangers_follow(silent: &Member<'_>) -> Block {
    let message =
        format!("{} is silent, and replicas that are no members were attached to it: its fence may not bind", silent.name);
    let remedy = "bring it back, or make its end certain: delete its pod and see it gone, or taint its node \
                  node.kubernetes.io/out-of-service if the machine is off";
    Block::new(PRIMARY, Cause::PrimarySilent, message, remedy)
}

/// Whether a server may run there, and so follow somebody.
fn may_run(member: &Member<'_>) -> bool {
    member.standing != Standing::Dead && member.pod.is_some_and(|p| !p.addresses.is_empty())
}

fn detach(view: &View<'_>, member: &Member<'_>, silent: &Member<'_>) -> Option<Track> {
    let uid = member.uid()?.to_owned();
    let reason = format!("{} is silent: without its replicas its fence closes", silent.name);
    Some(plan::track(&member.name, vec![bound_step(view, member, Operation::Detach(uid), reason)]))
}

fn last_name(view: &View<'_>) -> String {
    view.last.map_or_else(|| "that nobody recorded".into(), |l| format!("{}-{}", view.workload, l.ordinal))
}
