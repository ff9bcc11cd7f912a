//! The failover architecture: creation, what plain and Sentinel-aware clients find, and faults of data servers and Sentinels
//! while one writes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use vko_e2e::instance::{Arch, Instance, MONITOR, Pod, Wanted, condition, on_its_family};
use vko_e2e::settings::Tier;
use vko_e2e::strike::{
    SOME, delete_pod, delete_pods, delete_primary, empty_primary, kill_primary, kill_server, replace_all, under_writes,
};
use vko_e2e::{Result, bed, figure, kubectl, observe, operator, settings, skipped, space, wait};

const KEYS: usize = 1000;

fn of(version: &'static str, members: u32, sentinels: u32) -> Wanted {
    Wanted { version, ..Wanted::failover(members, sentinels) }
}

/// Members and Sentinels of each line.
fn sizes() -> Result<Vec<Wanted>> {
    let mut sizes = vec![of("9.1", 2, 3)];
    if settings::tier()? != Tier::Quick {
        sizes.extend([of("9.1", 3, 5), of("8.1", 2, 3), of("7.2", 2, 3)]);
    }
    Ok(sizes)
}

#[test]
fn each_size_and_line_comes_up() -> Result {
    let _operator = operator::shared()?;
    for wanted in sizes()? {
        let Arch::Failover { sentinels } = wanted.arch else { panic!("{wanted:?}") };
        let (version, members) = (wanted.version, wanted.members);
        space::with(&format!("failover-{}-{members}-{sentinels}", version.replace('.', "")), |namespace| {
            let began = Instant::now();
            let instance = Instance::create(namespace, "x", &wanted)?;
            figure(&format!("failover {version}, {members}+{sentinels}: apply to Ready, ms"), began.elapsed().as_millis());
            keys_go_in_and_come_out(&instance)?;
            the_sentinels_agree(&instance, MONITOR, members, sentinels)?;
            the_status_is_of_what_runs(&instance, members, sentinels)
        })?;
    }
    Ok(())
}

/// Written by a client that asks Sentinels, read by one that doesn't know of them.
fn keys_go_in_and_come_out(instance: &Instance) -> Result {
    let mut session = instance.entrance()?.connect()?;
    for key in 0..KEYS {
        assert_eq!(session.query::<String>(redis::cmd("SET").arg(format!("key:{key}")).arg(key))?, "OK");
    }
    let mut plain = instance.writer()?.connect()?;
    for key in 0..KEYS {
        assert_eq!(redis::cmd("GET").arg(format!("key:{key}")).query::<usize>(&mut plain)?, key);
    }
    Ok(())
}

fn master(instance: &Instance, sentinel: &Pod, monitor: &str) -> Result<std::collections::BTreeMap<String, String>> {
    let all: Vec<std::collections::BTreeMap<String, String>> =
        instance.at_sentinel(sentinel, "operator")?.ask(&["SENTINEL", "MASTERS"])?;
    let found = all.into_iter().find(|facts| facts.get("name").map(String::as_str) == Some(monitor));
    found.with_context(|| format!("{} has no monitor {monitor}", sentinel.name))
}

fn the_sentinels_agree(instance: &Instance, monitor: &str, members: u32, sentinels: u32) -> Result {
    let primary = instance.primary()?;
    let pods = instance.sentinels()?;
    assert_eq!(pods.len(), sentinels as usize, "{pods:?}");
    for pod in &pods {
        let facts = master(instance, pod, monitor)?;
        let fact = |name: &str| facts.get(name).cloned().unwrap_or_default();
        assert_eq!(fact("ip"), primary.ip, "{}: {facts:?}", pod.name);
        assert_eq!(fact("flags"), "master", "{}: {facts:?}", pod.name);
        assert_eq!(fact("num-slaves"), (members - 1).to_string(), "{}", pod.name);
        assert_eq!(fact("num-other-sentinels"), (sentinels - 1).to_string(), "{}", pod.name);
        assert_eq!(fact("quorum"), (sentinels / 2 + 1).to_string(), "{}", pod.name);
        assert_eq!(fact("down-after-milliseconds"), "3000", "{}", pod.name);
    }
    Ok(())
}

fn the_status_is_of_what_runs(instance: &Instance, members: u32, sentinels: u32) -> Result {
    let valkey = instance.object()?;
    let status = &valkey["status"];
    assert_eq!(status["phase"], "Ready", "{status}");
    observe::decided_by(status, "failover")?;
    for (kind, expected) in [("Ready", "True"), ("Accepted", "True"), ("Degraded", "False"), ("Stalled", "False")] {
        assert_eq!(
            condition(&valkey, kind).map(|condition| &condition["status"]),
            Some(&Value::from(expected)),
            "{kind}: {status}"
        );
    }
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let roles = |role: &str| nodes.iter().filter(|node| node["role"] == role).count();
    assert_eq!((roles("master"), roles("replica"), roles("Sentinel")), (1, members as usize - 1, sentinels as usize), "{status}");
    let (namespace, name) = (&instance.namespace, &instance.name);
    let topology = kubectl::must_get(namespace, &format!("failover/{name}"))?;
    assert_eq!(topology["status"]["monitor"]["policy"], "sentinel", "{}", topology["status"]);
    let sentinel = kubectl::must_get(namespace, &format!("sentinel/{name}"))?;
    assert_eq!(sentinel["status"]["phase"], "Ready", "{}", sentinel["status"]);
    let services: BTreeSet<String> = kubectl::list(namespace, "services", &format!("buf.red/name={name}"))?
        .iter()
        .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let expected = ["rfr-x", "rfr-x-readonly", "rfr-x-readwrite", "rfs-x"].map(str::to_owned);
    assert_eq!(services, BTreeSet::from(expected));
    Ok(())
}

#[test]
fn two_instances_on_one_sentinel_group() -> Result {
    if settings::tier()? == Tier::Quick {
        return skipped("full tier only");
    }
    let _operator = operator::shared()?;
    space::with("failover-shared", |namespace| {
        let group = json!({
            "apiVersion": "valkey.buf.red/v1alpha1", "kind": "Sentinel", "metadata": {"name": "shared"},
            "spec": {"replicas": 3, "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}},
        });
        kubectl::apply(namespace, &on_its_family(group)?.to_string())?;
        kubectl::wait(namespace, "sentinel/shared", "condition=Ready", Duration::from_secs(120))?;
        let pods = kubectl::list(namespace, "pods", "buf.red/name=shared")?;
        let nodes: Vec<Value> = pods.iter().map(|pod| json!({"ip": pod["status"]["podIP"], "port": 26379})).collect();
        assert_eq!(nodes.len(), 3, "{pods:?}");
        for name in ["a", "b"] {
            let mut manifest = of("9.1", 2, 3).manifest(name)?;
            manifest["spec"]["sentinel"] = json!({
                "sentinelReference": {"nodes": nodes, "auth": {"passwordSecret": "failover-acl-shared-operator-secret", "username": "operator"}},
                "monitorConfig": {"down-after-milliseconds": "3000", "failover-timeout": "30000", "parallel-syncs": "1"},
            });
            kubectl::apply(namespace, &manifest.to_string())?;
        }
        for name in ["a", "b"] {
            let instance = Instance { namespace: namespace.into(), name: name.into(), arch: Arch::Failover { sentinels: 0 } };
            instance.wait_ready()?;
            let primary = instance.primary()?;
            kill_server(&primary)?;
            instance.wait_primary_other_than(&primary)?;
            instance.wait_ready()?;
        }
        let a = Instance { namespace: namespace.into(), name: "a".into(), arch: Arch::Failover { sentinels: 0 } };
        kubectl::run(&["delete", &a.target(), "--namespace", namespace, "--timeout=120s"])?;
        // The Valkey goes at once; what was made of it goes once it is cleared up.
        kubectl::wait(namespace, "failovers.valkey.buf.red/a", "delete", Duration::from_secs(120))?;
        let group = Instance { namespace: namespace.into(), name: "shared".into(), arch: Arch::Failover { sentinels: 3 } };
        for sentinel in group.sentinels()? {
            let all: Vec<std::collections::BTreeMap<String, String>> =
                group.at_sentinel(&sentinel, "operator")?.ask(&["SENTINEL", "MASTERS"])?;
            let names: Vec<&String> = all.iter().filter_map(|facts| facts.get("name")).collect();
            assert_eq!(
                names,
                [&format!("{namespace}.b")],
                "{}: each instance takes its own monitor away, and no other",
                sentinel.name
            );
        }
        Ok(())
    })
}

/// Three members on nodes of their own, three Sentinels.
fn three_and_three(version: &'static str) -> Wanted {
    Wanted { apart: true, ..of(version, 3, 3) }
}

#[test]
fn the_primarys_container_is_killed() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("container-killed", &three_and_three(version), kill_primary)?;
    }
    Ok(())
}

#[test]
fn the_primarys_pod_is_deleted() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("pod-deleted", &three_and_three(version), |instance, primary, writer| {
            delete_primary(instance, primary, writer)?;
            // A hook that fails is told by the kubelet, and loses nothing that a write would show: the server waits for its
            // replicas.
            let failed = |event: &Value| event["reason"] == "FailedPreStopHook";
            let events = kubectl::list(&instance.namespace, "events", "")?;
            assert!(!events.iter().any(failed), "{:?}", events.iter().filter(|event| failed(event)).collect::<Vec<_>>());
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn the_primarys_pod_comes_back_empty() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("pod-restarted-empty", &three_and_three(version), empty_primary)?;
    }
    Ok(())
}

#[test]
fn the_primarys_node_is_lost() -> Result {
    if !bed::is_here() {
        return skipped("takes a node's power");
    }
    for version in settings::full_lines()? {
        let _operator = operator::alone()?;
        under_writes("node-lost", &three_and_three(version), |instance, primary, _| {
            operator::place(&primary.node, false)?;
            let lost = bed::kill_node(&primary.node)?;
            instance.wait_primary_other_than(primary)?;
            lost.end()
        })?;
    }
    Ok(())
}

#[test]
fn a_sentinel_is_replaced_and_nobody_counts_a_ghost() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("sentinel-deleted", &three_and_three(version), |instance, primary, writer| {
            let gone = instance.sentinels()?.remove(0);
            delete_pod(&instance.namespace, &gone.name, None)?;
            kubectl::look_until("the Sentinel to be another pod", Duration::from_secs(60), || {
                let now = instance.sentinels()?;
                let replaced = now.len() == 3 && now.iter().all(|pod| pod.uid != gone.uid && !pod.ip.is_empty());
                Ok(wait::Look::when(replaced.then_some(()), || format!("{now:?}")))
            })?;
            instance.wait_settled(6)?;
            writer.wait_acks(SOME)?;
            assert_eq!(instance.primary()?.uid, primary.uid);
            kubectl::look_until("the Sentinels to agree", Duration::from_secs(60), || {
                let agree = the_sentinels_agree_now(instance)?;
                Ok(wait::Look::when(agree.is_empty().then_some(()), || agree.join("; ")))
            })
        })?;
    }
    Ok(())
}

/// What is not as it should be with three Sentinels and two replicas.
fn the_sentinels_agree_now(instance: &Instance) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for pod in instance.sentinels()? {
        let facts = master(instance, &pod, MONITOR)?;
        for (name, expected) in [("num-other-sentinels", "2"), ("num-slaves", "2"), ("flags", "master")] {
            if facts.get(name).map(String::as_str) != Some(expected) {
                wrong.push(format!("{}: {name} is {:?}", pod.name, facts.get(name)));
            }
        }
    }
    Ok(wrong)
}

#[test]
fn a_majority_of_sentinels_is_lost_and_the_primary_after_them() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("sentinels-lost", &three_and_three(version), |instance, primary, writer| {
            delete_pods(&instance.namespace, &instance.sentinels()?[..2], 0)?;
            kill_server(primary)?;
            instance.wait_primary_other_than(primary)?;
            writer.wait_acks(SOME)
        })?;
    }
    Ok(())
}

#[test]
fn everything_is_deleted_at_once_and_comes_back_from_claims() -> Result {
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("all-pods", &Wanted { claims: true, ..three_and_three(version) }, |instance, _, _| {
            replace_all(instance, &instance.pods()?)?;
            // Ready: every Sentinel names the primary that there is, and knows all others.
            the_sentinels_agree(instance, MONITOR, 3, 3)
        })?;
    }
    Ok(())
}

#[test]
fn the_operator_is_down_meanwhile() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    for version in settings::full_lines()? {
        let _operator = operator::alone()?;
        under_writes("operator-down", &three_and_three(version), |instance, primary, writer| {
            operator::stop()?;
            delete_pod(&instance.namespace, &primary.name, None)?;
            // A Sentinel-aware client needs no operator.
            let served = writer.wait_acks(SOME);
            operator::start()?;
            served?;
            instance.wait_primary_other_than(primary)?;
            instance.wait_ready()
        })?;
    }
    Ok(())
}

#[test]
fn the_role_label_follows_a_switch_by_its_event() -> Result {
    let _operator = operator::alone()?;
    operator::set_probe_interval(Some(3_600_000))?;
    let tested = space::with("failover-label", |namespace| {
        let instance = Instance::create(namespace, "x", &of("9.1", 2, 3))?;
        let primary = instance.primary()?;
        let sentinel = instance.sentinels()?.remove(0);
        assert_eq!(instance.at_sentinel(&sentinel, "operator")?.ask::<String>(&["SENTINEL", "FAILOVER", MONITOR])?, "OK");
        let began = Instant::now();
        instance.wait_primary_other_than(&primary)?;
        figure("failover: SENTINEL FAILOVER to label, ms", began.elapsed().as_millis());
        instance.wait_ready()
    });
    operator::set_probe_interval(None)?;
    tested
}
