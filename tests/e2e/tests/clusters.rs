//! Clusters: creation, what a cluster-aware client finds, and faults of primaries, replicas and majorities while it writes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use vko_e2e::instance::{Arch, Instance, Pod, Wanted, condition};
use vko_e2e::server::info_field;
use vko_e2e::settings::Tier;
use vko_e2e::strike::{
    SOME, delete_pod, delete_pods, delete_primary, empty_primary, kill_all, kill_primary, kill_server, replace_all, under_writes,
};
use vko_e2e::{Result, bed, figure, kubectl, observe, operator, settings, skipped, space};

const KEYS: usize = 1000;
const SLOTS: u64 = 16384;

fn of(version: &'static str, shards: u32, members: u32) -> Wanted {
    Wanted { version, ..Wanted::cluster(shards, members) }
}

/// Shards and members of each line.
fn sizes() -> Result<Vec<Wanted>> {
    let mut sizes = vec![of("9.1", 3, 2)];
    if settings::tier()? != Tier::Quick {
        sizes.extend([of("9.1", 3, 1), of("9.1", 5, 3), of("8.1", 3, 2), of("7.2", 3, 2)]);
    }
    Ok(sizes)
}

#[test]
fn each_size_and_line_comes_up() -> Result {
    let _operator = operator::shared()?;
    for wanted in sizes()? {
        let Arch::Cluster { shards } = wanted.arch else { panic!("{wanted:?}") };
        let (version, members) = (wanted.version, wanted.members);
        space::with(&format!("cluster-{}-{shards}-{members}", version.replace('.', "")), |namespace| {
            let began = Instant::now();
            let instance = Instance::create(namespace, "x", &wanted)?;
            figure(&format!("cluster {version}, {shards}x{members}: apply to Ready, ms"), began.elapsed().as_millis());
            keys_go_in_and_come_out(&instance)?;
            the_servers_agree(&instance, shards, members)?;
            the_status_is_of_what_runs(&instance, shards, members)
        })?;
    }
    Ok(())
}

fn keys_go_in_and_come_out(instance: &Instance) -> Result {
    let mut session = instance.entrance()?.connect()?;
    for key in 0..KEYS {
        assert_eq!(session.query::<String>(redis::cmd("SET").arg(format!("key:{key}")).arg(key))?, "OK");
    }
    for key in 0..KEYS {
        assert_eq!(session.query::<usize>(redis::cmd("GET").arg(format!("key:{key}")))?, key);
    }
    Ok(())
}

/// Every server: the state, all slots, every peer linked; shards with as many members as were asked for.
fn the_servers_agree(instance: &Instance, shards: u32, members: u32) -> Result {
    let servers = instance.servers()?;
    assert_eq!(servers.len(), (shards * members) as usize, "{servers:?}");
    for pod in &servers {
        let info: String = instance.at(pod, "operator")?.ask(&["CLUSTER", "INFO"])?;
        let field = |name| info_field(&info, name).unwrap_or_default().to_owned();
        assert_eq!(field("cluster_state"), "ok", "{}: {info}", pod.name);
        assert_eq!(field("cluster_slots_assigned"), SLOTS.to_string(), "{}", pod.name);
        assert_eq!(field("cluster_known_nodes"), (shards * members).to_string(), "{}", pod.name);
        assert_eq!(field("cluster_size"), shards.to_string(), "{}", pod.name);
    }
    for shard in 0..shards {
        let primary = instance.shard_primary(shard)?;
        let info: String = instance.at(&primary, "default")?.ask(&["INFO", "replication"])?;
        assert_eq!(info_field(&info, "connected_slaves"), Some((members - 1).to_string().as_str()), "{info}");
    }
    Ok(())
}

fn the_status_is_of_what_runs(instance: &Instance, shards: u32, members: u32) -> Result {
    let valkey = instance.object()?;
    let status = &valkey["status"];
    assert_eq!(status["phase"], "Ready", "{status}");
    observe::decided_by(status, "cluster")?;
    for (kind, expected) in [("Ready", "True"), ("Accepted", "True"), ("Degraded", "False"), ("Stalled", "False")] {
        assert_eq!(
            condition(&valkey, kind).map(|condition| &condition["status"]),
            Some(&Value::from(expected)),
            "{kind}: {status}"
        );
    }
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let roles = |role: &str| nodes.iter().filter(|node| node["role"] == role).count();
    assert_eq!((roles("master"), roles("replica")), (shards as usize, (shards * (members - 1)) as usize), "{status}");
    let topology = kubectl::must_get(&instance.namespace, &format!("clusters.valkey.buf.red/{}", instance.name))?;
    assert_eq!(topology["status"]["clusterStatus"], "InService", "{}", topology["status"]);
    assert_eq!(topology["status"]["shards"].as_array().map(Vec::len), Some(shards as usize), "{}", topology["status"]);
    names_are_those_that_people_rely_on(instance, shards, members)
}

fn names_are_those_that_people_rely_on(instance: &Instance, shards: u32, members: u32) -> Result {
    let (namespace, name) = (instance.namespace.as_str(), instance.name.as_str());
    let names = |kind: &str| -> Result<BTreeSet<String>> {
        let objects = kubectl::list(namespace, kind, &format!("buf.red/name={name}"))?;
        Ok(objects.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect())
    };
    let each = |form: &dyn Fn(u32) -> String| (0..shards).map(form).collect::<BTreeSet<_>>();
    assert_eq!(names("statefulsets")?, each(&|shard| format!("drc-{name}-{shard}")));
    assert_eq!(names("poddisruptionbudgets")?, each(&|shard| format!("drc-{name}-{shard}")));
    let mut services = each(&|shard| format!("{name}-{shard}"));
    services.insert(name.to_owned());
    assert_eq!(names("services")?, services);
    let pods: BTreeSet<String> =
        (0..shards).flat_map(|shard| (0..members).map(move |member| format!("drc-x-{shard}-{member}"))).collect();
    assert_eq!(names("pods")?, pods);
    for pod in kubectl::list(namespace, "pods", "buf.red/type=cluster")? {
        let set = pod["metadata"]["labels"]["statefulset"].as_str().unwrap_or_default();
        assert!(pod["metadata"]["name"].as_str().unwrap_or_default().starts_with(&format!("{set}-")), "{}", pod["metadata"]);
    }
    Ok(())
}

/// Three shards of two, each member of a shard on a node of its own.
fn three_by_two(version: &'static str) -> Wanted {
    Wanted { apart: true, ..of(version, 3, 2) }
}

fn replica_of(instance: &Instance, primary: &Pod) -> Result<Pod> {
    let mut mates = instance.servers()?.into_iter().filter(|pod| pod.workload == primary.workload && pod.uid != primary.uid);
    Ok(mates.next().expect("a shard of two"))
}

#[test]
fn a_primarys_container_is_killed() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        // What it had is gone with its process or is behind: its replica takes over before it may start again.
        under_writes("container-killed", &three_by_two(version), kill_primary)?;
    }
    Ok(())
}

#[test]
fn a_primarys_pod_is_deleted() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("pod-deleted", &three_by_two(version), delete_primary)?;
    }
    Ok(())
}

#[test]
fn a_role_is_handed_over_by_command() -> Result {
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("hand-over", &three_by_two(version), |instance, primary, writer| {
            let heir = instance.hand_over(primary)?;
            instance.wait_settled(6)?;
            writer.wait_acks(SOME)?;
            assert_eq!(instance.primary()?.uid, heir.uid, "nobody takes it back");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_primarys_pod_comes_back_empty() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("pod-restarted-empty", &three_by_two(version), empty_primary)?;
    }
    Ok(())
}

#[test]
fn a_replicas_pod_is_deleted() -> Result {
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("replica-deleted", &three_by_two(version), |instance, primary, writer| {
            delete_pod(&instance.namespace, &replica_of(instance, primary)?.name, None)?;
            writer.wait_acks(SOME)?;
            assert_eq!(instance.shard_primary(0)?.uid, primary.uid);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_primarys_node_is_lost() -> Result {
    if !bed::is_here() {
        return skipped("takes a node's power");
    }
    for version in settings::full_lines()? {
        let _operator = operator::alone()?;
        under_writes("node-lost", &three_by_two(version), |instance, _, writer| {
            let node = node_with_one_primary(instance)?;
            operator::place(&node, false)?;
            let lost = bed::kill_node(&node)?;
            writer.wait_acks(SOME)?;
            lost.end()
        })?;
    }
    Ok(())
}

/// Members of different shards may share a node; losing most primaries with it is another fault.
fn node_with_one_primary(instance: &Instance) -> Result<String> {
    let primaries = (0..3).map(|shard| instance.shard_primary(shard)).collect::<Result<Vec<_>>>()?;
    let on = |node: &str| primaries.iter().filter(|other| other.node == node).count();
    let found = primaries.iter().find(|primary| on(&primary.node) == 1);
    found.map(|primary| primary.node.clone()).with_context(|| format!("all primaries are on one node: {primaries:?}"))
}

#[test]
fn a_majority_of_primaries_dies_at_once() -> Result {
    if !bed::is_here() {
        return skipped("kills processes of nodes");
    }
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("primaries-lost", &three_by_two(version), |instance, primary, _| {
            kill_all(instance, &[primary.clone(), instance.shard_primary(1)?])
        })?;
    }
    Ok(())
}

#[test]
fn all_servers_come_back_with_new_addresses() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("all-pods", &Wanted { claims: true, ..three_by_two(version) }, |instance, _, _| {
            let before = instance.servers()?;
            replace_all(instance, &before)?;
            let same = |pod: &Pod| before.iter().any(|old| old.uid == pod.uid);
            assert!(!instance.servers()?.iter().any(same), "all pods are new ones");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn all_pods_are_deleted_at_once_and_nothing_is_left() -> Result {
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("all-pods-deleted", &three_by_two(version), |instance, _, _| {
            let events = observe::Events::so_far(&instance.namespace)?;
            delete_pods(&instance.namespace, &instance.servers()?, 1)?;
            events.wait(&instance.name, "DataLost", Duration::from_secs(120))?;
            instance.wait_ready()
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
        under_writes("operator-down", &three_by_two(version), |instance, primary, _| {
            operator::stop()?;
            // The cluster elects by itself, and the agent of the old primary sees to it that nothing is lost.
            kill_server(primary)?;
            let elected = instance.wait_shard_primary_other_than(0, primary).map(|_| ());
            operator::start()?;
            elected?;
            instance.wait_ready()
        })?;
    }
    Ok(())
}
