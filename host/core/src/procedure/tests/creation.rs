//! A cluster is made by the real policy, guard and steps in the world in memory. The process ends after any effect; the next one
//! finds what is there and finishes it, and nothing is sent twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use vko_model::cluster::{ClusterInfo, ClusterNodes};
use vko_model::info::Info;
use vko_model::slots::SlotSet;
use vko_wit::observation::{Observed, OutcomeKind};
use vko_wit::planning::Phase;

use crate::adopt::{Setting, lesson};
use crate::command::{Command, Reply};
use crate::execute::{names, step};
use crate::guard::guard;
use crate::guard::testing::CALM;
use crate::lease::LeaseState;
use crate::ledger::Ledger;
use crate::memory::Answer;
use crate::object::Object;
use crate::observe::testing::{inputs, node};
use crate::observe::{Inputs, observe};
use crate::site::Site;
use crate::testing::{FakeWorld, mk_cluster_site, mk_site_in};
use crate::world::{Clock, Servers};

/// Looks of one life: creation needs about five.
const LOOKS_MAX: usize = 40;

/// Asks every server all there is to ask.
async fn ask(site: &Site<FakeWorld>) {
    for (uid, _, target) in site.all_targets() {
        let call = |command| site.world.call(&target, command, Duration::from_secs(2));
        let (light, whole) = (call(Command::ClusterProbe).await, call(Command::ClusterNodes).await);
        let (Ok(Reply::ClusterProbe { info, cluster, slots_digest }), Ok(Reply::Text(nodes))) = (light, whole) else { continue };
        let nodes = ClusterNodes::parse(&nodes).unwrap();
        let answer = Answer::Cluster(Box::new(Info::parse(&info)), ClusterInfo::parse(&cluster), slots_digest, Some(nodes));
        let now = site.world.monotonic();
        site.memory.note(&uid, now, now, Ok(answer));
    }
}

async fn look(site: &Site<FakeWorld>) -> Observed {
    let metadata = json!({"name": "x", "namespace": "shop", "uid": "topology"});
    let topology =
        Object::new(json!({"metadata": metadata, "spec": {"version": "9.1", "replicas": {"shards": 3, "replicasOfShard": 2}}}));
    let pod = |(uid, name, target): (String, String, crate::world::Target)| {
        let status = json!({
            "phase": "Running", "podIP": target.ip, "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "valkey", "state": {"running": {}}}],
        });
        Object::new(json!({"metadata": {"name": name, "uid": uid}, "spec": {"nodeName": "node"}, "status": status}))
    };
    let pods: Vec<Object> = site.all_targets().into_iter().map(pod).collect();
    let (now, ledger) = (site.world.monotonic(), site.store.ledger().await);
    let said = (&site.memory.snapshot(), &site.memory.places());
    observe(&Inputs {
        recent: site.outcomes.recent(now),
        now: site.world.unix_ms(),
        monotonic: now,
        looking_for: now,
        ..inputs(&topology, &pods, &[node()], said, &ledger)
    })
}

/// Looks and acts until all is as declared; `false`: the world ended before.
async fn live(site: &Site<FakeWorld>, what: &str) -> bool {
    for _ in 0..LOOKS_MAX {
        ask(site).await;
        let observed = look(site).await;
        let members = (0..3).map(|shard| (format!("drc-x-{shard}"), 2)).collect();
        if let Some(lesson) = lesson(&observed, &Setting { members, alone: false, at_rest: true, asked_since: true }) {
            let _ = site.store.change(|ledger| lesson.learn(ledger, observed.now)).await;
        }
        let observed = look(site).await;
        let plan = vko_cluster::decide(&observed).unwrap();
        if plan.status.phase == Phase::Ready {
            assert!(plan.tracks.is_empty(), "{what}: ready, and yet busy");
            return true;
        }
        let guarded = guard(&plan, &observed, CALM, &[]);
        assert_eq!(guarded.refusals, [], "{what}");
        for track in &guarded.tracks {
            for wanted in &track.steps {
                let result = step::run(site, &observed, wanted).await;
                let outcome = match &result {
                    Ok(()) => OutcomeKind::Done,
                    Err(error) if error.is_dropped() => OutcomeKind::Dropped(error.to_string()),
                    Err(error) => OutcomeKind::Failed(error.to_string()),
                };
                let operation = names::operation(&wanted.operation);
                site.outcomes.note(site.world.monotonic(), operation, &track.subject, outcome);
                if result.is_err() {
                    break;
                }
            }
        }
        if over(&site.world) {
            return false;
        }
        site.world.sleep(Duration::from_secs(1)).await;
    }
    panic!("{what}: not ready after {LOOKS_MAX} looks: {:?}", look(site).await.recent);
}

fn over(world: &FakeWorld) -> bool {
    let state = world.state();
    state.ends_after.is_some_and(|limit| state.effects.len() >= limit)
}

fn check(world: &FakeWorld, what: &str) {
    let nodes: Vec<_> = (0..6).map(|number| world.node(&crate::guard::testing::uid(number))).collect();
    let owned = nodes.iter().fold(SlotSet::default(), |all, node| all.union(&node.slots));
    let each: u32 = nodes.iter().map(|node| u32::from(node.slots.count())).sum();
    assert!(owned.is_all() && each == 16_384, "{what}: {each} slots are owned");
    for shard in nodes.chunks(2) {
        let leads: Vec<_> = shard.iter().filter(|node| node.replica_of.is_none()).collect();
        assert!(leads.len() == 1 && !leads[0].slots.is_empty(), "{what}: {shard:?}");
        assert!(shard.iter().all(|node| node.replica_of.is_none() || node.replica_of.as_ref() == Some(&leads[0].id)), "{what}");
        assert_eq!(leads[0].knows.len(), 6, "{what}");
    }
}

/// Commands that change something, as they were sent.
fn commands(effects: &[String]) -> Vec<String> {
    let words = ["addslots", "replicate"];
    effects.iter().filter(|effect| words.iter().any(|word| effect.contains(word))).cloned().collect()
}

/// Six servers that nobody has told anything yet.
async fn begin() -> (Arc<FakeWorld>, Arc<Site<FakeWorld>>) {
    let (world, site) = mk_cluster_site(false);
    site.store.change(|ledger| *ledger = Ledger { formed: Some(false), ..Ledger::default() }).await.unwrap();
    world.effects();
    (world, site)
}

#[tokio::test]
async fn an_end_after_any_effect_is_made_good_by_the_next_process() {
    let (world, site) = begin().await;
    assert!(live(&site, "at one go").await);
    check(&world, "at one go");
    let effects = world.effects();
    let mut sent = commands(&effects);
    assert_eq!(sent.len(), 6, "three shards get slots, three replicas a primary: {effects:?}");
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len(), 6, "each is sent once");
    for end in 0..effects.len() {
        let what = format!("ended after {end} of {effects:?}");
        let (world, site) = begin().await;
        world.state().ends_after = Some(end);
        assert!(!live(&site, &what).await, "{what}: it went on");
        let targets = site.all_targets().into_iter().map(|(uid, name, target)| (uid, (name, target))).collect();
        world.state().ends_after = None;
        let mut sent = commands(&world.effects());
        let next: Arc<Site<FakeWorld>> = mk_site_in(&world, 6, LeaseState::alone(world.clone()), false);
        next.set_targets(targets);
        assert!(live(&next, &what).await);
        check(&world, &what);
        sent.extend(commands(&world.effects()));
        assert!(sent.len() <= 6, "{what}: {sent:?}");
    }
}
