//! The ledger was lost (restored from a backup, say): whether this instance ever held data is unknown.
//!
//! # Guarantees
//! Nothing is created and nothing given up. It ends when every member that a workload or claim names answers and they agree (the
//! host writes the ledger then), else by a person's consent.

use crate::candidates::{Preferences, best, eligible};
use crate::consent;
use crate::decision::{Block, Cause, Decision, PRIMARY, SOON_MS, names, promote};
use crate::promotion::{clear, loss_token};
use crate::view::{Member, View};

/// What to do while it is unknown.
pub fn hold(view: &View<'_>, preferences: &Preferences<'_>) -> Decision {
    let named: Vec<_> = view.members.iter().filter(|m| m.pod.is_some() || m.claim.is_some()).collect();
    let away: Vec<_> = named.iter().copied().filter(|m| m.facts_now().is_none()).collect();
    let primaries = view.primaries();
    if let Some(uid) = primaries.first().and_then(|p| p.uid()) {
        let apart: Vec<_> = named.iter().copied().filter(|m| m.uid() != Some(uid) && !m.follows(uid)).collect();
        if apart.is_empty() {
            return Decision::look(SOON_MS);
        }
        let message =
            format!("the ledger was lost, and {} doesn't answer or doesn't follow {}", names(&apart), primaries[0].name);
        let remedy = "bring the named members back, or delete their claims if they are not needed";
        return Decision::wait(Block::new(PRIMARY, Cause::LedgerLost, message, remedy));
    }
    nobody_leads(view, &away, preferences)
}

fn nobody_leads(view: &View<'_>, away: &[&Member<'_>], preferences: &Preferences<'_>) -> Decision {
    let able: Vec<_> = view.members.iter().filter(|m| eligible(m)).collect();
    let filled: Vec<_> = able.iter().copied().filter(|m| m.facts_now().is_some_and(|f| f.keys > 0)).collect();
    let choice = best(view, &filled, preferences).or_else(|| best(view, &able, preferences));
    let Some(member) = choice else {
        let message = format!("the ledger was lost, and no member of {} answers", view.workload);
        return Decision::wait(Block::new(
            PRIMARY,
            Cause::LedgerLost,
            message,
            "see why the pods don't run: kubectl describe pod",
        ));
    };
    let token = loss_token(view, member, away);
    let who = if away.is_empty() { "nobody answers as the primary".into() } else { format!("{} is out of reach", names(away)) };
    if consent::given(view.observed, &token) {
        let reason = format!("a person consents to go on with {} though the ledger was lost", member.name);
        let lost = Some(format!("{} was promoted by consent after the ledger was lost", member.name));
        return clear(view, member)
            .unwrap_or_else(|| Decision { data_lost: lost, ..Decision::act(promote(view, member, reason, token)) });
    }
    let message = format!("the ledger was lost and {who}; {} could become the primary", member.name);
    let remedy = "bring all members back, look at their data, then consent to go on with the named one";
    Decision::wait(Block::new(PRIMARY, Cause::LedgerLost, message, remedy).or_consent(token))
}
