//! One look: the flow of [`super`], step by step.
//!
//! # Guarantees
//! 1. Nothing is remembered from look to look but what has a room of its own: the ledger, the servers' past, running tracks,
//!    policies given up.
//! 2. What can't be done is told in the status. An object or a mount holds up nothing else; missing accounts hold up all of
//!    EXECUTE, since no server could be asked.
//! 3. A look that ends early leaves a legal state; the next one starts from what is.
//!
//! # Assumptions
//! The caches may be late. What is dangerous on a late view meets the guard ([`Circumstances`]) and, at the server, its
//! expectations.

use std::time::Duration;

use serde_json::Value;

use super::act::Seen;
use super::topology::{Named, is_foreign};
use super::{Instance, LOOK_AFTER_FAILURE, LOOK_ANYWAY, Next};
use crate::accounts::Accounts;
use crate::guard::Circumstances;
use crate::object::{Kind, Object};
use crate::observe::{CutOff, cut_off};
use crate::report::{HostFacts, topology_status, valkey_status};
use crate::site::DANGEROUS_DEADLINE;
use crate::store::StoreError;
use crate::world::{ApiError, Delete, World};

/// Why a look ended early. The variant is the metric label; the next look starts from what is.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookError {
    /// The API server said no, or nothing.
    #[error("{0}")]
    ApiRefused(#[from] ApiError),
    /// The ledger or the report couldn't be written.
    #[error("{0}")]
    StatusNotWritten(#[from] StoreError),
    /// The task that calls policies ended.
    #[error("the policy's task ended: {0}")]
    PolicyTaskEnded(String),
}

/// Why the newest spec isn't in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) message: String,
}

impl<W: World> Instance<W> {
    pub(super) async fn look(&mut self) -> Result<Next, LookError> {
        let valkey = self.shared.world.cached(&self.valkey_id());
        let topology = self.topology();
        if let Some(sentinel) = topology.as_ref().filter(|topology| topology.id.kind == Kind::Sentinel) {
            return self.look_at_sentinels(valkey.as_ref(), sentinel).await;
        }
        let alive = valkey.as_ref().filter(|valkey| !valkey.deleting());
        match (alive, &topology) {
            // An end can't be undone, and each kind has a watch of its own, which may lag: the Valkey is read anew.
            (None, Some(_)) if self.valkey_lives().await? => return Ok(Next::After(LOOK_AFTER_FAILURE)),
            (None, Some(topology)) if topology.object.deleting() => return Ok(self.end(valkey.as_ref(), topology).await?),
            (None, Some(topology)) => {
                // The Valkey is gone or waits for its claims: the topology object follows it.
                let delete = Delete { uid: topology.object.uid().into(), grace_seconds: None, orphan: false };
                self.shared.world.delete(&topology.id, delete).await?;
                return Ok(Next::After(LOOK_ANYWAY));
            }
            (None, None) => match &valkey {
                Some(valkey) => return Ok(self.finish(valkey).await?),
                None => return Ok(self.let_secrets_go().await?),
            },
            (Some(_), Some(topology)) if topology.object.deleting() => return Ok(self.release(topology).await?),
            (Some(_), _) => {}
        }
        let Some(valkey) = alive else { return Ok(Next::Gone) };
        self.look_at_valkey(valkey, topology.as_ref()).await
    }

    /// A Valkey that lives, with a topology object that does, or none yet.
    async fn look_at_valkey(&mut self, valkey: &Object, topology: Option<&Named>) -> Result<Next, LookError> {
        let refused = self.translate(valkey, topology).await?;
        let ours = |topology: &Named| !topology.object.deleting() && !is_foreign(&topology.object, valkey);
        let Some(topology) = self.topology().filter(ours) else {
            self.report_valkey(valkey, None, refused.as_ref()).await?;
            return Ok(Next::After(LOOK_ANYWAY));
        };
        let next = self.look_at(valkey, &topology).await?;
        let newest = self.topology().unwrap_or(topology);
        self.report_valkey(valkey, Some(&newest.object), refused.as_ref()).await?;
        Ok(next)
    }

    pub(super) async fn report_valkey(
        &self,
        valkey: &Object,
        topology: Option<&Object>,
        refused: Option<&Refused>,
    ) -> Result<(), LookError> {
        let before = valkey.0.get("status").cloned().unwrap_or(Value::Null);
        let refused = refused.map(|r| (r.reason.as_str(), r.message.as_str()));
        let status = valkey_status(&before, topology, valkey.generation(), refused, self.shared.world.unix_ms());
        if status == before {
            return Ok(());
        }
        let mut body = (*valkey.0).clone();
        body["status"] = status.clone();
        match self.shared.world.replace_status(&body).await {
            Ok(_) => self.tell_ready(valkey, &before, &status).await,
            // Somebody edited the Valkey meanwhile: its change wakes us.
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Steps 3 to 7. `person` is what a person wrote: annotations are read there, and events regard it.
    pub(super) async fn look_at(&mut self, person: &Object, named: &Named) -> Result<Next, LookError> {
        let topology = &named.object;
        let site = self.site(named).await?;
        let rendered = self.render_topology(named);
        let pods = self.pods(named.id.kind);
        let accounts = Accounts::ensure(&*self.shared.world, &rendered).await;
        let mut host = HostFacts::default();
        match &accounts {
            Ok(accounts) => host.problem = self.follow(&site, named, &pods, accounts),
            Err(error) => host.problem = Some((error.reason().into(), error.to_string())),
        }
        self.probes.refresh(site.store.naming().await.since).await;
        // Before observing: a track that ends meanwhile may have changed what the observation shows, so its subject rests for
        // this look.
        let running = self.tracks.running();
        let observed = self.observe_and_learn(&site, person, named, &pods, running.is_empty()).await?;
        self.help_orphan(&site, &observed, &running, person).await;
        let cut_off = cut_off(&observed);
        site.set_cut_off(cut_off != CutOff::No);
        if cut_off != CutOff::No {
            self.shared.metrics.cut_off.inc();
        }
        let circumstances = Circumstances {
            lease: self.shared.lease.covers(DANGEROUS_DEADLINE),
            fresh: self.is_fresh(named.id.kind),
            cut_off: cut_off != CutOff::No,
            current: self.shared.world.cached(&named.id).is_some_and(|t| t.generation() == topology.generation()),
        };
        let (observed, decision) = self.decide(observed, circumstances, running, person).await?;
        site.outcomes.note_refusals(self.shared.world.monotonic(), &decision.guarded.refusals);
        self.tell_decision(person, &decision).await;
        self.journal_decision(&observed, &decision);
        let mut unsettled = false;
        if let (Some(plan), Ok(accounts)) = (&decision.plan, &accounts) {
            self.note_tried(&site, topology).await?;
            let (site, topology, observed, pods) = (&site, &rendered, &observed, &pods);
            let seen = Seen { site, named, topology, observed, circumstances, accounts, pods, person };
            unsettled = self.execute(&seen, plan, &decision.guarded.tracks, &mut host).await;
        }
        host.policy_problem = self.policy_problem();
        let before = topology.0.get("status").cloned().unwrap_or(Value::Null);
        let status = topology_status(&before, &decision, &host, &cut_off, topology.generation(), observed.now);
        self.note_finished(&site, &observed, decision.plan.as_ref()).await?;
        let paused = site.store.report(&status).await?;
        self.report_sentinel(topology, &status).await;
        let again = self.pace(&observed, &decision, unsettled, &host);
        let settled = site.store.naming().await.under_way(self.shared.world.monotonic());
        Ok(Next::After([paused, settled].into_iter().flatten().fold(again, Duration::min)))
    }
}
