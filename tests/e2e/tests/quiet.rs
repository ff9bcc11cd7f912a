//! A quiet instance costs nothing: no request but watches and the Lease, no probe but the light one. Other tests may run beside
//! it: what the operator asks for in their namespaces is theirs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::Value;
use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::observe::{Requests, mark, requests};
use vko_e2e::server::{Login, client_field};
use vko_e2e::{Result, bed, figure, operator, skipped, space, wait};

const QUIET: Duration = Duration::from_secs(120);
/// One each 5 s, the one at each end: 26 in two minutes. A busy machine may leave more time between two countings.
fn probes_max(between: Duration) -> u64 {
    between.as_secs().div_ceil(5) + 2
}

/// Commands of a probe, which are sent in one: a cluster's servers are asked for their view, too.
fn commands_of_a_probe(pod: &str) -> u64 {
    if pod.starts_with("drc-") { 3 } else { 1 }
}

#[test]
fn two_minutes_without_a_request_and_with_light_probes_alone() -> Result {
    if !bed::is_here() {
        return skipped("needs the audit log");
    }
    let _operator = operator::shared()?;
    space::with("quiet", |namespace| {
        // Of each architecture one: side by side, the time is spent once.
        let all = [("r", Wanted::default()), ("f", Wanted::failover(2, 3)), ("c", Wanted::cluster(3, 2))];
        let all: Vec<Instance> =
            all.iter().map(|(name, wanted)| Instance::create(namespace, name, wanted)).collect::<Result<_>>()?;
        wait_until_quiet(namespace)?;
        let since = mark()?;
        let (before, at_sentinels) = (sessions(&all)?, connections_to_sentinels(&all)?);
        // The subject itself: time in which nothing may happen.
        std::thread::sleep(QUIET);
        let after = sessions(&all)?;
        assert_eq!(connections_to_sentinels(&all)?, at_sentinels);
        let made = requests(&since, operator::USER)?;
        let count = |wanted: &dyn Fn(&Requests) -> bool| made.iter().filter(|row| wanted(row)).map(|row| row.count).sum::<u64>();
        figure("quiet: requests in 2 minutes for the Lease", count(&|row| row.resource == "leases"));
        figure("quiet: watches begun anew in 2 minutes", count(&|row| row.verb == "watch"));
        let noise = noise(made, namespace);
        assert_eq!(noise, []);
        the_same_connections_with_few_commands(&before, &after);
        figure("quiet: memory of the acting operator with what else it looks after, KiB", resident_kib(&operator::leader()?)?);
        Ok(())
    })
}

/// Watches, and the Lease: renewed by who holds it, read by who waits for it.
fn is_allowed(row: &Requests) -> bool {
    row.verb == "watch" || (row.resource == "leases" && ["get", "update"].contains(&row.verb.as_str()))
}

/// Requests that a quiet instance must not cause: about it, about the operator's own objects, and about nothing in a namespace.
fn noise(made: Vec<Requests>, namespace: &str) -> Vec<Requests> {
    let ours = |row: &Requests| row.namespace.is_empty() || [namespace, operator::NAME].contains(&row.namespace.as_str());
    made.into_iter().filter(|row| ours(row) && !is_allowed(row)).collect()
}

/// What became Ready may still have a last write on its way.
fn wait_until_quiet(namespace: &str) -> Result {
    wait::until("five seconds without a request", Duration::from_secs(90), || {
        let since = mark()?;
        std::thread::sleep(Duration::from_secs(5));
        let noise = noise(requests(&since, operator::USER)?, namespace);
        Ok(wait::Look::when(noise.is_empty().then_some(()), || format!("{noise:?}")))
    })
}

/// The operator's sessions at a server.
struct Sessions {
    /// Connection id and commands so far.
    each: Vec<(String, u64)>,
    /// Just before and just after they were counted.
    counted: (Instant, Instant),
}

/// The operator's sessions by pod.
fn sessions(instances: &[Instance]) -> Result<BTreeMap<String, Sessions>> {
    let mut sessions = BTreeMap::new();
    for instance in instances {
        for pod in instance.servers()? {
            let begun = Instant::now();
            let each = of_operator(&instance.at(&pod, "default")?)?;
            sessions.insert(pod.name.clone(), Sessions { each, counted: (begun, Instant::now()) });
        }
    }
    Ok(sessions)
}

fn of_operator(server: &Login) -> Result<Vec<(String, u64)>> {
    let clients: String = server.ask(&["CLIENT", "LIST"])?;
    let own = clients.lines().filter(|line| client_field(line, "user") == Some("operator"));
    let facts = own.map(|line| {
        let field = |name| client_field(line, name).unwrap_or_else(|| panic!("no {name} in {line}"));
        (field("id").to_owned(), field("tot-cmds").parse().expect("a number"))
    });
    Ok(facts.collect())
}

/// The acting operator's connections to each Sentinel, by its own end: one for questions and one for what the Sentinel publishes.
/// No account of a Sentinel may list clients, so the pod's kernel is asked.
fn connections_to_sentinels(instances: &[Instance]) -> Result<BTreeMap<String, BTreeSet<SocketAddr>>> {
    let leader = operator::leader()?;
    let ip: IpAddr = leader["status"]["podIP"].as_str().expect("the operator has an address").parse()?;
    let mut all = BTreeMap::new();
    for pod in instances.iter().map(Instance::sentinels).collect::<Result<Vec<_>>>()?.concat() {
        let mut peers = bed::peers(&pod.uid, 26379)?;
        peers.retain(|peer| peer.ip() == ip);
        assert_eq!(peers.len(), 2, "{}: {peers:?}", pod.name);
        all.insert(pod.name, peers);
    }
    assert!(!all.is_empty(), "no Sentinel was looked at");
    Ok(all)
}

fn the_same_connections_with_few_commands(before: &BTreeMap<String, Sessions>, after: &BTreeMap<String, Sessions>) {
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (pod, then) in before {
        let most = probes_max(after[pod].counted.1 - then.counted.0);
        let (then, now) = (then.each.as_slice(), after[pod].each.as_slice());
        let ([(id_then, commands_then)], [(id_now, commands_now)]) = (then, now) else { panic!("{pod}: {then:?}, then {now:?}") };
        assert_eq!(id_then, id_now, "{pod}");
        let probes = (commands_now - commands_then).div_ceil(commands_of_a_probe(pod));
        figure(&format!("quiet: light probes of {pod}"), probes);
        assert!((1..=most).contains(&probes), "{pod}: {probes}, of {most} at most");
    }
}

fn resident_kib(pod: &Value) -> Result<String> {
    let uid = pod["metadata"]["uid"].as_str().expect("a pod has a UID");
    let process = bed::processes(uid, "valkey-operator")?.pop().expect("the operator runs");
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    Ok(line.trim().trim_end_matches(" kB").to_owned())
}
