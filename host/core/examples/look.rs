//! What a look at a cluster costs the host: `cargo run --example look`. Clusters of up to 128 shards of 5, quiet, and while every
//! server is of another mind: each suspects a third of the others, and believes something of three nodes that nobody else does.
//! With a folder as its argument it writes the observations there, for the example `decide` of `host/engine`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use vko_core::guard::{Circumstances, guard};
use vko_core::ledger::Ledger;
use vko_core::memory::{Answer, Memory};
use vko_core::object::{Kind, Object};
use vko_core::observe::{Inputs, observe};
use vko_model::cluster::{ClusterInfo, ClusterNodes};
use vko_model::info::Info;
use vko_model::slots::SlotSet;
use vko_wit::observation::Observed;

/// Now (monotonic); all have answered a second ago.
const NOW: Duration = Duration::from_secs(1_000);
const ROUNDS: usize = 11;

fn main() -> Result<(), Box<dyn Error>> {
    for (shards, members) in [(3, 2), (32, 2), (128, 5)] {
        for torn in [false, true] {
            look(Cluster { shards, members, torn })?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Cluster {
    shards: u32,
    members: u32,
    torn: bool,
}

fn id(node: u32) -> String {
    format!("{:040x}", u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn ip(node: u32) -> String {
    format!("10.0.{}.{}", node / 250, node % 250 + 1)
}

impl Cluster {
    fn count(self) -> u32 {
        self.shards * self.members
    }

    /// CLUSTER NODES of one of them.
    fn nodes(self, of: u32) -> String {
        let slots = SlotSet::all().split(u16::try_from(self.shards).unwrap_or(u16::MAX));
        let mut text = String::new();
        for node in 0..self.count() {
            let (shard, myself) = (node % self.shards, if node == of { "myself," } else { "" });
            let suspects = self.torn && node != of && (node.wrapping_mul(31) ^ of.wrapping_mul(17)).is_multiple_of(3);
            let alone = self.torn && (0..3).any(|n| (of * 7 + n * 11) % self.count() == node);
            let (role, primary) = if node < self.shards { ("master", "-".to_owned()) } else { ("slave", id(shard)) };
            let (doubt, epoch) = (if suspects { ",fail?" } else { "" }, if alone { 1_000 + of } else { shard + 1 });
            let own = if node < self.shards { slots[shard as usize].to_string() } else { String::new() };
            let _ = writeln!(
                text,
                "{} {}:6379@16379 {myself}{role}{doubt} {primary} 0 0 {epoch} connected {own}",
                id(node),
                ip(node)
            );
        }
        text
    }

    fn info(self, of: u32) -> Info {
        let role = if of < self.shards {
            "role:master\r\n".to_owned()
        } else {
            format!(
                "role:slave\r\nmaster_host:{}\r\nmaster_port:6379\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\nslave_repl_offset:9\r\n",
                ip(of % self.shards)
            )
        };
        let attached: String = (1..self.members)
            .map(|n| format!("slave{}:ip={},port=6379,state=online,offset=9,lag=0\r\n", n - 1, ip(n * self.shards + of)))
            .collect();
        let attached = if of < self.shards { attached } else { String::new() };
        Info::parse(&format!(
            "valkey_version:9.1.2\r\nrun_id:run-{of}\r\nuptime_in_seconds:900\r\nloading:0\r\n{role}{attached}master_replid:h\r\nmaster_repl_offset:9\r\n# Keyspace\r\n"
        ))
    }

    fn pods(self) -> Vec<Object> {
        let pod = |node| {
            Object::new(json!({
                "metadata": {"name": format!("drc-x-{}-{}", node % self.shards, node / self.shards), "uid": format!("uid-{node}")},
                "spec": {"nodeName": "node"},
                "status": {"phase": "Running", "podIP": ip(node), "containerStatuses": [{"name": "valkey", "state": {"running": {}}}]},
            }))
        };
        (0..self.count()).map(pod).collect()
    }

    fn observe(self, memory: &Memory, pods: &[Object]) -> Observed {
        let spec = json!({"replicas": {"shards": self.shards, "replicasOfShard": self.members}});
        let metadata = json!({"name": "x", "namespace": "shop", "uid": "topology"});
        let topology = Object::new(json!({"metadata": metadata, "spec": spec}));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let node = Object::new(json!({"metadata": {"name": "node"}, "status": {"conditions": ready}}));
        let (ledger, servers) = (Ledger { formed: Some(true), ..Ledger::default() }, memory.snapshot());
        observe(&Inputs {
            pods,
            nodes: &[node],
            servers: &servers,
            places: &memory.places(),
            monotonic: NOW,
            looking_for: NOW,
            ..Inputs::bare(&topology, Kind::Cluster, &ledger)
        })
    }
}

fn look(cluster: Cluster) -> Result<(), Box<dyn Error>> {
    let (memory, pods) = (Memory::default(), cluster.pods());
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let before = resident();
    for node in 0..cluster.count() {
        let info = ClusterInfo::parse("cluster_state:ok\r\ncluster_current_epoch:9\r\ncluster_my_epoch:1\r\n");
        let (text, of) = (cluster.nodes(node), cluster.info(node));
        let started = Instant::now();
        let answer = Answer::Cluster(Box::new(of), info, 7, Some(ClusterNodes::parse(&text)?));
        let then = NOW - Duration::from_secs(1);
        memory.note(&format!("uid-{node}"), then, then, Ok(answer));
        times.entry("1 read one answer").or_default().push(started.elapsed());
    }
    let grown = resident().saturating_sub(before);
    let calm = Circumstances { lease: true, fresh: true, cut_off: false, current: true };
    let (mut size, mut steps) = (0, 0);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let observed = cluster.observe(&memory, &pods);
        times.entry("2 observe").or_default().push(started.elapsed());
        let started = Instant::now();
        let plan = vko_cluster::decide(&observed).map_err(|error| format!("{error:?}"))?;
        times.entry("3 decide, native").or_default().push(started.elapsed());
        let started = Instant::now();
        steps = guard(&plan, &observed, calm, &[]).tracks.len();
        times.entry("4 guard").or_default().push(started.elapsed());
        let text = serde_json::to_vec(&observed)?;
        size = text.len();
        if let Some(folder) = std::env::args_os().nth(1) {
            let minds = if cluster.torn { "torn" } else { "quiet" };
            std::fs::write(Path::new(&folder).join(format!("{} x {}, {minds}.json", cluster.shards, cluster.members)), text)?;
        }
    }
    let minds = if cluster.torn { "all of another mind" } else { "quiet" };
    println!(
        "{} x {}, {minds}: {grown} kB kept, observation of {} kB, {steps} tracks",
        cluster.shards,
        cluster.members,
        size / 1_000
    );
    for (name, mut all) in times {
        all.sort();
        println!("  {name:<18} median {:>9.1?}  max {:>9.1?}", all[all.len() / 2], all[all.len() - 1]);
    }
    Ok(())
}

/// Memory of this process in kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}
