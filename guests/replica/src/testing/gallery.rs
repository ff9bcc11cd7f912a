//! Scenes to try a policy of the replica architecture on, by what happened. What the built-in policy decides in most of them
//! stands in the table of its tests; here stands only what an instance needs of any policy.

use vko_sdk::Observed;
use vko_sdk::observation::NodeState;

use super::{Scene, random_scene};

/// What an instance needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Only that nothing wrong is done.
    Safety,
    /// That it is left alone.
    Rest,
    /// That something is done: it doesn't get on by itself.
    Act,
}

/// A scene with its name.
#[derive(Debug, Clone)]
pub struct Exhibit {
    /// What happened.
    pub name: String,
    /// What a policy sees.
    pub observed: Observed,
    /// What the instance needs.
    pub need: Need,
}

type Change = fn(&mut Scene) -> &mut Scene;

const REST: &[(&str, Change)] = &[
    ("as declared", |s| s),
    ("as declared, on volumes", |s| s.with_claims()),
    ("a replica is silent", |s| s.silence(1)),
    ("a replica is about to end", |s| s.terminate(1)),
];

const ACT: &[(&str, Change)] = &[
    ("the primary's container ended", |s| s.kill(0)),
    ("the primary's container ended, on a volume", |s| s.with_claims().kill(0)),
    ("the primary's pod is gone", |s| s.with_claims().remove_pod(0)),
    ("the primary's node is gone", |s| s.lose_node(0)),
    ("another pod starts in the primary's place", |s| s.replace_pod(0)),
    ("the primary was restarted, its replicas are synced", |s| s.restart(0, "append-only-file")),
    ("the primary is silent and fenced", |s| s.silence(0)),
    ("the same, its replicas are detached, the fence has closed", |s| s.silence(0).detach(1).detach(2).detached(0, 7_000)),
    ("a replica was restarted and follows nobody", |s| s.restart(1, "snapshot")),
    ("a replica follows another replica", |s| s.demote(2, 1)),
    ("all were restarted at once, with snapshots of one lineage", |s| {
        s.with_claims().restart(0, "snapshot").restart(1, "snapshot").restart(2, "snapshot")
    }),
    ("the pod of the only data is gone for good", |s| s.remove_pod(0).restart(1, "empty").restart(2, "snapshot")),
    ("the primary is a member that is to go", |s| s.serve_from(2).fence(2, 1).want(2)),
];

const SAFETY: &[(&str, Change)] = &[
    ("the primary is silent, without a fence", |s| s.silence(0).unfence(0)),
    ("the primary is silent behind a fence of another run", |s| s.silence(0).fence_run(0, "older", 1)),
    ("the primary is silent, and a replica still hears it", |s| s.silence(0).still_hears(2)),
    ("the primary is silent, its replicas were detached just now", |s| s.silence(0).detach(1).detach(2).detached(0, 6_999)),
    ("the primary is silent, and so is a replica", |s| s.silence(0).silence(2)),
    ("the primary is silent, no replica was synced", |s| s.silence(0).set_syncing(1).set_syncing(2)),
    ("the primary's node is silent", |s| s.silence(0).pod(0, |p| p.node_state = NodeState::Silent)),
    ("the primary answers with errors", |s| s.refuse(0, "BUSY")),
    ("the primary loads, its role is unknown", |s| s.with_claims().load(0, false)),
    ("the primary is about to end", |s| s.terminate(0)),
    ("a hand-over is under way", |s| s.facts(0, |f| f.failover_state = "waiting-for-sync".into())),
    ("a hand-over hangs in the air", |s| s.kill(0).facts(1, |f| f.failover_state = "failover-in-progress".into())),
    ("the primary is dead, and no replica was synced", |s| s.with_claims().kill(0).set_syncing(1).set_syncing(2)),
    ("the primary is dead, the replicas came back empty", |s| s.kill(0).restart(1, "empty").restart(2, "empty")),
    ("the primary is dead, the replicas are far behind", |s| s.with_claims().kill(0).best_offset(1 << 30)),
    ("the primary came back empty, others may have more", |s| s.with_claims().restart(0, "empty").kill(1).kill(2)),
    ("the only data is in a copy that syncs", |s| s.restart(0, "empty").set_syncing(1).restart(2, "empty")),
    ("two answer as primaries", |s| s.rise(1)),
    ("one answers as the primary that nobody recorded", |s| s.rise(1).silence(0).follow(2, 1)),
    ("all are silent", |s| s.silence(0).silence(1).silence(2)),
    ("all answers are old", |s| s.age(0, 4_000).age(1, 4_000).age(2, 4_000)),
    ("all pods are gone", |s| s.remove_pod(0).remove_pod(1).remove_pod(2)),
    ("the ledger was lost", |s| s.forget_all()),
    ("members are to be added", |s| s.want(5)),
    ("members are to be removed", |s| s.with_claims().want(2)),
    ("members were removed, their claims are left", |s| s.with_claims().spec_storage(false).remove_pod(2).want(2).shrink(2)),
];

/// Random scenes beside the named ones.
const RANDOM: u64 = 300;

fn exhibit(name: &str, scene: Scene, need: Need) -> Exhibit {
    Exhibit { name: name.into(), observed: scene.observed, need }
}

/// All scenes, in the order in which they are worth reading.
pub fn gallery() -> Vec<Exhibit> {
    let mut all = vec![
        exhibit("created: all pods answer, empty", Scene::new("x", 3), Need::Act),
        exhibit("a single member, as declared", Scene::healthy("x", 1), Need::Rest),
        exhibit("five members, as declared", Scene::healthy("x", 5), Need::Rest),
    ];
    for (need, rows) in [(Need::Rest, REST), (Need::Act, ACT), (Need::Safety, SAFETY)] {
        all.extend(rows.iter().map(|(name, change)| {
            let mut scene = Scene::healthy("x", 3);
            change(&mut scene);
            exhibit(name, scene, need)
        }));
    }
    all.extend((1..=RANDOM).map(|seed| exhibit(&format!("random {seed}"), random_scene(seed), Need::Safety)));
    all
}
