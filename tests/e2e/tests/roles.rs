//! Each fault of each role of each architecture, and each row of docs/losses.md. Two tables say for every one of them what shows
//! it: a run of this file, another test, or a scenario. The runs are for full runs; that the tables are whole and that what they
//! name exists is looked at in each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use vko_e2e::instance::{Instance, Pod, Wanted};
use vko_e2e::settings::Tier;
use vko_e2e::strike::{SOME, delete_pod, delete_pods, kill_server, on};
use vko_e2e::writer::Writer;
use vko_e2e::{Result, bed, figure, kubectl, losses, operator, settings, skipped, space};
use vko_script::Scenario;
use vko_script::step::{Step, Writes};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Primary,
    Replica,
    Sentinel,
    MostSentinels,
    MostPrimaries,
}
use Role::{MostPrimaries, MostSentinels, Primary, Replica, Sentinel};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    ContainerKilled,
    PodDeleted,
    RestartedEmpty,
    NodeLost,
    CutOff,
}
use Fault::{ContainerKilled, CutOff, NodeLost, PodDeleted, RestartedEmpty};

const FAULTS: [Fault; 5] = [ContainerKilled, PodDeleted, RestartedEmpty, NodeLost, CutOff];
const ROLES: [(&str, &[Role]); 3] = [
    ("replica", &[Primary, Replica]),
    ("failover", &[Primary, Replica, Sentinel, MostSentinels]),
    ("cluster", &[Primary, Replica, MostPrimaries]),
];

/// What shows that a fault costs no more than a row of docs/losses.md says, after that row.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// A run of this file.
    Here(&'static str),
    /// `file::test` of this folder.
    By(&'static str, &'static str),
    /// A folder of tests/scenarios.
    Folder(&'static str, &'static str),
}
use Shown::{By, Folder, Here};

impl Shown {
    fn row(self) -> &'static str {
        let (Here(row) | By(row, _) | Folder(row, _)) = self;
        row
    }
}

const CELLS: &[(&str, Role, Fault, Shown)] = &[
    ("replica", Primary, ContainerKilled, By("container-killed", "faults::the_primarys_container_is_killed")),
    ("replica", Primary, PodDeleted, By("pod-deleted", "faults::the_primarys_pod_is_deleted")),
    ("replica", Primary, RestartedEmpty, By("pod-restarted-empty", "faults::the_primarys_pod_comes_back_empty")),
    ("replica", Primary, NodeLost, By("node-lost", "faults::the_primarys_node_is_lost")),
    ("replica", Primary, CutOff, By("partition-primary", "faults::the_primarys_node_is_cut_off_with_the_operator_elsewhere")),
    ("replica", Replica, ContainerKilled, Here("replica-lost")),
    ("replica", Replica, PodDeleted, Here("replica-lost")),
    ("replica", Replica, RestartedEmpty, Here("replica-lost")),
    ("replica", Replica, NodeLost, Here("replica-lost")),
    ("replica", Replica, CutOff, By("partition-replica", "faults::a_replicas_node_is_cut_off")),
    ("failover", Primary, ContainerKilled, By("container-killed", "failover::the_primarys_container_is_killed")),
    ("failover", Primary, PodDeleted, By("pod-deleted", "failover::the_primarys_pod_is_deleted")),
    ("failover", Primary, RestartedEmpty, By("pod-restarted-empty", "failover::the_primarys_pod_comes_back_empty")),
    ("failover", Primary, NodeLost, By("node-lost", "failover::the_primarys_node_is_lost")),
    ("failover", Primary, CutOff, Here("partition-primary")),
    ("failover", Replica, ContainerKilled, Here("replica-lost")),
    ("failover", Replica, PodDeleted, Here("replica-lost")),
    ("failover", Replica, RestartedEmpty, Here("replica-lost")),
    ("failover", Replica, NodeLost, Here("replica-lost")),
    ("failover", Replica, CutOff, Here("replica-lost")),
    ("failover", Sentinel, ContainerKilled, Here("sentinel-lost")),
    ("failover", Sentinel, PodDeleted, By("sentinel-deleted", "failover::a_sentinel_is_replaced_and_nobody_counts_a_ghost")),
    ("failover", Sentinel, RestartedEmpty, Here("sentinel-lost")),
    ("failover", Sentinel, NodeLost, Here("sentinel-lost")),
    ("failover", Sentinel, CutOff, Here("sentinel-lost")),
    ("failover", MostSentinels, ContainerKilled, Here("sentinel-lost")),
    ("failover", MostSentinels, PodDeleted, Here("sentinel-lost")),
    ("failover", MostSentinels, RestartedEmpty, Here("sentinel-lost")),
    // Two of the test bed's three nodes; the operator and what it runs on would go with them.
    ("failover", MostSentinels, NodeLost, Folder("sentinel-lost", "failover-most-nodes-lose-power")),
    ("failover", MostSentinels, CutOff, Folder("sentinel-lost", "failover-most-sentinels-cut-off")),
    ("cluster", Primary, ContainerKilled, By("container-killed", "clusters::a_primarys_container_is_killed")),
    ("cluster", Primary, PodDeleted, By("pod-deleted", "clusters::a_primarys_pod_is_deleted")),
    ("cluster", Primary, RestartedEmpty, By("pod-restarted-empty", "clusters::a_primarys_pod_comes_back_empty")),
    ("cluster", Primary, NodeLost, By("node-lost", "clusters::a_primarys_node_is_lost")),
    ("cluster", Primary, CutOff, Here("partition-primary")),
    ("cluster", Replica, ContainerKilled, Here("replica-deleted")),
    ("cluster", Replica, PodDeleted, By("replica-deleted", "clusters::a_replicas_pod_is_deleted")),
    ("cluster", Replica, RestartedEmpty, Here("replica-deleted")),
    ("cluster", Replica, NodeLost, Here("replica-deleted")),
    ("cluster", Replica, CutOff, Here("replica-deleted")),
    ("cluster", MostPrimaries, ContainerKilled, By("primaries-lost", "clusters::a_majority_of_primaries_dies_at_once")),
    ("cluster", MostPrimaries, PodDeleted, Here("pod-deleted")),
    ("cluster", MostPrimaries, RestartedEmpty, Here("primaries-lost")),
    ("cluster", MostPrimaries, NodeLost, Folder("primaries-lost", "cluster-most-nodes-lose-power")),
    ("cluster", MostPrimaries, CutOff, Folder("partition-primary", "cluster-most-primaries-cut-off")),
];

/// The rows whose fault strikes no single role.
const OTHERS: &[(&str, Shown)] = &[
    ("replica", Folder("hand-over", "primary-is-removed")),
    ("replica", Folder("planned", "rolled-to-a-newer-line")),
    ("replica", By("scale", "scale::one_to_three_to_five_to_two_members")),
    ("replica", By("all-pods", "faults::all_servers_die_at_once_and_read_their_files_again")),
    ("replica", By("all-pods-deleted", "faults::all_pods_are_deleted_at_once_and_nothing_is_left")),
    ("replica", By("alone-killed", "faults::the_only_server_is_killed_and_reads_its_snapshot_again")),
    ("replica", Folder("disk-full", "full-disk")),
    ("replica", By("operator-down", "faults::the_operator_is_down_meanwhile")),
    ("replica", By("operator-cut-off", "faults::the_operator_is_cut_off_from_the_servers_and_does_nothing")),
    ("failover", Folder("hand-over", "failover-primary-is-removed")),
    ("failover", By("sentinels-lost", "failover::a_majority_of_sentinels_is_lost_and_the_primary_after_them")),
    ("failover", By("all-pods", "failover::everything_is_deleted_at_once_and_comes_back_from_claims")),
    ("failover", Folder("all-pods-deleted", "failover-all-pods-deleted")),
    ("failover", Folder("disk-full", "failover-full-disk")),
    ("failover", By("operator-down", "failover::the_operator_is_down_meanwhile")),
    ("cluster", By("hand-over", "clusters::a_role_is_handed_over_by_command")),
    ("cluster", By("all-pods", "clusters::all_servers_come_back_with_new_addresses")),
    ("cluster", By("all-pods-deleted", "clusters::all_pods_are_deleted_at_once_and_nothing_is_left")),
    ("cluster", Folder("disk-full", "cluster-full-disk")),
    ("cluster", By("operator-down", "clusters::the_operator_is_down_meanwhile")),
];

#[test]
fn every_fault_of_every_role_has_what_shows_it() {
    for (arch, roles) in ROLES {
        for (role, fault) in roles.iter().flat_map(|role| FAULTS.map(|fault| (*role, fault))) {
            let cells = CELLS.iter().filter(|(a, r, f, _)| (*a, *r, *f) == (arch, role, fault)).count();
            assert_eq!(cells, 1, "{arch}, {role:?}, {fault:?}");
        }
    }
    let cells: usize = ROLES.iter().map(|(_, roles)| roles.len() * FAULTS.len()).sum();
    assert_eq!(CELLS.len(), cells, "a cell of no role");
}

/// What nobody measures is no promise.
#[test]
fn every_row_of_the_page_is_shown_and_what_shows_it_exists() -> Result {
    let all: Vec<(&str, Shown)> = CELLS.iter().map(|(arch, _, _, shown)| (*arch, *shown)).chain(OTHERS.iter().copied()).collect();
    for (arch, _) in ROLES {
        let shown: BTreeSet<&str> = all.iter().filter(|(of, _)| *of == arch).map(|(_, shown)| shown.row()).collect();
        let rows: BTreeSet<&str> = losses::faults(arch)?.into_iter().collect();
        assert_eq!(shown, rows, "{arch}: rows that are shown, and rows of docs/losses.md");
    }
    for (arch, shown) in all {
        match shown {
            Here(_) => {}
            By(row, test) => holds_to(row, test),
            Folder(row, name) => ends_with(arch, row, name)?,
        }
    }
    Ok(())
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// There is such a test, and it names the row.
fn holds_to(row: &str, test: &str) {
    let (file, name) = test.split_once("::").expect("file::test");
    let source = std::fs::read_to_string(here(&format!("tests/{file}.rs"))).unwrap_or_default();
    let (_, rest) = source.split_once(&format!("#[test]\nfn {name}()")).unwrap_or_else(|| panic!("there is no test {test}"));
    let (body, _) = rest.split_once("\n}\n").expect("an end");
    assert!(body.contains(&format!("\"{row}\"")), "{test} isn't held to {row}");
}

/// There is such a scenario of that architecture, and its client is held to the row.
fn ends_with(arch: &str, row: &str, name: &str) -> Result {
    let scenario = Scenario::read(&here("../scenarios").join(name))?;
    let verified = |step: &Step| matches!(step, Step::Writes(Writes::Verify(fault)) if fault == row);
    assert!(scenario.steps.iter().any(verified), "{name} isn't held to {row}");
    let mut manifests = scenario.manifests.values().flatten();
    assert!(manifests.all(|manifest| manifest["spec"]["arch"] == arch), "{name} isn't of the {arch} architecture");
    Ok(())
}

#[test]
fn of_the_replica_architecture() -> Result {
    each_of(&Wanted { apart: true, ..Wanted::default() })
}

#[test]
fn of_the_failover_architecture() -> Result {
    each_of(&Wanted { apart: true, ..Wanted::failover(3, 3) })
}

#[test]
fn of_the_cluster_architecture() -> Result {
    each_of(&Wanted { apart: true, ..Wanted::cluster(3, 2) })
}

/// The cells of an architecture that are shown here, on the newest line (others show the primary's on each line): one after the
/// other on one instance, and on another one after a failure. Tells all that failed.
fn each_of(wanted: &Wanted) -> Result {
    if settings::tier()? == Tier::Quick {
        return skipped("full tier only");
    }
    if !bed::is_here() {
        return skipped("kills processes, and takes nodes away");
    }
    let _operator = operator::alone()?;
    let arch = wanted.arch.name();
    let mut left = CELLS.iter().filter(|(of, _, _, shown)| *of == arch && matches!(shown, Here(_)));
    let mut failures = Vec::new();
    while let Some(first) = left.next() {
        let ran = space::with(&format!("roles-{arch}-{}", failures.len()), |namespace| {
            let instance = Instance::create(namespace, "x", wanted)?;
            instance.wait_writable()?;
            std::iter::once(first).chain(left.by_ref()).try_for_each(|(_, role, fault, shown)| {
                let (cell, began) = (format!("{arch}, {role:?}, {fault:?}"), Instant::now());
                let strike =
                    |instance: &Instance, primary: &Pod, writer: &Writer| strike(instance, *role, *fault, primary, writer);
                on(&instance, wanted.pods(), shown.row(), strike).with_context(|| cell.clone())?;
                figure(&format!("roles: {cell}, s"), began.elapsed().as_secs());
                Ok(())
            })
        });
        failures.extend(ran.err().map(|error| format!("{error:#}")));
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// The fault, until it is over, and what it must lead to meanwhile.
fn strike(instance: &Instance, role: Role, fault: Fault, primary: &Pod, writer: &Writer) -> Result {
    let takes_a_node = matches!(fault, NodeLost | CutOff);
    let victims = victims(instance, role, primary, takes_a_node)?;
    if takes_a_node {
        instance.part_from_primaries(&victims[0])?;
    }
    let before = instance.primaries()?;
    match fault {
        ContainerKilled => victims.iter().try_for_each(kill_server)?,
        PodDeleted => victims.iter().try_for_each(|pod| delete_pod(&instance.namespace, &pod.name, None))?,
        RestartedEmpty => {
            victims.iter().try_for_each(kill_server)?;
            delete_pods(&instance.namespace, &victims, 1)?;
        }
        NodeLost | CutOff => return with_its_node(instance, fault, &victims[0], &before, writer),
    }
    instance.wait_lives_over(&victims)?;
    succeeded(instance, &victims, &before, writer)
}

fn with_its_node(instance: &Instance, fault: Fault, victim: &Pod, before: &[Pod], writer: &Writer) -> Result {
    operator::place(&victim.node, false)?;
    let struck = if fault == NodeLost { bed::kill_node(&victim.node)? } else { bed::partition(&victim.node)? };
    // Until Kubernetes has noticed; the servers have long before.
    kubectl::wait("default", &format!("node/{}", victim.node), "condition=Ready=Unknown", Duration::from_secs(60))?;
    succeeded(instance, std::slice::from_ref(victim), before, writer)?;
    struck.end()
}

/// A primary that was struck has a successor. All others are primaries still, and clients are served.
fn succeeded(instance: &Instance, victims: &[Pod], before: &[Pod], writer: &Writer) -> Result {
    let struck = |pod: &Pod| victims.iter().any(|victim| victim.uid == pod.uid);
    for former in before.iter().filter(|pod| struck(pod)) {
        instance.wait_successor(former)?;
    }
    writer.wait_acks(SOME)?;
    let after = instance.primaries()?;
    let deposed = before.iter().filter(|pod| !struck(pod)).find(|pod| !after.iter().any(|now| now.uid == pod.uid));
    ensure!(deposed.is_none(), "{deposed:?} was not struck, and now these are the primaries: {after:?}");
    Ok(())
}

/// Whom it strikes. A node that goes with them isn't the primary's, but for the primary's own fault.
fn victims(instance: &Instance, role: Role, primary: &Pod, takes_a_node: bool) -> Result<Vec<Pod>> {
    let beside = |pod: &Pod| !takes_a_node || pod.node != primary.node;
    let found: Vec<Pod> = match role {
        Primary => vec![primary.clone()],
        Replica => {
            let mate = |pod: &Pod| pod.workload == primary.workload && pod.uid != primary.uid && beside(pod);
            instance.servers()?.into_iter().filter(mate).take(1).collect()
        }
        Sentinel => instance.sentinels()?.into_iter().filter(beside).take(1).collect(),
        MostSentinels => instance.sentinels()?.into_iter().take(2).collect(),
        MostPrimaries => instance.primaries()?.into_iter().take(2).collect(),
    };
    ensure!(!found.is_empty(), "there is no {role:?} beside {}", primary.name);
    Ok(found)
}
