//! OBSERVE, and what the ledger learns from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use vko_wit::observation::{Observed, TemplateState};

use super::Instance;
use super::look::LookError;
use super::topology::Named;
use crate::adopt::{Setting, lesson};
use crate::object::{Kind, Object};
use crate::observe::{Inputs, observe};
use crate::render;
use crate::site::Site;
use crate::workloads;
use crate::world::World;

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
    /// OBSERVE; if the ledger learns from it, observes once more with the newer ledger. `at_rest`: no track ran just before.
    pub(super) async fn observe_and_learn(
        &self,
        site: &Arc<Site<W>>,
        person: &Object,
        topology: &Named,
        pods: &[Object],
        at_rest: bool,
    ) -> Result<Observed, LookError> {
        // All of it from before the observation: what comes meanwhile only makes that one newer.
        let naming = site.store.naming().await;
        let at_rest = at_rest && naming.under_way(self.shared.world.monotonic()).is_none();
        let asked_since = self.memory.answered_before(naming.since).is_empty();
        let observed = self.observe(site, person, topology, pods).await;
        let sets = self.stateful_sets(topology.id.kind);
        let replicas = |set: &Object| set.number("/spec/replicas").and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let members = sets.iter().map(|(name, set)| (name.clone(), replicas(set))).collect();
        let alone = self.objects().iter().any(|(kind, object)| *kind == Kind::ConfigMap && object.text("/data/start") == "alone");
        match lesson(&observed, &Setting { members, alone, at_rest, asked_since }) {
            None => Ok(observed),
            Some(lesson) => {
                tracing::info!(namespace = self.key.namespace, instance = self.key.name, ?lesson, "the ledger learns");
                let now = observed.now;
                site.store.appoint(&observed.ledger.last_primary, |ledger| lesson.learn(ledger, now)).await?;
                Ok(self.observe(site, person, topology, pods).await)
            }
        }
    }

    async fn observe(&self, site: &Arc<Site<W>>, person: &Object, topology: &Named, pods: &[Object]) -> Observed {
        let (objects, claims) = (self.objects(), self.claims(topology.id.kind));
        let nodes = self.shared.world.cached_all(Kind::Node);
        let disks = self.volumes.disks(&*self.shared.world, &claims, &nodes).await;
        let (servers, places) = (self.memory.snapshot(), self.memory.places());
        let (now, unix) = (self.shared.world.monotonic(), self.shared.world.unix_ms());
        let ledger = site.store.ledger().await;
        let sets = self.stateful_sets(topology.id.kind);
        let set_of = |pod: &Object| sets.get(pod.name().rsplit_once('-')?.0);
        let template = |pod: &Object| set_of(pod).map_or(TemplateState::Unknown, |set| template_state(pod, set));
        let rendered = self.render_topology(topology);
        let of_spec = |(name, set): (&String, &Object)| {
            let hash = render::spec_hash(&rendered, name)?;
            Some((name.clone(), set.annotation(vko_api::names::SPEC_HASH) == hash))
        };
        let templates_of_spec = sets.iter().filter_map(of_spec).collect();
        let mut observed = observe(&Inputs {
            topology: &topology.object,
            kind: topology.id.kind,
            valkey: Some(person),
            objects: &objects,
            pods,
            claims: &claims,
            nodes: &nodes,
            disks: &disks,
            fresh: self.is_fresh(topology.id.kind),
            servers: &servers,
            places: &places,
            ledger: &ledger,
            recent: site.outcomes.recent(now),
            jobs: Vec::new(),
            now: unix,
            monotonic: now,
            looking_for: now.saturating_sub(self.started),
            operator_version: &self.shared.settings.operator_version,
            cluster_domain: &self.shared.settings.cluster_domain,
            template: &template,
            templates_of_spec: &templates_of_spec,
        });
        self.detached.rectify(&mut observed.ledger.fences, unix, now);
        self.former.resolve(&mut observed);
        observed
    }

    /// The live StatefulSets of the instance, by name.
    pub(super) fn stateful_sets(&self, topology: Kind) -> BTreeMap<String, Object> {
        let all = self.shared.world.cached_of(Kind::StatefulSet, &self.key.namespace, &self.key.name).into_iter();
        let ours = |set: &Object| workloads::purpose(topology, &self.key.name, set.name()).is_some();
        all.filter(ours).map(|set| (set.name().to_owned(), set)).collect()
    }
}
