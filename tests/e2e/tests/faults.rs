//! Faults of servers, pods and nodes while a client writes: what was acknowledged is there, within what docs/losses.md promises.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use vko_e2e::instance::Wanted;
use vko_e2e::losses::{Bound, bound};
use vko_e2e::server::info_field;
use vko_e2e::settings::Tier;
use vko_e2e::strike::{SOME, delete_pods, delete_primary, empty_primary, kill_all, kill_primary, kill_server, under_writes};
use vko_e2e::{Result, bed, observe, operator, settings, skipped, wait};

fn three(version: &'static str) -> Wanted {
    Wanted { version, apart: true, ..Wanted::default() }
}

#[test]
fn the_primarys_container_is_killed() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("container-killed", &three(version), kill_primary)?;
    }
    Ok(())
}

#[test]
fn the_primarys_pod_is_deleted() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("pod-deleted", &three(version), delete_primary)?;
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
        under_writes("pod-restarted-empty", &three(version), empty_primary)?;
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
        under_writes("node-lost", &three(version), |instance, primary, _| {
            operator::place(&primary.node, false)?;
            let lost = bed::kill_node(&primary.node)?;
            instance.wait_primary_other_than(primary)?;
            lost.end()
        })?;
    }
    Ok(())
}

#[test]
fn the_primarys_node_is_cut_off_with_the_operator_elsewhere() -> Result {
    partition("partition-primary", false)
}

#[test]
fn the_primarys_node_is_cut_off_with_the_operator_on_it() -> Result {
    if settings::tier()? == Tier::Quick {
        return skipped("full tier only");
    }
    partition("partition-primary", true)
}

/// Beside the client that everybody is, a second one stays with the old primary: it must stop being answered in time.
fn partition(fault: &str, operator_beside: bool) -> Result {
    if !bed::is_here() {
        return skipped("cuts a node off");
    }
    let _operator = operator::alone()?;
    for version in settings::lines()? {
        under_writes(fault, &three(version), |instance, primary, _| {
            operator::place(&primary.node, operator_beside)?;
            let program = env!("CARGO_BIN_EXE_vko-writer");
            let inside = vko_e2e::inside::Inside::start(program, &primary.node, &instance.at(primary, "default")?)?;
            let cut_unix_ms = vko_e2e::inside::unix_ms();
            let cut = bed::partition(&primary.node)?;
            instance.wait_primary_other_than(primary)?;
            let told = inside.stop()?;
            cut.end()?;
            the_old_primary_stopped_in_time(fault, told, cut_unix_ms)
        })?;
    }
    Ok(())
}

fn the_old_primary_stopped_in_time(fault: &str, told: vko_e2e::inside::Told, cut_unix_ms: u64) -> Result {
    let Bound::Seconds(seconds) = bound("replica", fault)? else { panic!("a partition must have a bound") };
    let after_ms = told.last_unix_ms.saturating_sub(cut_unix_ms);
    vko_e2e::figure(&format!("{fault}: old primary's last acknowledgement after the cut, ms"), after_ms);
    assert!(told.acks > 0 && told.errors > 0, "the client inside showed nothing: {told:?}");
    assert!(Duration::from_millis(after_ms).as_secs_f64() <= seconds, "{told:?}, cut at {cut_unix_ms}, bound {seconds} s");
    Ok(())
}

#[test]
fn a_replicas_node_is_cut_off() -> Result {
    if !bed::is_here() {
        return skipped("cuts a node off");
    }
    for version in settings::full_lines()? {
        let _operator = operator::alone()?;
        under_writes("partition-replica", &three(version), |instance, primary, writer| {
            let replica = instance.pods()?.into_iter().find(|pod| pod.uid != primary.uid).expect("a replica");
            operator::place(&replica.node, false)?;
            let cut = bed::partition(&replica.node)?;
            instance.wait_condition("Ready", "False", Duration::from_secs(60))?;
            writer.wait_acks(SOME)?;
            cut.end()?;
            instance.wait_ready()?;
            assert_eq!(instance.primary()?.uid, primary.uid);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn all_servers_die_at_once_and_read_their_files_again() -> Result {
    if !bed::is_here() {
        return skipped("kills processes of nodes");
    }
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        under_writes("all-pods", &Wanted { claims: true, ..three(version) }, |instance, _, _| {
            kill_all(instance, &instance.pods()?)
        })?;
    }
    Ok(())
}

#[test]
fn all_pods_are_deleted_at_once_and_nothing_is_left() -> Result {
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("all-pods-deleted", &three(version), |instance, _, _| {
            let events = observe::Events::so_far(&instance.namespace)?;
            delete_pods(&instance.namespace, &instance.pods()?, 1)?;
            events.wait(&instance.name, "DataLost", Duration::from_secs(120))?;
            instance.wait_ready()
        })?;
    }
    Ok(())
}

#[test]
fn the_only_server_is_killed_and_reads_its_snapshot_again() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    for version in settings::full_lines()? {
        let _operator = operator::shared()?;
        under_writes("alone-killed", &Wanted { version, members: 1, ..Wanted::default() }, |instance, primary, _| {
            let server = instance.at(primary, "default")?;
            server.ask::<String>(&["SET", "before", "yes"])?;
            // By its own rule: 10,000 writes within a minute.
            wait::until("a snapshot", Duration::from_secs(150), || {
                let info: String = server.ask(&["INFO", "persistence"])?;
                let saved = info_field(&info, "rdb_saves").is_some_and(|saves| saves != "0");
                Ok(wait::Look::when(saved.then_some(()), || info))
            })?;
            kill_server(primary)?;
            instance.wait_lives_over(std::slice::from_ref(primary))?;
            instance.wait_settled(1)?;
            assert_eq!(server.ask::<Option<String>>(&["GET", "before"])?.as_deref(), Some("yes"));
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn the_operator_is_down_meanwhile() -> Result {
    if !bed::is_here() {
        return skipped("kills a process of a node");
    }
    let _operator = operator::alone()?;
    for version in settings::lines()? {
        under_writes("operator-down", &three(version), |instance, primary, writer| {
            operator::stop()?;
            writer.wait_acks(SOME)?;
            assert_eq!(instance.primary()?.uid, primary.uid);
            operator::start()?;
            instance.wait_ready()
        })?;
    }
    for version in settings::full_lines()? {
        under_writes("container-killed", &three(version), |instance, primary, _| {
            operator::stop()?;
            kill_server(primary)?;
            operator::start()?;
            instance.wait_primary_other_than(primary).map(|_| ())
        })?;
    }
    Ok(())
}

#[test]
fn the_operator_is_cut_off_from_the_servers_and_does_nothing() -> Result {
    if !bed::is_here() {
        return skipped("loses a pod's traffic");
    }
    let _operator = operator::alone()?;
    for version in settings::lines()? {
        under_writes("operator-cut-off", &three(version), |instance, primary, writer| {
            let before = instance.lives()?;
            let leader = operator::leader()?;
            let text = |pointer: &str| leader.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
            let cut = bed::drop_traffic(&text("/spec/nodeName"), &text("/status/podIP"), "6379")?;
            // Before it is known, the last answers grow old: Unknown as well, for another reason.
            instance.wait_reason("Ready", "OperatorCutOff", Duration::from_secs(90))?;
            writer.wait_acks(SOME)?;
            cut.end()?;
            instance.wait_condition("Ready", "True", Duration::from_secs(90))?;
            assert_eq!((instance.lives()?, instance.primary()?.uid), (before, primary.uid.clone()));
            Ok(())
        })?;
    }
    Ok(())
}
