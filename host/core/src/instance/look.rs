//! One look: the flow of [`super`], step by step.
//!
//! # Guarantees
//! 1. Nothing is remembered from look to look but what has a room of its own: the ledger, the servers' past, running tracks, policies given up.
//! 2. What can't be done is told in the status. An object or a mount holds up nothing else; missing accounts hold up all of EXECUTE, since no
//!    server could be asked.
//! 3. A look that ends early leaves a legal state; the next one starts from what is.
//!
//! # Assumptions
//! The caches may be late. What is dangerous on a late view meets the guard ([`Circumstances`]) and, at the server, its expectations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use vko_wit::observation::{Observed, Reach, TemplateState};
use vko_wit::planning::{Desired, Phase, Plan, StartMode, Track};

use super::gather::{line, server_conf, targets};
use super::{Instance, LOOK_AFTER_FAILURE, LOOK_ANYWAY, Next};
use crate::accounts::Accounts;
use crate::adopt::{Setting, lesson};
use crate::execute::{desired, labels};
use crate::governor::{Decision, Governor};
use crate::guard::{Circumstances, View, members_allowed};
use crate::ledger::{Ledger, Member};
use crate::object::{Kind, Object, ObjectId};
use crate::observe::{CutOff, Inputs, cut_off, observe};
use crate::orphan;
use crate::probe;
use crate::refresh;
use crate::render::{self, Live, Topology};
use crate::report::{HostFacts, topology_status, valkey_status};
use crate::site::{DANGEROUS_DEADLINE, Site};
use crate::store::{Store, StoreError};
use crate::world::{ApiError, EventNote, World};

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

/// While a mounted file waits for the kubelet, its having settled is no event: look again.
const MOUNTS: Duration = Duration::from_secs(2);

/// What one look has seen and made before it executes.
struct Seen<'a, W> {
    site: &'a Arc<Site<W>>,
    topology: &'a Topology,
    observed: &'a Arc<Observed>,
    accounts: &'a Accounts,
    pods: &'a [Object],
    valkey: &'a Object,
}

/// What a pod's template is, by the stamps of the StatefulSet in force.
fn template_state(pod: &Object, set: &Object) -> TemplateState {
    let of = |key: &str| {
        (pod.annotation(key) == set.annotation(key), pod.annotation(key).is_empty() || set.annotation(key).is_empty())
    };
    match (of(vko_api::names::SPEC_HASH), of(vko_api::names::SOFTWARE)) {
        ((_, true), _) | (_, (_, true)) => TemplateState::Unknown,
        ((false, _), _) => TemplateState::SpecChanged,
        (_, (false, _)) => TemplateState::NewerSoftware,
        _ => TemplateState::Current,
    }
}

impl<W: World> Instance<W> {
    pub(super) async fn look(&mut self) -> Result<Next, LookError> {
        let valkey = self.shared.world.cached(&self.valkey_id());
        let topology = self.shared.world.cached(&self.topology_id());
        let alive = valkey.as_ref().filter(|valkey| !valkey.deleting());
        match (alive, &topology) {
            // An end can't be undone, and each kind has a watch of its own, which may lag: the Valkey is read anew.
            (None, Some(_)) if self.valkey_lives().await? => return Ok(Next::After(LOOK_AFTER_FAILURE)),
            (None, Some(topology)) if topology.deleting() => return Ok(self.end(valkey.as_ref(), topology).await?),
            (None, Some(topology)) => {
                // The Valkey is gone or waits for its claims: the topology object follows it.
                let delete = crate::world::Delete { uid: topology.uid().into(), grace_seconds: None, orphan: false };
                self.shared.world.delete(&self.topology_id(), delete).await?;
                return Ok(Next::After(LOOK_ANYWAY));
            }
            (None, None) => match &valkey {
                Some(valkey) => return Ok(self.finish(valkey).await?),
                None => return Ok(Next::Gone),
            },
            (Some(_), Some(topology)) if topology.deleting() => return Ok(self.release(&topology.clone()).await?),
            (Some(_), _) => {}
        }
        let Some(valkey) = alive.cloned() else { return Ok(Next::Gone) };
        let refused = self.translate(&valkey, topology.as_ref()).await?;
        let Some(topology) = self.shared.world.cached(&self.topology_id()).filter(|t| !t.deleting()) else {
            self.report_valkey(&valkey, None, refused.as_ref().map(|r| (r.reason.as_str(), r.message.as_str()))).await?;
            return Ok(Next::After(LOOK_ANYWAY));
        };
        let next = self.look_at(&valkey, &topology).await?;
        let newest = self.shared.world.cached(&self.topology_id()).unwrap_or(topology);
        self.report_valkey(&valkey, Some(&newest), refused.as_ref().map(|r| (r.reason.as_str(), r.message.as_str()))).await?;
        Ok(next)
    }

    async fn report_valkey(
        &self,
        valkey: &Object,
        topology: Option<&Object>,
        refused: Option<(&str, &str)>,
    ) -> Result<(), LookError> {
        let before = valkey.0.get("status").cloned().unwrap_or(Value::Null);
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

    async fn look_at(&mut self, valkey: &Object, topology: &Object) -> Result<Next, LookError> {
        let site = self.site(topology).await?;
        let rendered = self.render_topology(topology);
        let pods = self.pods();
        let accounts = Accounts::ensure(&*self.shared.world, &rendered).await;
        let mut host = HostFacts::default();
        match &accounts {
            Ok(accounts) => {
                let targets = targets(&pods, &accounts.operator());
                self.probes.follow(targets.values().map(|(_, target)| target.clone()).collect());
                site.set_targets(targets);
            }
            Err(error) => host.problem = Some((error.reason().into(), error.to_string())),
        }
        // Before observing: a track that ends meanwhile may have changed what the observation shows, so its subject rests for this look.
        let running = self.tracks.running();
        let observed = self.observe_and_learn(&site, valkey, topology, &pods).await?;
        self.help_orphan(&site, &observed, &running, valkey).await;
        let cut_off = cut_off(&observed);
        site.set_cut_off(cut_off != CutOff::No);
        if cut_off != CutOff::No {
            self.shared.metrics.cut_off.inc();
        }
        let circumstances = Circumstances {
            lease: self.shared.lease.covers(DANGEROUS_DEADLINE),
            fresh: self.is_fresh(),
            cut_off: cut_off != CutOff::No,
            current: self.shared.world.cached(&self.topology_id()).is_some_and(|t| t.generation() == topology.generation()),
        };
        let (observed, decision) = self.decide(observed, circumstances, running, valkey).await?;
        site.outcomes.note_refusals(self.shared.world.monotonic(), &decision.guarded.refusals);
        self.tell_decision(valkey, &decision).await;
        self.journal_decision(&observed, &decision);
        let mut unsettled = false;
        if let (Some(plan), Ok(accounts)) = (&decision.plan, &accounts) {
            let seen = Seen { site: &site, topology: &rendered, observed: &observed, accounts, pods: &pods, valkey };
            unsettled = self.execute(&seen, plan, &decision.guarded.tracks, &mut host).await;
        }
        host.policy_problem = self.policy_problem();
        let before = topology.0.get("status").cloned().unwrap_or(Value::Null);
        let status = topology_status(&before, &decision, &host, &cut_off, topology.generation(), observed.now);
        self.note_finished(&site, &observed, decision.plan.as_ref()).await?;
        site.store.report(&status).await?;
        Ok(Next::After(self.pace(&observed, &decision, unsettled, &host)))
    }

    /// The shared parts, made anew for a new topology object.
    async fn site(&mut self, topology: &Object) -> Result<Arc<Site<W>>, LookError> {
        if let Some(site) = &self.site
            && site.store.is_of(topology.uid()).await
        {
            site.store.refresh(topology).await;
            return Ok(site.clone());
        }
        let ledger = Ledger::read(topology.0.get("status"));
        let store = Store::new(self.shared.world.clone(), self.topology_id(), topology.clone(), ledger.clone());
        let site = Site::new(
            self.shared.world.clone(),
            self.shared.settings.clone(),
            self.shared.lease.clone(),
            store,
            self.memory.clone(),
            self.wake.clone(),
        );
        if ledger.formed.is_none() {
            match self.rescued.take() {
                Some(rescued) => site.store.change(|ledger| *ledger = rescued).await?,
                None if self.nothing_there().await? => site.store.change(|ledger| ledger.formed = Some(false)).await?,
                None => {}
            }
        }
        let site = Arc::new(site);
        self.site = Some(site.clone());
        Ok(site)
    }

    /// Whether nothing exists that could hold data: then the instance was never formed.
    async fn nothing_there(&self) -> Result<bool, ApiError> {
        let workload = vko_api::names::data_workload(&self.key.name);
        let set = self.shared.world.get(&ObjectId::new(Kind::StatefulSet, &self.key.namespace, &workload)).await?;
        let known = self.shared.world.cache_age(Kind::PersistentVolumeClaim).is_some()
            && self.shared.world.cache_age(Kind::Pod).is_some();
        Ok(set.is_none() && known && self.claims().is_empty() && self.pods().is_empty())
    }

    /// OBSERVE; if the ledger learns from it, observes once more with the newer ledger.
    async fn observe_and_learn(
        &self,
        site: &Arc<Site<W>>,
        valkey: &Object,
        topology: &Object,
        pods: &[Object],
    ) -> Result<Observed, LookError> {
        let observed = self.observe(site, valkey, topology, pods).await;
        let set = self.stateful_set();
        let members = set.as_ref().and_then(|set| set.number("/spec/replicas")).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let alone = self.objects().iter().any(|(kind, object)| *kind == Kind::ConfigMap && object.text("/data/start") == "alone");
        match lesson(&observed, Setting { members, alone, at_rest: self.tracks.at_rest() }) {
            None => Ok(observed),
            Some(lesson) => {
                tracing::info!(namespace = self.key.namespace, instance = self.key.name, ?lesson, "the ledger learns");
                let now = observed.now;
                site.store.change(|ledger| lesson.learn(ledger, now)).await?;
                Ok(self.observe(site, valkey, topology, pods).await)
            }
        }
    }

    async fn observe(&self, site: &Arc<Site<W>>, valkey: &Object, topology: &Object, pods: &[Object]) -> Observed {
        let (objects, claims) = (self.objects(), self.claims());
        let nodes = self.shared.world.cached_all(Kind::Node);
        let servers = self.memory.snapshot();
        let (now, unix) = (self.shared.world.monotonic(), self.shared.world.unix_ms());
        let (ledger, written) = self.detached.rectify(&site.store.ledger().await, unix, now);
        let set = self.stateful_set();
        let template = |pod: &Object| set.as_ref().map_or(TemplateState::Unknown, |set| template_state(pod, set));
        let mut observed = observe(&Inputs {
            topology,
            valkey: Some(valkey),
            objects: &objects,
            pods,
            claims: &claims,
            nodes: &nodes,
            fresh: self.is_fresh(),
            servers: &servers,
            ledger: &ledger,
            recent: site.outcomes.recent(now),
            jobs: Vec::new(),
            now: unix,
            monotonic: now,
            looking_for: now.saturating_sub(self.started),
            operator_version: &self.shared.settings.operator_version,
            cluster_domain: &self.shared.settings.cluster_domain,
            template: &template,
        });
        observed.extensions.extend(written);
        self.former.resolve(&mut observed);
        observed
    }

    fn stateful_set(&self) -> Option<Object> {
        let name = vko_api::names::data_workload(&self.key.name);
        self.shared.world.cached(&ObjectId::new(Kind::StatefulSet, &self.key.namespace, name))
    }

    /// PLAN and GUARD, on a thread that may block.
    async fn decide(
        &mut self,
        observed: Observed,
        circumstances: Circumstances,
        running: Vec<Track>,
        valkey: &Object,
    ) -> Result<(Arc<Observed>, Decision), LookError> {
        let Some(built_in) = self.shared.registry.built_in(observed.instance.architecture) else {
            return Err(LookError::PolicyTaskEnded("this build has no policy for the architecture".into()));
        };
        let mut governor = self.governor.take().unwrap_or_else(|| Governor::new(self.shared.registry.clone(), built_in));
        let observed = Arc::new(observed);
        let pin = valkey.annotation(vko_api::names::PIN).to_owned();
        let seen = observed.clone();
        let task = tokio::task::spawn_blocking(move || {
            let decision = governor.decide(&seen, circumstances, &running, &pin);
            (governor, decision)
        });
        // A panic in there costs this instance its memory of policies given up, and nobody else anything.
        let (governor, decision) = task.await.map_err(|error| LookError::PolicyTaskEnded(error.to_string()))?;
        self.governor = Some(governor);
        Ok((observed, decision))
    }

    /// A hand-over that nobody owns any more is taken back. Not a policy's business: no plan asked for it.
    async fn help_orphan(&self, site: &Arc<Site<W>>, observed: &Observed, running: &[Track], valkey: &Object) {
        let Some(pod) = self.orphans.find(observed, running, self.shared.world.monotonic()) else { return };
        let name = observed.pods.iter().find(|p| p.uid == pod).map_or("", |p| p.name.as_str());
        let note = match orphan::take_back(site, &pod).await {
            Ok(()) => format!("a hand-over from {name} did not end and nobody owned it: it was taken back"),
            Err(error) => format!("a hand-over from {name} does not end, and can't be taken back: {error}"),
        };
        tracing::warn!(namespace = self.key.namespace, instance = self.key.name, note, "orphaned hand-over");
        self.shared.world.event(valkey, EventNote { reason: "HandOverOrphaned".into(), note, warning: true }).await;
    }

    /// EXECUTE. Returns whether mounted files of running pods are still being refreshed.
    async fn execute(&mut self, seen: &Seen<'_, W>, plan: &Plan, tracks: &[Track], host: &mut HostFacts) -> bool {
        let Seen { site, topology, observed, accounts, pods, valkey } = *seen;
        let (namespace, instance) = (&self.key.namespace, &self.key.name);
        // A process that stood still may find itself here with a plan of long ago, while another operator acts.
        if !self.shared.lease.is_leader() {
            return true;
        }
        // Labels first: nothing else may keep a Service on the wrong pod.
        let changes = labels::changes(observed, pods, &plan.routing);
        if let Err(error) = labels::apply(site, namespace, &changes).await {
            tracing::warn!(namespace, instance, %error, "labels not applied");
        }
        match self.rendered(topology, observed, plan, accounts) {
            Ok(objects) => {
                let applied = desired::apply(&*self.shared.world, topology, &objects).await;
                if let Some((id, error)) = applied.failed.first() {
                    host.problem = Some(("ObjectNotApplied".into(), format!("{id}: {error}")));
                }
            }
            Err((reason, message)) => host.problem = Some((reason, message)),
        }
        // A pod that can't be told now is told at the next look; nothing else waits for it.
        let unsettled = self.refresh_mounts(pods).await.unwrap_or_else(|error| {
            tracing::warn!(namespace, instance, %error, "mounted files not refreshed");
            true
        });
        let told = self.step_listener(valkey.clone());
        self.tracks.follow(site, observed, tracks.to_vec(), &told);
        if !tracks.is_empty() {
            self.probes.poke();
        }
        unsettled
    }

    fn rendered(
        &self,
        topology: &Topology,
        observed: &Observed,
        plan: &Plan,
        accounts: &Accounts,
    ) -> Result<Vec<Value>, (String, String)> {
        let circumstances = Circumstances { lease: true, fresh: true, cut_off: false, current: true };
        let view = View::new(observed, circumstances);
        let mut desired = plan.desired.clone();
        let mut workload = None;
        for record in &mut desired {
            if let Desired::Workload(wanted) = record {
                wanted.members = members_allowed(wanted, &view);
                workload = Some(wanted.clone());
            }
        }
        // A policy that wants no workload now leaves the one that is there; nothing of what pods mount is rendered then.
        let (settings, start) = workload.map_or((Vec::new(), StartMode::Named), |wanted| (wanted.settings, wanted.start));
        let conf = server_conf(topology, &settings).map_err(|error| ("ConfigNotRendered".to_owned(), error))?;
        let open = topology.spec.pointer("/access/openDefaultUser").and_then(Value::as_bool) == Some(true);
        let line = line(topology).map_err(|error| ("VersionUnknown".to_owned(), error))?;
        let users_acl = accounts.users_acl(line, open).map_err(|error| (error.reason().to_owned(), error.to_string()))?;
        let inputs = render::Inputs { conf: &conf, users_acl: &users_acl, start, ending: false };
        let set = self.stateful_set();
        // Nothing has run yet: a template that can't run (an agent image that is gone, say) must not stay in force.
        let live = Live { stateful_set: set.as_ref(), roll_out: observed.ledger.formed == Some(false) };
        render::render(topology, &desired, &inputs, &self.shared.settings, live)
            .map_err(|error| (error.reason().to_owned(), error.to_string()))
    }

    /// Tells running pods of a changed ConfigMap.
    async fn refresh_mounts(&self, pods: &[Object]) -> Result<bool, ApiError> {
        let id = ObjectId::new(Kind::ConfigMap, &self.key.namespace, vko_api::names::data_workload(&self.key.name));
        let Some(config) = self.shared.world.cached(&id) else { return Ok(false) };
        let (hash, now) = (refresh::hash(&config), self.shared.world.unix_ms());
        let mut unsettled = false;
        for pod in pods.iter().filter(|pod| !pod.deleting()) {
            if refresh::due(pod, &hash, now) {
                let id = ObjectId::new(Kind::Pod, &self.key.namespace, pod.name());
                match self.shared.world.merge(&id, &refresh::patch(pod, &hash, now)).await {
                    Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            unsettled |= !refresh::settled(pod, &hash, now, crate::observe::millis(crate::observe::MOUNT_SETTLES));
        }
        Ok(unsettled)
    }

    fn policy_problem(&self) -> Option<(String, String)> {
        let given_up = self.governor.as_ref().and_then(|governor| governor.given_up().last().cloned());
        if let Some(given_up) = given_up {
            let message =
                format!("policy {} {} does not govern: {}", given_up.policy.name, given_up.policy.version, given_up.message);
            return Some((given_up.reason.into(), message));
        }
        let (name, error) = self.shared.registry.refused().into_iter().next()?;
        Some((error.reason().into(), format!("the policy in ConfigMap {name} was not admitted: {error}")))
    }

    /// Once everything is as declared: who the members are, and which version they all run.
    async fn note_finished(&self, site: &Arc<Site<W>>, observed: &Observed, plan: Option<&Plan>) -> Result<(), LookError> {
        if plan.is_none_or(|plan| plan.status.phase != Phase::Ready) {
            return Ok(());
        }
        let mut members: Vec<Member> = observed.pods.iter().map(|pod| Member::of(observed, pod)).collect();
        // A removed member stays on record until its claim is gone: only recorded claims may be deleted.
        let claimed = |known: &Member| observed.claims.iter().any(|claim| claim.uid == known.claim);
        let left: Vec<Member> = site.store.ledger().await.members.into_iter().filter(claimed).collect();
        for known in left {
            if !members.iter().any(|m| m.workload == known.workload && m.ordinal == known.ordinal) {
                members.push(known);
            }
        }
        let versions: Vec<_> = observed.servers.iter().filter_map(|s| s.facts.as_ref()).map(|f| f.version).collect();
        let finished = versions
            .first()
            .filter(|first| versions.iter().all(|v| v == *first))
            .map(|v| format!("{}.{}.{}", v.major, v.minor, v.patch));
        Ok(site
            .store
            .change(|ledger| {
                ledger.members = members;
                if finished.is_some() {
                    ledger.finished_version = finished;
                }
                let pods: Vec<&str> = observed.pods.iter().map(|pod| pod.uid.as_str()).collect();
                ledger.fences.retain(|fence| pods.contains(&fence.pod.as_str()));
            })
            .await?)
    }

    /// How soon to ask servers and to look again.
    fn pace(&mut self, observed: &Observed, decision: &Decision, unsettled: bool, host: &HostFacts) -> Duration {
        let all_answer =
            observed.pods.len() == observed.servers.len() && observed.servers.iter().all(|s| s.reach == Reach::Answered);
        let at_rest =
            self.tracks.running().is_empty() && decision.guarded.tracks.is_empty() && !unsettled && host.problem.is_none();
        let ready = decision.plan.as_ref().is_some_and(|plan| plan.status.phase == Phase::Ready);
        self.probes.set_pace(if all_answer && at_rest && ready { probe::QUIET } else { probe::ALERT });
        let asked = decision.plan.as_ref().map_or(0, |plan| plan.look_again);
        let mut again = if asked == 0 { LOOK_ANYWAY } else { Duration::from_millis(asked) };
        if unsettled {
            again = again.min(MOUNTS);
        }
        if host.problem.is_some() || decision.plan.is_none() {
            again = again.min(Duration::from_secs(10));
        }
        again
    }
}
