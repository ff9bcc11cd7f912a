//! Creation: the ledger says that this instance was never complete. The first primary is named, once.
//!
//! # Guarantees
//! 1. No data is overwritten by an empty server: a claim from before the instance that may hold data is waited for.
//! 2. Not all members need to be up. A pod that doesn't answer and holds nothing is no obstacle.
//!
//! # Assumptions
//! The host writes `formed` and the first primary into the ledger before it promotes. It says which claims are older than the
//! instance.
//!
//! # Flow
//! 1. Claims out of reach that may hold older data: wait, or go by consent.
//! 2. Sentinels may have made one that doesn't answer the primary: wait.
//! 3. Nobody holds data: the lowest ordinal that answers. One does: it. Several do: the best of one lineage, else by consent.

use vko_sdk::observation::{ContainerState, Pod};

use crate::candidates::{Preferences, best, eligible};
use crate::consent;
use crate::decision::{Block, Cause, Decision, PRIMARY, names, promote};
use crate::promotion::{clear, loss_token};
use crate::view::{Member, Standing, View};

/// What to do while the first primary isn't named.
pub fn create(view: &View<'_>, preferences: &Preferences<'_>) -> Decision {
    let able: Vec<_> = view.members.iter().filter(|m| eligible(m)).collect();
    let filled: Vec<_> = able.iter().copied().filter(|m| keys(m) > 0).collect();
    let unseen: Vec<_> = view.members.iter().filter(|m| !m.fresh() && holds_older_data(m)).collect();
    let choice = if filled.is_empty() { lowest(&able, preferences) } else { best(view, &filled, preferences) };
    let Some(member) = choice else { return nobody(view, &unseen) };
    if !unseen.is_empty() {
        let message = format!(
            "the claims of {} are older than this instance and may hold data; no server answers for them",
            names(&unseen)
        );
        let remedy =
            "let their pods start (raise spec.replicas if they are beyond it), or delete the claims if they are not needed";
        return by_consent(view, member, &unseen, Block::new(PRIMARY, Cause::RetainedData, message, remedy));
    }
    let reason = match filled.len() {
        0 => format!("no member holds data; {} becomes the first primary", member.name),
        1 => format!("{} alone holds data from before", member.name),
        _ if one_lineage(&filled) => format!("{} has the best offset of the one lineage that the claims hold", member.name),
        _ => {
            let message = format!("{} hold data from before, and nothing says whose is the newest", names(&filled));
            let remedy = "look at the data, delete the claims that are not needed, or consent to go on with the named copy";
            return by_consent(view, member, &filled, Block::new(PRIMARY, Cause::LineagesDiffer, message, remedy));
        }
    };
    let open = clear(view, member).or_else(|| made_by_others(view, member));
    open.unwrap_or_else(|| Decision::act(promote(view, member, reason, String::new())))
}

/// Where others decide, too (Sentinels that a former instance of this name left something with, say): one that doesn't answer may
/// be the primary by their word, if that names it, or nobody.
fn made_by_others(view: &View<'_>, chosen: &Member<'_>) -> Option<Decision> {
    let named = view.authority.as_ref()?.named.as_deref();
    let others = view.members.iter().filter(|m| m.ordinal != chosen.ordinal);
    let other = others.filter(|m| runs_unheard(m)).find(|m| named.is_none() || named == m.uid())?;
    if other.standing == Standing::Starting {
        return Some(Decision::look(crate::decision::SOON_MS));
    }
    let message = format!("{} does not answer, and the Sentinels may have made it the primary", other.name);
    let remedy = "bring it back into reach, or make its end certain: delete its pod and see it gone";
    Some(Decision::wait(Block::new(PRIMARY, Cause::PrimarySilent, message, remedy)))
}

/// Whether its process may run, and gives no usable answer. A container that starts was heard before, or has never run.
fn runs_unheard(member: &Member<'_>) -> bool {
    let began = |pod: &Pod| pod.container == ContainerState::Running || member.facts_known().is_some();
    let runs = |pod: &Pod| began(pod) && !pod.addresses.is_empty();
    match member.standing {
        Standing::Silent(_) | Standing::Refusing(_) => true,
        Standing::Starting => member.pod.is_some_and(runs),
        _ => false,
    }
}

/// Nobody could take the role yet: pods still start, as a rule.
fn nobody(view: &View<'_>, unseen: &[&Member<'_>]) -> Decision {
    if view.members.iter().any(|m| m.pod.is_some()) || unseen.is_empty() {
        return Decision::look(crate::decision::SOON_MS);
    }
    let message = format!("no member of {} runs yet; {} may hold data from before", view.workload, names(unseen));
    Decision::wait(Block::new(PRIMARY, Cause::NoCandidate, message, "see why the pods don't run: kubectl describe pod"))
}

fn by_consent(view: &View<'_>, member: &Member<'_>, awaited: &[&Member<'_>], block: Block) -> Decision {
    let token = loss_token(view, member, awaited);
    if !consent::given(view.observed, &token) {
        return Decision::wait(block.or_consent(token));
    }
    let reason = format!("a person consents to begin with {}", member.name);
    let lost = Some(format!("{} became the first primary by consent: {}", member.name, block.message));
    clear(view, member).unwrap_or_else(|| Decision { data_lost: lost, ..Decision::act(promote(view, member, reason, token)) })
}

fn keys(member: &Member<'_>) -> u64 {
    member.facts_now().map_or(0, |f| f.keys)
}

fn lowest<'v, 'a>(able: &[&'v Member<'a>], preferences: &Preferences<'_>) -> Option<&'v Member<'a>> {
    let preferred = |m: &&&'v Member<'a>| !m.pod.is_some_and(|p| (preferences.may_promote)(p));
    able.iter().min_by_key(|m| (preferred(m), m.ordinal)).copied()
}

/// Whether copies are of one lineage, so that their offsets can be compared. An append-only file names none: its id is a new one.
fn one_lineage(members: &[&Member<'_>]) -> bool {
    let mut facts = members.iter().filter_map(|m| m.facts_now());
    let Some(first) = facts.next() else { return false };
    !first.replid.is_empty() && first.offset > 0 && facts.all(|f| f.replid == first.replid && f.offset > 0)
}

/// A claim that the instance's own workload made held nothing.
fn holds_older_data(member: &Member<'_>) -> bool {
    let there = member.claim.filter(|c| c.node_exists != Some(false) && c.phase != "Pending");
    there.is_some_and(|c| c.before_instance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, describe};

    type Change = fn(&mut Scene) -> &mut Scene;

    #[test]
    fn the_first_primary() {
        // (case, change to a new instance of three whose pods answer, following nobody and empty; what is decided)
        let table: &[(&str, Change, &str)] = &[
            ("all answer: ordinal 0", |s| s, "promote rfr-x-0"),
            ("ordinal 0 isn't there yet", |s| s.remove_pod(0), "promote rfr-x-1"),
            ("only the last one answers", |s| s.silence(0).unhear(0).unready(0).wait_start(1), "promote rfr-x-2"),
            ("nobody answers yet", |s| s.wait_start(0).wait_start(1).wait_start(2), "-"),
            ("facts are old", |s| s.age(0, 4_000).age(1, 4_000).age(2, 4_000), "-"),
            ("no pods yet", |s| s.remove_pod(0).remove_pod(1).remove_pod(2), "-"),
            ("ordinal 0 ends", |s| s.terminate(0), "promote rfr-x-1"),
            ("a new claim out of reach is no obstacle", |s| s.with_claims().wait_start(1), "promote rfr-x-0"),
            (
                "an old claim out of reach is waited for",
                |s| s.with_claims().old_claims().wait_start(1),
                "wait RetainedData rfr-x-0",
            ),
            (
                "an old claim whose volume is gone",
                |s| s.with_claims().old_claims().wait_start(1).lose_volume(1),
                "promote rfr-x-0",
            ),
            ("old claims that turn out empty", |s| s.with_claims().old_claims(), "promote rfr-x-0"),
            ("the only one with data", |s| s.fill(2, "old", 40), "promote rfr-x-2"),
            ("several, one lineage: best offset", |s| s.fill(1, "old", 40).fill(2, "old", 50), "promote rfr-x-2"),
            ("several, no common lineage", |s| s.fill(1, "old", 40).fill(2, "other", 50), "wait LineagesDiffer rfr-x-2"),
            ("several, append-only files", |s| s.fill(1, "r1", 0).fill(2, "r2", 0), "wait LineagesDiffer rfr-x-1"),
            (
                "several, by consent",
                |s| s.fill(1, "r1", 0).fill(2, "r2", 0).consent_to_all(),
                "promote rfr-x-1 by consent, data lost",
            ),
            ("a silent pod that may be a primary", |s| s.silence(2).unhear(2).pod(2, |p| p.ready = true), "wait PrimarySilent"),
        ];
        for (case, change, expected) in table {
            let mut scene = Scene::new("x", 3);
            change(&mut scene);
            let found = describe(&scene, |view| create(view, &Preferences::default()));
            assert_eq!(found, *expected, "{case}");
        }
    }
}
