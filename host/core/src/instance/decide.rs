//! PLAN and GUARD, and what is done without a plan: a hand-over that nobody owns any more is taken back.

use std::sync::Arc;

use vko_wit::observation::Observed;
use vko_wit::planning::Track;

use super::Instance;
use super::look::LookError;
use crate::governor::{Decision, Governor, PinMissing};
use crate::guard::Circumstances;
use crate::object::Object;
use crate::orphan;
use crate::policy::AdmitError;
use crate::site::Site;
use crate::world::{EventNote, World};

impl<W: World> Instance<W> {
    /// PLAN and GUARD, on a thread that may block.
    pub(super) async fn decide(
        &mut self,
        observed: Observed,
        circumstances: Circumstances,
        running: Vec<Track>,
        person: &Object,
    ) -> Result<(Arc<Observed>, Decision), LookError> {
        let Some(built_in) = self.shared.registry.built_in(observed.instance.architecture) else {
            return Err(LookError::PolicyTaskEnded("this build has no policy for the architecture".into()));
        };
        let mut governor = self.governor.take().unwrap_or_else(|| Governor::new(self.shared.registry.clone(), built_in));
        let observed = Arc::new(observed);
        let pin = person.annotation(vko_api::names::PIN).to_owned();
        let seen = observed.clone();
        let world = self.shared.world.clone();
        let task = tokio::task::spawn_blocking(move || {
            let begun = world.monotonic();
            let decision = governor.decide(&seen, circumstances, &running, &pin);
            (governor, decision, world.monotonic().saturating_sub(begun))
        });
        // A panic in there costs this instance its memory of policies given up, and nobody else anything.
        let (governor, decision, took) = task.await.map_err(|error| LookError::PolicyTaskEnded(error.to_string()))?;
        self.governor = Some(governor);
        self.deciding = took;
        Ok((observed, decision))
    }

    /// A hand-over that nobody owns any more is taken back. Not a policy's business: no plan asked for it.
    pub(super) async fn help_orphan(&self, site: &Arc<Site<W>>, observed: &Observed, running: &[Track], person: &Object) {
        let Some(pod) = self.orphans.find(observed, running, self.shared.world.monotonic()) else { return };
        let name = observed.pods.iter().find(|p| p.uid == pod).map_or("", |p| p.name.as_str());
        let note = match orphan::take_back(site, &pod).await {
            Ok(()) => format!("a hand-over from {name} did not end and nobody owned it: it was taken back"),
            Err(error) => format!("a hand-over from {name} does not end, and can't be taken back: {error}"),
        };
        tracing::warn!(namespace = self.key.namespace, instance = self.key.name, note, "orphaned hand-over");
        self.shared.world.event(person, EventNote { reason: "HandOverOrphaned".into(), note, warning: true }).await;
    }

    /// Why the newest policy doesn't govern: reason and message.
    pub(super) fn policy_problem(&self) -> Option<(String, String)> {
        let refused = || self.shared.registry.refused().into_iter().next();
        let told = |(name, error): &(String, AdmitError)| format!("the policy in ConfigMap {name} was not admitted: {error}");
        if let Some(missing) = self.governor.as_ref().and_then(Governor::missing) {
            // It may be the one that was pinned.
            let message = [missing.message.clone()].into_iter().chain(refused().as_ref().map(told)).collect::<Vec<_>>();
            return Some((PinMissing::REASON.into(), message.join("; ")));
        }
        let given_up = self.governor.as_ref().and_then(|governor| governor.given_up().last().cloned());
        if let Some(given_up) = given_up {
            let message =
                format!("policy {} {} does not govern: {}", given_up.policy.name, given_up.policy.version, given_up.message);
            return Some((given_up.reason.into(), message));
        }
        let refused = refused()?;
        Some((refused.1.reason().into(), told(&refused)))
    }
}
