use vko_sdk::common::StartMode;
use vko_sdk::observation::{DiskFile, OutcomeKind};
use vko_sdk::planning::{Desired, Phase, Plan, Truth, Writer};
use vko_sdk::{Policy, PolicyError};

use crate::testing::{Scene, mk_outcome};
use crate::{ReplicaPolicy, decide};

type Change = fn(&mut Scene) -> &mut Scene;

fn plan(scene: &Scene) -> Plan {
    decide(&scene.observed).expect("a plan")
}

fn condition(plan: &Plan, kind: &str) -> (Truth, String) {
    plan.status.conditions.iter().find(|c| c.kind == kind).map(|c| (c.state, c.reason.clone())).expect("the condition")
}

#[test]
fn a_quiet_instance_gets_nothing_to_do() {
    for members in [1, 2, 3, 5] {
        let plan = plan(&Scene::healthy("x", members));
        assert_eq!((plan.tracks.len(), plan.blocked.len(), plan.look_again), (0, 0, 0), "{members} members");
        assert_eq!(plan.status.phase, Phase::Ready);
        assert_eq!(condition(&plan, "Ready"), (Truth::Yes, "AllMembersSynced".into()));
        let redundant = if members == 1 { Truth::No } else { Truth::Yes };
        assert_eq!(condition(&plan, "Redundant").0, redundant, "{members} members");
    }
}

#[test]
fn ready_and_phase_say_what_is() {
    let table: &[(&str, Change, Truth, &str, Phase)] = &[
        ("a replica restarted", |s| s.restart(1, "snapshot"), Truth::No, "MembersNotSynced", Phase::Rebalancing),
        ("a replica's pod isn't ready", |s| s.unready(1), Truth::No, "MembersNotSynced", Phase::Rebalancing),
        ("the primary is dead: promotion", |s| s.kill(0), Truth::No, "NoPrimary", Phase::Rebalancing),
        ("the primary is silent", |s| s.silence(0).unfence(0), Truth::Unknown, "PrimarySilent", Phase::Rebalancing),
        (
            "nobody is heard yet: the operator just started",
            |s| s.silence(0).unhear(0).silence(1).unhear(1).silence(2).unhear(2),
            Truth::Unknown,
            "NoCandidate",
            Phase::Rebalancing,
        ),
        (
            "data may return",
            |s| s.with_claims().kill(0).restart(1, "empty").restart(2, "empty"),
            Truth::No,
            "DataMayReturn",
            Phase::Failed,
        ),
        ("members are added", |s| s.want(5), Truth::No, "MembersNotSynced", Phase::Rebalancing),
        ("members are removed", |s| s.want(2), Truth::No, "ChangingMembers", Phase::Rebalancing),
        ("the ledger was lost", |s| s.forget_all(), Truth::Unknown, "LedgerLost", Phase::Rebalancing),
        (
            "the primary's disk is full",
            |s| s.facts(0, |f| f.cannot_write = Some(DiskFile::AppendOnlyFile)),
            Truth::No,
            "WritesRefused",
            Phase::Rebalancing,
        ),
        ("two primaries", |s| s.rise(1), Truth::No, "MembersNotSynced", Phase::Rebalancing),
    ];
    for (case, change, state, reason, phase) in table {
        let mut scene = Scene::healthy("x", 3);
        change(&mut scene);
        let plan = plan(&scene);
        assert_eq!(condition(&plan, "Ready"), (*state, (*reason).into()), "{case}");
        assert_eq!(plan.status.phase, *phase, "{case}");
        assert!(plan.look_again > 0, "{case}: looked at again");
    }
}

#[test]
fn members_that_are_to_go_do_not_count_and_are_waited_for() {
    let table: &[(&str, Change, &str, (Truth, &str))] = &[
        ("as declared", |s| s, "3 member(s) in sync", (Truth::No, "NothingToDo")),
        ("one is to go and still follows", |s| s.want(2).shrink(2), "2 member(s) in sync", (Truth::Yes, "ChangingMembers")),
        ("it ends", |s| s.want(2).shrink(2).terminate(2), "2 member(s) in sync", (Truth::Yes, "ChangingMembers")),
        ("it is gone", |s| s.want(2).shrink(2).remove_pod(2), "2 member(s) in sync", (Truth::No, "NothingToDo")),
    ];
    for (case, change, message, progressing) in table {
        let mut scene = Scene::healthy("x", 3);
        change(&mut scene);
        let plan = plan(&scene);
        assert_eq!(condition(&plan, "Ready"), (Truth::Yes, "AllMembersSynced".into()), "{case}: it serves as declared");
        assert!(plan.status.message.contains(message), "{case}: {}", plan.status.message);
        assert_eq!(condition(&plan, "Progressing"), (progressing.0, progressing.1.into()), "{case}");
    }
}

#[test]
fn initializing_until_it_was_formed() {
    let mut scene = Scene::new("x", 3);
    scene.wait_start(0).wait_start(1).wait_start(2);
    let new = plan(&scene);
    assert_eq!((new.status.phase, condition(&new, "Ready")), (Phase::Initializing, (Truth::No, "Creating".into())));
    let mut scene = Scene::new("x", 3);
    scene.observed.ledger.formed = Some(true);
    scene.serve_from(0).set_syncing(1);
    assert_eq!(plan(&scene).status.phase, Phase::Rebalancing);
}

#[test]
fn the_writer_is_who_answers_as_primary() {
    let pod = |i| Writer::Pod(format!("uid-x-{i}"));
    let table: &[(&str, Change, Writer)] = &[
        ("as declared", |s| s, pod(0)),
        ("silent: the label stays", |s| s.silence(0), pod(0)),
        ("answers with an error: the label stays", |s| s.refuse(0, "BUSY"), pod(0)),
        ("dead: the label goes", |s| s.kill(0), Writer::None),
        ("restarted: the label goes", |s| s.restart(0, "snapshot"), Writer::None),
        ("handed over: the label follows", |s| s.demote(0, 1).rise(1), pod(1)),
        ("two answer: the recorded one", |s| s.promote(1), pod(1)),
        (
            "two labels, nobody answers: the last primary",
            |s| s.silence(0).silence(2).pod(2, |p| p.role_label = "master".into()),
            pod(0),
        ),
        ("promotion is planned: nobody yet", |s| s.remove_pod(0), Writer::None),
        (
            "an empty stranger isn't routed to",
            |s| {
                s.with_claims().restart(1, "empty").facts(1, |f| f.role = vko_sdk::observation::Role::Primary);
                s.kill(0).pod(1, |p| p.role_label = "master".into())
            },
            Writer::None,
        ),
    ];
    for (case, change, writer) in table {
        let mut scene = Scene::healthy("x", 3);
        change(&mut scene);
        assert_eq!(plan(&scene).routing.writer, *writer, "{case}");
    }
}

#[test]
fn readers_outlive_the_primary() {
    let table: &[(&str, Change, &[u32])] = &[
        ("as declared", |s| s, &[1, 2]),
        ("the primary is dead", |s| s.kill(0), &[1, 2]),
        ("links are down", |s| s.kill(0).unlink(1).unlink(2), &[1, 2]),
        ("one isn't ready", |s| s.unready(2), &[1]),
        ("one ends", |s| s.terminate(1), &[2]),
        ("one is silent, but its pod is ready", |s| s.silence(1), &[1, 2]),
    ];
    for (case, change, readers) in table {
        let mut scene = Scene::healthy("x", 3);
        change(&mut scene);
        let expected: Vec<String> = readers.iter().map(|i| format!("uid-x-{i}")).collect();
        assert_eq!(plan(&scene).routing.readers, expected, "{case}");
    }
    assert_eq!(plan(&Scene::alone("x")).routing.readers, ["uid-x-0"], "a single member reads, too");
}

#[test]
fn how_many_members_and_how_they_start() {
    use StartMode::{Alone, Named};
    type Row = (&'static str, fn() -> Scene, Change, u32, StartMode);
    let table: &[Row] = &[
        ("a new one of three", || Scene::new("x", 3), |s| s, 3, Named),
        ("nothing is there yet", || Scene::new("x", 3), |s| s.want(2).shrink(0), 2, Named),
        ("a single one, nothing is there yet", || Scene::new("x", 1), |s| s.shrink(0), 1, Alone),
        ("a single one", || Scene::alone("x"), |s| s, 1, Alone),
        ("one to three: named first", || Scene::alone("x"), |s| s.want(3), 1, Named),
        ("one to three: not known to be mounted", || Scene::alone("x"), |s| s.want(3).mounted(0, Alone), 1, Named),
        ("one to three: mounted", || Scene::alone("x"), |s| s.want(3).mounted(0, Named), 3, Named),
        ("one to three and back: alone again", || Scene::alone("x"), |s| s.mounted(0, Named), 1, Alone),
        ("three to five", || Scene::healthy("x", 3), |s| s.want(5), 5, Named),
        ("three to two", || Scene::healthy("x", 3), |s| s.want(2), 2, Named),
        ("three to one: not before the fence is lifted", || Scene::healthy("x", 3), |s| s.want(1), 3, Named),
        ("three to one: the fence is lifted", || Scene::healthy("x", 3), |s| s.want(1).unfence(0), 1, Named),
        ("three to one, the primary is to go", || Scene::healthy("x", 3), |s| s.serve_from(1).unfence(1).want(1), 3, Named),
        ("three to two, the primary is dead", || Scene::healthy("x", 3), |s| s.want(2).kill(0), 3, Named),
        ("three to two, the primary ends", || Scene::healthy("x", 3), |s| s.want(2).terminate(0), 3, Named),
        ("three to two, nobody that stays is synced", || Scene::healthy("x", 3), |s| s.want(2).set_syncing(1), 3, Named),
        ("removed pods still end", || Scene::healthy("x", 2), |s| s.want(1).shrink(1).terminate(1).unfence(0), 1, Named),
        ("removed pods are gone", || Scene::healthy("x", 2), |s| s.want(1).shrink(1).remove_pod(1).unfence(0), 1, Alone),
        ("the one that is left must be named first", || Scene::alone("x"), |s| s.restart(0, "snapshot"), 1, Named),
        ("the ledger was lost: as it is", || Scene::healthy("x", 3), |s| s.forget_all(), 3, Named),
    ];
    for (case, make, change, members, start) in table {
        let mut scene = make();
        change(&mut scene);
        let plan = plan(&scene);
        let workload = plan.desired.iter().find_map(|d| if let Desired::Workload(w) = d { Some(w) } else { None });
        assert_eq!(workload.map(|w| (w.members, w.start)), Some((*members, *start)), "{case}");
        assert_eq!(plan.desired.len(), 5, "{case}: three Services, a budget, a workload");
    }
}

#[test]
fn a_step_that_failed_waits_and_others_go_on() {
    let mut scene = Scene::healthy("x", 3);
    scene.restart(1, "snapshot").restart(2, "snapshot");
    scene.observed.recent = vec![mk_outcome("follow", "rfr-x-1", OutcomeKind::Failed("timeout".into()), 400)];
    let plan = plan(&scene);
    let subjects: Vec<_> = plan.tracks.iter().map(|t| t.subject.as_str()).collect();
    assert_eq!(subjects, ["rfr-x-2", "fence"]);
    assert_eq!(plan.look_again, 600);
}

#[test]
fn what_the_host_cannot_do_is_said() {
    let mut scene = Scene::healthy("x", 3);
    scene.kill(0);
    scene.observed.environment.capabilities.retain(|c| c != "promote");
    let plan = plan(&scene);
    assert!(plan.tracks.is_empty());
    assert!(plan.blocked[0].reason.contains("doesn't carry out 'promote'"), "{}", plan.blocked[0].reason);
}

#[test]
fn the_token_in_the_condition_is_the_one_in_blocked() {
    let mut scene = Scene::healthy("x", 3);
    scene.with_claims().kill(0).restart(1, "empty").restart(2, "empty");
    let plan = plan(&scene);
    let token = &plan.blocked[0].token;
    assert!(token.starts_with("promote-data-loss:rfr-x-1:"), "{token}");
    let stalled = plan.status.conditions.iter().find(|c| c.kind == "Stalled").expect("the condition");
    assert!(stalled.state == Truth::Yes && stalled.message.contains(token.as_str()), "{}", stalled.message);
    scene.observed.now += 3_600_000;
    assert_eq!(decide(&scene.observed).expect("a plan").blocked[0].token, *token, "time alone doesn't change it");
}

#[test]
fn a_lone_member_that_came_back_empty_says_so() {
    let mut scene = Scene::alone("x");
    scene.facts(0, |f| (f.keys, f.replid) = (0, "new".into()));
    let plan = plan(&scene);
    assert_eq!(condition(&plan, "DataLost"), (Truth::Yes, "DataLost".into()));
    assert_eq!(plan.routing.writer, Writer::Pod("uid-x-0".into()), "it serves all the same");
    scene.held(Some(false));
    let plan = decide(&scene.observed).expect("a plan");
    assert!(plan.status.conditions.iter().all(|c| c.kind != "DataLost"), "nobody ever saw a key in it");
}

#[test]
fn nodes_name_role_and_upstream() {
    let plan = plan(&Scene::healthy("x", 2));
    let details: serde_json::Value = serde_json::from_str(&plan.status.details).expect("JSON");
    assert_eq!(
        details["nodes"][1],
        serde_json::json!({"role": "replica", "ip": "10.0.0.2", "port": "6379", "podName": "rfr-x-1", "statefulSet": "rfr-x",
                           "nodeName": "node-1", "masterRef": "rfr-x-0"})
    );
    assert_eq!(details["nodes"][0]["role"], "master");
}

#[test]
fn hands_off_means_nothing_but_labels_and_status() {
    for hands_off in [|s: &mut Scene| s.observed.instance.deleting = true, |s: &mut Scene| s.observed.instance.paused = true] {
        let mut scene = Scene::healthy("x", 3);
        scene.kill(0);
        hands_off(&mut scene);
        let plan = plan(&scene);
        assert!(plan.tracks.is_empty() && plan.desired.is_empty() && plan.blocked.is_empty());
        assert_eq!(plan.routing.readers.len(), 2);
    }
}

#[test]
fn what_it_can_not_decide_it_says() {
    let mut scene = Scene::healthy("x", 3);
    scene.observed.instance.spec = r#"{"replicas":7}"#.into();
    assert!(matches!(decide(&scene.observed), Err(PolicyError::Insufficient(text)) if text.contains('7')));
    scene.observed.instance.spec = "{".into();
    assert!(matches!(decide(&scene.observed), Err(PolicyError::Internal(_))));
    scene.observed.instance.architecture = vko_sdk::common::Architecture::Cluster;
    assert!(matches!(ReplicaPolicy::decide(scene.observed), Err(PolicyError::Insufficient(_))));
    assert_eq!(ReplicaPolicy::describe().name, "replica");
}
