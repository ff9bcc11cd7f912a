//! The built-in policy of the failover architecture: one data set, one primary, up to four replicas, and Sentinels that decide
//! who takes over.
//!
//! # Guarantees
//! 1. Pure: the same observation gives the same plan. Nothing panics on data.
//! 2. At most one writer is routed to: one that answers as a primary and that the Sentinels (or, where no majority of them
//!    agrees, the ledger) call so.
//! 3. A primary that is merely silent is replaced by Sentinels, never by the operator. While they move the role, nothing else is
//!    done to it.
//! 4. An empty server is never promoted while a synced one is there. What may hold data is waited for until a person says
//!    otherwise.
//! 5. Of Sentinels that others share, only this data set's monitor is touched. None is ever reset.
//!
//! # Assumptions
//! Those of the replica policy. Sentinels name a pod only after they saw it as a primary; they take over the word of a higher
//! config epoch within seconds.
//!
//! # Flow
//! 1. [`spec`] reads what people want, [`group`] what the Sentinels say; whom they name is the view's authority.
//! 2. The replica policy decides all that concerns the data set. In place of its promotion stands [`succession`], without its
//!    fence.
//! 3. [`monitors`] makes each Sentinel watch the accepted primary; [`report`] says what people see.
//!
//! A Sentinel object that stands alone has no data set: [`alone`]. The decisions in prose: docs/failover-decisions.md.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod alone;
pub mod cause;
pub mod desired;
pub mod group;
pub mod monitors;
pub mod report;
pub mod spec;
pub mod succession;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use vko_replica::decision::{BY_ITSELF, PRIMARY};
use vko_replica::primary::{Accepted, accept};
use vko_replica::status::Beside;
use vko_replica::view::{Authority, View};
use vko_replica::{Preferences, act, conclude, recorded};
use vko_sdk::common::Architecture;
use vko_sdk::{ModuleInfo, Observed, Plan, Policy, PolicyError, Violation};

use crate::cause::{Block, Cause, Decision};
use crate::group::Group;

/// The policy.
pub struct FailoverPolicy;

#[cfg(all(target_arch = "wasm32", feature = "component"))]
vko_sdk::export_policy!(FailoverPolicy);

impl Policy for FailoverPolicy {
    fn describe() -> ModuleInfo {
        ModuleInfo {
            name: "failover".into(),
            architecture: Architecture::Failover,
            version: env!("CARGO_PKG_VERSION").into(),
            server_lines: vec!["7.2".into(), "8.1".into(), "9.1".into()],
            description: "One primary with up to four replicas; Sentinels decide who takes over.".into(),
        }
    }

    fn validate(spec: String, previous: String) -> Vec<Violation> {
        spec::validate(&spec, &previous)
    }

    fn decide(observed: Observed) -> Result<Plan, PolicyError> {
        decide_with(&observed, &Preferences::default())
    }
}

/// The plan for an observation, under preferences of a policy that is built on this one. They count where the operator promotes;
/// Sentinels know nothing of them.
///
/// # Errors
/// [`PolicyError::Insufficient`]: of another architecture, or a spec out of range; the instance stays as it is.
/// [`PolicyError::Internal`]: the spec isn't what this policy reads.
pub fn decide_with(observed: &Observed, preferences: &Preferences<'_>) -> Result<Plan, PolicyError> {
    if observed.instance.architecture != Architecture::Failover {
        return Err(PolicyError::Insufficient("this policy governs the failover architecture only".into()));
    }
    if observed.instance.kind == "Sentinel" {
        return Ok(alone::plan(observed, &spec::read_alone(&observed.instance.spec)?));
    }
    let settings = spec::read(&observed.instance.spec)?;
    let group = Group::new(observed, &settings);
    let view = view(observed, &group)?;
    let accepted = accept(&view);
    let beside = Beside {
        desired: if settings.own() { desired::sentinels(&group) } else { Vec::new() },
        nodes: report::nodes(&group),
        details: report::details(&group, &settings),
        shortfall: report::shortfall(&view, &group, accepted.primary()),
        remark: report::ghosts(&view, &group),
    };
    let wish = || wish(&view, &group, &accepted, preferences);
    Ok(conclude(&view, &accepted, wish, beside))
}

/// The observation, with whom the Sentinels name.
fn view<'a>(observed: &'a Observed, group: &Group<'_>) -> Result<View<'a>, PolicyError> {
    let view = View::new(observed, vko_replica::spec::read(&observed.instance.spec)?);
    Ok(view.under(Authority { monitor: group.name.clone(), named: group.named().map(str::to_owned) }))
}

/// What should be done about the data set and about its Sentinels.
fn wish(view: &View<'_>, group: &Group<'_>, accepted: &Accepted<'_, '_>, preferences: &Preferences<'_>) -> Decision {
    if let Some(message) = succession::under_way(view, group, accepted.primary()) {
        return Decision::wait(Block::new(PRIMARY, Cause::FailoverUnderWay, message, BY_ITSELF));
    }
    let mut decision = act(view, accepted, preferences, &|view, preferences| succession::succeed(view, group, preferences));
    if group.busy().is_some() {
        // The role has moved, but the Sentinels aren't done: it stays where it is until they are.
        decision.tracks.retain(|t| t.subject != PRIMARY);
    }
    let Accepted::One(primary) = accepted else { return decision };
    let known = view.observed.ledger.formed == Some(true) && recorded(view, primary);
    let role_moves = decision.tracks.iter().any(|t| t.subject == PRIMARY) || view.failover_under_way();
    if known && primary.fresh() && !primary.terminating() && !role_moves {
        return decision.and(monitors::reconcile(view, group, primary));
    }
    decision
}

#[cfg(test)]
mod tests;
