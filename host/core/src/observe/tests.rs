//! An observation out of objects as the API server gives them and replies as servers give them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use vko_model::info::Info;
use vko_wit::observation::{ContainerState, DataOrigin, Failure, IpFamily, NodeState, Observed, Reach, Role, Upstream};

use super::{Inputs, observe};
use crate::ledger::{Fence, Ledger};
use crate::memory::{Answer, Memory};
use crate::object::{Kind, Object};
use crate::world::ServerError;

const PRIMARY: &str = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrun_id:run-0\r\nuptime_in_seconds:71\r\n\
# Persistence\r\nloading:0\r\nrdb_bgsave_in_progress:0\r\nrdb_last_save_time:1796168232\r\nrdb_last_bgsave_status:ok\r\n\
rdb_last_load_keys_loaded:12\r\naof_enabled:0\r\n\
# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmin_slaves_good_slaves:1\r\n\
slave0:ip=10.0.0.2,port=6379,state=online,offset=2964,lag=1,type=replica\r\n\
slave1:ip=10.9.9.9,port=6379,state=wait_bgsave,offset=0,lag=0,type=replica\r\n\
master_failover_state:no-failover\r\nmaster_replid:h2\r\nmaster_replid2:h1\r\nmaster_repl_offset:2964\r\nsecond_repl_offset:100\r\n\
# Keyspace\r\ndb0:keys=40,expires=1,avg_ttl=5\r\n";

const REPLICA: &str = "# Server\r\nvalkey_version:9.1.2\r\nrun_id:run-1\r\nuptime_in_seconds:60\r\n# Persistence\r\nloading:0\r\n\
# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:1\r\n\
master_sync_in_progress:0\r\nslave_repl_offset:2960\r\nslave_priority:100\r\nmaster_failover_state:no-failover\r\n\
master_replid:h2\r\nmaster_repl_offset:2960\r\n# Keyspace\r\n";

/// A world of objects as JSON; each test changes what it is about.
struct Fixture {
    topology: Value,
    valkey: Option<Value>,
    pods: Vec<Value>,
    claims: Vec<Value>,
    nodes: Vec<Value>,
    objects: Vec<(Kind, Value)>,
    memory: Memory,
    ledger: Ledger,
    fresh: bool,
    disks: BTreeMap<String, Vec<String>>,
}

fn pod(ordinal: u32) -> Value {
    json!({
        "metadata": {"name": format!("rfr-x-{ordinal}"), "uid": format!("uid-{ordinal}"), "labels": {"valkey.buf.red/role": "replica"}},
        "spec": {"nodeName": format!("node-{ordinal}")},
        "status": {
            "phase": "Running",
            "podIP": format!("10.0.0.{}", ordinal + 1),
            "podIPs": [{"ip": format!("10.0.0.{}", ordinal + 1)}],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:59:00Z"},
            ],
            "initContainerStatuses": [{"name": "agent", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "valkey", "restartCount": 2, "state": {"running": {}}}],
        },
    })
}

fn node(ordinal: u32, ready: &str) -> Value {
    json!({
        "metadata": {"name": format!("node-{ordinal}"), "labels": {
            "topology.kubernetes.io/zone": format!("zone-{}", ordinal % 2),
            "kubernetes.io/hostname": format!("host-{ordinal}"),
        }},
        "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]},
    })
}

fn claim(ordinal: u32, created: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("valkey-data-rfr-x-{ordinal}"),
            "uid": format!("claim-{ordinal}"),
            "creationTimestamp": created,
            "annotations": {"volume.kubernetes.io/selected-node": format!("node-{ordinal}")},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    })
}

impl Fixture {
    /// A primary, a replica, one that was never asked.
    fn new() -> Self {
        let memory = Memory::default();
        memory.note("uid-0", Duration::from_secs(99), Duration::from_secs(99), Ok(Info::parse(PRIMARY).into()));
        memory.note("uid-1", Duration::from_secs(98), Duration::from_secs(98), Ok(Info::parse(REPLICA).into()));
        Self {
            topology: json!({
                "metadata": {"name": "x", "namespace": "shop", "uid": "topology", "generation": 4, "creationTimestamp": "2027-01-15T07:00:00Z"},
                "spec": {"replicas": 3, "access": {"ipFamilyPrefer": "IPv4"}},
                "status": {"nodes": [{"name": "rfr-x-0"}], "ledger": {"formed": true}},
            }),
            valkey: None,
            pods: (0..3).rev().map(pod).collect(),
            claims: (0..3).map(|ordinal| claim(ordinal, "2027-01-15T07:00:10Z")).collect(),
            nodes: (0..3).map(|ordinal| node(ordinal, "True")).collect(),
            objects: Vec::new(),
            memory,
            ledger: Ledger::default(),
            fresh: true,
            disks: BTreeMap::new(),
        }
    }

    fn observe(&self) -> Observed {
        let objects = |all: &[Value]| all.iter().cloned().map(Object::new).collect::<Vec<_>>();
        let (topology, valkey) = (Object::new(self.topology.clone()), self.valkey.clone().map(Object::new));
        let listed: Vec<(Kind, Object)> =
            self.objects.iter().map(|(kind, object)| (*kind, Object::new(object.clone()))).collect();
        observe(&Inputs {
            valkey: valkey.as_ref(),
            objects: &listed,
            pods: &objects(&self.pods),
            claims: &objects(&self.claims),
            nodes: &objects(&self.nodes),
            disks: &self.disks,
            fresh: self.fresh,
            servers: &self.memory.snapshot(),
            places: &self.memory.places(),
            looking_for: Duration::from_secs(50),
            ..Inputs::bare(&topology, Kind::Failover, &self.ledger)
        })
    }
}

#[test]
fn pods_are_told_by_place_with_their_nodes() {
    let observed = Fixture::new().observe();
    assert_eq!(observed.pods.iter().map(|pod| pod.ordinal).collect::<Vec<_>>(), [0, 1, 2], "sorted, however they came");
    let pod = &observed.pods[1];
    assert_eq!(
        (pod.uid.as_str(), pod.workload.as_str(), pod.node.as_str(), pod.zone.as_str()),
        ("uid-1", "rfr-x", "node-1", "zone-1")
    );
    assert_eq!(
        (pod.node_state, pod.container, pod.ready, pod.ready_for, pod.restarts),
        (NodeState::Alive, ContainerState::Running, true, 60_000, 2)
    );
    assert_eq!(
        (pod.addresses.clone(), pod.role_label.as_str(), pod.waiting.as_str()),
        (vec!["10.0.0.2".to_owned()], "replica", "")
    );
    assert_eq!(observed.environment.zones, ["zone-0", "zone-1"]);
}

#[test]
fn what_servers_say_of_themselves_and_of_each_other() {
    let observed = Fixture::new().observe();
    let [primary, replica, unheard] = observed.servers.as_slice() else { panic!("three servers") };
    let facts = primary.facts.as_ref().unwrap();
    assert_eq!((&primary.reach, primary.age), (&Reach::Answered, 1_000));
    assert_eq!(
        (&facts.role, facts.replid.as_str(), facts.second_replid.as_str(), facts.offset),
        (&Role::Primary, "h2", "h1", 2_964)
    );
    assert_eq!((facts.keys, facts.uptime, facts.origin), (40, 71_000, DataOrigin::Snapshot));
    assert_eq!(vko_wit::facts::appends(facts), Some(false));
    let attached: Vec<_> = facts.replicas.iter().map(|r| (r.pod.clone(), r.online, r.lag)).collect();
    assert!(attached.contains(&(Upstream::Pod("uid-1".into()), true, 1_000)));
    assert!(
        attached.iter().any(|(pod, online, _)| matches!(pod, Upstream::Other(address) if address.host == "10.9.9.9") && !online)
    );

    let facts = replica.facts.as_ref().unwrap();
    let Role::Replica(link) = &facts.role else { panic!("a replica") };
    assert_eq!((&link.primary, link.up, link.syncing, link.last_io), (&Upstream::Pod("uid-0".into()), true, false, Some(1_000)));
    assert_eq!((facts.offset, facts.keys, facts.origin), (2_960, 0, DataOrigin::Sync));

    assert_eq!(
        (&unheard.reach, unheard.age, unheard.facts.is_none()),
        (&Reach::Silent(0), u64::MAX, true),
        "never asked is not empty"
    );
}

#[test]
fn how_a_server_is_reached() {
    let at = Duration::from_secs(90);
    let table = [
        ("silent, with its last word", vec![Ok(Info::parse(PRIMARY)), Err(ServerError::Silent(at))], Reach::Silent(10_000), true),
        ("connection refused", vec![Err(ServerError::Lost("refused".into()))], Reach::Silent(10_000), false),
        ("loading, and says so", vec![Err(ServerError::Loading)], Reach::Loading(None), false),
        ("loading, by its own INFO", vec![Ok(loading())], Reach::Loading(Some(40)), true),
        (
            "an error",
            vec![Err(ServerError::Login("WRONGPASS".into()))],
            Reach::Refused(Failure { lasting: 10_000, reason: ServerError::Login("WRONGPASS".into()).to_string() }),
            false,
        ),
        ("back", vec![Err(ServerError::Silent(at)), Ok(Info::parse(PRIMARY))], Reach::Answered, true),
    ];
    for (case, answers, reach, known) in table {
        let fixture = Fixture::new();
        for answer in answers {
            fixture.memory.note("uid-2", at, at, answer.map(Answer::from));
        }
        let server = fixture.observe().servers.remove(2);
        assert_eq!((server.reach, server.facts.is_some()), (reach, known), "{case}");
    }
}

fn loading() -> Info {
    Info::parse(&PRIMARY.replace("loading:0", "loading:1\r\nloading_loaded_perc:40.13"))
}

#[test]
fn what_is_not_said_is_unknown() {
    for missing in ["role:", "run_id:", "valkey_version:", "# Keyspace"] {
        let fixture = Fixture::new();
        let text: Vec<&str> = PRIMARY.split("\r\n").filter(|line| !line.starts_with(missing)).collect();
        let text: Vec<&str> = text.into_iter().filter(|line| !(missing == "# Keyspace" && line.starts_with("db0"))).collect();
        let text: Vec<&str> =
            text.into_iter().filter(|line| !(missing == "valkey_version:" && line.starts_with("redis_version"))).collect();
        fixture.memory.note(
            "uid-2",
            Duration::from_secs(99),
            Duration::from_secs(99),
            Ok(Info::parse(&text.join("\r\n")).into()),
        );
        assert!(fixture.observe().servers[2].facts.is_none(), "without {missing}");
    }
}

#[test]
fn whom_a_replica_follows() {
    let other = |host: &str| Upstream::Other(vko_wit::common::Address { host: host.into(), port: 6379 });
    let table = [
        ("10.0.0.1", 6379, Upstream::Pod("uid-0".into())),
        ("127.0.0.1", 1, Upstream::Nobody),
        ("::1", 1, Upstream::Nobody),
        // Nobody is a port: on the mock host pods have loopback addresses.
        ("127.0.0.1", 6379, other("127.0.0.1")),
        ("10.7.7.7", 6379, other("10.7.7.7")),
        ("somewhere.example", 6379, other("somewhere.example")),
    ];
    for (host, port, expected) in table {
        let fixture = Fixture::new();
        let text = REPLICA.replace("10.0.0.1", host).replace("master_port:6379", &format!("master_port:{port}"));
        fixture.memory.note("uid-1", Duration::from_secs(99), Duration::from_secs(99), Ok(Info::parse(&text).into()));
        let facts = fixture.observe().servers[1].facts.clone().unwrap();
        assert!(matches!(facts.role, Role::Replica(link) if link.primary == expected), "{host} {port}");
    }
}

#[test]
fn a_fence_is_as_high_as_the_ledger_says_for_this_run() {
    let record =
        |run: &str| Fence { pod: "uid-0".into(), run_id: run.into(), min_replicas: 2, max_lag_ms: 5_000, ..Fence::default() };
    for (case, fences, height) in
        [("known", vec![record("run-0")], 2), ("of another run", vec![record("run-9")], 1), ("unknown", Vec::new(), 1)]
    {
        let mut fixture = Fixture::new();
        fixture.ledger.fences = fences;
        let fence = fixture.observe().servers[0].facts.clone().unwrap().fence;
        assert_eq!((fence.min_replicas, fence.good_replicas), (height, 1), "{case}");
    }
    let observed = Fixture::new().observe();
    assert_eq!(observed.servers[1].facts.as_ref().unwrap().fence.min_replicas, 0, "one that counts no replicas has none");
}

#[test]
fn nodes_that_are_gone_silent_or_out_of_service() {
    let tainted = || {
        let mut node = node(1, "Unknown");
        node["spec"] = json!({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]});
        node
    };
    let table = [
        ("ready", Some(node(1, "True")), true, NodeState::Alive, Some(true)),
        ("says that it isn't ready", Some(node(1, "False")), true, NodeState::Alive, Some(true)),
        ("silent", Some(node(1, "Unknown")), true, NodeState::Silent, Some(true)),
        ("out of service", Some(tainted()), true, NodeState::OutOfService, Some(true)),
        ("gone: its volume may be elsewhere", None, true, NodeState::Gone, None),
        ("not in a cache that is too old to say", None, false, NodeState::Unknown, None),
    ];
    for (case, node, fresh, state, exists) in table {
        let mut fixture = Fixture::new();
        fixture.fresh = fresh;
        fixture.nodes.remove(1);
        fixture.nodes.extend(node);
        let observed = fixture.observe();
        assert_eq!((observed.pods[1].node_state, observed.claims[1].node_exists), (state, exists), "{case}");
        let running = matches!(state, NodeState::Alive);
        assert_eq!(observed.pods[1].container == ContainerState::Running, running, "{case}: a silent kubelet's word is no news");
    }
    let mut fixture = Fixture::new();
    fixture.pods[0]["spec"] = json!({});
    assert_eq!(fixture.observe().pods[2].node_state, NodeState::Unknown, "not scheduled yet is not a lost node");
}

#[test]
fn a_disk_goes_with_its_nodes_and_a_network_volume_does_not() {
    for (case, gone, fresh, hosts, exists) in [
        ("its node is there", false, true, &["host-1"][..], Some(true)),
        ("its node is gone", true, true, &["host-1"], Some(false)),
        ("its node is gone, another has it", true, true, &["host-1", "host-2"], Some(true)),
        ("the cache is too old to say", true, false, &["host-1"], None),
        ("no disk: it may be elsewhere", true, true, &[], None),
    ] {
        let mut fixture = Fixture::new();
        fixture.fresh = fresh;
        if gone {
            fixture.nodes.remove(1);
        }
        if !hosts.is_empty() {
            fixture.disks.insert("claim-1".into(), hosts.iter().map(|host| (*host).to_owned()).collect());
        }
        assert_eq!(fixture.observe().claims[1].node_exists, exists, "{case}");
    }
}

#[test]
fn pods_that_are_not_there_yet_or_no_more() {
    let mut fixture = Fixture::new();
    fixture.pods[0] = json!({
        "metadata": {"name": "rfr-x-2", "uid": "uid-2"},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    });
    fixture.pods[1]["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:30Z");
    fixture.pods[1]["metadata"]["deletionGracePeriodSeconds"] = json!(60);
    fixture.pods.push(json!({"metadata": {"name": "a-tool", "uid": "t"}}));
    let observed = fixture.observe();
    assert_eq!(observed.pods.len(), 3, "what has no ordinal fills no place");
    assert_eq!(
        (observed.pods[2].waiting.as_str(), observed.pods[2].ready, observed.pods[2].addresses.len()),
        ("Unschedulable", false, 0)
    );
    assert_eq!(observed.servers.len(), 2, "without an address there is nothing to ask");
    assert_eq!((observed.pods[1].terminating_for, observed.pods[1].ready), (30_000, false));
}

#[test]
fn claims_and_what_they_may_hold() {
    let mut fixture = Fixture::new();
    fixture.claims.push(claim(3, "2027-01-14T00:00:00Z"));
    fixture.claims.push(json!({"metadata": {"name": "backup-of-x", "uid": "b"}}));
    let observed = fixture.observe();
    assert_eq!(observed.claims.len(), 4, "a claim that fills no place isn't one of a member");
    let claim = &observed.claims[3];
    assert_eq!((claim.ordinal, claim.capacity, claim.phase.as_str(), claim.workload.as_str()), (3, 1 << 30, "Bound", "rfr-x"));
    let older = |observed: &Observed| -> Vec<u32> {
        observed.claims.iter().filter(|claim| claim.before_instance).map(|claim| claim.ordinal).collect()
    };
    assert_eq!(older(&observed), [3], "older than the instance");

    fixture.valkey = Some(json!({"metadata": {"name": "x", "creationTimestamp": "2027-01-10T00:00:00Z"}}));
    assert!(
        older(&fixture.observe()).is_empty(),
        "the instance is as old as its Valkey; its topology object may have been made anew"
    );
}

#[test]
fn the_instance_and_what_a_person_said() {
    let mut fixture = Fixture::new();
    fixture.ledger.consents_used = vec!["used".into()];
    fixture.valkey = Some(json!({"metadata": {"name": "x", "annotations": {
        "valkey.buf.red/consent": "used, given ,",
        "buf.red/other": "1",
        "example.org/else": "2",
        "evilbuf.red/x": "3",
    }}}));
    let observed = fixture.observe();
    assert_eq!(observed.ledger.consents_used, ["used"]);
    let instance = observed.instance;
    assert_eq!(instance.consents, ["given"]);
    assert_eq!(
        instance.annotations.iter().map(|pair| pair.key.as_str()).collect::<Vec<_>>(),
        ["buf.red/other", "valkey.buf.red/consent"]
    );
    assert_eq!((instance.generation, instance.deleting, instance.uid.as_str()), (4, false, "topology"));
    assert_eq!(instance.status, r#"{"nodes":[{"name":"rfr-x-0"}]}"#, "what a policy wrote, not the host's ledger");
    let mut fixture = Fixture::new();
    assert_eq!(fixture.observe().environment.ip_family, IpFamily::Ipv4);
    fixture.topology["spec"]["access"]["ipFamilyPrefer"] = json!("IPv6");
    assert_eq!(fixture.observe().environment.ip_family, IpFamily::Ipv6);
}

#[test]
fn facts_without_a_field_of_their_own() {
    use vko_wit::facts;
    let observed = Fixture::new().observe();
    assert_eq!((facts::held(&observed), facts::tried_line(&observed)), (None, None));
    assert_eq!(facts::appends(observed.servers[1].facts.as_ref().unwrap()), None, "what isn't said is unknown");
    let ledger = Ledger { held: Some(false), tried_line: Some("9.1".into()), ..Ledger::default() };
    let templates = [("rfr-x".to_owned(), true), ("rfs-x".to_owned(), false)].into();
    let topology = Object::new(json!({"metadata": {"name": "x"}}));
    let inputs = Inputs { templates_of_spec: &templates, ..Inputs::bare(&topology, Kind::Failover, &ledger) };
    let observed = observe(&inputs);
    assert_eq!((facts::held(&observed), facts::tried_line(&observed)), (Some(false), Some("9.1")));
    let known = ["rfr-x", "rfs-x", "rfr"].map(|name| facts::template_of_spec(&observed, name));
    assert_eq!(known, [Some(true), Some(false), None]);
}

#[test]
fn no_secret_is_in_it() {
    let mut fixture = Fixture::new();
    let secret = json!({"metadata": {"name": "s", "uid": "s"}, "data": {"password": "aHVudGVyMg=="}, "stringData": {"password": "hunter2"}});
    fixture.objects.push((Kind::Secret, secret));
    let text = serde_json::to_string(&fixture.observe()).unwrap();
    assert!(text.contains(r#""name":"s""#), "it is listed");
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"));
}

#[test]
fn equal_facts_are_equal_values() {
    let fixture = Fixture::new();
    let mut shuffled = Fixture::new();
    shuffled.pods.rotate_left(1);
    shuffled.nodes.reverse();
    assert_eq!(fixture.observe(), shuffled.observe());
}

#[test]
fn rubbish_hurts_nobody() {
    let mut fixture = Fixture::new();
    for rubbish in [json!({}), json!({"metadata": 7}), json!({"metadata": {"name": "rfr-x-99999999999"}}), json!([])] {
        fixture.pods.push(rubbish.clone());
        fixture.claims.push(rubbish.clone());
        fixture.nodes.push(rubbish.clone());
        fixture.objects.push((Kind::ConfigMap, rubbish));
    }
    fixture.pods.push(json!({"metadata": {"name": "rfr-x-7", "uid": "u", "deletionTimestamp": "soon"}, "status": {"podIPs": [{}, {"ip": 3}], "containerStatuses": "none"}}));
    let observed = fixture.observe();
    assert_eq!(observed.pods.len(), 4);
    assert_eq!(observed.pods[3].terminating_for, 1);
}
