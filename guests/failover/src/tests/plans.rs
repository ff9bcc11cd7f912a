use vko_replica::primary::accept;
use vko_replica::testing::describe_track;
use vko_replica::{Preferences, spec};
use vko_sdk::observation::{LastPrimary, LedgerMember};
use vko_sdk::planning::{Desired, Operation, Phase, Plan, Purpose, Truth, Writer};
use vko_sdk::{Policy, PolicyError};

use crate::cause::Decision;
use crate::testing::Watched;
use crate::{FailoverPolicy, wish};

type Change = fn(&mut Watched) -> &mut Watched;

fn plan(watched: &Watched) -> Plan {
    FailoverPolicy::decide(watched.scene.observed.clone()).expect("a plan")
}

fn condition(plan: &Plan, kind: &str) -> (Truth, String) {
    plan.status.conditions.iter().find(|c| c.kind == kind).map(|c| (c.state, c.reason.clone())).expect("the condition")
}

fn wished(watched: &Watched) -> String {
    watched.decided(|view, group| -> Decision { wish(view, group, &accept(view), &Preferences::default()) })
}

#[test]
fn a_quiet_instance_gets_nothing_to_do() {
    for members in [1, 2, 3, 5] {
        let plan = plan(&Watched::healthy("x", members));
        assert_eq!((plan.tracks.len(), plan.blocked.len(), plan.look_again), (0, 0, 0), "{members} members");
        assert_eq!((plan.status.phase, condition(&plan, "Ready")), (Phase::Ready, (Truth::Yes, "AllMembersSynced".into())));
    }
    let mut shared = Watched::healthy("x", 3);
    shared.refer();
    assert_eq!((plan(&shared).tracks.len(), plan(&shared).look_again), (0, 0), "watched by Sentinels of others");
}

#[test]
fn one_look_at_a_time() {
    let table: &[(&str, Change, &str)] = &[
        ("a replica was replaced: it follows at once", |w| w.data(|s| s.restart(1, "empty")), "follow rfr-x-1 rfr-x-0"),
        ("no fence is set", |w| w.data(|s| s.unfence(0)), "-"),
        (
            "a failover goes on: nothing else is done",
            |w| w.failing_over(0, "wait_promotion").data(|s| s.restart(1, "empty")),
            "wait FailoverUnderWay",
        ),
        (
            "after the role has moved the others follow at once",
            |w| w.data(|s| s.restart(0, "empty").promote(1)).failing_over(0, "reconf_slaves").says(1, 1, 6).says(2, 1, 6),
            "follow rfr-x-0 rfr-x-1; follow rfr-x-2 rfr-x-1",
        ),
        (
            "the old primary is back beside the new one, with nothing more",
            |w| w.data(|s| s.promote(1)).says(0, 1, 6).says(1, 1, 6).says(2, 1, 6),
            "drop-clients rfr-x-0, follow rfr-x-0 rfr-x-1; follow rfr-x-2 rfr-x-1",
        ),
        (
            "the same, with writes of its own",
            |w| w.data(|s| s.promote(1).facts(0, |f| f.offset = 9_000)).says(0, 1, 6).says(1, 1, 6).says(2, 1, 6),
            "follow rfr-x-2 rfr-x-1; wait TwoPrimaries rfr-x-0",
        ),
        (
            "the operator promoted: the Sentinels are pointed at the new one, one after the other",
            |w| w.data(|s| s.promote(1).restart(0, "empty").follow(2, 1).age(0, 100)),
            "follow rfr-x-0 rfr-x-1; unmonitor sid-0",
        ),
        ("a Sentinel was replaced", |w| w.blank(2), "monitor sid-2 rfr-x-0"),
        ("the primary ends: its hook owns the hand-over", |w| w.blank(2).data(|s| s.terminate(0)), "wait HandOverUnderWay"),
        ("the primary's word is old: no Sentinel is told anything", |w| w.blank(2).data(|s| s.age(0, 4_000)), "-"),
    ];
    for (case, change, expected) in table {
        let mut watched = Watched::healthy("x", 3);
        change(&mut watched);
        assert_eq!(wished(&watched), *expected, "{case}");
    }
}

#[test]
fn creation_names_a_primary_first_and_tells_the_sentinels_then() {
    let mut watched = Watched::new("x", 3);
    let tracks = |w: &Watched| plan(w).tracks.iter().map(|t| describe_track(&w.scene, t)).collect::<Vec<_>>();
    assert_eq!(tracks(&watched), ["promote rfr-x-0"]);
    watched.scene.serve_from(0);
    assert_eq!(tracks(&watched), [""; 0], "the ledger doesn't know it yet");
    watched.scene.observed.ledger = Watched::healthy("x", 3).scene.observed.ledger;
    let monitor = |i: u32| format!("monitor sid-{i} rfr-x-0");
    assert_eq!(tracks(&watched), [monitor(0), monitor(1), monitor(2)]);
    assert_eq!(condition(&plan(&watched), "Ready"), (Truth::No, "SentinelsDisagree".into()));
}

#[test]
fn sentinels_are_wanted_beside_the_data() {
    let sentinels = |w: &Watched| {
        let workloads = plan(w).desired.into_iter().filter_map(|d| if let Desired::Workload(w) = d { Some(w) } else { None });
        workloads.filter(|w| w.purpose == Purpose::Sentinel).map(|w| (w.name, w.members)).collect::<Vec<_>>()
    };
    let mut watched = Watched::healthy("x", 3);
    assert_eq!(sentinels(&watched), [("rfs-x".to_owned(), 3)]);
    watched.drop_sentinel(0).drop_sentinel(1);
    assert_eq!(sentinels(&watched), [("rfs-x".to_owned(), 3)], "whatever runs");
    watched.refer();
    assert_eq!(sentinels(&watched), [], "not where there are others");
}

#[test]
fn the_writer_is_whom_the_sentinels_name_and_who_answers() {
    let pod = |i| Writer::Pod(format!("uid-x-{i}"));
    let table: &[(&str, Change, Writer)] = &[
        ("as declared", |w| w, pod(0)),
        ("silent: the label stays", |w| w.data(|s| s.silence(0)), pod(0)),
        ("silent, and another one is named", |w| w.says(0, 1, 6).data(|s| s.silence(0)), Writer::None),
        ("and that one answers", |w| w.says(0, 1, 6).data(|s| s.silence(0).rise(1)), pod(1)),
        ("two answer: the named one", |w| w.says(0, 1, 6).data(|s| s.rise(1)), pod(1)),
        ("two answer, nobody is named: the ledger's", |w| w.mute(0).mute(1).data(|s| s.rise(1)), pod(0)),
        ("named, but it answers as a replica", |w| w.says(0, 1, 6).data(|s| s.kill(0)), Writer::None),
    ];
    for (case, change, writer) in table {
        let mut watched = Watched::healthy("x", 3);
        change(&mut watched);
        assert_eq!(plan(&watched).routing.writer, *writer, "{case}");
    }
}

#[test]
fn a_hand_over_goes_by_the_sentinels_name() {
    let mut watched = Watched::healthy("x", 3);
    watched.data(|s| s.serve_from(2).unfence(2).want(2)).says(0, 2, 5).says(1, 2, 5).says(2, 2, 5);
    let plan = plan(&watched);
    let Operation::HandOver(hand_over) = &plan.tracks[0].steps[0].operation else { panic!("{:?}", plan.tracks) };
    assert_eq!((hand_over.primary.as_str(), hand_over.monitor.as_str()), ("uid-x-2", "mymaster"));
}

/// Beside Sentinels the successor is their choice: it may be one that is to go as well.
#[test]
fn members_behind_a_primary_that_is_to_go_go_first() {
    let next = |primary: usize, current: usize, declared: u32| {
        let mut watched = Watched::healthy("x", 4);
        watched.data(|s| s.serve_from(primary).unfence(primary).want(declared).shrink(u32::try_from(current).unwrap()));
        for gone in current..4 {
            watched.data(|s| s.remove_pod(gone));
        }
        for sentinel in 0..3 {
            watched.says(sentinel, primary, 5);
        }
        let plan = plan(&watched);
        let members = plan.desired.iter().find_map(|d| match d {
            Desired::Workload(w) if w.purpose == Purpose::Data => Some(w.members),
            _ => None,
        });
        let tracks: Vec<String> = plan.tracks.iter().map(|t| describe_track(&watched.scene, t)).collect();
        (members, tracks.join("; "))
    };
    for (case, (primary, current, declared), members, tracks) in [
        ("it stays: all others at once", (0, 4, 1), 1, ""),
        ("it is the last: the role moves", (3, 4, 1), 4, "hand-over rfr-x-3 rfr-x-0"),
        ("their choice was the one before the last, which is to go, too", (2, 4, 1), 3, ""),
        ("it is the last again", (2, 3, 1), 3, "hand-over rfr-x-2 rfr-x-0"),
        ("their choice was the second", (1, 3, 1), 2, ""),
        ("only the first is left to choose", (1, 2, 1), 2, "hand-over rfr-x-1 rfr-x-0"),
        ("with two that stay", (1, 4, 2), 2, ""),
    ] {
        assert_eq!(next(primary, current, declared), (Some(members), tracks.to_owned()), "{case}");
    }
}

#[test]
fn the_status_names_sentinels_and_the_monitor() {
    let details = |w: &Watched| serde_json::from_str::<serde_json::Value>(&plan(w).status.details).expect("JSON");
    let mut watched = Watched::healthy("x", 2);
    let shown = details(&watched);
    assert_eq!(shown["nodes"].as_array().map(Vec::len), Some(5));
    assert_eq!((&shown["nodes"][2]["role"], &shown["nodes"][2]["port"]), (&"Sentinel".into(), &"26379".into()));
    assert_eq!(
        shown["monitor"],
        serde_json::json!({"policy": "sentinel", "name": "mymaster",
            "nodes": [{"ip": "10.1.0.1", "port": 26379}, {"ip": "10.1.0.2", "port": 26379}, {"ip": "10.1.0.3", "port": 26379}]})
    );
    watched.ghost(0);
    assert!(plan(&watched).status.message.contains("1 replica(s) and 1 Sentinel(s)"), "ghosts are said");
    watched.refer();
    let shown = details(&watched);
    assert_eq!((&shown["monitor"]["name"], &shown["monitor"]["nodes"][0]["ip"]), (&"ns.x".into(), &"10.2.0.1".into()));
    assert_eq!(shown["nodes"].as_array().map(Vec::len), Some(2), "Sentinels of others are no nodes");
}

#[test]
fn what_is_missing_is_said_and_looked_at_again() {
    let mut watched = Watched::healthy("x", 3);
    watched.mute(1);
    let plan = plan(&watched);
    assert_eq!(condition(&plan, "Ready"), (Truth::No, "SentinelsAway".into()));
    assert!(plan.status.phase == Phase::Rebalancing && plan.look_again > 0 && plan.tracks.is_empty());
}

#[test]
fn hands_off_means_nothing_but_labels_and_status() {
    let mut watched = Watched::healthy("x", 3);
    watched.blank(0).data(|s| s.kill(0));
    watched.scene.observed.instance.paused = true;
    let plan = plan(&watched);
    assert!(plan.tracks.is_empty() && plan.desired.is_empty() && plan.blocked.is_empty());
}

#[test]
fn what_it_can_not_decide_it_says() {
    let mut observed = Watched::healthy("x", 3).scene.observed;
    observed.instance.spec = r#"{"replicas":3}"#.into();
    assert!(
        matches!(FailoverPolicy::decide(observed.clone()), Err(PolicyError::Insufficient(text)) if text.contains("sentinel"))
    );
    observed.instance.architecture = vko_sdk::common::Architecture::Replica;
    assert!(matches!(FailoverPolicy::decide(observed), Err(PolicyError::Insufficient(_))));
    assert_eq!(FailoverPolicy::describe().name, "failover");
    assert!(spec::read(r#"{"replicas":3,"sentinel":{}}"#).is_ok(), "the replica policy reads what is its own");
}

#[test]
fn the_ledger_may_name_a_pod_that_is_gone() {
    let mut watched = Watched::healthy("x", 3);
    watched.data(|s| s.replace_pod(0).answer_empty(0)).says_stranger(0).says_stranger(1).says_stranger(2);
    let gone = LedgerMember {
        workload: "rfr-x".into(),
        ordinal: 0,
        pod: "uid-x-0".into(),
        claim: String::new(),
        node_id: String::new(),
    };
    assert_eq!(watched.scene.observed.ledger.last_primary, LastPrimary::Members(vec![gone]));
    assert_eq!(wished(&watched), "promote rfr-x-1", "it came back empty in a new pod; the Sentinels know its old address alone");
}
